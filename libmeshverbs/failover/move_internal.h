/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_INTERNAL_H
#define MV_MOVE_INTERNAL_H

#include "move.h"

/*
 * Shared by the files of the transaction only: move.c (life, outcomes), move_say.c (messages sent), move_time.c
 * (timers), move_message.c (messages of a connect), move_failover.c and move_failover_message.c (the same for a QP at
 * work).
 */

/* To be done when the outcome of PREPARE, CONNECT or DRAIN is known. */
enum mv_move_pending {
	MV_PENDING_NONE,
	MV_PENDING_PASSTHROUGH,
	MV_PENDING_RESTART, /* ask again: the peer has another QP now; at work: try other paths */
	MV_PENDING_OFF, /* at work: STAY, or FLUSH */
};

/* PREPARE, CONNECT or DRAIN is under way: the state does not change before the outcome. */
static inline bool mv_move_busy(const struct mv_move *m)
{
	return m->state == MV_MOVE_PREPARING || m->state == MV_MOVE_CONNECTING || m->state == MV_MOVE_DRAINING;
}

/* When the present state ends, whatever it waits for; UINT64_MAX: never. */
uint64_t mv_move_give_up_at(const struct mv_move *m);

/* A QP is at work, and no move is under way. */
static inline bool mv_move_settled(const struct mv_move *m)
{
	return m->state == MV_MOVE_ACTIVE || m->state == MV_MOVE_PASSTHROUGH;
}

/*
 * The peer's SYNC came before our drain is done. Then it is known what the peer has executed, and the move goes on
 * whatever happens to the peer.
 */
static inline bool mv_move_knows_enough(const struct mv_move *m)
{
	return m->state == MV_MOVE_DRAINING && m->sync.peer_valid;
}

/* Serial numbers: is @a later than @b? */
static inline bool mv_move_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/*
 * May the message be from a later life of the peer? Also if it has the same attempt with another nonce: then one of the
 * two is forged.
 */
static inline bool mv_move_may_be_later(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	const struct mv_move_attempts *a = &m->attempts;

	return msg->attempt == a->peer ? !a->peer_knows_us : mv_move_later(msg->attempt, a->peer);
}

/* Does the sender know our present life? Only a receiver of our messages can. */
static inline bool mv_move_names_us(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	return msg->to_attempt == m->attempts.mine && msg->to_nonce == m->attempts.my_nonce;
}

/* Is the message from the present life of the peer? */
static inline bool mv_move_is_present(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	return msg->attempt == m->attempts.peer && msg->nonce == m->attempts.peer_nonce;
}

/* Return: NULL: no room for a SEND, WANTED, QUIESCE or STANDBY; it counts as lost. */
struct mv_move_action *mv_move_push(struct mv_move *m, enum mv_move_action_type type);

/* Changes the state, and stops repetition. */
void mv_move_set_state(struct mv_move *m, enum mv_move_state state);

/* Sends the message of the state: HELLO, OFFER, ANSWER, CONFIRM (DRAINING) or SYNC. Does not touch the timer. */
void mv_move_say(struct mv_move *m);

/* Sends a message that no timer repeats. OFFER, ANSWER and CONFIRM are about @next. During a move, all have MV_CTL_MOVE. */
void mv_move_send(struct mv_move *m, enum mv_ctl_type type, uint8_t flags,
		  enum mv_ctl_reason reason);

/* Sends ANSWER(READY) or CONFIRM of the connect that led to the present path once more. */
void mv_move_repeat(struct mv_move *m, enum mv_ctl_type type);

/* Sends a copy of @msg unchanged. */
void mv_move_send_message(struct mv_move *m, const struct mv_ctl_msg *msg);

/* Starts the repetition of the state's message. */
void mv_move_start_timer(struct mv_move *m, uint64_t now_ns);

/* Changes to a waiting state, sends its message and starts the timer. */
void mv_move_enter(struct mv_move *m, enum mv_move_state state, uint64_t now_ns);

/*
 * Connects as passthrough, now or when a pending outcome is known.
 * @tell: reason for the peer; REASON_NONE: tell nothing
 */
void mv_move_go_passthrough(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell, bool timed_out);

/* Gives up the QP on the path and asks again, by the timer or when a pending outcome is known. */
void mv_move_restart(struct mv_move *m, uint64_t now_ns);

void mv_move_release(struct mv_move *m); /* the QP on the path, if any */
void mv_move_activate(struct mv_move *m, bool timed_out);
void mv_move_connect(struct mv_move *m); /* requests CONNECT to @next.peer */
void mv_move_prepare(struct mv_move *m, const union ibv_gid *local, const union ibv_gid *remote,
		     uint8_t type); /* requests PREPARE */

/* Leader: tries the current path; none left: refuses, and goes passthrough or calls off, for @reason. */
void mv_move_try_path(struct mv_move *m, enum mv_ctl_reason reason);

/* RoCE version of the program's own address that fits the peer's; differs from the present one for verdict ASK only. */
uint8_t mv_move_fitting_type(const struct mv_move *m, uint8_t peer_type);

/* First PSN that a QP at work sends on the path of an offer. */
uint32_t mv_move_psn(const struct mv_move *m, uint32_t offer);

/* Gives @next its number and, for a QP at work, the first PSN of our sends. */
void mv_move_number(struct mv_move *m, uint32_t offer);

void mv_move_take_paths(struct mv_move *m, const struct mv_path *paths, size_t n_paths);

/* ---- a QP at work: move_failover.c, move_failover_message.c ----------------------------------------- */

/* A move begins, because our caller or the peer wants it. */
void mv_move_begin_failover(struct mv_move *m, enum mv_ctl_reason reason, bool own_wish, uint64_t now_ns);

/* The QP is connected to itself and prepared: number it, and use its end as the peer's. */
void mv_move_answer_self(struct mv_move *m);

/*
 * Calls the move off: STAY, or after DRAIN FLUSH; now or when a pending outcome is known.
 * @tell: reason for the peer; REASON_NONE: tell nothing
 */
void mv_move_call_off(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell,
		      bool timed_out);

/* The outcome of PREPARE or CONNECT is known, and @pending has come up meanwhile. */
void mv_move_settle_failover(struct mv_move *m, enum mv_move_pending pending, uint64_t now_ns);

/* Leader: a standby QP of either end is unusable. If the path is known to be dead: tries the same path with other QPs; else off. */
void mv_move_early_failed(struct mv_move *m);

/* Follower: an offer could not be taken up. */
void mv_move_decline_failover(struct mv_move *m, uint64_t now_ns);

/* Both QPs of @next are connected, as far as this end knows: requests QUIESCE, repeatedly. */
void mv_move_quiesce(struct mv_move *m, uint64_t now_ns);
void mv_move_drain(struct mv_move *m, uint64_t now_ns); /* requests DRAIN */
void mv_move_activate_failover(struct mv_move *m);
void mv_move_send_sync(struct mv_move *m, uint32_t offer, uint8_t flags);
/* to any life of the peer */
void mv_move_send_hello_failover(struct mv_move *m, uint32_t to_attempt, uint64_t to_nonce);
void mv_move_ask_failover(struct mv_move *m); /* HELLO to the peer's present life, known or not */
void mv_move_say_confirm(struct mv_move *m); /* leader */
void mv_move_send_decline(struct mv_move *m); /* of the offer @m->declined */
/*
 * Number by which the peer knows what is called off. If a leader has nothing under the latest number, it takes a new
 * one, so that the peer can tell the refusal from earlier messages.
 */
uint32_t mv_move_number_to_refuse(struct mv_move *m);
/* REFUSE of offer @number. */
void mv_move_send_refusal(struct mv_move *m, uint32_t number, enum mv_ctl_reason reason);

/* A message of a move (MV_CTL_MOVE or SYNC) in any state. Its ends are ours, and it is proven. */
void mv_move_failover_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/* ---- move_message.c ---------------------------------------------------------------------------- */

/* Notes the sender's attempt. Return: false: the message is not from the peer's present life. */
bool mv_move_adopt_attempt(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);
/* Notes which PSNs the peer has proven to know, by a message that counts. */
void mv_move_note_proof(struct mv_move *m, const struct mv_ctl_msg *msg);
/* The peer is connected as its program asked, or stays so. */
void mv_move_peer_is_passthrough(struct mv_move *m, enum mv_ctl_reason reason, uint8_t peer_type);
/* Follower: takes up an offered path. */
void mv_move_take_up(struct mv_move *m, const struct mv_ctl_msg *msg);
/* Leader: takes the follower's end from its ANSWER(READY). */
void mv_move_take_answer(struct mv_move *m, const struct mv_ctl_msg *msg);

/* ---- move_time.c ---- */

/** mv_move_set_passthrough - the state becomes PASSTHROUGH, without an action */
void mv_move_set_passthrough(struct mv_move *m);

#endif
