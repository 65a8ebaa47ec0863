// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connection that stays where it is: for how long `meshverbs qps` shows why, and when the connection looks for paths again. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "connstatus.h"
#include "detect.h"
#include "failover_policy.h"
#include "helper.h"
#include "oneconn.h"

#define SECOND_NS (1000 * MS)

static const struct mv_path primary = {
	.local_gid = {.raw = {1}}, .remote_gid = {.raw = {2}}, .type = MV_GID_TYPE_ROCE_V2};
static struct mesh_helper helper;

static int setup(void **state)
{
	oneconn_setup(state);
	is_well();
	conn.ends.local_type = MV_GID_TYPE_ROCE_V2;
	mesh_conn_settled(&conn);
	helper = (struct mesh_helper){.link.fd = 0};
	mesh_lock_init(&helper.link_lock);
	process.thread = &helper;
	return 0;
}

/* Return: when to look again. */
static uint64_t check(enum mv_path_verdict verdict, uint64_t generation)
{
	decision.verdict = verdict;
	decision.generation = generation;
	return mesh_conn_check(&conn, now_ns, now_ns);
}

/* The agent is told, and `meshverbs qps` shows it. */
static bool says(const char *why)
{
	mesh_conn_tell_changes(&conn, now_ns);
	return strstr(status, why);
}

static void port_goes_down(void)
{
	decision.n_paths = 0;
	check(MV_PATH_LOCAL_DOWN, 1);
	assert_true(says("no other rail"));
}

/* Another path is at work. */
static void is_away(void)
{
	conn.state = MESH_CONN_MOVED;
	conn.path = (struct mesh_conn_path){.gid = {.raw = {3}}, .peer_gid = {.raw = {4}}, .gid_type = MV_GID_TYPE_ROCE_V2};
	conn.primary.away = true;
	decision.n_paths = 1;
	decision.paths[0] = primary;
}

/* The port comes up again before there was another path. */
static void test_path_works_again(void **state)
{
	(void)state;
	port_goes_down();
	now_ns += 10 * SECOND_NS;
	check(MV_PATH_WORKS, 2);
	assert_false(says("why"));
	assert_null(conn.retry.stayed);
}

/* A NIC that was drained, shortly after the connection found no path. The pause between two attempts stays. */
static void test_not_drained_any_more(void **state)
{
	(void)state;
	decision.n_paths = 0;
	decision.drained = true;
	check(MV_PATH_LOCAL_DOWN, 1);
	assert_true(says("no other rail"));
	decision.drained = false;
	now_ns += 300 * MS;
	assert_int_equal(check(MV_PATH_WORKS, 2), now_ns + 700 * MS);
	assert_true(says("no other rail"));
	now_ns += 700 * MS;
	assert_int_equal(check(MV_PATH_WORKS, 2), UINT64_MAX);
	assert_false(says("why"));
}

/* A move came to nothing, and the path that it was to leave works. */
static void test_move_came_to_nothing(void **state)
{
	(void)state;
	conn.move.reason = MV_CTL_REASON_PORT;
	stay(MV_CTL_REASON_NO_PATH);
	assert_true(says("why"));
	now_ns += SECOND_NS;
	check(MV_PATH_WORKS, 1);
	assert_false(says("why"));
}

/* Nobody knows whether the path works, or nothing is done about it. */
static void test_path_may_be_down(void **state)
{
	(void)state;
	port_goes_down();
	now_ns += 10 * SECOND_NS;
	check(MV_PATH_UNKNOWN, 2);
	assert_true(says("no other rail"));
	mesh_root.undetected = MESH_DETECT_CARRIER;
	check(MV_PATH_LOCAL_DOWN, 2);
	mesh_root.undetected = 0;
	assert_true(says("no other rail"));
}

/* The peer refuses to go back to the primary path: that lasts as long as that path works. */
static void test_return_is_refused(void **state)
{
	(void)state;
	is_away();
	check(MV_PATH_WORKS, 1);
	conn.move.reason = MV_CTL_REASON_PRIMARY;
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_true(says("why"));
	now_ns += 2 * SECOND_NS;
	check(MV_PATH_WORKS, 1);
	assert_true(says("why"));
	decision.n_paths = 0;
	check(MV_PATH_WORKS, 2);
	assert_false(says("why"));
}

/* The agent has not run for a while, and goes on with the same directory. */
static void test_agent_did_not_run(void **state)
{
	(void)state;
	assert_int_equal(check(MV_PATH_UNKNOWN, 0), now_ns + SECOND_NS);
	is_away();
	assert_int_equal(check(MV_PATH_UNKNOWN, 0), now_ns + SECOND_NS);
	now_ns += SECOND_NS;
	assert_int_equal(check(MV_PATH_WORKS, 1), now_ns + 5 * SECOND_NS); /* hold_down_ms */
	/* An agent that runs tells of each change; so does one that the process is not connected to, once it is. */
	assert_int_equal(check(MV_PATH_UNKNOWN, 1), UINT64_MAX);
	helper.link.fd = -1;
	assert_int_equal(check(MV_PATH_UNKNOWN, 0), UINT64_MAX);
	process.thread = NULL;
	assert_int_equal(check(MV_PATH_UNKNOWN, 0), UINT64_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, oneconn_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_path_works_again),
		TEST(test_not_drained_any_more),
		TEST(test_move_came_to_nothing),
		TEST(test_path_may_be_down),
		TEST(test_return_is_refused),
		TEST(test_agent_did_not_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
