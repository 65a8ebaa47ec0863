/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages that are sent, and the message that each state repeats. */
#include "move_internal.h"
#include "proof.h"

void mv_move_header(const struct mv_move *m, enum mv_ctl_type type, struct mv_ctl_msg *ret)
{
	*ret = (struct mv_ctl_msg){.type = (uint8_t)type,
				   .gid_type = m->local_type,
				   .attempt = m->attempts.mine,
				   .to_attempt = m->attempts.peer,
				   .nonce = m->attempts.my_nonce,
				   .to_nonce = m->attempts.peer_nonce,
				   .from = m->local,
				   .to = m->peer,
				   .from_psn = m->sq_psn,
				   /* A peer in RTR cannot open a message that needs its own PSN. */
				   .to_psn = m->attempts.peer_shown == MV_PROOF_TO ? MV_CTL_PSN_NONE : m->rq_psn};
}

/* Our end of a path, for OFFER, ANSWER and CONFIRM. */
static void put_path(const struct mv_move_path *path, struct mv_ctl_msg *msg)
{
	msg->gid_type = path->type;
	msg->request_id = path->offer;
	msg->path = path->mine;
	msg->path_peer_gid = path->peer.gid;
	msg->path_lid = path->my_lid;
	msg->mtu_bytes = path->my_mtu_bytes;
	if (path->my_stays)
		msg->flags |= MV_CTL_STAYS;
}

void mv_move_send_message(struct mv_move *m, const struct mv_ctl_msg *msg)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (action)
		action->msg = *msg;
}

static bool names_path(enum mv_ctl_type type)
{
	return type == MV_CTL_OFFER || type == MV_CTL_ANSWER || type == MV_CTL_CONFIRM;
}

void mv_move_send(struct mv_move *m, enum mv_ctl_type type, uint8_t flags,
		  enum mv_ctl_reason reason)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (!action)
		return;
	mv_move_header(m, type, &action->msg);
	action->msg.flags = flags;
	action->msg.reason = (uint8_t)reason;
	if (names_path(type))
		put_path(&m->next, &action->msg);
	if (!m->failover)
		return;
	action->msg.flags |= MV_CTL_MOVE;
	action->msg.base = m->now.offer;
	if (names_path(type))
		action->msg.path_psn = m->next.my_psn;
}

void mv_move_repeat(struct mv_move *m, enum mv_ctl_type type)
{
	struct mv_move_action *action = mv_move_push(m, MV_DO_SEND);

	if (!action)
		return;
	mv_move_header(m, type, &action->msg);
	action->msg.flags = MV_CTL_READY;
	put_path(&m->now, &action->msg);
}

void mv_move_say(struct mv_move *m)
{
	if (m->state == MV_MOVE_ASKING && m->failover)
		mv_move_ask_failover(m);
	else if (m->state == MV_MOVE_ASKING)
		mv_move_send(m, MV_CTL_HELLO, m->verdict == MV_PATH_ASK ? MV_CTL_ASKING : 0,
			     MV_CTL_REASON_NONE);
	else if (m->state == MV_MOVE_OFFERED)
		mv_move_send(m, MV_CTL_OFFER, m->failover && m->early ? MV_CTL_ASKING : 0,
			     m->failover ? m->reason : MV_CTL_REASON_NONE);
	else if (m->state == MV_MOVE_ANSWERED)
		mv_move_send(m, MV_CTL_ANSWER, MV_CTL_READY, MV_CTL_REASON_NONE);
	else if (m->state == MV_MOVE_QUIESCING)
		mv_move_push(m, MV_DO_QUIESCE);
	else if (m->state == MV_MOVE_DRAINING)
		mv_move_say_confirm(m);
	else if (m->state == MV_MOVE_DRAINED)
		mv_move_send_sync(m, m->next.offer, 0);
}
