// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connection is made as without meshverbs: its path works again, or the program needs it. */
#include <errno.h>

#include "negotiateint.h"
#include "sealed.h"
#include "passthrough_fixture.h"

/* Return: is a worker to connect it? */
static bool is_due_after(uint64_t ms)
{
	unsigned int before = n_submitted;
	mesh_conn_run(&conn, now_ns + ms * MS, now_ns + ms * MS);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	assert_true(n_submitted == before || only_tries); /* others do not wait for it */
	return n_submitted > before;
}

static void test_path_is_back(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	deadline = mesh_conn_run(&conn, now_ns + 2 * MS, now_ns + 2 * MS);
	assert_true(deadline == now_ns + 5001 * MS); /* by itself, and not earlier */
	assert_false(is_due_after(5000));
	assert_true(is_due_after(5001));
	decision.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(10000));
	/* Our own agent is gone, too, and does not come back. */
	decision.verdict = MV_PATH_UNKNOWN;
	assert_false(is_due_after(10001));
	assert_false(is_due_after(15000));
	assert_true(is_due_after(15001));
	decision.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(15002));
	conn.move.attempts.peer = 7; /* it is there */
	assert_false(is_due_after(10001));
	assert_false(is_due_after(19000));
	conn.move.attempts.peer = 0;
	/* When it was made, the agents had not heard each other's beacons yet. */
	conn.own_qp.verdict = MV_PATH_APART;
	assert_false(is_due_after(20001));
	assert_true(is_due_after(20002));
	decision.verdict = MV_PATH_APART;
	assert_false(is_due_after(20003));
	decision.verdict = MV_PATH_OTHER_SUBNET;
	assert_false(is_due_after(29000));
	assert_true(is_due_after(34000));
	decision.verdict = MV_PATH_WORKS;
	conn.own_qp.verdict = MV_PATH_REMOTE_DOWN;
	unroutable = true;
	conn.own_qp.fits = false;
	assert_false(is_due_after(29001));
	assert_false(is_due_after(39000));
	conn.own_qp.fits = true;
	/* It flaps. */
	assert_false(is_due_after(40000));
	decision.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(44000));
	decision.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(46000));
	deadline = mesh_conn_run(&conn, now_ns + 46001 * MS, now_ns + 46001 * MS);
	assert_true(deadline == now_ns + 51000 * MS);
	assert_false(is_due_after(50999));
	assert_true(is_due_after(51000));
	/* While its own port was down the kernel had no way. */
	conn.own_qp.fits = false;
	assert_false(is_due_after(51001));
	conn.own_qp.verdict = MV_PATH_LOCAL_DOWN;
	assert_false(is_due_after(52000));
	assert_true(is_due_after(57000));
	/* Nobody can say whether its index is right. */
	decision.verdict = MV_PATH_ASK;
	assert_true(is_due_after(57001));
	decision.verdict = MV_PATH_OTHER_SUBNET;
	assert_true(is_due_after(57002));
	/* Drained, but nobody has pulled it yet. */
	decision.verdict = MV_PATH_LOCAL_DOWN;
	decision.drained = true;
	assert_true(is_due_after(57002));
	assert_int_equal(n_rtr, 0);
}

/* In another subnet of its link: if the kernel finds it there, it has worked all the time, and its program sends. */
static void test_path_may_work(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	now_ns = conn.move.timers.begun_at = 10000 * MS;
	conn.own_qp.verdict = conn.move.verdict = decision.verdict = MV_PATH_OTHER_SUBNET;
	conn.own_qp.fits = false;
	conn.own_qp.works_since_ns = 1;
	conn.own_qp.works_known = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(deadline == now_ns + 400 * MS);
	assert_false(is_due_after(399));
	assert_true(is_due_after(400));
	conn.move.attempts.peer = 7;
	assert_false(is_due_after(402));
	conn.move.attempts.peer = 0;
	/* A port goes meanwhile, or the agent. */
	decision.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(403));
	decision.verdict = MV_PATH_OTHER_SUBNET;
	assert_false(is_due_after(404));
	assert_false(is_due_after(5403));
	decision.verdict = MV_PATH_UNKNOWN;
	assert_false(is_due_after(5404));
	decision.verdict = MV_PATH_OTHER_SUBNET;
	assert_false(is_due_after(10403));
	assert_true(is_due_after(15403));
	/* The kernel asks nobody, or is told nothing, and that does not change soon. */
	rtr_error = ETIMEDOUT;
	now_ns += 15403 * MS;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_false(is_due_after(15999));
	assert_true(is_due_after(16000));
}

/* Held for long, with a path that works, and a worker is about to connect it. */
static void is_about_to_try(void)
{
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	assert_true(is_due_after(0));
}

static void test_back_to_the_lower(void **state)
{
	(void)state;
	is_about_to_try();
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	assert_null(conn.vqp);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_rts, 1);
	assert_int_equal(n_own_qps, 1);
	mesh_conn_work(&conn); /* called once more for whatever reason */
	assert_int_equal(n_rtr, 1);
}

/* The program has not said so. */
static void test_back_before_rts(void **state)
{
	(void)state;
	is_about_to_try();
	conn.attr.rts_mask = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_rts, 0);
	assert_int_equal(n_own_qps, 1);
}

static void test_back_without_workers(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	no_workers = true;
	conn.move.timers.resend_at = 0;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(conn.state, MESH_CONN_HELD); /* the helper thread has no time for it */
	assert_int_equal(n_rtr, 0);
	assert_true(deadline == now_ns + 1000 * MS);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	no_workers = false;
	assert_true(is_due_after(1000));
}

/* Another index is not taken for a try: the one that is right may be refused for now only. */
static void test_back_to_the_right_entry(void **state)
{
	(void)state;
	is_about_to_try();
	conn.attr.rtr.ah_attr.is_global = 1;
	conn.attr.rtr.ah_attr.grh.sgid_index = 3;
	chosen_index = 5;
	rtr_error = ETIMEDOUT;
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(rtr_index, 5);
	assert_int_equal(conn.state, MESH_CONN_HELD);
}

/* The neighbour does not answer yet: it is held as before, and tries again, not all the time. */
MV_LOCKS_UNCHECKED static void test_lower_refuses(void **state)
{
	uint64_t deadline, wait_ms = 1000, end_ns;

	(void)state;
	is_about_to_try();
	rtr_error = ETIMEDOUT;
	end_ns = now_ns + 120000 * MS;
	while (now_ns < end_ns) {
		mesh_conn_work(&conn); /* takes a second */
		assert_int_equal(conn.state, MESH_CONN_HELD);
		assert_int_equal(conn.move.state, MV_MOVE_ASKING);
		assert_int_equal(vqp.mode, MESH_VQP_QUEUING);
		assert_true(mesh_trylock(&vqp.posting.lock)); /* the program posts again */
		mesh_unlock(&vqp.posting.lock);
		assert_false(is_due_after(wait_ms - 1));
		conn.move.timers.resend_at = 0;
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		assert_true(deadline == now_ns + wait_ms * MS);
		now_ns += wait_ms * MS;
		assert_true(is_due_after(0));
		wait_ms = wait_ms < 16000 ? 2 * wait_ms : 16000;
	}
	assert_int_equal(n_rtr, 10);
	assert_int_equal(n_rts, 0);
	assert_int_equal(n_own_qps, 0);
	rtr_error = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_own_qps, 1);
}

/*
 * The lower provider is asked for an address handle first; of one that is not to be had for another reason, RTR is
 * asked itself.
 */
static void test_asked_first(void **state)
{
	(void)state;
	is_about_to_try();
	ah_error = EHOSTUNREACH;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_int_equal(n_rtr, 0);
	now_ns += 1000 * MS;
	assert_true(is_due_after(0));
	ah_error = EAGAIN; /* too many objects */
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_rtr, 1);
}

/*
 * What it has to receive is an SRQ's, which may have to be redistributed before it can: not for what the kernel says of
 * an address handle already, and not beyond what it says of RTR.
 */
static void test_with_an_srq(void **state)
{
	struct ibv_srq srq = {.context = NULL};

	(void)state;
	is_about_to_try();
	qp.srq = &srq;
	ah_error = ETIMEDOUT;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_int_equal(n_joined, 0);
	assert_int_equal(n_rtr, 0);
	assert_false(is_due_after(999));
	assert_true(is_due_after(1000));
	now_ns += 1000 * MS;
	ah_error = 0;
	rtr_error = EINVAL;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_joined, 1);
	assert_int_equal(n_left, 1);
	now_ns += 2000 * MS;
	assert_true(is_due_after(0));
	rtr_error = 0;
	mesh_conn_work(&conn);
	qp.srq = NULL;
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_joined, 2);
	assert_int_equal(n_left, 1);
	assert_int_equal(n_ahs, 2);
	assert_int_equal(n_ahs_gone, 2);
}

/* A thread of the program's is in a batch (ibv_wr_start()), before a worker is called or after. */
static void test_back_after_a_batch(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	in_batch = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_submitted, 0);
	assert_true(deadline <= now_ns + MS);
	assert_true(vqp.posting.stop_wanted);
	in_batch = false;
	assert_true(is_due_after(0));
	in_batch = true;
	mesh_lock(&vqp.posting.lock);
	mesh_lock_lend(&vqp.posting.lock);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	assert_false(is_due_after(0));
	mesh_unlock(&vqp.posting.lock);
	in_batch = false;
	assert_true(is_due_after(0));
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_rtr, 1);
}

/* It can receive, so there is no way back. */
MV_LOCKS_UNCHECKED static void test_lower_refuses_rts(void **state)
{
	(void)state;
	is_about_to_try();
	rts_error = EINVAL;
	cq.mc = &context;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	assert_int_equal(vqp.mode, MESH_VQP_FAILING);
	assert_int_equal(n_own_qps, 0);
}

/* The peer comes, or the path goes again, before a worker has time. */
static void test_meanwhile(void **state)
{
	struct mv_ctl_msg hello = {.type = MV_CTL_HELLO, .attempt = 9, .from_psn = 0x11, .to_psn = 0x22};

	(void)state;
	is_about_to_try();
	decision.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(1));
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	decision.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(2));
	now_ns += 6000 * MS;
	assert_true(is_due_after(0));
	hello.from = conn.ends.peer;
	hello.to = conn.ends.local;
	conn.move.rq_psn = 0x11;
	conn.move.sq_psn = 0x22;
	message_comes(&conn, &hello, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.attempts.peer, 9);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	assert_int_equal(conn.state, MESH_CONN_HELD);
}

/*
 * No path can be agreed upon, and the program's own does not work: what bare RTR says is said by RTS, if that comes later, and a program that
 * only receives is told by its receives, which the lower provider flushes.
 */
MV_LOCKS_UNCHECKED static void test_lower_refuses_at_last(void **state)
{
	(void)state;
	has_no_path();
	entry_lacks = false;
	conn.attr.rts_mask = 0;
	cq.mc = &context;
	rtr_error = ETIMEDOUT;
	assert_true(looks_after(0));
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(n_err, 1);
	assert_true(vqp.failure.ended);
	assert_int_equal(vqp.mode, MESH_VQP_FAILING); /* a send that comes has a status of its own */
	assert_int_equal(vqp.failure.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(conn.attempt.rtr_error, ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_path_is_back),
		T(test_path_may_work),
		T(test_back_to_the_lower),
		T(test_back_before_rts),
		T(test_back_without_workers),
		T(test_back_to_the_right_entry),
		T(test_lower_refuses),
		T(test_asked_first),
		T(test_with_an_srq),
		T(test_back_after_a_batch),
		T(test_lower_refuses_rts),
		T(test_meanwhile),
		T(test_lower_refuses_at_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
