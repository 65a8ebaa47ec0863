/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FAILOVER_EXEC_H
#define MESH_FAILOVER_EXEC_H

#include "conn.h"

/*
 * Failover of connections at work: steps that the transaction (move.h) wants of a move, called by mesh_conn_carry_out()
 * (connect/execute.c). failover_policy.h decides when a move begins.
 *
 * Thread, unless a function says otherwise: helper thread or a worker, with conn->lock held. Times are mesh_now_ns().
 */

/**
 * mesh_conn_track - log the work of the program's own QP, so that the connection can move later
 * @mtu_bytes: of its path
 *
 * Thread: the program's; conn->lock.
 *
 * Return: NULL: done; else why the work cannot be logged, a constant string.
 */
const char *mesh_conn_track(struct mesh_conn *conn, uint32_t mtu_bytes);

/**
 * mesh_conn_may_prepare - may a connection at work go to the path of MV_DO_PREPARE?
 *
 * Return: false: the transaction has been told the outcome.
 */
bool mesh_conn_may_prepare(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns);
/** mesh_conn_refuses_keys - refuse a move whose work uses keys that no other NIC can have. Return: was it refused? */
bool mesh_conn_refuses_keys(struct mesh_conn *conn, uint64_t now_ns);

/* Each carries out the action after which it is named. */
void mesh_conn_quiesce(struct mesh_conn *conn);
void mesh_conn_begin_drain(struct mesh_conn *conn, uint64_t now_ns);
void mesh_conn_replay(struct mesh_conn *conn, const struct mv_move_action *action); /* MV_DO_ACTIVATE with @replay */
void mesh_conn_flush(struct mesh_conn *conn, const struct mv_move_action *action);
void mesh_conn_wanted(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns);

/**
 * mesh_conn_device_for - the device to which an action of a move at work will give commands
 *
 * Return: NULL: none, for example because the action only needs a standby that is ready.
 */
struct mesh_device *mesh_conn_device_for(const struct mesh_conn *conn, const struct mv_move_action *action);

/** mesh_conn_drain - continue a drain that is under way; helper thread */
void mesh_conn_drain(struct mesh_conn *conn, uint64_t now_ns);
/** mesh_conn_drain_at - when to call mesh_conn_drain(); UINT64_MAX: no drain is under way */
uint64_t mesh_conn_drain_at(const struct mesh_conn *conn);

/** mesh_conn_note_begin - a move begins, on the wish of this end or of the peer */
void mesh_conn_note_begin(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_fail - give up: the program gets its errors; @why: for the log */
void mesh_conn_fail(struct mesh_conn *conn, const char *why);

/** mesh_conn_log_unlogged - log why a PASSTHROUGH connection cannot move later (conn->attempt.unlogged); any thread */
void mesh_conn_log_unlogged(const struct mesh_conn *conn);

/** mesh_conn_peer_gone - the peer's QP was destroyed or reset */
void mesh_conn_peer_gone(struct mesh_conn *conn);

/**
 * mesh_conn_last_word - the program destroys or resets its QP, or is about to bring it to ERR; program's thread
 *
 * If the peer may have drained its QP for a move, this end sends its last state (PSN, number of receives). Without that
 * message the peer would fail sends that have completed on a bare NIC.
 */
void mesh_conn_last_word(struct mesh_conn *conn);

/** mesh_conn_leave - the QP is gone: put its path, and free what is kept for moves; after mesh_vqp_destroy() */
void mesh_conn_leave(struct mesh_conn *conn);

/* failover_exec.c movelog.c */

/** mesh_conn_count_moved - count a move that is over */
void mesh_conn_count_moved(struct mesh_conn *conn);
/** mesh_conn_count_stayed - count a move that came to nothing */
void mesh_conn_count_stayed(struct mesh_conn *conn, const struct mv_move_action *action);
/** mesh_conn_stay - carry out MV_DO_STAY: a move came to nothing */
void mesh_conn_stay(struct mesh_conn *conn, const struct mv_move_action *action);
/** mesh_conn_log_steps - log the times of the steps of a move, ns; for bench/failover */
void mesh_conn_log_steps(const struct mesh_conn *conn);

#endif
