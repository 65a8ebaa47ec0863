/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Ends of the connect transaction without an agreement: timeout, unreachable peer, a path that works again. */
#include "movepair.h"

static void test_give_up(void **state)
{
	struct pair pair = make_pair();
	uint64_t work = START + 3000 * MS, end = work + T->give_up_ns;
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	/* Without work that waits, an end asks without a limit in time. */
	mv_move_tick(&l, START + 3600 * 1000 * MS);
	take_message(&l, MV_CTL_HELLO);
	begin_both(&l, &f, &pair, &hello);
	mv_move_work_waits(&l, work);
	mv_move_work_waits(&l, work + 5000 * MS);
	mv_move_tick(&l, end - 1);
	take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_deadline(&l) == end);
	mv_move_tick(&l, end);
	assert_passthrough(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);
	/* A HELLO that comes later is answered: the leader is passthrough. */
	mv_move_message(&l, &hello, end);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(hello.flags, MV_CTL_PASSTHROUGH);
	assert_int_equal(hello.to_attempt, 7);
	mv_move_message(&f, &hello, end);
	assert_passthrough(&f, MV_CTL_REASON_PASSTHROUGH, MV_GID_TYPE_ROCE_V2, false);
}

static void test_give_up_offered(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, answer, refuse;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	answer = follow_to_answer(&f, &offer);
	mv_move_work_waits(&l, START);
	mv_move_tick(&l, START + T->give_up_ns);
	take_message(&l, MV_CTL_REFUSE);
	take(&l, MV_DO_RELEASE);
	assert_passthrough(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);
	mv_move_message(&l, &answer, START);
	refuse = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(refuse.reason, MV_CTL_REASON_PASSTHROUGH);
	mv_move_message(&f, &refuse, START);
	take(&f, MV_DO_RELEASE);
	assert_passthrough(&f, MV_CTL_REASON_PASSTHROUGH, MV_GID_TYPE_ROCE_V2, false);
}

/* After ANSWER the follower cannot go passthrough: the leader may be active. */
static void test_doubt(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer;
	uint64_t answered = START;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	mv_move_work_waits(&f, START - 50 * MS);
	follow_to_answer(&f, &offer);
	mv_move_unreachable(&f, START);
	assert_quiet(&f);
	mv_move_tick(&f, answered + T->give_up_ns - 1);
	take_message(&f, MV_CTL_ANSWER);
	mv_move_tick(&f, answered + T->give_up_ns);
	assert_true(take(&f, MV_DO_ACTIVATE).timed_out);
	assert_quiet(&f);
}

/* While the caller carries out an action, timeouts and errors wait for its outcome. */
static void test_busy(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	mv_move_message(&l, &hello, START);
	take(&l, MV_DO_PREPARE);
	mv_move_work_waits(&l, START);
	mv_move_tick(&l, START + T->give_up_ns);
	take_message(&l, MV_CTL_REFUSE);
	assert_quiet(&l);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	prepared(&l, "10.2.0.1", &leader_qp);
	take(&l, MV_DO_RELEASE);
	assert_passthrough(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);

	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	mv_move_message(&f, &offer, START);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", &follower_qp);
	take(&f, MV_DO_CONNECT);
	mv_move_unreachable(&f, START);
	assert_quiet(&f);
	mv_move_connected(&f, true, START);
	take(&f, MV_DO_RELEASE);
	assert_passthrough(&f, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, false);
	/* Outcomes of no action are ignored. */
	mv_move_connected(&f, true, START);
	prepared(&f, "10.2.0.2", &follower_qp);
	assert_quiet(&f);
}

static void test_unreachable(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, answer;
	struct mv_move l, f;

	(void)state;
	begin_leader(&l, &pair);
	take_message(&l, MV_CTL_HELLO);
	mv_move_unreachable(&l, START);
	assert_passthrough(&l, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, false);
	mv_move_unreachable(&l, START);
	assert_quiet(&l);
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	answer = follow_to_answer(&f, &offer);
	/* The leader has the ANSWER: the agent's word that the peer is unreachable is ignored. */
	mv_move_message(&l, &answer, START);
	take(&l, MV_DO_CONNECT);
	mv_move_unreachable(&l, START);
	/* So is a REFUSE of the peer that has answered. */
	answer.type = MV_CTL_REFUSE;
	mv_move_message(&l, &answer, START);
	mv_move_connected(&l, true, START);
	take_message(&l, MV_CTL_CONFIRM);
	take(&l, MV_DO_ACTIVATE);
}

/* A message that was not delivered counts as lost. If nothing else comes, UNREACHABLE is the reason of the timeout. */
static void test_undelivered(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	mv_move_work_waits(&l, START);
	mv_move_undelivered(&l);
	assert_quiet(&l);
	mv_move_tick(&l, START + T->resend_ns);
	take_message(&l, MV_CTL_HELLO);
	mv_move_tick(&l, START + T->give_up_ns);
	assert_passthrough(&l, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, true);

	begin_both(&l, &f, &pair, &hello);
	mv_move_work_waits(&l, START);
	mv_move_undelivered(&l);
	mv_move_message(&l, &hello, START);
	take(&l, MV_DO_PREPARE);
	prepared(&l, "10.2.0.1", &leader_qp);
	take_message(&l, MV_CTL_OFFER);
	mv_move_tick(&l, START + T->give_up_ns);
	take_message(&l, MV_CTL_REFUSE);
	take(&l, MV_DO_RELEASE);
	assert_passthrough(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);
}

/* A port is up again, and the peer has not said a word: it may have no agent. The program only receives. */
static void test_path_is_back(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, answer;
	uint64_t now = START + T->ask_min_ns;
	struct mv_move l, f;

	(void)state;
	begin_leader(&l, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_passthrough_at(&l) == now);
	/*
	 * The lower driver refuses the passthrough path: the end asks on, and tries again after longer and longer
	 * waits.
	 */
	for (uint64_t wait = T->try_ns; wait <= 4 * T->try_max_ns; wait *= 2) {
		mv_move_tried(&l, false, now);
		assert_quiet(&l);
		assert_int_equal(l.state, MV_MOVE_ASKING);
		now += wait < T->try_max_ns ? wait : T->try_max_ns;
		assert_true(mv_move_passthrough_at(&l) == now);
	}
	mv_move_tick(&l, now);
	take_message(&l, MV_CTL_HELLO);
	mv_move_tried(&l, true, now);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_PASSTHROUGH);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	assert_true(mv_move_passthrough_at(&l) == UINT64_MAX);
	/* The peer comes after all. */
	mv_move_rts(&l, LEADER_PSN, now);
	assert_quiet(&l);
	begin_follower(&f, &pair);
	answer = take_message(&f, MV_CTL_HELLO);
	mv_move_message(&l, &answer, now);
	answer = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(answer.flags, MV_CTL_PASSTHROUGH);
	mv_move_message(&f, &answer, now);
	assert_passthrough(&f, MV_CTL_REASON_PASSTHROUGH, MV_GID_TYPE_ROCE_V2, false);
	/* Once the peer has been heard, the passthrough path is not tried: both ends have to agree. */
	begin_follower(&f, &pair);
	assert_true(mv_move_passthrough_at(&f) == START + T->ask_min_ns);
	mv_move_message(&f, &hello, START);
	assert_int_equal(f.state, MV_MOVE_ASKING);
	assert_true(mv_move_passthrough_at(&f) == UINT64_MAX);
	begin_both(&l, &f, &pair, &hello);
	mv_move_tried(&l, false, START + T->ask_min_ns);
	lead_to_offer(&l, &hello);
	assert_true(mv_move_passthrough_at(&l) == UINT64_MAX);
	mv_move_tick(&l, START + T->resend_ns);
	take_message(&l, MV_CTL_OFFER);
}

/* The passthrough path may work, and the peer's program sends at once: the end tries that path after its patience. */
static void test_path_may_work(void **state)
{
	struct pair pair = make_pair();
	struct mv_move l;

	(void)state;
	pair.leader.verdict = MV_PATH_OTHER_SUBNET;
	begin_leader(&l, &pair);
	take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_passthrough_at(&l) == START + T->ask_min_ns);
	mv_move_patience(&l, T->ask_ns);
	assert_true(mv_move_passthrough_at(&l) == START + T->ask_ns / 4 * 3);
	mv_move_patience(&l, UINT64_MAX);
	assert_true(mv_move_passthrough_at(&l) == START + T->ask_ns);
	mv_move_tried(&l, false, START + T->ask_ns);
	assert_true(mv_move_passthrough_at(&l) == START + T->ask_ns + T->try_max_ns);
	/* An end with such a path does not give up asking. */
	mv_move_tick(&l, START + T->give_up_ns);
	take_message(&l, MV_CTL_HELLO);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_ASKING);
}

static void test_bye(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, bye;
	struct mv_move l, f;

	(void)state;
	begin_leader(&l, &pair);
	assert_false(mv_move_bye(&l, &bye));
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	follow_to_answer(&f, &offer);
	assert_true(mv_move_bye(&f, &bye));
	assert_int_equal(bye.type, MV_CTL_BYE);
	mv_move_message(&l, &bye, START);
	take(&l, MV_DO_RELEASE);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_ASKING);
	assert_true(mv_move_deadline(&l) == START + T->resend_max_ns);
	/* A leader that has gone may have sent before: the follower becomes active, in doubt. */
	assert_true(mv_move_bye(&l, &bye));
	mv_move_message(&f, &bye, START);
	assert_true(take(&f, MV_DO_ACTIVATE).timed_out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_give_up),
		cmocka_unit_test(test_give_up_offered),
		cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_undelivered),
		cmocka_unit_test(test_path_is_back),
		cmocka_unit_test(test_path_may_work),
		cmocka_unit_test(test_bye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
