// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "stalled.h"

#include <errno.h>

#include "connect.h"
#include "connstatus.h"
#include "count.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "move_failover.h"
#include "vqp_int.h"

static const char why[] = "none of our threads gets a processor";

/* A move holds work back, before its drain or before its begin, so calling it off is free. conn->lock */
static void call_off(struct mesh_conn *conn)
{
	mv_move_abort(&conn->move, mesh_now_ns());
	mesh_failover_release(conn->vqp);
	mv_log(&mesh_root.log, MV_LOG_WARN, "%s QP 0x%x to host %s: stays where it is: %s", conn->mc->device, conn->qpn,
	       conn->ends.peer_host, why);
}

/* Fail a held connection, which was never connected. conn->lock, posting is stopped */
static void fail_held(struct mesh_conn *conn)
{
	mesh_conn_say_bye(conn);
	mesh_count(MV_COUNT_SURFACED);
	mesh_vqp_fail(conn->vqp, IBV_WC_RETRY_EXC_ERR);
	conn->state = MESH_CONN_FAILED;
	mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x to host %s: not connected: %s; the program gets its errors", conn->mc->device,
	       conn->qpn, conn->ends.peer_host, why);
	mesh_conn_tell(conn);
}

/* conn->lock */
static void give(struct mesh_conn *conn)
{
	enum mesh_withheld withheld = mesh_vqp_withholds(conn->vqp);

	if (withheld == MESH_WITHHELD_NOTHING || mesh_vqp_in_own_batch(conn->vqp))
		return;
	if (withheld == MESH_WITHHELD_BY_QUIESCE) {
		call_off(conn);
	} else if (conn->state != MESH_CONN_HELD) {
		mesh_conn_fail(conn, why);
	} else if (mesh_vqp_stop_posting(conn->vqp)) {
		fail_held(conn);
		mesh_vqp_resume_posting(conn->vqp);
	}
}

static void give_of(struct mesh_cq *cq, struct mesh_conn *conn)
{
	if (!mesh_conn_enter(conn))
		return;
	if (mesh_conn_negotiates(conn) && (conn->vqp->send_cq == cq || conn->vqp->recv_cq == cq))
		give(conn);
	mesh_unlock(&conn->lock);
}

void mesh_stalled_flush(struct mesh_cq *cq)
{
	int saved_errno = errno, cancel = mesh_cancel_off();
	struct mesh_conn *some[32], *after = NULL;
	size_t n, i;

	do {
		n = mesh_conns_of(cq->mc, some, sizeof(some) / sizeof(some[0]), after);
		mesh_conn_put(after);
		for (i = 0; i < n; i++)
			give_of(cq, some[i]);
		for (i = 0; n && i < n - 1; i++)
			mesh_conn_put(some[i]);
		after = n ? some[n - 1] : NULL;
	} while (n);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}
