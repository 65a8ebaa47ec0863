/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_ACTION_H
#define MV_MOVE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"

/* Actions that the transaction (move.h) requests from its caller. */

enum mv_move_action_type {
	MV_DO_NOTHING,
	MV_DO_SEND, /* send @msg to the peer */
	MV_DO_PREPARE, /* make a QP on the rail of @local_gid; report with mv_move_prepared(), soon */
	MV_DO_CONNECT, /* connect that QP to @peer with @mtu_bytes; report with mv_move_connected(), soon */
	/*
	 * From now on the program's work goes to the new QP. @replay: first complete the outstanding work of the old
	 * QP, or post it again, as @next_psn tells (psn.h). The old QP is not needed any more.
	 */
	MV_DO_ACTIVATE,
	MV_DO_PASSTHROUGH, /* connect the program's own QP; use @gid_type if it differs from its entry's */
	MV_DO_RELEASE, /* release the QP made by PREPARE; post what QUIESCE withheld */
	/*
	 * Until RELEASE or DRAIN, post no atomics, and nothing behind a withheld one, except work whose completion
	 * shows that outstanding atomics are done. Call mv_move_quiesced() when none is outstanding, or the path no
	 * longer works; else this action comes again later.
	 */
	MV_DO_QUIESCE,
	/*
	 * Drain the old QP: put it into ERR, poll its flushed completions, read its rq_psn, and post its unconsumed
	 * receives to the new QP. From now on the program's sends wait, and completions of flushed sends are withheld.
	 * Completions of the old QP's receives come before those of the new QP, which may receive as soon as the peer
	 * has our SYNC. Report with mv_move_drained(), soon.
	 */
	MV_DO_DRAIN,
	MV_DO_STAY, /* the move is off before DRAIN: the QP goes on as it is; @reason */
	/*
	 * The move failed after DRAIN. Give the program the errors of a QP without a move: for outstanding work, in
	 * order, and for all later work. Completions of receives that the new QP has consumed come first. If no send is
	 * outstanding, the peer's SYNC is not needed, and the work may go to the new QP instead, for good; the state is
	 * FAILED all the same. @reason
	 */
	MV_DO_FLUSH,
	/*
	 * The peer wants to leave the path because of @reason (MV_CTL_REASON_PORT ... _PRIMARY). Answer with
	 * mv_move_start() and paths, or mv_move_refuse(). Comes again until then.
	 */
	MV_DO_WANTED,
	/*
	 * The peer has a standby QP. If the caller has one on @local_gid, as for PREPARE, it may connect the two as for
	 * CONNECT (@mtu_bytes: the peer's). @answer: then call mv_move_tell_standby(ready).
	 */
	MV_DO_STANDBY,
};

struct mv_move_action {
	enum mv_move_action_type type;
	/* A union, because each connection has MV_MOVE_MAX_ACTIONS of these. */
	union {
		struct mv_ctl_msg msg; /* for SEND only */
		struct {
			/* PREPARE, CONNECT. Of a follower: chosen by the leader; refuse a GID that is not ours, or is excluded */
			union ibv_gid local_gid;
			union ibv_gid remote_gid; /* the other end of the path */
			uint8_t gid_type; /* PREPARE, CONNECT, PASSTHROUGH */
			/* CONNECT, STANDBY */
			struct mv_ctl_end peer;
			uint16_t peer_lid;
			uint16_t mtu_bytes; /* the smaller one of both ends; 0: neither is known */
			uint8_t peer_stays; /* the peer's keys are its program's own */
			uint32_t sq_psn, rq_psn; /* first PSNs on the path; CONNECT: MV_CTL_PSN_NONE: those of the programs */
			bool answer; /* STANDBY */
			/*
			 * PASSTHROUGH, STAY, FLUSH: why there is no move, for the log. REASON_NONE: both ends agreed
			 * that none is needed, or @timed_out. WANTED: why the peer wants to move
			 */
			enum mv_ctl_reason reason;
			/* PASSTHROUGH, STAY, FLUSH: no message in time; ACTIVATE: without the leader's CONFIRM */
			bool timed_out;
			bool unsure; /* STAY: there was only a suspicion, of this end or of the peer */
			/* ACTIVATE */
			bool replay; /* of a QP at work; false: ignore the next two */
			uint32_t next_psn; /* rq_psn of the peer's drained QP */
			/* receives that the peer's QP consumed since it was connected, modulo 2^32; to check @next_psn */
			uint32_t n_received;
		};
	};
};

#endif
