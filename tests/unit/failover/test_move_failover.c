/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move of a live QP, step by step: as it should go, and what becomes of one that was confirmed. What ends earlier:
 * test_move_failover_stay.c; whose messages count: test_move_failover_attempts.c; test_move_failover_property.c lets it
 * run.
 */
#include "unit.h"

#include <errno.h>

#include "failover_move.h"

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
static void test_tell_standby(void **state)
{
	struct mv_ctl_end of_l = {.gid = unit_gid("10.1.0.1"), .qpn = 0x77}, of_f = {.gid = unit_gid("10.1.0.2"), .qpn = 0x88};
	struct mv_move_action action;
	struct mv_ctl_msg msg, early;

	(void)state;
	begin();
	mv_move_tell_standby(&l, &of_l, &of_f.gid, MV_GID_TYPE_ROCE_V2, 3, 2048, false);
	msg = early = take_message(&l, MV_CTL_STANDBY);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	hear(&f, &msg);
	action = take(&f, MV_DO_STANDBY);
	assert_true(mv_gid_equal(&action.local_gid, &of_f.gid) && mv_gid_equal(&action.peer.gid, &of_l.gid));
	assert_int_equal(action.peer.qpn, 0x77);
	assert_int_equal(action.peer_lid, 3);
	assert_int_equal(action.mtu_bytes, 2048);
	assert_true(action.answer);
	assert_quiet(&f);

	mv_move_tell_standby(&f, &of_f, &of_l.gid, MV_GID_TYPE_ROCE_V2, 4, 4096, true);
	msg = take_message(&f, MV_CTL_STANDBY);
	assert_int_equal(msg.to_attempt, l.attempts.mine); /* the leader need not ask for it any more */
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
	mv_move_tell_standby(&f, &of_f, &of_l.gid, MV_GID_TYPE_ROCE_V2, 4, 4096, false);
	assert_quiet(&f);
	mv_move_tell_standby(&l, &of_l, &of_f.gid, MV_GID_TYPE_ROCE_V2, 3, 2048, false);
	msg = take_message(&l, MV_CTL_STANDBY);
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
	assert_true(l.wish.peer);
	assert_int_equal(l.reason, MV_CTL_REASON_PATH);
	mv_move_message(&l, &wish, START + T->failover_resend_ns / 2);
	take_message(&l, MV_CTL_OFFER);
	assert_quiet(&l);
}

/* ---- after DRAIN -------------------------------------------------------------------------------
 */

static void test_lost_messages(void **state)
{
	struct mv_ctl_msg confirm, sync, again;

	(void)state;
	introduce();
	confirm = to_confirm();
	/* The leader's SYNC says what CONFIRM does. */
	mv_move_drained(&l, &l_sync, START);
	sync = take_message(&l, MV_CTL_SYNC);
	hear(&f, &sync);
	take(&f, MV_DO_DRAIN);
	hear(&f, &confirm);
	hear(&f, &sync);
	assert_quiet(&f);
	mv_move_drained(&f, &f_sync, START);
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

static void leader_drains_untold(void)
{
	struct mv_ctl_msg answer = to_answer();

	leader_connects(&answer);
	take(&l, MV_DO_QUIESCE);
	mv_move_quiesced(&l, true, START);
	take(&l, MV_DO_DRAIN);
	assert_quiet(&l);
}

/* Where many move, the leader says by its SYNC alone that both drain. */
static void test_many_move(void **state)
{
	struct mv_ctl_msg sync;

	(void)state;
	introduce();
	leader_drains_untold();
	mv_move_drained(&l, &l_sync, START);
	sync = take_message(&l, MV_CTL_SYNC);
	assert_quiet(&l);
	hear(&f, &sync);
	take(&f, MV_DO_DRAIN);
	assert_quiet(&f);
	mv_move_drained(&f, &f_sync, START);
	sync = take_message(&f, MV_CTL_SYNC);
	check_replay(&f, &l_sync);
	hear(&l, &sync);
	check_replay(&l, &f_sync);
}

/* But it does not keep the follower waiting for long. */
static void test_many_move_slowly(void **state)
{
	struct mv_ctl_msg confirm;

	(void)state;
	introduce();
	leader_drains_untold();
	assert_int_equal(mv_move_deadline(&l), START + T->failover_resend_ns);
	mv_move_tick(&l, START + T->failover_resend_ns);
	confirm = take_message(&l, MV_CTL_CONFIRM);
	assert_int_equal(confirm.flags, MV_CTL_MOVE | MV_CTL_READY);
	assert_quiet(&l);
	hear(&f, &confirm);
	take(&f, MV_DO_DRAIN);
	mv_move_drained(&l, &l_sync, START + T->failover_resend_ns);
	take_message(&l, MV_CTL_SYNC);
	assert_quiet(&l);
}

static void test_drain_fails(void **state)
{
	struct mv_ctl_msg confirm, msg;

	(void)state;
	introduce();
	confirm = to_confirm();
	hear(&f, &confirm);
	take(&f, MV_DO_DRAIN);
	mv_move_drained(&f, NULL, START);
	msg = take_message(&f, MV_CTL_REFUSE);
	assert_flushes(&f, MV_CTL_REASON_UNREADABLE, false);
	hear(&l, &msg);
	assert_quiet(&l); /* DRAIN is out */
	mv_move_drained(&l, &l_sync, START);
	assert_flushes(&l, MV_CTL_REASON_UNREADABLE, false);
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
	mv_move_drained(&l, &l_sync, START);
	take_message(&l, MV_CTL_SYNC);
	assert_int_equal(start_leader(), -EBUSY);
	mv_move_tick(&l, START + T->move_ns / 2);
	assert_int_equal(take_message(&l, MV_CTL_REFUSE).reason, MV_CTL_REASON_TIMEOUT);
	assert_flushes(&l, MV_CTL_REASON_TIMEOUT, true);
	(void)confirm;
	/* It says so. */
	introduce();
	to_confirm();
	mv_move_drained(&l, &l_sync, START);
	take_message(&l, MV_CTL_SYNC);
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &bye);
	assert_flushes(&l, MV_CTL_REASON_GONE, false);
	/* Before DRAIN nothing has happened. */
	introduce();
	to_offer();
	assert_true(mv_move_bye(&f, &bye));
	hear(&l, &bye);
	take(&l, MV_DO_RELEASE);
	assert_stays(&l, MV_CTL_REASON_GONE, false);
}

/* It says what it executed, and then that it goes, before we have drained. */
static void test_peer_leaves_with_a_word(void **state)
{
	struct mv_ctl_msg confirm, sync, last;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		introduce();
		confirm = to_confirm();
		hear(&f, &confirm);
		take(&f, MV_DO_DRAIN);
		mv_move_drained(&f, &f_sync, START);
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
		mv_move_drained(&l, &l_sync, START);
		assert_int_equal(take_message(&l, MV_CTL_SYNC).flags, MV_CTL_READY);
		check_replay(&l, &f_sync);
	}
}

/* Who leaves says what it executed wherever the peer may have drained, and nowhere else. */
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
	mv_move_drained(&l, &l_sync, START);
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
	/* The leader had not confirmed: nothing was drained there. */
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
	mv_move_drained(&l, &l_sync, START);
	assert_flushes(&l, MV_CTL_REASON_GONE, false);
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

/* ---- of one that is connected to itself --------------------------------------------------------
 */

/* In the leader's place. */
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
	take(&l, MV_DO_DRAIN);
	assert_quiet(&l);
	mv_move_drained(&l, &sync, START);
	action = take(&l, MV_DO_ACTIVATE);
	assert_true(action.replay);
	assert_int_equal(action.next_psn, 0x77);
	assert_int_equal(action.n_received, 3);
	assert_quiet(&l);
	assert_int_equal(l.state, MV_MOVE_ACTIVE);
	assert_false(l.failover);
	assert_true(mv_move_deadline(&l) == UINT64_MAX);
	assert_int_equal(start_leader(), 0); /* and on */
	take_prepare(&l, "10.2.0.1");
}

/* Whatever comes to nothing before the drain leaves it where it is, and whatever comes of others does nothing. */
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
	msg.to_attempt = l.attempts.mine;
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
	take(&l, MV_DO_DRAIN);
	mv_move_drained(&l, NULL, START);
	assert_flushes(&l, MV_CTL_REASON_UNREADABLE, false);
}

/* The one that was made in advance is connected to itself as it will be asked for. */
static void test_self_standby(void **state)
{
	struct mv_ctl_end mine;
	struct mv_move_action standby, action;

	(void)state;
	begin_self();
	mine = (struct mv_ctl_end){.gid = unit_gid("10.2.0.1"), .qpn = 0x1001};
	mv_move_tell_standby(&l, &mine, &mine.gid, MV_GID_TYPE_ROCE_V2, 3, 4096, false);
	standby = take(&l, MV_DO_STANDBY);
	assert_false(standby.answer);
	assert_gid(standby.local_gid, "10.2.0.1");
	assert_int_equal(start_leader(), 0);
	take(&l, MV_DO_PREPARE);
	mv_move_tell_standby(&l, &mine, &mine.gid, MV_GID_TYPE_ROCE_V2, 3, 4096, false); /* too late */
	assert_quiet(&l);
	prepared(&l, "10.2.0.1", 0x1001);
	action = take(&l, MV_DO_CONNECT);
	assert_int_equal(action.sq_psn, standby.sq_psn);
	assert_int_equal(action.rq_psn, standby.rq_psn);
	assert_int_equal(action.peer_lid, standby.peer_lid);
	assert_int_equal(action.mtu_bytes, standby.mtu_bytes);
	assert_int_equal(action.gid_type, standby.gid_type);
	assert_int_equal(action.peer.qpn, standby.peer.qpn);
	assert_gid(standby.peer.gid, "10.2.0.1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_tell_standby),
		cmocka_unit_test(test_wanted),
		cmocka_unit_test(test_wish_crosses_offer),
		cmocka_unit_test(test_lost_messages),
		cmocka_unit_test(test_many_move),
		cmocka_unit_test(test_many_move_slowly),
		cmocka_unit_test(test_drain_fails),
		cmocka_unit_test(test_peer_is_gone),
		cmocka_unit_test(test_peer_leaves_with_a_word),
		cmocka_unit_test(test_last_word),
		cmocka_unit_test(test_peer_leaves_without_a_word),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_self_stays),
		cmocka_unit_test(test_self_standby),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
