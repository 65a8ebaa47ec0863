/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The connect transaction, step by step; test_move_property.c lets it run. */
#include "unit.h"

#include <string.h>

#include "moves.h"
#include "proof.h"

#define MS    1000000ull
#define START (100 * MS)
#define T     (&mv_move_default_times)

/* Ends of the same connection: the leader has the smaller GID. */
#define LEADER_GID   "10.1.0.1"
#define FOLLOWER_GID "10.1.0.2"
#define LEADER_PSN   0x111111
#define LEADER_NONCE   0x1111111111111111
#define FOLLOWER_NONCE 0x2222222222222222
#define FOLLOWER_PSN 0x222222

static const struct mv_ctl_end leader_qp = {.qpn = 0x1001}, follower_qp = {.qpn = 0x2002};

static struct mv_path path_of(const char *local, const char *remote, uint8_t type, uint8_t stays)
{
	return (struct mv_path){.local_gid = unit_gid(local),
				.remote_gid = unit_gid(remote),
				.type = type,
				.stays = stays};
}

struct pair {
	struct mv_path paths[2];
	struct mv_move_begin leader, follower;
};

static struct pair make_pair(void)
{
	struct pair pair = {
		.paths = {path_of("10.2.0.1", "10.2.0.2", MV_GID_TYPE_ROCE_V2, 0),
			  path_of("10.3.0.1", "10.3.0.2", MV_GID_TYPE_ROCE_V1, 0)},
		.leader = {.local = {.gid = unit_gid(LEADER_GID), .qpn = 11},
			   .peer = {.gid = unit_gid(FOLLOWER_GID), .qpn = 22},
			   .local_type = MV_GID_TYPE_ROCE_V2,
			   .verdict = MV_PATH_APART,
			   .n_paths = 2,
			   .rq_psn = FOLLOWER_PSN,
			   .attempt = 5,
			   .nonce = LEADER_NONCE},
		.follower = {.local_type = MV_GID_TYPE_ROCE_V2,
			     .verdict = MV_PATH_APART,
			     .n_paths = 2,
			     .rq_psn = LEADER_PSN,
			     .attempt = 7,
			     .nonce = FOLLOWER_NONCE},
	};

	pair.follower.local = pair.leader.peer;
	pair.follower.peer = pair.leader.local;
	return pair;
}

static void leader_to_rtr(struct mv_move *m, struct pair *pair)
{
	pair->leader.paths = pair->paths;
	mv_move_begin(m, &pair->leader, T, START);
}

static void follower_to_rtr(struct mv_move *m, struct pair *pair)
{
	pair->follower.paths = pair->paths;
	mv_move_begin(m, &pair->follower, T, START);
}

/* And on to RTS, as programs do. */
static void begin_leader(struct mv_move *m, struct pair *pair)
{
	leader_to_rtr(m, pair);
	mv_move_rts(m, LEADER_PSN, START);
}

static void begin_follower(struct mv_move *m, struct pair *pair)
{
	follower_to_rtr(m, pair);
	mv_move_rts(m, FOLLOWER_PSN, START);
}

static void take_prepare(struct mv_move *m, const char *gid)
{
	struct mv_move_action action = take(m, MV_DO_PREPARE);

	assert_gid(action.local_gid, gid);
}

static void assert_native(struct mv_move *m, enum mv_ctl_reason reason, uint8_t type,
			  bool timed_out)
{
	struct mv_move_action action = take(m, MV_DO_NATIVE);

	assert_string_equal(mv_ctl_reason_text(action.reason), mv_ctl_reason_text(reason));
	assert_int_equal(action.gid_type, type);
	assert_int_equal(action.timed_out, timed_out);
	assert_int_equal(m->state, MV_MOVE_NATIVE);
	assert_true(mv_move_deadline(m) == UINT64_MAX);
	assert_quiet(m);
}

static void prepared(struct mv_move *m, const char *gid, const struct mv_ctl_end *qp)
{
	struct mv_ctl_end mine = *qp;

	mine.gid = unit_gid(gid);
	mv_move_prepared(m, &mine, 3, 4096, false, START);
}

/* Both in RTS, asking, and each other's HELLO in hand. */
static void begin_both(struct mv_move *l, struct mv_move *f, struct pair *pair,
		       struct mv_ctl_msg *ret_hello)
{
	begin_leader(l, pair);
	begin_follower(f, pair);
	take_message(l, MV_CTL_HELLO);
	*ret_hello = take_message(f, MV_CTL_HELLO);
}

/* The leader has a QP on its first path and has offered it. */
static struct mv_ctl_msg lead_to_offer(struct mv_move *l, const struct mv_ctl_msg *hello)
{
	mv_move_message(l, hello, START);
	take(l, MV_DO_PREPARE);
	prepared(l, "10.2.0.1", &leader_qp);
	return take_message(l, MV_CTL_OFFER);
}

static struct mv_ctl_msg follow_to_answer(struct mv_move *f, const struct mv_ctl_msg *offer)
{
	mv_move_message(f, offer, START);
	take(f, MV_DO_PREPARE);
	prepared(f, "10.2.0.2", &follower_qp);
	take(f, MV_DO_CONNECT);
	mv_move_connected(f, true, START);
	return take_message(f, MV_CTL_ANSWER);
}

static struct mv_ctl_msg lead_to_confirm(struct mv_move *l, const struct mv_ctl_msg *answer)
{
	struct mv_ctl_msg confirm;

	mv_move_message(l, answer, START);
	take(l, MV_DO_CONNECT);
	mv_move_connected(l, true, START);
	confirm = take_message(l, MV_CTL_CONFIRM);
	assert_false(take(l, MV_DO_ACTIVATE).timed_out);
	return confirm;
}

/* ---- the way it should go ----------------------------------------------------------------------
 */

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

/* Whoever gets something again says its answer again, and does nothing. */
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
	/* One that is active without the leader's word goes on answering it. */
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
	/* News begin again with short waits. */
	mv_move_rts(&l, LEADER_PSN, now);
	take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_deadline(&l) == now + T->resend_ns);
	mv_move_rts(&l, LEADER_PSN, now);
	assert_quiet(&l);
}

/* ---- paths that fail ---------------------------------------------------------------------------
 */

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
	assert_native(&l, MV_CTL_REASON_NO_RESOURCES, MV_GID_TYPE_ROCE_V2, false);
	mv_move_message(&f, &msg, START);
	assert_native(&f, MV_CTL_REASON_NO_RESOURCES, MV_GID_TYPE_ROCE_V2, false);
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
	/* It has tried that one. */
	mv_move_message(&f, &offer, START);
	assert_int_equal(take_message(&f, MV_CTL_ANSWER).flags, 0);
	mv_move_message(&l, &msg, START);
	take(&l, MV_DO_RELEASE);
	take_prepare(&l, "10.3.0.1");
	prepared(&l, "10.3.0.1", &leader_qp);
	second = take_message(&l, MV_CTL_OFFER);
	assert_int_equal(second.request_id, 2);
	assert_int_equal(second.gid_type, MV_GID_TYPE_ROCE_V1);
	/* The same once more is not about the new offer. */
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
	/* A late first offer is not taken up again. */
	mv_move_message(&f, &offer, START);
	assert_quiet(&f);
	mv_move_message(&l, &msg, START);
	take(&l, MV_DO_RELEASE);
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_NO_PATH);
	assert_native(&l, MV_CTL_REASON_NO_PATH, MV_GID_TYPE_ROCE_V2, false);
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
	/* The first ANSWER is not one to the second OFFER. */
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
	assert_native(&m, MV_CTL_REASON_NO_PATH, MV_GID_TYPE_ROCE_V2, false);
	/* The leader may know more, */
	begin_follower(&m, &pair);
	take_message(&m, MV_CTL_HELLO);
	/* and one that only asks wants an answer. */
	pair.leader.verdict = MV_PATH_ASK;
	begin_leader(&m, &pair);
	assert_int_equal(take_message(&m, MV_CTL_HELLO).flags, MV_CTL_ASKING);
}

/* ---- giving up ---------------------------------------------------------------------------------
 */

static void test_give_up(void **state)
{
	struct pair pair = make_pair();
	uint64_t work = START + 3000 * MS, end = work + T->give_up_ns;
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	/* Without work it may ask for ever. */
	mv_move_tick(&l, START + 3600 * 1000 * MS);
	take_message(&l, MV_CTL_HELLO);
	begin_both(&l, &f, &pair, &hello);
	mv_move_work_waits(&l, work);
	mv_move_work_waits(&l, work + 5000 * MS);
	mv_move_tick(&l, end - 1);
	take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_deadline(&l) == end);
	mv_move_tick(&l, end);
	assert_native(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);
	/* And it tells who asks later. */
	mv_move_message(&l, &hello, end);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(hello.flags, MV_CTL_NATIVE);
	assert_int_equal(hello.to_attempt, 7);
	mv_move_message(&f, &hello, end);
	assert_native(&f, MV_CTL_REASON_NATIVE, MV_GID_TYPE_ROCE_V2, false);
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
	assert_native(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);
	mv_move_message(&l, &answer, START);
	refuse = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(refuse.reason, MV_CTL_REASON_NATIVE);
	mv_move_message(&f, &refuse, START);
	take(&f, MV_DO_RELEASE);
	assert_native(&f, MV_CTL_REASON_NATIVE, MV_GID_TYPE_ROCE_V2, false);
}

/* After ANSWER the follower cannot go native: the leader may be active. */
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

/* What comes up while the caller is busy waits for the outcome. */
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
	assert_native(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);

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
	assert_native(&f, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, false);
	/* Outcomes that nobody waits for. */
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
	assert_native(&l, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, false);
	mv_move_unreachable(&l, START);
	assert_quiet(&l);
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	answer = follow_to_answer(&f, &offer);
	/* An answer in hand says more than the agent. */
	mv_move_message(&l, &answer, START);
	take(&l, MV_DO_CONNECT);
	mv_move_unreachable(&l, START);
	/* So it does against the word of a peer that has answered. */
	answer.type = MV_CTL_REFUSE;
	mv_move_message(&l, &answer, START);
	mv_move_connected(&l, true, START);
	take_message(&l, MV_CTL_CONFIRM);
	take(&l, MV_DO_ACTIVATE);
}

/* A host that lives, but whose agent is late: a lost message, and the reason if nothing else comes. */
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
	assert_native(&l, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, true);

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
	assert_native(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, true);
}

/* A port is back, and nobody has said a word: there may be no machine behind the peer. The program only receives. */
static void test_path_is_back(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, answer;
	uint64_t now = START + T->ask_min_ns;
	struct mv_move l, f;

	(void)state;
	begin_leader(&l, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_native_at(&l) == now);
	/* The base refuses: it asks on, and not all the time for that. */
	for (uint64_t wait = T->try_ns; wait <= 4 * T->try_max_ns; wait *= 2) {
		mv_move_tried(&l, false, now);
		assert_quiet(&l);
		assert_int_equal(l.state, MV_MOVE_ASKING);
		now += wait < T->try_max_ns ? wait : T->try_max_ns;
		assert_true(mv_move_native_at(&l) == now);
	}
	mv_move_tick(&l, now);
	take_message(&l, MV_CTL_HELLO);
	mv_move_tried(&l, true, now);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_NATIVE);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	assert_true(mv_move_native_at(&l) == UINT64_MAX);
	/* Somebody comes after all. */
	mv_move_rts(&l, LEADER_PSN, now);
	assert_quiet(&l);
	begin_follower(&f, &pair);
	answer = take_message(&f, MV_CTL_HELLO);
	mv_move_message(&l, &answer, now);
	answer = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(answer.flags, MV_CTL_NATIVE);
	mv_move_message(&f, &answer, now);
	assert_native(&f, MV_CTL_REASON_NATIVE, MV_GID_TYPE_ROCE_V2, false);
	/* Once it has been heard of there is no other way than to agree. */
	begin_follower(&f, &pair);
	assert_true(mv_move_native_at(&f) == START + T->ask_min_ns);
	mv_move_message(&f, &hello, START);
	assert_int_equal(f.state, MV_MOVE_ASKING);
	assert_true(mv_move_native_at(&f) == UINT64_MAX);
	begin_both(&l, &f, &pair, &hello);
	mv_move_tried(&l, false, START + T->ask_min_ns);
	lead_to_offer(&l, &hello);
	assert_true(mv_move_native_at(&l) == UINT64_MAX);
	mv_move_tick(&l, START + T->resend_ns);
	take_message(&l, MV_CTL_OFFER);
}

/* It may have worked all the time, and the peer's program sends at once. */
static void test_path_may_work(void **state)
{
	struct pair pair = make_pair();
	struct mv_move l;

	(void)state;
	pair.leader.verdict = MV_PATH_OTHER_SUBNET;
	begin_leader(&l, &pair);
	take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_native_at(&l) == START + T->ask_min_ns);
	mv_move_patience(&l, T->ask_ns);
	assert_true(mv_move_native_at(&l) == START + T->ask_ns / 4 * 3);
	mv_move_patience(&l, UINT64_MAX);
	assert_true(mv_move_native_at(&l) == START + T->ask_ns);
	mv_move_tried(&l, false, START + T->ask_ns);
	assert_true(mv_move_native_at(&l) == START + T->ask_ns + T->try_max_ns);
	/* Asking is not all there is to it: it does not end by itself. */
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
	/* A leader that is gone may have sent before. */
	assert_true(mv_move_bye(&l, &bye));
	mv_move_message(&f, &bye, START);
	assert_true(take(&f, MV_DO_ACTIVATE).timed_out);
}

/* ---- whose messages? ---------------------------------------------------------------------------
 */

static void assert_ignored(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	struct mv_move before = *m;

	mv_move_message(m, msg, START);
	assert_quiet(m);
	/* That the peer knows of us is noted, whatever else it says. */
	if (msg->to_attempt == m->attempt && msg->to_nonce == m->nonce)
		before.peer_knows_us = m->peer_knows_us;
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
	CHANGED(&l, hello, flags, MV_CTL_NATIVE); /* meant for another attempt */
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

/* What is proved by no PSN, or by one where the receiver knows both, changes nothing. */
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
	assert_int_equal(l.peer_shown, MV_PROOF_FROM | MV_PROOF_TO);
	answer = offer;
	answer.from_psn = answer.to_psn = MV_CTL_PSN_NONE;
	assert_ignored(&f, &answer);
	answer = follow_to_answer(&f, &offer);
	/* Who has shown both shows both. */
	CHANGED(&l, answer, from_psn, MV_CTL_PSN_NONE);
	CHANGED(&l, answer, to_psn, MV_CTL_PSN_NONE);
	lead_to_confirm(&l, &answer);
}

/* A program that only receives may stay in RTR: it knows its peer's PSN, and its peer uses that one. */
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
	/* It goes on to RTS before it has heard that. */
	mv_move_rts(&f, FOLLOWER_PSN, START);
	answer = take_message(&f, MV_CTL_ANSWER);
	assert_int_equal(answer.from_psn, FOLLOWER_PSN);
	mv_move_message(&l, &answer, START);
	assert_int_equal(take_message(&l, MV_CTL_CONFIRM).to_psn, FOLLOWER_PSN);
	/* What was on its way counts. */
	assert_int_equal(confirm.to_psn, MV_CTL_PSN_NONE);
	mv_move_message(&f, &confirm, START);
	take(&f, MV_DO_ACTIVATE);
	/* From now on less is not believed. */
	hello.type = MV_CTL_ANSWER;
	hello.to_attempt = offer.attempt;
	hello.to_nonce = offer.nonce;
	hello.request_id = 1;
	hello.flags = MV_CTL_READY;
	assert_ignored(&l, &hello);
}

/* Both in RTR: there is nothing to be said that the other could open, and nothing waits. */
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

/* ---- later lives -------------------------------------------------------------------------------
 */

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
	/* While the leader connects to the earlier life. */
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
	/* Active: silent until the program resets its own. */
	confirm.type = MV_CTL_HELLO;
	confirm.flags = 0;
	confirm.attempt++;
	assert_ignored(&f, &confirm);
}

static void test_native_and_later_life(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	lead_to_offer(&l, &hello);
	mv_move_unreachable(&l, START);
	take(&l, MV_DO_RELEASE);
	assert_native(&l, MV_CTL_REASON_UNREACHABLE, MV_GID_TYPE_ROCE_V2, false);
	hello.attempt = 8;
	assert_ignored(&l, &hello);
	hello.attempt = 7;
	mv_move_message(&l, &hello, START);
	take_message(&l, MV_CTL_HELLO);
}

/* ---- RoCE versions -----------------------------------------------------------------------------
 */

static struct pair asking_pair(void)
{
	struct pair pair = make_pair();

	pair.leader.verdict = pair.follower.verdict = MV_PATH_ASK;
	pair.leader.local_type = pair.follower.local_type = MV_GID_TYPE_ROCE_V1;
	pair.paths[1] = path_of(LEADER_GID, FOLLOWER_GID, MV_GID_TYPE_ROCE_V2, 3);
	return pair;
}

/* What a native peer with an entry of @type makes of an end that asks. */
static void check_asking(uint8_t type, uint8_t expected, enum mv_ctl_reason reason)
{
	struct pair pair = asking_pair();
	struct mv_ctl_msg hello, answer;
	struct mv_move l;

	if (reason == MV_CTL_REASON_NATIVE)
		pair.leader.n_paths = 1; /* without an entry of that version */
	begin_leader(&l, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_true(mv_move_answer_native(&hello.to, &hello.from, type, FOLLOWER_PSN, LEADER_PSN, 3, 4,
					  &hello, &answer));
	mv_move_message(&l, &answer, START);
	assert_native(&l, reason, expected, false);
}

static void test_ask_native_peer(void **state)
{
	(void)state;
	check_asking(MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V2, MV_CTL_REASON_NONE);
	check_asking(MV_GID_TYPE_ROCE_V1, MV_GID_TYPE_ROCE_V1, MV_CTL_REASON_NONE);
	check_asking(MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V1, MV_CTL_REASON_NATIVE);
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
	assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	/* A word counts anew. */
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
	assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
}

/* A peer that does not ask, and sends, is likely to be as patient as this end. */
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
	assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	/* There is a limit to what can be done about it, and to what one waits for. */
	begin_follower(&f, &pair);
	take_message(&f, MV_CTL_HELLO);
	mv_move_patience(&f, 100 * MS);
	mv_move_tick(&f, START + T->ask_min_ns - 1);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_min_ns);
	assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	begin_follower(&f, &pair);
	take_message(&f, MV_CTL_HELLO);
	mv_move_tick(&f, START + T->ask_min_ns);
	assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	for (int i = 0; i < 2; i++) {
		begin_follower(&f, &pair);
		take_message(&f, MV_CTL_HELLO);
		mv_move_patience(&f, i ? UINT64_MAX : 8 * (4096ull << 20)); /* NCCL's */
		mv_move_tick(&f, START + T->ask_ns - 1);
		take_message(&f, MV_CTL_HELLO);
		mv_move_tick(&f, START + T->ask_ns);
		assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, true);
	}
}

/* The leader decides for both, and says so. */
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
	assert_int_equal(hello.flags, MV_CTL_NATIVE);
	assert_int_equal(hello.gid_type, MV_GID_TYPE_ROCE_V1);
	assert_native(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, false);
	mv_move_message(&f, &hello, START);
	assert_native(&f, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V1, false);
}

static void test_ask_meets_apart(void **state)
{
	struct pair pair = asking_pair();
	struct mv_ctl_msg hello, offer;
	struct mv_move l, f;

	(void)state;
	/* The peer's path cannot work: then both move. */
	pair.follower.verdict = MV_PATH_LOCAL_DOWN;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	follow_to_answer(&f, &offer);
	pair.follower.verdict = MV_PATH_ASK;
	pair.leader.verdict = MV_PATH_APART;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
	follow_to_answer(&f, &offer);
	/* Nothing to offer, but the refusal names the version. */
	pair = asking_pair();
	pair.follower.verdict = MV_PATH_APART;
	pair.follower.local_type = MV_GID_TYPE_ROCE_V2;
	begin_both(&l, &f, &pair, &hello);
	hello.type = MV_CTL_REFUSE;
	hello.to_attempt = 5;
	hello.to_nonce = LEADER_NONCE;
	hello.reason = MV_CTL_REASON_OFF;
	mv_move_message(&l, &hello, START);
	assert_native(&l, MV_CTL_REASON_NONE, MV_GID_TYPE_ROCE_V2, false);
}

/* ---- a native end, and the rest ----------------------------------------------------------------
 */

static void test_answer_native(void **state)
{
	struct pair pair = make_pair();
	struct mv_ctl_msg hello, offer, answer;
	struct mv_move l, f;

	(void)state;
	begin_both(&l, &f, &pair, &hello);
	offer = lead_to_offer(&l, &hello);
#define ANSWER(msg)                                                                                \
	mv_move_answer_native(&pair.follower.local, &pair.follower.peer, MV_GID_TYPE_ROCE_V1,      \
			      FOLLOWER_PSN, LEADER_PSN, 33, 34, msg, &answer)
	assert_true(ANSWER(&offer));
	assert_int_equal(answer.type, MV_CTL_REFUSE);
	assert_int_equal(answer.reason, MV_CTL_REASON_NATIVE);
	assert_int_equal(answer.attempt, 33);
	assert_int_equal(answer.to_attempt, 5);
	assert_int_equal(answer.nonce, 34);
	assert_int_equal(answer.to_nonce, LEADER_NONCE);
	mv_move_message(&l, &answer, START);
	take(&l, MV_DO_RELEASE);
	assert_native(&l, MV_CTL_REASON_NATIVE, MV_GID_TYPE_ROCE_V2, false);
	begin_leader(&l, &pair);
	hello = take_message(&l, MV_CTL_HELLO);
	assert_true(ANSWER(&hello));
	assert_int_equal(answer.type, MV_CTL_HELLO);
	assert_int_equal(answer.flags, MV_CTL_NATIVE);
	assert_int_equal(answer.gid_type, MV_GID_TYPE_ROCE_V1);
	assert_int_equal(answer.from_psn, FOLLOWER_PSN);
	hello.flags = MV_CTL_NATIVE; /* says, and does not ask */
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

/* A caller that does not drain loses messages, never anything else. */
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
	assert_int_equal(m.n_paths, MV_MOVE_MAX_PATHS);
	assert_int_equal(m.attempt, 1);
	/* Equal GIDs: the QPN tells who leads. */
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
		cmocka_unit_test(test_give_up),
		cmocka_unit_test(test_give_up_offered),
		cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_undelivered),
		cmocka_unit_test(test_path_is_back),
		cmocka_unit_test(test_path_may_work),
		cmocka_unit_test(test_bye),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_proof),
		cmocka_unit_test(test_one_stays_in_rtr),
		cmocka_unit_test(test_both_in_rtr),
		cmocka_unit_test(test_is_from_peer),
		cmocka_unit_test(test_follower_restarts),
		cmocka_unit_test(test_leader_restarts),
		cmocka_unit_test(test_native_and_later_life),
		cmocka_unit_test(test_ask_native_peer),
		cmocka_unit_test(test_ask_silence),
		cmocka_unit_test(test_ask_patience),
		cmocka_unit_test(test_both_ask),
		cmocka_unit_test(test_ask_meets_apart),
		cmocka_unit_test(test_answer_native),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
