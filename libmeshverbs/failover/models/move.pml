/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connect transaction of move.c, for spin: what test_move_property.c tries by chance is tried here in
 * every order. tests/unit/failover/check_model runs it, and runs it again with each of the mistakes below.
 *
 * The network is the set of all messages ever sent. A receiver may take any of them, at any time, as often as
 * it likes: that is delay, reordering and repetition; a message that is sent once and not repeated may be lost
 * when it is sent. Steps without effect are left out, so when nothing is left to do everything that was waited
 * for has arrived, and the two ends must have come to the same outcome (the process checker).
 *
 * Timers are choices: either end may give up whenever it is allowed to. So one whose program's own path is back needs
 * nothing of its own: tried before the peer was heard of, with nothing in between, it has given up, or nothing has
 * happened. PREPARE and CONNECT take time and may fail. Either program may reset its QP, once; one end may be
 * passthrough from the start. PSNs are not modelled.
 *
 * Mistakes, each of which must be found:
 *   1 BUG_TO_ATTEMPT    messages to an earlier life of a QP are taken
 *   2 BUG_OFFER_NUMBER  offers are taken in any order, answers to any
 *   3 BUG_DOUBT         the follower gives up after ANSWER
 *   4 BUG_CONFIRM_ONCE  a repeated ANSWER gets no CONFIRM
 *   5 BUG_EARLY         the leader activates on ANSWER, before CONNECT
 *   6 BUG_MUTE          a passthrough end answers nothing
 *   7 BUG_PENDING       what comes up during PREPARE and CONNECT is forgotten
 * And GOAL_MOVED (8) claims that no connection is ever moved, which must be found to be wrong, too.
 */

#define BUG_TO_ATTEMPT   1
#define BUG_OFFER_NUMBER 2
#define BUG_DOUBT        3
#define BUG_CONFIRM_ONCE 4
#define BUG_EARLY        5
#define BUG_MUTE         6
#define BUG_PENDING      7
#define GOAL_MOVED       8

c_decl {
\#include <stdlib.h>
};
hidden byte bug, paths; /* from the environment: one program for all mistakes */

#define LIVES  2
#define OFFERS 3 /* of one life */

#define ALL_A   3 /* attempts: 1 .. LIVES */
#define ALL_T   9 /* attempt, to_attempt */
#define ALL_N   36 /* attempt, to_attempt, offer */
#define AT(a, t)       ((a) * 3 + (t))
#define ATN(a, t, n)   (((a) * 3 + (t)) * 4 + (n))

/* States of both ends. OFFERED is the leader's, ANSWERED the follower's. */
#define ASKING     1
#define PREPARING  2
#define OFFERED    3
#define CONNECTING 4
#define ANSWERED   5
#define ACTIVE     6
#define PASSTHROUGH     7

#define NONE    0
#define GO_PASSTHROUGH 1
#define RESTART 2

/* The network: "sent", each with the sender's attempt first. */
bool l_hello[ALL_A], f_hello[ALL_A];
bool l_passthrough[ALL_T], f_passthrough[ALL_T]; /* HELLO|PASSTHROUGH */
bool l_refuse[ALL_T], f_refuse[ALL_T];
bool offer[ALL_N], ready[ALL_N], decline[ALL_N], confirm[ALL_N]; /* ready, decline: ANSWER */

/* The leader, the follower: state, attempt, the peer's as known, number of the current offer, pending. */
byte l_state = ASKING, l_life = 1, l_peer, l_offer, l_path, l_pending;
byte f_state = ASKING, f_life = 1, f_peer, f_offer, f_pending;
bool l_qp_up, f_qp_up; /* the QP on the path can receive */
bool l_is_passthrough, f_is_passthrough; /* from the start */

/* A message of one, two or three numbers, once for each value. */
#define EACH_A(m)   m(1) m(2)
#define EACH_AT(m)  m(1, 1) m(1, 2) m(2, 1) m(2, 2)
#define EACH_ATN(m)                                                                                 \
	m(1, 1, 1) m(1, 1, 2) m(1, 1, 3) m(1, 2, 1) m(1, 2, 2) m(1, 2, 3)                           \
	m(2, 1, 1) m(2, 1, 2) m(2, 1, 3) m(2, 2, 1) m(2, 2, 2) m(2, 2, 3)

#define MEANT(t, life) (bug == BUG_TO_ATTEMPT || (t) == (life))
#define NEWER(n, current) ((n) > (current) || (bug == BUG_OFFER_NUMBER && (n) != (current)))
#define THIS_ONE(n, current) (bug == BUG_OFFER_NUMBER || (n) == (current))

#define L_ANSWERS_PASSTHROUGH(a) (bug != BUG_MUTE && l_state == PASSTHROUGH && (!l_peer || a == l_peer))
#define F_ANSWERS_PASSTHROUGH(a) (bug != BUG_MUTE && f_state == PASSTHROUGH && (!f_peer || a == f_peer))

inline later(variable, what)
{
	if
	:: bug == BUG_PENDING -> skip
	:: else -> variable = what
	fi
}

inline maybe_send(bit_)
{
	if
	:: bit_ = true
	:: skip
	fi
}

/* ---- leader ------------------------------------------------------------------------------------ */

inline l_tell_refusal()
{
	if
	:: l_peer -> maybe_send(l_refuse[AT(l_life, l_peer)])
	:: else
	fi
}

inline l_go_passthrough()
{
	if
	:: l_state == PREPARING || l_state == CONNECTING -> later(l_pending, GO_PASSTHROUGH)
	:: else -> l_state = PASSTHROUGH; l_qp_up = false
	fi
}

inline l_try_path()
{
	if
	:: l_path < paths && l_offer < OFFERS -> l_state = PREPARING
	:: else -> l_state = ASKING; l_tell_refusal(); l_state = PASSTHROUGH
	fi
}

inline l_activate()
{
	l_state = ACTIVE;
	/* A peer of a later life is another matter: this program will have to reset its QP, too. */
	assert(f_life != l_peer ||
	       (f_qp_up && f_offer == l_offer && f_peer == l_life))
}

inline l_begin(life)
{
	l_life = life; l_state = ASKING; l_peer = 0; l_offer = 0; l_path = 0; l_pending = NONE;
	l_qp_up = false;
	l_hello[l_life] = true
}

#define L_STALE (l_peer && l_peer != f_life)
#define L_DONE  (l_state == ACTIVE || l_state == PASSTHROUGH)
#define L_BUSY  (l_state == PREPARING || l_state == CONNECTING)

/* The outcome of PREPARE or CONNECT, good or bad. */
inline l_outcome()
{
	if
	:: l_pending == GO_PASSTHROUGH -> l_state = PASSTHROUGH; l_pending = NONE
	:: l_pending == RESTART -> l_state = ASKING; l_path = 0; l_pending = NONE
	:: l_pending == NONE && l_state == PREPARING ->
		l_offer++; l_state = OFFERED; offer[ATN(l_life, l_peer, l_offer)] = true
	:: l_pending == NONE && l_state == CONNECTING ->
		l_qp_up = true; maybe_send(confirm[ATN(l_life, l_peer, l_offer)]); l_activate()
	:: l_pending == NONE -> l_path++; l_try_path()
	fi
}

inline l_take_hello(a)
{
	if
	:: l_state == ASKING && a >= l_peer -> l_peer = a; l_try_path()
	:: l_state == PREPARING && a > l_peer -> l_peer = a
	:: l_state == OFFERED && a > l_peer ->
		l_peer = a; offer[ATN(l_life, l_peer, l_offer)] = true
	:: l_state == CONNECTING && a > l_peer ->
		l_peer = a;
		if
		:: l_pending == NONE -> later(l_pending, RESTART)
		:: else
		fi
	:: L_ANSWERS_PASSTHROUGH(a) -> l_passthrough[AT(l_life, a)] = true
	fi
}

/* Does taking that message change anything? */
#define L_HELLO(a)                                                                                  \
	(f_hello[a] &&                                                                              \
	 ((l_state == ASKING && a >= l_peer) || (l_state == PREPARING && a > l_peer) ||             \
	  (l_state == OFFERED && a > l_peer) || (l_state == CONNECTING && a > l_peer) ||            \
	  (L_ANSWERS_PASSTHROUGH(a) && !l_passthrough[AT(l_life, a)])))
/* HELLO|PASSTHROUGH and REFUSE of the follower's attempt a to our t. */
#define L_PASSTHROUGH(a, t)                                                                              \
	((f_passthrough[AT(a, t)] || f_refuse[AT(a, t)]) && MEANT(t, l_life) && a >= l_peer &&           \
	 (l_state == ASKING || (l_state == PREPARING && l_pending != GO_PASSTHROUGH) || l_state == OFFERED))

#define L_READY(a, t, n)                                                                            \
	(ready[ATN(a, t, n)] && MEANT(t, l_life) && a == l_peer && THIS_ONE(n, l_offer))
#define L_DECLINE(a, t, n)                                                                          \
	(decline[ATN(a, t, n)] && MEANT(t, l_life) && a == l_peer && THIS_ONE(n, l_offer) &&        \
	 l_state == OFFERED)
#define L_REFUSES(a, t, n)                                                                          \
	((ready[ATN(a, t, n)] || decline[ATN(a, t, n)]) && L_ANSWERS_PASSTHROUGH(a) &&                   \
	 !l_refuse[AT(l_life, a)])

#define CONFIRMS_AGAIN                                                                              \
	(bug != BUG_CONFIRM_ONCE && l_state == ACTIVE && !confirm[ATN(l_life, l_peer, l_offer)])

#define L_ON_A(a)                                                                                   \
	:: atomic { L_HELLO(a) -> l_take_hello(a) }
#define L_ON_AT(a, t)                                                                               \
	:: atomic { L_PASSTHROUGH(a, t) -> l_peer = a; l_go_passthrough() }
#define L_ON_ATN(a, t, n)                                                                           \
	:: atomic { L_READY(a, t, n) && l_state == OFFERED -> l_take_ready() }                      \
	:: atomic { L_READY(a, t, n) && CONFIRMS_AGAIN ->                                           \
			confirm[ATN(l_life, l_peer, l_offer)] = true }                              \
	:: atomic { L_DECLINE(a, t, n) -> l_path++; l_try_path() }                                  \
	:: atomic { L_REFUSES(a, t, n) -> l_refuse[AT(l_life, a)] = true }

inline l_take_ready()
{
	if
	:: bug == BUG_EARLY -> maybe_send(confirm[ATN(l_life, l_peer, l_offer)]); l_activate()
	:: else -> l_state = CONNECTING
	fi
}

proctype leader()
{
end:	do
	EACH_A(L_ON_A)
	EACH_AT(L_ON_AT)
	EACH_ATN(L_ON_ATN)
	:: atomic { L_BUSY -> l_outcome() }
	:: atomic { (l_state == ASKING || l_state == OFFERED || L_BUSY) && l_pending != GO_PASSTHROUGH ->
			l_tell_refusal(); l_go_passthrough() }
	:: atomic { l_life < LIVES && (!L_DONE || L_STALE) && !l_is_passthrough -> l_begin(l_life + 1) }
	od
}

/* ---- follower ---------------------------------------------------------------------------------- */

inline f_tell_refusal()
{
	if
	:: f_peer -> maybe_send(f_refuse[AT(f_life, f_peer)])
	:: else
	fi
}

inline f_go_passthrough()
{
	if
	:: f_state == PREPARING || f_state == CONNECTING -> later(f_pending, GO_PASSTHROUGH)
	:: else -> f_state = PASSTHROUGH; f_qp_up = false
	fi
}

inline f_begin(life)
{
	f_life = life; f_state = ASKING; f_peer = 0; f_offer = 0; f_pending = NONE;
	f_qp_up = false;
	f_hello[f_life] = true
}

#define F_STALE (f_peer && f_peer != l_life)
#define F_DONE  (f_state == ACTIVE || f_state == PASSTHROUGH)

inline f_outcome()
{
	if
	:: f_pending == GO_PASSTHROUGH -> f_state = PASSTHROUGH; f_pending = NONE
	:: f_pending == RESTART -> f_state = ASKING; f_pending = NONE
	:: f_pending == NONE && f_state == PREPARING -> f_state = CONNECTING
	:: f_pending == NONE && f_state == CONNECTING ->
		f_qp_up = true; f_state = ANSWERED; ready[ATN(f_life, f_peer, f_offer)] = true
	:: f_pending == NONE ->
		f_state = ASKING; maybe_send(decline[ATN(f_life, f_peer, f_offer)])
	fi
}

/* A later life of the leader's QP. */
inline f_adopt(a)
{
	if
	:: a > f_peer && f_peer ->
		f_offer = 0;
		if
		:: f_state == ANSWERED -> f_state = ASKING; f_qp_up = false
		:: (f_state == PREPARING || f_state == CONNECTING) && f_pending == NONE ->
			later(f_pending, RESTART)
		:: else
		fi
	:: else
	fi;
	f_peer = a
}

#define F_WAITS (f_state == ASKING || f_state == PREPARING || f_state == CONNECTING || f_state == ANSWERED)
#define F_BUSY  (f_state == PREPARING || f_state == CONNECTING)

#define F_MAY_GIVE_UP (f_state == ASKING || (bug == BUG_DOUBT && f_state == ANSWERED))

#define F_HELLO(a) (l_hello[a] && F_WAITS && a > f_peer)
#define F_SAYS_PASSTHROUGH(a) (l_hello[a] && F_ANSWERS_PASSTHROUGH(a) && !f_passthrough[AT(f_life, a)])
#define F_PASSTHROUGH(a, t)                                                                              \
	((l_passthrough[AT(a, t)] || l_refuse[AT(a, t)]) && MEANT(t, f_life) && a >= f_peer && F_WAITS &&  \
	 f_pending != GO_PASSTHROUGH)
#define F_OFFER(a, t, n)                                                                            \
	(offer[ATN(a, t, n)] && MEANT(t, f_life) &&                                                 \
	 ((a == f_peer && NEWER(n, f_offer) && (f_state == ASKING || f_state == ANSWERED)) ||       \
	  (a > f_peer && F_WAITS)))
#define F_DECLINES(a, t, n)                                                                         \
	(offer[ATN(a, t, n)] && MEANT(t, f_life) && a == f_peer && n == f_offer &&                  \
	 f_state == ASKING && !decline[ATN(f_life, a, n)])
#define F_REFUSES(a, t, n)                                                                          \
	(offer[ATN(a, t, n)] && F_ANSWERS_PASSTHROUGH(a) && !f_refuse[AT(f_life, a)])
#define F_CONFIRM(a, t, n)                                                                          \
	(confirm[ATN(a, t, n)] && MEANT(t, f_life) && a == f_peer && THIS_ONE(n, f_offer) &&        \
	 f_state == ANSWERED)

inline f_take_offer(a, n)
{
	f_adopt(a);
	if
	:: f_state == ASKING || f_state == ANSWERED ->
		f_qp_up = false; f_offer = n; f_state = PREPARING
	:: else
	fi
}

inline f_activate()
{
	f_state = ACTIVE;
	assert(l_life != f_peer ||
	       (l_qp_up && l_state == ACTIVE && l_offer == f_offer && l_peer == f_life))
}

#define F_ON_A(a)                                                                                   \
	:: atomic { F_HELLO(a) -> f_adopt(a) }                                                      \
	:: atomic { F_SAYS_PASSTHROUGH(a) -> f_passthrough[AT(f_life, a)] = true }
#define F_ON_AT(a, t)                                                                               \
	:: atomic { F_PASSTHROUGH(a, t) -> f_adopt(a); f_go_passthrough() }
#define F_ON_ATN(a, t, n)                                                                           \
	:: atomic { F_OFFER(a, t, n) -> f_take_offer(a, n) }                                        \
	:: atomic { F_DECLINES(a, t, n) -> decline[ATN(f_life, a, n)] = true }                      \
	:: atomic { F_REFUSES(a, t, n) -> f_refuse[AT(f_life, a)] = true }                          \
	:: atomic { F_CONFIRM(a, t, n) -> f_activate() }

proctype follower()
{
end:	do
	EACH_A(F_ON_A)
	EACH_AT(F_ON_AT)
	EACH_ATN(F_ON_ATN)
	:: atomic { F_BUSY -> f_outcome() }
	:: atomic { (F_MAY_GIVE_UP || F_BUSY) && f_pending != GO_PASSTHROUGH ->
			f_tell_refusal(); f_go_passthrough() }
	:: atomic { f_life < LIVES && (!F_DONE || F_STALE) && !f_is_passthrough -> f_begin(f_life + 1) }
	od
}

/* ---- both -------------------------------------------------------------------------------------- */

#define MOVED                                                                                       \
	(l_state == ACTIVE && f_state == ACTIVE && l_peer == f_life && f_peer == l_life &&          \
	 l_offer == f_offer && l_qp_up && f_qp_up)

/* An end that is done with an earlier life of the other: its program resets it, if the model lets it. */
#define WAITS_FOR_PROGRAM ((L_DONE && L_STALE) || (F_DONE && F_STALE))

#define FINE                                                                                        \
	((bug == GOAL_MOVED && !MOVED) ||                                                            \
	 (bug != GOAL_MOVED &&                                                                      \
	  (MOVED || (l_state == PASSTHROUGH && f_state == PASSTHROUGH) || WAITS_FOR_PROGRAM)))

proctype checker()
{
	timeout -> assert(FINE)
}

init
{
	atomic {
		c_code { bug = getenv("BUG") ? atoi(getenv("BUG")) : 0; };
		c_code { paths = getenv("PATHS") ? atoi(getenv("PATHS")) : 2; };
		if
		:: l_begin(1); f_begin(1)
		:: l_begin(1); f_is_passthrough = true; f_state = PASSTHROUGH
		:: f_begin(1); l_is_passthrough = true; l_state = PASSTHROUGH
		fi;
		run leader();
		run follower();
		run checker()
	}
}
