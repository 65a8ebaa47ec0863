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
 *   both     --HELLO--> each other       "my program has connected its QP; this is my entry"
 *   leader   PREPARE: makes its QP on the path
 *   leader   --OFFER--> follower         path, leader's QP
 *   follower PREPARE, CONNECT (RTR)
 *   follower --ANSWER(READY)--> leader   follower's QP
 *   leader   CONNECT, ACTIVATE
 *   leader   --CONFIRM(READY)--> follower
 *   follower ACTIVATE
 *
 * Whoever waits repeats its message (backing off); whoever gets a repeated message repeats its answer; no message
 * causes more than one. Nothing is posted on the new path before ACTIVATE, and ACTIVATE comes only after the other
 * end's QP can receive. The moves of a live QP (FENCE, SYNC, REPLAY) extend this between ANSWER and ACTIVATE.
 *
 * Either end may give up and connect natively, and says so to whatever the peer sends then, until the follower has
 * sent ANSWER(READY): from there on the leader alone decides, and the follower asks until it knows. Should it hear
 * nothing for give_up_ns while work waits, or BYE, it activates: if the leader did, too, all is well, and if not, the
 * work fails on the path as it would have failed without one. Going native instead could leave a leader that is
 * active, and receives that the path has already taken, without their other end.
 *
 * A path that one end cannot make (PREPARE or CONNECT fails) is not the end: the leader goes on to its next one, and
 * the follower asks for it by an ANSWER without READY. Offers are numbered, so a late one does no harm.
 *
 * Attempts tell the lives of a QP apart: a program may reset a QP and connect it again. A peer's later attempt starts
 * over, except on an end that is ACTIVE or NATIVE, which is silent: its program has to reset it as well.
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
	MV_DO_PREPARE, /* make a QP on the rail of @local_gid; answer with mv_move_prepared(), soon */
	MV_DO_CONNECT, /* connect it to @peer with @mtu_bytes; answer with mv_move_connected(), soon */
	MV_DO_ACTIVATE, /* the program's work goes there from now on */
	MV_DO_NATIVE, /* connect the program's own QP; with @gid_type instead of its entry's if that differs */
	MV_DO_RELEASE, /* the QP made by PREPARE is not needed any more */
};

struct mv_move_action {
	enum mv_move_action_type type;
	struct mv_ctl_msg msg; /* SEND */
	/* PREPARE, CONNECT. On a follower @local_gid is the leader's wish: refuse what is not ours or is excluded */
	union ibv_gid local_gid;
	union ibv_gid remote_gid; /* the other end of the path */
	uint8_t gid_type; /* PREPARE, CONNECT, NATIVE */
	/* CONNECT */
	struct mv_ctl_end peer;
	uint16_t peer_lid;
	uint16_t mtu_bytes; /* the smaller of both ends'; 0: neither is known */
	uint8_t peer_stays; /* the peer's keys are its program's own */
	/* NATIVE */
	/* Why no move, for the log; REASON_NONE when agreed that none is needed, or when @timed_out says enough. */
	enum mv_ctl_reason reason;
	bool timed_out; /* NATIVE: nothing was heard in time; ACTIVATE: without the leader's word */
};

#define MV_MOVE_MAX_PATHS 16
#define MV_MOVE_MAX_ACTIONS 8 /* that wait to be taken; beyond 5, messages to be sent are left out */

struct mv_move_times {
	uint64_t resend_ns; /* first repetition; doubles up to resend_max_ns. Default 2 ms, 500 ms */
	uint64_t resend_max_ns;
	uint64_t ask_ns; /* verdict ASK: how long the peer may be silent before going native. Default 2 s */
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
	uint8_t local_type; /* enum mv_gid_type of the entry the program's QP uses or will use */
	uint32_t attempt, peer_attempt; /* readable; peer's 0: not heard of */
	bool peer_proved; /* @peer_attempt comes from a message with a PSN that only the peer knows */
	bool undelivered; /* the agent gave a message back, and nothing was heard of the peer since */
	uint32_t sq_psn, rq_psn; /* of the program; MV_CTL_PSN_NONE: not known yet */
	struct mv_path paths[MV_MOVE_MAX_PATHS]; /* to be tried, in this order */
	uint8_t n_paths, path; /* current one */
	uint32_t offer; /* leader: number of the current offer; follower: of the latest one taken up */
	struct mv_ctl_end my_path, peer_path; /* QPs on the agreed path; readable */
	uint8_t path_type; /* enum mv_gid_type; readable */
	bool prepared; /* there is a QP to be released */
	uint16_t my_mtu_bytes, my_lid, peer_mtu_bytes, peer_lid;
	bool my_stays, peer_stays; /* readable */
	/* What came up while PREPARE or CONNECT was out: done once its outcome is known. */
	uint8_t pending; /* enum mv_move_pending of move.c */
	uint8_t pending_reason; /* enum mv_ctl_reason */
	bool pending_timed_out;
	uint64_t resend_at, resend_step, begun_at, heard_at, answered_at, work_since; /* 0: not set */
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
	/*
	 * Later than that of any earlier move of a QP of this number, e.g. milliseconds since boot: compared as serial
	 * numbers, so it may wrap. 0 is taken as 1.
	 */
	uint32_t attempt;
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
 * Ignored, without any effect: messages whose ends are not ours, of an older attempt, meant for another attempt of
 * ours, with PSNs that contradict ours, or of a type that does not fit. All but a HELLO that asks are acted upon only
 * when a PSN that we know proves them; as long as neither program has brought its QP to RTS there is none, and
 * nothing that could wait.
 */
void mv_move_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/**
 * mv_move_unreachable - the agent cannot reach the peer's, and its host is gone
 *
 * Leads to NATIVE at once, except after ANSWER and in a leader that has got one: then it is as good as a lost message.
 */
void mv_move_unreachable(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_undelivered - the agent could not deliver a message, but the peer's host is known to live
 *
 * As good as a lost message: it will be repeated. Should waiting end without a word from the peer, this is the reason.
 */
void mv_move_undelivered(struct mv_move *m);

/**
 * mv_move_prepared - outcome of PREPARE
 * @mine: our QP on the path, NULL: failed (nothing is left to release)
 * @stays: it is the program's own QP, keys stay
 */
void mv_move_prepared(struct mv_move *m, const struct mv_ctl_end *mine, uint16_t lid, uint16_t mtu_bytes, bool stays,
		      uint64_t now_ns);

/** mv_move_connected - outcome of CONNECT; after a failure the QP is still there, until RELEASE */
void mv_move_connected(struct mv_move *m, bool ok, uint64_t now_ns);

/** mv_move_tick - time has passed */
void mv_move_tick(struct mv_move *m, uint64_t now_ns);

/** mv_move_deadline - when mv_move_tick() is to be called; UINT64_MAX: not at all */
uint64_t mv_move_deadline(const struct mv_move *m);

/** mv_move_peek - the next action without taking it; NULL: none */
const struct mv_move_action *mv_move_peek(const struct mv_move *m);

/**
 * mv_move_next - take the next action
 *
 * To be called after every event until it returns false; actions are carried out in this order.
 */
bool mv_move_next(struct mv_move *m, struct mv_move_action *ret);

/**
 * mv_move_header - fill what every message of this connection has in common
 * @ret: the rest of it is zeroed
 */
void mv_move_header(const struct mv_move *m, enum mv_ctl_type type, struct mv_ctl_msg *ret);

/**
 * mv_move_is_from_peer - is @msg (KEY_*) from the other end of this connection, in its present life?
 *
 * Ends, both attempts and a PSN that proves it.
 */
bool mv_move_is_from_peer(const struct mv_move *m, const struct mv_ctl_msg *msg);

/**
 * mv_move_bye - what to tell the peer when the program destroys or resets its QP
 *
 * Nothing is made of it here: the caller releases what it has made for the QP.
 *
 * Return: false when the peer has not been heard of and there is nothing to say.
 */
bool mv_move_bye(const struct mv_move *m, struct mv_ctl_msg *ret);

/**
 * mv_move_answer_native - what an end that is connected as its program asked says to a message of its peer
 * @local, @peer, @local_type, @sq_psn, @rq_psn: that connection; PSNs MV_CTL_PSN_NONE where not known. The peer
 * believes only an answer that a PSN proves: without @rq_psn, and without @sq_psn while the peer is not in RTS, it
 * goes on asking until it gives up
 * @attempt: any, but not 0
 *
 * For connections that never had a struct mv_move; one that has, answers by itself (mv_move_message()).
 *
 * Return: true with @ret to be sent (HELLO|NATIVE to a HELLO, REFUSE(NATIVE) to an OFFER or ANSWER), false: nothing
 * to say.
 */
bool mv_move_answer_native(const struct mv_ctl_end *local, const struct mv_ctl_end *peer, uint8_t local_type,
			   uint32_t sq_psn, uint32_t rq_psn, uint32_t attempt, const struct mv_ctl_msg *msg,
			   struct mv_ctl_msg *ret);

const char *mv_move_state_name(enum mv_move_state state);

#endif
