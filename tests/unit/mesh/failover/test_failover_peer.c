// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connection fails over: what its peer says, does not say, or gives up, and when it is tried again. */
#include "failover_exec.h"
#include "sealed.h"

#include "failing_over.h"
#include "negotiateint.h"

/* An attempt that began earlier, or for another reason: the peer is there. */
static void test_peer_gave_up(void **state)
{
	(void)state;
	process.moves.n_more = 100;
	waits_for(MV_CTL_REASON_TIMEOUT);
	assert_true(process.moves.n_more <= 50); /* as many at once as that were too many */
}

static void test_peer_has_atomics(void **state)
{
	(void)state;
	process.moves.n_more = 100;
	waits_for(MV_CTL_REASON_BUSY);
	assert_int_equal(process.moves.n_more, 100);
}

static void test_peer_does_not_answer(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_STAY, .reason = MV_CTL_REASON_TIMEOUT, .timed_out = true};

	(void)state;
	process.moves.n_more = 100;
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(process.moves.n_more, 50);
}

/* Nor after the drain. */
static void test_peer_does_not_say(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_FLUSH, .timed_out = true};

	(void)state;
	is_to_move();
	process.moves.n_more = 100;
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(process.moves.n_more, 50);
}

/* What begins, and fails in the same moment, is tried again, and given up in time, though nobody tells of anything. */
static void test_fails_at_once(void **state)
{
	uint64_t deadline = now_ns, begun_ns = now_ns;

	(void)state;
	is_to_move();
	conn.move.attempts.peer = 1; /* so it need not ask */
	while (conn.state == MESH_CONN_PASSTHROUGH && now_ns < begun_ns + 2000 * MS) {
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		if (conn.state != MESH_CONN_PASSTHROUGH)
			break;
		assert_false(conn.move.failover);
		assert_true(deadline <= now_ns + 10 * MS);
		now_ns = deadline;
	}
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_true(now_ns >= begun_ns + 500 * MS && now_ns <= begun_ns + 520 * MS);
	assert_int_equal(cq.sw_cq.n, 1);
}

/* Leaving a port that is down is refused again and again, for as long as it lasts. */
static void test_backs_off(void **state)
{
	uint64_t deadline, end_ns = now_ns + 20000 * MS;
	unsigned int n = 0;

	(void)state;
	is_well();
	decision.verdict = MV_PATH_LOCAL_DOWN;
	for (; now_ns < end_ns; now_ns = deadline) {
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		if (conn.move.failover) {
			n++;
			refused();
			deadline = mesh_conn_run(&conn, now_ns, now_ns);
		}
		assert_false(conn.move.failover);
		assert_true(deadline > now_ns && deadline <= now_ns + 1000 * MS);
	}
	assert_true(n > 20 && n < 40);
	/* A new directory: perhaps the peer has a path now. */
	now_ns = conn.retry.stayed_ns + 10 * MS;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_false(conn.move.failover);
	decision.generation++;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(conn.move.failover);
	conn.move.failover = false;
}

/* What comes to nothing before anything was sent is tried again, though nobody tells of anything. */
static void test_again_by_itself(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	conn.move.attempts.peer = 1; /* so it need not ask, and fails at once */
	decision.verdict = MV_PATH_LOCAL_DOWN;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(conn.retry.stayed);
	assert_false(conn.move.failover);
	assert_true(deadline <= now_ns + 1000 * MS);
}

/* A peer that wants to move is told that there is nobody any more. */
static void test_failed_one_says_so(void **state)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_OFFER, .flags = MV_CTL_MOVE, .request_id = 1};

	(void)state;
	is_to_move();
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	msg.from = conn.ends.peer;
	msg.to = conn.ends.local;
	msg.attempt = 2;
	msg.to_attempt = conn.move.attempts.mine;
	msg.from_psn = conn.move.rq_psn;
	msg.to_psn = conn.move.sq_psn;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_int_equal(sent.reason, MV_CTL_REASON_GONE);
	assert_null(mv_move_peek(&conn.move));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_peer_gave_up),
		T(test_peer_has_atomics),
		T(test_peer_does_not_answer),
		T(test_fails_at_once),
		T(test_backs_off),
		T(test_again_by_itself),
		T(test_failed_one_says_so),
		T(test_peer_does_not_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
