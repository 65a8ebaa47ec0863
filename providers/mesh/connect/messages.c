// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "failover_exec.h"
#include "vqp_failover.h"
#include "move_failover.h"
#include "passthrough.h"
#include "negotiateint.h"
#include "proved.h"

/* Messages of the peer: decrypted, then given to the transaction, or answered where there is none. Thread: helper thread. */

/* Where many connections move, delay of the check of one that is done. */
#define LOOK_LATER_NS 100000000ull

/* Answer a peer that wants to move: this end has failed. */
static void answer_failed(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	struct mv_move_action action;

	mv_move_abort(&conn->move, now_ns);
	if (conn->move.state == MV_MOVE_FAILED)
		mv_move_message(&conn->move, msg, now_ns);
	while (mv_move_next(&conn->move, &action))
		if (action.type == MV_DO_SEND)
			mesh_thread_send(&action.msg);
}

/* Answer for a connection without transaction. conn->lock */
static void answer_passthrough(struct mesh_conn *conn, const struct mv_ctl_msg *msg)
{
	struct mv_ctl_msg reply;

	if (conn->gone || (conn->state != MESH_CONN_PASSTHROUGH && conn->state != MESH_CONN_FAILED) ||
	    !mv_move_answer_passthrough(&conn->ends.local, &conn->ends.peer, conn->ends.local_type,
					conn->attr.rts_mask ? conn->attr.rts.sq_psn & 0xffffff : mesh_conn_sq_psn(conn),
					conn->attr.rtr.rq_psn & 0xffffff, conn->attempt.number, conn->attempt.nonce,
					msg, &reply))
		return;
	/* Its program has ended the connection: that says nothing about the path. */
	if (conn->state == MESH_CONN_FAILED && !conn->attempt.rtr_error)
		reply.reason = MV_CTL_REASON_GONE;
	mesh_thread_send(&reply);
}

/*
 * A message that could not be decrypted: the key needs our first PSN, which is not known in RTR. A connection that stays has to
 * say so. conn->lock
 */
static void meet_unopened(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (mesh_conn_negotiates(conn)) {
		mv_move_unopened(&conn->move, msg, now_ns);
		mesh_conn_act(conn, now_ns, false);
	} else if (mesh_conn_may_speak(conn->attempt.rtr_ns, now_ns)) {
		answer_passthrough(conn, msg);
	}
}

/* conn->lock */
static void take_opened(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now_ns)
{
	if (mesh_conn_take_receives(conn, msg))
		return;
	if (conn->state == MESH_CONN_FAILED && conn->vqp && !conn->gone && msg->flags & MV_CTL_MOVE) {
		answer_failed(conn, msg, now_ns);
	} else if (mesh_conn_negotiates(conn)) {
		if (msg->type == MV_CTL_BYE && mv_move_is_from_peer(&conn->move, msg)) {
			mesh_conn_peer_left(conn);
			mesh_conn_peer_gone(conn);
		}
		mv_move_message(&conn->move, msg, now_ns);
		mesh_conn_keys_came(conn, msg, keys);
		mesh_conn_act(conn, now_ns, false);
	} else {
		answer_passthrough(conn, msg);
	}
}

/* conn->lock */
static void take_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *sealed,
			 const struct mv_ctl_keys *sealed_keys, uint64_t now_ns)
{
	struct mv_ctl_keys keys = *sealed_keys;
	struct mv_ctl_msg msg = *sealed;
	int err;

	mesh_conn_draw_nonce(conn);
	err = mesh_conn_open(conn, from, &msg, &keys, now_ns);
	if (!err)
		take_opened(conn, &msg, &keys, now_ns);
	else if (err == -ENOKEY)
		meet_unopened(conn, &msg, now_ns);
}

void mesh_conn_refuse_peer(struct mesh_conn *conn)
{
	const struct mesh_conn_refusal refusal = {.on = true,
						  .local_type = conn->ends.local_type,
						  .local = conn->ends.local,
						  .peer = conn->ends.peer,
						  .rq_psn = conn->attr.rtr.rq_psn & 0xffffff,
						  .attempt = conn->attempt.number,
						  .nonce = conn->attempt.nonce,
						  .rtr_ns = conn->attempt.rtr_ns};

	mesh_lock(&conn->keys.lock);
	conn->refusal = refusal;
	mesh_unlock(&conn->keys.lock);
}

void mesh_conn_refuse_no_more(struct mesh_conn *conn)
{
	mesh_lock(&conn->keys.lock);
	conn->refusal.on = false;
	mesh_unlock(&conn->keys.lock);
}

/* Answer while mesh_conn_refuse_peer() is in force, without conn->lock. Return: true: the message is done with. */
static bool refuse(struct mesh_conn *conn, const struct mv_ctl_msg *sealed, uint64_t now_ns)
{
	struct mv_ctl_msg msg = *sealed, reply;
	struct mesh_conn_refusal refusal;
	int err;

	mesh_lock(&conn->keys.lock);
	refusal = conn->refusal;
	mesh_unlock(&conn->keys.lock);
	if (!refusal.on)
		return false;
	err = mesh_conn_open_refused(conn, &refusal, &msg, now_ns);
	if ((!err || (err == -ENOKEY && mesh_conn_may_speak(refusal.rtr_ns, now_ns))) &&
	    mv_move_answer_passthrough(&refusal.local, &refusal.peer, refusal.local_type, MV_CTL_PSN_NONE,
				       refusal.rq_psn, refusal.attempt, refusal.nonce, &msg, &reply))
		mesh_thread_send(&reply);
	return true;
}

void mesh_conn_take_late_bye(struct mesh_conn *conn, uint64_t now_ns)
{
	const struct mv_ctl_keys none = {0};
	struct mv_ctl_msg bye = conn->inbound.late_bye;

	conn->inbound.late_bye.type = 0;
	if (bye.type)
		take_message(conn, &conn->inbound.late_bye_from, &bye, &none, now_ns);
}

/* Is the move over, with or without success, and nothing to be done soon? */
static bool is_through(struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_PASSTHROUGH || conn->state == MESH_CONN_MOVED) && !conn->retry.stayed &&
	       !conn->retry.pathless_ns && !mesh_failover_broken(conn->vqp) && !mesh_conn_asks(conn);
}

/*
 * When to look at a connection after a message. Where many move, most connections only wait for the next message, or are done:
 * the way back to the primary path, and the standby, can wait until the others are done, too.
 */
static uint64_t look_after_message(struct mesh_conn *conn, uint64_t now_ns, uint64_t late_ns)
{
	uint64_t at_ns;

	if (!mesh_many_move() || !mesh_conn_negotiates(conn) || conn->moving.draining || mv_move_peek(&conn->move) ||
	    mesh_failover_lost(conn->vqp))
		return now_ns;
	if (!conn->move.failover)
		return is_through(conn) ? now_ns + LOOK_LATER_NS : now_ns;
	at_ns = mv_move_deadline(&conn->move);
	return conn->move.state == MV_MOVE_QUIESCING || at_ns >= UINT64_MAX - late_ns ? now_ns : at_ns + late_ns;
}

uint64_t mesh_conn_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys,
			   uint64_t now_ns, uint64_t silent_ns)
{
	uint64_t at;

	if (refuse(conn, msg, now_ns))
		return UINT64_MAX;
	if (!mesh_conn_enter(conn)) {
		/* The peer repeats all messages but BYE. The thread that has the lock queues the connection again. */
		if (msg->type == MV_CTL_BYE) {
			conn->inbound.late_bye_from = *from;
			conn->inbound.late_bye = *msg;
		}
		return now_ns;
	}
	take_message(conn, from, msg, keys, now_ns);
	mesh_move_limiter_note(conn, false, now_ns);
	at = look_after_message(conn, now_ns, now_ns - silent_ns);
	mesh_conn_exit(conn);
	return at;
}

void mesh_conn_unreachable(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (!mesh_conn_enter(conn))
		return;
	if (mesh_conn_negotiates(conn) && conn->state == MESH_CONN_HELD && msg->attempt == conn->attempt.number) {
		/* On a busy host an agent may be late. It counts as gone once its beacons stop. */
		if (mesh_directory_alive(&conn->ends.peer.gid))
			mv_move_undelivered(&conn->move);
		else
			mv_move_unreachable(&conn->move, now_ns);
		mesh_conn_act(conn, now_ns, false);
	}
	mesh_move_limiter_note(conn, false, now_ns);
	mesh_conn_exit(conn);
}
