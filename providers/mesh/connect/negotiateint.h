/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_NEGOTIATEINT_H
#define MESH_NEGOTIATEINT_H

#include "connect.h"

/* What the files of the agreement share: negotiate.c messages.c run.c, and connect.c. With conn->lock held, unless it says otherwise. */

/** mesh_conn_act - carry out what the transaction wants; @worker: in a worker thread, which is here for what is slow */
void mesh_conn_act(struct mesh_conn *conn, uint64_t now_ns, bool worker);
/** mesh_conn_is_in_batch - is a thread of the program's in a batch? It is asked to leave a gap. Writes @conn->in_batch */
bool mesh_conn_is_in_batch(struct mesh_conn *conn);
/** mesh_conn_take_late_bye - a BYE that came while somebody else had the connection */
void mesh_conn_take_late_bye(struct mesh_conn *conn, uint64_t now_ns);
/**
 * mesh_conn_refuse_peer - from now on a peer that asks is told that this end stays as its program asked; conn->lock
 *
 * Without conn->lock, which who connects the base's QP has for seconds. mesh_conn_refuse_no_more() - the other way; conn->lock
 */
void mesh_conn_refuse_peer(struct mesh_conn *conn);
void mesh_conn_refuse_no_more(struct mesh_conn *conn);

/** mesh_conn_work - what may take seconds; a worker thread; takes conn->lock */
void mesh_conn_work(struct mesh_conn *conn);
/**
 * mesh_work_submit - worker.c: have a worker call mesh_conn_work(), soon; helper thread
 * @to: destination that may not be there
 * @tries: nobody waits for it: it is done behind what else there is, a few at a time
 *
 * Return: false without memory or threads: the caller has to do it.
 */
bool mesh_work_submit(struct mesh_conn *conn, const union ibv_gid *to, bool tries);

#endif
