/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The RoCE version: an end that asks its peer for the version, and the answer of a peer that is passthrough. */
#include "movepair.h"

static struct pair asking_pair(void)
{
	struct pair pair = make_pair();

	pair.leader.verdict = pair.follower.verdict = MV_PATH_ASK;
	pair.leader.local_type = pair.follower.local_type = MV_GID_TYPE_ROCE_V1;
	pair.paths[1] = path_of(LEADER_GID, FOLLOWER_GID, MV_GID_TYPE_ROCE_V2, 3);
	return pair;
}

/* An end asks, and its passthrough peer answers with an entry of @type. */
static void check_asking(uint8_t type, uint8_t expected, enum mv_ctl_reason reason)
{
	struct pair pair = asking_pair();
	struct mv_ctl_msg hello, answer;
	struct mv_move l;

	if (reason == MV_CTL_REASON_PASSTHROUGH)
		pair.leader.n_paths = 1; /* the leader has no GID of that version */
	begin_leader(&l, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_answer_passthrough(&hello.to, &hello.from, type, FOLLOWER_PSN, LEADER_PSN, 3, 4, &hello,
					       &answer));
	mv_move_message(&l, &answer, START);
	assert_passthrough(&l, reason, expected, false);
}

static void test_ask_passthrough_peer(void **state)
{
	(void)state;
	check_asking(MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V2, MV_CTL_REASON_NONE);
	check_asking(MV_GID_TYPE_ROCE_V1, MV_GID_TYPE_ROCE_V1, MV_CTL_REASON_NONE);
	check_asking(MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V1, MV_CTL_REASON_PASSTHROUGH);
}

static void test_ask_silence(void **state)
{
	struct pair pair = asking_pair();
	struct mv_ctl_msg hello;
	struct mv_move f, l;

	(void)state;
	begin_follower(&f, &pair);
	mv_move_patience(&f, UINT64_MAX);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_ns - 1);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_ns);
	assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	/* Each word of the peer starts the wait anew. */
	begin_follower(&f, &pair);
	mv_move_patience(&f, UINT64_MAX);
	begin_leader(&l, &pair);
	take_message(&f, MV_CTL_HELLO);
	hello = take_message(&l, MV_CTL_HELLO);
	mv_move_message(&f, &hello, START + 1500 * MS);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_ns);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + 1500 * MS + T->ask_ns);
	take_message(&f, MV_CTL_REFUSE);
	assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
}

/* A peer that sends without asking is likely to be as patient as this end: the end waits no longer than its own patience. */
static void test_ask_patience(void **state)
{
	struct pair pair = asking_pair();
	struct mv_move f;

	(void)state;
	begin_follower(&f, &pair);
	assert_true(mv_move_deadline(&f) < START + T->ask_ns);
	take_message(&f, MV_CTL_HELLO);
	mv_move_patience(&f, 8 * (4096ull << 14)); /* perftest's */
	mv_move_tick(&f, START + 400 * MS);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + 405 * MS);
	assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	/* The wait has a lower and an upper limit. */
	begin_follower(&f, &pair);
	take_message(&f, MV_CTL_HELLO);
	mv_move_patience(&f, 100 * MS);
	mv_move_tick(&f, START + T->ask_min_ns - 1);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_min_ns);
	assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	begin_follower(&f, &pair);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_min_ns);
	assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	for (int i = 0; i < 2; i++) {
		begin_follower(&f, &pair);
		take_message(&f, MV_CTL_HELLO);
		mv_move_patience(&f, i ? UINT64_MAX : 8 * (4096ull << 20)); /* NCCL's */
		mv_move_tick(&f, START + T->ask_ns - 1);
		take_message(&f, MV_CTL_HELLO);
		mv_move_tick(&f, START + T->ask_ns);
		assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	}
}

/* Both ask: the leader decides for both, and says so. */
static void test_both_ask(void **state)
{
	struct pair pair = asking_pair();
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	assert_int_equal(hello.flags, MV_CTL_ASKING);
	mv_move_message(&l, &hello, START);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(hello.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(hello.gid_type, MV_GID_TYPE_ROCE_V1);
	assert_passthrough(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, false);
	mv_move_message(&f, &hello, START);
	assert_passthrough(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, false);
}

static void test_ask_meets_apart(void **state)
{
	struct pair pair = asking_pair();
	struct mv_ctl_msg hello, offer;
	struct mv_move l, f;

	(void)state;
	/* Only one end's path may work: both move. */
	pair.follower.verdict = MV_PATH_LOCAL_DOWN;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	follow_to_answer(&f, &offer);
	pair.follower.verdict = MV_PATH_ASK;
	pair.leader.verdict = MV_PATH_APART;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	follow_to_answer(&f, &offer);
	/* A peer that refuses names its RoCE version, and the end takes it. */
	pair = asking_pair();
	pair.follower.verdict = MV_PATH_APART;
	pair.follower.local_type = MV_GID_TYPE_ROCE_V2;
	begin_both(&l, &f, &pair, &hello);
	hello.type = MV_CTL_REFUSE;
	hello.to_attempt = 5;
	hello.to_nonce = LEADER_NONCE;
	hello.reason = MV_CTL_REASON_OFF;
	mv_move_message(&l, &hello, START);
	assert_passthrough(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, false);
}

static void test_answer_passthrough(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, answer;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
#define ANSWER(msg)                                                                                                    \
	mv_move_answer_passthrough(&pair.follower.local, &pair.follower.peer, MV_GID_TYPE_ROCE_V1, FOLLOWER_PSN,       \
				   LEADER_PSN, 33, 34, msg, &answer)
	assert_true(ANSWER(&offer));
	assert_int_equal(answer.type, MV_CTL_REFUSE);
	assert_int_equal(answer.reason, MV_CTL_REASON_PASSTHROUGH);
	assert_int_equal(answer.attempt, 33);
	assert_int_equal(answer.to_attempt, 5);
	assert_int_equal(answer.nonce, 34);
	assert_int_equal(answer.to_nonce, LEADER_NONCE);
	mv_move_message(&l, &answer, START);
	take(&l, MV_DO_RELEASE);
	assert_passthrough(&l, MV_CTL_REASON_PASSTHROUGH, MV_GID_TYPE_ROCE_V2, false);
	begin_leader(&l, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_true(ANSWER(&hello));
	assert_int_equal(answer.type, MV_CTL_HELLO);
	assert_int_equal(answer.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(answer.gid_type, MV_GID_TYPE_ROCE_V1);
	assert_int_equal(answer.from_psn, FOLLOWER_PSN);
	hello.flags = MV_CTL_PASSTHROUGH; /* a statement, not a question */
	assert_false(ANSWER(&hello));
	hello.flags = 0;
	hello.from_psn = 5;
	assert_false(ANSWER(&hello));
	hello.from_psn = MV_CTL_PSN_NONE;
	hello.to.qpn++;
	assert_false(ANSWER(&hello));
	hello.to.qpn--;
	hello.from.qpn++;
	assert_false(ANSWER(&hello));
	hello.from.qpn--;
	assert_true(ANSWER(&hello));
	offer.type = MV_CTL_CONFIRM;
	assert_false(ANSWER(&offer));
	offer.type = MV_CTL_BYE;
	assert_false(ANSWER(&offer));
#undef ANSWER
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ask_passthrough_peer), cmocka_unit_test(test_ask_silence),
		cmocka_unit_test(test_ask_patience),         cmocka_unit_test(test_both_ask),
		cmocka_unit_test(test_ask_meets_apart),      cmocka_unit_test(test_answer_passthrough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
