/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_FAILOVER_MOVE_H
#define UNIT_FAILOVER_MOVE_H

#include "move_failover.h"
#include "moves.h"

/*
 * Two ends that are at work, and what is said and done between them until they go on at another path, a step at a
 * time: tests begin with begin() or introduce(), let it come as far as they like, and then do what should not be. All
 * at one time, START, unless a test lets time pass itself; a step that is not taken as it should be fails the test.
 */

#define MS    1000000ull
#define START (100 * MS)
#define T     (&mv_move_default_times)

#define LEADER_PSN   0xfffffe
/* Random numbers of the attempts. */
#define LEADER_NONCE   0x1111111111111111
#define FOLLOWER_NONCE 0x2222222222222222
#define FOLLOWER_PSN 0x222222

extern struct mv_path paths[2]; /* of the leader: by 10.2.0.1, and 10.3.0.1 */
extern struct mv_move l, f; /* leader, follower */
extern struct mv_ctl_end ends[2]; /* theirs */
extern const struct mv_move_sync l_sync, f_sync; /* what they have executed when they drain */

/** begin - both are at work, and have not heard of each other */
void begin(void);
/** introduce - both have heard of each other: by a move that was called off */
void introduce(void);

void hear(struct mv_move *m, const struct mv_ctl_msg *msg);
/** take_prepare - it is to make a queue pair at @gid */
void take_prepare(struct mv_move *m, const char *gid);
/** prepared - it has made that one */
void prepared(struct mv_move *m, const char *gid, uint32_t qpn);
/** quiesced - it is to bring its work to an end, and has */
void quiesced(struct mv_move *m);

/** start_leader - for a port, with both paths; returns what mv_move_start() does */
int start_leader(void);
/** leader_offers - makes that queue pair when it is told to; returns OFFER */
struct mv_ctl_msg leader_offers(const char *gid, uint32_t qpn);
/** follower_connects, leader_connects - hears it, and connects what it makes, or has; returns CONNECT */
struct mv_move_action follower_connects(const struct mv_ctl_msg *offer);
struct mv_move_action leader_connects(const struct mv_ctl_msg *answer);

/* From start_leader() on. */
/** to_offer - returns OFFER */
struct mv_ctl_msg to_offer(void);
/** to_quiesce - the follower is connected */
void to_quiesce(void);
/** to_answer - returns ANSWER */
struct mv_ctl_msg to_answer(void);
/** to_confirm - returns CONFIRM; the leader is draining */
struct mv_ctl_msg to_confirm(void);
/** move_once - to the end */
void move_once(void);

/** check_replay - it goes on at the new path, and does again what @peer did not execute */
void check_replay(struct mv_move *m, const struct mv_move_sync *peer);
/** assert_stays - it goes on where it is */
void assert_stays(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out);
/** assert_flushes - its program gets the errors */
void assert_flushes(struct mv_move *m, enum mv_ctl_reason reason, bool timed_out);

#endif
