/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNECT_H
#define MESH_CONNECT_H

#include "conn.h"

/* The program connects its queue pairs, and both ends agree on a path. */

/* Verbs of the program on its QPs; mesh_modify_qp() is in context.h. Contracts, errors and thread-safety as in libibverbs. */
int mesh_destroy_qp(struct ibv_qp *qp);
int mesh_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr);
int mesh_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
/** mesh_conns_close - a context is being closed: end its connections; takes conn->lock of each */
void mesh_conns_close(struct mesh_context *mc);
/** mesh_conn_say_bye - tell the peer that this connection ends; conn->lock */
void mesh_conn_say_bye(struct mesh_conn *conn);

/*
 * What the helper thread does for one connection: run.c messages.c. Each function tries for conn->lock for 1 ms. A message that
 * comes while a worker has the lock counts as lost, as any message may be; the peer repeats it. Exception: BYE, which no peer
 * repeats, is kept for mesh_conn_run(). Times are mesh_now_ns().
 */

/**
 * mesh_conn_run - carry out what the transaction wants, and what is due
 * @silent_ns: all messages that the peer had sent by then were processed
 *
 * Return: when to come again, ns; UINT64_MAX: on events only.
 */
uint64_t mesh_conn_run(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns);
/**
 * mesh_conn_message - process a message of the peer
 * @from: as of mesh_conn_open()
 * @silent_ns: as of mesh_conn_run()
 *
 * Return: when to call mesh_conn_run(), ns; @now_ns: at once; UINT64_MAX: not for this message. A later time is returned where
 * many connections move, and this one only waits, or has moved.
 */
uint64_t mesh_conn_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys,
			   uint64_t now_ns, uint64_t silent_ns);
/** mesh_conn_unreachable - the agent could not deliver @msg to the peer's agent */
void mesh_conn_unreachable(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns);
/** mesh_work_run - start another worker if a job has waited too long; helper thread. Return: when to come again, ns. */
uint64_t mesh_work_run(uint64_t now_ns);

#endif
