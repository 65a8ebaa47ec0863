/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DIRECTORY_CLIENT_H
#define MESH_DIRECTORY_CLIENT_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "lidfind.h"
#include "mesh.h"
#include "move.h"
#include "pathfind.h"

/*
 * The agent's directory of hosts, mapped into this process. All functions take process->directory.lock, and may be
 * called from any thread. Without an agent a call costs one look at the clock. Times are mesh_now_ns().
 */

/* Answer of the directory about one connection, copied: nothing points into the mapping. */
struct mesh_path_decision {
	enum mv_path_verdict verdict;
	char host[64]; /* of the destination; "": not known */
	bool drained; /* LOCAL_DOWN, REMOTE_DOWN: the administrator drained that port */
	uint32_t agent_version; /* of that host; 0: no agent was heard */
	struct mv_host_id host_id; /* of that host; zero: not known */
	uint64_t generation; /* of the directory; 0: there is none */
	uint32_t n_own_rails; /* of this host */
	size_t n_paths;
	struct mv_path paths[MV_MOVE_MAX_PATHS]; /* best first; only if the verdict needs another path */
};

/** mesh_path_decision_none - nothing is known; @paths stays as it is, because that is long */
static inline void mesh_path_decision_none(struct mesh_path_decision *ret)
{
	memset(ret, 0, offsetof(struct mesh_path_decision, paths));
	ret->verdict = MV_PATH_UNKNOWN;
}

/**
 * mesh_directory_decide - can the requested path work, and if not, which other paths are there?
 * @ret: MV_PATH_UNKNOWN without a live agent, without memory, or if the file cannot be read
 *
 * Cancellation is off.
 */
void mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret);

/** mesh_directory_verdict - mesh_directory_decide() without paths: the search for paths is by far the slowest part */
void mesh_directory_verdict(const struct mv_path_request *request, struct mesh_path_decision *ret);

/** mesh_directory_paths - mesh_directory_decide() with all other paths, for any verdict, best first */
void mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);

/**
 * mesh_directory_lid - mv_lid_find(): the ends of an InfiniBand connection by LID
 *
 * Return: as mv_lid_find(); -ENOENT also without a live agent.
 */
int mesh_directory_lid(const char *device, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret);

/* A rail of this host, by its names in the directory. */
struct mesh_directory_rail {
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port;
	uint8_t link_layer;
};

/**
 * mesh_directory_rail - the rail of this host that has a GID, if the rail is not excluded
 * @type: enum mv_gid_type
 *
 * Return: 0 or -ENOENT.
 */
int mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret);

/**
 * mesh_directory_is_stranger - can only a query of the agent tell which host has an address?
 * @routed: the kernel has a route there
 *
 * True for an address in doubt (mesh_directory_is_doubted()). True for an address that the directory lacks, and that is
 * in no network of this host's rails; beacons announce the addresses in those networks. False without a live agent, and
 * for link-local addresses.
 */
bool mesh_directory_is_stranger(const union ibv_gid *gid, bool routed);

/**
 * mesh_directory_is_doubted - mv_dir_gid_is_in_doubt() of an address; false without a live agent, and if no host
 * announces the address
 */
bool mesh_directory_is_doubted(const union ibv_gid *gid, bool routed);

/* Does the error of a verbs call say that the kernel finds no neighbour, or no route (drivers/infiniband/core/addr.c)? */
static inline bool mesh_is_nobody_there(int err)
{
	return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH || err == ENODATA;
}

/**
 * mesh_directory_note_absent - the kernel has found no neighbour at @remote for a connection, or an address handle,
 * from @local
 *
 * mesh_directory_is_absent() is true for the next ten seconds.
 */
void mesh_directory_note_absent(const union ibv_gid *local, const union ibv_gid *remote);
bool mesh_directory_is_among_absent(const union ibv_gid *local, const union ibv_gid *remote);
static inline bool mesh_directory_is_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	return atomic_load_explicit(&mesh_root.process->directory.has_absent, memory_order_relaxed) &&
	       mesh_directory_is_among_absent(local, remote);
}

/** mesh_directory_may_join - mv_path_may_join(); true if the directory cannot be read */
bool mesh_directory_may_join(const union ibv_gid *local, const union ibv_gid *remote);

/** mesh_directory_forget - there is a new directory: do not use the mapped one any more */
void mesh_directory_forget(void);

/** mesh_directory_rest - unmap the former directory, which has megabytes on a large fleet; call when there is time */
void mesh_directory_rest(void);

/**
 * mesh_directory_renew - there is a new agent, whose directory is another file
 *
 * Until the new file exists, the old one is valid for MV_DIRECTORY_STALE_NS.
 */
void mesh_directory_renew(void);

/** mesh_directory_alive - does another host with a live agent have that GID? */
bool mesh_directory_alive(const union ibv_gid *gid);

/**
 * mesh_directory_has_path - does the directory have both ends of a path: a GID of this host, and a GID of a host with
 * an agent?
 *
 * True also if the directory cannot be read: then the caller asks the agent. process->monitor.lock may be held.
 */
bool mesh_directory_has_path(const union ibv_gid *local, const union ibv_gid *remote);

enum mesh_holder {
	MESH_HOLDER_UNKNOWN, /* no host is known to have it */
	MESH_HOLDER_SAME,
	MESH_HOLDER_OTHER, /* other hosts have it, and that host does not */
};

/**
 * mesh_directory_holder - does that host have a GID?
 * @ret_flags: written for MESH_HOLDER_SAME: enum mv_dir_host_flags
 */
enum mesh_holder mesh_directory_holder(const struct mv_host_id *host, const union ibv_gid *gid, uint32_t *ret_flags);

/** mesh_directory_n_holders - number of hosts that have a GID; 0: none, or there is no directory */
unsigned int mesh_directory_n_holders(const union ibv_gid *gid);

/** mesh_directory_same_rail - does one rail, of any host, have both GIDs? */
bool mesh_directory_same_rail(const union ibv_gid *a, const union ibv_gid *b);

/**
 * mesh_directory_qualified - is a device of this host qualified with that library?
 *
 * If the directory does not have the device any more, or there is no agent, the last known answer counts.
 */
enum mv_dir_qualified mesh_directory_qualified(const char *device, uint32_t library);

/* The rail that serves connections of a port that is down: mv_stand_in_find(). */
struct mesh_directory_stand_in {
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port;
	uint16_t mtu_bytes; /* 0: unknown, as the next */
	uint32_t rate_mbps;
	char host[64]; /* a host that it reaches */
};

/** mesh_directory_stand_in - mv_stand_in_find() for a port of this host. Return: as there; -ENOENT: no live agent. */
int mesh_directory_stand_in(const char *device, uint8_t port_num, struct mesh_directory_stand_in *ret);

/** mesh_directory_agent - is there a live agent on this host? */
bool mesh_directory_agent(void);

#endif
