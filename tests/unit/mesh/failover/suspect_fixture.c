/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "suspect_fixture.h"

#include <stdlib.h>

#include "path_monitor.h"
#include "negotiateint.h"

const union ibv_gid alternate_local = {.raw = {3}}, alternate_remote = {.raw = {4}};
int take_error;
unsigned int n_taken;

static const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};

int __wrap_mesh_failover_take_standby(struct mesh_vqp *h);

int __wrap_mesh_failover_take_standby(struct mesh_vqp *h)
{
	assert_ptr_equal(h, &vqp);
	n_taken++;
	return take_error;
}

void hear(uint8_t type, const union ibv_gid *from, const union ibv_gid *to, enum mv_probed state)
{
	const struct mv_frame frame = {
		.type = type, .sgid = *from, .dgid = *to, .probed = (uint8_t)state};

	mesh_path_monitor_told(&frame, now_ns);
}

void suspected(void)
{
	hear(MV_FRAME_SUSPECT, &local, &remote, 0);
}

void found(enum mv_probed state)
{
	hear(MV_FRAME_PATH, &local, &remote, state);
}

void carry_out(void)
{
	struct mv_move_action action;

	while (mv_move_next(&conn.move, &action))
		if (action.type == MV_DO_SEND)
			sent = action.msg;
		else
			mesh_conn_carry_out(&conn, &action, now_ns);
}

uint64_t check(void)
{
	uint64_t at = mesh_conn_check(&conn, now_ns, now_ns);

	carry_out();
	return at;
}

int suspect_setup(void **state)
{
	oneconn_setup(state);
	mesh_root.undetected = 0;
	is_well();
	conn.ends.local_type = MV_GID_TYPE_ROCE_V2;
	decision.generation = 1;
	mesh_conn_settled(&conn);
	assert_true(conn.move.leader);
	mesh_path_monitor_agent(true);
	mesh_conn_check(&conn, now_ns, now_ns);
	found(MV_PROBED_UP);
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_UP);
	sent = (struct mv_ctl_msg){0};
	take_error = 0;
	n_taken = 0;
	return 0;
}

int suspect_teardown(void **state)
{
	mesh_conn_unwatch(&conn);
	mesh_path_monitor_lost();
	mesh_path_monitor_run(now_ns);
	free(process.monitor.all);
	return oneconn_teardown(state);
}

/* The other end has a QP, too. */
static void both_are_ready(void)
{
	assert_true(conn.move.failover);
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.attempts.peer = 3;
	conn.move.last_offer = 1;
	conn.move.timers.phase_since = now_ns;
	conn.moving.next_path =
		(struct mesh_conn_path){.gid = alternate_local, .peer_gid = alternate_remote};
}

void prepare(void)
{
	suspected();
	assert_int_equal(check(), now_ns + MESH_SUSPECT_NS);
	assert_true(conn.move.failover && conn.move.unsure);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_PATH);
	both_are_ready();
}

void quiesce(void)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	assert_int_equal(mv_move_peek(&conn.move)->type, MV_DO_QUIESCE);
	conn.move.actions.n = conn.move.actions.next = 0;
	mesh_conn_carry_out(&conn, &action, now_ns);
}

void assert_goes(enum mv_ctl_reason why)
{
	now_ns += 7 * MS;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), UINT64_MAX);
	assert_false(conn.move.unsure);
	assert_int_equal(conn.move.reason, why);
	/* Until then the program has noticed nothing. */
	assert_int_equal(conn.moving.since_ns, now_ns);
	assert_false(conn.watched.prepares);
	assert_int_equal(n_taken, 0);
	quiesce();
	assert_int_equal(n_taken, 1);
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
}

void assert_is_off(void)
{
	assert_false(conn.move.failover);
	assert_false(conn.watched.prepares);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	assert_int_equal(conn.moving.since_ns, 0);
	assert_null(conn.retry.stayed);
	assert_int_equal(conn.retry.again_ns, 0);
	/* The next move begins by asking, as there is no rail that could be prepared. */
	conn.move.attempts.peer = 0;
}
