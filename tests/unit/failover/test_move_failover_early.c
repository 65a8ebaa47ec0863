/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two ends of a live QP agree on another path while there is only a suspicion against theirs. */
#include <errno.h>

#include "failover_move.h"

static void expect(void)
{
	assert_int_equal(mv_move_expect(&l, paths, 2, START), 0);
	assert_true(l.early && l.unsure && l.failover);
}

/* Returns OFFER. */
static struct mv_ctl_msg early_offer(void)
{
	struct mv_ctl_msg msg;

	expect();
	msg = leader_offers("10.2.0.1", 0x1001);
	assert_int_equal(msg.flags, MV_CTL_MOVE | MV_CTL_ASKING);
	assert_int_equal(msg.reason, MV_CTL_REASON_PATH);
	return msg;
}

/* The follower does not hold anything back. Returns ANSWER. */
static struct mv_ctl_msg early_answer(void)
{
	struct mv_ctl_msg msg = early_offer();

	follower_connects(&msg);
	assert_int_equal(f.state, MV_MOVE_ANSWERED);
	assert_true(f.early && f.unsure);
	return take_message(&f, MV_CTL_ANSWER);
}

/* Both have what they need, and nothing is done. */
static void to_ready(void)
{
	struct mv_ctl_msg msg = early_answer();

	leader_connects(&msg);
	assert_int_equal(l.state, MV_MOVE_QUIESCING);
	assert_quiet(&l);
	assert_quiet(&f);
	mv_move_quiesced(&l, true, START);
	assert_int_equal(l.state, MV_MOVE_QUIESCING);
}

static void to_the_end(bool many)
{
	struct mv_ctl_msg msg;

	take(&l, MV_DO_QUIESCE);
	mv_move_quiesced(&l, many, START);
	if (!many) {
		msg = take_message(&l, MV_CTL_CONFIRM);
		hear(&f, &msg);
		take(&f, MV_DO_DRAIN);
	}
	take(&l, MV_DO_DRAIN);
	mv_move_drained(&l, &l_sync, START);
	msg = take_message(&l, MV_CTL_SYNC);
	hear(&f, &msg);
	if (many)
		take(&f, MV_DO_DRAIN);
	assert_true(f.early && !f.unsure);
	mv_move_drained(&f, &f_sync, START);
	msg = take_message(&f, MV_CTL_SYNC);
	check_replay(&f, &l_sync);
	hear(&l, &msg);
	check_replay(&l, &f_sync);
}

static void test_sure(void **state)
{
	(void)state;
	for (unsigned int many = 0; many < 2; many++) {
		introduce();
		to_ready();
		/* Nothing of it is repeated, but that the follower asks, now and then. */
		mv_move_tick(&l, START + 100 * MS);
		assert_quiet(&l);
		mv_move_tick(&f, START + T->failover_resend_max_ns - 1);
		assert_quiet(&f);
		mv_move_tick(&f, START + T->failover_resend_max_ns);
		take_message(&f, MV_CTL_ANSWER);
		mv_move_sure(&l, MV_CTL_REASON_PORT, START);
		assert_int_equal(l.reason, MV_CTL_REASON_PORT);
		assert_true(l.early && !l.unsure);
		to_the_end(many);
	}
}

/* Before the peer has answered; its answer does. */
static void test_sure_soon(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	msg = early_answer();
	mv_move_sure(&l, MV_CTL_REASON_PATH, START);
	assert_quiet(&l);
	leader_connects(&msg);
	to_the_end(true);
}

static void test_healed(void **state)
{
	struct mv_ctl_msg msg;
	struct mv_move_action action;

	(void)state;
	introduce();
	to_ready();
	mv_move_cancel(&l, START);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_HEALED);
	take(&l, MV_DO_RELEASE);
	action = take(&l, MV_DO_STAY);
	assert_true(action.unsure);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	action = take(&f, MV_DO_STAY);
	assert_true(action.unsure);
	assert_false(l.unsure || f.unsure);
	/* The next one is for a reason. */
	msg = to_offer();
	assert_int_equal(msg.flags, MV_CTL_MOVE);
	assert_false(l.early);
	follower_connects(&msg);
	take(&f, MV_DO_QUIESCE);
	assert_false(f.early);
}

/* An end without a QP made in advance: it is off, and when it is sure the path is tried with another one. */
static void test_no_standby(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	for (unsigned int sure = 0; sure < 2; sure++) {
		introduce();
		msg = early_offer();
		hear(&f, &msg);
		take(&f, MV_DO_PREPARE);
		mv_move_prepared(&f, NULL, 0, 0, false, START);
		msg = take_message(&f, MV_CTL_ANSWER);
		assert_true(take(&f, MV_DO_STAY).unsure);
		if (sure)
			mv_move_sure(&l, MV_CTL_REASON_PATH, START);
		hear(&l, &msg);
		take(&l, MV_DO_RELEASE);
		if (sure) {
			msg = leader_offers("10.2.0.1", 0x1001);
			assert_int_equal(msg.flags, MV_CTL_MOVE);
			continue;
		}
		msg = take_message(&l, MV_CTL_REFUSE);
		assert_true(take(&l, MV_DO_STAY).unsure);
		assert_int_equal(l.state, MV_MOVE_PASSTHROUGH);
		hear(&f, &msg);
		assert_quiet(&f);
	}
	/* The leader's own. */
	introduce();
	expect();
	take_prepare(&l, "10.2.0.1");
	mv_move_prepared(&l, NULL, 0, 0, false, START);
	take_message(&l, MV_CTL_REFUSE);
	assert_true(take(&l, MV_DO_STAY).unsure);
	expect();
	take_prepare(&l, "10.2.0.1");
	mv_move_sure(&l, MV_CTL_REASON_PATH, START);
	mv_move_prepared(&l, NULL, 0, 0, false, START);
	assert_false(l.early);
	leader_offers("10.2.0.1", 0x1001);
}

/* A follower that does not take it up, but wants to move itself, asks for what comes next. */
static void test_follower_asks_on(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	msg = early_offer();
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PATH, NULL, 0, START), 0);
	take_message(&f, MV_CTL_HELLO);
	hear(&f, &msg);
	take(&f, MV_DO_PREPARE);
	mv_move_prepared(&f, NULL, 0, 0, false, START);
	take_message(&f, MV_CTL_ANSWER);
	assert_quiet(&f);
	assert_int_equal(f.state, MV_MOVE_ASKING);
	assert_false(f.unsure);
}

/* It knows what the leader suspects. */
static void test_followers_word(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_ready();
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
	assert_true(f.early && f.unsure);
	msg = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(msg.reason, MV_CTL_REASON_PORT);
	hear(&l, &msg);
	assert_false(l.unsure);
	assert_int_equal(l.reason, MV_CTL_REASON_PORT);
	to_the_end(true);
	/* One that is sure needs no word. */
	introduce();
	to_answer();
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
	assert_quiet(&f);
}

/* It wants to go elsewhere, and the path may work: so nothing is cut off. */
static void test_followers_drain(void **state)
{
	struct mv_ctl_msg msg;
	struct mv_move_action action;

	(void)state;
	for (unsigned int willing = 0; willing < 2; willing++) {
		introduce();
		to_ready();
		assert_int_equal(mv_move_start(&f, MV_CTL_REASON_DRAIN, NULL, 0, START), 0);
		msg = take_message(&f, MV_CTL_HELLO);
		hear(&l, &msg);
		action = take(&l, MV_DO_WANTED);
		assert_int_equal(action.reason, MV_CTL_REASON_DRAIN);
		assert_true(l.unsure);
		if (!willing) {
			mv_move_refuse(&l, MV_CTL_REASON_OFF, START);
			msg = take_message(&l, MV_CTL_REFUSE);
			take(&l, MV_DO_RELEASE);
			assert_stays(&l, MV_CTL_REASON_OFF, false);
			hear(&f, &msg);
			take(&f, MV_DO_RELEASE);
			assert_stays(&f, MV_CTL_REASON_OFF, false);
			continue;
		}
		assert_int_equal(mv_move_start(&l, MV_CTL_REASON_DRAIN, paths, 2, START), 0);
		take(&l, MV_DO_RELEASE);
		assert_false(l.early || l.unsure);
		msg = leader_offers("10.2.0.1", 0x1001);
		assert_int_equal(msg.flags, MV_CTL_MOVE);
		hear(&f, &msg);
		take(&f, MV_DO_RELEASE);
		take(&f, MV_DO_PREPARE);
		assert_false(f.early || f.unsure);
	}
}

/* Nothing is heard of what the follower wanted; the suspicion is over all the same. */
static void test_wish_is_lost(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_ready();
	mv_move_start(&f, MV_CTL_REASON_PRIMARY, NULL, 0, START);
	msg = take_message(&f, MV_CTL_HELLO);
	hear(&l, &msg);
	take(&l, MV_DO_WANTED); /* and our caller does nothing */
	mv_move_cancel(&l, START);
	take_message(&l, MV_CTL_REFUSE);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_HEALED, false);
}

/* With other paths, for a reason. */
static void test_start_again(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_ready();
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, &paths[1], 1, START), 0);
	take(&l, MV_DO_RELEASE);
	assert_false(l.early || l.unsure);
	msg = leader_offers("10.3.0.1", 0x1003);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	take_prepare(&f, "10.3.0.2");
	assert_false(f.early || f.unsure);
}

/* The leader goes over to something that is no failure: so the follower waits for its atomics. */
static void test_no_failure_any_more(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_ready();
	assert_int_equal(f.reason, MV_CTL_REASON_PATH);
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_DRAIN, paths, 2, START), 0);
	take(&l, MV_DO_RELEASE);
	msg = leader_offers("10.2.0.1", 0x1001);
	hear(&f, &msg);
	assert_int_equal(f.reason, MV_CTL_REASON_DRAIN);
}

/* It cannot keep to its answer. */
static void test_follower_refuses(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_ready();
	mv_move_refuse(&f, MV_CTL_REASON_UNSUPPORTED, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	take(&f, MV_DO_RELEASE);
	assert_stays(&f, MV_CTL_REASON_UNSUPPORTED, false);
	hear(&l, &msg);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_UNSUPPORTED, false);
	/* Of a move that is certain the leader alone decides. */
	introduce();
	to_answer();
	mv_move_refuse(&f, MV_CTL_REASON_UNSUPPORTED, START);
	assert_quiet(&f);
	assert_int_equal(f.state, MV_MOVE_ANSWERED);
}

static void test_who(void **state)
{
	(void)state;
	introduce();
	assert_int_equal(mv_move_expect(&f, paths, 2, START), -EINVAL);
	assert_int_equal(start_leader(), 0);
	assert_int_equal(mv_move_expect(&l, paths, 2, START), -EBUSY);
	mv_move_sure(&l, MV_CTL_REASON_PATH, START);
	assert_int_equal(l.reason, MV_CTL_REASON_PORT);
	mv_move_sure(&f, MV_CTL_REASON_PATH, START);
	assert_quiet(&f);
	mv_move_abort(&l, START);
	while (l.state != MV_MOVE_FAILED) {
		struct mv_move_action action;

		mv_move_prepared(&l, NULL, 0, 0, false, START);
		while (mv_move_next(&l, &action))
			;
	}
	assert_int_equal(mv_move_expect(&l, paths, 2, START), -EINVAL);
	l = (struct mv_move){0};
	assert_int_equal(mv_move_expect(&l, paths, 2, START), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sure),
		cmocka_unit_test(test_sure_soon),
		cmocka_unit_test(test_healed),
		cmocka_unit_test(test_no_standby),
		cmocka_unit_test(test_follower_asks_on),
		cmocka_unit_test(test_followers_word),
		cmocka_unit_test(test_followers_drain),
		cmocka_unit_test(test_wish_is_lost),
		cmocka_unit_test(test_start_again),
		cmocka_unit_test(test_no_failure_any_more),
		cmocka_unit_test(test_follower_refuses),
		cmocka_unit_test(test_who),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
