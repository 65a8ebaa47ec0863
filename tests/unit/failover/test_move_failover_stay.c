/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The move of a live QP that comes to nothing before anything is drained: both ends stay, and may try again. */
#include "failover_move.h"

static void test_no_paths(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, NULL, 0, START), 0);
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_NO_PATH);
	assert_stays(&l, MV_CTL_REASON_NO_PATH, false);
	/* Each path fails at the follower. */
	msg = to_offer();
	for (unsigned int i = 0; i < 2; i++) {
		hear(&f, &msg);
		take(&f, MV_DO_PREPARE);
		mv_move_prepared(&f, NULL, 0, 0, false, START);
		msg = take_message(&f, MV_CTL_ANSWER);
		assert_int_equal(msg.flags, MV_CTL_MOVE);
		assert_stays(&f, MV_CTL_REASON_NO_RESOURCES, false);
		hear(&l, &msg);
		take(&l, MV_DO_RELEASE);
		if (i)
			break;
		msg = leader_offers("10.3.0.1", 0x1001);
	}
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_NO_PATH);
	assert_stays(&l, MV_CTL_REASON_NO_PATH, false);
}

static void test_cancel(void **state)
{
	struct mv_ctl_msg answer, msg;

	(void)state;
	introduce();
	answer = to_answer();
	mv_move_cancel(&l, START);
	msg = take_message(&l, MV_CTL_REFUSE);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_HEALED, false);
	/* It is lost; the follower asks. */
	hear(&l, &answer);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.request_id, answer.request_id);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	assert_stays(&f, MV_CTL_REASON_HEALED, false);
	/* Not when the follower has a reason, too. */
	assert_int_equal(start_leader(), 0);
	take(&l, MV_DO_PREPARE);
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
	msg = take_message(&f, MV_CTL_HELLO);
	hear(&l, &msg);
	mv_move_cancel(&l, START);
	assert_quiet(&l);
	mv_move_cancel(&f, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	assert_stays(&f, MV_CTL_REASON_HEALED, false);
	hear(&l, &msg);
	take_message(&l, MV_CTL_REFUSE);
	prepared(&l, "10.2.0.1", 1);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_HEALED, false);
	/* And not once CONFIRM was said. */
	to_confirm();
	mv_move_cancel(&l, START);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_DRAINING);
}

static void test_refused_by_kind(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	msg = to_offer();
	hear(&f, &msg);
	take(&f, MV_DO_PREPARE);
	mv_move_refuse(&f, MV_CTL_REASON_UNSUPPORTED, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	assert_stays(&f, MV_CTL_REASON_UNSUPPORTED, false);
	hear(&l, &msg);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_UNSUPPORTED, false);
}

/* The second path while the first is negotiated. */
static void test_start_again(void **state)
{
	struct mv_ctl_msg answer, msg;

	(void)state;
	introduce();
	answer = to_answer();
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, &paths[1], 1, START), 0);
	take(&l, MV_DO_RELEASE);
	take_prepare(&l, "10.3.0.1");
	hear(&l, &answer); /* of the first one */
	assert_quiet(&l);
	prepared(&l, "10.3.0.1", 0x1003);
	msg = take_message(&l, MV_CTL_OFFER);
	hear(&l, &answer);
	assert_quiet(&l);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	take_prepare(&f, "10.3.0.2");
	/* And in the middle of PREPARE. */
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, paths, 1, START), 0);
	take(&l, MV_DO_RELEASE);
	take(&l, MV_DO_PREPARE);
	assert_int_equal(start_leader(), 0);
	assert_quiet(&l);
	prepared(&l, "10.2.0.1", 1);
	take(&l, MV_DO_RELEASE);
	take(&l, MV_DO_PREPARE);
	assert_quiet(&l);
}

static void run_out_of_time(const struct mv_move_times *times)
{
	uint64_t now = START;
	struct mv_ctl_msg msg;

	introduce();
	l.times = times;
	to_offer();
	for (;;) {
		assert_true(mv_move_deadline(&l) > now);
		now = mv_move_deadline(&l);
		mv_move_tick(&l, now);
		if (!l.failover)
			break;
		take_message(&l, MV_CTL_OFFER);
	}
	assert_true(now == START + times->move_ns / 16 * 7);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_TIMEOUT);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_TIMEOUT, true);
}

/* As the administrator says. */
static void test_out_of_time(void **state)
{
	struct mv_move_times times = mv_move_default_times;

	(void)state;
	run_out_of_time(T);
	times.move_ns = 200000000;
	run_out_of_time(&times);
	times.move_ns = 120000000000;
	run_out_of_time(&times);
}

/* How long the follower has asked is not taken from the leader, which is given up before it is left. */
static void test_asked_for_long(void **state)
{
	const uint64_t late = START + T->move_ns / 2 - 1;
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
	take_message(&f, MV_CTL_HELLO);
	msg = to_offer();
	mv_move_message(&f, &msg, late);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", 0x2002);
	take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, true, late);
	take(&f, MV_DO_QUIESCE);
	mv_move_quiesced(&f, false, late);
	take_message(&f, MV_CTL_ANSWER);
	mv_move_tick(&f, late + T->move_ns / 16 * 7);
	assert_true(f.failover);
	mv_move_tick(&f, late + T->move_ns / 2);
	assert_false(f.failover);
}

/* The leader says that it goes only when the follower has time left to hear of it. */
static void test_confirms_in_time(void **state)
{
	struct mv_ctl_msg answer, msg;

	(void)state;
	introduce();
	answer = to_answer();
	leader_connects(&answer);
	take(&l, MV_DO_QUIESCE);
	mv_move_quiesced(&l, false, START + T->move_ns / 16 * 7);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_BUSY);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_BUSY, false);
}

/* What cannot be moved any more is found before anything is drained. */
static void test_refuses_to_quiesce(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_quiesce();
	take(&f, MV_DO_QUIESCE);
	mv_move_refuse(&f, MV_CTL_REASON_UNSUPPORTED, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_UNSUPPORTED);
	take(&f, MV_DO_RELEASE);
	assert_stays(&f, MV_CTL_REASON_UNSUPPORTED, false);
	hear(&l, &msg);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_UNSUPPORTED, false);
}

/* Nobody is told of a path, and nothing is drained, before atomics have finished; that is asked for again and again. */
static void test_quiesce(void **state)
{
	struct mv_ctl_msg answer, msg;
	uint64_t now;

	(void)state;
	introduce();
	to_quiesce();
	take(&f, MV_DO_QUIESCE);
	assert_quiet(&f);
	for (unsigned int i = 0; i < 3; i++) {
		mv_move_tick(&f, mv_move_deadline(&f));
		take(&f, MV_DO_QUIESCE);
		assert_quiet(&f);
	}
	mv_move_quiesced(&f, false, START);
	answer = take_message(&f, MV_CTL_ANSWER);
	leader_connects(&answer);
	take(&l, MV_DO_QUIESCE);
	assert_quiet(&l);
	hear(&l, &answer); /* again */
	assert_quiet(&l);
	/* They do not finish. */
	do {
		assert_int_equal(l.state, MV_MOVE_QUIESCING);
		now = mv_move_deadline(&l);
		mv_move_tick(&l, now);
	} while (l.failover && take(&l, MV_DO_QUIESCE).type);
	assert_true(now == START + T->move_ns / 16 * 7);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_BUSY);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_BUSY, false);
	mv_move_quiesced(&l, false, now); /* too late */
	assert_quiet(&l);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	assert_stays(&f, MV_CTL_REASON_BUSY, false);
}

/* The leader has another path meanwhile, and a worse reason. */
static void test_quiesce_is_left(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_DRAIN, paths, 2, START), 0);
	msg = leader_offers("10.2.0.1", 0x1001);
	follower_connects(&msg);
	take(&f, MV_DO_QUIESCE);
	assert_int_equal(f.reason, MV_CTL_REASON_DRAIN);
	hear(&f, &msg); /* again */
	assert_quiet(&f);
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, &paths[1], 1, START), 0);
	take(&l, MV_DO_RELEASE);
	msg = leader_offers("10.3.0.1", 0x1003);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	take_prepare(&f, "10.3.0.2");
	assert_int_equal(f.reason, MV_CTL_REASON_PORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_paths),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_refused_by_kind),
		cmocka_unit_test(test_start_again),
		cmocka_unit_test(test_out_of_time),
		cmocka_unit_test(test_quiesce),
		cmocka_unit_test(test_asked_for_long),
		cmocka_unit_test(test_confirms_in_time),
		cmocka_unit_test(test_refuses_to_quiesce),
		cmocka_unit_test(test_quiesce_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
