/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WAYS_H
#define MESH_WAYS_H

#include "conn.h"

/*
 * The path of a connection's work, and the other paths that the work could take; reasons.h decides whether the work moves. Called with
 * conn->lock held, by the helper thread or a worker.
 */

/**
 * mesh_way_between - the question to the directory about the way between two GIDs of a connection that exists
 * @device: of this host, at @port; the request refers to the string
 * @gid: of this host, of @gid_type (enum mv_gid_type)
 * @peer_gid: of the peer's host
 */
struct mv_path_request mesh_way_between(const struct mesh_conn *conn, const char *device, uint8_t port, uint8_t gid_type,
					const union ibv_gid *gid, const union ibv_gid *peer_gid);

/** mesh_way_now - mesh_way_between() the two GIDs that the work goes between now */
void mesh_way_now(const struct mesh_conn *conn, struct mv_path_request *ret);

/** mesh_conn_port_is_down - is this host's port of the current path down? By the port's events, which precede the directory. */
bool mesh_conn_port_is_down(const struct mesh_conn *conn);

/**
 * mesh_way_doubt - how little to trust a path whose ports are up
 * @left: a path that no longer works, although its ports are up; NULL: none is known
 *
 * Return: 0: the path answers probes; 3: the path does not answer; in between nothing is known: 2 if the path shares an end with @left,
 * else 1.
 */
unsigned int mesh_way_doubt(const struct mv_path *path, const struct mv_path *left);

/** mesh_ways_from - index of the first path from a rail; @n: there is none */
size_t mesh_ways_from(const char *device, const struct mv_path *paths, size_t n);

/** mesh_way_home - the path home, if it works. Return: the number of paths in @ret, 0 or 1 */
size_t mesh_way_home(const struct mesh_conn *conn, struct mv_path *ret);

/**
 * mesh_conn_paths_for - the paths that the work could take for a reason, best first, without barred ones (path_failures.h)
 * @ret: MV_MOVE_MAX_PATHS
 *
 * Return: the number of paths
 */
size_t mesh_conn_paths_for(const struct mesh_conn *conn, enum mv_ctl_reason reason, struct mv_path *ret);

/** mesh_conn_is_among_best - do @paths, of mesh_conn_paths_for(), have the path chosen earlier, and no path to be trusted more? */
bool mesh_conn_is_among_best(const struct mesh_conn_path *chosen, const struct mv_path *paths, size_t n);

#endif
