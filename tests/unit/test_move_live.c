/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The move of a live QP, step by step; test_move_live_property.c lets it run. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "moves.h"

#define MS    1000000ull
#define START (100 * MS)
#define T     (&mv_move_default_times)

#define LEADER_PSN   0xfffffe
#define FOLLOWER_PSN 0x222222

static struct mv_path paths[2];
static struct mv_move l, f; /* leader, follower */
static struct mv_ctl_end ends[2];

static void begin(void)
{
	struct mv_move_begin a = {
		.local_type = MV_GID_TYPE_ROCE_V2, .rq_psn = FOLLOWER_PSN, .attempt = 5};
	struct mv_move_begin b = {
		.local_type = MV_GID_TYPE_ROCE_V2, .rq_psn = LEADER_PSN, .attempt = 7};

	ends[0] = (struct mv_ctl_end){.gid = unit_gid("10.1.0.1"), .qpn = 11};
	ends[1] = (struct mv_ctl_end){.gid = unit_gid("10.1.0.2"), .qpn = 22};
	a.local = b.peer = ends[0];
	a.peer = b.local = ends[1];
	for (unsigned int i = 0; i < 2; i++) {
		paths[i] = (struct mv_path){.type = MV_GID_TYPE_ROCE_V2};
		paths[i].local_gid = unit_gid(i ? "10.3.0.1" : "10.2.0.1");
		paths[i].remote_gid = unit_gid(i ? "10.3.0.2" : "10.2.0.2");
	}
	mv_move_adopt(&l, &a, LEADER_PSN, T, START);
	mv_move_adopt(&f, &b, FOLLOWER_PSN, T, START);
	assert_true(l.leader && !f.leader);
}

static void take_prepare(struct mv_move *m, const char *gid)
{
	struct mv_move_action action = take(m, MV_DO_PREPARE);

	assert_gid(action.local_gid, gid);
}

static void hear(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	mv_move_message(m, msg, START);
}

static void assert_stays(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action action = take(m, MV_DO_STAY);

	assert_int_equal(action.reason, reason);
	assert_int_equal(action.timed_out, timed_out);
	assert_false(m->live);
	assert_true(mv_move_deadline(m) == UINT64_MAX);
	assert_quiet(m);
}

static void assert_surfaces(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action action = take(m, MV_DO_SURFACE);

	assert_int_equal(action.reason, reason);
	assert_int_equal(action.timed_out, timed_out);
	assert_int_equal(m->state, MV_MOVE_FAILED);
	assert_true(mv_move_deadline(m) == UINT64_MAX);
	assert_quiet(m);
}

static void prepared(struct mv_move *m, const char *gid, uint32_t qpn)
{
	struct mv_ctl_end mine = {.gid = unit_gid(gid), .qpn = qpn};

	mv_move_prepared(m, &mine, 3, 4096, false, START);
}

static int start_leader(void)
{
	return mv_move_start(&l, MV_CTL_REASON_PORT, paths, 2, START);
}

/* Both have heard of each other: by a move that was called off. */
static void introduce(void)
{
	struct mv_ctl_msg msg;

	begin();
	assert_int_equal(start_leader(), 0);
	msg = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 0);
	assert_int_equal(msg.flags, MV_CTL_MOVE);
	hear(&f, &msg);
	msg = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 5);
	assert_int_equal(msg.reason, MV_CTL_REASON_NONE);
	hear(&l, &msg);
	take(&l, MV_DO_PREPARE);
	mv_move_cancel(&l, START);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_quiet(&l); /* PREPARE is out */
	prepared(&l, "10.2.0.1", 1);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_HEALED, false);
	hear(&f, &msg);
	assert_quiet(&f);
	assert_int_equal(l.state, MV_MOVE_NATIVE);
	assert_int_equal(f.state, MV_MOVE_NATIVE);
}

/* Return: OFFER. */
static struct mv_ctl_msg to_offer(void)
{
	assert_int_equal(start_leader(), 0);
	take_prepare(&l, "10.2.0.1");
	prepared(&l, "10.2.0.1", 0x1001);
	return take_message(&l, MV_CTL_OFFER);
}

static void quiesced(struct mv_move *m)
{
	take(m, MV_DO_QUIESCE);
	assert_quiet(m);
	mv_move_quiesced(m, START);
}

/* The follower is connected. */
static void to_quiesce(void)
{
	struct mv_ctl_msg msg = to_offer();
	struct mv_move_action action;

	assert_int_equal(msg.flags, MV_CTL_MOVE);
	assert_int_equal(msg.reason, MV_CTL_REASON_PORT);
	assert_int_equal(msg.base, l.now.offer);
	hear(&f, &msg);
	assert_true(f.live);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", 0x2002);
	action = take(&f, MV_DO_CONNECT);
	assert_int_equal(action.peer.qpn, 0x1001);
	assert_int_equal(action.rq_psn, msg.path_psn);
	mv_move_connected(&f, true, START);
}

/* Return: ANSWER. */
static struct mv_ctl_msg to_answer(void)
{
	to_quiesce();
	quiesced(&f);
	return take_message(&f, MV_CTL_ANSWER);
}

/* Return: CONFIRM; the leader is fencing. */
static struct mv_ctl_msg to_confirm(void)
{
	struct mv_ctl_msg msg = to_answer();
	struct mv_move_action action;

	assert_int_equal(msg.flags, MV_CTL_MOVE | MV_CTL_READY);
	hear(&l, &msg);
	action = take(&l, MV_DO_CONNECT);
	assert_int_equal(action.rq_psn, msg.path_psn);
	assert_int_not_equal(action.sq_psn, LEADER_PSN);
	mv_move_connected(&l, true, START);
	quiesced(&l);
	msg = take_message(&l, MV_CTL_CONFIRM);
	take(&l, MV_DO_FENCE);
	assert_quiet(&l);
	return msg;
}

static const struct mv_move_sync l_sync = {0x123456, 17}, f_sync = {0x654321, 4};

static void check_replay(struct mv_move *m, const struct mv_move_sync *peer)
{
	struct mv_move_action action = take(m, MV_DO_ACTIVATE);

	assert_true(action.replay && !action.timed_out);
	assert_int_equal(action.next_psn, peer->next_psn);
	assert_int_equal(action.n_received, peer->n_received);
	assert_int_equal(m->state, MV_MOVE_ACTIVE);
	assert_false(m->live);
	assert_quiet(m);
}

/* ---- the way it should go ----------------------------------------------------------------------
 */

static void move_once(void)
{
	struct mv_ctl_msg confirm = to_confirm(), sync;

	hear(&f, &confirm);
	take(&f, MV_DO_FENCE);
	assert_quiet(&f);
	mv_move_fenced(&l, &l_sync, START);
	sync = take_message(&l, MV_CTL_SYNC);
	assert_int_equal(sync.next_psn, l_sync.next_psn);
	assert_int_equal(sync.n_received, l_sync.n_received);
	assert_quiet(&l); /* not before the peer has fenced */
	hear(&f, &sync);
	assert_quiet(&f); /* not before we have */
	mv_move_fenced(&f, &f_sync, START);
	sync = take_message(&f, MV_CTL_SYNC);
	assert_int_equal(sync.flags, MV_CTL_READY);
	check_replay(&f, &l_sync);
	hear(&l, &sync);
	check_replay(&l, &f_sync);
	assert_int_equal(l.now.mine.qpn, 0x1001);
	assert_int_equal(l.now.peer.qpn, 0x2002);
	assert_int_equal(l.now.offer, f.now.offer);
}

static void test_move(void **state)
{
	uint32_t psn;

	(void)state;
	introduce();
	move_once();
	psn = l.now.my_psn;
	move_once();
	assert_int_not_equal(psn, l.now.my_psn);
}

/* Each end tells of the QP that it has made for the next move; the move then is about just these. */
static void test_ahead(void **state)
{
	struct mv_ctl_end of_l = {.gid = unit_gid("10.1.0.1"), .qpn = 0x77}, of_f = {.gid = unit_gid("10.1.0.2"), .qpn = 0x88};
	struct mv_move_action action;
	struct mv_ctl_msg msg, early;

	(void)state;
	begin();
	mv_move_ahead(&l, &of_l, &of_f.gid, MV_GID_TYPE_ROCE_V2, 3, 2048, false);
	msg = early = take_message(&l, MV_CTL_AHEAD);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	hear(&f, &msg);
	action = take(&f, MV_DO_STANDBY);
	assert_true(mv_gid_equal(&action.local_gid, &of_f.gid) && mv_gid_equal(&action.peer.gid, &of_l.gid));
	assert_int_equal(action.peer.qpn, 0x77);
	assert_int_equal(action.peer_lid, 3);
	assert_int_equal(action.mtu_bytes, 2048);
	assert_true(action.answer);
	assert_quiet(&f);

	mv_move_ahead(&f, &of_f, &of_l.gid, MV_GID_TYPE_ROCE_V2, 4, 4096, true);
	msg = take_message(&f, MV_CTL_AHEAD);
	assert_int_equal(msg.to_attempt, l.attempt); /* the leader need not ask for it any more */
	assert_int_equal(msg.path_psn, action.sq_psn);
	hear(&l, &msg);
	action = take(&l, MV_DO_STANDBY);
	assert_false(action.answer);
	assert_int_equal(action.peer.qpn, 0x88);
	assert_int_equal(action.rq_psn, msg.path_psn);
	assert_quiet(&l);

	/* The next offer has the PSNs that were told. */
	move_once();
	assert_int_equal(l.now.my_psn, action.sq_psn);
	assert_int_equal(l.now.peer_psn, action.rq_psn);

	/* Of the path that was left. */
	hear(&f, &early);
	assert_quiet(&f);
	/* In the middle of a move there is nothing to say, and nothing to hear. */
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_DRAIN, NULL, 0, START), 0);
	take_message(&f, MV_CTL_HELLO);
	mv_move_ahead(&f, &of_f, &of_l.gid, MV_GID_TYPE_ROCE_V2, 4, 4096, false);
	assert_quiet(&f);
	mv_move_ahead(&l, &of_l, &of_f.gid, MV_GID_TYPE_ROCE_V2, 3, 2048, false);
	msg = take_message(&l, MV_CTL_AHEAD);
	hear(&f, &msg);
	assert_quiet(&f);
}

/* The follower wants to; the leader's caller is asked. */
static void test_wanted(void **state)
{
	struct mv_ctl_msg hello, msg;

	(void)state;
	begin();
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_DRAIN, NULL, 0, START), 0);
	hello = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(hello.reason, MV_CTL_REASON_DRAIN);
	hear(&l, &hello);
	assert_int_equal(take(&l, MV_DO_WANTED).reason, MV_CTL_REASON_DRAIN);
	assert_quiet(&l);
	mv_move_refuse(&l, MV_CTL_REASON_OFF, START);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_OFF);
	hear(&f, &msg);
	assert_stays(&f, MV_CTL_REASON_OFF, false);
	/* Late ones do not count for the next wish. */
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
	take_message(&f, MV_CTL_HELLO);
	hear(&f, &msg);
	assert_quiet(&f);
	hear(&l, &hello);
	take(&l, MV_DO_WANTED);
	to_answer();
}

/* Both hear of a port at once: the follower's wish crosses the offer. One that comes later says that the offer was lost. */
static void test_wish_crosses_offer(void **state)
{
	struct mv_ctl_msg wish;

	(void)state;
	introduce();
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PATH, paths, 2, START), 0);
	wish = take_message(&f, MV_CTL_HELLO);
	to_offer();
	hear(&l, &wish);
	assert_quiet(&l);
	assert_true(l.peer_wish);
	assert_int_equal(l.reason, MV_CTL_REASON_PATH);
	mv_move_message(&l, &wish, START + T->live_resend_ns / 2);
	take_message(&l, MV_CTL_OFFER);
	assert_quiet(&l);
}

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
		take_prepare(&l, "10.3.0.1");
		prepared(&l, "10.3.0.1", 0x1001);
		msg = take_message(&l, MV_CTL_OFFER);
	}
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_NO_PATH);
	assert_stays(&l, MV_CTL_REASON_NO_PATH, false);
}

/* ---- called off --------------------------------------------------------------------------------
 */

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
	assert_int_equal(l.state, MV_MOVE_FENCING);
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
		if (!l.live)
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
	mv_move_quiesced(&f, late);
	take_message(&f, MV_CTL_ANSWER);
	mv_move_tick(&f, late + T->move_ns / 16 * 7);
	assert_true(f.live);
	mv_move_tick(&f, late + T->move_ns / 2);
	assert_false(f.live);
}

/* The leader says that it goes only when the follower has time left to hear of it. */
static void test_confirms_in_time(void **state)
{
	struct mv_ctl_msg answer, msg;

	(void)state;
	introduce();
	to_quiesce();
	quiesced(&f);
	answer = take_message(&f, MV_CTL_ANSWER);
	hear(&l, &answer);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, true, START);
	take(&l, MV_DO_QUIESCE);
	mv_move_quiesced(&l, START + T->move_ns / 16 * 7);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_BUSY);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_BUSY, false);
}

/* What cannot be moved any more is found before anything is fenced. */
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

/* Nobody is told of a path, and nothing is fenced, before atomics have finished; that is asked for again and again. */
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
	mv_move_quiesced(&f, START);
	answer = take_message(&f, MV_CTL_ANSWER);
	hear(&l, &answer);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, true, START);
	take(&l, MV_DO_QUIESCE);
	assert_quiet(&l);
	hear(&l, &answer); /* again */
	assert_quiet(&l);
	/* They do not finish. */
	do {
		assert_int_equal(l.state, MV_MOVE_QUIESCING);
		now = mv_move_deadline(&l);
		mv_move_tick(&l, now);
	} while (l.live && take(&l, MV_DO_QUIESCE).type);
	assert_true(now == START + T->move_ns / 16 * 7);
	msg = take_message(&l, MV_CTL_REFUSE);
	assert_int_equal(msg.reason, MV_CTL_REASON_BUSY);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_BUSY, false);
	mv_move_quiesced(&l, now); /* too late */
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
	take_prepare(&l, "10.2.0.1");
	prepared(&l, "10.2.0.1", 0x1001);
	msg = take_message(&l, MV_CTL_OFFER);
	hear(&f, &msg);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", 0x2002);
	take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, true, START);
	take(&f, MV_DO_QUIESCE);
	assert_int_equal(f.reason, MV_CTL_REASON_DRAIN);
	hear(&f, &msg); /* again */
	assert_quiet(&f);
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, &paths[1], 1, START), 0);
	take(&l, MV_DO_RELEASE);
	take_prepare(&l, "10.3.0.1");
	prepared(&l, "10.3.0.1", 0x1003);
	msg = take_message(&l, MV_CTL_OFFER);
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	take_prepare(&f, "10.3.0.2");
	assert_int_equal(f.reason, MV_CTL_REASON_PORT);
}

/* ---- after FENCE -------------------------------------------------------------------------------
 */

static void test_lost_messages(void **state)
{
	struct mv_ctl_msg confirm, sync, again;

	(void)state;
	introduce();
	confirm = to_confirm();
	/* The leader's SYNC says what CONFIRM does. */
	mv_move_fenced(&l, &l_sync, START);
	sync = take_message(&l, MV_CTL_SYNC);
	hear(&f, &sync);
	take(&f, MV_DO_FENCE);
	hear(&f, &confirm);
	hear(&f, &sync);
	assert_quiet(&f);
	mv_move_fenced(&f, &f_sync, START);
	take_message(&f, MV_CTL_SYNC);
	check_replay(&f, &l_sync);
	/* The follower's is lost: the leader repeats its own and gets the other once more. */
	mv_move_tick(&l, mv_move_deadline(&l));
	again = take_message(&l, MV_CTL_SYNC);
	assert_memory_equal(&again, &sync, sizeof(sync));
	hear(&f, &again);
	sync = take_message(&f, MV_CTL_SYNC);
	assert_int_equal(sync.flags, MV_CTL_READY);
	assert_quiet(&f);
	hear(&l, &sync);
	check_replay(&l, &f_sync);
	hear(&l, &sync);
	assert_quiet(&l);
}

static void test_fence_fails(void **state)
{
	struct mv_ctl_msg confirm, msg;

	(void)state;
	introduce();
	confirm = to_confirm();
	hear(&f, &confirm);
	take(&f, MV_DO_FENCE);
	mv_move_fenced(&f, NULL, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	assert_surfaces(&f, MV_CTL_REASON_UNREADABLE, false);
	hear(&l, &msg);
	assert_quiet(&l); /* FENCE is out */
	mv_move_fenced(&l, &l_sync, START);
	assert_surfaces(&l, MV_CTL_REASON_UNREADABLE, false);
	assert_int_equal(start_leader(), -EINVAL);
	/* Whatever is said to it: it is gone. */
	hear(&f, &confirm);
	assert_int_equal(take_message(&f, MV_CTL_REFUSE).reason, MV_CTL_REASON_GONE);
}

static void test_peer_is_gone(void **state)
{
	struct mv_ctl_msg confirm, bye;

	(void)state;
	introduce();
	confirm = to_confirm();
	mv_move_fenced(&l, &l_sync, START);
	take_message(&l, MV_CTL_SYNC);
	assert_int_equal(start_leader(), -EBUSY);
	mv_move_tick(&l, START + T->move_ns / 2);
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_TIMEOUT);
	assert_surfaces(&l, MV_CTL_REASON_TIMEOUT, true);
	(void)confirm;
	/* It says so. */
	introduce();
	to_confirm();
	mv_move_fenced(&l, &l_sync, START);
	take_message(&l, MV_CTL_SYNC);
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &bye);
	assert_surfaces(&l, MV_CTL_REASON_GONE, false);
	/* Before FENCE nothing has happened. */
	introduce();
	to_offer();
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &bye);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_GONE, false);
}

/* It says what it executed, and then that it goes, before we have fenced. */
static void test_peer_leaves_with_a_word(void **state)
{
	struct mv_ctl_msg confirm, sync, last;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		introduce();
		confirm = to_confirm();
		hear(&f, &confirm);
		take(&f, MV_DO_FENCE);
		mv_move_fenced(&f, &f_sync, START);
		sync = take_message(&f, MV_CTL_SYNC);
		if (i) {
			mv_move_abort(&f, START);
			last = take_message(&f, MV_CTL_REFUSE);
		} else {
			assert_true(mv_move_bye(&f, &last));
		}
		hear(&l, &sync);
		hear(&l, &last);
		assert_quiet(&l);
		mv_move_fenced(&l, &l_sync, START);
		assert_int_equal(take_message(&l, MV_CTL_SYNC).flags, MV_CTL_READY);
		check_replay(&l, &f_sync);
	}
}

/* Who leaves says what it executed wherever the peer may have fenced, and nowhere else. */
static void test_last_word(void **state)
{
	struct mv_ctl_msg confirm, word, bye;

	(void)state;
	introduce();
	assert_false(mv_move_owes_sync(&f));
	to_quiesce();
	assert_false(mv_move_owes_sync(&l));
	assert_false(mv_move_owes_sync(&f));
	quiesced(&f);
	assert_true(mv_move_owes_sync(&f)); /* CONFIRM may be on its way */
	assert_false(mv_move_owes_sync(&l));
	introduce();
	confirm = to_confirm();
	assert_true(mv_move_owes_sync(&l));
	mv_move_fenced(&l, &l_sync, START);
	take_message(&l, MV_CTL_SYNC);
	assert_true(mv_move_owes_sync(&l));
	/* The follower has not had it, and leaves. */
	assert_int_equal(f.state, MV_MOVE_ANSWERED);
	mv_move_last_sync(&f, &f_sync, &word);
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &word);
	check_replay(&l, &f_sync);
	hear(&l, &bye);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_ACTIVE);
	assert_false(mv_move_owes_sync(&l));
	(void)confirm;
	/* The leader had not confirmed: nothing was fenced there. */
	introduce();
	confirm = to_answer();
	mv_move_last_sync(&f, &f_sync, &word);
	hear(&l, &word);
	assert_quiet(&l);
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &bye);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_GONE, false);
}

/* Without that it is as if it had died. */
static void test_peer_leaves_without_a_word(void **state)
{
	struct mv_ctl_msg bye;

	(void)state;
	introduce();
	to_confirm();
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &bye);
	assert_quiet(&l);
	mv_move_fenced(&l, &l_sync, START);
	assert_surfaces(&l, MV_CTL_REASON_GONE, false);
}

static void test_abort(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	introduce();
	to_answer();
	mv_move_abort(&f, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	take(&f, MV_DO_RELEASE);
	take(&f, MV_DO_STAY);
	assert_int_equal(f.state, MV_MOVE_FAILED);
	hear(&l, &msg);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_GONE, false);
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), -EINVAL);
	/* One that nothing was going on with. */
	mv_move_abort(&l, START);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_FAILED);
}

/* ---- whose messages? ---------------------------------------------------------------------------
 */

static void test_not_ours(void **state)
{
	struct mv_ctl_msg offer, msg;

	(void)state;
	introduce();
	offer = to_offer();
	msg = offer;
	msg.from_psn = 1;
	hear(&f, &msg);
	msg = offer;
	msg.from_psn = msg.to_psn = MV_CTL_PSN_NONE; /* nothing proves it */
	hear(&f, &msg);
	msg = offer;
	msg.to_attempt = 8;
	hear(&f, &msg);
	msg = offer;
	msg.base = 77; /* of a path that we are not on */
	hear(&f, &msg);
	msg = offer;
	msg.request_id = 0;
	hear(&f, &msg);
	msg = offer;
	msg.attempt = 4; /* an earlier life */
	hear(&f, &msg);
	assert_quiet(&f);
	assert_false(f.live);
	hear(&f, &offer);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", 0x2002);
	take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, true, START);
	quiesced(&f);
	take_message(&f, MV_CTL_ANSWER);
	/* The peer's program has connected anew: what ours is connected to is gone. */
	msg = offer;
	msg.attempt = 6;
	hear(&f, &msg);
	take(&f, MV_DO_RELEASE);
	assert_stays(&f, MV_CTL_REASON_GONE, false);
}

/* What the peer said in the life @attempt, before it heard of any of ours. */
static void hear_old(struct mv_move *m, const struct mv_move *of, enum mv_ctl_type type, uint32_t attempt)
{
	struct mv_ctl_msg msg;

	mv_move_header(of, type, &msg);
	msg.flags = MV_CTL_MOVE;
	msg.attempt = attempt;
	msg.to_attempt = 0;
	msg.base = 0;
	msg.gid_type = MV_GID_TYPE_ROCE_V2;
	if (type == MV_CTL_AHEAD) {
		msg.request_id = 1;
		msg.path = (struct mv_ctl_end){.gid = of->local.gid, .qpn = 0x99};
		msg.path_peer_gid = of->peer.gid;
	}
	hear(m, &msg);
}

static void ignore_actions(struct mv_move *m)
{
	struct mv_move_action action;

	while (mv_move_next(m, &action))
		;
}

static void hear_earlier_life(struct mv_move *m, const struct mv_move *peer, enum mv_ctl_type type)
{
	hear_old(m, peer, MV_CTL_AHEAD, peer->attempt - 1);
	take(m, MV_DO_STANDBY);
	assert_int_equal(m->peer_attempt, peer->attempt - 1);
	hear_old(m, peer, type, peer->attempt);
	assert_int_equal(m->peer_attempt, peer->attempt);
	ignore_actions(m);
	/* Late ones do not bring it back. */
	hear_old(m, peer, MV_CTL_AHEAD, peer->attempt - 1);
	assert_quiet(m);
	assert_int_equal(m->peer_attempt, peer->attempt);
}

/*
 * Both programs use the same QPs with the same PSNs for the next connection: the peer's earlier life
 * looks like the one that we are connected to.
 */
static void test_earlier_life(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		enum mv_ctl_type type = i ? MV_CTL_AHEAD : MV_CTL_HELLO;

		begin();
		hear_earlier_life(&l, &f, type);
		move_once();
		begin();
		hear_earlier_life(&f, &l, type);
		hear_old(&l, &f, MV_CTL_HELLO, f.attempt);
		move_once();
	}
}

/* Once the peer has named our attempt, a later one of its own is another connection. */
static void test_later_life(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		enum mv_ctl_type type = i ? MV_CTL_AHEAD : MV_CTL_HELLO;

		begin();
		hear_earlier_life(&l, &f, type);
		move_once();
		to_offer();
		hear_old(&l, &f, type, f.attempt + 1);
		take(&l, MV_DO_RELEASE);
		assert_stays(&l, MV_CTL_REASON_GONE, false);
		assert_int_equal(l.peer_attempt, f.attempt);
		assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
		take_message(&f, MV_CTL_HELLO);
		hear_old(&f, &l, type, l.attempt + 1);
		assert_stays(&f, MV_CTL_REASON_GONE, false);
		assert_int_equal(f.peer_attempt, l.attempt);
	}
}

/* The peer, in a later life, has nothing to say before it is asked. */
static void test_offer_to_earlier_life(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	begin();
	hear_old(&l, &f, MV_CTL_AHEAD, 6);
	take(&l, MV_DO_STANDBY);
	msg = to_offer();
	assert_int_equal(msg.to_attempt, 6);
	hear(&f, &msg);
	assert_quiet(&f);
	mv_move_tick(&l, START + T->live_resend_ns);
	take_message(&l, MV_CTL_OFFER);
	msg = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 0);
	assert_quiet(&l);
	hear(&f, &msg);
	msg = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 5);
	hear(&l, &msg);
	assert_true(l.live);
	mv_move_tick(&l, mv_move_deadline(&l));
	msg = take_message(&l, MV_CTL_OFFER);
	assert_quiet(&l); /* it is known now */
	hear(&f, &msg);
	take(&f, MV_DO_PREPARE);
}

static void test_wish_to_earlier_life(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	begin();
	hear_old(&f, &l, MV_CTL_AHEAD, 4);
	take(&f, MV_DO_STANDBY);
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_DRAIN, NULL, 0, START), 0);
	msg = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 0);
	hear(&l, &msg);
	take(&l, MV_DO_WANTED);
	msg = to_offer();
	hear(&f, &msg);
	assert_true(f.peer_knows_us);
	take(&f, MV_DO_PREPARE);
}

/* It came while ours was being connected, which came to nothing. */
static void test_earlier_life_connects(void **state)
{
	struct mv_move_begin begin_again = {.verdict = MV_PATH_APART,
					    .local_type = MV_GID_TYPE_ROCE_V2,
					    .paths = paths,
					    .n_paths = 2,
					    .rq_psn = LEADER_PSN,
					    .attempt = 7};
	struct mv_ctl_msg hello;

	(void)state;
	begin();
	begin_again.local = ends[1];
	begin_again.peer = ends[0];
	mv_move_begin(&f, &begin_again, T, START);
	mv_move_rts(&f, FOLLOWER_PSN, START);
	mv_move_header(&l, MV_CTL_HELLO, &hello);
	hello.attempt = 4;
	hear(&f, &hello);
	assert_int_equal(f.peer_attempt, 4);
	ignore_actions(&f);
	mv_move_work_waits(&f, START);
	mv_move_tick(&f, START + 60 * 1000 * MS);
	assert_int_equal(f.state, MV_MOVE_NATIVE);
	ignore_actions(&f);
	hear_old(&f, &l, MV_CTL_AHEAD, l.attempt);
	take(&f, MV_DO_STANDBY);
	hear_old(&l, &f, MV_CTL_HELLO, f.attempt);
	move_once();
}

/* Nobody is shut out by what anybody may have said while the QP was connected. */
static void test_stranger(void **state)
{
	(void)state;
	begin();
	f.peer_attempt = 1000; /* of a HELLO that no PSN proved */
	hear_old(&f, &l, MV_CTL_AHEAD, l.attempt);
	take(&f, MV_DO_STANDBY);
	assert_int_equal(f.peer_attempt, l.attempt);
	assert_true(f.peer_proved);
	hear_old(&l, &f, MV_CTL_HELLO, f.attempt);
	move_once();
}

/* A peer that is still connecting finds an end at work. */
static void test_connect_meets_live(void **state)
{
	struct mv_move_begin begin_again = {.verdict = MV_PATH_APART,
					    .local_type = MV_GID_TYPE_ROCE_V2,
					    .paths = paths,
					    .n_paths = 2,
					    .rq_psn = LEADER_PSN,
					    .attempt = 7};
	struct mv_ctl_msg hello, msg;

	(void)state;
	begin();
	begin_again.local = ends[1];
	begin_again.peer = ends[0];
	mv_move_begin(&f, &begin_again, T, START);
	hello = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(start_leader(), 0);
	msg = take_message(&l, MV_CTL_HELLO);
	hear(&l, &hello);
	assert_int_equal(take_message(&l, MV_CTL_HELLO).flags, MV_CTL_NATIVE);
	hear(&f, &msg);
	take(&f, MV_DO_NATIVE);
	assert_quiet(&f);
	hear(&f, &msg);
	msg = take_message(&f, MV_CTL_HELLO);
	hear(&l, &msg);
	take(&l, MV_DO_PREPARE);
}

/* The leader is at work on the path, its CONFIRM was lost, and it has to leave the path already. */
static void test_confirm_lost(void **state)
{
	struct mv_move_begin a = {.verdict = MV_PATH_APART,
				  .local_type = MV_GID_TYPE_ROCE_V2,
				  .paths = paths,
				  .n_paths = 2};
	struct mv_move_begin b;
	struct mv_ctl_msg msg;

	(void)state;
	begin();
	b = a;
	a.local = b.peer = ends[0];
	a.peer = b.local = ends[1];
	a.rq_psn = FOLLOWER_PSN;
	b.rq_psn = LEADER_PSN;
	mv_move_begin(&l, &a, T, START);
	mv_move_begin(&f, &b, T, START);
	mv_move_rts(&l, LEADER_PSN, START);
	mv_move_rts(&f, FOLLOWER_PSN, START);
	take_message(&f, MV_CTL_HELLO);
	msg = take_message(&f, MV_CTL_HELLO);
	take_message(&l, MV_CTL_HELLO);
	take_message(&l, MV_CTL_HELLO);
	hear(&l, &msg);
	take(&l, MV_DO_PREPARE);
	prepared(&l, "10.2.0.1", 0x1001);
	msg = take_message(&l, MV_CTL_OFFER);
	assert_int_equal(msg.flags, 0);
	hear(&f, &msg);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", 0x2002);
	assert_int_equal(take(&f, MV_DO_CONNECT).sq_psn, MV_CTL_PSN_NONE);
	mv_move_connected(&f, true, START);
	msg = take_message(&f, MV_CTL_ANSWER);
	hear(&l, &msg);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, true, START);
	take_message(&l, MV_CTL_CONFIRM);
	assert_false(take(&l, MV_DO_ACTIVATE).replay);
	msg = to_offer();
	assert_int_equal(msg.base, 1);
	hear(&f, &msg);
	assert_false(take(&f, MV_DO_ACTIVATE).replay);
	take(&f, MV_DO_PREPARE);
	assert_true(f.live);
	assert_true(l.peer_knows_us && f.peer_knows_us); /* by the connect */
}

/* One that is connected to itself, in the leader's place. */
static void begin_self(void)
{
	struct mv_move_begin a = {.local_type = MV_GID_TYPE_ROCE_V2, .rq_psn = LEADER_PSN, .attempt = 5};

	begin();
	a.local = a.peer = ends[0];
	for (unsigned int i = 0; i < 2; i++)
		paths[i].remote_gid = paths[i].local_gid;
	mv_move_adopt(&l, &a, LEADER_PSN, T, START);
	assert_true(l.self && l.leader);
}

static void test_self(void **state)
{
	const struct mv_move_sync sync = {.next_psn = 0x77, .n_received = 3};
	struct mv_move_action action;

	(void)state;
	begin_self();
	assert_int_equal(start_leader(), 0);
	take_prepare(&l, "10.2.0.1");
	assert_quiet(&l);
	prepared(&l, "10.2.0.1", 0x1001);
	action = take(&l, MV_DO_CONNECT);
	assert_gid(action.local_gid, "10.2.0.1");
	assert_gid(action.peer.gid, "10.2.0.1");
	assert_int_equal(action.peer.qpn, 0x1001);
	assert_int_equal(action.peer_lid, 3);
	assert_int_equal(action.mtu_bytes, 4096);
	assert_int_not_equal(action.sq_psn, MV_CTL_PSN_NONE);
	assert_int_equal(action.sq_psn, action.rq_psn);
	mv_move_connected(&l, true, START);
	quiesced(&l);
	take(&l, MV_DO_FENCE);
	assert_quiet(&l);
	mv_move_fenced(&l, &sync, START);
	action = take(&l, MV_DO_ACTIVATE);
	assert_true(action.replay);
	assert_int_equal(action.next_psn, 0x77);
	assert_int_equal(action.n_received, 3);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_ACTIVE);
	assert_false(l.live);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	assert_int_equal(start_leader(), 0); /* and on */
	take_prepare(&l, "10.2.0.1");
}

/* Whatever comes to nothing before the fence leaves it where it is, and whatever comes of others does nothing. */
static void test_self_stays(void **state)
{
	struct mv_ctl_msg msg, bye;

	(void)state;
	begin_self();
	assert_int_equal(mv_move_start(&l, MV_CTL_REASON_PORT, paths, 0, START), 0);
	assert_stays(&l, MV_CTL_REASON_NO_PATH, false);
	assert_int_equal(start_leader(), 0);
	take_prepare(&l, "10.2.0.1");
	mv_move_prepared(&l, NULL, 0, 0, false, START);
	take_prepare(&l, "10.3.0.1");
	prepared(&l, "10.3.0.1", 0x1002);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, false, START);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_NO_RESOURCES, false);

	assert_int_equal(start_leader(), 0);
	take(&l, MV_DO_PREPARE);
	prepared(&l, "10.2.0.1", 0x1003);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, true, START);
	take(&l, MV_DO_QUIESCE);
	mv_move_header(&l, MV_CTL_REFUSE, &msg);
	msg.flags = MV_CTL_MOVE;
	msg.to_attempt = l.attempt;
	msg.request_id = l.last_offer;
	msg.reason = MV_CTL_REASON_GONE;
	hear(&l, &msg);
	assert_quiet(&l);
	assert_false(mv_move_bye(&l, &bye));
	mv_move_tick(&l, START + T->move_ns / 2);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_BUSY, false);

	assert_int_equal(start_leader(), 0);
	take(&l, MV_DO_PREPARE);
	prepared(&l, "10.2.0.1", 0x1004);
	take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, true, START);
	quiesced(&l);
	take(&l, MV_DO_FENCE);
	mv_move_fenced(&l, NULL, START);
	assert_surfaces(&l, MV_CTL_REASON_UNREADABLE, false);
}

/* The one that was made ahead is connected to itself as it will be asked for. */
static void test_self_ahead(void **state)
{
	struct mv_ctl_end mine;
	struct mv_move_action ahead, action;

	(void)state;
	begin_self();
	mine = (struct mv_ctl_end){.gid = unit_gid("10.2.0.1"), .qpn = 0x1001};
	mv_move_ahead(&l, &mine, &mine.gid, MV_GID_TYPE_ROCE_V2, 3, 4096, false);
	ahead = take(&l, MV_DO_STANDBY);
	assert_false(ahead.answer);
	assert_gid(ahead.local_gid, "10.2.0.1");
	assert_int_equal(start_leader(), 0);
	take(&l, MV_DO_PREPARE);
	mv_move_ahead(&l, &mine, &mine.gid, MV_GID_TYPE_ROCE_V2, 3, 4096, false); /* too late */
	assert_quiet(&l);
	prepared(&l, "10.2.0.1", 0x1001);
	action = take(&l, MV_DO_CONNECT);
	assert_int_equal(action.sq_psn, ahead.sq_psn);
	assert_int_equal(action.rq_psn, ahead.rq_psn);
	assert_int_equal(action.peer_lid, ahead.peer_lid);
	assert_int_equal(action.mtu_bytes, ahead.mtu_bytes);
	assert_int_equal(action.gid_type, ahead.gid_type);
	assert_int_equal(action.peer.qpn, ahead.peer.qpn);
	assert_gid(ahead.peer.gid, "10.2.0.1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_wanted),
		cmocka_unit_test(test_wish_crosses_offer), cmocka_unit_test(test_no_paths),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_refused_by_kind),
		cmocka_unit_test(test_start_again),
		cmocka_unit_test(test_out_of_time),
		cmocka_unit_test(test_quiesce),
		cmocka_unit_test(test_asked_for_long),
		cmocka_unit_test(test_confirms_in_time),
		cmocka_unit_test(test_refuses_to_quiesce),
		cmocka_unit_test(test_quiesce_is_left),
		cmocka_unit_test(test_lost_messages),
		cmocka_unit_test(test_fence_fails),
		cmocka_unit_test(test_peer_is_gone),
		cmocka_unit_test(test_peer_leaves_with_a_word),
		cmocka_unit_test(test_last_word),
		cmocka_unit_test(test_peer_leaves_without_a_word),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_not_ours),
		cmocka_unit_test(test_earlier_life),
		cmocka_unit_test(test_later_life),
		cmocka_unit_test(test_offer_to_earlier_life),
		cmocka_unit_test(test_wish_to_earlier_life),
		cmocka_unit_test(test_earlier_life_connects),
		cmocka_unit_test(test_stranger),
		cmocka_unit_test(test_connect_meets_live),
		cmocka_unit_test(test_confirm_lost),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_self_stays),
		cmocka_unit_test(test_self_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
