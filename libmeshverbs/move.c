/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "move.h"

#include <assert.h>
#include <string.h>

#include "move_internal.h"

#define MS 1000000ull

const struct mv_move_times mv_move_default_times = {
	.resend_ns = 2 * MS,
	.resend_max_ns = 500 * MS,
	.ask_ns = 2000 * MS,
	.give_up_ns = 10000 * MS,
};

/* Room that messages leave: between two drains come at most RELEASE, PREPARE and one more. */
#define RESERVED_ACTIONS 3

/* ---- actions -----------------------------------------------------------------------------------
 */

/* Return: NULL for a message too many, which is as good as lost. */
static struct mv_move_action *push(struct mv_move *m, enum mv_move_action_type type)
{
	if (m->next_action) {
		m->n_actions -= m->next_action;
		memmove(m->actions, m->actions + m->next_action,
			m->n_actions * sizeof(m->actions[0]));
		m->next_action = 0;
	}
	if (type == MV_DO_SEND && m->n_actions >= MV_MOVE_MAX_ACTIONS - RESERVED_ACTIONS)
		return NULL;
	assert(m->n_actions < MV_MOVE_MAX_ACTIONS);
	m->actions[m->n_actions] = (struct mv_move_action){.type = type};
	return &m->actions[m->n_actions++];
}

const struct mv_move_action *mv_move_peek(const struct mv_move *m)
{
	return m->next_action == m->n_actions ? NULL : &m->actions[m->next_action];
}

bool mv_move_next(struct mv_move *m, struct mv_move_action *ret)
{
	if (!mv_move_peek(m))
		return false;
	*ret = m->actions[m->next_action++];
	return true;
}

void mv_move_header(const struct mv_move *m, enum mv_ctl_type type, struct mv_ctl_msg *ret)
{
	*ret = (struct mv_ctl_msg){.type = (uint8_t)type,
				   .gid_type = m->local_type,
				   .attempt = m->attempt,
				   .to_attempt = m->peer_attempt,
				   .from = m->local,
				   .to = m->peer,
				   .from_psn = m->sq_psn,
				   .to_psn = m->rq_psn};
}

/* Our end of the path, for OFFER, ANSWER and CONFIRM. */
static void put_path(const struct mv_move *m, struct mv_ctl_msg *msg)
{
	msg->gid_type = m->path_type;
	msg->request_id = m->offer;
	msg->path = m->my_path;
	msg->path_peer_gid = m->peer_path.gid;
	msg->path_lid = m->my_lid;
	msg->mtu_bytes = m->my_mtu_bytes;
	if (m->my_stays)
		msg->flags |= MV_CTL_STAYS;
}

void mv_move_send_message(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	struct mv_move_action *action = push(m, MV_DO_SEND);

	if (action)
		action->msg = *msg;
}

void mv_move_send(struct mv_move *m, enum mv_ctl_type type, uint8_t flags,
		  enum mv_ctl_reason reason)
{
	struct mv_move_action *action = push(m, MV_DO_SEND);

	if (!action)
		return;
	mv_move_header(m, type, &action->msg);
	action->msg.flags = flags;
	action->msg.reason = (uint8_t)reason;
	if (type == MV_CTL_OFFER || type == MV_CTL_ANSWER || type == MV_CTL_CONFIRM)
		put_path(m, &action->msg);
}

void mv_move_say(struct mv_move *m)
{
	if (m->state == MV_MOVE_ASKING)
		mv_move_send(m, MV_CTL_HELLO, m->verdict == MV_PATH_ASK ? MV_CTL_ASKING : 0,
			     MV_CTL_REASON_NONE);
	else if (m->state == MV_MOVE_OFFERED)
		mv_move_send(m, MV_CTL_OFFER, 0, MV_CTL_REASON_NONE);
	else if (m->state == MV_MOVE_ANSWERED)
		mv_move_send(m, MV_CTL_ANSWER, MV_CTL_READY, MV_CTL_REASON_NONE);
}

static void set_state(struct mv_move *m, enum mv_move_state state)
{
	m->state = state;
	m->resend_at = 0;
}

static void start_timer(struct mv_move *m, uint64_t now_ns)
{
	m->resend_step = m->times->resend_ns;
	m->resend_at = now_ns + m->resend_step;
}

void mv_move_enter(struct mv_move *m, enum mv_move_state state, uint64_t now_ns)
{
	set_state(m, state);
	start_timer(m, now_ns);
	mv_move_say(m);
}

/* ---- steps -------------------------------------------------------------------------------------
 */

void mv_move_release(struct mv_move *m)
{
	if (!m->prepared)
		return;
	m->prepared = false;
	m->my_stays = false;
	push(m, MV_DO_RELEASE);
}

void mv_move_prepare(struct mv_move *m, const union ibv_gid *local, const union ibv_gid *remote,
		     uint8_t type)
{
	struct mv_move_action *action = push(m, MV_DO_PREPARE);

	set_state(m, MV_MOVE_PREPARING);
	m->path_type = type;
	m->peer_path.gid = *remote;
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
	struct mv_move_action *action = push(m, MV_DO_CONNECT);

	set_state(m, MV_MOVE_CONNECTING);
	action->local_gid = m->my_path.gid;
	action->remote_gid = m->peer_path.gid;
	action->gid_type = m->path_type;
	action->peer = m->peer_path;
	action->peer_lid = m->peer_lid;
	action->peer_stays = m->peer_stays;
	action->mtu_bytes = smaller_known(m->my_mtu_bytes, m->peer_mtu_bytes);
}

void mv_move_activate(struct mv_move *m, bool timed_out)
{
	set_state(m, MV_MOVE_ACTIVE);
	push(m, MV_DO_ACTIVATE)->timed_out = timed_out;
}

static void native_now(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action *action;

	mv_move_release(m);
	set_state(m, MV_MOVE_NATIVE);
	action = push(m, MV_DO_NATIVE);
	action->reason = reason;
	action->timed_out = timed_out;
	action->gid_type = m->local_type;
}

void mv_move_go_native(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell,
		       bool timed_out)
{
	/* A peer that has not been heard of could not tell whom we mean; it will ask. */
	if (tell != MV_CTL_REASON_NONE && m->peer_attempt)
		mv_move_send(m, MV_CTL_REFUSE, 0, tell);
	if (!mv_move_busy(m)) {
		native_now(m, reason, timed_out);
		return;
	}
	m->pending = MV_PENDING_NATIVE;
	m->pending_reason = (uint8_t)reason;
	m->pending_timed_out = timed_out;
}

void mv_move_restart(struct mv_move *m, uint64_t now_ns)
{
	if (mv_move_busy(m)) {
		if (m->pending == MV_PENDING_NONE)
			m->pending = MV_PENDING_RESTART;
		return;
	}
	mv_move_release(m);
	m->path = 0;
	set_state(m, MV_MOVE_ASKING);
	start_timer(m, now_ns);
}

/* An outcome is there. Return: true when it does not matter any more. */
static bool settle_pending(struct mv_move *m, uint64_t now_ns)
{
	uint8_t pending = m->pending;

	m->pending = MV_PENDING_NONE;
	if (pending == MV_PENDING_NONE)
		return false;
	set_state(m, MV_MOVE_ASKING);
	if (pending == MV_PENDING_NATIVE) {
		native_now(m, m->pending_reason, m->pending_timed_out);
	} else {
		mv_move_restart(m, now_ns);
		mv_move_say(m);
	}
	return true;
}

void mv_move_try_path(struct mv_move *m, enum mv_ctl_reason reason)
{
	const struct mv_path *path = &m->paths[m->path];

	if (m->path < m->n_paths) {
		mv_move_prepare(m, &path->local_gid, &path->remote_gid, path->type);
		return;
	}
	/* Not busy any more: the failure that led here was its outcome. */
	set_state(m, MV_MOVE_ASKING);
	mv_move_go_native(m, reason, reason, false);
}

uint8_t mv_move_fitting_type(const struct mv_move *m, uint8_t peer_type)
{
	if (m->verdict != MV_PATH_ASK || peer_type != MV_GID_TYPE_ROCE_V2)
		return m->local_type;
	for (size_t i = 0; i < m->n_paths; i++)
		if ((m->paths[i].stays & 1) && m->paths[i].type == peer_type &&
		    mv_gid_equal(&m->paths[i].local_gid, &m->local.gid))
			return peer_type;
	return m->local_type;
}

/* ---- what the program does ---------------------------------------------------------------------
 */

static bool leads(const struct mv_ctl_end *local, const struct mv_ctl_end *peer)
{
	int order = memcmp(local->gid.raw, peer->gid.raw, sizeof(local->gid.raw));

	return order ? order < 0 : local->qpn < peer->qpn;
}

void mv_move_begin(struct mv_move *m, const struct mv_move_begin *begin,
		   const struct mv_move_times *times, uint64_t now_ns)
{
	size_t n_paths = begin->n_paths < MV_MOVE_MAX_PATHS ? begin->n_paths : MV_MOVE_MAX_PATHS;

	memset(m, 0, sizeof(*m));
	m->times = times;
	m->leader = leads(&begin->local, &begin->peer);
	m->verdict = begin->verdict;
	m->local = begin->local;
	m->peer = begin->peer;
	m->local_type = begin->local_type;
	m->attempt = begin->attempt ? begin->attempt : 1;
	m->sq_psn = MV_CTL_PSN_NONE;
	m->rq_psn = begin->rq_psn;
	if (n_paths)
		memcpy(m->paths, begin->paths, n_paths * sizeof(m->paths[0]));
	m->n_paths = (uint8_t)n_paths;
	m->begun_at = now_ns;
	m->heard_at = now_ns;
	/* A leader that has nothing to offer need not keep anybody waiting. */
	if (m->leader && !n_paths && m->verdict != MV_PATH_ASK)
		mv_move_go_native(m, MV_CTL_REASON_NO_PATH, MV_CTL_REASON_NONE, false);
	else
		mv_move_enter(m, MV_MOVE_ASKING, now_ns);
}

void mv_move_rts(struct mv_move *m, uint32_t sq_psn, uint64_t now_ns)
{
	if (m->sq_psn == sq_psn)
		return;
	m->sq_psn = sq_psn;
	/* The PSN may be the proof that the peer has been waiting for. */
	if (m->resend_at) {
		start_timer(m, now_ns);
		mv_move_say(m);
	}
}

void mv_move_work_waits(struct mv_move *m, uint64_t now_ns)
{
	if (!m->work_since)
		m->work_since = now_ns ? now_ns : 1;
}

bool mv_move_bye(const struct mv_move *m, struct mv_ctl_msg *ret)
{
	if (m->state == MV_MOVE_IDLE || !m->peer_attempt)
		return false;
	mv_move_header(m, MV_CTL_BYE, ret);
	return true;
}

/* ---- outcomes ----------------------------------------------------------------------------------
 */

/* Follower: asks for another path, and goes on waiting for an offer. */
static void decline(struct mv_move *m, uint64_t now_ns)
{
	set_state(m, MV_MOVE_ASKING);
	start_timer(m, now_ns);
	mv_move_send(m, MV_CTL_ANSWER, 0, MV_CTL_REASON_NO_RESOURCES);
}

static void path_failed(struct mv_move *m, uint64_t now_ns)
{
	mv_move_release(m);
	if (m->leader) {
		m->path++;
		mv_move_try_path(m, MV_CTL_REASON_NO_RESOURCES);
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
		m->my_path = *mine;
		m->my_lid = lid;
		m->my_mtu_bytes = mtu_bytes;
		m->my_stays = stays;
	}
	if (settle_pending(m, now_ns))
		return;
	if (!mine) {
		path_failed(m, now_ns);
	} else if (m->leader) {
		m->offer++;
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
	} else if (m->leader) {
		/* The peer first: it can use the path while our own work is being posted. */
		mv_move_send(m, MV_CTL_CONFIRM, MV_CTL_READY, MV_CTL_REASON_NONE);
		mv_move_activate(m, false);
	} else {
		m->answered_at = now_ns;
		mv_move_enter(m, MV_MOVE_ANSWERED, now_ns);
	}
}

void mv_move_unreachable(struct mv_move *m, uint64_t now_ns)
{
	(void)now_ns;
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
	mv_move_go_native(m, MV_CTL_REASON_UNREACHABLE, MV_CTL_REASON_NONE, false);
}

void mv_move_undelivered(struct mv_move *m)
{
	m->undelivered = true;
}

/* ---- time --------------------------------------------------------------------------------------
 */

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* When waiting ends, whatever it was for; UINT64_MAX: not at all. */
static uint64_t give_up_at(const struct mv_move *m)
{
	uint64_t at = UINT64_MAX;

	if (m->state == MV_MOVE_IDLE || m->state == MV_MOVE_ACTIVE || m->state == MV_MOVE_NATIVE ||
	    m->pending == MV_PENDING_NATIVE)
		return UINT64_MAX;
	if (m->work_since)
		at = m->times->give_up_ns + (m->state == MV_MOVE_ANSWERED
						     ? later_of(m->work_since, m->answered_at)
						     : m->work_since);
	if (m->state == MV_MOVE_ASKING && m->verdict == MV_PATH_ASK)
		at = earlier_of(at, later_of(m->begun_at, m->heard_at) + m->times->ask_ns);
	return at;
}

uint64_t mv_move_deadline(const struct mv_move *m)
{
	uint64_t at = give_up_at(m);

	return m->resend_at ? earlier_of(at, m->resend_at) : at;
}

void mv_move_tick(struct mv_move *m, uint64_t now_ns)
{
	if (now_ns >= give_up_at(m)) {
		if (m->state == MV_MOVE_ANSWERED)
			mv_move_activate(m, true);
		else
			mv_move_go_native(m,
					  m->undelivered ? MV_CTL_REASON_UNREACHABLE : MV_CTL_REASON_NONE,
					  MV_CTL_REASON_NATIVE, true);
		return;
	}
	if (!m->resend_at || now_ns < m->resend_at)
		return;
	m->resend_step = earlier_of(2 * m->resend_step, m->times->resend_max_ns);
	m->resend_at = now_ns + m->resend_step;
	mv_move_say(m);
}

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
	case MV_MOVE_NATIVE:
		return "native";
	}
	return "unknown";
}
