// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Work that gets through on no path, while ports and probes say that all is well: the program gets its errors, and in time. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "failover_exec.h"
#include "failover_policy.h"
#include "oneconn.h"
#include "path_failures.h"
#include "path_monitor.h"
#include "random.h"
#include "negotiateint.h"

#define MAX_PATHS 8
#define RUNS      2000
#define GRACE_NS  (500 * MS) /* a quarter of move_timeout_ms */

/* Says which run it was: TEST_SEED=n does it again. */
#define CHECK(condition)                                                                                                         \
	do {                                                                                                                     \
		if (!(condition))                                                                                                \
			fail_msg("seed %llu: not true: %s", (unsigned long long)run, #condition);                                \
	} while (0)

static uint64_t run;

static struct mv_path path_of(unsigned int i)
{
	return (struct mv_path){.local_rail = i,
				.remote_rail = i,
				.local_gid = {.raw = {1, (uint8_t)i}},
				.remote_gid = {.raw = {2, (uint8_t)i}},
				.type = MV_GID_TYPE_ROCE_V2};
}

/* It is on the first of @n paths, and a send has used up its retries. */
static void fails_with_paths(unsigned int n)
{
	unsigned int i;

	is_to_move();
	conn.ends.local.gid = path_of(0).local_gid;
	conn.ends.peer.gid = path_of(0).remote_gid;
	decision.n_paths = n;
	for (i = 0; i < n; i++)
		decision.paths[i] = path_of(i);
}

/* Which path does it go to? @n of them; -1: it stays */
static int goes_to(unsigned int n)
{
	unsigned int i;

	mesh_conn_check(&conn, now_ns, now_ns);
	for (i = 0; conn.move.failover && i < n; i++)
		if (mv_gid_equal(&conn.move.paths.list[0].local_gid, &decision.paths[i].local_gid))
			return (int)i;
	return -1;
}

/* The queue pair there takes over. */
static void takes_over(unsigned int i)
{
	struct mv_move_action action;

	while (mv_move_next(&conn.move, &action))
		;
	conn.move.failover = false;
	conn.move.state = MV_MOVE_ACTIVE;
	conn.state = MESH_CONN_MOVED;
	conn.path = (struct mesh_conn_path){.gid = path_of(i).local_gid, .peer_gid = path_of(i).remote_gid, .gid_type = MV_GID_TYPE_ROCE_V2};
	conn.flags.path_failed = false;
	conn.retry.pathless_ns = 0;
	vqp.tracker->broken = false;
	vqp.tracker->acknowledged = false;
	mesh_path_failures_forget(&conn);
}

static void fails(uint64_t after_ns)
{
	now_ns += after_ns;
	conn.flags.path_failed = true;
	vqp.tracker->broken = true;
}

/*
 * Whatever the number of paths, the time that retries take and the one path that works, if there is one: each path is tried once at
 * most after the grace, and the program has its errors in time, or goes on where its work gets through.
 */
static void run_schedule(void)
{
	unsigned int n = 2 + rnd(MAX_PATHS - 1), tries = 0, at = 0;
	unsigned int works = rnd(2 * n); /* from n on: none */
	uint64_t retry_ns = (1 + rnd(2000)) * MS, begun_ns = now_ns, limit_ns;
	uint32_t been = 1;
	int to;

	works = works ? works : n;
	/* Each path once, what is tried anew during the grace, and the time for which errors wait. */
	limit_ns = (MESH_PATH_FAILURES + 1) * retry_ns + 2 * GRACE_NS + 200 * MS;
	fails_with_paths(n);
	for (;;) {
		to = goes_to(n);
		if (conn.state == MESH_CONN_FAILED)
			break;
		CHECK(now_ns - begun_ns <= limit_ns);
		if (to < 0) {
			now_ns += 10 * MS;
			continue;
		}
		CHECK(to != (int)at);
		CHECK(now_ns - begun_ns < GRACE_NS || !(been & 1u << to));
		been |= 1u << to;
		at = (unsigned int)to;
		takes_over(at);
		tries++;
		if (at == works)
			break;
		fails(retry_ns);
	}
	if (conn.state != MESH_CONN_FAILED)
		return;
	/* Errors only where it has been everywhere, or at as many as are tried. */
	CHECK(works == n || !(been & 1u << works));
	CHECK(tries >= 1 && (unsigned int)__builtin_popcount(been) >= (n < MESH_PATH_FAILURES ? n : MESH_PATH_FAILURES));
}

static void test_schedules(void **state)
{
	const char *seed = getenv("TEST_SEED");
	unsigned int i;

	for (i = 1; i <= RUNS; i++) {
		run = rng = seed ? strtoull(seed, NULL, 0) : i * 0x9e3779b97f4a7c15u;
		run_schedule();
		oneconn_teardown(state);
		oneconn_setup(state);
	}
}

/* Why it stays: its work has failed on each path, or there is no path now. */
static void test_why(void **state)
{
	(void)state;
	fails_with_paths(2);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	fails(GRACE_NS);
	assert_int_equal(goes_to(2), -1);
	assert_string_equal(conn.retry.stayed, "its work did not get through on any path");
	decision.n_paths = 0;
	now_ns += 10 * MS;
	assert_int_equal(goes_to(2), -1);
	assert_string_equal(conn.retry.stayed, "no other rail of this host reaches one of the peer's");
}

/* What got through on the path before makes the one before that a path again. */
static void test_got_through(void **state)
{
	(void)state;
	fails_with_paths(2);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	vqp.tracker->acknowledged = true;
	fails(3000 * MS);
	assert_int_equal(goes_to(2), 0);
	takes_over(0);
	fails(3000 * MS);
	assert_int_equal(goes_to(2), -1);
	assert_int_equal(conn.state, MESH_CONN_MOVED);
	now_ns += GRACE_NS;
	assert_int_equal(goes_to(2), -1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
}

/* One that has not failed may go where it failed before: its port is down, and nothing better is there. */
static void test_port_down(void **state)
{
	(void)state;
	fails_with_paths(2);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	now_ns += 3000 * MS;
	decision.verdict = MV_PATH_LOCAL_DOWN;
	assert_int_equal(goes_to(2), 0);
	conn.move.failover = false;
}

/* A path that was down since it failed, and has come back, is another one. */
static void test_came_back(void **state)
{
	(void)state;
	fails_with_paths(2);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	decision.verdict = MV_PATH_REMOTE_DOWN;
	mesh_path_failures_update(&conn, now_ns);
	decision.verdict = MV_PATH_WORKS;
	fails(3000 * MS);
	assert_int_equal(goes_to(2), 0);
	conn.move.failover = false;
}

/* Watches path_of(0). @frame: gets the GIDs, for mesh_path_monitor_told() */
static void begin_watch(struct mesh_path_watch **watch, uint8_t kind, struct mv_frame *frame)
{
	frame->sgid = path_of(0).local_gid;
	frame->dgid = path_of(0).remote_gid;
	mesh_path_monitor_use(watch, kind, &frame->sgid, &frame->dgid);
}

static void end_watch(struct mesh_path_watch **watch, uint8_t kind)
{
	mesh_path_monitor_use(watch, kind, NULL, NULL);
	mesh_path_monitor_run(now_ns);
	free(process.monitor.all);
	process.monitor.all = NULL;
}

/* With probes it has to answer them again. */
static void test_answers_again(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_PATH, .probed = MV_PROBED_DOWN};
	struct mesh_path_watch *probed = NULL;

	(void)state;
	fails_with_paths(2);
	begin_watch(&probed, MV_WATCH_PRIMARY, &frame);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	mesh_path_monitor_told(&frame, now_ns);
	mesh_path_failures_update(&conn, now_ns);
	frame.probed = MV_PROBED_UNKNOWN;
	mesh_path_monitor_told(&frame, now_ns);
	fails(3000 * MS);
	assert_int_equal(goes_to(2), -1);
	frame.probed = MV_PROBED_UP;
	mesh_path_monitor_told(&frame, now_ns);
	assert_int_equal(goes_to(2), 0);
	conn.move.failover = false;
	end_watch(&probed, MV_WATCH_PRIMARY);
}

/* The primary path seems to work, and did not carry the work: it returns when some has got through elsewhere. */
static void test_primary(void **state)
{
	(void)state;
	fails_with_paths(2);
	conn.primary = (struct mesh_conn_primary){.away = true,
						  .hold_ns = 100 * MS,
						  .gid = path_of(0).local_gid,
						  .gid_type = MV_GID_TYPE_ROCE_V2,
						  .peer_gid = path_of(0).remote_gid};
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	decision.verdict = MV_PATH_WORKS;
	mesh_conn_check(&conn, now_ns, now_ns);
	now_ns += 1000 * MS;
	assert_true(mesh_conn_check(&conn, now_ns, now_ns) <= now_ns + 100 * MS);
	assert_false(conn.move.failover);
	vqp.tracker->acknowledged = true;
	mesh_conn_check(&conn, now_ns, now_ns);
	now_ns += 100 * MS;
	assert_int_equal(goes_to(2), 0);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_PRIMARY);
	conn.move.failover = false;
}

/* The peer leads, knows nothing of it, and offers the path: it hears that this end cannot have it. */
static void test_declines(void **state)
{
	const struct mv_path path = path_of(0);
	const struct mv_move_action action = {
		.type = MV_DO_PREPARE, .local_gid = path.local_gid, .remote_gid = path.remote_gid, .gid_type = path.type};

	(void)state;
	fails_with_paths(2);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
	fails(3000 * MS);
	assert_int_equal(goes_to(2), -1);
	conn.move.leader = false;
	conn.move.attempts.peer = 1;
	conn.move.call_off.settled = MV_MOVE_ACTIVE;
	conn.move.failover = conn.move.wish.own = true;
	conn.move.state = MV_MOVE_PREPARING;
	conn.move.next.offer = 5;
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_int_equal(conn.move.declined, 5);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	conn.move.failover = false;
}

/* The path that it works on is tried again, where there is no other, when the directory changes. */
static void test_own_again(void **state)
{
	(void)state;
	fails_with_paths(1);
	decision.generation = 7;
	assert_int_equal(goes_to(1), -1);
	now_ns += 100 * MS;
	assert_int_equal(goes_to(1), -1);
	decision.generation = 8;
	assert_int_equal(goes_to(1), 0);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_PATH);
	takes_over(0);
	/* In vain: not again before the directory changes again. */
	fails(100 * MS);
	assert_int_equal(goes_to(1), -1);
	decision.generation = 9;
	decision.n_paths = 2;
	decision.paths[1] = path_of(1);
	assert_int_equal(goes_to(2), 1);
	takes_over(1);
}

/* That path has to answer probes, if it ever did. */
static void test_own_answers(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_PATH, .probed = MV_PROBED_DOWN};
	struct mesh_path_watch *probed = NULL;

	(void)state;
	fails_with_paths(1);
	begin_watch(&probed, MV_WATCH_WORK, &frame);
	mesh_path_monitor_told(&frame, now_ns);
	assert_int_equal(goes_to(1), -1);
	decision.generation = 1;
	now_ns += 10 * MS;
	assert_int_equal(goes_to(1), -1);
	frame.probed = MV_PROBED_UP;
	mesh_path_monitor_told(&frame, now_ns);
	now_ns += 10 * MS;
	assert_int_equal(goes_to(1), 0);
	conn.move.failover = false;
	end_watch(&probed, MV_WATCH_WORK);
}

/* Later than that it has to have come back. */
static void test_own_again_late(void **state)
{
	(void)state;
	fails_with_paths(1);
	decision.generation = 7;
	assert_int_equal(goes_to(1), -1);
	now_ns += GRACE_NS - 10 * MS;
	decision.generation = 8;
	assert_int_equal(goes_to(1), 0);
	takes_over(0);
	fails(100 * MS);
	assert_int_equal(goes_to(1), -1);
	decision.generation = 9;
	assert_int_equal(goes_to(1), -1);
	decision.verdict = MV_PATH_LOCAL_DOWN;
	decision.n_paths = 0;
	assert_int_equal(goes_to(1), -1);
	decision = (struct mesh_path_decision){
		.verdict = MV_PATH_WORKS, .generation = 10, .n_paths = 1, .paths = {path_of(0)}};
	assert_int_equal(goes_to(1), 0);
	conn.move.failover = false;
}

/* The follower's queue pair has failed there, and the leader's has not. For other reasons the leader does not offer that path. */
static void test_own_for_peer(void **state)
{
	struct mv_move_action wanted = {.type = MV_DO_WANTED, .reason = MV_CTL_REASON_PORT};

	(void)state;
	fails_with_paths(1);
	conn.flags.path_failed = false;
	vqp.tracker->broken = false;
	assert_int_equal(goes_to(1), -1);
	mesh_conn_carry_out(&conn, &wanted, now_ns);
	assert_false(conn.move.failover);
	wanted.reason = MV_CTL_REASON_PATH;
	mesh_conn_carry_out(&conn, &wanted, now_ns);
	assert_true(conn.move.failover);
	assert_true(mv_gid_equal(&conn.move.paths.list[0].local_gid, &decision.paths[0].local_gid));
	conn.move.failover = false;
}

/* A follower that wants to leave is offered the path that it is on. Return: did it try to make a queue pair there? */
static bool tries_own(void)
{
	const struct mv_path path = path_of(0);
	const struct mv_move_action action = {
		.type = MV_DO_PREPARE, .local_gid = path.local_gid, .remote_gid = path.remote_gid, .gid_type = path.type};
	struct mv_move_action next;

	conn.move.leader = false;
	conn.move.attempts.peer = 1;
	conn.move.call_off.settled = MV_MOVE_PASSTHROUGH;
	conn.move.failover = conn.move.wish.own = true;
	conn.move.state = MV_MOVE_PREPARING;
	conn.move.next.offer = 5;
	conn.moving.steps.prepared_ns = 0;
	mesh_conn_carry_out(&conn, &action, now_ns);
	while (mv_move_next(&conn.move, &next))
		;
	if (!conn.moving.steps.prepared_ns) {
		assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
		assert_int_equal(conn.move.call_off.reason, MV_CTL_REASON_NO_PATH);
	}
	conn.move.failover = false;
	return conn.moving.steps.prepared_ns;
}

static void test_offered_own(void **state)
{
	(void)state;
	fails_with_paths(1);
	assert_true(tries_own());
	/* This end knows that a port of the path is down. */
	decision.n_paths = 0;
	assert_false(tries_own());
	decision.n_paths = 1;
	assert_true(tries_own());
	/* It has not failed: to begin there anew may cost the result of an atomic. */
	conn.flags.path_failed = false;
	vqp.tracker->broken = false;
	assert_false(tries_own());
	/* The same NIC, but back to the addresses of the program: both ends wish that, and nothing has failed. */
	conn.failures->n = 0;
	conn.move.reason = MV_CTL_REASON_PRIMARY;
	assert_true(tries_own());
	conn.move.reason = MV_CTL_REASON_PORT;
	assert_false(tries_own());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_schedules),     T(test_got_through), T(test_port_down), T(test_came_back),
		T(test_answers_again), T(test_declines),    T(test_primary),
		T(test_own_again),     T(test_own_again_late), T(test_own_for_peer), T(test_offered_own),
		T(test_own_answers),   T(test_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
