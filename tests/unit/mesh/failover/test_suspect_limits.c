/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which doubts of the agent prepare nothing, and how many connections prepare at a time. */
#include "suspect_fixture.h"

static void test_enough_prepare(void **state)
{
	(void)state;
	process.moves.n_prepared = 1024;
	suspected();
	check();
	assert_false(conn.move.failover);
	process.moves.n_prepared = 1023;
	check();
	assert_true(conn.move.failover);
}

static void assert_does_not_prepare(void)
{
	suspected();
	check();
	assert_false(conn.move.failover);
	assert_null(conn.retry.stayed);
}

static void test_follower(void **state)
{
	(void)state;
	conn.move.leader = false;
	assert_does_not_prepare();
}

static void test_switched_off(void **state)
{
	(void)state;
	mesh_root.undetected = MESH_DETECT_PROBE;
	assert_does_not_prepare();
	mesh_root.undetected = 0;
}

/* Whether another one is any better is not known yet; when it is, there is time still. */
static void test_no_better_path(void **state)
{
	(void)state;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_UNKNOWN);
	assert_does_not_prepare();
	decision.n_paths = 0;
	check();
	assert_false(conn.move.failover);
	decision.n_paths = 1;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_UP);
	check();
	assert_true(conn.move.failover);
}

/* The peer has refused lately. */
static void test_refused_lately(void **state)
{
	(void)state;
	conn.retry.stayed = "of something";
	conn.retry.stayed_ns = now_ns;
	suspected();
	check();
	assert_false(conn.move.failover);
	now_ns += 1000 * MS;
	suspected();
	check();
	assert_true(conn.move.failover);
}

/* It refuses now: that is no reason to wait when the path is dead. */
static void test_refused(void **state)
{
	(void)state;
	prepare();
	mv_move_refuse(&conn.move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	carry_out();
	assert_is_off();
	check();
	assert_false(conn.move.failover);
	found(MV_PROBED_DOWN);
	check();
	assert_true(conn.move.failover);
}

/* It counts as one that prepares, and keeps nobody waiting who moves. */
static void test_counts(void **state)
{
	(void)state;
	conn.move.failover = conn.move.unsure = true;
	mesh_move_limiter_note(&conn, false, now_ns);
	mesh_move_limiter_note(&conn, true, now_ns);
	assert_int_equal(process.moves.n_prepared, 1);
	assert_int_equal(process.moves.n_moving, 0);
	assert_int_equal(process.moves.n_fresh, 0);
	assert_true(mesh_some_prepare());
	conn.move.unsure = false;
	mesh_move_limiter_note(&conn, false, now_ns);
	assert_int_equal(process.moves.n_prepared, 0);
	assert_int_equal(process.moves.n_moving, 1);
	assert_int_equal(process.moves.n_fresh, 1);
	conn.move.failover = false;
	mesh_move_limiter_note(&conn, false, now_ns);
	assert_int_equal(process.moves.n_moving + process.moves.n_fresh + process.moves.n_prepared, 0);
	conn.move.failover = conn.move.unsure = true;
	mesh_move_limiter_note(&conn, false, now_ns);
	conn.move.failover = conn.move.unsure = false;
	mesh_move_limiter_note(&conn, false, now_ns);
	assert_int_equal(process.moves.n_prepared, 0);
	conn.move.failover = conn.move.unsure = true;
	mesh_move_limiter_note(&conn, false, now_ns);
	mesh_move_limiter_forget(&conn);
	assert_int_equal(process.moves.n_prepared, 0);
	assert_false(mesh_some_prepare());
	conn.move.failover = conn.move.unsure = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_enough_prepare, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_follower, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_switched_off, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_no_better_path, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_refused_lately, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_refused, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_counts, suspect_setup, suspect_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
