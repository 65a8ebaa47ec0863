/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connects and moves of live QPs under a peer, an agent and a program that do anything in any
 * order. Each byte is an event; messages are built from the bytes after it, with the right ends, so
 * that they are not all ignored.
 */
#include "fuzz.h"

#include <string.h>

#include "move.h"
#include "move_failover.h"

#define MS 1000000ull

struct input {
	const uint8_t *data;
	size_t left;
};

static uint8_t take(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->data++;
}

/* What the caller has on its hands. */
struct caller {
	struct mv_move m;
	bool preparing, connecting, draining;
	bool has_next; /* a QP that nothing has been posted to */
	bool at_work, drained, failed;
};

static void act_live(struct caller *c, const struct mv_move_action *action)
{
	switch (action->type) {
	case MV_DO_QUIESCE:
		FUZZ_CHECK(c->at_work && c->has_next && !c->drained);
		break;
	case MV_DO_DRAIN:
		FUZZ_CHECK(c->at_work && c->has_next && !c->drained);
		c->draining = true;
		c->drained = true;
		break;
	case MV_DO_STAY:
		FUZZ_CHECK(c->at_work && !c->has_next && !c->drained);
		FUZZ_CHECK(action->reason < MV_CTL_REASON_END);
		break;
	case MV_DO_FLUSH:
		FUZZ_CHECK(c->drained && !c->draining && c->has_next);
		c->at_work = c->has_next = false;
		c->failed = true;
		break;
	case MV_DO_WANTED:
		FUZZ_CHECK(c->at_work && !c->drained && c->m.leader);
		break;
	case MV_DO_STANDBY:
		FUZZ_CHECK(c->at_work && !c->drained && action->sq_psn <= 0xffffff && action->rq_psn <= 0xffffff);
		if (action->answer)
			mv_move_tell_standby(&c->m, &action->peer, &action->remote_gid, action->gid_type, 0, 0, true);
		break;
	default:
		FUZZ_CHECK(0);
	}
}

static void act(struct caller *c, const struct mv_move_action *action)
{
	uint8_t buf[MV_CTL_MAX_BYTES];
	struct mv_ctl_msg msg;

	switch (action->type) {
	case MV_DO_SEND:
		/* Whatever was received, what is sent is well-formed. */
		FUZZ_CHECK(!mv_ctl_decode(buf, mv_ctl_encode(&action->msg, buf), &msg));
		return;
	case MV_DO_PREPARE:
		FUZZ_CHECK(!c->has_next && !c->preparing);
		c->preparing = true;
		break;
	case MV_DO_CONNECT:
		FUZZ_CHECK(c->has_next && !c->connecting);
		c->connecting = true;
		break;
	case MV_DO_ACTIVATE:
		FUZZ_CHECK(c->has_next && action->replay == c->at_work);
		FUZZ_CHECK(c->drained == action->replay && action->next_psn <= 0xffffff);
		c->has_next = c->drained = false;
		c->at_work = true;
		break;
	case MV_DO_PASSTHROUGH:
		FUZZ_CHECK(!c->has_next && !c->at_work);
		FUZZ_CHECK(action->reason < MV_CTL_REASON_END);
		c->at_work = true;
		return;
	case MV_DO_RELEASE:
		FUZZ_CHECK(c->has_next && !c->drained);
		c->has_next = false;
		break;
	case MV_DO_QUIESCE:
	case MV_DO_DRAIN:
	case MV_DO_STAY:
	case MV_DO_FLUSH:
	case MV_DO_WANTED:
	case MV_DO_STANDBY:
		act_live(c, action);
		break;
	case MV_DO_NOTHING:
		FUZZ_CHECK(0);
	}
}

static void drain(struct caller *c)
{
	enum mv_move_state state;
	struct mv_move_action action;
	unsigned int n = 0;

	while (mv_move_next(&c->m, &action)) {
		act(c, &action);
		FUZZ_CHECK(++n <= MV_MOVE_MAX_ACTIONS);
	}
	state = c->m.state;
	FUZZ_CHECK(c->at_work == (c->m.failover || state == MV_MOVE_ACTIVE || state == MV_MOVE_PASSTHROUGH ||
				  (state == MV_MOVE_FAILED && !c->failed)));
	FUZZ_CHECK(c->preparing == (state == MV_MOVE_PREPARING));
	FUZZ_CHECK(c->connecting == (state == MV_MOVE_CONNECTING));
	FUZZ_CHECK(c->draining == (state == MV_MOVE_DRAINING));
	FUZZ_CHECK((c->drained && !c->failed) == (c->draining || state == MV_MOVE_DRAINED));
	FUZZ_CHECK(!c->failed || state == MV_MOVE_FAILED);
}

static uint32_t take_psn(struct input *in)
{
	uint8_t byte = take(in);

	return byte & 0x80 ? MV_CTL_PSN_NONE : byte & 1;
}

static struct mv_ctl_msg take_message(struct input *in, const struct mv_move *m)
{
	struct mv_ctl_msg msg = {.from = m->peer, .to = m->local};
	uint8_t attempt, named;

	msg.type = take(in) % (MV_CTL_TYPE_END + 1);
	msg.flags = take(in);
	msg.reason = take(in) % MV_CTL_REASON_END;
	msg.gid_type = take(in) & 3;
	attempt = take(in);
	msg.attempt = attempt & 7;
	msg.nonce = attempt >> 7;
	named = take(in);
	msg.to_attempt = m->attempts.mine ^ (named > 200);
	msg.to_nonce = m->attempts.my_nonce ^ (named % 16 == 15);
	msg.request_id = take(in) & 3;
	msg.from_psn = take_psn(in);
	msg.to_psn = take_psn(in);
	msg.path.gid.raw[15] = take(in);
	msg.path.qpn = take(in);
	msg.path_peer_gid.raw[15] = take(in);
	msg.mtu_bytes = 1024;
	/* Keys, or the numbers that a move needs. */
	msg.base = take(in) & 7;
	msg.path_psn = take(in);
	return msg;
}

static void outcome(struct caller *c, bool ok, bool many, uint64_t now_ns)
{
	struct mv_ctl_end mine = {.qpn = 7};

	if (c->preparing) {
		c->preparing = false;
		c->has_next = ok;
		mv_move_prepared(&c->m, ok ? &mine : NULL, 1, 4096, false, now_ns);
	} else if (c->connecting) {
		c->connecting = false;
		mv_move_connected(&c->m, ok, now_ns);
	} else if (c->draining) {
		struct mv_move_sync sync = {.next_psn = 7, .n_received = 8};

		c->draining = false;
		mv_move_drained(&c->m, ok ? &sync : NULL, now_ns);
	} else if (ok) {
		mv_move_quiesced(&c->m, many, now_ns);
	}
}

/* What the caller wants with a live QP. */
static void wish(struct caller *c, struct input *in, uint64_t now_ns)
{
	struct mv_path paths[2] = {{.type = MV_GID_TYPE_ROCE_V2}, {.type = MV_GID_TYPE_ROCE_V2}};
	uint8_t what = take(in);

	drain(c); /* a caller that wants something has done what it was told to */
	switch (what & 7) {
	case 3:
		mv_move_expect(&c->m, paths, (what >> 3) % 3, now_ns);
		break;
	case 4:
		mv_move_sure(&c->m, MV_CTL_REASON_PATH, now_ns);
		break;
	default:
		mv_move_start(&c->m, MV_CTL_REASON_PORT, paths, (what >> 3) % 3, now_ns);
		break;
	case 5:
		mv_move_cancel(&c->m, now_ns);
		break;
	case 6:
		if (c->preparing && c->m.failover)
			c->preparing = false;
		mv_move_refuse(&c->m, MV_CTL_REASON_OFF, now_ns);
		break;
	case 7:
		mv_move_abort(&c->m, now_ns);
		break;
	}
}

static void event(struct caller *c, struct input *in, uint64_t *now_ns)
{
	uint8_t what = take(in);
	struct mv_ctl_msg msg;

	switch (what % 8) {
	default:
		msg = take_message(in, &c->m);
		mv_move_message(&c->m, &msg, *now_ns);
		break;
	case 2:
		wish(c, in, *now_ns);
		break;
	case 3:
		mv_move_rts(&c->m, 1, *now_ns);
		break;
	case 4:
		mv_move_work_waits(&c->m, *now_ns);
		break;
	case 5:
		mv_move_unreachable(&c->m, *now_ns);
		break;
	case 6:
		outcome(c, what & 8, what & 16, *now_ns);
		break;
	case 7:
		*now_ns += (uint64_t)(what >> 3) * 200 * MS;
		mv_move_tick(&c->m, *now_ns);
		FUZZ_CHECK(mv_move_deadline(&c->m) > *now_ns);
		break;
	}
	/* Not always at once, as a caller that is busy. */
	if (!(what & 0x80))
		drain(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .left = size};
	struct mv_path paths[2] = {{.type = MV_GID_TYPE_ROCE_V2}, {.type = MV_GID_TYPE_ROCE_V1}};
	struct mv_move_begin begin = {.rq_psn = 1, .paths = paths, .attempt = 3, .nonce = 9};
	uint64_t now_ns = 1000 * MS;
	struct caller c = {0};
	uint8_t options = take(&in);

	begin.local.qpn = options & 1 ? 1 : 3;
	begin.peer.qpn = 2;
	begin.n_paths = (options >> 1) % 3;
	begin.verdict = options & 8 ? MV_PATH_ASK : MV_PATH_APART;
	begin.local_type = options & 16 ? MV_GID_TYPE_ROCE_V1 : MV_GID_TYPE_ROCE_V2;
	paths[0].stays = options & 32 ? 1 : 0;
	if (options & 64) {
		mv_move_adopt(&c.m, &begin, 1, &mv_move_default_times, now_ns);
		c.at_work = true;
	} else {
		mv_move_begin(&c.m, &begin, &mv_move_default_times, now_ns);
	}
	drain(&c);
	while (in.left)
		event(&c, &in, &now_ns);
	drain(&c);
	return 0;
}
