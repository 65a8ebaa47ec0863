// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connectint.h"
#include "parity.h"
#include "qpmade.h"

/* The program's queries of ECE options (enhanced connection establishment). ibv_set_ece() is noted in qpmade.c. */

static int query(struct mesh_conn *conn, struct ibv_ece *ece)
{
	int err;

	mesh_lock(&conn->lock);
	if (mesh_conn_taken(conn))
		err = mesh_parity_query_ece(conn->vqp, conn->path.connected, ece);
	else
		err = conn->mc->lower.qp.query_ece(conn->qp, ece);
	mesh_unlock(&conn->lock);
	return err;
}

int mesh_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	int cancel, err, saved_errno;
	struct mesh_conn *conn;

	if (!mc->can_move || !mesh_context_active(mc))
		return mc->lower.qp.query_ece(qp, ece);
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	err = conn ? query(conn, ece) : mc->lower.qp.query_ece(qp, ece);
	saved_errno = errno;
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return err;
}
