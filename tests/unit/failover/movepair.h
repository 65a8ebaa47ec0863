/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_MOVEPAIR_H
#define UNIT_MOVEPAIR_H

#include "moves.h"

/*
 * Two ends of one connection that is being made, a leader and a follower, each with two paths to offer. A test takes both
 * through the connect transaction message by message, as far as the test needs.
 */

#define MS    1000000ull
#define START (100 * MS)
#define T     (&mv_move_default_times)

/* Ends of the same connection: the leader has the smaller GID. */
#define LEADER_GID   "10.1.0.1"
#define FOLLOWER_GID "10.1.0.2"
#define LEADER_PSN   0x111111
#define FOLLOWER_PSN 0x222222
/* Random numbers of the attempts. */
#define LEADER_NONCE   0x1111111111111111
#define FOLLOWER_NONCE 0x2222222222222222

extern const struct mv_ctl_end leader_qp, follower_qp;

/** path_of - a path between two addresses; @stays: enum of mv_path.stays */
struct mv_path path_of(const char *local, const char *remote, uint8_t type, uint8_t stays);

struct pair {
	struct mv_path paths[2];
	struct mv_move_begin leader, follower;
};

/** make_pair - both ends' own paths do not work (MV_PATH_APART); the two paths to offer are 10.2.0.x and 10.3.0.x */
struct pair make_pair(void);

/** leader_to_rtr, follower_to_rtr - the program takes its QP to RTR */
void leader_to_rtr(struct mv_move *m, struct pair *pair);
void follower_to_rtr(struct mv_move *m, struct pair *pair);
/** begin_leader, begin_follower - the program takes its QP to RTR and RTS */
void begin_leader(struct mv_move *m, struct pair *pair);
void begin_follower(struct mv_move *m, struct pair *pair);
/** begin_both - both ends are in RTS and have said HELLO; *ret_hello is the follower's */
void begin_both(struct mv_move *l, struct mv_move *f, struct pair *pair, struct mv_ctl_msg *ret_hello);

/** prepared - the caller has made the QP @qp at @gid */
void prepared(struct mv_move *m, const char *gid, const struct mv_ctl_end *qp);
/** lead_to_offer - the leader hears @hello and makes a QP on its first path; returns OFFER */
struct mv_ctl_msg lead_to_offer(struct mv_move *l, const struct mv_ctl_msg *hello);
/** follow_to_answer - the follower hears @offer, makes a QP and connects; returns ANSWER */
struct mv_ctl_msg follow_to_answer(struct mv_move *f, const struct mv_ctl_msg *offer);
/** lead_to_confirm - the leader hears @answer, connects and is active; returns CONFIRM */
struct mv_ctl_msg lead_to_confirm(struct mv_move *l, const struct mv_ctl_msg *answer);

/**
 * assert_passthrough - the next action is to connect as without meshverbs, with a GID of @type; then nothing more is to
 * be done
 */
void assert_passthrough(struct mv_move *m, enum mv_ctl_reason reason, uint8_t type, bool timed_out);

#endif
