/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of the peer about a QP at work: move_failover.h has their order. */
#include "move_internal.h"
#include "move_failover.h"

/*
 * A message of another life of a peer that has named our present life. If its program has connected its QP anew, the QP
 * that ours is connected to is gone. Strangers may know the PSNs, so only a message that names us ends the move: naming
 * us needs our messages. Any other sender is asked to name us.
 */
static void meet_later_life(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (!mv_move_later(msg->attempt, m->attempts.peer))
		return;
	if (mv_move_names_us(m, msg))
		mv_move_call_off(m, MV_CTL_REASON_GONE, MV_CTL_REASON_NONE, false);
	else
		mv_move_send_hello_failover(m, msg->attempt, msg->nonce);
}

/*
 * Is the message from the peer's present life? A life that has never named ours may be a former one, while our QP is
 * connected to a later one. Nothing can have been agreed upon with such a life, so the move goes on with the later one.
 */
static bool adopt_attempt(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (!mv_move_is_present(m, msg) && m->attempts.peer) {
		if (m->attempts.peer_knows_us) {
			meet_later_life(m, msg);
			return false;
		}
		if (!mv_move_may_be_later(m, msg))
			return false;
	}
	mv_move_note_proof(m, msg);
	m->attempts.peer = msg->attempt;
	m->attempts.peer_nonce = msg->nonce;
	m->attempts.peer_knows_us = m->attempts.peer_knows_us || mv_move_names_us(m, msg);
	return true;
}

/* The message is about a move that is not known here, or no longer. */
static void refuse(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	enum mv_ctl_reason reason = m->call_off.reason ? m->call_off.reason : MV_CTL_REASON_HEALED;
	uint32_t number = msg->request_id;

	if (m->state == MV_MOVE_FAILED)
		reason = MV_CTL_REASON_GONE;
	if (!number)
		number = mv_move_number_to_refuse(m);
	mv_move_send_refusal(m, number, reason);
}

static bool is_failure(uint8_t reason)
{
	return reason == MV_CTL_REASON_PORT || reason == MV_CTL_REASON_PATH;
}

/* The worse reason of both ends counts: a failed path is not waited for. */
static void note_reason(struct mv_move *m, uint8_t reason)
{
	if (is_failure(reason))
		m->reason = reason;
}

static void want(struct mv_move *m, uint8_t reason)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_WANTED);

	if (action)
		action->reason = reason;
}

/* ---- one function for each type ----------------------------------------------------------------
 */

/* Did our OFFER cross the peer's HELLO? Both ends often hear of a port at the same time. */
static bool has_just_offered(const struct mv_move *m, uint64_t now_ns)
{
	return m->timers.resend_at &&
	       now_ns + m->timers.resend_step < m->timers.resend_at + m->times->failover_resend_ns / 2;
}

static void on_hello(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	bool asking = m->state == MV_MOVE_ASKING;

	if (msg->base != m->now.offer)
		return;
	if (!m->leader) {
		/* The leader asks for our attempt. */
		if (asking || mv_move_settled(m))
			mv_move_send_hello_failover(m, m->attempts.peer, m->attempts.peer_nonce);
		return;
	}
	if (m->state == MV_MOVE_DRAINING || m->state == MV_MOVE_DRAINED)
		return;
	if (msg->reason != MV_CTL_REASON_NONE && !mv_move_settled(m)) {
		m->wish.peer = true;
		/* The follower knows that the path is dead, or wants to leave a working path: then no hurry. */
		if (m->unsure && !is_failure(msg->reason)) {
			want(m, msg->reason);
			return;
		}
		note_reason(m, msg->reason);
		mv_move_sure(m, m->reason, now_ns);
	}
	if (asking) {
		mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
	} else if (m->state == MV_MOVE_OFFERED) {
		if (!has_just_offered(m, now_ns))
			mv_move_say(m);
	} else if (mv_move_settled(m) && msg->reason != MV_CTL_REASON_NONE) {
		m->wish.peer = true;
		want(m, msg->reason);
	}
}

static void on_offer(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	uint32_t n = msg->request_id;
	bool idle = mv_move_settled(m) || (m->failover && m->state == MV_MOVE_ASKING);
	bool answered = m->failover && m->state == MV_MOVE_ANSWERED;
	bool quiescing = m->state == MV_MOVE_QUIESCING;

	if (m->leader || !n)
		return;
	/* The leader has our SYNC and already leaves the path on which we are not yet, because its SYNC was lost. */
	if (m->state == MV_MOVE_DRAINED && msg->base == m->next.offer)
		mv_move_say(m);
	if (!idle && !answered && !quiescing)
		return;
	if (msg->base == m->now.offer && (!m->last_offer || mv_move_later(n, m->last_offer))) {
		if (!m->failover)
			mv_move_begin_failover(m, msg->reason, false, now_ns);
		m->timers.phase_since = now_ns; /* the time before the offer is not the leader's */
		/* So far there was only a suspicion. */
		if (m->unsure)
			m->reason = msg->reason;
		m->early = m->unsure = msg->flags & MV_CTL_ASKING;
		note_reason(m, msg->reason);
		mv_move_take_up(m, msg);
	} else if (answered && n == m->next.offer) {
		mv_move_say(m);
	} else if (idle && n == m->declined) {
		mv_move_send_decline(m);
	} else if (idle && n == m->last_offer && n != m->now.offer) {
		refuse(m, msg);
	}
}

static void on_answer(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	uint32_t n = msg->request_id;
	bool ready = msg->flags & MV_CTL_READY;

	if (!m->leader)
		return;
	if (mv_move_settled(m)) {
		if (n != m->now.offer && ready)
			refuse(m, msg);
		return;
	}
	if (n != m->last_offer)
		return;
	if (m->state == MV_MOVE_OFFERED && ready) {
		mv_move_take_answer(m, msg);
	} else if (m->state == MV_MOVE_OFFERED && m->early) {
		mv_move_release(m);
		mv_move_early_failed(m);
	} else if (m->state == MV_MOVE_OFFERED) {
		mv_move_release(m);
		m->paths.current++;
		mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
	} else if (m->state == MV_MOVE_DRAINING && ready) {
		mv_move_say_confirm(m);
	} else if (m->state == MV_MOVE_DRAINED && ready) {
		mv_move_say(m);
	}
}

static void on_confirm(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (m->leader || !(msg->flags & MV_CTL_READY))
		return;
	if (m->failover && m->state == MV_MOVE_ANSWERED && msg->request_id == m->next.offer)
		mv_move_drain(m, now_ns);
	else if (mv_move_settled(m) && msg->request_id != m->now.offer)
		refuse(m, msg);
}

static void on_sync(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	uint32_t n = msg->request_id;
	bool draining = m->state == MV_MOVE_DRAINING, drained = m->state == MV_MOVE_DRAINED;

	if (m->sync.mine_is_for_now && n == m->now.offer) {
		if (!(msg->flags & MV_CTL_READY))
			mv_move_send_sync(m, n, MV_CTL_READY);
		return;
	}
	if (mv_move_settled(m)) {
		if (n != m->now.offer)
			refuse(m, msg);
		return;
	}
	if (!m->failover || n != m->next.offer)
		return;
	/* A SYNC of the leader to a follower that has not got CONFIRM. */
	if (!m->leader && m->state == MV_MOVE_ANSWERED)
		mv_move_drain(m, now_ns);
	else if (!draining && !drained)
		return;
	m->sync.peer = (struct mv_move_sync){msg->next_psn, msg->n_received};
	m->sync.peer_valid = true;
	if (drained)
		mv_move_activate_failover(m);
}

/* The follower withdraws its wish. */
static void on_healed(struct mv_move *m)
{
	bool drained = m->state == MV_MOVE_DRAINING || m->state == MV_MOVE_DRAINED;

	m->wish.peer = false;
	if (m->failover && !drained && !m->wish.own)
		mv_move_call_off(m, MV_CTL_REASON_HEALED, MV_CTL_REASON_HEALED, false);
}

static void on_refuse(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	uint32_t n = msg->request_id;
	bool drained = m->state == MV_MOVE_DRAINING || m->state == MV_MOVE_DRAINED;
	bool current = n == m->last_offer && m->state != MV_MOVE_ASKING &&
		       !(m->leader && m->state == MV_MOVE_PREPARING);

	if (m->leader && msg->reason == MV_CTL_REASON_HEALED && !n) {
		on_healed(m);
		return;
	}
	/* From a follower that has got no offer. */
	if (m->leader && m->state == MV_MOVE_ASKING)
		current = true;
	/* From the leader: neither this offer nor an earlier one will come. */
	if (!m->leader && n && !drained && (!m->last_offer || mv_move_later(n, m->last_offer))) {
		m->last_offer = n;
		current = true;
	}
	if (current && m->failover && !mv_move_knows_enough(m))
		mv_move_call_off(m, msg->reason, MV_CTL_REASON_NONE, false);
}

/* A STANDBY for the same path as ours, with the expected number; otherwise it is late or early. */
static void on_standby(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	struct mv_move_action *action;

	if (!mv_move_settled(m) || msg->base != m->now.offer || msg->request_id != m->last_offer + 1)
		return;
	action = mv_move_push(m, MV_DO_STANDBY);
	if (!action)
		return;
	action->local_gid = msg->path_peer_gid;
	action->remote_gid = msg->path.gid;
	action->gid_type = msg->gid_type;
	action->peer = msg->path;
	action->peer_lid = msg->path_lid;
	action->mtu_bytes = msg->mtu_bytes;
	action->sq_psn = mv_move_psn(m, msg->request_id);
	action->rq_psn = msg->path_psn;
	action->answer = !(msg->flags & MV_CTL_READY);
}

/* ---- to whom? ----------------------------------------------------------------------------------
 */

/*
 * Our connect is not over, but the peer has a QP at work. Either this is its program's own QP, so the peer does not
 * negotiate. Or the peer is the leader, which is ACTIVE on our answer, and its CONFIRM was lost.
 *
 * Return: true: so this end is ACTIVE as well.
 */
static bool while_connecting(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (!mv_move_adopt_attempt(m, msg, now_ns))
		return false;
	m->timers.heard_at = now_ns;
	if (msg->type == MV_CTL_HELLO && !msg->base)
		mv_move_peer_is_passthrough(m, MV_CTL_REASON_PASSTHROUGH, msg->gid_type);
	if (msg->type != MV_CTL_OFFER || m->state != MV_MOVE_ANSWERED || m->leader ||
	    msg->base != m->next.offer)
		return false;
	mv_move_activate(m, false);
	return true;
}

void mv_move_failover_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	bool connecting = !m->failover && !mv_move_settled(m) && m->state != MV_MOVE_FAILED;
	bool asks = (msg->type == MV_CTL_HELLO || msg->type == MV_CTL_STANDBY) && !msg->to_attempt;

	if (!mv_move_names_us(m, msg) && !asks)
		return;
	if (connecting ? !while_connecting(m, msg, now_ns) : !adopt_attempt(m, msg))
		return;
	m->timers.heard_at = now_ns;
	if (m->state == MV_MOVE_FAILED) {
		if (msg->type != MV_CTL_REFUSE && msg->type != MV_CTL_STANDBY)
			refuse(m, msg);
		return;
	}
	switch (msg->type) {
	case MV_CTL_HELLO:
		on_hello(m, msg, now_ns);
		break;
	case MV_CTL_OFFER:
		on_offer(m, msg, now_ns);
		break;
	case MV_CTL_ANSWER:
		on_answer(m, msg);
		break;
	case MV_CTL_CONFIRM:
		on_confirm(m, msg, now_ns);
		break;
	case MV_CTL_SYNC:
		on_sync(m, msg, now_ns);
		break;
	case MV_CTL_REFUSE:
		on_refuse(m, msg);
		break;
	case MV_CTL_STANDBY:
		on_standby(m, msg);
		break;
	}
}
