/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_NEGOTIATEINT_H
#define MESH_NEGOTIATEINT_H

#include "connect.h"

/* Shared by execute.c messages.c run.c connect.c. Called with conn->lock held, unless a function says otherwise. */

/** mesh_conn_act - carry out the actions that the transaction wants; @worker: on a worker thread, for slow actions */
void mesh_conn_act(struct mesh_conn *conn, uint64_t now_ns, bool worker);
/** mesh_conn_carry_out - carry out one action, of a connect or of a move at work, on this thread */
void mesh_conn_carry_out(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns);
/**
 * mesh_conn_is_in_batch - is a thread of the program in a batch? Asks that thread to pause after the batch. Sets
 * @conn->blocked.in_batch.
 */
bool mesh_conn_is_in_batch(struct mesh_conn *conn);
/** mesh_conn_take_late_bye - process a BYE that came while another thread had conn->lock */
void mesh_conn_take_late_bye(struct mesh_conn *conn, uint64_t now_ns);
/**
 * mesh_conn_refuse_peer - answer a peer that asks: this end stays as its program asked; until mesh_conn_refuse_no_more()
 *
 * The helper thread then answers without conn->lock, which the thread that connects the program's own QP may hold for seconds.
 */
void mesh_conn_refuse_peer(struct mesh_conn *conn);
void mesh_conn_refuse_no_more(struct mesh_conn *conn);

/** mesh_conn_work - carry out slow actions; a worker thread; takes conn->lock */
void mesh_conn_work(struct mesh_conn *conn);
/**
 * mesh_work_submit - worker.c: have a worker call mesh_conn_work() soon; helper thread
 * @to: destination, which may be unreachable
 * @tries: low priority: nobody waits for the result; few at a time
 *
 * Return: false: no memory or no thread; the caller does the work itself.
 */
bool mesh_work_submit(struct mesh_conn *conn, const union ibv_gid *to, bool tries);

#endif
