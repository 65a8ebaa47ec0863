// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The peer of a connection that is made as without meshverbs: what it says, and what is not believed. */
#include <errno.h>
#include <string.h>

#include "negotiateint.h"
#include "sealed.h"
#include "passthrough_fixture.h"

/* From the peer, in RTS as this end is. */
static void comes_because(uint8_t type, uint8_t flags, enum mv_ctl_reason reason)
{
	const struct mv_ctl_msg msg = {.type = type,
				       .flags = flags,
				       .reason = (uint8_t)reason,
				       .gid_type = MV_GID_TYPE_ROCE_V1,
				       .attempt = 9,
				       .to_attempt = 1,
				       .from = conn.ends.peer,
				       .to = conn.ends.local,
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
	conn.move.attempts.my_nonce = 77;
	msg.from = conn.ends.peer;
	msg.to = conn.ends.local;
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
	msg.to_attempt = conn.move.attempts.mine;
	msg.to_nonce = 77;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.attempts.peer, 9);
	/* And who does not, after a while. */
	conn.move = before;
	msg.to_attempt = 0;
	msg.to_nonce = 0;
	now_ns += 2 * MV_PROOF_EACH_NS;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.attempts.peer, 9);
}

/* PASSTHROUGH, without anything of ours, in RTR for good: it cannot open what its peer says, and says what it is. */
static void test_in_rtr(void **state)
{
	uint64_t nonce;

	(void)state;
	is_held();
	conn.vqp = NULL;
	conn.state = MESH_CONN_PASSTHROUGH;
	conn.attr.rts_mask = 0;
	conn.table.passthrough_sq_psn = MV_CTL_PSN_NONE;
	conn.attr.rtr.rq_psn = 0x11;
	conn.attempt.rtr_ns = now_ns;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.type, 0); /* it may go on to RTS in a moment */
	now_ns += 20 * MS;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(sent.from_psn, MV_CTL_PSN_NONE);
	assert_int_equal(sent.to_psn, 0x11);
	nonce = sent.nonce;
	assert_true(nonce != 0);
	/* In RTS it answers who shows that PSN, and nobody else. */
	conn.table.passthrough_sq_psn = 0x22;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.from_psn, 0x22);
	assert_true(sent.nonce == nonce);
	conn.table.passthrough_sq_psn = 0x23;
	comes(MV_CTL_HELLO, 0);
	assert_int_equal(sent.type, 0);
}

/* The peer's program has ended its end: as on a path that works, that shows by the first send, and not before. */
static void test_peer_has_ended(void **state)
{
	(void)state;
	is_held();
	conn.attr.rtr.rq_psn = conn.move.rq_psn = 0x11;
	conn.attr.rts.sq_psn = conn.move.sq_psn = 0x22;
	cq.mc = &context;
	rtr_error = ETIMEDOUT;
	comes_because(MV_CTL_HELLO, MV_CTL_PASSTHROUGH, MV_CTL_REASON_GONE);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(conn.attempt.rtr_error, 0);
	assert_int_equal(n_err, 0);
	/* And it says the same. */
	comes(MV_CTL_HELLO, MV_CTL_ASKING);
	assert_int_equal(sent.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(sent.reason, MV_CTL_REASON_GONE);
}

/* Both were held, and this one is told that both stay. */
static void is_told_to_stay(void)
{
	is_held();
	conn.own_qp.verdict = conn.move.verdict = MV_PATH_ASK;
	conn.move.rq_psn = 0x11;
	conn.move.sq_psn = 0x22;
	comes(MV_CTL_HELLO, MV_CTL_PASSTHROUGH);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	/* A worker is about to connect it: it does not say yet that it receives. */
	comes(MV_CTL_HELLO, MV_CTL_ASKING);
	assert_int_equal(sent.type, 0);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	comes(MV_CTL_HELLO, MV_CTL_ASKING);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	assert_int_equal(sent.flags, MV_CTL_PASSTHROUGH);
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
	assert_int_equal(n_own_qps, 0);
	assert_int_equal(n_rts, 0);
	assert_true(deadline == now_ns + MS);
	now_ns += MS;
	memset(&sent, 0, sizeof(sent));
	assert_true(mesh_conn_run(&conn, now_ns, now_ns) == now_ns + 2 * MS);
	assert_int_equal(sent.type, MV_CTL_HELLO);
	comes(MV_CTL_HELLO, MV_CTL_PASSTHROUGH);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_rts, 1);
	assert_int_equal(n_own_qps, 1);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_null(conn.vqp);
}

/* But not for ever, nor for one that has left. */
static void test_peer_does_not_receive(void **state)
{
	(void)state;
	is_told_to_stay();
	now_ns += 1999 * MS;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_own_qps, 0);
	now_ns += MS;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_own_qps, 1);
}

static void test_peer_leaves(void **state)
{
	(void)state;
	is_told_to_stay();
	comes(MV_CTL_BYE, 0);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_own_qps, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_forged),
		T(test_in_rtr),
		T(test_peer_has_ended),
		T(test_peer_is_awaited),
		T(test_peer_does_not_receive),
		T(test_peer_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
