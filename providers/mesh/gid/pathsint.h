/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATHSINT_H
#define MESH_PATHSINT_H

#include "paths.h"
#include "topo_netlink.h"

/* Shared by paths*.c. */

/* The network namespace of the process. Made with the first decision; process->paths.lock. */
struct mesh_paths {
	uint64_t generation; /* of the process that made it */
	uint64_t number; /* unique, from 1; see process->paths.watched */
	uint64_t network_namespace; /* of the sockets */
	struct mv_netlink netlink;
	bool current; /* @net has all changes that netlink has reported */
	bool told; /* netlink has reported a change since @net was dumped */
	bool broken; /* the program has closed a descriptor, and reused its number */
	uint64_t changed_ns; /* last change of netdevs or addresses; before the first: opening of the socket */
	uint64_t n_routes; /* changes of routes and rules; from 1 */
	struct mv_topo net; /* netdevs and addresses; routes only during a decision */
};

/* ---- paths.c; all but the first two with process->paths.lock held ---- */

/** mesh_paths_lock - take process->paths.lock, and disable cancellation. Return: pass it to mesh_paths_unlock(). */
MV_ACQUIRES(&mesh_root.process->paths.lock) int mesh_paths_lock(void);
MV_RELEASES(&mesh_root.process->paths.lock) void mesh_paths_unlock(int cancel);

/**
 * mesh_paths_get - the paths of this process, opened if needed
 * @look: in: the caller reads changes, so check the descriptor; out: set if the caller has to read them
 *
 * Return: NULL: the network namespace cannot be read; the reason is logged.
 */
struct mesh_paths *mesh_paths_get(uint64_t generation, bool *look);
/** mesh_paths_own - the paths of this process; NULL: none */
struct mesh_paths *mesh_paths_own(void);
/** mesh_paths_namespace - id of this thread's network namespace; 0: /proc is not mounted */
uint64_t mesh_paths_namespace(void);
/** mesh_paths_is_watched - does the helper thread sleep until something changes? It may wake up at any time. */
bool mesh_paths_is_watched(const struct mesh_paths *paths);
/** mesh_paths_notice - read changes from netlink; the descriptor was checked before */
void mesh_paths_notice(struct mesh_paths *paths, uint64_t now_ns);
/** mesh_paths_check_requests - before each request: is the request descriptor intact? Return: 0 or -EBADF. */
int mesh_paths_check_requests(struct mesh_paths *paths);
/** mesh_paths_read_net - dump netdevs and addresses. Return: 0; -errno, which is logged. */
int mesh_paths_read_net(struct mesh_paths *paths);

/* ---- paths_tables.c ---- */

/** mesh_paths_refresh_tables - read a context's GID tables; process->paths.lock. Return: 0; -errno, which is logged. */
int mesh_paths_refresh_tables(struct mesh_context *mc, struct ibv_context *verbs, uint64_t now_ns);

/* ---- paths_log.c ---- */

/** mesh_paths_log_decision - log a repair or a replacement; write choice->why_not for what cannot be repaired */
void mesh_paths_log_decision(const struct mesh_paths *paths, const struct mesh_context *mc, const struct mv_request *request,
			     const struct mv_decision *decision, struct mesh_choice *choice);

#endif
