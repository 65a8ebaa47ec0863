// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "passthrough_fixture.h"

#include "negotiateint.h"

const struct mv_ctl_keys no_keys;

void is_held(void)
{
	is_well();
	vqp.mode = MESH_VQP_QUEUING;
	conn.state = MESH_CONN_HELD;
	conn.own_qp.verdict = MV_PATH_REMOTE_DOWN;
	conn.own_qp.fits = true;
	conn.attr.rtr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	conn.attr.rts = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	conn.attr.rtr_mask = IBV_QP_STATE;
	conn.move = (struct mv_move){.state = MV_MOVE_ASKING,
				     .times = &mv_move_default_times,
				     .local = conn.ends.local,
				     .peer = conn.ends.peer,
				     .attempts.mine = 1,
				     .sq_psn = MV_CTL_PSN_NONE,
				     .rq_psn = MV_CTL_PSN_NONE,
				     .timers.begun_at = now_ns};
	decision.verdict = MV_PATH_WORKS;
}

void has_no_path(void)
{
	struct mv_move_begin begin;

	is_held();
	begin = (struct mv_move_begin){
		.local = conn.ends.local, .peer = conn.ends.peer, .verdict = MV_PATH_LOCAL_DOWN, .attempt = 1};
	mv_move_begin(&conn.move, &begin, &mv_move_default_times, now_ns);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	conn.attr.rtr.ah_attr.is_global = 1;
	entry_lacks = true;
}

bool looks_after(uint64_t ms)
{
	unsigned int before = n_submitted, lacks = n_lacks;
	uint64_t deadline;

	now_ns += ms * MS;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_lacks, lacks); /* others may have the table for long: nothing for the helper thread */
	if (n_submitted == before)
		return false;
	mesh_conn_work(&conn);
	assert_true(n_lacks > lacks);
	if (conn.state != MESH_CONN_HELD)
		return true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns); /* queued again */
	assert_int_equal(n_submitted, before + 1);
	assert_true(deadline == now_ns + 10 * MS);
	return true;
}
