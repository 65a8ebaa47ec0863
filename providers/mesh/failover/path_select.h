/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATH_SELECT_H
#define MESH_PATH_SELECT_H

#include "conn.h"

/*
 * The path of a connection's work, and the other paths that the work could take. failover_policy.h decides whether the
 * connection moves.
 *
 * Thread: helper thread or a worker, with conn->lock held.
 */

/**
 * mesh_path_between - make a request to the directory for the path between two GIDs of a connection
 * @device: of this host, with port @port; the request refers to the string
 * @gid: of this host, of type @gid_type (enum mv_gid_type)
 * @peer_gid: of the peer's host
 */
struct mv_path_request mesh_path_between(const struct mesh_conn *conn, const char *device, uint8_t port,
					 uint8_t gid_type, const union ibv_gid *gid, const union ibv_gid *peer_gid);

/** mesh_path_asked - mesh_path_between() for the path that the program asked for */
void mesh_path_asked(const struct mesh_conn *conn, struct mv_path_request *ret);
/** mesh_path_now - mesh_path_between() for the path that the work uses now */
void mesh_path_now(const struct mesh_conn *conn, struct mv_path_request *ret);

/**
 * mesh_conn_port_is_down - is this host's port of the current path down?
 *
 * Tells by the port's async events, which come before the directory changes.
 */
bool mesh_conn_port_is_down(const struct mesh_conn *conn);

#define MESH_PATH_SILENT 3u /* mesh_path_doubt(): the path does not answer probes */

/**
 * mesh_path_doubt - rank a path whose ports are up: the larger, the less trusted
 * @left: path that no longer works, although its ports are up; NULL: none is known
 *
 * Return: 0: the path answers probes; 1: no result of probes; 2: no result of probes, and the path shares a rail with @left;
 * MESH_PATH_SILENT.
 */
unsigned int mesh_path_doubt(const struct mv_path *path, const struct mv_path *left);

/** mesh_paths_from - index of the first path that leaves from @device; @n: no path does */
size_t mesh_paths_from(const char *device, const struct mv_path *paths, size_t n);

/**
 * mesh_path_primary - look up the primary path
 * @ret_generation: of the directory; 0: there is none now. NULL: not wanted
 *
 * Return: the number of paths in @ret: 1 if the primary path works, else 0.
 */
size_t mesh_path_primary(const struct mesh_conn *conn, struct mv_path *ret, uint64_t *ret_generation);

/**
 * mesh_conn_paths_for - the paths that the work could take for a reason, best first, without barred paths (path_failures.h)
 * @ret: array of MV_MOVE_MAX_PATHS
 *
 * Return: the number of paths in @ret.
 */
size_t mesh_conn_paths_for(const struct mesh_conn *conn, enum mv_ctl_reason reason, struct mv_path *ret);

/**
 * mesh_conn_path_again - the path that the work uses now, for a connection that has failed there and finds no other
 * @peer_asks: true: the peer's queue pair has failed. false: this end's has. Then the directory must have changed since: a port
 * may have come back that this host never heard was down
 *
 * Both ends make new queue pairs on the same path. Return: the number of paths in @ret: 1; 0: the path does not work, or is barred.
 */
size_t mesh_conn_path_again(const struct mesh_conn *conn, bool peer_asks, struct mv_path *ret);

/**
 * mesh_conn_is_among_best - does the path that was chosen earlier rank as high as the best of @paths?
 * @paths: of mesh_conn_paths_for()
 *
 * Return: false also if @paths lacks @chosen.
 */
bool mesh_conn_is_among_best(const struct mesh_conn_path *chosen, const struct mv_path *paths, size_t n);

#endif
