/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Doubts about a path at the end that follows: it is sure itself, what it has made is gone, or its peer calls off. */
#include "suspect_fixture.h"
#include "negotiateint.h"

#include <errno.h>

/* A follower that is sure lets its leader find out itself; but not for long. */
static void follower_is_sure(bool wished)
{
	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = conn.move.early = conn.move.unsure = true;
	conn.move.wish.own = wished;
	conn.move.state = MV_MOVE_ANSWERED;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), UINT64_MAX);
	decision.verdict = MV_PATH_LOCAL_DOWN;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 20 * MS);
	decision.verdict = MV_PATH_WORKS;
	now_ns += 19 * MS;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), UINT64_MAX);
	decision.verdict = MV_PATH_LOCAL_DOWN;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 20 * MS);
	assert_null(mv_move_peek(&conn.move));
	/* Among hundreds what the leader has said may not have been looked at. */
	assert_int_equal(mesh_conn_check(&conn, now_ns + 25 * MS, now_ns + 15 * MS), now_ns + 30 * MS);
	assert_null(mv_move_peek(&conn.move));
	/* And again, for it may be lost. */
	for (unsigned int i = 0; i < 2; i++) {
		now_ns += 20 * MS;
		assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 20 * MS);
		carry_out();
		assert_int_equal(sent.type, MV_CTL_HELLO);
		assert_int_equal(sent.reason, MV_CTL_REASON_PORT);
		sent = (struct mv_ctl_msg){0};
		mesh_conn_check(&conn, now_ns, now_ns);
		assert_null(mv_move_peek(&conn.move));
	}
	conn.move.failover = conn.move.unsure = false;
}

/* What it has answered with is gone, or its program has posted what cannot be moved. */
static void follower_has_lost(const char *lost, uint32_t qpn)
{
	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = conn.move.early = conn.move.unsure = true;
	conn.move.state = MV_MOVE_ANSWERED;
	conn.move.attempts.peer = 3;
	conn.move.last_offer = 1;
	conn.move.next.mine.qpn = qpn;
	vqp.tracker->lost = lost;
	assert_int_equal(check(), now_ns);
	assert_false(conn.move.failover);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_null(conn.retry.stayed);
	vqp.tracker->lost = NULL;
}

static void test_follower_has_lost_it(void **state)
{
	(void)state;
	follower_has_lost(NULL, 77);
}

static void test_follower_cannot_move(void **state)
{
	(void)state;
	follower_has_lost("of something", 0);
}

static void test_follower_is_sure(void **state)
{
	(void)state;
	follower_is_sure(false);
}

static void test_follower_has_said_so(void **state)
{
	(void)state;
	follower_is_sure(true);
}

/* It has moved, and is to find out anew the next time. */
static void test_follower_forgets(void **state)
{
	(void)state;
	conn.watched.dead_ns = 1;
	check();
	assert_int_equal(conn.watched.dead_ns, 0);
}

/* The follower's QP comes into its place with the drain. */
static void follower_drains(int error)
{
	const struct mv_move_action drain = {.type = MV_DO_DRAIN};

	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = conn.move.early = true;
	conn.move.state = MV_MOVE_DRAINING;
	conn.moving.since_ns = now_ns;
	now_ns += 15 * MS;
	take_error = error;
	/* The turn began somewhat earlier. */
	mesh_conn_carry_out(&conn, &drain, now_ns - 5 * MS);
	assert_int_equal(n_taken, 1);
}

static void test_follower_in_a_batch(void **state)
{
	(void)state;
	follower_drains(-EBUSY);
	assert_int_equal(conn.moving.since_ns, now_ns);
	assert_true(conn.moving.draining);
	assert_true(mesh_conn_drain_at(&conn) < now_ns + MS);
	now_ns += 1700 * MS;
	mesh_conn_drain(&conn, now_ns);
	assert_int_equal(n_taken, 2);
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
	/* Whoever is in it does not end it. */
	now_ns += 101 * MS;
	mesh_conn_drain(&conn, now_ns);
	assert_false(conn.moving.draining);
	assert_int_equal(conn.move.state, MV_MOVE_FAILED);
}

static void test_follower_has_none(void **state)
{
	(void)state;
	follower_drains(-ENOENT);
	assert_false(conn.moving.draining);
	assert_int_equal(conn.move.state, MV_MOVE_FAILED);
}

/* @unsure: it has heard of no more than a suspicion */
static void peer_takes_it_back(bool unsure)
{
	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = true;
	conn.move.unsure = unsure;
	conn.move.state = MV_MOVE_ANSWERED;
	conn.moving.since_ns = now_ns;
	mv_move_call_off(&conn.move, MV_CTL_REASON_HEALED, MV_CTL_REASON_NONE, false);
	carry_out();
	assert_false(conn.move.failover);
	assert_int_equal(conn.retry.stayed != NULL, !unsure || vqp.tracker->broken);
	assert_int_equal(conn.moving.since_ns, 0);
}

static void test_peer_takes_it_back(void **state)
{
	(void)state;
	peer_takes_it_back(true);
	peer_takes_it_back(false);
}

/* One that has failed meanwhile waits for a path, or has its errors. */
static void test_failed_meanwhile(void **state)
{
	(void)state;
	vqp.tracker->broken = true;
	peer_takes_it_back(true);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_true(conn.retry.pathless_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_follower_has_lost_it, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower_cannot_move, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower_is_sure, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower_has_said_so, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower_forgets, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower_in_a_batch, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower_has_none, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_peer_takes_it_back, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_failed_meanwhile, suspect_setup, suspect_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
