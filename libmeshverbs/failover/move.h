/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_MOVE_H
#define MV_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"
#include "move_action.h"
#include "move_times.h"
#include "pathfind.h"

/*
 * The transaction by which the two ends of a connection agree on a path and bring it up. A pure state machine: events in, actions out. One
 * struct mv_move per queue pair. It allocates nothing, reads no clock and takes no lock: the caller serialises calls on one struct and
 * passes the time (ns, any monotonic clock). Here: a connect. move_failover.h: the move of a QP that is at work.
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
 * An end that waits repeats its message, backing off. An end that gets a repeated message repeats its answer. No message causes more than
 * one. Nothing is posted on the new path before ACTIVATE, and ACTIVATE comes only after the other end's QP can receive.
 *
 * Giving up: until the follower has sent ANSWER(READY), either end may give up and connect as passthrough. It says so
 * to whatever the peer sends then. After ANSWER(READY) the leader alone decides, and the follower asks until it knows.
 * If the follower hears nothing for give_up_ns while work waits, or hears BYE, it activates. If the leader has
 * activated, too, all is well. If not, the work fails on the path as it would have failed without one. A follower that
 * went passthrough instead could leave a leader that is active, and receives that the path has already taken, without
 * their other end.
 *
 * A peer without such a machine never answers, though its program may be there and send. Work that waits for an answer ends after
 * give_up_ns, but a program that only receives has no such work. The program's own path did not work when the connect began, and may work
 * now: a port is back. Or it worked all the time (MV_PATH_OTHER_SUBNET). The caller sees that. It may then connect the program's own QP
 * while this end still asks, not before mv_move_passthrough_at(), and reports the outcome with mv_move_tried(). After a
 * refusal (the neighbour does not answer yet) nothing has happened, and the end asks on. After a success the end is
 * PASSTHROUGH, like an end that gave up before it had heard of its peer: a peer that comes later asks, and is told.
 *
 * A path that one end cannot make (PREPARE or CONNECT fails) does not end the transaction. The leader goes on to its next path, and the
 * follower asks for that by an ANSWER without READY. Offers are numbered, so a late offer does no harm.
 *
 * Attempts tell the lives of a QP apart: a program may reset a QP and connect it again. A later attempt of the peer starts the transaction
 * over, except on an end that is ACTIVE or PASSTHROUGH. That end stays silent, because its program has to reset it as
 * well. If a program always uses the same PSNs, a message of an earlier life of the peer that names no attempt of ours
 * looks as if meant for our present life. So a peer is held to an attempt only once that attempt has named ours. Until
 * then a later attempt of the peer takes its place, without a word.
 */

enum mv_move_state {
	MV_MOVE_IDLE,
	MV_MOVE_ASKING, /* HELLO sent, waiting for the peer */
	MV_MOVE_PREPARING, /* PREPARE given out */
	MV_MOVE_OFFERED, /* leader: waiting for ANSWER */
	MV_MOVE_CONNECTING, /* CONNECT given out */
	MV_MOVE_ANSWERED, /* follower: waiting for CONFIRM */
	MV_MOVE_ACTIVE, /* on the agreed path */
	/* given up, or not needed: connected as the program asked (see action MV_DO_PASSTHROUGH) */
	MV_MOVE_PASSTHROUGH,
	/* Only for a QP at work (ASKING to ANSWERED as above): */
	MV_MOVE_QUIESCING, /* connected; QUIESCE given out. Follows CONNECTING at either end */
	MV_MOVE_DRAINING, /* DRAIN given out */
	MV_MOVE_DRAINED, /* waiting for the peer's SYNC */
	MV_MOVE_FAILED, /* FLUSH given out: this QP no longer works */
};

#define MV_MOVE_MAX_PATHS 16
#define MV_MOVE_MAX_ACTIONS 10 /* actions that wait to be taken; beyond 5, messages are dropped */

/* Two QPs that are connected, or will be. */
struct mv_move_path {
	struct mv_ctl_end mine, peer;
	uint32_t offer; /* number of the offer; 0: the program's own QPs */
	uint8_t type; /* enum mv_gid_type */
	bool my_stays, peer_stays;
	uint16_t my_mtu_bytes, my_lid, peer_mtu_bytes, peer_lid;
	uint32_t my_psn, peer_psn; /* first PSNs; MV_CTL_PSN_NONE: those of the programs */
};

/* What an old QP had executed when it was drained (move_failover.h). */
struct mv_move_sync {
	uint32_t next_psn, n_received;
};

/* Lives of the two QPs, by which messages of former lives are told apart. The caller serialises. */
struct mv_move_attempts {
	uint32_t mine, peer; /* numbers; readable; peer 0: not known yet */
	uint64_t my_nonce, peer_nonce; /* nonces of these attempts (ctl.h) */
	/* Mask of enum mv_proof: PSNs that the peer has proven to know. Messages that prove less are ignored. */
	uint8_t peer_shown;
	bool peer_knows_us; /* the peer has named @mine, so it is not a former life of the peer with the same PSNs */
};

/* Paths to be tried, in this order. The caller serialises. */
struct mv_move_paths {
	struct mv_path list[MV_MOVE_MAX_PATHS];
	uint8_t n, current; /* current: index */
};

/* Which end wants to move a QP at work. The caller serialises. */
struct mv_move_wish {
	bool own; /* this end, by mv_move_start(), and not only the peer; readable */
	bool peer; /* leader: the follower has said so */
};

/* What calling off a move of a QP at work needs, and leaves. The caller serialises. */
struct mv_move_call_off {
	enum mv_move_state settled; /* state before the move, restored by STAY: ACTIVE or PASSTHROUGH */
	bool aborted; /* mv_move_abort() was called */
	uint8_t reason; /* enum mv_ctl_reason for which the last move was called off */
};

/* What the old QPs had executed: those before mv_move.now; in DRAINED before mv_move.next. The caller serialises. */
struct mv_move_syncs {
	struct mv_move_sync mine, peer; /* mine: readable */
	bool mine_is_for_now; /* @mine is of the move that led to mv_move.now; the peer may still ask for it */
	bool peer_valid; /* @peer is valid */
};

/* To be done when the outcome of PREPARE, CONNECT or DRAIN is known. The caller serialises. */
struct mv_move_to_do {
	uint8_t what; /* enum mv_move_pending of move_internal.h */
	uint8_t reason; /* enum mv_ctl_reason */
	bool timed_out;
};

/* Times, in ns; 0: not set. The caller serialises. */
struct mv_move_timers {
	uint64_t resend_at, resend_step, begun_at, heard_at, answered_at, work_since;
	uint64_t told_at; /* in RTR: when the peer was last told what an end in RTR can tell; 0: never */
	uint64_t patience_ns; /* from mv_move_patience(); 0: not known */
	/* After a refused try of the own path: earliest next try, and the step to it. 0: not refused. */
	uint64_t try_at, try_step;
	uint64_t phase_since; /* at work: when PREPARE or DRAIN began */
};

/* Actions that the caller has not taken yet: list[next] to list[n - 1]. The caller serialises. */
struct mv_move_actions {
	unsigned int n, next;
	struct mv_move_action list[MV_MOVE_MAX_ACTIONS];
};

/* All members belong to the machine; the caller serialises. The caller may read those marked readable. */
struct mv_move {
	enum mv_move_state state; /* readable */
	const struct mv_move_times *times;
	bool leader; /* readable */
	bool self; /* the QP is connected to itself; readable */
	bool failover; /* a QP is at work while the next one is negotiated; readable */
	enum mv_path_verdict verdict;
	struct mv_ctl_end local, peer; /* as the programs know them; readable */
	uint8_t local_type; /* enum mv_gid_type of the entry that the program's QP uses or will use */
	struct mv_move_attempts attempts;
	bool undelivered; /* the agent could not deliver a message, and nothing has arrived from the peer since */
	uint32_t sq_psn, rq_psn; /* PSNs of the program's QP; MV_CTL_PSN_NONE: not known yet */
	struct mv_move_paths paths;
	uint32_t last_offer; /* leader: number of the latest offer; follower: number of the latest offer taken up */
	/* path of the work; valid in ACTIVE and later, and in PASSTHROUGH (offer 0); readable */
	struct mv_move_path now;
	struct mv_move_path next; /* path that is being negotiated; readable */
	bool prepared; /* @next has a QP that has to be released */
	/* For a QP at work. */
	uint8_t reason; /* enum mv_ctl_reason of the move; readable */
	bool early; /* @next was agreed upon because of a suspicion: standby QPs at both ends; readable */
	bool unsure; /* the path is only suspected; readable */
	uint32_t declined; /* follower: number of the offer that could not be taken up; 0: none */
	struct mv_move_wish wish;
	struct mv_move_call_off call_off;
	struct mv_move_syncs sync;

	struct mv_move_to_do pending;
	struct mv_move_timers timers;
	struct mv_move_actions actions;
};

struct mv_move_begin {
	struct mv_ctl_end local, peer;
	uint8_t local_type;
	enum mv_path_verdict verdict; /* why the QP does not simply connect */
	const struct mv_path *paths; /* n_paths, best first; copied, at most MV_MOVE_MAX_PATHS */
	size_t n_paths;
	uint32_t rq_psn; /* the program's, known at RTR */
	/*
	 * Later than the attempts of all earlier QPs with this number, e.g. milliseconds since boot. Compared as serial
	 * numbers, so it may wrap. 0 counts as 1.
	 */
	uint32_t attempt;
	uint64_t nonce; /* random number of that attempt */
};

/**
 * mv_move_begin - the program has connected its QP (RTR), and the path may not work
 * @times: owned by the caller; constant as long as @m is used
 */
void mv_move_begin(struct mv_move *m, const struct mv_move_begin *begin, const struct mv_move_times *times,
		   uint64_t now_ns);

/**
 * mv_move_adopt - the program's QP is already connected as the program asked
 * @begin: verdict, paths and n_paths are ignored; local_type is the one in use
 * @sq_psn: MV_CTL_PSN_NONE: not in RTS yet; mv_move_rts() follows
 *
 * As after mv_move_begin() and the action PASSTHROUGH: the QP answers its peer, and may be moved. A QP that is
 * connected to itself begins only here, because its first path needs no agreement. The struct numbers the moves, so
 * keep it as long as the QP is connected.
 */
void mv_move_adopt(struct mv_move *m, const struct mv_move_begin *begin, uint32_t sq_psn,
		   const struct mv_move_times *times, uint64_t now_ns);

/** mv_move_rts - the program has brought its QP to RTS */
void mv_move_rts(struct mv_move *m, uint32_t sq_psn, uint64_t now_ns);

/**
 * mv_move_patience - time for which a send of the program waits for its acknowledgement, including all retries, by its
 * QP attributes
 * @ns: UINT64_MAX: forever
 *
 * Most programs use the same attributes at both ends. Until this call, the shortest patience is assumed.
 */
void mv_move_patience(struct mv_move *m, uint64_t ns);

/** mv_move_work_waits - the program has posted a send that has to wait. Only the first call counts */
void mv_move_work_waits(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_message - a message from the peer's process
 * @msg: opened (proof.h)
 *
 * These messages are ignored, without any effect:
 *
 * - not opened, or with other ends than ours;
 * - of an older attempt, or with another nonce than the peer's attempt had;
 * - for another attempt of ours, or without our nonce, unless a HELLO or STANDBY that asks;
 * - of an unexpected type;
 * - proving fewer PSNs than the peer has proven before: an end in RTR knows one, later both.
 *
 * A QP that is connected to itself ignores all.
 */
void mv_move_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/**
 * mv_move_unopened - a message in the peer's name was sealed with our own PSN, which is not known before RTS
 *
 * An end that stays in RTR then tells the peer what it knows, at most every 10 ms. Otherwise the two ends could never
 * talk.
 */
void mv_move_unopened(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/**
 * mv_move_unreachable - the agent cannot reach the peer's agent, and the peer's host is gone
 *
 * Leads to PASSTHROUGH at once. After ANSWER, at either end, and for a QP at work, it counts as a lost message, because
 * the failure of the path may have cut off the agents for a moment.
 */
void mv_move_unreachable(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_undelivered - the agent could not deliver a message, but the peer's host is known to be alive
 *
 * Counts as a lost message, which is repeated. If nothing arrives from the peer until the end, this becomes the reason.
 */
void mv_move_undelivered(struct mv_move *m);

/**
 * mv_move_passthrough_at - when may the program's own QP be connected as the program asked, if its path works then?
 *
 * Return: ns; UINT64_MAX: never: the peer has answered, or is not being asked.
 */
uint64_t mv_move_passthrough_at(const struct mv_move *m);

/**
 * mv_move_tried - outcome of connecting the program's own QP, after mv_move_passthrough_at()
 * @ok: true: the QP can receive; the state is PASSTHROUGH, without an action PASSTHROUGH. False: the QP is as before;
 * mv_move_passthrough_at() tells when to try again
 *
 * No other event may come between mv_move_passthrough_at() and this call: with both QPs connected, the peer's work
 * could go to either.
 */
void mv_move_tried(struct mv_move *m, bool ok, uint64_t now_ns);

/**
 * mv_move_prepared - outcome of PREPARE
 * @mine: our QP on the path; copied. NULL: failed, and nothing is to be released
 * @stays: it is the program's own QP, with the program's keys
 */
void mv_move_prepared(struct mv_move *m, const struct mv_ctl_end *mine, uint16_t lid, uint16_t mtu_bytes, bool stays,
		      uint64_t now_ns);

/**
 * mv_move_connected - outcome of CONNECT; after a failure the QP exists until RELEASE
 *
 * If the old QP of a connection at work is in RTS, the new QP has to be in RTS, too.
 */
void mv_move_connected(struct mv_move *m, bool ok, uint64_t now_ns);

/** mv_move_tick - time has passed */
void mv_move_tick(struct mv_move *m, uint64_t now_ns);

/** mv_move_deadline - when mv_move_tick() is due; UINT64_MAX: never */
uint64_t mv_move_deadline(const struct mv_move *m);

/** mv_move_peek - the next action, without taking it; valid until the next call. NULL: none */
const struct mv_move_action *mv_move_peek(const struct mv_move *m);

/**
 * mv_move_next - take the next action
 *
 * Call after every event until it returns false, and carry out the actions in this order.
 */
bool mv_move_next(struct mv_move *m, struct mv_move_action *ret);

/**
 * mv_move_header - fill in the fields that all messages of this connection have in common
 * @ret: all other fields are zeroed
 */
void mv_move_header(const struct mv_move *m, enum mv_ctl_type type, struct mv_ctl_msg *ret);

/**
 * mv_move_is_from_peer - is @msg (KEY_*) from the other end of this connection, in its present life?
 *
 * Compares the ends and both attempts, and requires a PSN as proof.
 */
bool mv_move_is_from_peer(const struct mv_move *m, const struct mv_ctl_msg *msg);

/**
 * mv_move_bye - the message to the peer when the program destroys or resets its QP
 *
 * Changes nothing here: the caller releases what it has made for the QP.
 *
 * Return: false: the peer is not known yet, and there is nothing to send.
 */
bool mv_move_bye(const struct mv_move *m, struct mv_ctl_msg *ret);

/**
 * mv_move_answer_passthrough - answer of an end that is connected as its program asked
 * @local, @peer, @local_type, @sq_psn, @rq_psn: of that connection; PSNs MV_CTL_PSN_NONE if not known. The peer accepts
 * only an answer that a PSN proves. Without @rq_psn, and without @sq_psn while the peer is not in RTS, the peer asks
 * until it gives up
 * @attempt: any, but not 0; @nonce: of that attempt
 *
 * For a connection that never had a struct mv_move. A connection with one answers by mv_move_message().
 *
 * Return: true: send @ret (HELLO|PASSTHROUGH to a HELLO, REFUSE(PASSTHROUGH) to an OFFER or ANSWER); false: no answer.
 */
bool mv_move_answer_passthrough(const struct mv_ctl_end *local, const struct mv_ctl_end *peer, uint8_t local_type,
				uint32_t sq_psn, uint32_t rq_psn, uint32_t attempt, uint64_t nonce,
				const struct mv_ctl_msg *msg, struct mv_ctl_msg *ret);

/** mv_move_state_name - one word; constant string */
const char *mv_move_state_name(enum mv_move_state state);

#endif
