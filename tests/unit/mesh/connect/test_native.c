// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Held queue pairs whose peer says nothing are tried as their program asked, once that path seems to work. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "negotiateint.h"
#include "oneconn.h"
#include "reasons.h"
#include "relocate.h"
#include "sealed.h"

static const struct mv_ctl_keys no_keys;

/* A port was down when it was made; its program has said RTS, and only receives. Nobody answers. */
static void is_held(void)
{
	is_well();
	held.mode = MESH_HELD_WAITING;
	conn.state = MESH_CONN_HELD;
	conn.verdict = MV_PATH_REMOTE_DOWN;
	conn.fits = true;
	conn.rtr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	conn.rts = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	conn.rtr_mask = IBV_QP_STATE;
	conn.move = (struct mv_move){.state = MV_MOVE_ASKING,
				     .times = &mv_move_default_times,
				     .local = conn.local,
				     .peer = conn.peer,
				     .attempt = 1,
				     .sq_psn = MV_CTL_PSN_NONE,
				     .rq_psn = MV_CTL_PSN_NONE,
				     .begun_at = now_ns};
	view.verdict = MV_PATH_WORKS;
}

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
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(10000));
	/* Our own agent is gone, too, and does not come back. */
	view.verdict = MV_PATH_UNKNOWN;
	assert_false(is_due_after(10001));
	assert_false(is_due_after(15000));
	assert_true(is_due_after(15001));
	view.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(15002));
	conn.move.peer_attempt = 7; /* it is there */
	assert_false(is_due_after(10001));
	assert_false(is_due_after(19000));
	conn.move.peer_attempt = 0;
	/* When it was made, the agents had not heard each other's beacons yet. */
	conn.verdict = MV_PATH_APART;
	assert_false(is_due_after(20001));
	assert_true(is_due_after(20002));
	view.verdict = MV_PATH_APART;
	assert_false(is_due_after(20003));
	view.verdict = MV_PATH_OTHER_SUBNET;
	assert_false(is_due_after(29000));
	assert_true(is_due_after(34000));
	view.verdict = MV_PATH_WORKS;
	conn.verdict = MV_PATH_REMOTE_DOWN;
	unroutable = true;
	conn.fits = false;
	assert_false(is_due_after(29001));
	assert_false(is_due_after(39000));
	conn.fits = true;
	/* It flaps. */
	assert_false(is_due_after(40000));
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(44000));
	view.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(46000));
	deadline = mesh_conn_run(&conn, now_ns + 46001 * MS, now_ns + 46001 * MS);
	assert_true(deadline == now_ns + 51000 * MS);
	assert_false(is_due_after(50999));
	assert_true(is_due_after(51000));
	/* While its own port was down the kernel had no way. */
	conn.fits = false;
	assert_false(is_due_after(51001));
	conn.verdict = MV_PATH_LOCAL_DOWN;
	assert_false(is_due_after(52000));
	assert_true(is_due_after(57000));
	/* Nobody can say whether its index is right. */
	view.verdict = MV_PATH_ASK;
	assert_true(is_due_after(57001));
	view.verdict = MV_PATH_OTHER_SUBNET;
	assert_true(is_due_after(57002));
	/* Drained, but nobody has pulled it yet. */
	view.verdict = MV_PATH_LOCAL_DOWN;
	view.drained = true;
	assert_true(is_due_after(57002));
	assert_int_equal(n_rtr, 0);
}

/* In another subnet of its link: if the kernel finds it there, it has worked all the time, and its program sends. */
static void test_path_may_work(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	now_ns = conn.move.begun_at = 10000 * MS;
	conn.verdict = conn.move.verdict = view.verdict = MV_PATH_OTHER_SUBNET;
	conn.fits = false;
	conn.works_since_ns = 1;
	conn.works_known = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(deadline == now_ns + 400 * MS);
	assert_false(is_due_after(399));
	assert_true(is_due_after(400));
	conn.move.peer_attempt = 7;
	assert_false(is_due_after(402));
	conn.move.peer_attempt = 0;
	/* A port goes meanwhile, or the agent. */
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(403));
	view.verdict = MV_PATH_OTHER_SUBNET;
	assert_false(is_due_after(404));
	assert_false(is_due_after(5403));
	view.verdict = MV_PATH_UNKNOWN;
	assert_false(is_due_after(5404));
	view.verdict = MV_PATH_OTHER_SUBNET;
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

static void test_back_to_the_base(void **state)
{
	(void)state;
	is_about_to_try();
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	assert_null(conn.held);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_rts, 1);
	assert_int_equal(n_native, 1);
	mesh_conn_work(&conn); /* called once more for whatever reason */
	assert_int_equal(n_rtr, 1);
}

/* The program has not said so. */
static void test_back_before_rts(void **state)
{
	(void)state;
	is_about_to_try();
	conn.rts_mask = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_rts, 0);
	assert_int_equal(n_native, 1);
}

static void test_back_without_workers(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	no_workers = true;
	conn.move.resend_at = 0;
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
	conn.rtr.ah_attr.is_global = 1;
	conn.rtr.ah_attr.grh.sgid_index = 3;
	chosen_index = 5;
	rtr_error = ETIMEDOUT;
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(rtr_index, 5);
	assert_int_equal(conn.state, MESH_CONN_HELD);
}

/* The neighbour does not answer yet: it is held as before, and tries again, not all the time. */
MV_LOCKS_UNCHECKED static void test_base_refuses(void **state)
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
		assert_int_equal(held.mode, MESH_HELD_WAITING);
		assert_true(mesh_trylock(&held.post_lock)); /* the program posts again */
		mesh_unlock(&held.post_lock);
		assert_false(is_due_after(wait_ms - 1));
		conn.move.resend_at = 0;
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		assert_true(deadline == now_ns + wait_ms * MS);
		now_ns += wait_ms * MS;
		assert_true(is_due_after(0));
		wait_ms = wait_ms < 16000 ? 2 * wait_ms : 16000;
	}
	assert_int_equal(n_rtr, 10);
	assert_int_equal(n_rts, 0);
	assert_int_equal(n_native, 0);
	rtr_error = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_native, 1);
}

/* The base is asked for an address handle first; of one that is not to be had for another reason, RTR is asked itself. */
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
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_rtr, 1);
}

/*
 * What it has to receive is an SRQ's, which may have to be dealt out anew before it can: not for what the kernel says of an address handle
 * already, and not beyond what it says of RTR.
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
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
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
	assert_true(held.stop_wanted);
	in_batch = false;
	assert_true(is_due_after(0));
	in_batch = true;
	mesh_lock(&held.post_lock);
	mesh_lock_lend(&held.post_lock);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	assert_false(is_due_after(0));
	mesh_unlock(&held.post_lock);
	in_batch = false;
	assert_true(is_due_after(0));
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_rtr, 1);
}

/* It can receive, so there is no way back. */
MV_LOCKS_UNCHECKED static void test_base_refuses_rts(void **state)
{
	(void)state;
	is_about_to_try();
	rts_error = EINVAL;
	cq.mc = &context;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	assert_int_equal(held.mode, MESH_HELD_FAILING);
	assert_int_equal(n_native, 0);
}

/* The peer comes, or the path goes again, before a worker has time. */
static void test_meanwhile(void **state)
{
	struct mv_ctl_msg hello = {.type = MV_CTL_HELLO, .attempt = 9, .from_psn = 0x11, .to_psn = 0x22};

	(void)state;
	is_about_to_try();
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(1));
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	view.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(2));
	now_ns += 6000 * MS;
	assert_true(is_due_after(0));
	hello.from = conn.peer;
	hello.to = conn.local;
	conn.move.rq_psn = 0x11;
	conn.move.sq_psn = 0x22;
	message_comes(&conn, &hello, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.peer_attempt, 9);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	assert_int_equal(conn.state, MESH_CONN_HELD);
}

/* It leads, and has no path to offer, so it is left as its program asked at once; but its port has been down, and has no address yet. */
static void has_no_path(void)
{
	struct mv_move_begin begin;

	is_held();
	begin = (struct mv_move_begin){.local = conn.local, .peer = conn.peer, .verdict = MV_PATH_LOCAL_DOWN, .attempt = 1};
	mv_move_begin(&conn.move, &begin, &mv_move_default_times, now_ns);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	conn.rtr.ah_attr.is_global = 1;
	entry_lacks = true;
}

/* Time passes, and a worker does what it is given. Return: was it given something, who reads the table? */
static bool looks_after(uint64_t ms)
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

static void test_entry_is_awaited(void **state)
{
	(void)state;
	has_no_path();
	assert_true(looks_after(0));
	assert_false(looks_after(9));
	assert_true(looks_after(1));
	assert_true(looks_after(300));
	assert_int_equal(n_rtr, 0);
	entry_lacks = false;
	assert_true(looks_after(10));
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_native, 1);
}

static void test_entry_does_not_come(void **state)
{
	(void)state;
	has_no_path();
	cq.mc = &context;
	rtr_error = ENODATA;
	assert_true(looks_after(0));
	assert_true(looks_after(1990));
	assert_int_equal(n_rtr, 0);
	assert_true(looks_after(10));
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(held.mode, MESH_HELD_FAILING);
}

/*
 * No path can be agreed upon, and the program's own does not work: what bare RTR says is said by RTS, if that comes later, and a program that
 * only receives is told by its receives, which the base flushes.
 */
MV_LOCKS_UNCHECKED static void test_base_refuses_at_last(void **state)
{
	(void)state;
	has_no_path();
	entry_lacks = false;
	conn.rts_mask = 0;
	cq.mc = &context;
	rtr_error = ETIMEDOUT;
	assert_true(looks_after(0));
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(n_err, 1);
	assert_true(held.ended);
	assert_int_equal(held.mode, MESH_HELD_FAILING); /* a send that comes has a status of its own */
	assert_int_equal(held.fail_status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(conn.rtr_error, ETIMEDOUT);
}

/* From the peer, in RTS as this end is. */
static void comes_because(uint8_t type, uint8_t flags, enum mv_ctl_reason reason)
{
	const struct mv_ctl_msg msg = {.type = type,
				       .flags = flags,
				       .reason = (uint8_t)reason,
				       .gid_type = MV_GID_TYPE_ROCE_V1,
				       .attempt = 9,
				       .to_attempt = 1,
				       .from = conn.peer,
				       .to = conn.local,
				       .from_psn = 0x11,
				       .to_psn = 0x22};

	memset(&sent, 0, sizeof(sent));
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
}

static void comes(uint8_t type, uint8_t flags)
{
	comes_because(type, flags, MV_CTL_REASON_NONE);
}

/* What does not open changes nothing, and is looked at so often only; who receives what we say is heard all the same. */
static void test_forged(void **state)
{
	struct mv_ctl_msg msg = {
		.type = MV_CTL_HELLO, .attempt = 9, .nonce = 5, .from_psn = 0x11, .to_psn = 0x22, .from = {.qpn = 8}, .to = {.qpn = 7}};
	struct mv_move before;
	unsigned int n;

	(void)state;
	is_held();
	conn.move.rq_psn = 0x11;
	conn.move.sq_psn = 0x22;
	conn.move.nonce = 77;
	msg.from = conn.peer;
	msg.to = conn.local;
	memset(&sent, 0, sizeof(sent));
	before = conn.move;
	for (n = 0; n < 2 * MV_PROOF_BURST; n++) {
		msg.from_psn = 0x100 + n;
		message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	}
	msg.from_psn = msg.to_psn = MV_CTL_PSN_NONE;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	msg.from_psn = 0x11;
	msg.to_psn = 0x22;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns); /* among so many it is not seen */
	assert_int_equal(sent.type, 0);
	assert_memory_equal(&conn.move, &before, sizeof(before));
	msg.to_attempt = conn.move.attempt;
	msg.to_nonce = 77;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.peer_attempt, 9);
	/* And who does not, after a while. */
	conn.move = before;
	msg.to_attempt = 0;
	msg.to_nonce = 0;
	now_ns += 2 * MV_PROOF_EACH_NS;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.peer_attempt, 9);
}

/* NATIVE, without anything of ours, in RTR for good: it cannot open what its peer says, and says what it is. */
static void test_in_rtr(void **state)
{
	(void)state;
	is_held();
	conn.held = NULL;
	conn.state = MESH_CONN_NATIVE;
	conn.rts_mask = 0;
	conn.native_sq_psn = MV_CTL_PSN_NONE;
	conn.rtr.rq_psn = 0x11;
	conn.rtr_ns = now_ns;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.type, 0); /* it may go on to RTS in a moment */
	now_ns += 20 * MS;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_NATIVE);
	assert_int_equal(sent.from_psn, MV_CTL_PSN_NONE);
	assert_int_equal(sent.to_psn, 0x11);
	/* In RTS it answers who shows that PSN, and nobody else. */
	conn.native_sq_psn = 0x22;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.from_psn, 0x22);
	conn.native_sq_psn = 0x23;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.type, 0);
}

/* The peer's program has ended its end: as on a path that works, that shows by the first send, and not before. */
static void test_peer_has_ended(void **state)
{
	(void)state;
	is_held();
	conn.rtr.rq_psn = conn.move.rq_psn = 0x11;
	conn.rts.sq_psn = conn.move.sq_psn = 0x22;
	cq.mc = &context;
	rtr_error = ETIMEDOUT;
	comes_because(MV_CTL_HELLO, MV_CTL_NATIVE, MV_CTL_REASON_GONE);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(conn.rtr_error, 0);
	assert_int_equal(n_err, 0);
	/* And it says the same. */
	comes(MV_CTL_HELLO, MV_CTL_ASKING);
	assert_int_equal(sent.flags, MV_CTL_NATIVE);
	assert_int_equal(sent.reason, MV_CTL_REASON_GONE);
}

/* Both were held, and this one is told that both stay. */
static void is_told_to_stay(void)
{
	is_held();
	conn.verdict = conn.move.verdict = MV_PATH_ASK;
	conn.move.rq_psn = 0x11;
	conn.move.sq_psn = 0x22;
	comes(MV_CTL_HELLO, MV_CTL_NATIVE);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	/* A worker is about to connect it: it does not say yet that it receives. */
	comes(MV_CTL_HELLO, MV_CTL_ASKING);
	assert_int_equal(sent.type, 0);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	comes(MV_CTL_HELLO, MV_CTL_ASKING);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_NATIVE);
}

/* What is sent before the peer's is connected would come with the program's ACK timeout: it waits. */
static void test_peer_is_awaited(void **state)
{
	uint64_t deadline;

	(void)state;
	is_told_to_stay();
	memset(&sent, 0, sizeof(sent));
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_ASKING);
	assert_int_equal(n_native, 0);
	assert_int_equal(n_rts, 0);
	assert_true(deadline == now_ns + MS);
	now_ns += MS;
	memset(&sent, 0, sizeof(sent));
	assert_true(mesh_conn_run(&conn, now_ns, now_ns) == now_ns + 2 * MS);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	comes(MV_CTL_HELLO, MV_CTL_NATIVE);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_rts, 1);
	assert_int_equal(n_native, 1);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_null(conn.held);
}

/* But not for ever, nor for one that has left. */
static void test_peer_does_not_receive(void **state)
{
	(void)state;
	is_told_to_stay();
	now_ns += 1999 * MS;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_native, 0);
	now_ns += MS;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_native, 1);
}

static void test_peer_leaves(void **state)
{
	(void)state;
	is_told_to_stay();
	comes(MV_CTL_BYE, 0);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_native, 1);
}

/* All that there is is the helper thread, which connects it then as well. */
static void test_entry_without_workers(void **state)
{
	uint64_t deadline;

	(void)state;
	has_no_path();
	no_workers = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_true(deadline == now_ns + 10 * MS);
	entry_lacks = false;
	deadline = mesh_conn_run(&conn, now_ns + 9 * MS, now_ns + 9 * MS);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	deadline = mesh_conn_run(&conn, now_ns + 10 * MS, now_ns + 10 * MS);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
}

/* Where the right one is known, and nobody answers there, that is why, not that the program's own is empty. */
static void test_why_it_fails(void **state)
{
	char path[] = "/tmp/test_native-XXXXXX", line[512] = "";
	int fd = mkstemp(path);

	(void)state;
	has_no_path();
	entry_lacks = false;
	cq.mc = &context;
	conn.rtr.ah_attr.grh.sgid_index = 3;
	chosen_index = 5;
	rtr_error = ETIMEDOUT;
	own_error = ENODATA;
	mv_log_init(&mesh_root.log, path, MV_LOG_WARN);
	mesh_conn_work(&conn);
	mv_log_init(&mesh_root.log, "/dev/null", MV_LOG_ERR);
	assert_int_equal(n_rtr, 2);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_true(pread(fd, line, sizeof(line) - 1, 0) > 0);
	assert_non_null(strstr(line, "the program's own path fails: Connection timed out"));
	close(fd);
	unlink(path);
}

/* Its port is down, so no entry reaches the peer. What its table has, of which its program has index 3, and what is known: */
struct table {
	uint32_t own, other; /* indexes of its address, and of another one's */
	bool same; /* which is the same address */
	bool old; /* it may be otherwise by now */
	bool type; /* its address is there as another RoCE type, by which the peer has connected */
};

/* Return: by which index it is connected. */
static uint8_t index_in(struct table table)
{
	struct mv_gid_entry entry = {.ifindex = 2};
	struct mv_device *device;
	struct mv_port *port;

	has_no_path();
	entry_lacks = false;
	conn.rtr.ah_attr.grh.sgid_index = chosen_index = 3;
	conn.rtr.ah_attr.port_num = 1;
	chosen_sure = !table.old;
	entry.type = conn.local_type;
	if (table.type)
		conn.local_type = MV_GID_TYPE_ROCE_V2;
	mv_topo_init(&context.tables);
	assert_int_equal(mv_topo_add_device(&context.tables, "mlx5_0", &device), 0);
	assert_int_equal(mv_topo_add_port(device, 1, &port), 0);
	for (int k = 0; k < 2; k++) {
		entry.gid = k && !table.same ? conn.peer.gid : conn.local.gid;
		entry.index = k ? table.other : table.own;
		assert_int_equal(mv_port_add_gid(port, &entry), 0);
	}
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	mv_topo_fini(&context.tables);
	memset(&context.tables, 0, sizeof(context.tables));
	return rtr_index;
}

static void test_address_is_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 7}), 5);
}

static void test_address_of_others(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 3}), 5);
}

/* There may be several with it. */
static void test_address_is_there(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 3, .other = 2, .same = true}), 3);
}

static void test_address_not_sure(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 7, .old = true}), 3);
}

/* That has been agreed upon. */
static void test_address_of_type(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 7, .old = true, .type = true}), 5);
}

/* It has no address of its own, and nothing to wait for. */
static void test_no_entry_needed(void **state)
{
	(void)state;
	has_no_path();
	conn.rtr.ah_attr.is_global = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_lacks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_path_is_back),
		T(test_path_may_work),
		T(test_forged),
		T(test_in_rtr),
		T(test_back_to_the_base),
		T(test_back_before_rts),
		T(test_back_without_workers),
		T(test_back_to_the_right_entry),
		T(test_base_refuses),
		T(test_asked_first),
		T(test_with_an_srq),
		T(test_back_after_a_batch),
		T(test_base_refuses_rts),
		T(test_meanwhile),
		T(test_entry_is_awaited),
		T(test_entry_does_not_come),
		T(test_peer_has_ended),
		T(test_peer_is_awaited),
		T(test_peer_does_not_receive),
		T(test_peer_leaves),
		T(test_base_refuses_at_last),
		T(test_entry_without_workers),
		T(test_why_it_fails),
		T(test_address_is_elsewhere),
		T(test_address_of_others),
		T(test_address_is_there),
		T(test_address_not_sure),
		T(test_address_of_type),
		T(test_no_entry_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
