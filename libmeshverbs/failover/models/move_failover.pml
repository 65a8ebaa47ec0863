/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The move of a live QP of move_failover.c, for spin: what test_move_failover_property.c tries by chance is tried here
 * in every order. tests/unit/failover/check_model runs it, and runs it again with each of the mistakes below. move.pml
 * has the connect, the lives of a QP and attempts, which are not modelled here.
 *
 * The network is the set of all messages ever sent; a receiver may take any of them, at any time, as often as it
 * likes: delay, reordering and repetition. What is sent once and not repeated may be lost when it is sent. Steps without
 * effect are left out, so when nothing is left to do everything that was waited for has arrived, and the process
 * checker looks at the outcome.
 *
 * Each end executes what the other has posted, until its own old QP is drained, whatever the other does: packets are
 * under way. What it has executed is counted, and SYNC carries the count. Who ACTIVATEs posts everything beyond the
 * count that it was told, so that must be what was executed, and final.
 *
 * In a calm run, one of the ends may have an atomic outstanding, which comes to its end only while neither QP is
 * drained; none may be outstanding when either QP is.
 *
 * What is agreed upon on a suspicion is a move whose leader stays in QUIESCING for as long as it likes, and whose atomics are not waited for:
 * it goes on only if the path is dead, so that is a run that is not calm, in which there are none.
 *
 * A run is calm (nobody dies, nobody's patience ends once he may have made the other one drain), or it is not. Calm, no
 * QP may fail and both ends must be on the same path in the end; otherwise, an end may fail, but not the rest of what
 * is claimed.
 *
 * Mistakes, each of which must be found:
 *   1 BUG_DRAIN_EARLY    the leader drains on ANSWER, before its own QP is connected
 *   2 BUG_NO_WAIT        an end activates as soon as it has drained, without the peer's SYNC
 *   3 BUG_STALE_SYNC     a SYNC of an earlier move is taken
 *   4 BUG_SYNC_ONCE      an end that is ACTIVE does not repeat its SYNC
 *   5 BUG_READ_EARLY     what was executed is read before the QP is in ERR
 *   6 BUG_WALK_OFF       the follower calls off after ANSWER without a word
 *   7 BUG_UNDRAIN        after DRAIN an end goes back to the old path when time is up
 *   8 BUG_REFUSE_ANY     a REFUSE is taken for whatever is going on
 *   9 BUG_DEAF           the leader does not repeat CONFIRM, and the follower waits for that alone
 *  10 BUG_PENDING        what comes up during PREPARE, CONNECT and DRAIN is forgotten
 *  11 BUG_HASTY          the leader does not wait for its atomics
 *  12 BUG_HASTY_ANSWER   the follower does not
 * And GOAL_MOVED, GOAL_TWICE, GOAL_FLUSHED claim that nothing is ever moved, moved again, fails: found to be wrong, too.
 */

#define BUG_DRAIN_EARLY 1
#define BUG_NO_WAIT     2
#define BUG_STALE_SYNC  3
#define BUG_SYNC_ONCE   4
#define BUG_READ_EARLY  5
#define BUG_WALK_OFF    6
#define BUG_UNDRAIN     7
#define BUG_REFUSE_ANY  8
#define BUG_DEAF        9
#define BUG_PENDING     10
#define BUG_HASTY       11
#define BUG_HASTY_ANSWER 12
#define GOAL_MOVED      13
#define GOAL_TWICE      14
#define GOAL_FLUSHED   15

#ifndef OFFERS
#define OFFERS 3 /* numbers */
#endif
#ifndef STARTS
#define STARTS 2 /* times that each end wants to move */
#endif
#ifndef WORK
#define WORK 1 /* what each end posts: enough to see one that is repeated or left out */
#endif
#define N (OFFERS + 1)

c_decl {
\#include <stdlib.h>
};
hidden byte bug; /* from the environment: one program for all mistakes */

/* States of both ends. OFFERED is the leader's, ANSWERED the follower's. */
#define SETTLED    1
#define ASKING     2
#define PREPARING  3
#define OFFERED    4
#define CONNECTING 5
#define ANSWERED   6
#define DRAINING    7
#define DRAINED     8
#define FAILED     9
#define QUIESCING  10

/* What comes up while PREPARE, CONNECT or DRAIN is out. */
#define NONE    0
#define OFF     1
#define AGAIN   2

bool calm;
/* Atomics: may be posted, once; is outstanding. */
bool l_may, l_out, f_may, f_out;

/* The network, by number of the offer; base: the path that it is to replace. */
bool wish[N], healed, offer[N], ready[N], decline[N], confirm[N];
byte base[N];
bool l_refuse[N], f_refuse[N], l_sync[N], f_sync[N];
byte l_told[N], f_told[N]; /* what SYNC says */

/* State; path in use, being negotiated; latest number; may be at work: not drained. */
byte l_state = SETTLED, l_now, l_next, l_last, l_pending, l_starts, l_heard, l_count;
byte f_state = SETTLED, f_now, f_next, f_last, f_pending, f_starts, f_heard, f_count, f_declined;
bool l_own, l_peer, l_dead, l_has, f_own, f_dead, f_has; /* wishes; has: the peer's SYNC */
bool l_up, f_up; /* the QP of next is connected */
bool l_drained, f_drained; /* the QP of now is in ERR */
byte l_done, f_done; /* executed of the leader's work, by the follower, and the other way round */
byte moves;

inline maybe_send(bit_)
{
	if
	:: bit_ = true
	:: skip
	fi
}

#define L_DRAIN_OUT (l_state == DRAINING || l_state == DRAINED)
#define F_DRAIN_OUT (f_state == DRAINING || f_state == DRAINED)
#define L_BUSY (l_state == PREPARING || l_state == CONNECTING || l_state == DRAINING)
#define F_BUSY (f_state == PREPARING || f_state == CONNECTING || f_state == DRAINING)
#define L_QUIET (l_state == QUIESCING || L_DRAIN_OUT)
#define F_QUIET (f_state == QUIESCING || f_state == ANSWERED || F_DRAIN_OUT)
#define BOTH_AT_WORK (!l_drained && !f_drained && !l_dead && !f_dead && l_now == f_now)
#define L_FAILOVER (l_state != SETTLED && l_state != FAILED)
#define F_FAILOVER (f_state != SETTLED && f_state != FAILED)

/* ---- leader ------------------------------------------------------------------------------------ */

inline l_end(to)
{
	l_state = to; l_own = false; l_peer = false; l_up = false; l_has = false; l_pending = NONE
}

/* A number that the follower has not seen, when it cannot know what is meant otherwise. */
inline l_tell_refusal()
{
	if
	:: (l_state == PREPARING || l_state == SETTLED) && l_last < OFFERS -> l_last++
	:: else
	fi;
	if
	:: l_last > 0 -> maybe_send(l_refuse[l_last])
	:: else
	fi
}

inline l_call_off()
{
	if
	:: L_BUSY && bug == BUG_PENDING -> skip
	:: L_BUSY && bug != BUG_PENDING -> l_pending = OFF
	:: l_state == DRAINED && bug == BUG_UNDRAIN -> l_end(SETTLED)
	:: l_state == DRAINED && bug != BUG_UNDRAIN -> l_end(FAILED)
	:: else -> l_end(SETTLED)
	fi
}

inline l_try_path()
{
	if
	:: l_last < OFFERS -> l_state = PREPARING
	:: else -> l_end(SETTLED)
	fi
}

inline l_drain()
{
	/* Nothing is drained before both have a QP to go on with. */
	assert(l_up && (!calm || (f_up && f_next == l_next)));
	assert(!calm || (!l_out && !f_out));
	l_count = f_done; /* as it is now: to be wrong, with BUG_READ_EARLY */
	l_state = DRAINING
}

inline l_activate()
{
	assert(l_drained && (f_drained || f_now == l_next || f_state == FAILED || f_dead));
	assert(l_heard == l_done);
	l_now = l_next; l_drained = false; l_end(SETTLED); moves++
}

inline l_outcome()
{
	if
	:: l_state == DRAINING ->
		if
		:: bug == BUG_READ_EARLY -> skip
		:: else -> l_count = f_done
		fi;
		l_drained = true; l_state = DRAINED;
		if
		:: l_pending == OFF -> l_call_off()
		:: else ->
			l_told[l_next] = l_count; maybe_send(l_sync[l_next]);
			if
			:: l_has -> l_activate()
			:: !l_has && bug == BUG_NO_WAIT -> l_heard = l_done; l_activate()
			:: else
			fi
		fi
	:: l_state != DRAINING && l_pending == OFF -> l_end(SETTLED)
	:: l_state != DRAINING && l_pending == AGAIN -> l_pending = NONE; l_up = false; l_try_path()
	:: l_state == PREPARING && l_pending == NONE ->
		l_last++; l_next = l_last; l_state = OFFERED; base[l_next] = l_now; offer[l_next] = true
	:: l_state == CONNECTING && l_pending == NONE -> l_up = true; l_state = QUIESCING
	:: l_state != DRAINING && l_pending == NONE -> l_up = false; l_try_path() /* it failed */
	fi
}

inline l_take_ready()
{
	if
	:: bug == BUG_DRAIN_EARLY -> confirm[l_next] = true; l_drain()
	:: else -> l_state = CONNECTING
	fi
}

inline l_start()
{
	l_starts++; l_own = true;
	if
	:: l_state == SETTLED -> l_try_path()
	:: L_BUSY && l_pending == NONE -> l_pending = AGAIN
	:: l_state == OFFERED || l_state == QUIESCING -> l_up = false; l_try_path()
	:: else
	fi
}

#define L_MINE(n) ((n) == l_next && l_state != SETTLED && l_state != FAILED && l_state != PREPARING)
#define L_GONE(n) (((l_state == SETTLED && (n) != l_now) || l_state == FAILED) && !l_refuse[n])

#define L_ON(n)                                                                                     \
	:: atomic { ready[n] && L_MINE(n) && l_state == OFFERED -> l_take_ready() }                 \
	:: atomic { ready[n] && L_MINE(n) && L_DRAIN_OUT && !confirm[n] && bug != BUG_DEAF ->       \
			confirm[n] = true }                                                         \
	:: atomic { ready[n] && L_GONE(n) -> l_refuse[n] = true }                                   \
	:: atomic { decline[n] && L_MINE(n) && l_state == OFFERED -> l_try_path() }                 \
	:: atomic { f_sync[n] && L_DRAIN_OUT && !l_has && (n == l_next || bug == BUG_STALE_SYNC) -> \
			l_heard = f_told[n]; l_has = true;                                          \
			if                                                                          \
			:: l_state == DRAINED -> l_activate()                                        \
			:: else                                                                     \
			fi }                                                                        \
	:: atomic { f_sync[n] && l_now == n && bug != BUG_SYNC_ONCE && !l_sync[n] ->                \
			l_sync[n] = true }                                                          \
	:: atomic { f_sync[n] && L_GONE(n) -> l_refuse[n] = true }                                  \
	:: atomic { f_refuse[n] && ((L_MINE(n) && l_pending != OFF) ||                              \
			(bug == BUG_REFUSE_ANY && L_FAILOVER && l_pending != OFF)) -> l_call_off() }

#define L_ON_WISH(n)                                                                                \
	:: atomic { wish[n] && n == l_now && l_state == SETTLED && l_last < OFFERS ->               \
			if                                                                          \
			:: l_peer = true; l_try_path()                                              \
			:: l_tell_refusal()                                                         \
			fi }                                                                        \
	:: atomic { wish[n] && n == l_now && L_FAILOVER && !L_DRAIN_OUT && !l_peer && !healed ->        \
			l_peer = true }

proctype leader()
{
end:	do
	L_ON(1)
	L_ON(2)
#if OFFERS > 2
	L_ON(3)
#endif
	L_ON_WISH(0)
	L_ON_WISH(1)
	L_ON_WISH(2)
	:: atomic { L_BUSY && !l_dead -> l_outcome() }
	:: atomic { l_may && !L_QUIET && BOTH_AT_WORK -> l_may = false; l_out = true }
	:: atomic { l_out && BOTH_AT_WORK -> l_out = false }
	:: atomic { l_state == QUIESCING && !l_dead && (!l_out || bug == BUG_HASTY) ->
			maybe_send(confirm[l_next]); l_drain() }
	:: atomic { l_state == DRAINED && !l_sync[l_next] -> l_sync[l_next] = true } /* again and again */
	/* A path is bad, and then another one; it heals. */
	:: atomic { l_starts < STARTS && !l_dead && !L_DRAIN_OUT && l_state != FAILED -> l_start() }
	:: atomic { l_own && !L_DRAIN_OUT && l_pending != OFF ->
			l_own = false;
			if
			:: l_peer
			:: else -> l_tell_refusal(); l_call_off()
			fi }
	:: atomic { healed && l_peer && !L_DRAIN_OUT && l_pending != OFF ->
			l_peer = false;
			if
			:: l_own
			:: else -> l_tell_refusal(); l_call_off()
			fi }
	/* Time is up. */
	:: atomic { !calm && L_FAILOVER && !l_dead && l_pending != OFF -> l_tell_refusal(); l_call_off() }
	:: atomic { !calm && L_FAILOVER && !l_dead -> l_dead = true; break }
	/* It leaves, and says how far it came: the follower may wait for that. */
	:: atomic { !calm && L_DRAIN_OUT && !l_dead ->
			l_drained = true; l_told[l_next] = f_done; maybe_send(l_sync[l_next]);
			l_dead = true; break }
	/* The follower executes our work: its QPs may be on either path, ours need not be at work. */
	:: atomic { l_done < WORK && !f_dead && f_state != FAILED &&
			((!f_drained && f_now == l_now) || (f_up && f_next == l_now && !l_drained)) ->
			l_done++ }
	od
}

/* ---- follower ---------------------------------------------------------------------------------- */

inline f_end(to)
{
	f_state = to; f_own = false; f_up = false; f_has = false; f_pending = NONE
}

inline f_call_off()
{
	if
	:: F_BUSY && bug == BUG_PENDING -> skip
	:: F_BUSY && bug != BUG_PENDING -> f_pending = OFF
	:: f_state == DRAINED && bug == BUG_UNDRAIN -> f_end(SETTLED)
	:: f_state == DRAINED && bug != BUG_UNDRAIN -> f_end(FAILED)
	:: else -> f_end(SETTLED)
	fi
}

inline f_drain()
{
	assert(f_up && l_up && l_next == f_next || !calm || l_now == f_next);
	assert(!calm || (!l_out && !f_out));
	f_count = l_done;
	f_state = DRAINING
}

inline f_activate()
{
	assert(f_drained && (l_drained || l_now == f_next || l_state == FAILED || l_dead));
	assert(f_heard == f_done);
	f_now = f_next; f_drained = false; f_end(SETTLED)
}

inline f_outcome()
{
	if
	:: f_state == DRAINING ->
		if
		:: bug == BUG_READ_EARLY -> skip
		:: else -> f_count = l_done
		fi;
		f_drained = true; f_state = DRAINED;
		if
		:: f_pending == OFF -> f_call_off()
		:: else ->
			f_told[f_next] = f_count; maybe_send(f_sync[f_next]);
			if
			:: f_has -> f_activate()
			:: !f_has && bug == BUG_NO_WAIT -> f_heard = f_done; f_activate()
			:: else
			fi
		fi
	:: f_state != DRAINING && f_pending == OFF -> f_end(SETTLED)
	:: f_state == PREPARING && f_pending == NONE -> f_state = CONNECTING
	:: f_state == CONNECTING && f_pending == NONE -> f_up = true; f_state = QUIESCING
	:: f_state != DRAINING && f_pending == NONE ->
		f_declined = f_next; maybe_send(decline[f_next]); f_up = false;
		if
		:: f_own -> f_state = ASKING
		:: else -> f_end(SETTLED)
		fi
	fi
}

inline f_take_offer(n)
{
	f_up = false; f_last = n; f_next = n; f_state = PREPARING
}

inline f_take_sync(n)
{
	if
	:: f_state == ANSWERED -> f_drain()
	:: else
	fi;
	f_heard = l_told[n]; f_has = true;
	if
	:: f_state == DRAINED -> f_activate()
	:: else
	fi
}

#define F_IDLE (f_state == SETTLED || f_state == ASKING)
#define F_MINE(n) ((n) == f_next && F_FAILOVER && f_state != ASKING)
#define F_GONE(n) (((f_state == SETTLED && (n) != f_now) || f_state == FAILED) && !f_refuse[n])

#define F_ON(n)                                                                                     \
	:: atomic { offer[n] && (F_IDLE || f_state == ANSWERED || f_state == QUIESCING) &&          \
			base[n] == f_now && n > f_last ->                                           \
			f_take_offer(n) }                                                           \
	:: atomic { offer[n] && F_IDLE && n == f_declined && !decline[n] -> decline[n] = true }     \
	:: atomic { offer[n] && F_IDLE && n == f_last && n != f_declined && n != f_now &&           \
			!f_refuse[n] -> f_refuse[n] = true }                                        \
	:: atomic { offer[n] && f_state == FAILED && !f_refuse[n] -> f_refuse[n] = true }           \
	:: atomic { confirm[n] && F_MINE(n) && f_state == ANSWERED -> f_drain() }                   \
	:: atomic { confirm[n] && F_GONE(n) -> f_refuse[n] = true }                                 \
	:: atomic { l_sync[n] && !f_has && (F_DRAIN_OUT || (f_state == ANSWERED && bug != BUG_DEAF)) && \
			(n == f_next || (bug == BUG_STALE_SYNC && F_DRAIN_OUT)) -> f_take_sync(n) } \
	:: atomic { l_sync[n] && f_now == n && bug != BUG_SYNC_ONCE && !f_sync[n] ->                \
			f_sync[n] = true }                                                          \
	:: atomic { l_sync[n] && F_GONE(n) -> f_refuse[n] = true }                                  \
	:: atomic { l_refuse[n] && ((F_MINE(n) && f_pending != OFF) ||                              \
			(bug == BUG_REFUSE_ANY && F_FAILOVER && f_pending != OFF)) -> f_call_off() }    \
	:: atomic { l_refuse[n] && n > f_last && !F_DRAIN_OUT && f_state != FAILED ->               \
			f_last = n;                                                                 \
			if                                                                          \
			:: F_FAILOVER && f_pending != OFF -> f_call_off()                               \
			:: else                                                                     \
			fi }

proctype follower()
{
end:	do
	F_ON(1)
	F_ON(2)
#if OFFERS > 2
	F_ON(3)
#endif
	:: atomic { F_BUSY && !f_dead -> f_outcome() }
	:: atomic { f_may && !F_QUIET && BOTH_AT_WORK -> f_may = false; f_out = true }
	:: atomic { f_out && BOTH_AT_WORK -> f_out = false }
	:: atomic { f_state == QUIESCING && !f_dead && (!f_out || bug == BUG_HASTY_ANSWER) ->
			f_state = ANSWERED; ready[f_next] = true }
	:: atomic { f_state == DRAINED && !f_sync[f_next] -> f_sync[f_next] = true }
	:: atomic { f_starts < STARTS && !f_dead && f_state == SETTLED ->
			f_starts++; f_own = true; f_state = ASKING; wish[f_now] = true }
	:: atomic { f_starts < STARTS && !f_dead && f_state == ANSWERED && !f_own -> /* it knows what the leader suspects */
			f_starts++; f_own = true; wish[f_now] = true }
	:: atomic { f_own && !F_DRAIN_OUT ->
			f_own = false; maybe_send(healed);
			if
			:: f_state == ASKING -> f_end(SETTLED)
			:: f_state == ANSWERED && bug == BUG_WALK_OFF -> f_end(SETTLED)
			:: else
			fi }
	:: atomic { !calm && F_FAILOVER && !f_dead && f_pending != OFF ->
			if
			:: F_MINE(f_next) -> maybe_send(f_refuse[f_next])
			:: else
			fi;
			f_call_off() }
	:: atomic { !calm && F_FAILOVER && !f_dead -> f_dead = true; break }
	:: atomic { !calm && (f_state == ANSWERED || F_DRAIN_OUT) && !f_dead ->
			f_drained = true; f_told[f_next] = l_done; maybe_send(f_sync[f_next]);
			f_dead = true; break }
	:: atomic { f_done < WORK && !l_dead && l_state != FAILED &&
			((!l_drained && l_now == f_now) || (l_up && l_next == f_now && !f_drained)) ->
			f_done++ }
	od
}

/* ---- both -------------------------------------------------------------------------------------- */

#define OVER(state) ((state) == SETTLED || (state) == FAILED)

proctype checker()
{
	timeout ->
	if
	:: bug == GOAL_MOVED -> assert(l_now == 0)
	:: bug == GOAL_TWICE -> assert(moves < 2)
	:: bug == GOAL_FLUSHED -> assert(l_state != FAILED)
	:: else ->
		/* Nobody waits for the other for ever; but with the numbers the model gives out, a wish may stay one. */
		assert(l_dead || OVER(l_state));
		assert(f_dead || OVER(f_state) || f_state == ASKING);
		assert(!calm || (l_state != FAILED && f_state != FAILED && l_now == f_now));
		/* Who is at work is not drained, and is where the other one is if that is at work, too. */
		assert(l_dead || l_state != SETTLED || !l_drained);
		assert(f_dead || f_state != SETTLED || !f_drained);
		assert(l_dead || f_dead || l_state == FAILED || f_state == FAILED || l_now == f_now)
	fi
}

init
{
	atomic {
		c_code { bug = getenv("BUG") ? atoi(getenv("BUG")) : 0; };
		if
		:: calm = true
		:: calm = false
		fi;
		if
		:: calm -> l_may = true
		:: calm -> f_may = true
		:: !calm
		fi;
		run leader();
		run follower();
		run checker()
	}
}
