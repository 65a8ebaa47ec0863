// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connectint.h"
#include "failover_exec.h"
#include "qpmade.h"
#include "srq.h"
#include "ud.h"

/* End of the program's connections: RESET, destroy, and closing of the context. */

void mesh_conn_say_bye(struct mesh_conn *conn)
{
	struct mv_ctl_msg bye;

	if (mv_move_bye(&conn->move, &bye))
		mesh_thread_send(&bye);
}

/* The program's QP leaves this connection for good: it will be destroyed, or used again. */
static void drop(struct mesh_conn *conn)
{
	mesh_lock(&conn->lock);
	if (conn->state == MESH_CONN_INIT)
		mesh_recvlog_end(conn->mc, conn->qp);
	if (conn->vqp) {
		mesh_conn_last_word(conn);
		mesh_conn_say_bye(conn);
	}
	conn->gone = true;
	if (conn->vqp)
		mesh_vqp_destroy(conn->vqp);
	conn->vqp = NULL;
	mesh_move_limiter_end(conn);
	mesh_conn_leave(conn);
	mesh_conn_key_peer(conn);
	mesh_unlock(&conn->lock);
	mesh_conn_unlink(conn);
}

/* The lower provider removed the QP's completions from its CQs; the plugin may have taken some before. */
static void forget_completions(struct mesh_context *mc, struct ibv_cq *send_cq,
			       struct ibv_cq *recv_cq, uint32_t qpn)
{
	if (send_cq)
		mesh_cq_forget_qp(mc, send_cq, qpn);
	if (recv_cq && recv_cq != send_cq)
		mesh_cq_forget_qp(mc, recv_cq, qpn);
}

int mesh_lower_modify(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct mesh_cq_removal removal;
	int cancel, err;

	if (!(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RESET)
		return mc->lower.qp.modify_qp(qp, attr, mask);
	cancel = mesh_cancel_off(); /* a canceled thread would not call mesh_cq_removal_end() */
	mesh_cq_removal_begin(mc, qp->send_cq, qp->recv_cq, &removal);
	err = mc->lower.qp.modify_qp(qp, attr, mask);
	mesh_cq_removal_end(&removal);
	mesh_cancel_restore(cancel);
	return err;
}

int mesh_qp_to_reset(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct mesh_srq_own_qp *leaving;
	int err;

	/*
	 * For RESET the kernel takes no other attribute. Ask the lower provider first, so that a refused call does not
	 * end the connection.
	 */
	if (conn && mask != IBV_QP_STATE) {
		err = mesh_lower_modify(mc, qp, attr, mask);
		if (err)
			return err;
	}
	leaving = mesh_srq_leaving(mc, qp);
	if (conn)
		drop(conn);
	err = mesh_lower_modify(mc, qp, attr, mask);
	mesh_devices_settle();
	mesh_srq_left(leaving, !err);
	if (!err)
		mesh_qp_note_ece(mc, qp, NULL);
	if (!err)
		forget_completions(mc, qp->send_cq, qp->recv_cq, qp->qp_num);
	return err;
}

int mesh_destroy_qp(struct ibv_qp *qp)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct ibv_cq *send_cq = qp->send_cq, *recv_cq = qp->recv_cq;
	struct mesh_srq_own_qp *leaving;
	struct mesh_cq_removal removal;
	struct mesh_qp_made *made;
	uint32_t qpn = qp->qp_num;
	struct mesh_conn *conn;
	int cancel, err;

	if (!mc->can_move || !mesh_context_active(mc))
		return mc->lower.qp.destroy_qp(qp);
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (conn)
		drop(conn);
	mesh_conn_put(conn);
	if (qp->qp_type == IBV_QPT_UD)
		mesh_ud_gone(mc, qp);
	leaving = mesh_srq_leaving(mc, qp);
	made = mesh_qp_take(mc, qp); /* another thread may get a new QP at this address */
	mesh_cq_removal_begin(mc, send_cq, recv_cq, &removal);
	err = mc->lower.qp.destroy_qp(qp);
	mesh_cq_removal_end(&removal);
	mesh_qp_taken(mc, made, !err);
	mesh_devices_settle();
	mesh_srq_left(leaving, !err);
	if (!err)
		forget_completions(mc, send_cq, recv_cq, qpn);
	mesh_cancel_restore(cancel);
	return err;
}

void mesh_conns_close(struct mesh_context *mc)
{
	struct mesh_conn *some[32];
	size_t n, i;

	do {
		n = mesh_conns_of(mc, some, sizeof(some) / sizeof(some[0]), NULL);
		for (i = 0; i < n; i++) {
			drop(some[i]);
			mesh_conn_put(some[i]);
		}
	} while (n);
}
