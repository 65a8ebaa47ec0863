/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "move.h"

#include <assert.h>
#include <string.h>

#include "move_internal.h"
#include "proof.h"

#define MS 1000000ull

const struct mv_move_times mv_move_default_times = {
	.resend_ns = 2 * MS,
	.rtr_ns = 20 * MS,
	.failover_resend_ns = 10 * MS,
	.resend_max_ns = 500 * MS,
	.failover_resend_max_ns = 50 * MS,
	.ask_ns = 2000 * MS,
	.ask_min_ns = 400 * MS,
	.give_up_ns = 10000 * MS,
	.try_ns = 1000 * MS,
	.try_max_ns = 16000 * MS,
	.move_ns = 4000 * MS,
};

/*
 * Slots that SEND, WANTED, QUIESCE and STANDBY leave free. Between two drains of the queue at most 5 other actions
 * come: ACTIVATE of a connect, RELEASE, PREPARE, RELEASE, STAY. No more, because no outcome is reported before its
 * action was taken.
 */
#define RESERVED_ACTIONS 5

/* ---- actions -----------------------------------------------------------------------------------
 */

/* These actions are repeated, so they may be dropped. */
static bool is_repeated(enum mv_move_action_type type)
{
	return type == MV_DO_SEND || type == MV_DO_WANTED || type == MV_DO_QUIESCE ||
	       type == MV_DO_STANDBY;
}

struct mv_move_action *mv_move_push(struct mv_move *m, enum mv_move_action_type type)
{
	if (m->actions.next) {
		m->actions.n -= m->actions.next;
		memmove(m->actions.list, m->actions.list + m->actions.next,
			m->actions.n * sizeof(m->actions.list[0]));
		m->actions.next = 0;
	}
	if (is_repeated(type) && m->actions.n >= MV_MOVE_MAX_ACTIONS - RESERVED_ACTIONS)
		return NULL;
	assert(m->actions.n < MV_MOVE_MAX_ACTIONS);
	m->actions.list[m->actions.n] = (struct mv_move_action){.type = type};
	return &m->actions.list[m->actions.n++];
}

const struct mv_move_action *mv_move_peek(const struct mv_move *m)
{
	return m->actions.next == m->actions.n ? NULL : &m->actions.list[m->actions.next];
}

bool mv_move_next(struct mv_move *m, struct mv_move_action *ret)
{
	if (!mv_move_peek(m))
		return false;
	*ret = m->actions.list[m->actions.next++];
	return true;
}

void mv_move_set_state(struct mv_move *m, enum mv_move_state state)
{
	m->state = state;
	m->timers.resend_at = 0;
}

void mv_move_start_timer(struct mv_move *m, uint64_t now_ns)
{
	m->timers.resend_step = m->failover ? m->times->failover_resend_ns : m->times->resend_ns;
	m->timers.resend_at = now_ns + m->timers.resend_step;
}

void mv_move_enter(struct mv_move *m, enum mv_move_state state, uint64_t now_ns)
{
	mv_move_set_state(m, state);
	mv_move_start_timer(m, now_ns);
	mv_move_say(m);
}

/* ---- steps -------------------------------------------------------------------------------------
 */

void mv_move_release(struct mv_move *m)
{
	if (!m->prepared)
		return;
	m->prepared = false;
	mv_move_push(m, MV_DO_RELEASE);
}

void mv_move_prepare(struct mv_move *m, const union ibv_gid *local, const union ibv_gid *remote,
		     uint8_t type)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_PREPARE);

	mv_move_set_state(m, MV_MOVE_PREPARING);
	m->next.type = type;
	m->next.my_stays = false;
	m->next.peer.gid = *remote;
	action->local_gid = *local;
	action->remote_gid = *remote;
	action->gid_type = type;
}

static uint16_t smaller_known(uint16_t a, uint16_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

void mv_move_connect(struct mv_move *m)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_CONNECT);

	mv_move_set_state(m, MV_MOVE_CONNECTING);
	action->local_gid = m->next.mine.gid;
	action->remote_gid = m->next.peer.gid;
	action->gid_type = m->next.type;
	action->peer = m->next.peer;
	action->peer_lid = m->next.peer_lid;
	action->peer_stays = m->next.peer_stays;
	action->mtu_bytes = smaller_known(m->next.my_mtu_bytes, m->next.peer_mtu_bytes);
	action->sq_psn = m->next.my_psn;
	action->rq_psn = m->next.peer_psn;
}

void mv_move_activate(struct mv_move *m, bool timed_out)
{
	mv_move_set_state(m, MV_MOVE_ACTIVE);
	m->now = m->next;
	m->prepared = false;
	mv_move_push(m, MV_DO_ACTIVATE)->timed_out = timed_out;
}

void mv_move_set_passthrough(struct mv_move *m)
{
	m->now = (struct mv_move_path){.mine = m->local,
				       .peer = m->peer,
				       .type = m->local_type,
				       .my_stays = true,
				       .peer_stays = true,
				       .my_psn = MV_CTL_PSN_NONE,
				       .peer_psn = MV_CTL_PSN_NONE};
	mv_move_set_state(m, MV_MOVE_PASSTHROUGH);
}

static void passthrough_now(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action *action;

	mv_move_release(m);
	mv_move_set_passthrough(m);
	action = mv_move_push(m, MV_DO_PASSTHROUGH);
	action->reason = reason;
	action->timed_out = timed_out;
	action->gid_type = m->local_type;
}

void mv_move_go_passthrough(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell, bool timed_out)
{
	/* A peer that is not known yet would not understand; it will ask. */
	if (tell != MV_CTL_REASON_NONE && m->attempts.peer)
		mv_move_send(m, MV_CTL_REFUSE, 0, tell);
	if (!mv_move_busy(m)) {
		passthrough_now(m, reason, timed_out);
		return;
	}
	m->pending.what = MV_PENDING_PASSTHROUGH;
	m->pending.reason = (uint8_t)reason;
	m->pending.timed_out = timed_out;
}

void mv_move_restart(struct mv_move *m, uint64_t now_ns)
{
	if (mv_move_busy(m)) {
		if (m->pending.what == MV_PENDING_NONE)
			m->pending.what = MV_PENDING_RESTART;
		return;
	}
	mv_move_release(m);
	m->paths.current = 0;
	mv_move_set_state(m, MV_MOVE_ASKING);
	mv_move_start_timer(m, now_ns);
}

/* An outcome is known. Return: true: it no longer matters. */
static bool settle_pending(struct mv_move *m, uint64_t now_ns)
{
	uint8_t pending = m->pending.what;

	m->pending.what = MV_PENDING_NONE;
	if (pending == MV_PENDING_NONE)
		return false;
	mv_move_set_state(m, MV_MOVE_ASKING);
	if (pending == MV_PENDING_PASSTHROUGH) {
		passthrough_now(m, m->pending.reason, m->pending.timed_out);
	} else if (m->failover) {
		mv_move_settle_failover(m, pending, now_ns);
	} else {
		mv_move_restart(m, now_ns);
		mv_move_say(m);
	}
	return true;
}

void mv_move_try_path(struct mv_move *m, enum mv_ctl_reason reason)
{
	const struct mv_path *path = &m->paths.list[m->paths.current];

	if (m->paths.current < m->paths.n) {
		mv_move_prepare(m, &path->local_gid, &path->remote_gid, path->type);
		return;
	}
	/* No longer busy: the failure that led here was the outcome. */
	mv_move_set_state(m, MV_MOVE_ASKING);
	if (m->failover)
		mv_move_call_off(m, reason, reason, false);
	else
		mv_move_go_passthrough(m, reason, reason, false);
}

uint8_t mv_move_fitting_type(const struct mv_move *m, uint8_t peer_type)
{
	if (m->verdict != MV_PATH_ASK || peer_type != MV_GID_TYPE_ROCE_V2)
		return m->local_type;
	for (size_t i = 0; i < m->paths.n; i++)
		if ((m->paths.list[i].stays & 1) && m->paths.list[i].type == peer_type &&
		    mv_gid_equal(&m->paths.list[i].local_gid, &m->local.gid))
			return peer_type;
	return m->local_type;
}

uint32_t mv_move_psn(const struct mv_move *m, uint32_t offer)
{
	/* Spread, so that a late packet of an earlier QP with that number does not fit. */
	return mv_proof_psn(m->sq_psn, m->rq_psn, m->attempts.my_nonce, offer);
}

void mv_move_number(struct mv_move *m, uint32_t offer)
{
	m->last_offer = offer;
	m->next.offer = offer;
	m->next.my_psn = m->failover ? mv_move_psn(m, offer) : MV_CTL_PSN_NONE;
}

/* ---- what the program does ---------------------------------------------------------------------
 */

static bool leads(const struct mv_ctl_end *local, const struct mv_ctl_end *peer)
{
	int order = memcmp(local->gid.raw, peer->gid.raw, sizeof(local->gid.raw));

	return order ? order < 0 : local->qpn < peer->qpn;
}

void mv_move_take_paths(struct mv_move *m, const struct mv_path *paths, size_t n_paths)
{
	m->paths.n = (uint8_t)(n_paths < MV_MOVE_MAX_PATHS ? n_paths : MV_MOVE_MAX_PATHS);
	if (m->paths.n)
		memcpy(m->paths.list, paths, m->paths.n * sizeof(m->paths.list[0]));
	m->paths.current = 0;
}

static void begin_life(struct mv_move *m, const struct mv_move_begin *begin,
		       const struct mv_move_times *times, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	m->times = times;
	m->self = begin->local.qpn == begin->peer.qpn && mv_gid_equal(&begin->local.gid, &begin->peer.gid);
	m->leader = m->self || leads(&begin->local, &begin->peer);
	m->local = begin->local;
	m->peer = begin->peer;
	m->local_type = begin->local_type;
	m->attempts.mine = begin->attempt ? begin->attempt : 1;
	m->attempts.my_nonce = begin->nonce;
	m->sq_psn = MV_CTL_PSN_NONE;
	m->rq_psn = begin->rq_psn;
	m->next.my_psn = MV_CTL_PSN_NONE;
	m->next.peer_psn = MV_CTL_PSN_NONE;
	m->timers.begun_at = now_ns;
	m->timers.heard_at = now_ns;
}

void mv_move_adopt(struct mv_move *m, const struct mv_move_begin *begin, uint32_t sq_psn,
		   const struct mv_move_times *times, uint64_t now_ns)
{
	begin_life(m, begin, times, now_ns);
	m->sq_psn = sq_psn;
	mv_move_set_passthrough(m);
}

void mv_move_begin(struct mv_move *m, const struct mv_move_begin *begin,
		   const struct mv_move_times *times, uint64_t now_ns)
{
	begin_life(m, begin, times, now_ns);
	m->verdict = begin->verdict;
	mv_move_take_paths(m, begin->paths, begin->n_paths);
	/* A leader without paths does not keep the peer waiting. */
	if (m->leader && !m->paths.n && m->verdict != MV_PATH_ASK)
		mv_move_go_passthrough(m, MV_CTL_REASON_NO_PATH, MV_CTL_REASON_NONE, false);
	else
		mv_move_set_state(m, MV_MOVE_ASKING);
	/*
	 * A message of an end in RTR is sealed with one PSN only, which is easier to find by trying, so it is delayed.
	 */
	if (m->state == MV_MOVE_ASKING) {
		m->timers.resend_step = times->resend_ns / 2;
		m->timers.resend_at = now_ns + times->rtr_ns;
	}
}

void mv_move_rts(struct mv_move *m, uint32_t sq_psn, uint64_t now_ns)
{
	if (m->sq_psn == sq_psn)
		return;
	m->sq_psn = sq_psn;
	/* From now on messages are sealed with both PSNs, and the peer's can be opened. */
	if (m->timers.resend_at) {
		mv_move_start_timer(m, now_ns);
		mv_move_say(m);
	}
}

void mv_move_work_waits(struct mv_move *m, uint64_t now_ns)
{
	if (!m->timers.work_since)
		m->timers.work_since = now_ns ? now_ns : 1;
}

bool mv_move_bye(const struct mv_move *m, struct mv_ctl_msg *ret)
{
	if (m->state == MV_MOVE_IDLE || !m->attempts.peer)
		return false;
	mv_move_header(m, MV_CTL_BYE, ret);
	return true;
}

/* ---- outcomes ----------------------------------------------------------------------------------
 */

/* Follower: asks for another path, and waits for another offer. */
static void decline(struct mv_move *m, uint64_t now_ns)
{
	mv_move_set_state(m, MV_MOVE_ASKING);
	mv_move_start_timer(m, now_ns);
	mv_move_send(m, MV_CTL_ANSWER, 0, MV_CTL_REASON_NO_RESOURCES);
}

static void path_failed(struct mv_move *m, uint64_t now_ns)
{
	mv_move_release(m);
	if (m->leader && m->early) {
		mv_move_early_failed(m);
	} else if (m->leader) {
		m->paths.current++;
		mv_move_try_path(m, MV_CTL_REASON_NO_RESOURCES);
	} else if (m->failover) {
		mv_move_decline_failover(m, now_ns);
	} else {
		decline(m, now_ns);
	}
}

void mv_move_prepared(struct mv_move *m, const struct mv_ctl_end *mine, uint16_t lid,
		      uint16_t mtu_bytes, bool stays, uint64_t now_ns)
{
	if (m->state != MV_MOVE_PREPARING)
		return;
	if (mine) {
		m->prepared = true;
		m->next.mine = *mine;
		m->next.my_lid = lid;
		m->next.my_mtu_bytes = mtu_bytes;
		m->next.my_stays = stays;
	}
	if (settle_pending(m, now_ns))
		return;
	if (!mine) {
		path_failed(m, now_ns);
	} else if (m->self) {
		mv_move_answer_self(m);
		mv_move_connect(m);
	} else if (m->leader) {
		mv_move_number(m, m->last_offer + 1);
		mv_move_enter(m, MV_MOVE_OFFERED, now_ns);
	} else {
		mv_move_connect(m);
	}
}

void mv_move_connected(struct mv_move *m, bool ok, uint64_t now_ns)
{
	if (m->state != MV_MOVE_CONNECTING || settle_pending(m, now_ns))
		return;
	if (!ok) {
		path_failed(m, now_ns);
	} else if (m->failover) {
		mv_move_quiesce(m, now_ns);
	} else if (m->leader) {
		/* CONFIRM first: the peer can use the path while this end activates. */
		mv_move_send(m, MV_CTL_CONFIRM, MV_CTL_READY, MV_CTL_REASON_NONE);
		mv_move_activate(m, false);
	} else {
		m->timers.answered_at = now_ns;
		mv_move_enter(m, MV_MOVE_ANSWERED, now_ns);
	}
}

void mv_move_unreachable(struct mv_move *m, uint64_t now_ns)
{
	(void)now_ns;
	if (m->failover)
		return;
	switch (m->state) {
	case MV_MOVE_CONNECTING:
		if (m->leader)
			return;
		break;
	case MV_MOVE_ASKING:
	case MV_MOVE_PREPARING:
	case MV_MOVE_OFFERED:
		break;
	default:
		return;
	}
	mv_move_go_passthrough(m, MV_CTL_REASON_UNREACHABLE, MV_CTL_REASON_NONE, false);
}

void mv_move_undelivered(struct mv_move *m)
{
	m->undelivered = true;
}

/* ---- names -------------------------------------------------------------------------------------
 */

/* Words of meshverbs qps --json, which stay as they were when states got other names. */
const char *mv_move_state_name(enum mv_move_state state)
{
	switch (state) {
	case MV_MOVE_IDLE:
		return "idle";
	case MV_MOVE_ASKING:
		return "asking";
	case MV_MOVE_PREPARING:
		return "preparing";
	case MV_MOVE_OFFERED:
		return "offered";
	case MV_MOVE_CONNECTING:
		return "connecting";
	case MV_MOVE_ANSWERED:
		return "answered";
	case MV_MOVE_ACTIVE:
		return "active";
	case MV_MOVE_PASSTHROUGH:
		return "passthrough";
	case MV_MOVE_QUIESCING:
		return "quiescing";
	case MV_MOVE_DRAINING:
		return "draining";
	case MV_MOVE_DRAINED:
		return "drained";
	case MV_MOVE_FAILED:
		return "failed";
	}
	return "unknown";
}
