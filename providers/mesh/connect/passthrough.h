/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PASSTHROUGH_H
#define MESH_PASSTHROUGH_H

#include "conn.h"

/*
 * No agreement: a held connection is connected as its program asked.
 *
 * Thread: a worker, with conn->lock held, because the kernel may wait for ARP or ND. Without a worker
 * mesh_conn_passthrough() runs on the helper thread.
 */

/**
 * mesh_conn_passthrough_waits - should MV_DO_PASSTHROUGH wait until the program's GID is in its port's table again?
 *
 * After link-up, addresses and their GIDs come back with a delay, and RTR without a GID fails (ENODATA). A program on a bare HCA
 * gets that error and may try again. A program that was told that it is connected cannot.
 *
 * Reads the GID table, whose lock may be taken for long: on a worker only.
 *
 * Return: true, for move_timeout_ms at most, with @conn->blocked.entry_again_ns set.
 */
bool mesh_conn_passthrough_waits(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_listen - receive while the peer is asked for its RoCE version; program's thread, in RTR
 *
 * The program's own QP goes to RTR at once, with the more common RoCE version. A peer that uses that version does not wait for an
 * answer, since its path works, and its messages must not be lost. If the peer says otherwise: mesh_conn_listen_no_more(). The QP
 * stays in INIT if RTR is refused, or could not be undone (mesh_vqp_can_begin_again()).
 */
void mesh_conn_listen(struct mesh_conn *conn);

/**
 * mesh_conn_listen_no_more - bring the program's own QP back to INIT, with its receives. Posting is stopped.
 *
 * Return: 0, also if it did not listen; -EBUSY: it has received a message, so the peer uses the version it listens for; -EAGAIN:
 * a thread polls an extended CQ, and it still listens; -errno: it is in RESET or INIT, and cannot be used.
 */
int mesh_conn_listen_no_more(struct mesh_conn *conn);

/** mesh_conn_may_listen_on - does the program's own QP not listen, or already with the RoCE version of the next action? */
bool mesh_conn_may_listen_on(const struct mesh_conn *conn, const struct mv_move_action *next);

/**
 * mesh_conn_await_peer - the program's own QP receives, and sends wait until the peer's does, too: ask the peer, or post the
 * sends
 *
 * Two held ends connect their QPs at different times. A message sent before the peer is in RTR would be lost, and repeated only
 * after the program's ACK timeout. Waits for move_timeout_ms at most. Thread: helper thread.
 *
 * Return: when to come again, ns; UINT64_MAX: on events only.
 */
uint64_t mesh_conn_await_peer(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_take_receives - look at a message before the transaction does: does the peer's QP receive? Return: true: drop the
 * message.
 */
bool mesh_conn_take_receives(struct mesh_conn *conn, const struct mv_ctl_msg *msg);

/**
 * mesh_conn_passthrough_at - when to connect a held connection, whose peer has not answered, as the program asked
 *
 * That is once its path seems to work, or no agent is left that could agree. Notes since when the path works, so call it with
 * each change of the directory.
 *
 * Return: ns; UINT64_MAX: when something changes.
 */
uint64_t mesh_conn_passthrough_at(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_passthrough - carry out MV_DO_PASSTHROUGH; errors go to the program. Called with posting stopped; resumes
 * posting.
 */
void mesh_conn_passthrough(struct mesh_conn *conn, const struct mv_move_action *action);

/**
 * mesh_conn_try_passthrough - connect a held connection whose path seems to work, and whose peer has not answered
 *
 * Without effect if the try fails, @conn->own_qp.due is not set, or the peer was heard of since. Also while a thread of the
 * program is in a batch: then sets @conn->blocked.in_batch.
 */
void mesh_conn_try_passthrough(struct mesh_conn *conn);

#endif
