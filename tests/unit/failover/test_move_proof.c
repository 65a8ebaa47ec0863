/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of the connect transaction that are not believed, and those of earlier and later attempts. */
#include "unit.h"

#include "movepair.h"
#include "proof.h"

static void assert_ignored(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	struct mv_move before = *m;

	mv_move_message(m, msg, START);
	assert_quiet(m);
	/* A message that names our attempt shows that the peer knows us, and that is noted. */
	if (msg->to_attempt == m->attempts.mine && msg->to_nonce == m->attempts.my_nonce)
		before.attempts.peer_knows_us = m->attempts.peer_knows_us;
	assert_memory_equal(&before, m, sizeof(before));
}

#define CHANGED(m, original, member, value)                                                        \
	do {                                                                                       \
		struct mv_ctl_msg changed = original;                                              \
		changed.member = (value);                                                          \
		assert_ignored(m, &changed);                                                       \
	} while (0)

static void test_ignored(void **state)
{
	struct mv_ctl_msg hello, offer, answer, confirm;
	struct pair pair = make_pair();
	struct mv_move l, f, idle = {0};
	struct mv_ctl_msg hello_of_leader;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	mv_move_header(&l, MV_CTL_HELLO, &hello_of_leader);
	assert_ignored(&idle, &hello);
	CHANGED(&l, hello, from.qpn, 23);
	CHANGED(&l, hello, to.qpn, 12);
	CHANGED(&l, hello, from.gid, unit_gid("10.9.9.9"));
	CHANGED(&l, hello, to.gid, unit_gid("10.9.9.9"));
	CHANGED(&l, hello, from_psn, 1);
	CHANGED(&l, hello, to_psn, 1);
	CHANGED(&l, hello, attempt, 0);
	CHANGED(&l, hello, type, MV_CTL_KEY_GET);
	CHANGED(&l, hello, type, MV_CTL_OFFER);
	CHANGED(&l, hello, flags, MV_CTL_PASSTHROUGH); /* meant for another attempt */
	offer = lead_to_offer(&l, &hello);
	CHANGED(&l, hello, attempt, 6);
	CHANGED(&f, offer, to_attempt, 6);
	CHANGED(&f, offer, to_attempt, 0);
	CHANGED(&f, offer, to_nonce, 1);
	CHANGED(&f, offer, to_nonce, 0);
	CHANGED(&f, offer, from_psn, 1);
	mv_move_message(&f, &hello_of_leader, START);
	take_message(&f, MV_CTL_HELLO);
	CHANGED(&f, offer, request_id, 0);
	answer = follow_to_answer(&f, &offer);
	CHANGED(&l, answer, attempt, 6);
	CHANGED(&l, answer, request_id, 2);
	CHANGED(&l, answer, to_attempt, 4);
	CHANGED(&l, answer, to_nonce, 4);
	CHANGED(&l, answer, nonce, 4);
	confirm = lead_to_confirm(&l, &answer);
	CHANGED(&f, confirm, flags, 0);
	CHANGED(&f, confirm, request_id, 2);
	CHANGED(&f, confirm, attempt, 4);
	CHANGED(&f, confirm, to_psn, 3);
	CHANGED(&f, confirm, nonce, 3);
	CHANGED(&f, confirm, to_nonce, 3);
	confirm.type = MV_CTL_REFUSE;
	CHANGED(&f, confirm, to_attempt, 1);
	CHANGED(&f, confirm, to_nonce, 1);
	confirm.type = MV_CTL_BYE;
	CHANGED(&f, confirm, to_nonce, 1);
}

/* A message that shows no PSN changes nothing; nor does one that shows one PSN, if the receiver knows both. */
static void test_proof(void **state)
{
	struct mv_ctl_msg hello, offer, answer;
	struct pair pair = make_pair();
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	assert_int_equal(hello.from_psn, FOLLOWER_PSN);
	assert_int_equal(hello.to_psn, LEADER_PSN);
	hello.from_psn = hello.to_psn = MV_CTL_PSN_NONE;
	assert_ignored(&l, &hello);
	hello.from_psn = FOLLOWER_PSN;
	hello.to_psn = LEADER_PSN;
	offer = lead_to_offer(&l, &hello);
	assert_int_equal(l.attempts.peer_shown, MV_PROOF_FROM | MV_PROOF_TO);
	answer = offer;
	answer.from_psn = answer.to_psn = MV_CTL_PSN_NONE;
	assert_ignored(&f, &answer);
	answer = follow_to_answer(&f, &offer);
	/* A peer that has shown both PSNs has to show both again. */
	CHANGED(&l, answer, from_psn, MV_CTL_PSN_NONE);
	CHANGED(&l, answer, to_psn, MV_CTL_PSN_NONE);
	lead_to_confirm(&l, &answer);
}

/* A program that only receives may stay in RTR. Its end knows only the peer's PSN, and messages show that one. */
static void test_one_stays_in_rtr(void **state)
{
	struct mv_ctl_msg hello, offer, answer, confirm;
	struct pair pair = make_pair();
	struct mv_move l, f;

	(void)state;
	begin_leader(&l, &pair);
	follower_to_rtr(&f, &pair);
	take_message(&l, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->rtr_ns);
	hello = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(hello.from_psn, MV_CTL_PSN_NONE);
	assert_int_equal(hello.to_psn, LEADER_PSN);
	offer = lead_to_offer(&l, &hello);
	assert_int_equal(offer.from_psn, LEADER_PSN);
	assert_int_equal(offer.to_psn, MV_CTL_PSN_NONE);
	answer = follow_to_answer(&f, &offer);
	confirm = lead_to_confirm(&l, &answer);
	/* The follower goes on to RTS before it hears CONFIRM. */
	mv_move_rts(&f, FOLLOWER_PSN, START);
	answer = take_message(&f, MV_CTL_ANSWER);
	assert_int_equal(answer.from_psn, FOLLOWER_PSN);
	mv_move_message(&l, &answer, START);
	assert_int_equal(take_message(&l, MV_CTL_CONFIRM).to_psn, FOLLOWER_PSN);
	/* A CONFIRM from before, under way, counts. */
	assert_int_equal(confirm.to_psn, MV_CTL_PSN_NONE);
	mv_move_message(&f, &confirm, START);
	take(&f, MV_DO_ACTIVATE);
	/* From now on a message with one PSN is not believed. */
	hello.type = MV_CTL_ANSWER;
	hello.to_attempt = offer.attempt;
	hello.to_nonce = offer.nonce;
	hello.request_id = 1;
	hello.flags = MV_CTL_READY;
	assert_ignored(&l, &hello);
}

/* Both in RTR: neither end can open a message of the other, and no work waits. */
static void test_both_in_rtr(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	leader_to_rtr(&l, &pair);
	follower_to_rtr(&f, &pair);
	mv_move_tick(&f, START + T->rtr_ns);
	hello = take_message(&f, MV_CTL_HELLO);
	assert_ignored(&l, &hello);
}

static void test_is_from_peer(void **state)
{
	struct mv_ctl_msg hello, offer, get;
	struct pair pair = make_pair();
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	mv_move_header(&f, MV_CTL_KEY_GET, &get);
	assert_false(mv_move_is_from_peer(&l, &get));
	offer = lead_to_offer(&l, &hello);
	mv_move_message(&f, &offer, START);
	mv_move_header(&f, MV_CTL_KEY_GET, &get);
	assert_int_equal(get.type, MV_CTL_KEY_GET);
	assert_true(mv_move_is_from_peer(&l, &get));
	get.to_attempt++;
	assert_false(mv_move_is_from_peer(&l, &get));
	get.to_attempt--;
	get.attempt++;
	assert_false(mv_move_is_from_peer(&l, &get));
	get.attempt--;
	get.to_nonce++;
	assert_false(mv_move_is_from_peer(&l, &get));
	get.to_nonce--;
	get.nonce++;
	assert_false(mv_move_is_from_peer(&l, &get));
	get.nonce--;
	assert_true(mv_move_is_from_peer(&l, &get));
	get.from_psn = get.to_psn = MV_CTL_PSN_NONE;
	assert_false(mv_move_is_from_peer(&l, &get));
}

static void test_follower_restarts(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, answer;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	answer = follow_to_answer(&f, &offer);
	hello.attempt = 8;
	mv_move_message(&l, &hello, START);
	assert_int_equal(take_message(&l, MV_CTL_OFFER).to_attempt, 8);
	assert_ignored(&l, &answer);
	/* The follower restarts while the leader connects to the earlier attempt. */
	begin_both(&l, &f, &pair, &hello);
	lead_to_offer(&l, &hello);
	mv_move_message(&l, &answer, START);
	take(&l, MV_DO_CONNECT);
	hello.attempt = 8;
	mv_move_message(&l, &hello, START);
	assert_quiet(&l);
	mv_move_connected(&l, true, START);
	take(&l, MV_DO_RELEASE);
	assert_int_equal(take_message(&l, MV_CTL_HELLO).to_attempt, 8);
	assert_int_equal(l.state, MV_MOVE_ASKING);
}

static void test_leader_restarts(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, confirm;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	confirm = offer;
	confirm.type = MV_CTL_CONFIRM;
	confirm.flags = MV_CTL_READY;
	follow_to_answer(&f, &offer);
	offer.attempt = 0x80000000;
	offer.request_id = 1; /* counts anew */
	mv_move_message(&f, &offer, START);
	take(&f, MV_DO_RELEASE);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", &follower_qp);
	take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, true, START);
	take_message(&f, MV_CTL_ANSWER);
	assert_ignored(&f, &confirm);
	confirm.attempt = 0x80000000;
	mv_move_message(&f, &confirm, START);
	take(&f, MV_DO_ACTIVATE);
	/* The follower is active: it ignores a HELLO of the leader's next attempt. */
	confirm.type = MV_CTL_HELLO;
	confirm.flags = 0;
	confirm.attempt++;
	assert_ignored(&f, &confirm);
}

static void test_passthrough_and_later_life(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	lead_to_offer(&l, &hello);
	mv_move_unreachable(&l, START);
	take(&l, MV_DO_RELEASE);
	assert_passthrough(&l, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, false);
	hello.attempt = 8;
	assert_ignored(&l, &hello);
	hello.attempt = 7;
	mv_move_message(&l, &hello, START);
	take_message(&l, MV_CTL_HELLO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ignored),          cmocka_unit_test(test_proof),
		cmocka_unit_test(test_one_stays_in_rtr), cmocka_unit_test(test_both_in_rtr),
		cmocka_unit_test(test_is_from_peer),     cmocka_unit_test(test_follower_restarts),
		cmocka_unit_test(test_leader_restarts),  cmocka_unit_test(test_passthrough_and_later_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
