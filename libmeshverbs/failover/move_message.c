/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of the peer during a connect: move.h has their order. */
#include "move.h"

#include "move_internal.h"
#include "proof.h"

/* ---- whose message is it? ----------------------------------------------------------------------
 */

static bool same_end(const struct mv_ctl_end *a, const struct mv_ctl_end *b)
{
	return a->qpn == b->qpn && mv_gid_equal(&a->gid, &b->gid);
}

static bool is_known(uint32_t psn)
{
	return psn != MV_CTL_PSN_NONE;
}

/*
 * Each program has told the other its first PSN, so one end's sq_psn is the other end's rq_psn. Return: mask of enum
 * mv_proof; 0: nothing proven.
 */
static uint8_t shown_by(uint32_t sq_psn, uint32_t rq_psn, const struct mv_ctl_msg *msg)
{
	bool its = is_known(msg->from_psn), ours = is_known(msg->to_psn);

	if ((its && msg->from_psn != rq_psn) || (ours && msg->to_psn != sq_psn))
		return 0;
	return (its ? MV_PROOF_FROM : 0) | (ours ? MV_PROOF_TO : 0);
}

static bool has_our_ends(const struct mv_ctl_end *local, const struct mv_ctl_end *peer, const struct mv_ctl_msg *msg)
{
	return same_end(&msg->to, local) && same_end(&msg->from, peer);
}

static bool is_ours(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	uint8_t shown = shown_by(m->sq_psn, m->rq_psn, msg);

	return has_our_ends(&m->local, &m->peer, msg) && shown && shown >= m->attempts.peer_shown;
}

bool mv_move_is_from_peer(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	return m->state != MV_MOVE_IDLE && m->attempts.peer && mv_move_is_present(m, msg) &&
	       mv_move_names_us(m, msg) && is_ours(m, msg);
}

void mv_move_note_proof(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	m->attempts.peer_shown = shown_by(m->sq_psn, m->rq_psn, msg);
}

/* ---- a passthrough end ------------------------------------------------------------------------------
 */

bool mv_move_answer_passthrough(const struct mv_ctl_end *local, const struct mv_ctl_end *peer, uint8_t local_type,
				uint32_t sq_psn, uint32_t rq_psn, uint32_t attempt, uint64_t nonce,
				const struct mv_ctl_msg *msg, struct mv_ctl_msg *ret)
{
	bool hello = msg->type == MV_CTL_HELLO && !(msg->flags & MV_CTL_PASSTHROUGH);
	uint8_t shown = shown_by(sq_psn, rq_psn, msg);

	if (!hello && msg->type != MV_CTL_OFFER && msg->type != MV_CTL_ANSWER)
		return false;
	if (!has_our_ends(local, peer, msg) || !(shown || (!is_known(sq_psn) && mv_proof_is_whole(msg))))
		return false;
	*ret = (struct mv_ctl_msg){.type = hello ? MV_CTL_HELLO : MV_CTL_REFUSE,
				   .flags = hello ? MV_CTL_PASSTHROUGH : 0,
				   .reason = hello ? MV_CTL_REASON_NONE : MV_CTL_REASON_PASSTHROUGH,
				   .gid_type = local_type,
				   .attempt = attempt,
				   .to_attempt = msg->attempt,
				   .nonce = nonce,
				   .to_nonce = msg->nonce,
				   .from = *local,
				   .to = *peer,
				   .from_psn = sq_psn,
				   .to_psn = shown == MV_PROOF_TO ? MV_CTL_PSN_NONE : rq_psn};
	return true;
}

static void answer_passthrough(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	struct mv_ctl_msg answer;

	/* A later life of the peer's QP. If our program resets its own QP, too, the two can negotiate. If not, nothing helps. */
	if (m->attempts.peer && !mv_move_is_present(m, msg))
		return;
	if (mv_move_answer_passthrough(&m->local, &m->peer, m->local_type, m->sq_psn, m->rq_psn, m->attempts.mine,
				       m->attempts.my_nonce, msg, &answer))
		mv_move_send_message(m, &answer);
}

/* ---- which life of the peer's QP? --------------------------------------------------------------
 */

/* A later life of the peer begins. */
static void start_over(struct mv_move *m, uint64_t now_ns)
{
	switch (m->state) {
	case MV_MOVE_PREPARING:
	case MV_MOVE_OFFERED:
		/* The leader's QP is not connected yet, so it can be used. */
		if (m->leader)
			return;
		break;
	case MV_MOVE_CONNECTING:
	case MV_MOVE_ANSWERED:
		break;
	default:
		return;
	}
	mv_move_restart(m, now_ns);
}

bool mv_move_adopt_attempt(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (mv_move_is_present(m, msg)) {
		mv_move_note_proof(m, msg);
		m->attempts.peer_knows_us = m->attempts.peer_knows_us || mv_move_names_us(m, msg);
		return true;
	}
	if (m->attempts.peer && !mv_move_may_be_later(m, msg))
		return false;
	mv_move_note_proof(m, msg);
	m->attempts.peer = msg->attempt;
	m->attempts.peer_nonce = msg->nonce;
	m->attempts.peer_knows_us = mv_move_names_us(m, msg);
	if (!m->leader)
		m->last_offer = 0;
	start_over(m, now_ns);
	return true;
}

/* ---- one function for each type ----------------------------------------------------------------
 */

void mv_move_peer_is_passthrough(struct mv_move *m, enum mv_ctl_reason reason, uint8_t peer_type)
{
	uint8_t type = mv_move_fitting_type(m, peer_type);

	/* The peer has answered, and does not go passthrough without the leader's word. */
	if (m->leader && m->state == MV_MOVE_CONNECTING)
		return;
	if (m->verdict == MV_PATH_ASK && type == peer_type)
		reason = MV_CTL_REASON_NONE;
	m->local_type = type;
	mv_move_go_passthrough(m, reason, MV_CTL_REASON_NONE, false);
}

/* Leader: both ends only asked for the other's RoCE version. No move is needed. */
static void decide_for_both(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	m->local_type = mv_move_fitting_type(m, msg->gid_type);
	mv_move_send(m, MV_CTL_HELLO, MV_CTL_PASSTHROUGH, MV_CTL_REASON_NONE);
	mv_move_go_passthrough(m, MV_CTL_REASON_NONE, MV_CTL_REASON_NONE, false);
}

static void on_hello(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (msg->flags & MV_CTL_PASSTHROUGH) {
		mv_move_peer_is_passthrough(
			m, msg->reason == MV_CTL_REASON_GONE ? MV_CTL_REASON_GONE : MV_CTL_REASON_PASSTHROUGH,
			msg->gid_type);
	} else if (!m->leader) {
		/* The leader may have missed our HELLO. */
		if (m->state == MV_MOVE_ASKING)
			mv_move_say(m);
	} else if (m->state == MV_MOVE_OFFERED) {
		mv_move_say(m);
	} else if (m->state == MV_MOVE_ASKING) {
		if (m->verdict == MV_PATH_ASK && (msg->flags & MV_CTL_ASKING))
			decide_for_both(m, msg);
		else
			mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
	}
}

void mv_move_take_up(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	mv_move_release(m);
	mv_move_number(m, msg->request_id);
	m->next.mine = (struct mv_ctl_end){.gid = msg->path_peer_gid};
	m->next.peer = msg->path;
	m->next.peer_lid = msg->path_lid;
	m->next.peer_mtu_bytes = msg->mtu_bytes;
	m->next.peer_stays = !!(msg->flags & MV_CTL_STAYS);
	m->next.peer_psn = m->failover ? msg->path_psn : MV_CTL_PSN_NONE;
	mv_move_prepare(m, &msg->path_peer_gid, &msg->path.gid, msg->gid_type);
}

static void on_offer(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (m->leader || !msg->request_id)
		return;
	if (m->state != MV_MOVE_ASKING && m->state != MV_MOVE_ANSWERED)
		return;
	if (!m->last_offer || mv_move_later(msg->request_id, m->last_offer))
		mv_move_take_up(m, msg);
	else if (msg->request_id != m->last_offer)
		return;
	else if (m->state == MV_MOVE_ANSWERED)
		mv_move_say(m);
	else
		mv_move_send(m, MV_CTL_ANSWER, 0, MV_CTL_REASON_NO_RESOURCES);
}

void mv_move_take_answer(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	m->next.peer = msg->path;
	m->next.peer_lid = msg->path_lid;
	m->next.peer_mtu_bytes = msg->mtu_bytes;
	m->next.peer_stays = !!(msg->flags & MV_CTL_STAYS);
	m->next.peer_psn = m->failover ? msg->path_psn : MV_CTL_PSN_NONE;
	mv_move_connect(m);
}

static void on_answer(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (!m->leader || msg->request_id != m->last_offer || m->state != MV_MOVE_OFFERED)
		return;
	if (msg->flags & MV_CTL_READY) {
		mv_move_take_answer(m, msg);
	} else {
		mv_move_release(m);
		m->paths.current++;
		mv_move_try_path(m, MV_CTL_REASON_NO_PATH);
	}
}

static void on_confirm(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (m->state == MV_MOVE_ANSWERED && msg->request_id == m->last_offer &&
	    (msg->flags & MV_CTL_READY))
		mv_move_activate(m, false);
}

static void on_bye(struct mv_move *m, uint64_t now_ns)
{
	if (m->state == MV_MOVE_ANSWERED) {
		mv_move_activate(m, true);
		return;
	}
	if (m->state == MV_MOVE_OFFERED || mv_move_busy(m))
		mv_move_restart(m, now_ns);
	/* Its program may connect again, but hardly within milliseconds. */
	if (m->state == MV_MOVE_ASKING) {
		m->timers.resend_step = m->times->resend_max_ns;
		m->timers.resend_at = now_ns + m->timers.resend_step;
	}
}

/* A HELLO that asks makes no claim, and may not know our present life. */
static bool is_question(const struct mv_ctl_msg *msg)
{
	return msg->type == MV_CTL_HELLO && !(msg->flags & MV_CTL_PASSTHROUGH);
}

/* ---- an end that is done -----------------------------------------------------------------------
 */

/* The peer does not know yet that the connect is over. A follower that is ACTIVE without CONFIRM has given up waiting. */
static void repeat_outcome(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	if (msg->request_id != m->now.offer)
		return;
	if (m->leader && msg->type == MV_CTL_ANSWER && (msg->flags & MV_CTL_READY))
		mv_move_repeat(m, MV_CTL_CONFIRM);
	else if (!m->leader && msg->type == MV_CTL_OFFER)
		mv_move_repeat(m, MV_CTL_ANSWER);
}

/* A QP is at work, or has failed. */
static void message_when_done(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	bool from_peer = mv_move_is_present(m, msg) && mv_move_names_us(m, msg);

	if (from_peer)
		mv_move_note_proof(m, msg);
	if (msg->type == MV_CTL_BYE) {
		if (m->failover && from_peer && !mv_move_knows_enough(m))
			mv_move_call_off(m, MV_CTL_REASON_GONE, MV_CTL_REASON_NONE, false);
	} else if (!m->now.offer) {
		answer_passthrough(m, msg);
	} else if (from_peer) {
		repeat_outcome(m, msg);
	}
}

static bool is_of_move(const struct mv_ctl_msg *msg)
{
	return msg->type == MV_CTL_SYNC || (msg->flags & MV_CTL_MOVE);
}

void mv_move_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (m->state == MV_MOVE_IDLE || m->self || !msg->attempt ||
	    (msg->type > MV_CTL_BYE && msg->type != MV_CTL_SYNC && msg->type != MV_CTL_STANDBY) || !is_ours(m, msg))
		return;
	if (is_of_move(msg)) {
		mv_move_failover_message(m, msg, now_ns);
		return;
	}
	if (m->failover || mv_move_settled(m) || m->state == MV_MOVE_FAILED) {
		message_when_done(m, msg);
		return;
	}
	if (!is_question(msg) && !mv_move_names_us(m, msg))
		return;
	if (!mv_move_adopt_attempt(m, msg, now_ns))
		return;
	m->timers.heard_at = now_ns;
	m->undelivered = false;
	switch (msg->type) {
	case MV_CTL_HELLO:
		on_hello(m, msg);
		break;
	case MV_CTL_OFFER:
		on_offer(m, msg);
		break;
	case MV_CTL_ANSWER:
		on_answer(m, msg);
		break;
	case MV_CTL_CONFIRM:
		on_confirm(m, msg);
		break;
	case MV_CTL_REFUSE:
		mv_move_peer_is_passthrough(m, msg->reason, msg->gid_type);
		break;
	case MV_CTL_BYE:
		on_bye(m, now_ns);
		break;
	}
}

void mv_move_unopened(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	uint64_t at_ns = m->timers.told_at ? m->timers.told_at + m->times->failover_resend_ns
					   : m->timers.begun_at + m->times->rtr_ns;

	if (is_known(m->sq_psn) || m->self || !mv_proof_is_whole(msg) || !has_our_ends(&m->local, &m->peer, msg) || now_ns < at_ns)
		return;
	if (m->failover || mv_move_settled(m))
		mv_move_send_hello_failover(m, 0, 0);
	else if (m->state == MV_MOVE_ASKING)
		mv_move_say(m);
	else
		return;
	m->timers.told_at = now_ns;
}
