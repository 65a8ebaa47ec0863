/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATH_FAILURES_H
#define MESH_PATH_FAILURES_H

#include "conn.h"

/*
 * Paths on which the work of one connection has used up its retries. Probes and carrier may say that such a path works: probes are of
 * another size and kind than the work. So a connection that has failed takes none of these paths again until its own work has got
 * through, or the path was seen down, and came back. Called with conn->lock held, by the helper thread or a worker.
 */

/** mesh_path_failures_update - bring the list up to date; costs nothing where nothing has failed */
void mesh_path_failures_update(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_path_failures_forget - another queue pair takes over, which has not failed yet */
void mesh_path_failures_forget(struct mesh_conn *conn);

/** mesh_path_failures_has - has the work failed on a path, and got through nowhere since? */
bool mesh_path_failures_has(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote);

/** mesh_path_failures_bar - has the connection failed, and may not take the path between @local and @remote? */
bool mesh_path_failures_bar(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote);

/** mesh_path_failures_any - is any path barred? */
bool mesh_path_failures_any(const struct mesh_conn *conn);

#endif
