/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATH_FAILURES_H
#define MESH_PATH_FAILURES_H

#include "conn.h"

/*
 * Paths on which the work of one connection has used up its retries. Probes and carrier may say that such a path works: they are of
 * another size and kind than the work. So a connection that has failed goes to none of them again until work of its own has got
 * through, or the path has been seen to be down and to come back. With conn->lock held, by the helper thread or a worker.
 */

/** mesh_path_failures_update - take note of what is known by now; costs nothing where nothing has failed */
void mesh_path_failures_update(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_path_failures_forget - another queue pair takes over: it has not failed yet */
void mesh_path_failures_forget(struct mesh_conn *conn);

/** mesh_path_failures_has - did the work not get through on a path, nor elsewhere since? */
bool mesh_path_failures_has(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote);

/** mesh_path_failures_bar - has the connection failed, and may not go to that path? @local, @remote: GIDs of its ends */
bool mesh_path_failures_bar(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote);

/** mesh_path_failures_any - is a path barred because the work did not get through there? */
bool mesh_path_failures_any(const struct mesh_conn *conn);

#endif
