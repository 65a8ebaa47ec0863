/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNECT_H
#define MESH_CONNECT_H

#include "conn.h"

/* The program connects its queue pairs, and both ends agree on a path. */

/* What the program does to its QPs; mesh_modify_qp() is in context.h. Contracts are those of libibverbs. */
int mesh_destroy_qp(struct ibv_qp *qp);
int mesh_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr);
int mesh_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
/** mesh_conns_close - a context is being closed: drop its connections */
void mesh_conns_close(struct mesh_context *mc);
/** mesh_conn_say_bye - tell the peer that this connection ends. Called with conn->lock held. */
void mesh_conn_say_bye(struct mesh_conn *conn);

/*
 * What the helper thread does for one connection: run.c messages.c. Each takes conn->lock. It does not wait for it: a message
 * that comes while a worker has it counts as lost, as any may be. But for BYE, which nobody repeats: mesh_conn_run() takes that.
 */

/**
 * mesh_conn_run - carry out what the move wants
 * @silent_ns: all that the peer had sent by then has been taken
 *
 * Return: when to come again (ns), UINT64_MAX: on events only.
 */
uint64_t mesh_conn_run(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns);
/**
 * mesh_conn_message - a message of the peer
 * @from: as of mesh_conn_open()
 * @silent_ns: as for mesh_conn_run()
 *
 * Return: when it is to be looked at (ns); @now_ns: at once. Later than that it is where many move, and this one has nothing to do but to
 * wait, or is through.
 */
uint64_t mesh_conn_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys,
			   uint64_t now_ns, uint64_t silent_ns);
/** mesh_conn_unreachable - the agent could not bring a message to the peer's */
void mesh_conn_unreachable(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns);
/** mesh_work_run - start another worker when work has waited; helper thread. Returns when to come again */
uint64_t mesh_work_run(uint64_t now_ns);

#endif
