/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_INTERNAL_H
#define MV_MOVE_INTERNAL_H

#include "move.h"

/* What move.c (life, outcomes, time) and move_message.c (the peer's messages) need of each other.
 */

/* What is to be done once the outcome of PREPARE or CONNECT is known. */
enum mv_move_pending {
	MV_PENDING_NONE,
	MV_PENDING_NATIVE,
	MV_PENDING_RESTART, /* ask again: the peer's QP is not the one any more */
};

/* A PREPARE or CONNECT is out: the state does not change before its outcome. */
static inline bool mv_move_busy(const struct mv_move *m)
{
	return m->state == MV_MOVE_PREPARING || m->state == MV_MOVE_CONNECTING;
}

/* Serial numbers: is @a later than @b? */
static inline bool mv_move_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

/* Says what the state has to say: HELLO, OFFER or ANSWER; the timer is not touched. */
void mv_move_say(struct mv_move *m);

/* Sends a message that no timer repeats. */
void mv_move_send(struct mv_move *m, enum mv_ctl_type type, uint8_t flags,
		  enum mv_ctl_reason reason);

/* Sends a copy of @msg as it is. */
void mv_move_send_message(struct mv_move *m, const struct mv_ctl_msg *msg);

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

#endif
