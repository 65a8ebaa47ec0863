/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATH_FAILURES_H
#define MESH_PATH_FAILURES_H

#include "conn.h"

/*
 * List of the paths on which the work of one connection used up its retries.
 *
 * A path on the list may still look good by carrier and probes, because probes differ from the work in size and kind. So a
 * connection that has failed uses no listed path again. A path leaves the list when work of the connection gets through on any
 * path, or when the path was seen down and came back.
 *
 * Thread: helper thread or a worker, with conn->lock held. Errors: none; without memory for the list no path is listed.
 */

/**
 * mesh_path_failures_update - bring the list up to date
 *
 * Cheap if the connection never failed. @now_ns: mesh_now_ns().
 */
void mesh_path_failures_update(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_path_failures_forget - a new queue pair takes over the work: its own failure is not on the list yet */
void mesh_path_failures_forget(struct mesh_conn *conn);

/** mesh_path_failures_outdated - has the directory, now of @generation, changed since the queue pair that does the work failed? */
bool mesh_path_failures_outdated(const struct mesh_conn *conn, uint64_t generation);

/** mesh_path_failures_has - is the path on the list? @local and @remote may be any GIDs of the two ports. */
bool mesh_path_failures_has(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote);

/**
 * mesh_path_failures_bar - must the connection not use the path between @local and @remote now?
 *
 * True if mesh_path_failures_any(), and the path is on the list or the list is full.
 */
bool mesh_path_failures_bar(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote);

/**
 * mesh_path_failures_any - are listed paths barred now?
 *
 * They are while the queue pair that does the work has failed, from move_timeout / MESH_PATHLESS_PART after the first failure on.
 */
bool mesh_path_failures_any(const struct mesh_conn *conn);

#endif
