/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "agreed.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

struct mesh_conn *agreed_conn(struct mesh_process *process, struct ibv_qp *qp, struct mesh_vqp *vqp)
{
	struct mesh_context *mc = mesh_context_get_free();
	struct mesh_conn *conn;

	assert_non_null(mc);
	mesh_context_publish(mc, qp->context);
	mesh_root.process = process;
	conn = mesh_conn_new(mc, qp);
	assert_non_null(conn);
	conn->vqp = vqp;
	conn->move.state = MV_MOVE_ACTIVE;
	conn->move.attempts.mine = 3;
	conn->move.attempts.peer = 4;
	conn->move.sq_psn = 5;
	conn->move.rq_psn = 6;
	conn->move.local.qpn = 7;
	conn->move.peer.qpn = 8;
	return conn;
}
