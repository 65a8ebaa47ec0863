/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_H
#define MV_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"
#include "pathfind.h"

/*
 * The transaction by which the two ends of a connection agree on a path and bring it up: a pure state machine,
 * events in, actions out. One struct mv_move per queue pair; no memory of its own, no clock, no locks: the caller
 * serialises calls on one object and passes the time (ns, any monotonic clock).
 *
 * The end with the smaller (GID, QPN), compared as bytes in network order, leads. A connect:
 *
 *   follower --HELLO--> leader           "my program has connected its QP; this is my entry"
 *   leader   PREPARE: makes its QP on the path
 *   leader   --OFFER--> follower         path, leader's QP
 *   follower PREPARE, CONNECT (RTR)
 *   follower --ANSWER(READY)--> leader   follower's QP
 *   leader   CONNECT, ACTIVATE
 *   leader   --CONFIRM(READY)--> follower
 *   follower ACTIVATE
 *
 * Whoever waits repeats its last message (backing off); whoever gets a repeated message repeats its answer. Nothing
 * is posted on the new path before ACTIVATE, and ACTIVATE comes only after the other end's QP can receive. The moves
 * of a live QP (FENCE, SYNC, REPLAY) extend this between ANSWER and ACTIVATE.
 */

enum mv_move_state {
	MV_MOVE_IDLE,
	MV_MOVE_ASKING, /* HELLO sent, waiting for the peer */
	MV_MOVE_PREPARING, /* PREPARE given out */
	MV_MOVE_OFFERED, /* leader: waiting for ANSWER */
	MV_MOVE_CONNECTING, /* CONNECT given out */
	MV_MOVE_ANSWERED, /* follower: waiting for CONFIRM */
	MV_MOVE_ACTIVE, /* on the agreed path */
	MV_MOVE_NATIVE, /* given up, or found unnecessary: the program's own attributes (see action NATIVE) */
};

enum mv_move_action_type {
	MV_DO_NOTHING,
	MV_DO_SEND, /* @msg to the peer */
	MV_DO_PREPARE, /* make a QP on the rail of @local_gid; answer with mv_move_prepared() */
	MV_DO_CONNECT, /* connect it to @peer with @mtu_bytes; answer with mv_move_connected() */
	MV_DO_ACTIVATE, /* the program's work goes there from now on */
	MV_DO_NATIVE, /* connect the program's own QP; with @gid_type instead of its entry's if that differs */
	MV_DO_RELEASE, /* the QP made by PREPARE is not needed any more */
};

struct mv_move_action {
	enum mv_move_action_type type;
	struct mv_ctl_msg msg; /* SEND */
	/* PREPARE */
	union ibv_gid local_gid;
	union ibv_gid remote_gid; /* the other end of the path, as far as known */
	uint8_t gid_type; /* PREPARE, NATIVE */
	/* CONNECT */
	struct mv_ctl_end peer;
	uint16_t peer_lid;
	uint16_t mtu_bytes;
	uint8_t peer_stays; /* the peer's keys are its program's own */
	/* NATIVE */
	enum mv_ctl_reason reason; /* why no move, for the log; REASON_NONE when agreed that none is needed */
	bool timed_out;
};

#define MV_MOVE_MAX_PATHS 16
#define MV_MOVE_MAX_ACTIONS 4 /* that one event can cause */

struct mv_move_times {
	uint64_t resend_ns; /* first repetition; doubles up to resend_max_ns. Default 2 ms, 500 ms */
	uint64_t resend_max_ns;
	uint64_t ask_ns; /* verdict ASK: how long to wait for the peer's word before going native. Default 2 s */
	uint64_t give_up_ns; /* how long work may wait for the agreement. Default 10 s */
};

extern const struct mv_move_times mv_move_default_times;

/* All members are the machine's own, to be read by the caller where it says so. */
struct mv_move {
	enum mv_move_state state; /* readable */
	const struct mv_move_times *times;
	bool leader; /* readable */
	enum mv_path_verdict verdict;
	struct mv_ctl_end local, peer; /* as the programs know them; readable */
	uint8_t local_type; /* enum mv_gid_type of the program's entry */
	uint32_t attempt, peer_attempt; /* readable */
	uint32_t sq_psn, rq_psn; /* of the program; MV_CTL_PSN_NONE: not known yet */
	struct mv_path paths[MV_MOVE_MAX_PATHS]; /* to be tried, in this order */
	uint8_t n_paths, path; /* current one */
	struct mv_ctl_end my_path, peer_path; /* QPs on the agreed path; readable */
	uint16_t my_mtu_bytes, my_lid;
	bool my_stays;
	bool have_last; /* something to repeat */
	struct mv_ctl_msg last; /* what is repeated */
	uint64_t resend_at, resend_step, begun_at, work_since; /* 0: not set */
	unsigned int n_actions, next_action;
	struct mv_move_action actions[MV_MOVE_MAX_ACTIONS];
};

struct mv_move_begin {
	struct mv_ctl_end local, peer;
	uint8_t local_type;
	enum mv_path_verdict verdict; /* why it does not just connect */
	const struct mv_path *paths; /* n_paths, best first; copied (the first MV_MOVE_MAX_PATHS) */
	size_t n_paths;
	uint32_t rq_psn; /* the program's, known at RTR */
	uint32_t attempt; /* larger than that of any earlier move of a QP of this number: e.g. milliseconds since boot */
};

/**
 * mv_move_begin - the program connected its QP (RTR) and the path may not work
 * @times: stays the caller's; constant
 */
void mv_move_begin(struct mv_move *m, const struct mv_move_begin *begin, const struct mv_move_times *times,
		   uint64_t now_ns);

/** mv_move_rts - the program brought its QP to RTS */
void mv_move_rts(struct mv_move *m, uint32_t sq_psn, uint64_t now_ns);

/** mv_move_work_waits - the program posted a send that has to wait (first one matters) */
void mv_move_work_waits(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_message - a message from the peer's process
 *
 * Ignored, without any effect: messages whose ends are not ours, of an older attempt, with PSNs that contradict
 * ours, or of a type that does not fit. An OFFER is acted upon only when a PSN that we know proves it.
 */
void mv_move_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/** mv_move_unreachable - the agent cannot reach the peer's */
void mv_move_unreachable(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_prepared - outcome of PREPARE
 * @mine: our QP on the path, NULL: failed
 * @stays: it is the program's own QP, keys stay
 */
void mv_move_prepared(struct mv_move *m, const struct mv_ctl_end *mine, uint16_t lid, uint16_t mtu_bytes, bool stays,
		      uint64_t now_ns);

/** mv_move_connected - outcome of CONNECT */
void mv_move_connected(struct mv_move *m, bool ok, uint64_t now_ns);

/** mv_move_tick - time has passed */
void mv_move_tick(struct mv_move *m, uint64_t now_ns);

/** mv_move_deadline - when mv_move_tick() is to be called; UINT64_MAX: not at all */
uint64_t mv_move_deadline(const struct mv_move *m);

/**
 * mv_move_next - take the next action
 *
 * To be called after every event until it returns false; actions are carried out in this order.
 */
bool mv_move_next(struct mv_move *m, struct mv_move_action *ret);

/**
 * mv_move_answer_native - what an end that is connected as its program asked says to a message of its peer
 * @local, @peer, @local_type, @sq_psn, @rq_psn: that connection; PSNs MV_CTL_PSN_NONE where not known
 *
 * Return: true with @ret to be sent (HELLO|NATIVE to a HELLO, REFUSE(NATIVE) to an OFFER), false: nothing to say.
 */
bool mv_move_answer_native(const struct mv_ctl_end *local, const struct mv_ctl_end *peer, uint8_t local_type,
			   uint32_t sq_psn, uint32_t rq_psn, uint32_t attempt, const struct mv_ctl_msg *msg,
			   struct mv_ctl_msg *ret);

const char *mv_move_state_name(enum mv_move_state state);

#endif
