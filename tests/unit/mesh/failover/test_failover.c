// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connection fails over: when it starts, what confirms the failure of its path, and what happens on the way. */
#include <string.h>

#include "connstatus.h"
#include "failing_over.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "path_monitor.h"
#include "sealed.h"
#include "negotiateint.h"

static void test_no_path(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_PATH);
}

/* There seemed to be one, but its port went down, too, before anyone was told: nothing can be connected there. */
static void test_path_that_does_not_work(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_RESOURCES);
}

/* Thousands wait until as many as may have moved, and are called: were each to look often meanwhile, the thread would do nothing else. */
static void test_waits_for_its_turn(void **state)
{
	(void)state;
	conn.attr.rts_mask = 1;
	atomic_store(&process.moves.n_moving, 1000);
	assert_true(mesh_conn_check(&conn, now_ns, now_ns) >= now_ns + 1000 * MS);
	assert_false(conn.move.failover);
	assert_int_equal(conn.retry.stayed_ns, 0);
}

/* Its port is down; @failed: it has noticed that itself */
static void is_among_many(bool leads, bool failed)
{
	is_to_move();
	conn.flags.path_failed = failed;
	decision.verdict = MV_PATH_LOCAL_DOWN;
	conn.move.leader = leads;
	process.moves.n_fresh = process.moves.n_moving = MESH_MANY_MOVING;
}

/* Whose peer leads lets it begin, for a while; if it knows of something that the peer may not know, at once. */
static void test_follows(void **state)
{
	(void)state;
	is_among_many(false, false);
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 250 * MS);
	assert_false(conn.move.failover);
	mesh_conn_check(&conn, now_ns + 249 * MS, now_ns + 249 * MS);
	assert_false(conn.move.failover);
	mesh_conn_check(&conn, now_ns + 250 * MS, now_ns + 250 * MS);
	assert_true(conn.move.failover);
	assert_int_equal(conn.retry.limited_ns, 0);
}

/* It has its turn, and no reason any more; or its peer begins. The next time, it waits anew. */
static void test_waits_anew(void **state)
{
	(void)state;
	is_well();
	conn.move.leader = false;
	conn.retry.limited_ns = now_ns;
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_false(conn.move.failover);
	assert_int_equal(conn.retry.limited_ns, 0);
	conn.retry.limited_ns = now_ns;
	mesh_conn_note_begin(&conn, now_ns);
	assert_int_equal(conn.retry.limited_ns, 0);
}

static void confirms(unsigned int n_fresh, enum mv_move_action_type first)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	is_well();
	conn.move.leader = true;
	conn.move.call_off.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.failover = true;
	conn.move.timers.phase_since = now_ns;
	process.moves.n_fresh = n_fresh;
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
	assert_int_equal(mv_move_peek(&conn.move)->type, first);
	conn.move.failover = false;
}

static void test_confirms(void **state)
{
	(void)state;
	confirms(15, MV_DO_SEND);
}

static void test_sync_confirms(void **state)
{
	(void)state;
	confirms(16, MV_DO_DRAIN);
}

static void test_follows_for_few(void **state)
{
	(void)state;
	is_among_many(false, false);
	process.moves.n_fresh = MESH_MANY_MOVING - 1; /* the others have no peer any more */
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_true(conn.move.failover);
}

static void test_leads_by_failing(void **state)
{
	(void)state;
	is_among_many(false, true);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_true(conn.move.failover);
}

static void test_leads(void **state)
{
	(void)state;
	is_among_many(true, false);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_true(conn.move.failover);
}

static void test_will_never_be(void **state)
{
	(void)state;
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.sw_cq.n, 1);
}

/* The NIC of the only other path makes poorer queue pairs: nothing is waited for, and the program gets its errors. */
static void test_poorer_next_one(void **state)
{
	const struct mv_move_action prepare = {.type = MV_DO_PREPARE, .local_gid = {.raw = {3}}, .remote_gid = {.raw = {4}}};

	(void)state;
	vqp.parity.poorer = "this test says so";
	conn.move.failover = true;
	mesh_conn_carry_out(&conn, &prepare, now_ns); /* there may be another one, with another end */
	assert_null(vqp.parity.poorer);
	conn.move.failover = false;
	vqp.parity.poorer = "this test says so";
	stay(MV_CTL_REASON_NO_PATH);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.sw_cq.n, 1);
}

/* Nobody needs to know any more whether the path of one that has failed works. */
static void test_failed_one_is_not_watched(void **state)
{
	const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};

	(void)state;
	mesh_lock_init(&conn.lock);
	mesh_path_monitor_use(&conn.watched.work, MV_WATCH_WORK, &local, &remote);
	assert_non_null(conn.watched.work);
	conn.state = MESH_CONN_FAILED;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(conn.watched.work);
}

/* One that has not failed leaves a port that is down again soon, then less and less often. */
static void test_leaves_again_at_once(void **state)
{
	uint64_t deadline, wait_ns;

	(void)state;
	is_to_move();
	conn.move.attempts.peer = 1;
	conn.flags.path_failed = false;
	vqp.tracker->broken = false;
	decision.verdict = MV_PATH_LOCAL_DOWN;
	for (wait_ns = 10 * MS; wait_ns <= 640 * MS; wait_ns *= 2) {
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		assert_false(conn.move.failover);
		assert_non_null(conn.retry.stayed);
		assert_int_equal(deadline, now_ns + wait_ns);
		now_ns = deadline;
	}
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
}

/* One that has failed, and waits for a path, does not wait for its turn as well: it has not the time. */
static void test_turn_is_kept(void **state)
{
	(void)state;
	is_to_move();
	decision.n_paths = 0;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	process.moves.n_moving = 1000;
	decision.n_paths = 1;
	now_ns += 400 * MS;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(conn.move.failover);
}

/* A queue pair that is to be connected in advance does not keep the move waiting that has begun since. */
static void test_standby_is_passed(void **state)
{
	(void)state;
	is_to_move();
	conn.move.attempts.peer = 1;
	conn.flags.path_failed = false;
	conn.move.actions.list[conn.move.actions.n++] = (struct mv_move_action){.type = MV_DO_STANDBY};
	conn.flags.path_failed = true;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(mv_move_peek(&conn.move));
	assert_non_null(conn.retry.stayed); /* it has been tried */
}

/* The program goes to RTS while the old one is in ERR: that is for the next one, and nothing of the old one's log is forgotten. */
static void test_rts_behind_the_drain(void **state)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 77};

	(void)state;
	vqp.mode = MESH_VQP_DRAINED;
	assert_int_equal(mesh_failover_lower_rts(&vqp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_true(vqp.tracker->broken);
	assert_int_equal(vqp.tracker->sends.first_psn, 0);
	assert_false(mesh_failover_sends(&vqp));
}

/* The program has posted, since its next one was prepared, what cannot be moved: nothing is drained. */
static void test_lost_meanwhile(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	(void)state;
	is_well();
	conn.move.call_off.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.failover = true;
	vqp.tracker->lost = "this test says so";
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_false(conn.move.failover);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	vqp.tracker->lost = NULL;
}

/* Likewise a key that no other NIC can have. */
static void test_stays_meanwhile(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};
	struct ibv_pd pd = {.context = qp.context};

	(void)state;
	is_well();
	qp.pd = &pd;
	conn.move.call_off.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.failover = true;
	atomic_store_explicit(&process.keys.all_stay, "this test says so", memory_order_relaxed);
	assert_string_equal(mesh_conn_bound(&conn), "this test says so");
	mesh_conn_carry_out(&conn, &action, now_ns);
	atomic_store_explicit(&process.keys.all_stay, NULL, memory_order_relaxed);
	assert_false(conn.move.failover);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	qp.pd = NULL;
}

/* Only of one that the program has connected it is said that it can be moved, and at once then. */
static void test_movable_once_connected(void **state)
{
	static const enum mesh_conn_state before[] = {MESH_CONN_INIT, MESH_CONN_HELD, MESH_CONN_PASSTHROUGH,
						      MESH_CONN_MOVED};

	(void)state;
	is_well();
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		conn.state = before[i];
		conn.attr.rts_mask = 0;
		mesh_conn_tell(&conn);
		assert_null(strstr(status, "movable"));
	}
	conn.state = MESH_CONN_HELD;
	conn.attr.rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	mesh_conn_tell(&conn);
	assert_null(strstr(status, "movable"));

	conn.state = MESH_CONN_PASSTHROUGH;
	conn.attr.rts_mask = 0;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(strstr(status, "movable"));
	n_statuses = 0;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_statuses, 0);
	conn.attr.rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_statuses, 1);
	assert_non_null(strstr(status, "\"movable\":true"));
	atomic_store_explicit(&conn.flags.refused, true, memory_order_relaxed);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(strstr(status, "\"movable\":false"));
	atomic_store_explicit(&conn.flags.refused, false, memory_order_relaxed);
}

/* Of a reason that does not fit the end is missing. What does not fit without a reason is not tried again and again. */
static void test_long_status(void **state)
{
	char device[sizeof(conn.path.device)] = "";
	struct mesh_rail there = {.device = ""};
	struct mesh_pd on = {.rail = &there};
	struct ibv_qp standby = {.qp_num = 7};
	union ibv_gid gid;

	(void)state;
	is_well();
	memset(gid.raw, 0xab, sizeof(gid.raw));
	conn.ends.local.gid = conn.ends.peer.gid = conn.path.gid = conn.path.peer_gid = gid;
	conn.ends.peer.qpn = 0xffffff;
	memset(conn.ends.peer_host, 'h', sizeof(conn.ends.peer_host) - 1);
	conn.state = MESH_CONN_PASSTHROUGH;
	conn.retry.stayed = "it was made by a function that is not seen here (mlx5dv_create_qp), which has flags that nobody can ask for";
	for (size_t len = 6; len < sizeof(device); len++) {
		memset(device, 'd', len);
		memcpy(conn.path.device, device, sizeof(device));
		conn.status.told = false;
		n_statuses = 0;
		mesh_conn_tell(&conn);
		assert_int_equal(n_statuses, 1);
		assert_non_null(strstr(status, "\"why\":\"it was made by"));
		assert_string_equal(status + strlen(status) - 2, "\"}");
		assert_true(conn.status.told);
	}
	conn.retry.stayed = NULL;
	memcpy(there.device, device, sizeof(device));
	conn.primary.standby_pd = &on;
	vqp.standby.shadow.qp = &standby;
	conn.status.told = false;
	n_statuses = 0;
	mesh_conn_tell(&conn);
	assert_int_equal(n_statuses, 0);
	assert_true(conn.status.told);
	conn.primary.standby_pd = NULL;
	vqp.standby.shadow.qp = NULL;
}

/* Keys that were told for a QP that is given up are for no other. */
static void test_keys_go_with_their_qp(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_RELEASE};

	(void)state;
	is_well();
	conn.moving.keys.ours[0] = (struct mesh_conn_move_key){.id = 5, .given = true, .key = {.rkey = 6, .path_rkey = 7}};
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_int_equal(conn.moving.keys.ours[0].id, 0);
	assert_false(conn.moving.keys.ours[0].given);
}

/* One move ends: the next is not begun before that has been carried out, and says when it may. */
static void test_one_after_the_other(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	decision.verdict = MV_PATH_LOCAL_DOWN;
	decision.drained = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(conn.move.failover); /* it asks for the peer's attempt */
	now_ns += mv_move_default_times.move_ns / 2;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(conn.retry.stayed);
	assert_false(conn.move.failover);
	assert_true(deadline <= now_ns + 1000 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_waits_for_its_turn),
		T(test_no_path),
		T(test_path_that_does_not_work),
		T(test_will_never_be),
		T(test_poorer_next_one),
		T(test_leaves_again_at_once),
		T(test_turn_is_kept),
		T(test_standby_is_passed),
		T(test_rts_behind_the_drain),
		T(test_follows),
		T(test_follows_for_few),
		T(test_leads_by_failing),
		T(test_leads),
		T(test_waits_anew),
		T(test_confirms),
		T(test_sync_confirms),
		T(test_lost_meanwhile),
		T(test_stays_meanwhile),
		T(test_movable_once_connected),
		T(test_long_status),
		T(test_keys_go_with_their_qp),
		T(test_one_after_the_other),
		T(test_failed_one_is_not_watched), /* the last one: what it has made known stays so */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
