/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_ACTION_H
#define MV_MOVE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"

/* What the transaction (move.h) has its caller do. */

enum mv_move_action_type {
	MV_DO_NOTHING,
	MV_DO_SEND, /* @msg to the peer */
	MV_DO_PREPARE, /* make a QP on the rail of @local_gid; answer with mv_move_prepared(), soon */
	MV_DO_CONNECT, /* connect it to @peer with @mtu_bytes; answer with mv_move_connected(), soon */
	/*
	 * The program's work goes to the new QP from now on. @replay: first the work that was outstanding on the old QP is completed or posted
	 * again, as @next_psn says (psn.h); the old QP is not needed any more
	 */
	MV_DO_ACTIVATE,
	MV_DO_NATIVE, /* connect the program's own QP, with @gid_type if that is another than its entry's */
	MV_DO_RELEASE, /* the QP made by PREPARE is not needed any more; post what QUIESCE held back */
	/*
	 * Until RELEASE or FENCE post no atomics, and nothing behind one, except work whose completion tells of outstanding atomics. If none is
	 * outstanding, or the path does not work any more, mv_move_quiesced(); else this action comes again after a while
	 */
	MV_DO_QUIESCE,
	/*
	 * Put the old QP into ERR, drain it, read its rq_psn, post the receives that it did not consume to the new QP. From now on the
	 * program's sends wait, and it sees no completion of a flushed send. It sees completions of the old QP's receives before those of the
	 * new QP, which may receive as soon as the peer has our SYNC. Answer with mv_move_fenced(), soon
	 */
	MV_DO_FENCE,
	MV_DO_STAY, /* the move is off, nothing was fenced: the QP goes on as it is; @reason */
	/*
	 * The move failed after FENCE: give the program the errors of a QP without a move: for outstanding work, in order, and for everything
	 * later. Completions of receives that the new QP has consumed come before them. If no send is outstanding, the peer's SYNC is not
	 * needed, and the work may go to the new QP instead, for good; the state is FAILED all the same. @reason
	 */
	MV_DO_SURFACE,
	/*
	 * The peer wants to leave the path because of @reason (MV_CTL_REASON_PORT ... _HOME): answer with mv_move_start() and paths, or
	 * mv_move_refuse(). Comes again until the caller does
	 */
	MV_DO_WANTED,
	/*
	 * The peer has a QP ready to move to. If the caller has one on @local_gid, as for PREPARE, it may connect the two as at CONNECT
	 * (@mtu_bytes: the peer's). @answer: then mv_move_ahead(ready)
	 */
	MV_DO_STANDBY,
};

struct mv_move_action {
	enum mv_move_action_type type;
	/* Each connection has room for MV_MOVE_MAX_ACTIONS of these, so members share memory. */
	union {
		struct mv_ctl_msg msg; /* SEND; no other has it */
		struct {
			/* PREPARE, CONNECT. On a follower the leader chose @local_gid: refuse a GID that is not ours, or is excluded */
			union ibv_gid local_gid;
			union ibv_gid remote_gid; /* the other end of the path */
			uint8_t gid_type; /* PREPARE, CONNECT, NATIVE */
			/* CONNECT, STANDBY */
			struct mv_ctl_end peer;
			uint16_t peer_lid;
			uint16_t mtu_bytes; /* the smaller of both ends'; 0: neither is known */
			uint8_t peer_stays; /* the peer's keys are its program's own */
			uint32_t sq_psn, rq_psn; /* first PSNs there; CONNECT: MV_CTL_PSN_NONE: the program's own */
			bool answer; /* STANDBY */
			/*
			 * NATIVE, STAY, SURFACE: why there is no move, for the log. REASON_NONE: both agreed that none is needed, or
			 * @timed_out is the reason. WANTED: why the peer moves
			 */
			enum mv_ctl_reason reason;
			/* NATIVE, STAY, SURFACE: nothing was heard in time; ACTIVATE: without the leader's word */
			bool timed_out;
			bool unsure; /* STAY: there was only a suspicion, this end's or the peer's */
			/* ACTIVATE */
			bool replay; /* of a live QP; false: the next two have no meaning */
			uint32_t next_psn; /* rq_psn of the peer's fenced QP */
			uint32_t n_received; /* receives that QP consumed since it was connected, modulo 2^32: a check of @next_psn */
		};
	};
};

#endif
