// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connectint.h"
#include "vqp_failover.h"

/* Queries by the program: a connection on another rail is shown as the program made it. */

static void say_state(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state)
{
	attr->qp_state = attr->cur_qp_state = state;
	qp->state = state;
}

/* conn->lock */
static void correct(struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	const enum ibv_qp_state state = conn->attr.rts_mask ? IBV_QPS_RTS : IBV_QPS_RTR;

	if (mesh_conn_taken(conn)) {
		/* The program's attributes, with the state of the QP at work. */
		mesh_attr_merge(attr, &conn->attr.init, conn->attr.init_mask & IBV_QP_ACCESS_FLAGS);
		mesh_attr_merge(attr, &conn->attr.rtr, conn->attr.rtr_mask & ~IBV_QP_STATE);
		mesh_attr_merge(attr, &conn->attr.rts, conn->attr.rts_mask & ~IBV_QP_STATE);
		attr->qp_state = state;
		mesh_vqp_query(conn->vqp, attr); /* -ENODATA: no QP does the work yet */
		say_state(qp, attr, attr->qp_state);
	}
	/* Programs give up a connection in ERR. This connection moves, or is about to move, so it is not shown in ERR. */
	if (conn->vqp && attr->qp_state == IBV_QPS_ERR && mesh_failover_goes_on(conn->vqp))
		say_state(qp, attr, state);
}

int mesh_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	int cancel, err, saved_errno;
	struct mesh_conn *conn;

	if (!mc->can_move || !mesh_context_active(mc))
		return mc->lower.qp.query_qp(qp, attr, attr_mask, init_attr);
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (!conn) {
		mesh_cancel_restore(cancel);
		return mc->lower.qp.query_qp(qp, attr, attr_mask, init_attr);
	}
	/* The owner of the lock may be connecting the program's own QP: query afterwards. */
	mesh_lock(&conn->lock);
	err = mc->lower.qp.query_qp(qp, attr, attr_mask, init_attr);
	saved_errno = errno;
	if (!err)
		correct(conn, qp, attr);
	mesh_unlock(&conn->lock);
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return err;
}
