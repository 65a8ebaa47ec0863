/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_INTERNAL_H
#define MV_MOVE_INTERNAL_H

#include "move.h"

/*
 * What the files of the transaction share: move.c (life, outcomes), move_say.c (messages that are sent), move_message.c (the peer's
 * messages on a connect), move_live.c and move_live_message.c (the same for a live QP).
 */

/* What is to be done once the outcome of PREPARE, CONNECT or FENCE is known. */
enum mv_move_pending {
	MV_PENDING_NONE,
	MV_PENDING_NATIVE,
	MV_PENDING_RESTART, /* ask again: the peer's QP is not the one any more; live: other paths */
	MV_PENDING_OFF, /* live: STAY, or SURFACE */
};

/* A PREPARE, CONNECT or FENCE is out: the state does not change before its outcome. */
static inline bool mv_move_busy(const struct mv_move *m)
{
	return m->state == MV_MOVE_PREPARING || m->state == MV_MOVE_CONNECTING ||
	       m->state == MV_MOVE_FENCING;
}

/* When waiting ends, whatever it was for; UINT64_MAX: not at all. */
uint64_t mv_move_give_up_at(const struct mv_move *m);

/* A QP is at work, and nothing is going on. */
static inline bool mv_move_settled(const struct mv_move *m)
{
	return m->state == MV_MOVE_ACTIVE || m->state == MV_MOVE_NATIVE;
}

/*
 * The peer's SYNC is there before our fence is through: whatever becomes of the peer after that, it is known what it has
 * executed, and the move goes on.
 */
static inline bool mv_move_knows_enough(const struct mv_move *m)
{
	return m->state == MV_MOVE_FENCING && m->peer_synced;
}

/* Serial numbers: is @a later than @b? */
static inline bool mv_move_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* May it be of a later life? Also of the same number with another random number, of which one is made up. */
static inline bool mv_move_may_be_later(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	return msg->attempt == m->peer_attempt ? !m->peer_knows_us : mv_move_later(msg->attempt, m->peer_attempt);
}

/* Does its sender know of our present life? Who has not received what we say cannot. */
static inline bool mv_move_names_us(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	return msg->to_attempt == m->attempt && msg->to_nonce == m->nonce;
}

/* Is it of the life of the peer's that is known? */
static inline bool mv_move_is_present(const struct mv_move *m, const struct mv_ctl_msg *msg)
{
	return msg->attempt == m->peer_attempt && msg->nonce == m->peer_nonce;
}

/* Return: NULL for a message, WANTED, QUIESCE or STANDBY too many: it is as good as lost. */
struct mv_move_action *mv_move_push(struct mv_move *m, enum mv_move_action_type type);

/* Changes the state; nothing is repeated any more. */
void mv_move_set_state(struct mv_move *m, enum mv_move_state state);

/* Says what the state has to say: HELLO, OFFER, ANSWER, CONFIRM (FENCING) or SYNC; the timer is not touched. */
void mv_move_say(struct mv_move *m);

/*
 * Sends a message that no timer repeats: OFFER, ANSWER and CONFIRM are about the path that is being negotiated; all are
 * of the move if there is one.
 */
void mv_move_send(struct mv_move *m, enum mv_ctl_type type, uint8_t flags,
		  enum mv_ctl_reason reason);

/* ANSWER(READY) or CONFIRM of the connect that led to the present path, once more. */
void mv_move_repeat(struct mv_move *m, enum mv_ctl_type type);

/* Sends a copy of @msg as it is. */
void mv_move_send_message(struct mv_move *m, const struct mv_ctl_msg *msg);

/* What is said now is to be repeated. */
void mv_move_start_timer(struct mv_move *m, uint64_t now_ns);

/* Changes to a state that waits, says what it has to say and starts the timer. */
void mv_move_enter(struct mv_move *m, enum mv_move_state state, uint64_t now_ns);

/*
 * Connects natively; now, or when the outcome that is waited for is there.
 * @tell: what to tell the peer; REASON_NONE: nothing
 */
void mv_move_go_native(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell,
		       bool timed_out);

/* Gives up the QP on the path to ask anew; now (the timer will), or when the outcome is there. */
void mv_move_restart(struct mv_move *m, uint64_t now_ns);

void mv_move_release(struct mv_move *m); /* a QP on the path, if there is one */
void mv_move_activate(struct mv_move *m, bool timed_out);
void mv_move_connect(struct mv_move *m); /* asks for CONNECT to peer_path */
void mv_move_prepare(struct mv_move *m, const union ibv_gid *local, const union ibv_gid *remote,
		     uint8_t type); /* asks for PREPARE */

/* Leader: the current path; none left: refuses and goes native for @reason. */
void mv_move_try_path(struct mv_move *m, enum mv_ctl_reason reason);

/* The RoCE version of the program's own address that fits the peer's; changed for verdict ASK only.
 */
uint8_t mv_move_fitting_type(const struct mv_move *m, uint8_t peer_type);

/* The first PSN of what a live QP sends on the path of an offer. */
uint32_t mv_move_psn(const struct mv_move *m, uint32_t offer);

/* The path that is being negotiated gets its number and, if the QP is live, the first PSN of our sends there. */
void mv_move_number(struct mv_move *m, uint32_t offer);

void mv_move_take_paths(struct mv_move *m, const struct mv_path *paths, size_t n_paths);

/* ---- a live QP: move_live.c, move_live_message.c ----------------------------------------------- */

/* A move begins, by our caller's wish or the peer's. */
void mv_move_begin_live(struct mv_move *m, enum mv_ctl_reason reason, bool own_wish,
			uint64_t now_ns);

/* A QP that is connected to itself has been prepared: number it, and take its end for the peer's. */
void mv_move_answer_self(struct mv_move *m);

/*
 * It is off: STAY, or after FENCE SURFACE; now, or when the outcome is there.
 * @tell: what to tell the peer; REASON_NONE: nothing
 */
void mv_move_call_off(struct mv_move *m, enum mv_ctl_reason reason, enum mv_ctl_reason tell,
		      bool timed_out);

/* The outcome of PREPARE or CONNECT is there, and @pending came up meanwhile; not busy any more. */
void mv_move_settle_live(struct mv_move *m, enum mv_move_pending pending, uint64_t now_ns);

/* Leader: what was made ahead does not do, at one of the ends. Sure by now: the same path with other QPs; else it is off. */
void mv_move_early_failed(struct mv_move *m);

/* Follower: it could not take up an offer. */
void mv_move_decline_live(struct mv_move *m, uint64_t now_ns);

/* Both QPs of the next path are there, as far as this end knows: asks for QUIESCE, now and again. */
void mv_move_quiesce(struct mv_move *m, uint64_t now_ns);
void mv_move_fence(struct mv_move *m, uint64_t now_ns); /* asks for FENCE */
void mv_move_activate_live(struct mv_move *m);
void mv_move_send_sync(struct mv_move *m, uint32_t offer, uint8_t flags);
void mv_move_send_hello_live(struct mv_move *m, uint32_t to_attempt, uint64_t to_nonce); /* on whatever end */
void mv_move_ask_live(struct mv_move *m); /* HELLO to the peer's present life, whichever that is */
void mv_move_say_confirm(struct mv_move *m); /* leader */
void mv_move_send_decline(struct mv_move *m); /* of offer m->declined */
/*
 * The number by which the peer knows what is off. A leader that has nothing under the latest number takes a new one, so
 * that the peer can tell it from what it has heard before.
 */
uint32_t mv_move_number_to_refuse(struct mv_move *m);
/* REFUSE of offer @number */
void mv_move_send_refusal(struct mv_move *m, uint32_t number, enum mv_ctl_reason reason);

/* A message of a move (MV_CTL_MOVE or SYNC), to whatever state; its ends are ours, and it is proved. */
void mv_move_live_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/* ---- move_message.c ---------------------------------------------------------------------------- */

/*
 * Takes note of the sender's attempt. Return: false for a message that is not of the peer's present life.
 */
bool mv_move_adopt_attempt(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);
/* Takes note of which PSNs the peer has shown to know, by a message that counts. */
void mv_move_note_proof(struct mv_move *m, const struct mv_ctl_msg *msg);
/* The peer is, or stays, as its program asked. */
void mv_move_peer_is_native(struct mv_move *m, enum mv_ctl_reason reason, uint8_t peer_type);
/* Follower: a path to be made. */
void mv_move_take_up(struct mv_move *m, const struct mv_ctl_msg *msg);
/* Leader: the follower's end, from its ANSWER(READY). */
void mv_move_take_answer(struct mv_move *m, const struct mv_ctl_msg *msg);

/* move.c move_time.c */

/** mv_move_set_native - no agreement: the program's own queue pair is connected */
void mv_move_set_native(struct mv_move *m);

#endif
