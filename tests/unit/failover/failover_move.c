/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "failover_move.h"

struct mv_path paths[2];
struct mv_move l, f;
struct mv_ctl_end ends[2];

const struct mv_move_sync l_sync = {0x123456, 17}, f_sync = {0x654321, 4};

void begin(void)
{
	struct mv_move_begin a = {
		.local_type = MV_GID_TYPE_ROCE_V2, .rq_psn = FOLLOWER_PSN, .attempt = 5,
		.nonce = LEADER_NONCE};
	struct mv_move_begin b = {
		.local_type = MV_GID_TYPE_ROCE_V2, .rq_psn = LEADER_PSN, .attempt = 7,
		.nonce = FOLLOWER_NONCE};

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

void take_prepare(struct mv_move *m, const char *gid)
{
	struct mv_move_action action = take(m, MV_DO_PREPARE);

	assert_gid(action.local_gid, gid);
}

void hear(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	mv_move_message(m, msg, START);
}

void assert_stays(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action action = take(m, MV_DO_STAY);

	assert_int_equal(action.reason, reason);
	assert_int_equal(action.timed_out, timed_out);
	assert_false(m->failover);
	assert_true(mv_move_deadline(m) == UINT64_MAX);
	assert_quiet(m);
}

void assert_flushes(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action action = take(m, MV_DO_FLUSH);

	assert_int_equal(action.reason, reason);
	assert_int_equal(action.timed_out, timed_out);
	assert_int_equal(m->state, MV_MOVE_FAILED);
	assert_true(mv_move_deadline(m) == UINT64_MAX);
	assert_quiet(m);
}

void prepared(struct mv_move *m, const char *gid, uint32_t qpn)
{
	struct mv_ctl_end mine = {.gid = unit_gid(gid), .qpn = qpn};

	mv_move_prepared(m, &mine, 3, 4096, false, START);
}

int start_leader(void)
{
	return mv_move_start(&l, MV_CTL_REASON_PORT, paths, 2, START);
}

void introduce(void)
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
	assert_int_equal(l.state, MV_MOVE_PASSTHROUGH);
	assert_int_equal(f.state, MV_MOVE_PASSTHROUGH);
}

struct mv_ctl_msg leader_offers(const char *gid, uint32_t qpn)
{
	take_prepare(&l, gid);
	prepared(&l, gid, qpn);
	return take_message(&l, MV_CTL_OFFER);
}

struct mv_move_action follower_connects(const struct mv_ctl_msg *offer)
{
	struct mv_move_action action;

	hear(&f, offer);
	take(&f, MV_DO_PREPARE);
	prepared(&f, "10.2.0.2", 0x2002);
	action = take(&f, MV_DO_CONNECT);
	mv_move_connected(&f, true, START);
	return action;
}

struct mv_move_action leader_connects(const struct mv_ctl_msg *answer)
{
	struct mv_move_action action;

	hear(&l, answer);
	action = take(&l, MV_DO_CONNECT);
	mv_move_connected(&l, true, START);
	return action;
}

struct mv_ctl_msg to_offer(void)
{
	assert_int_equal(start_leader(), 0);
	return leader_offers("10.2.0.1", 0x1001);
}

void quiesced(struct mv_move *m)
{
	take(m, MV_DO_QUIESCE);
	assert_quiet(m);
	mv_move_quiesced(m, false, START);
}

void to_quiesce(void)
{
	struct mv_ctl_msg msg = to_offer();
	struct mv_move_action action;

	assert_int_equal(msg.flags, MV_CTL_MOVE);
	assert_int_equal(msg.reason, MV_CTL_REASON_PORT);
	assert_int_equal(msg.base, l.now.offer);
	action = follower_connects(&msg);
	assert_true(f.failover);
	assert_int_equal(action.peer.qpn, 0x1001);
	assert_int_equal(action.rq_psn, msg.path_psn);
}

struct mv_ctl_msg to_answer(void)
{
	to_quiesce();
	quiesced(&f);
	return take_message(&f, MV_CTL_ANSWER);
}

struct mv_ctl_msg to_confirm(void)
{
	struct mv_ctl_msg msg = to_answer();
	struct mv_move_action action;

	assert_int_equal(msg.flags, MV_CTL_MOVE | MV_CTL_READY);
	action = leader_connects(&msg);
	assert_int_equal(action.rq_psn, msg.path_psn);
	assert_int_not_equal(action.sq_psn, LEADER_PSN);
	quiesced(&l);
	msg = take_message(&l, MV_CTL_CONFIRM);
	take(&l, MV_DO_DRAIN);
	assert_quiet(&l);
	return msg;
}

void check_replay(struct mv_move *m, const struct mv_move_sync *peer)
{
	struct mv_move_action action = take(m, MV_DO_ACTIVATE);

	assert_true(action.replay && !action.timed_out);
	assert_int_equal(action.next_psn, peer->next_psn);
	assert_int_equal(action.n_received, peer->n_received);
	assert_int_equal(m->state, MV_MOVE_ACTIVE);
	assert_false(m->failover);
	assert_quiet(m);
}

void move_once(void)
{
	struct mv_ctl_msg confirm = to_confirm(), sync;

	hear(&f, &confirm);
	take(&f, MV_DO_DRAIN);
	assert_quiet(&f);
	mv_move_drained(&l, &l_sync, START);
	sync = take_message(&l, MV_CTL_SYNC);
	assert_int_equal(sync.next_psn, l_sync.next_psn);
	assert_int_equal(sync.n_received, l_sync.n_received);
	assert_quiet(&l); /* not before the peer has drained */
	hear(&f, &sync);
	assert_quiet(&f); /* not before we have */
	mv_move_drained(&f, &f_sync, START);
	sync = take_message(&f, MV_CTL_SYNC);
	assert_int_equal(sync.flags, MV_CTL_READY);
	check_replay(&f, &l_sync);
	hear(&l, &sync);
	check_replay(&l, &f_sync);
	assert_int_equal(l.now.mine.qpn, 0x1001);
	assert_int_equal(l.now.peer.qpn, 0x2002);
	assert_int_equal(l.now.offer, f.now.offer);
}
