// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connectint.h"
#include "live.h"

/* What the program asks of its queue pairs: a connection that is not where the base has it is shown as the program made it. */

static void say_state(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state)
{
	attr->qp_state = attr->cur_qp_state = state;
	qp->state = state;
}

/* conn->lock */
static void correct(struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	const enum ibv_qp_state state = conn->rts_mask ? IBV_QPS_RTS : IBV_QPS_RTR;

	if (mesh_conn_taken(conn)) {
		/* As the program set it, with the state of the QP that does the work. */
		mesh_attr_merge(attr, &conn->init, conn->init_mask & IBV_QP_ACCESS_FLAGS);
		mesh_attr_merge(attr, &conn->rtr, conn->rtr_mask & ~IBV_QP_STATE);
		mesh_attr_merge(attr, &conn->rts, conn->rts_mask & ~IBV_QP_STATE);
		attr->qp_state = state;
		mesh_held_query(conn->held, attr); /* -ENODATA: none does the work yet */
		say_state(qp, attr, attr->qp_state);
	}
	/* Programs that look at the state give up a connection that is in ERR; this one is being moved, or is about to be. */
	if (conn->held && attr->qp_state == IBV_QPS_ERR && mesh_live_goes_on(conn->held))
		say_state(qp, attr, state);
}

int mesh_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	int cancel, err, saved_errno;
	struct mesh_conn *conn;

	if (!mc->can_move || !mesh_context_active(mc))
		return mc->query_qp(qp, attr, attr_mask, init_attr);
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (!conn) {
		mesh_cancel_restore(cancel);
		return mc->query_qp(qp, attr, attr_mask, init_attr);
	}
	/* Whoever has the lock may be connecting the base's QP: what that said before is not to be taken for what it is afterwards. */
	mesh_lock(&conn->lock);
	err = mc->query_qp(qp, attr, attr_mask, init_attr);
	saved_errno = errno;
	if (!err)
		correct(conn, qp, attr);
	mesh_unlock(&conn->lock);
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return err;
}
