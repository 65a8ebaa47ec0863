/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RELOCATE_H
#define MESH_RELOCATE_H

#include "conn.h"

/*
 * Moving connections that are at work: carrying out what the transaction wants of a live QP; reasons.h says when. Called by
 * the helper thread with conn->lock held, but for the first.
 */

/**
 * mesh_conn_guard - log what the base's QP does, so that it can be moved later; conn->lock; program's thread
 *
 * Return: why that cannot be, a constant; NULL: it is.
 */
const char *mesh_conn_guard(struct mesh_conn *conn, uint32_t mtu_bytes);

/** mesh_conn_live - carry out an action of a live move; whether it was one */
bool mesh_conn_live(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns);

/**
 * mesh_conn_device_for - the device that an action gives commands to, if it is a live move's; conn->lock
 *
 * Not of one that only needs what was made ahead. Return: NULL: none.
 */
struct mesh_device *mesh_conn_device_for(const struct mesh_conn *conn, const struct mv_move_action *action);

/** mesh_conn_fence - go on with a fence, if there is one under way */
void mesh_conn_fence(struct mesh_conn *conn, uint64_t now_ns);
/** mesh_conn_fence_at - when to do that again; UINT64_MAX: there is none */
uint64_t mesh_conn_fence_at(const struct mesh_conn *conn);

/** mesh_conn_note_begin - a move begins, ours or the peer's */
void mesh_conn_note_begin(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_fail - it cannot be saved: the program gets its errors; @why: for the log */
void mesh_conn_fail(struct mesh_conn *conn, const char *why);

/** mesh_conn_log_unlogged - it is native, and will stay where it is; conn->lock; any thread */
void mesh_conn_log_unlogged(const struct mesh_conn *conn);

/** mesh_conn_peer_gone - the peer's QP was destroyed or reset */
void mesh_conn_peer_gone(struct mesh_conn *conn);

/**
 * mesh_conn_last_word - the program takes its QP away, or is about to bring it to ERR; program's thread
 *
 * If the peer may have fenced its own for a move, it is told how far ours came. Without that it would have to fail what a bare adapter
 * would have completed.
 */
void mesh_conn_last_word(struct mesh_conn *conn);

/** mesh_conn_leave - the QP goes: what is kept for moves of it goes, too; after mesh_held_destroy() */
void mesh_conn_leave(struct mesh_conn *conn);

/* relocate.c movelog.c */

/** mesh_conn_count_moved - it has moved */
void mesh_conn_count_moved(struct mesh_conn *conn);
/** mesh_conn_count_stayed - it has not */
void mesh_conn_count_stayed(struct mesh_conn *conn, const struct mv_move_action *action);
/** mesh_conn_stay - carry out MV_DO_STAY: a move has come to nothing */
void mesh_conn_stay(struct mesh_conn *conn, const struct mv_move_action *action);
/** mesh_conn_log_steps - when each step of a move was; for bench/failover */
void mesh_conn_log_steps(const struct mesh_conn *conn);

#endif
