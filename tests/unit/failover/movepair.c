/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "movepair.h"

#include "unit.h"

const struct mv_ctl_end leader_qp = {.qpn = 0x1001}, follower_qp = {.qpn = 0x2002};

/** path_of - a path between two addresses; @stays: enum of mv_path.stays */
struct mv_path path_of(const char *local, const char *remote, uint8_t type, uint8_t stays)
{
	return (struct mv_path){.local_gid = unit_gid(local),
				.remote_gid = unit_gid(remote),
				.type = type,
				.stays = stays};
}

struct pair make_pair(void)
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

void leader_to_rtr(struct mv_move *m, struct pair *pair)
{
	pair->leader.paths = pair->paths;
	mv_move_begin(m, &pair->leader, T, START);
}

void follower_to_rtr(struct mv_move *m, struct pair *pair)
{
	pair->follower.paths = pair->paths;
	mv_move_begin(m, &pair->follower, T, START);
}

void begin_leader(struct mv_move *m, struct pair *pair)
{
	leader_to_rtr(m, pair);
	mv_move_rts(m, LEADER_PSN, START);
}

void begin_follower(struct mv_move *m, struct pair *pair)
{
	follower_to_rtr(m, pair);
	mv_move_rts(m, FOLLOWER_PSN, START);
}

void assert_passthrough(struct mv_move *m, enum mv_ctl_reason reason, uint8_t type, bool timed_out)
{
	struct mv_move_action action = take(m, MV_DO_PASSTHROUGH);

	assert_string_equal(mv_ctl_reason_text(action.reason), mv_ctl_reason_text(reason));
	assert_int_equal(action.gid_type, type);
	assert_int_equal(action.timed_out, timed_out);
	assert_int_equal(m->state, MV_MOVE_PASSTHROUGH);
	assert_true(mv_move_deadline(m) == UINT64_MAX);
	assert_quiet(m);
}

void prepared(struct mv_move *m, const char *gid, const struct mv_ctl_end *qp)
{
	struct mv_ctl_end mine = *qp;

	mine.gid = unit_gid(gid);
	mv_move_prepared(m, &mine, 3, 4096, false, START);
}

void begin_both(struct mv_move *l, struct mv_move *f, struct pair *pair, struct mv_ctl_msg *ret_hello)
{
	begin_leader(l, pair);
	begin_follower(f, pair);
	take_message(l, MV_CTL_HELLO);
	*ret_hello = take_message(f, MV_CTL_HELLO);
}

struct mv_ctl_msg lead_to_offer(struct mv_move *l, const struct mv_ctl_msg *hello)
{
	mv_move_message(l, hello, START);
	take(l, MV_DO_PREPARE);
	prepared(l, "10.2.0.1", &leader_qp);
	return take_message(l, MV_CTL_OFFER);
}

struct mv_ctl_msg follow_to_answer(struct mv_move *f, const struct mv_ctl_msg *offer)
{
	mv_move_message(f, offer, START);
	take(f, MV_DO_PREPARE);
	prepared(f, "10.2.0.2", &follower_qp);
	take(f, MV_DO_CONNECT);
	mv_move_connected(f, true, START);
	return take_message(f, MV_CTL_ANSWER);
}

struct mv_ctl_msg lead_to_confirm(struct mv_move *l, const struct mv_ctl_msg *answer)
{
	struct mv_ctl_msg confirm;

	mv_move_message(l, answer, START);
	take(l, MV_DO_CONNECT);
	mv_move_connected(l, true, START);
	confirm = take_message(l, MV_CTL_CONFIRM);
	assert_false(take(l, MV_DO_ACTIVATE).timed_out);
	return confirm;
}
