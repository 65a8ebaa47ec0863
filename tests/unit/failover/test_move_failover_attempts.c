/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move of a live QP, and who says what: of which attempt at a connection, the peer's or ours, a message is. One of
 * an earlier life, of a stranger, or of who is still connecting does not move what is at work, nor keep it from being
 * moved.
 */
#include "failover_move.h"
#include "proof.h"

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
	msg.to_nonce = 8; /* who has not received what we say */
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
	assert_false(f.failover);
	follower_connects(&offer);
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
	msg.nonce += attempt - msg.attempt;
	msg.attempt = attempt;
	msg.to_attempt = 0;
	msg.to_nonce = 0;
	msg.base = 0;
	msg.gid_type = MV_GID_TYPE_ROCE_V2;
	if (type == MV_CTL_STANDBY) {
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
	hear_old(m, peer, MV_CTL_STANDBY, peer->attempts.mine - 1);
	take(m, MV_DO_STANDBY);
	assert_int_equal(m->attempts.peer, peer->attempts.mine - 1);
	hear_old(m, peer, type, peer->attempts.mine);
	assert_int_equal(m->attempts.peer, peer->attempts.mine);
	ignore_actions(m);
	/* Late ones do not bring it back. */
	hear_old(m, peer, MV_CTL_STANDBY, peer->attempts.mine - 1);
	assert_quiet(m);
	assert_int_equal(m->attempts.peer, peer->attempts.mine);
}

/*
 * Both programs use the same QPs with the same PSNs for the next connection: the peer's earlier life
 * looks like the one that we are connected to.
 */
static void test_earlier_life(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		enum mv_ctl_type type = i ? MV_CTL_STANDBY : MV_CTL_HELLO;

		begin();
		hear_earlier_life(&l, &f, type);
		move_once();
		begin();
		hear_earlier_life(&f, &l, type);
		hear_old(&l, &f, MV_CTL_HELLO, f.attempts.mine);
		move_once();
	}
}

/* A later life is asked first, and has to name ours: who knows PSNs, and hears nothing of what we say, ends nothing. */
static void hear_later(struct mv_move *m, const struct mv_move *peer, enum mv_ctl_type type)
{
	struct mv_ctl_msg msg;

	hear_old(m, peer, type, peer->attempts.mine + 1);
	msg = take_message(m, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, peer->attempts.mine + 1);
	assert_int_equal(msg.to_nonce, peer->attempts.my_nonce + 1);
	assert_quiet(m);
	assert_true(m->failover);
	mv_move_header(peer, MV_CTL_HELLO, &msg);
	msg.flags = MV_CTL_MOVE;
	msg.attempt++;
	msg.nonce++;
	msg.to_nonce++; /* guessed */
	hear(m, &msg);
	assert_quiet(m);
	assert_true(m->failover);
	msg.to_nonce--;
	hear(m, &msg);
}

/* Once the peer has named our attempt, a later one of its own is another connection. */
static void test_later_life(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		enum mv_ctl_type type = i ? MV_CTL_STANDBY : MV_CTL_HELLO;

		begin();
		hear_earlier_life(&l, &f, type);
		move_once();
		to_offer();
		hear_later(&l, &f, type);
		take(&l, MV_DO_RELEASE);
		assert_stays(&l, MV_CTL_REASON_GONE, false);
		assert_int_equal(l.attempts.peer, f.attempts.mine);
		assert_int_equal(mv_move_start(&f, MV_CTL_REASON_PORT, NULL, 0, START), 0);
		take_message(&f, MV_CTL_HELLO);
		hear_later(&f, &l, type);
		assert_stays(&f, MV_CTL_REASON_GONE, false);
		assert_int_equal(f.attempts.peer, l.attempts.mine);
	}
}

/* The peer, in a later life, has nothing to say before it is asked. */
static void test_offer_to_earlier_life(void **state)
{
	struct mv_ctl_msg msg;

	(void)state;
	begin();
	hear_old(&l, &f, MV_CTL_STANDBY, 6);
	take(&l, MV_DO_STANDBY);
	msg = to_offer();
	assert_int_equal(msg.to_attempt, 6);
	hear(&f, &msg);
	assert_quiet(&f);
	mv_move_tick(&l, START + T->failover_resend_ns);
	take_message(&l, MV_CTL_OFFER);
	msg = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 0);
	assert_quiet(&l);
	hear(&f, &msg);
	msg = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 5);
	hear(&l, &msg);
	assert_true(l.failover);
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
	hear_old(&f, &l, MV_CTL_STANDBY, 4);
	take(&f, MV_DO_STANDBY);
	assert_int_equal(mv_move_start(&f, MV_CTL_REASON_DRAIN, NULL, 0, START), 0);
	msg = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(msg.to_attempt, 0);
	hear(&l, &msg);
	take(&l, MV_DO_WANTED);
	msg = to_offer();
	hear(&f, &msg);
	assert_true(f.attempts.peer_knows_us);
	take(&f, MV_DO_PREPARE);
}

/* Instead of the one at work that begin() has made. */
static void connect_follower(void)
{
	struct mv_move_begin again = {.verdict = MV_PATH_APART,
				      .local_type = MV_GID_TYPE_ROCE_V2,
				      .local = ends[1],
				      .peer = ends[0],
				      .paths = paths,
				      .n_paths = 2,
				      .rq_psn = LEADER_PSN,
				      .attempt = 7,
				      .nonce = FOLLOWER_NONCE};

	mv_move_begin(&f, &again, T, START);
	mv_move_rts(&f, FOLLOWER_PSN, START);
}

/* It came while ours was being connected, which came to nothing. */
static void test_earlier_life_connects(void **state)
{
	struct mv_ctl_msg hello;

	(void)state;
	begin();
	connect_follower();
	mv_move_header(&l, MV_CTL_HELLO, &hello);
	hello.attempt = 4;
	hear(&f, &hello);
	assert_int_equal(f.attempts.peer, 4);
	ignore_actions(&f);
	mv_move_work_waits(&f, START);
	mv_move_tick(&f, START + 60 * 1000 * MS);
	assert_int_equal(f.state, MV_MOVE_PASSTHROUGH);
	ignore_actions(&f);
	hear_old(&f, &l, MV_CTL_STANDBY, l.attempts.mine);
	take(&f, MV_DO_STANDBY);
	hear_old(&l, &f, MV_CTL_HELLO, f.attempts.mine);
	move_once();
}

/* The follower's program only receives, and stays in RTR: it can open nothing that takes its own PSN, and says what it can say. */
static void follower_stays_in_rtr(void)
{
	const struct mv_move_begin again = {.local_type = MV_GID_TYPE_ROCE_V2,
					    .local = ends[1],
					    .peer = ends[0],
					    .rq_psn = LEADER_PSN,
					    .attempt = 7,
					    .nonce = FOLLOWER_NONCE};

	begin();
	mv_move_adopt(&f, &again, MV_CTL_PSN_NONE, T, START);
}

static void test_one_in_rtr(void **state)
{
	struct mv_ctl_msg msg, hello;

	(void)state;
	follower_stays_in_rtr();
	assert_int_equal(start_leader(), 0);
	msg = take_message(&l, MV_CTL_HELLO);
	assert_int_equal(msg.to_psn, FOLLOWER_PSN);
	mv_proof_seal(&msg, NULL);
	mv_move_unopened(&f, &msg, START + T->rtr_ns - 1); /* it may go on to RTS in a moment */
	assert_quiet(&f);
	mv_move_unopened(&f, &msg, START + T->rtr_ns);
	hello = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(hello.from_psn, MV_CTL_PSN_NONE);
	assert_int_equal(hello.to_psn, LEADER_PSN);
	/* Not each time, nor to one in RTR, nor to a stranger. */
	mv_move_unopened(&f, &msg, START + T->rtr_ns + T->failover_resend_ns - 1);
	assert_quiet(&f);
	msg.proof = MV_PROOF_TO;
	mv_move_unopened(&f, &msg, START + T->rtr_ns + T->failover_resend_ns);
	assert_quiet(&f);
	msg.proof = MV_PROOF_FROM | MV_PROOF_TO;
	msg.from.qpn++;
	mv_move_unopened(&f, &msg, START + T->rtr_ns + T->failover_resend_ns);
	assert_quiet(&f);
	hear(&l, &hello);
	msg = leader_offers("10.2.0.1", 0x1001);
	assert_int_equal(msg.from_psn, LEADER_PSN);
	assert_int_equal(msg.to_psn, MV_CTL_PSN_NONE);
	follower_connects(&msg);
	quiesced(&f);
	msg = take_message(&f, MV_CTL_ANSWER);
	leader_connects(&msg);
}

/* A peer that is still connecting finds an end at work. */
static void test_connect_meets_failover(void **state)
{
	struct mv_ctl_msg hello, msg;

	(void)state;
	begin();
	connect_follower();
	hello = take_message(&f, MV_CTL_HELLO);
	assert_int_equal(start_leader(), 0);
	msg = take_message(&l, MV_CTL_HELLO);
	hear(&l, &hello);
	assert_int_equal(take_message(&l, MV_CTL_HELLO).flags, MV_CTL_PASSTHROUGH);
	hear(&f, &msg);
	take(&f, MV_DO_PASSTHROUGH);
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
	msg = take_message(&f, MV_CTL_HELLO);
	take_message(&l, MV_CTL_HELLO);
	hear(&l, &msg);
	msg = leader_offers("10.2.0.1", 0x1001);
	assert_int_equal(msg.flags, 0);
	assert_int_equal(follower_connects(&msg).sq_psn, MV_CTL_PSN_NONE);
	msg = take_message(&f, MV_CTL_ANSWER);
	leader_connects(&msg);
	take_message(&l, MV_CTL_CONFIRM);
	assert_false(take(&l, MV_DO_ACTIVATE).replay);
	msg = to_offer();
	assert_int_equal(msg.base, 1);
	hear(&f, &msg);
	assert_false(take(&f, MV_DO_ACTIVATE).replay);
	take(&f, MV_DO_PREPARE);
	assert_true(f.failover);
	assert_true(l.attempts.peer_knows_us && f.attempts.peer_knows_us); /* by the connect */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_ours),
		cmocka_unit_test(test_earlier_life),
		cmocka_unit_test(test_later_life),
		cmocka_unit_test(test_offer_to_earlier_life),
		cmocka_unit_test(test_wish_to_earlier_life),
		cmocka_unit_test(test_earlier_life_connects),
		cmocka_unit_test(test_one_in_rtr),
		cmocka_unit_test(test_connect_meets_failover),
		cmocka_unit_test(test_confirm_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
