/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Move of a QP at work: the caller's events, and the steps. Messages of the peer: move_failover_message.c. */
#include "move_failover.h"

#include <errno.h>

#include "move_internal.h"

/* ---- messages ----------------------------------------------------------------------------------
 */

static void put_sync(const struct mv_move *m, uint32_t offer, uint8_t flags,
		     const struct mv_move_sync *sync, struct mv_ctl_msg *ret)
{
	mv_move_header(m, MV_CTL_SYNC, ret);
	ret->flags = flags;
	ret->request_id = offer;
	ret->next_psn = sync->next_psn;
	ret->n_received = sync->n_received;
}

void mv_move_send_sync(struct mv_move *m, uint32_t offer, uint8_t flags)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (action)
		put_sync(m, offer, flags, &m->sync.mine, &action->msg);
}

bool mv_move_owes_sync(const struct mv_move *m)
{
	bool confirmed = m->state == MV_MOVE_DRAINING || m->state == MV_MOVE_DRAINED;

	return m->failover && !m->self && m->attempts.peer &&
	       (confirmed || (!m->leader && m->state == MV_MOVE_ANSWERED));
}

void mv_move_last_sync(const struct mv_move *m, const struct mv_move_sync *sync,
		       struct mv_ctl_msg *ret)
{
	put_sync(m, m->next.offer, MV_CTL_READY, sync, ret);
}

void mv_move_send_hello_failover(struct mv_move *m, uint32_t to_attempt, uint64_t to_nonce)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (!action)
		return;
	mv_move_header(m, MV_CTL_HELLO, &action->msg);
	action->msg.to_attempt = to_attempt;
	action->msg.to_nonce = to_nonce;
	action->msg.flags = MV_CTL_MOVE;
	action->msg.reason = m->wish.own ? m->reason : MV_CTL_REASON_NONE;
	action->msg.base = m->now.offer;
}

void mv_move_ask_failover(struct mv_move *m)
{
	bool knows = m->attempts.peer_knows_us;

	mv_move_send_hello_failover(m, knows ? m->attempts.peer : 0, knows ? m->attempts.peer_nonce : 0);
}

void mv_move_say_confirm(struct mv_move *m)
{
	mv_move_send(m, MV_CTL_CONFIRM, MV_CTL_READY, MV_CTL_REASON_NONE);
}

void mv_move_send_decline(struct mv_move *m)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (!action)
		return;
	mv_move_header(m, MV_CTL_ANSWER, &action->msg);
	action->msg.flags = MV_CTL_MOVE;
	action->msg.reason = MV_CTL_REASON_NO_RESOURCES;
	action->msg.request_id = m->declined;
	action->msg.base = m->now.offer;
}

void mv_move_send_refusal(struct mv_move *m, uint32_t number, enum mv_ctl_reason reason)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (!action)
		return;
	mv_move_header(m, MV_CTL_REFUSE, &action->msg);
	action->msg.flags = MV_CTL_MOVE;
	action->msg.reason = (uint8_t)reason;
	action->msg.request_id = number;
	action->msg.base = m->now.offer;
}

/* ---- how it ends -------------------------------------------------------------------------------
 */

static void end_failover(struct mv_move *m, enum mv_move_state state)
{
	mv_move_set_state(m, m->call_off.aborted ? MV_MOVE_FAILED : state);
	m->failover = false;
	m->wish.own = false;
	m->wish.peer = false;
	m->sync.peer_valid = false;
	m->unsure = false;
}

static struct mv_move_action *give_reason(struct mv_move *m, enum mv_move_action_type type,
					  enum mv_ctl_reason reason, bool timed_out)
{
	struct mv_move_action *action = mv_move_push(m, type);

	action->reason = reason;
	action->timed_out = timed_out;
	return action;
}

static void stay(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	bool unsure = m->unsure;

	mv_move_release(m);
	end_failover(m, m->call_off.settled);
	m->call_off.reason = (uint8_t)reason;
	give_reason(m, MV_DO_STAY, reason, timed_out)->unsure = unsure;
}

static void flush(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out)
{
	m->prepared = false; /* the caller examines it before it goes */
	end_failover(m, MV_MOVE_FAILED);
	give_reason(m, MV_DO_FLUSH, reason, timed_out);
}

void mv_move_activate_failover(struct mv_move *m)
{
	struct mv_move_action *action;

	m->now = m->next;
	m->prepared = false;
	m->sync.mine_is_for_now = true;
	action = mv_move_push(m, MV_DO_ACTIVATE);
	action->replay = true;
	action->next_psn = m->sync.peer.next_psn;
	action->n_received = m->sync.peer.n_received;
	end_failover(m, MV_MOVE_ACTIVE);
}

uint32_t mv_move_number_to_refuse(struct mv_move *m)
{
	if (m->leader && (m->state == MV_MOVE_ASKING || m->state == MV_MOVE_PREPARING ||
			  m->state == MV_MOVE_FAILED || mv_move_settled(m)))
		m->last_offer++;
	return m->last_offer;
}

void mv_move_call_off(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell,
		      bool timed_out)
{
	if (!m->failover || m->pending.what == MV_PENDING_OFF)
		return;
	if (tell != MV_CTL_REASON_NONE && m->attempts.peer)
		mv_move_send_refusal(m, mv_move_number_to_refuse(m), tell);
	if (mv_move_busy(m)) {
		m->pending.what = MV_PENDING_OFF;
		m->pending.reason = (uint8_t)reason;
		m->pending.timed_out = timed_out;
	} else if (m->state == MV_MOVE_DRAINED) {
		flush(m, reason, timed_out);
	} else {
		stay(m, reason, timed_out);
	}
}

void mv_move_settle_failover(struct mv_move *m, enum mv_move_pending pending, uint64_t now_ns)
{
	(void)now_ns;
	if (pending == MV_PENDING_OFF) {
		stay(m, m->pending.reason, m->pending.timed_out);
		return;
	}
	mv_move_release(m);
	m->paths.current = 0;
	mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
}

/* ---- steps -------------------------------------------------------------------------------------
 */

void mv_move_answer_self(struct mv_move *m)
{
	mv_move_number(m, m->last_offer + 1);
	m->next.peer = m->next.mine;
	m->next.peer_lid = m->next.my_lid;
	m->next.peer_mtu_bytes = m->next.my_mtu_bytes;
	m->next.peer_stays = m->next.my_stays;
	m->next.peer_psn = m->next.my_psn;
}

void mv_move_begin_failover(struct mv_move *m, enum mv_ctl_reason reason, bool own_wish, uint64_t now_ns)
{
	m->call_off.settled = m->state;
	m->failover = true;
	m->wish.own = own_wish;
	m->reason = (uint8_t)reason;
	m->timers.phase_since = now_ns;
	m->declined = 0;
	m->early = false;
	m->unsure = false;
}

void mv_move_decline_failover(struct mv_move *m, uint64_t now_ns)
{
	m->declined = m->next.offer;
	mv_move_send_decline(m);
	mv_move_set_state(m, MV_MOVE_ASKING);
	if (!m->wish.own) {
		stay(m, MV_CTL_REASON_NO_RESOURCES, false);
		return;
	}
	m->unsure = false;
	mv_move_start_timer(m, now_ns);
}

void mv_move_quiesce(struct mv_move *m, uint64_t now_ns)
{
	if (!m->unsure) {
		mv_move_enter(m, MV_MOVE_QUIESCING, now_ns);
	} else if (m->leader) {
		mv_move_set_state(m, MV_MOVE_QUIESCING); /* until mv_move_sure() */
	} else {
		m->timers.answered_at = now_ns;
		mv_move_enter(m, MV_MOVE_ANSWERED, now_ns);
		/* The leader does not need the answer now, and repeats its offer if the answer was lost. */
		m->timers.resend_step = m->times->failover_resend_max_ns;
		m->timers.resend_at = now_ns + m->timers.resend_step;
	}
}

void mv_move_quiesced(struct mv_move *m, bool many, uint64_t now_ns)
{
	if (m->state != MV_MOVE_QUIESCING || m->unsure)
		return;
	if (!m->leader) {
		m->timers.answered_at = now_ns;
		mv_move_enter(m, MV_MOVE_ANSWERED, now_ns);
		return;
	}
	/* The peer may have given up by the time CONFIRM arrives. */
	if (now_ns >= mv_move_give_up_at(m)) {
		mv_move_call_off(m, MV_CTL_REASON_BUSY, MV_CTL_REASON_BUSY, false);
		return;
	}
	/*
	 * CONFIRM first: the peer can drain at the same time. If many QPs move, messages are scarce, and our SYNC
	 * implies CONFIRM.
	 */
	if (!m->self && !many)
		mv_move_say_confirm(m);
	mv_move_drain(m, now_ns);
	if (!m->self && many)
		mv_move_start_timer(m, now_ns);
}

void mv_move_drain(struct mv_move *m, uint64_t now_ns)
{
	mv_move_set_state(m, MV_MOVE_DRAINING);
	m->unsure = false;
	m->timers.phase_since = now_ns;
	mv_move_push(m, MV_DO_DRAIN);
}

void mv_move_drained(struct mv_move *m, const struct mv_move_sync *sync, uint64_t now_ns)
{
	if (m->state != MV_MOVE_DRAINING)
		return;
	mv_move_set_state(m, MV_MOVE_DRAINED);
	if (m->pending.what == MV_PENDING_OFF) {
		m->pending.what = MV_PENDING_NONE;
		flush(m, m->pending.reason, m->pending.timed_out);
		return;
	}
	if (!sync) {
		mv_move_call_off(m, MV_CTL_REASON_UNREADABLE, MV_CTL_REASON_UNREADABLE, false);
		return;
	}
	m->sync.mine = *sync;
	m->sync.mine_is_for_now = false;
	if (m->self) {
		m->sync.peer = *sync;
		mv_move_activate_failover(m);
		return;
	}
	if (!m->sync.peer_valid) {
		mv_move_enter(m, MV_MOVE_DRAINED, now_ns);
		return;
	}
	mv_move_send_sync(m, m->next.offer, MV_CTL_READY);
	mv_move_activate_failover(m);
}

/* ---- what our caller wants ---------------------------------------------------------------------
 */

static void lead_or_ask(struct mv_move *m, uint64_t now_ns)
{
	if (m->self || (m->leader && (m->attempts.peer || !m->paths.n)))
		mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
	else
		mv_move_enter(m, MV_MOVE_ASKING, now_ns);
}

/* The QP is its own peer. */
static void stand_by(struct mv_move *m, const struct mv_ctl_end *mine, uint8_t type, uint16_t lid,
		     uint16_t mtu_bytes)
{
	struct mv_move_action *action = mv_move_settled(m) ? mv_move_push(m, MV_DO_STANDBY) : NULL;

	if (!action)
		return;
	action->local_gid = mine->gid;
	action->remote_gid = mine->gid;
	action->gid_type = type;
	action->peer = *mine;
	action->peer_lid = lid;
	action->mtu_bytes = mtu_bytes;
	action->sq_psn = mv_move_psn(m, m->last_offer + 1);
	action->rq_psn = action->sq_psn;
}

void mv_move_tell_standby(struct mv_move *m, const struct mv_ctl_end *mine, const union ibv_gid *peer_gid, uint8_t type,
			  uint16_t lid, uint16_t mtu_bytes, bool ready)
{
	struct mv_move_action *action;
	struct mv_ctl_msg *msg;

	if (m->self) {
		stand_by(m, mine, type, lid, mtu_bytes);
		return;
	}
	action = mv_move_settled(m) ? mv_move_push(m, MV_DO_SEND) : NULL;
	if (!action)
		return;
	msg = &action->msg;
	mv_move_header(m, MV_CTL_STANDBY, msg);
	msg->flags = MV_CTL_MOVE | (ready ? MV_CTL_READY : 0);
	msg->gid_type = type;
	msg->request_id = m->last_offer + 1;
	msg->base = m->now.offer;
	msg->path = *mine;
	msg->path_peer_gid = *peer_gid;
	msg->path_lid = lid;
	msg->mtu_bytes = mtu_bytes;
	msg->path_psn = mv_move_psn(m, msg->request_id);
}

/* Other paths, while the move is negotiated. A follower's caller checks each path that the leader offers. */
static void start_again(struct mv_move *m, uint64_t now_ns)
{
	if (!m->leader) {
		if (m->unsure)
			mv_move_send_hello_failover(m, m->attempts.peer, m->attempts.peer_nonce);
		return;
	}
	m->early = false;
	m->unsure = false;
	if (mv_move_busy(m)) {
		if (m->pending.what == MV_PENDING_NONE)
			m->pending.what = MV_PENDING_RESTART;
		return;
	}
	mv_move_release(m);
	lead_or_ask(m, now_ns);
}

int mv_move_start(struct mv_move *m, enum mv_ctl_reason reason, const struct mv_path *paths,
		  size_t n_paths, uint64_t now_ns)
{
	if (m->state == MV_MOVE_IDLE || m->state == MV_MOVE_FAILED)
		return -EINVAL;
	if (!mv_move_settled(m) && (!m->failover || m->state == MV_MOVE_DRAINING || m->state == MV_MOVE_DRAINED))
		return -EBUSY;
	mv_move_take_paths(m, paths, n_paths);
	if (m->failover) {
		m->wish.own = true;
		m->reason = (uint8_t)reason;
		start_again(m, now_ns);
		return 0;
	}
	mv_move_begin_failover(m, reason, true, now_ns);
	lead_or_ask(m, now_ns);
	return 0;
}

int mv_move_expect(struct mv_move *m, const struct mv_path *paths, size_t n_paths, uint64_t now_ns)
{
	if (m->state == MV_MOVE_IDLE || m->state == MV_MOVE_FAILED || !m->leader || m->self)
		return -EINVAL;
	if (!mv_move_settled(m))
		return -EBUSY;
	mv_move_take_paths(m, paths, n_paths);
	mv_move_begin_failover(m, MV_CTL_REASON_PATH, true, now_ns);
	m->early = true;
	m->unsure = true;
	lead_or_ask(m, now_ns);
	return 0;
}

void mv_move_sure(struct mv_move *m, enum mv_ctl_reason reason, uint64_t now_ns)
{
	if (!m->leader || !m->unsure)
		return;
	m->unsure = false;
	m->reason = (uint8_t)reason;
	if (m->state == MV_MOVE_QUIESCING)
		mv_move_enter(m, MV_MOVE_QUIESCING, now_ns);
}

void mv_move_early_failed(struct mv_move *m)
{
	if (m->unsure) {
		mv_move_set_state(m, MV_MOVE_ASKING); /* no longer busy */
		mv_move_call_off(m, MV_CTL_REASON_NO_RESOURCES, MV_CTL_REASON_NO_RESOURCES, false);
	} else {
		m->early = false;
		mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
	}
}

void mv_move_cancel(struct mv_move *m, uint64_t now_ns)
{
	(void)now_ns;
	if (!m->failover || !m->wish.own || m->state == MV_MOVE_DRAINING || m->state == MV_MOVE_DRAINED)
		return;
	m->wish.own = false;
	if (m->leader) {
		if (!m->wish.peer || m->unsure)
			mv_move_call_off(m, MV_CTL_REASON_HEALED, MV_CTL_REASON_HEALED, false);
		return;
	}
	/* Only the leader can end a move that it has begun. */
	if (m->attempts.peer)
		mv_move_send_refusal(m, 0, MV_CTL_REASON_HEALED);
	if (m->state == MV_MOVE_ASKING)
		mv_move_call_off(m, MV_CTL_REASON_HEALED, MV_CTL_REASON_NONE, false);
}

void mv_move_refuse(struct mv_move *m, enum mv_ctl_reason reason, uint64_t now_ns)
{
	(void)now_ns;
	if (m->state == MV_MOVE_PREPARING && m->failover) {
		/* Nothing was made: this is the outcome of PREPARE. */
		mv_move_set_state(m, MV_MOVE_ASKING);
		m->pending.what = MV_PENDING_NONE;
		mv_move_call_off(m, reason, reason, false);
	} else if (m->state == MV_MOVE_QUIESCING || (m->unsure && (m->leader || m->state == MV_MOVE_ANSWERED))) {
		m->wish.peer = false;
		mv_move_call_off(m, reason, reason, false);
	} else if (mv_move_settled(m) && m->leader && m->attempts.peer) {
		m->wish.peer = false;
		mv_move_send_refusal(m, mv_move_number_to_refuse(m), reason);
	}
}

void mv_move_abort(struct mv_move *m, uint64_t now_ns)
{
	(void)now_ns;
	m->call_off.aborted = true;
	if (m->failover)
		mv_move_call_off(m, MV_CTL_REASON_GONE, MV_CTL_REASON_GONE, false);
	else if (mv_move_settled(m))
		mv_move_set_state(m, MV_MOVE_FAILED);
}
