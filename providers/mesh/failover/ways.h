/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WAYS_H
#define MESH_WAYS_H

#include "conn.h"

/*
 * Where the work of a connection goes, and where else it could; whether it is to is for reasons.h. With conn->lock held, by the helper
 * thread or a worker.
 */

/** mesh_way_now - the path that the work goes to now */
void mesh_way_now(const struct mesh_conn *conn, struct mv_path_request *ret);

/** mesh_conn_port_is_down - our end of it, by its events, which come before the directory has it */
bool mesh_conn_port_is_down(const struct mesh_conn *conn);

/**
 * mesh_way_doubt - how little a path is to be trusted, the ports of which are up
 * @left: the one that does not work any more, although its ports are up; NULL: none is known
 *
 * Return: 0: it answers probes; 3: it does not; in between: nothing is known, 2 where it shares an end with @left.
 */
unsigned int mesh_way_doubt(const struct mv_path *path, const struct mv_path *left);

/** mesh_ways_from - index of the first path from a rail; @n: there is none */
size_t mesh_ways_from(const char *device, const struct mv_path *paths, size_t n);

/** mesh_way_home - the path home, if it works. Return: how many */
size_t mesh_way_home(const struct mesh_conn *conn, struct mv_path *ret);

/**
 * mesh_conn_paths_for - where it could go for a reason, best first, but for paths that are barred (path_failures.h)
 * @ret: MV_MOVE_MAX_PATHS
 *
 * Return: how many
 */
size_t mesh_conn_paths_for(const struct mesh_conn *conn, enum mv_ctl_reason reason, struct mv_path *ret);

/** mesh_conn_is_among_best - is one that was chosen earlier in @paths, as mesh_conn_paths_for() gave them, and none to be trusted more? */
bool mesh_conn_is_among_best(const struct mesh_conn_path *chosen, const struct mv_path *paths, size_t n);

#endif
