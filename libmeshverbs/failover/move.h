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
 * end's QP can receive.
 *
 * Either end may give up and connect natively, and says so to whatever the peer sends then, until the follower has
 * sent ANSWER(READY): from there on the leader alone decides, and the follower asks until it knows. Should it hear
 * nothing for give_up_ns while work waits, or BYE, it activates: if the leader did, too, all is well, and if not, the
 * work fails on the path as it would have failed without one. Going native instead could leave a leader that is
 * active, and receives that the path has already taken, without their other end.
 *
 * A peer without such a machine never says a word, though the program behind it may be there and send. Work that waits
 * for that ends after give_up_ns; but a program that only receives has none. What it asked for did not work when it began,
 * and may since: a port is back. Or it may have worked all the time (MV_PATH_OTHER_SUBNET). The caller, who sees that, may
 * then connect the program's own QP while still asking, not before mv_move_native_at(), and says by mv_move_tried() how that
 * went. Where it was refused (the neighbour does not answer yet) nothing has happened, and the end asks on. Where it was done, the end is NATIVE, as one that gave up before it had
 * heard of its peer: a peer that comes after all asks, and is told.
 *
 * A path that one end cannot make (PREPARE or CONNECT fails) is not the end: the leader goes on to its next one, and
 * the follower asks for it by an ANSWER without READY. Offers are numbered, so a late one does no harm.
 *
 * Attempts tell the lives of a QP apart: a program may reset a QP and connect it again. A peer's later attempt starts
 * over, except on an end that is ACTIVE or NATIVE, which is silent: its program has to reset it as well.
 * If it always uses the same PSNs, what an earlier life of the peer said, with no attempt of ours in it, looks as if meant for our
 * present one. So a peer is held to an attempt once that has named ours; until then a later one takes its place, in silence.
 *
 * The move of a live QP is the same with an old QP that has to be fenced before the new one may be used. It begins on
 * an end that is settled (ACTIVE or NATIVE), on either or on both at once, with mv_move_start(), and each message names the
 * path that is being left by the number of its offer (0: the program's own):
 *
 *   follower --HELLO--> leader           "I want to leave this path" (only if it begins)
 *   leader   WANTED, and then            its caller answers with mv_move_start()
 *   leader   PREPARE
 *   leader   --OFFER--> follower
 *   follower PREPARE, CONNECT, QUIESCE
 *   follower --ANSWER(READY)--> leader
 *   leader   CONNECT, QUIESCE            up to here the old QP is at work and either may call it off: STAY
 *   leader   --CONFIRM--> follower       from here on each FENCEs its old QP, both at the same time. Where many move at once, one
 *                                        message less is worth more: the leader fences, and its SYNC is this, too
 *   each     --SYNC--> the other         once it has: what its old QP executed
 *   each     ACTIVATE                    once it has fenced and has the peer's SYNC: replays, and goes on
 *
 * What takes long before CONFIRM can be done while all is well: each end that has made a QP for the next move (PREPARE will be
 * answered with that) tells the other in AHEAD, and connects it to the one that it is told of: STANDBY. The states do not know of it. An
 * end that is to CONNECT finds that it is connected already, to just that QP with just those PSNs, or it is not, and does it then. So
 * an AHEAD that is lost, late or wrong costs time and nothing else.
 *
 * QUIESCE: the fence throws away what is on its way, and all of it can be had again but the result of an atomic. So as long as the
 * path works, the caller posts no more atomics and waits for those that are outstanding; where it does not, they are as lost
 * as they would be without a move, and nothing is waited for. Each end is through with that before it says so to the other, so
 * neither fence, which cuts off both directions, finds any.
 *
 * So nothing is fenced before both ends have their QPs on the new path, connected (CONFIRM says so; a SYNC says it as
 * well); nothing is posted there before both have fenced. A leader that does not know its peer's attempt asks for
 * it first, by a HELLO that the follower answers with its own. So does one whose OFFER to an attempt that has not named
 * its own is not answered: that HELLO, as the wish of a follower in that place, is to whichever life the peer is in.
 *
 * Before FENCE, giving up costs nothing: the QP stays where it is, its own retries go on (STAY). That is also what happens when nothing
 * is agreed upon in half of move_ns, of which a leader takes seven eighths at most, so that its CONFIRM, also when it is put off by
 * live_resend_ns, finds a follower that still waits (whose time begins anew with each offer), or atomics do not finish in that time. After
 * FENCE there is no way back: if the peer's SYNC does not come in half of move_ns, or the peer says that it gave up, the QP fails as it
 * would have failed without us: SURFACE. What
 * the peer says after its SYNC changes nothing. The peer may have been luckier and be ACTIVE: its QP then finds nobody there, which is what a program sees whose peer died; and no work request
 * is executed twice, for it posts only what our SYNC says we have not executed.
 *
 * A QP that is connected to itself is both ends, and leads: what the other end would answer is what it has done itself. So nothing is
 * sent, and the steps are PREPARE, CONNECT, QUIESCE, FENCE, ACTIVATE.
 *
 * A second failure during a move: before FENCE, mv_move_start() again, with other paths; after it, the move ends as it would have
 * (messages do not need the path), and the next one starts from there.
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
	/* Of a live QP only (ASKING to ANSWERED as above): */
	MV_MOVE_QUIESCING, /* connected; QUIESCE given out. After CONNECTING at either end */
	MV_MOVE_FENCING, /* FENCE given out */
	MV_MOVE_FENCED, /* waiting for the peer's SYNC */
	MV_MOVE_FAILED, /* SURFACE given out: this QP does not work any more */
};

enum mv_move_action_type {
	MV_DO_NOTHING,
	MV_DO_SEND, /* @msg to the peer */
	MV_DO_PREPARE, /* make a QP on the rail of @local_gid; answer with mv_move_prepared(), soon */
	MV_DO_CONNECT, /* connect it to @peer with @mtu_bytes; answer with mv_move_connected(), soon */
	/*
	 * The program's work goes there from now on. @replay: after what was outstanding on the old QP has been dealt with
	 * as @next_psn says (psn.h); the old QP is not needed any more
	 */
	MV_DO_ACTIVATE,
	MV_DO_NATIVE, /* connect the program's own QP; with @gid_type instead of its entry's if that differs */
	MV_DO_RELEASE, /* the QP made by PREPARE is not needed any more; what QUIESCE held back goes on */
	/*
	 * Post no more atomics until RELEASE or FENCE, but for what brings a completion that tells of those outstanding; what comes
	 * behind one waits, too. If none is outstanding, or the
	 * path does not work any more, mv_move_quiesced(); else this comes again after a while
	 */
	MV_DO_QUIESCE,
	/*
	 * Put the old QP into ERR, drain it, read its rq_psn, post the receives that it did not consume to the new QP;
	 * sends that the program posts wait from now on, it sees no completion of a send that was flushed, and sees what the
	 * old QP received before what the new one does, which may be used as soon as the peer has our SYNC. Answer with
	 * mv_move_fenced(), soon
	 */
	MV_DO_FENCE,
	MV_DO_STAY, /* the move is off, nothing was fenced: the QP goes on as it is, for better or worse; @reason */
	/*
	 * The move failed after FENCE: give the program the errors that it would have had (what was outstanding, in order,
	 * and everything later); completions of receives that the new QP has consumed come before them. If no send is outstanding there is
	 * nothing that the peer would have to tell, and the work may go to the new QP instead, for good: mv_move is FAILED all the same. @reason
	 */
	MV_DO_SURFACE,
	/*
	 * The peer wants to leave the path because of @reason (of MV_CTL_REASON_PORT ... _HOME): answer with
	 * mv_move_start() and paths, or mv_move_refuse(). Comes again if neither is done
	 */
	MV_DO_WANTED,
	/*
	 * The peer has a QP that it would move to. If there is one on @local_gid for which PREPARE would be answered, it can be connected as
	 * CONNECT would say (@mtu_bytes: the peer's). @answer: then mv_move_ahead(ready)
	 */
	MV_DO_STANDBY,
};

struct mv_move_action {
	enum mv_move_action_type type;
	/* Each connection has room for ten of these. */
	union {
		struct mv_ctl_msg msg; /* SEND; no other has it */
		struct {
			/*
			 * PREPARE, CONNECT. On a follower @local_gid is the leader's wish: refuse what is not ours or is
			 * excluded
			 */
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
			 * NATIVE, STAY, SURFACE: why no move, for the log; REASON_NONE when agreed that none is needed, or
			 * when @timed_out says enough. WANTED: why one
			 */
			enum mv_ctl_reason reason;
			/* NATIVE, STAY, SURFACE: nothing was heard in time; ACTIVATE: without the leader's word */
			bool timed_out;
			bool unsure; /* STAY: there was only a suspicion, this end's or the peer's */
			/* ACTIVATE */
			bool replay; /* of a live QP; else the rest does not count */
			uint32_t next_psn; /* rq_psn of the peer's fenced QP */
			/* receives that it consumed since it was connected, modulo 2^32: to check the former by */
			uint32_t n_received;
		};
	};
};

#define MV_MOVE_MAX_PATHS 16
#define MV_MOVE_MAX_ACTIONS 10 /* that wait to be taken; beyond 5, messages to be sent are left out */

struct mv_move_times {
	/*
	 * An end in RTR knows its peer's PSN only, and says nothing for so long: programs go on to RTS at once, but for some that only
	 * receive. Default 20 ms
	 */
	uint64_t rtr_ns;
	uint64_t resend_ns; /* first repetition; doubles up to resend_max_ns. Default 2 ms, 500 ms */
	uint64_t resend_max_ns;
	uint64_t live_resend_ns; /* first one of a live QP: hundreds move at once, and their messages wait for each other. 10 ms */
	uint64_t live_resend_max_ns; /* the same for a live QP, whose program notices each of them. Default 50 ms */
	/*
	 * Verdict ASK: how long the peer may be silent before going native; any other: before the own path may be tried, if that
	 * seems to work. The path may work, and the peer have no plugin and send at once. So this end does not ask for longer than three quarters of what it would itself wait for an answer, see
	 * mv_move_patience(), and for the first at most (default 2 s), the second at least (default 400 ms): with a timeout of 14 and a retry_cnt of 7
	 * (ibv_rc_pingpong, perftest) that is 8 times 4.096 us << 14 at least (IBTA, 9.7.6.1.3), 537 ms
	 */
	uint64_t ask_ns, ask_min_ns;
	uint64_t give_up_ns; /* how long work may wait for the agreement. Default 10 s */
	/*
	 * Between attempts at the program's own path: the first doubles up to the second. To find out that a neighbour does not
	 * answer takes the kernel about a second, for which calls of the program's for that QP wait. Default 1 s, 16 s: in the
	 * end a sixteenth of the time. Verdict OTHER_SUBNET: the second at once
	 */
	uint64_t try_ns, try_max_ns;
	uint64_t move_ns; /* how long the move of a live QP may take; half of it before FENCE, half after, not counted how long a follower asks for it. Default 4 s */
};

extern const struct mv_move_times mv_move_default_times;

/* Two QPs that are, or are to be, connected. */
struct mv_move_path {
	struct mv_ctl_end mine, peer;
	uint32_t offer; /* its number; 0: the program's own QPs */
	uint8_t type; /* enum mv_gid_type */
	bool my_stays, peer_stays;
	uint16_t my_mtu_bytes, my_lid, peer_mtu_bytes, peer_lid;
	uint32_t my_psn, peer_psn; /* first ones; MV_CTL_PSN_NONE: as the programs said */
};

/* What an old QP had executed when it was fenced. */
struct mv_move_sync {
	uint32_t next_psn, n_received;
};

/* All members are the machine's own, to be read by the caller where it says so. */
struct mv_move {
	enum mv_move_state state; /* readable */
	const struct mv_move_times *times;
	bool leader; /* readable */
	bool self; /* the QP is connected to itself; readable */
	bool live; /* a QP is at work while the next is negotiated; readable */
	enum mv_path_verdict verdict;
	struct mv_ctl_end local, peer; /* as the programs know them; readable */
	uint8_t local_type; /* enum mv_gid_type of the entry the program's QP uses or will use */
	uint32_t attempt, peer_attempt; /* readable; peer's 0: not heard of */
	uint64_t nonce, peer_nonce; /* of those attempts (ctl.h) */
	uint8_t peer_shown; /* mask of enum mv_proof: PSNs that it has shown to know, 0: none yet. Messages that show less do not count */
	bool peer_knows_us; /* and it has named @attempt: is no earlier life of the peer's, with the same PSNs, that ours never met */
	bool undelivered; /* the agent gave a message back, and nothing was heard of the peer since */
	uint32_t sq_psn, rq_psn; /* of the program; MV_CTL_PSN_NONE: not known yet */
	struct mv_path paths[MV_MOVE_MAX_PATHS]; /* to be tried, in this order */
	uint8_t n_paths, path; /* current one */
	uint32_t last_offer; /* leader: number of the latest offer; follower: of the latest one taken up */
	struct mv_move_path now; /* what the work goes to; ACTIVE and later, and NATIVE (offer 0); readable */
	struct mv_move_path next; /* being negotiated; readable */
	bool prepared; /* there is a QP of @next to be released */
	/* Of a live QP. */
	enum mv_move_state settled; /* where it was, and is again if it stays: ACTIVE or NATIVE */
	uint8_t reason; /* enum mv_ctl_reason: why it moves; readable */
	bool own_wish; /* mv_move_start() was called: it is not only the peer that wants to move */
	bool peer_wish; /* leader: the follower has said that it wants to */
	bool early; /* @next was agreed upon when there was only a suspicion: it is a QP made ahead, at both ends; readable */
	bool unsure; /* and there is no more than that yet; readable */
	bool aborted; /* mv_move_abort() */
	uint8_t off_reason; /* enum mv_ctl_reason: why the last move was called off */
	uint32_t declined; /* follower: offer that we could not take up; 0: none */
	struct mv_move_sync my_sync, peer_sync; /* of the QP that led to @now, or in FENCED will; the former readable */
	bool fenced_for_now; /* @my_sync is of the move that led to @now: the peer may still ask for it */
	bool peer_synced; /* @peer_sync is there */
	/* What came up while PREPARE, CONNECT or FENCE was out: done once its outcome is known. */
	uint8_t pending; /* enum mv_move_pending of move.c */
	uint8_t pending_reason; /* enum mv_ctl_reason */
	bool pending_timed_out;
	uint64_t resend_at, resend_step, begun_at, heard_at, answered_at, work_since; /* 0: not set */
	uint64_t told_at; /* in RTR: when the peer was last told what can be said there; 0: never */
	uint64_t patience_ns; /* see mv_move_patience(); 0: not known */
	uint64_t try_at, try_step; /* own path tried and refused: not before, and how much later that is; 0: was not */
	uint64_t phase_since; /* live: when PREPARE, or FENCE, began */
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
	uint64_t nonce; /* of that attempt, at random */
};

/**
 * mv_move_begin - the program connected its QP (RTR) and the path may not work
 * @times: stays the caller's; constant
 */
void mv_move_begin(struct mv_move *m, const struct mv_move_begin *begin, const struct mv_move_times *times,
		   uint64_t now_ns);

/**
 * mv_move_adopt - the program's QP is connected as the program asked, and has not been known here until now
 * @begin: verdict, paths and n_paths are not looked at; local_type is the one in use
 * @sq_psn: MV_CTL_PSN_NONE: not in RTS yet; then mv_move_rts() follows
 *
 * As after mv_move_begin() and the action NATIVE: it answers its peer, and may be moved. One that is connected to itself begins here
 * only: nobody has to agree to where it is connected first. To be kept, once made, for as long as
 * the QP is connected: it numbers the moves.
 */
void mv_move_adopt(struct mv_move *m, const struct mv_move_begin *begin, uint32_t sq_psn,
		   const struct mv_move_times *times, uint64_t now_ns);

/**
 * mv_move_ahead - tell the peer of a QP that is ready to be the next one
 * @mine: on the path that would be taken; @peer_gid: its other end
 * @lid, @mtu_bytes: as for mv_move_prepared()
 * @ready: it is connected to the peer's
 *
 * On an end that is settled, else nothing happens. It may be lost, and the caller may try again. By it the ends learn each other's
 * attempts, too: a leader that has to ask for that first loses a round trip when every one counts. With a QP that is connected to
 * itself nothing is sent, and STANDBY follows.
 */
void mv_move_ahead(struct mv_move *m, const struct mv_ctl_end *mine, const union ibv_gid *peer_gid, uint8_t type, uint16_t lid,
		   uint16_t mtu_bytes, bool ready);

/**
 * mv_move_start - the QP is to leave its path
 * @reason: MV_CTL_REASON_PORT, _PATH, _DRAIN or _HOME
 * @paths: @n_paths, best first, copied; only a leader's are used (the follower's caller judges by the action PREPARE)
 *
 * On an end that is settled. While a live move is under way and nothing is fenced yet, it takes other paths: a leader
 * begins with them anew. A follower whose leader is unsure tells it.
 *
 * Return: 0; -EBUSY: fenced already, or still being connected: to be called again after ACTIVATE; -EINVAL: the QP has
 * failed.
 */
int mv_move_start(struct mv_move *m, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n_paths,
		  uint64_t now_ns);

/**
 * mv_move_expect - the path may be found dead soon: agree on another one meanwhile
 * @paths: as for mv_move_start()
 *
 * On a leader that is settled. As mv_move_start() with MV_CTL_REASON_PATH, but neither end does what its program could notice: PREPARE and
 * CONNECT are about QPs that were made ahead, and fail where there are none, for @early says so; the leader's QUIESCE, and with it all that
 * follows, waits for mv_move_sure(), and the follower has none. The QPs come into their places only then: the leader's with QUIESCE, the
 * follower's with FENCE. At mv_move_cancel(), and where it comes to nothing, STAY is @unsure.
 *
 * Return: 0; -EBUSY, -EINVAL: not on such an end.
 */
int mv_move_expect(struct mv_move *m, const struct mv_path *paths, size_t n_paths, uint64_t now_ns);

/**
 * mv_move_sure - it is dead
 * @reason: MV_CTL_REASON_PORT or _PATH
 *
 * What was agreed upon holds. The peer's word makes it sure as well. Without effect on one that does not move on a suspicion.
 */
void mv_move_sure(struct mv_move *m, enum mv_ctl_reason reason, uint64_t now_ns);

/**
 * mv_move_cancel - the reason to move is gone (the port came back before anything was fenced)
 *
 * The old QP must still be able to go on: one that went to ERR by itself has to be moved. If the peer has a reason of
 * its own, or has heard CONFIRM, the move goes on; a follower can only call off its own wish. STAY tells that it is off.
 */
void mv_move_cancel(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_refuse - no move at all: the answer to WANTED, or of a live QP to PREPARE instead of mv_move_prepared(), and to QUIESCE; and
 *	of a follower whose leader is unsure, when it cannot keep to its answer (the leader may be sure by then, and have fenced)
 * @reason: MV_CTL_REASON_OFF, _UNSUPPORTED, _NO_PATH, ...
 *
 * The peer is told and stays where it is.
 */
void mv_move_refuse(struct mv_move *m, enum mv_ctl_reason reason, uint64_t now_ns);

/**
 * mv_move_abort - the QP is of no use any more (the program brought it to ERR), though it is not gone
 *
 * A move under way is called off (STAY, SURFACE), and the peer told; no other begins.
 */
void mv_move_abort(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_fenced - outcome of FENCE
 * @sync: what the old QP executed; NULL: could not be found out (the device is gone): SURFACE follows
 *
 * The receives must be on the new QP by now: the peer may send.
 */
void mv_move_fenced(struct mv_move *m, const struct mv_move_sync *sync, uint64_t now_ns);

/**
 * mv_move_quiesced - QUIESCE: there is nothing any more that the fence could lose
 * @many: so many QPs move at once that a message less is worth more than that the peer fences at the same time. A leader
 *	then leaves CONFIRM to its SYNC, unless that takes live_resend_ns.
 */
void mv_move_quiesced(struct mv_move *m, bool many, uint64_t now_ns);

/** mv_move_rts - the program brought its QP to RTS */
void mv_move_rts(struct mv_move *m, uint32_t sq_psn, uint64_t now_ns);

/**
 * mv_move_patience - how long a send of the program's waits for its acknowledgement in all, by what it has asked for
 * @ns: UINT64_MAX: for ever
 *
 * Programs mostly ask for the same at both ends. Until this is called it is not known, and taken for short.
 */
void mv_move_patience(struct mv_move *m, uint64_t ns);

/** mv_move_work_waits - the program posted a send that has to wait (first one matters) */
void mv_move_work_waits(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_message - a message from the peer's process
 *
 * @msg: opened (proof.h)
 *
 * Ignored, without any effect: messages that have not been opened, whose ends are not ours, of an older attempt or of another random number
 * than the one that came with the peer's attempt, meant for another attempt of ours or without our random number (but for a HELLO or AHEAD
 * that asks), of a type that does not fit, or that show less of the PSNs than the peer has shown before: an end in RTR knows one, and later
 * both. All, if it is connected to itself.
 */
void mv_move_message(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/**
 * mv_move_unopened - a message in the peer's name was sealed with our own PSN, which is not known before RTS
 *
 * An end that stays in RTR tells the peer what it knows, every 10 ms at most: else the two could never talk.
 */
void mv_move_unopened(struct mv_move *m, const struct mv_ctl_msg *msg, uint64_t now_ns);

/**
 * mv_move_unreachable - the agent cannot reach the peer's, and its host is gone
 *
 * Leads to NATIVE at once, except after ANSWER and in a leader that has got one: then it is as good as a lost message.
 * So it is with a live QP: what broke its path may have broken the agents' for a moment.
 */
void mv_move_unreachable(struct mv_move *m, uint64_t now_ns);

/**
 * mv_move_undelivered - the agent could not deliver a message, but the peer's host is known to live
 *
 * As good as a lost message: it will be repeated. Should waiting end without a word from the peer, this is the reason.
 */
void mv_move_undelivered(struct mv_move *m);

/**
 * mv_move_native_at - from when on the program's own QP may be connected as it asked, should that path work meanwhile
 *
 * Return: ns; UINT64_MAX: not at all, for the peer has been heard of, or nobody is being asked.
 */
uint64_t mv_move_native_at(const struct mv_move *m);

/**
 * mv_move_tried - the program's own QP was to be connected, when mv_move_native_at() said that it may be
 * @ok: it can receive: NATIVE, of which the action is not given out any more; false: it is as it was, and
 *      mv_move_native_at() says when to try again
 *
 * No other event may have come since mv_move_native_at(): with both QPs connected the peer's work could go to either.
 */
void mv_move_tried(struct mv_move *m, bool ok, uint64_t now_ns);

/**
 * mv_move_prepared - outcome of PREPARE
 * @mine: our QP on the path, NULL: failed (nothing is left to release)
 * @stays: it is the program's own QP, keys stay
 */
void mv_move_prepared(struct mv_move *m, const struct mv_ctl_end *mine, uint16_t lid, uint16_t mtu_bytes, bool stays,
		      uint64_t now_ns);

/**
 * mv_move_connected - outcome of CONNECT; after a failure the QP is still there, until RELEASE
 *
 * Of a live QP that is in RTS, the new one has to be in RTS, too.
 */
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
 * mv_move_owes_sync - may the peer have fenced its QP, and wait for what ours has executed?
 *
 * If so, and the program takes its QP away (or brings it to ERR), that is fenced, and the peer told by mv_move_last_sync() before it is told
 * that the QP goes: afterwards nobody would know.
 */
bool mv_move_owes_sync(const struct mv_move *m);

/** mv_move_last_sync - the message for that; @sync: as for mv_move_fenced(); in FENCED it is @m->my_sync */
void mv_move_last_sync(const struct mv_move *m, const struct mv_move_sync *sync, struct mv_ctl_msg *ret);

/**
 * mv_move_answer_native - what an end that is connected as its program asked says to a message of its peer
 * @local, @peer, @local_type, @sq_psn, @rq_psn: that connection; PSNs MV_CTL_PSN_NONE where not known. The peer
 * believes only an answer that a PSN proves: without @rq_psn, and without @sq_psn while the peer is not in RTS, it
 * goes on asking until it gives up
 * @attempt: any, but not 0; @nonce: that goes with it
 *
 * For connections that never had a struct mv_move; one that has, answers by itself (mv_move_message()).
 *
 * Return: true with @ret to be sent (HELLO|NATIVE to a HELLO, REFUSE(NATIVE) to an OFFER or ANSWER), false: nothing
 * to say.
 */
bool mv_move_answer_native(const struct mv_ctl_end *local, const struct mv_ctl_end *peer, uint8_t local_type,
			   uint32_t sq_psn, uint32_t rq_psn, uint32_t attempt, uint64_t nonce, const struct mv_ctl_msg *msg,
			   struct mv_ctl_msg *ret);

/** mv_move_state_name - one word */
const char *mv_move_state_name(enum mv_move_state state);

#endif
