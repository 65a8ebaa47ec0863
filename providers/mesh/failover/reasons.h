/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_REASONS_H
#define MESH_REASONS_H

#include "conn.h"

/*
 * When a connection at work moves, and when not; relocate.h carries it out. With conn->lock held, by the helper thread
 * unless it says otherwise.
 */

/* A home that keeps failing is left alone for this long at most. */
#define MESH_HOLD_MAX_NS (600 * 1000000000ull)

/** mesh_conn_settled - the connection has been made: this is where it belongs */
void mesh_conn_settled(struct mesh_conn *conn);

/**
 * mesh_conn_check - is there a reason to move?
 * @silent_ns: the time by which it is judged how long the peer has been silent: @now_ns, or earlier
 *
 * Return: when to look again, UINT64_MAX: when something changes
 */
uint64_t mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns);
/**
 * mesh_conn_again_at - when to look again at one that has failed and waits for a path, or whose move has come to nothing
 * since @now_ns, when the turn began; UINT64_MAX: it is neither
 */
uint64_t mesh_conn_again_at(const struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_back_off - a move came to nothing: the next attempt to leave a port that is down waits for longer */
void mesh_conn_back_off(struct mesh_conn *conn);

/** mesh_conn_begin - go; paths as mesh_conn_paths_for() gave them, at least one */
void mesh_conn_begin(struct mesh_conn *conn, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n, uint64_t now_ns);

/**
 * mesh_conn_waits_for_path - one that has failed, and for which there is no path now
 *
 * Return: whether one may still come; from the first call on, time runs.
 */
bool mesh_conn_waits_for_path(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_unwatch - its paths need not be probed any more; program's thread, too */
void mesh_conn_unwatch(struct mesh_conn *conn);

/** mesh_conn_note_sure - the move under way has a reason, and not only a suspicion: note that, if it is not noted yet; a worker, too */
void mesh_conn_note_sure(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_path_works - does the path that a move under way is to leave still work, as far as is known? A worker, too */
bool mesh_conn_path_works(const struct mesh_conn *conn);

#endif
