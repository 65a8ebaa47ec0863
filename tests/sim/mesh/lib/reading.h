/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_READING_H
#define SIM_MESH_READING_H

#include "tracked_fixture.h"
#include "vqp_int.h"

/*
 * A connection of which one end's work is read from mlx5's own queues (mlx5_wr_walker.h). It is there while a test
 * runs, between reading_setup() and reading_teardown(), and only one thread may change it.
 */

#define MTU	      TRACKED_MTU
#define SQ_PSN	      0xfffff0
#define RQ_PSN	      0x77
#define DEPTH	      64
#define TWO_CQS_DEPTH 300

extern struct end a, b; /* a is read, b answers */
extern struct mesh_vqp *h; /* of a, once that is connected; NULL: nothing of it is to be destroyed */

/* What a was given to do. */
struct posted {
	uint32_t psn, consumes, n;
	uint64_t last_id;
	struct ibv_send_wr wrs[DEPTH];
	uint64_t lengths[DEPTH];
};

extern struct posted posted;
extern uint32_t fed; /* receives of b */

extern const struct manner noted, bare;
extern const struct shape two_cqs; /* of TWO_CQS_DEPTH */

/** reading_seed - for what is posted: TEST_SEED, or else the time; prints it */
void reading_seed(void);
/** reading_rnd - below @below */
uint32_t reading_rnd(uint32_t below);

/** reading_setup, reading_teardown - both ends in INIT; for cmocka */
int reading_setup(void **state);
int reading_teardown(void **state);

/** reading_rts - who is not answered is patient */
struct ibv_qp_attr reading_rts(uint32_t sq_psn);
/** connect_bare - one that is not ours */
void connect_bare(struct end *e, struct ibv_qp_attr rtr, struct ibv_qp_attr rts);
void connect_a(void);
void connect_b(void);
/** receive_only - connect a as far as it receives */
void receive_only(void);

/** post_one - anything, at a; @always: signaled; returns what the lower provider said */
int post_one(bool always);
/** feed_b - as many receives as one round takes at most; earlier ones have been executed */
void feed_b(void);
/** one_round - some work of a's, done and polled at both ends */
void one_round(void);
/** check_log - the log has the first @n that were posted, as they were */
void check_log(uint32_t n);

#endif
