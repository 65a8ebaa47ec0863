/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The connect transaction, step by step: both ends agree on a path. test_move_property.c runs the transaction at random. */
#include "unit.h"

#include "movepair.h"

static void take_prepare(struct mv_move *m, const char *gid)
{
	struct mv_move_action action = take(m, MV_DO_PREPARE);

	assert_gid(action.local_gid, gid);
}

static void check_prepare(const struct mv_move_action *action, const char *local,
			  const char *remote, uint8_t type)
{
	assert_gid(action->local_gid, local);
	assert_gid(action->remote_gid, remote);
	assert_int_equal(action->gid_type, type);
}

static void check_hello(const struct mv_ctl_msg *msg)
{
	assert_int_equal(msg->flags, 0);
	assert_int_equal(msg->gid_type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(msg->attempt, 7);
	assert_int_equal(msg->to_attempt, 0);
	assert_gid(msg->from.gid, FOLLOWER_GID);
	assert_int_equal(msg->from.qpn, 22);
	assert_gid(msg->to.gid, LEADER_GID);
	assert_int_equal(msg->to.qpn, 11);
	assert_int_equal(msg->from_psn, FOLLOWER_PSN);
	assert_int_equal(msg->to_psn, LEADER_PSN);
}

static void check_offer(const struct mv_ctl_msg *msg)
{
	assert_int_equal(msg->attempt, 5);
	assert_int_equal(msg->to_attempt, 7);
	assert_int_equal(msg->request_id, 1);
	assert_int_equal(msg->gid_type, MV_GID_TYPE_ROCE_V2);
	assert_gid(msg->path.gid, "10.2.0.1");
	assert_int_equal(msg->path.qpn, leader_qp.qpn);
	assert_gid(msg->path_peer_gid, "10.2.0.2");
	assert_int_equal(msg->path_lid, 3);
	assert_int_equal(msg->mtu_bytes, 4096);
	assert_int_equal(msg->flags, MV_CTL_STAYS);
}

static void check_connect(const struct mv_move_action *action, const char *gid, uint32_t qpn,
			  bool peer_stays)
{
	assert_gid(action->peer.gid, gid);
	assert_int_equal(action->peer.qpn, qpn);
	assert_int_equal(action->peer_lid, peer_stays ? 3 : 9);
	assert_int_equal(action->mtu_bytes, 1024);
	assert_int_equal(action->peer_stays, peer_stays);
	assert_int_equal(action->gid_type, MV_GID_TYPE_ROCE_V2);
}

static void test_connect(void **state)
{
	struct pair pair = make_pair();
	struct mv_move_action action;
	struct mv_ctl_msg msg;
	struct mv_move l, f;
	struct mv_ctl_end mine;

	(void)state;
	begin_both(&l, &f, &pair, &msg);
	assert_true(l.leader);
	assert_false(f.leader);
	check_hello(&msg);

	mv_move_message(&l, &msg, START);
	action = take(&l, MV_DO_PREPARE);
	check_prepare(&action, "10.2.0.1", "10.2.0.2", MV_GID_TYPE_ROCE_V2);
	mine = (struct mv_ctl_end){.gid = action.local_gid, .qpn = leader_qp.qpn};
	mv_move_prepared(&l, &mine, 3, 4096, true, START);
	msg = take_message(&l, MV_CTL_OFFER);
	check_offer(&msg);

	mv_move_message(&f, &msg, START);
	action = take(&f, MV_DO_PREPARE);
	check_prepare(&action, "10.2.0.2", "10.2.0.1", MV_GID_TYPE_ROCE_V2);
	mine = (struct mv_ctl_end){.gid = action.local_gid, .qpn = follower_qp.qpn};
	mv_move_prepared(&f, &mine, 9, 1024, false, START);
	action = take(&f, MV_DO_CONNECT);
	check_connect(&action, "10.2.0.1", leader_qp.qpn, true);
	assert_quiet(&f); /* not before it can receive */
	mv_move_connected(&f, true, START);
	msg = take_message(&f, MV_CTL_ANSWER);
	assert_int_equal(msg.flags, MV_CTL_READY);
	assert_int_equal(msg.request_id, 1);

	mv_move_message(&l, &msg, START);
	action = take(&l, MV_DO_CONNECT);
	check_connect(&action, "10.2.0.2", follower_qp.qpn, false);
	assert_quiet(&l);
	mv_move_connected(&l, true, START);
	msg = take_message(&l, MV_CTL_CONFIRM);
	take(&l, MV_DO_ACTIVATE);
	assert_int_equal(l.state, MV_MOVE_ACTIVE);

	mv_move_message(&f, &msg, START);
	assert_false(take(&f, MV_DO_ACTIVATE).timed_out);
	assert_int_equal(f.state, MV_MOVE_ACTIVE);
	assert_quiet(&l);
	assert_quiet(&f);
	assert_true(mv_move_deadline(&l) == UINT64_MAX && mv_move_deadline(&f) == UINT64_MAX);
	assert_true(l.now.my_stays && f.now.peer_stays && !f.now.my_stays && !l.now.peer_stays);
}

/* An end that hears a message again repeats its answer, and does nothing else. */
static void test_repeated(void **state)
{
	struct mv_ctl_msg hello, offer, answer, confirm;
	struct pair pair = make_pair();
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	mv_move_message(&l, &hello, START);
	take_message(&l, MV_CTL_OFFER);
	answer = follow_to_answer(&f, &offer);
	mv_move_message(&f, &offer, START);
	take_message(&f, MV_CTL_ANSWER);
	confirm = lead_to_confirm(&l, &answer);
	mv_move_message(&l, &answer, START);
	take_message(&l, MV_CTL_CONFIRM);
	mv_move_message(&l, &hello, START);
	assert_quiet(&l);
	mv_move_message(&f, &confirm, START);
	take(&f, MV_DO_ACTIVATE);
	mv_move_message(&f, &confirm, START);
	assert_quiet(&f);
	/* The follower is active, and still answers an OFFER that is repeated. */
	mv_move_message(&f, &offer, START);
	take_message(&f, MV_CTL_ANSWER);
	assert_quiet(&f);
}

static void test_follower_answers_hello(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_leader(&l, &pair);
	begin_follower(&f, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	take_message(&f, MV_CTL_HELLO);
	mv_move_message(&f, &hello, START);
	hello = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(hello.to_attempt, 5);
	assert_quiet(&f);
}

static void test_timer(void **state)
{
	struct pair pair = make_pair();
	uint64_t now = START, step = T->resend_ns;
	struct mv_move l;

	(void)state;
	leader_to_rtr(&l, &pair);
	assert_quiet(&l);
	assert_true(mv_move_deadline(&l) == START + T->rtr_ns);
	mv_move_tick(&l, START + T->rtr_ns - 1);
	assert_quiet(&l);
	now += T->rtr_ns;
	mv_move_tick(&l, now);
	take_message(&l, MV_CTL_HELLO);
	for (int i = 0; i < 20; i++) {
		assert_true(mv_move_deadline(&l) == now + step);
		mv_move_tick(&l, now + step - 1);
		assert_quiet(&l);
		now += step;
		mv_move_tick(&l, now);
		take_message(&l, MV_CTL_HELLO);
		step = 2 * step < T->resend_max_ns ? 2 * step : T->resend_max_ns;
	}
	/* After RTS the waits are short again. */
	mv_move_rts(&l, LEADER_PSN, now);
	take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_deadline(&l) == now + T->resend_ns);
	mv_move_rts(&l, LEADER_PSN, now);
	assert_quiet(&l);
}

static void test_leader_next_path(void **state)
{
	struct pair pair = make_pair();
	struct mv_move_action action;
	struct mv_ctl_msg msg, hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	mv_move_message(&l, &hello, START);
	take(&l, MV_DO_PREPARE);
	mv_move_prepared(&l, NULL, 0, 0, false, START);
	action = take(&l, MV_DO_PREPARE);
	check_prepare(&action, "10.3.0.1", "10.3.0.2", MV_GID_TYPE_ROCE_V1);
	mv_move_prepared(&l, NULL, 0, 0, false, START);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_NO_RESOURCES);
	assert_passthrough(&l, MV_CTL_REASON_NO_RESOURCES, MV_GID_TYPE_ROCE_V2, false);
	mv_move_message(&f, &msg, START);
	assert_passthrough(&f, MV_CTL_REASON_NO_RESOURCES, MV_GID_TYPE_ROCE_V2, false);
}

static void test_follower_declines(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg offer, msg, hello, second;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	mv_move_message(&f, &offer, START);
	take(&f, MV_DO_PREPARE);
	mv_move_prepared(&f, NULL, 0, 0, false, START);
	msg = take_message(&f, MV_CTL_ANSWER);
	assert_int_equal(msg.flags, 0);
	assert_int_equal(f.state, MV_MOVE_ASKING);
	/* The follower has tried that path. */
	mv_move_message(&f, &offer, START);
	assert_int_equal(take_message(&f, MV_CTL_ANSWER).flags, 0);
	mv_move_message(&l, &msg, START);
	take(&l, MV_DO_RELEASE);
	take_prepare(&l, "10.3.0.1");
	prepared(&l, "10.3.0.1", &leader_qp);
	second = take_message(&l, MV_CTL_OFFER);
	assert_int_equal(second.request_id, 2);
	assert_int_equal(second.gid_type, MV_GID_TYPE_ROCE_V1);
	/* The same ANSWER once more is no answer to the new OFFER. */
	mv_move_message(&l, &msg, START);
	assert_quiet(&l);
	mv_move_message(&f, &second, START);
	take_prepare(&f, "10.3.0.2");
	prepared(&f, "10.3.0.2", &follower_qp);
	take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, false, START);
	take(&f, MV_DO_RELEASE);
	msg = take_message(&f, MV_CTL_ANSWER);
	assert_int_equal(msg.flags, 0);
	/* The first OFFER, late, is ignored. */
	mv_move_message(&f, &offer, START);
	assert_quiet(&f);
	mv_move_message(&l, &msg, START);
	take(&l, MV_DO_RELEASE);
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_NO_PATH);
	assert_passthrough(&l, MV_CTL_REASON_NO_PATH, MV_GID_TYPE_ROCE_V2, false);
}

/* The leader fails after the follower's ANSWER: the follower takes up the next offer instead. */
static void test_leader_connect_fails(void **state)
{
	struct mv_ctl_msg hello, offer, answer, confirm;
	struct pair pair = make_pair();
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	answer = follow_to_answer(&f, &offer);
	mv_move_message(&l, &answer, START);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, false, START);
	take(&l, MV_DO_RELEASE);
	take(&l, MV_DO_PREPARE);
	prepared(&l, "10.3.0.1", &leader_qp);
	offer = take_message(&l, MV_CTL_OFFER);
	/* The first ANSWER is no answer to the second OFFER. */
	mv_move_message(&l, &answer, START);
	assert_quiet(&l);
	mv_move_message(&f, &offer, START);
	take(&f, MV_DO_RELEASE);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.3.0.2", &follower_qp);
	take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, true, START);
	answer = take_message(&f, MV_CTL_ANSWER);
	confirm = lead_to_confirm(&l, &answer);
	confirm.request_id = 1;
	mv_move_message(&f, &confirm, START);
	assert_quiet(&f);
	confirm.request_id = 2;
	mv_move_message(&f, &confirm, START);
	take(&f, MV_DO_ACTIVATE);
}

static void test_nothing_to_offer(void **state)
{
	struct pair pair = make_pair();
	struct mv_move m;

	(void)state;
	pair.leader.n_paths = pair.follower.n_paths = 0;
	begin_leader(&m, &pair);
	assert_passthrough(&m, MV_CTL_REASON_NO_PATH, MV_GID_TYPE_ROCE_V2, false);
	/* A follower without paths asks: the leader may know some. */
	begin_follower(&m, &pair);
	take_message(&m, MV_CTL_HELLO);
	/* A leader that asks for the RoCE version waits for an answer. */
	pair.leader.verdict = MV_PATH_ASK;
	begin_leader(&m, &pair);
	assert_int_equal(take_message(&m, MV_CTL_HELLO).flags, MV_CTL_ASKING);
}

/* A caller that does not take actions loses messages, and nothing else. */
static void test_full(void **state)
{
	struct pair pair = make_pair();
	struct mv_move_action action;
	struct mv_ctl_msg hello;
	unsigned int sends = 0;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	for (int i = 0; i < 100; i++)
		mv_move_tick(&l, START + (uint64_t)i * 1000 * MS);
	mv_move_message(&l, &hello, START);
	while (mv_move_next(&l, &action) && action.type == MV_DO_SEND)
		sends++;
	assert_int_equal(sends, 5);
	assert_int_equal(action.type, MV_DO_PREPARE);
	assert_quiet(&l);
}

static void test_limits(void **state)
{
	struct mv_path many[MV_MOVE_MAX_PATHS + 4] = {0};
	struct pair pair = make_pair();
	struct mv_move m = {0};

	(void)state;
	assert_true(mv_move_deadline(&m) == UINT64_MAX);
	mv_move_tick(&m, START);
	mv_move_unreachable(&m, START);
	assert_quiet(&m);
	pair.leader.paths = many;
	pair.leader.n_paths = MV_MOVE_MAX_PATHS + 4;
	pair.leader.attempt = 0;
	mv_move_begin(&m, &pair.leader, T, START);
	assert_int_equal(m.paths.n, MV_MOVE_MAX_PATHS);
	assert_int_equal(m.attempts.mine, 1);
	/* Equal GIDs: the smaller QPN leads. */
	pair.leader.peer.gid = pair.leader.local.gid;
	mv_move_begin(&m, &pair.leader, T, START);
	assert_true(m.leader);
	pair.leader.peer.qpn = 1;
	mv_move_begin(&m, &pair.leader, T, START);
	assert_false(m.leader);
	for (unsigned int i = MV_MOVE_IDLE; i <= MV_MOVE_FAILED; i++)
		assert_string_not_equal(mv_move_state_name(i), "unknown");
	assert_string_equal(mv_move_state_name(MV_MOVE_FAILED + 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_follower_answers_hello),
		cmocka_unit_test(test_timer),
		cmocka_unit_test(test_leader_next_path),
		cmocka_unit_test(test_follower_declines),
		cmocka_unit_test(test_leader_connect_fails),
		cmocka_unit_test(test_nothing_to_offer),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
