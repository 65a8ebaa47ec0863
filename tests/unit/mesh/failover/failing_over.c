// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "failing_over.h"

const struct mv_ctl_keys no_keys;

void waits_for(enum mv_ctl_reason reason)
{
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	now_ns += 400 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(cq.sw_cq.n, 0);
	now_ns += 101 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.sw_cq.n, 1);
	assert_int_equal(cq.sw_cq.wcs[0].status, IBV_WC_RETRY_EXC_ERR);
}

void refused(void)
{
	struct mv_move_action action;

	while (mv_move_next(&conn.move, &action))
		;
	conn.move.failover = false;
	conn.move.state = conn.move.call_off.settled;
	conn.move.timers.resend_at = 0;
	stay(MV_CTL_REASON_UNSUPPORTED);
}
