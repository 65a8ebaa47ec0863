/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How the two ends of a connection prove to each other that they know its PSNs (proof.h, move_message.c), for spin: the first words of
 * both, HELLO and what answers it, in every order, with somebody who forges messages. tests/unit/failover/check_model runs it as it does the
 * transaction (move.pml), which takes proved messages for granted.
 *
 * An end is in RTR, where it knows its peer's PSN, or in RTS, where it knows both. The seal is three bits: which PSNs it takes, and whether
 * whoever made it knew them. The network is as in move.pml: the set of all messages ever sent, any of them taken at any time. The forger knows no
 * PSN; it says so many words, with any seal, of any life of an end. A program resets its QP once, or (BOTH_RESET) both do.
 *
 * In the end, when all has been said that can be, each end has to have heard of the other's last life, and to be known by it, if one of
 * them at least is in RTS.
 *
 * Mistakes, each of which must be found:
 *   1 BUG_UNPROVED   what does not open is taken
 *   2 BUG_LOYAL      an end keeps to the life of its peer that it heard of first
 *   3 BUG_DOWNGRADE  less is believed than the peer has shown
 *   4 BUG_LEAK       an end in RTS uses one PSN with a peer that has not shown it
 *   5 BUG_MUTE       an end in RTR says nothing
 *   6 BUG_STUCK      an end in RTS goes on with one PSN when its peer has shown both
 * And GOAL_CONTACT (7) claims that they never hear of each other.
 */

#define BUG_UNPROVED  1
#define BUG_LOYAL     2
#define BUG_DOWNGRADE 3
#define BUG_LEAK      4
#define BUG_MUTE      5
#define BUG_STUCK     6
#define GOAL_CONTACT  7

c_decl {
\#include <stdlib.h>
};
hidden byte bug;

#define LIVES  2
#define FORGED 2 /* words of the forger */

/* enum mv_proof */
#define TO   1
#define FROM 2
#define BOTH 3

/* Of the sender's life a, naming the receiver's life t (0: none), with seal s. */
#define M(e, a, t, s) ((((e) * 3 + (a)) * 3 + (t)) * 4 + (s))
bool sent[72];

bool rts[2], stays_in_rtr[2], told[2], answered[2];
byte life[2], peer[2], shown[2], resets[2];
byte n_forged;

#define OTHER(e) (1 - (e))

/* Can it open what takes the PSNs of s? */
#define CAN(e, s) ((s) == FROM || rts[e])

inline say(e, s)
{
	/* Whoever gets it can try all values of one PSN: of one that is not known there only if nothing else can be said. */
	assert(s != FROM || shown[e] == TO);
	sent[M(e, life[e], peer[e], s)] = true
}

inline say_what_it_can(e)
{
	if
	:: !rts[e] && bug == BUG_MUTE
	:: !rts[e] && bug != BUG_MUTE -> say(e, TO)
	:: rts[e] && shown[e] == TO -> say(e, FROM)
	:: rts[e] && shown[e] != TO -> say(e, BOTH)
	fi;
	if
	:: bug == BUG_LEAK && rts[e] -> say(e, FROM)
	:: else
	fi
}

inline note_shown(e, s)
{
	if
	:: bug == BUG_STUCK && shown[e]
	:: else -> shown[e] = s
	fi
}

/* One that opens, or is taken for such a one. */
inline take(e, a, t, s)
{
	if
	:: a == peer[e] || !peer[e] || (a > peer[e] && bug != BUG_LOYAL) ->
		if
		:: a != peer[e] -> peer[e] = a; answered[e] = false
		:: else
		fi;
		note_shown(e, s);
		if
		:: t == life[e] -> answered[e] = true
		:: else
		fi;
		say_what_it_can(e)
	:: else
	fi
}

#define COUNTS(e, s) ((s) >= shown[e] || bug == BUG_DOWNGRADE)

inline hear(e, a, t, s, proved)
{
	if
	:: !CAN(e, s) ->
		if
		:: s == BOTH && !told[e] -> told[e] = true; say_what_it_can(e)
		:: else
		fi
	:: CAN(e, s) && (proved || bug == BUG_UNPROVED) && COUNTS(e, s) ->
		assert(proved);
		assert(s >= shown[e]);
		take(e, a, t, s)
	:: else
	fi
}

/* Would it change anything? */
#define NEWS(e, a, t, s)                                                                            \
	(sent[M(OTHER(e), a, t, s)] &&                                                              \
	 ((!CAN(e, s) && s == BOTH && !told[e]) ||                                                  \
	  (CAN(e, s) && COUNTS(e, s) &&                                                             \
	   (!peer[e] || (a > peer[e] && bug != BUG_LOYAL) ||                                        \
	    (a == peer[e] && ((s > shown[e] && bug != BUG_STUCK) || (t == life[e] && !answered[e])))))))

#define ON(a, t, s) :: atomic { NEWS(me, a, t, s) -> hear(me, a, t, s, true) }
#define ON_EACH_SEAL(a, t) ON(a, t, TO) ON(a, t, FROM) ON(a, t, BOTH)

inline begin(e)
{
	life[e]++; rts[e] = false; told[e] = false; answered[e] = false; peer[e] = 0; shown[e] = 0
}

proctype end_of_connection(byte me)
{
end:	do
	ON_EACH_SEAL(1, 0) ON_EACH_SEAL(1, 1) ON_EACH_SEAL(1, 2)
	ON_EACH_SEAL(2, 0) ON_EACH_SEAL(2, 1) ON_EACH_SEAL(2, 2)
	:: atomic { !rts[me] && !stays_in_rtr[me] -> rts[me] = true; say_what_it_can(me) }
	:: atomic { !rts[me] && !told[me] -> told[me] = true; say_what_it_can(me) } /* it has been there for long enough */
	:: atomic { resets[me] -> resets[me]--; begin(me) }
	od
}

proctype forger()
{
	byte e, a, t, s;
end:	do
	:: atomic { n_forged ->
			n_forged--;
			select(e : 0 .. 1); select(a : 1 .. 3); select(t : 0 .. 2); select(s : 1 .. 3);
			hear(e, a, t, s, false);
			e = 0; a = 0; t = 0; s = 0 }
	od
}

#define KNOWS(e) (peer[e] == life[OTHER(e)] && answered[e])
#define CONTACT (KNOWS(0) && KNOWS(1))
#define ALL_SHOWN (!rts[0] || !rts[1] || (shown[0] == BOTH && shown[1] == BOTH))

proctype checker()
{
	timeout -> assert(bug == GOAL_CONTACT -> !CONTACT : CONTACT && ALL_SHOWN)
}

init
{
	atomic {
		c_code { now.life[0] = 1; now.life[1] = 1; bug = getenv("BUG") ? atoi(getenv("BUG")) : 0; };
		/* The ends are alike: one of them will do for what one of them does. */
		if
		:: resets[0] = 1
		:: stays_in_rtr[0] = true; resets[0] = 1
		:: stays_in_rtr[0] = true; resets[1] = 1
#ifdef BOTH_RESET
		:: resets[0] = 1; resets[1] = 1
		:: stays_in_rtr[0] = true; resets[0] = 1; resets[1] = 1
#endif
		fi;
		n_forged = FORGED;
		run end_of_connection(0);
		run end_of_connection(1);
		run forger();
		run checker()
	}
}
