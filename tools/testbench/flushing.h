/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_FLUSHING_H
#define TESTBENCH_FLUSHING_H

#include "bench.h"

/* Work requests that are outstanding when their queue pair goes to ERR, and their completions in order of arrival. */

#define FLUSHING_WRS   64
#define FLUSHING_EACH  8 /* every eighth one is signaled */
#define FLUSHING_MARK  0x4d61726bu /* wr_id of the marker, which is posted last, in ERR */
#define FLUSHING_WC    (2 * FLUSHING_WRS)

struct flushing {
	bool sends; /* true: of the send queue; false: of the receive queue */
	bool alive; /* the peer answers before ERR */
	uint32_t posted, signal_each; /* signal_each: every so many are signaled */
	struct ibv_wc wc[FLUSHING_WC];
	uint32_t n; /* completions, without the marker's */
	uint32_t behind; /* of these, completions after the marker's */
	bool marked; /* the marker completed */
	uint32_t unknown; /* completions of nothing that was posted */
};

/** flushing_round - run a round. Return: 0; -errno. Missing completions are not an error */
int flushing_round(struct q_bench *b, struct q_qp *qp, struct q_qp *peer, struct q_mem *mine, struct q_mem *theirs, struct flushing *f);

/** flushing_missing - number of work requests that lack their completion; *ret_first: the first of them */
uint32_t flushing_missing(const struct flushing *f, uint32_t *ret_first);
/** flushing_twice - number of work requests with several completions */
uint32_t flushing_twice(const struct flushing *f);
/** flushing_disorder - does a later work request complete before an earlier one? */
bool flushing_disorder(const struct flushing *f, uint32_t *ret_first, uint32_t *ret_second);

/** flushing_repeat - run rounds of all kinds; @look: returns PASS, or the verdict that ends the trial */
enum mv_trial_verdict flushing_repeat(struct q_bench *b, struct mv_qualified_trial *t,
				      enum mv_trial_verdict (*look)(const struct flushing *f, struct mv_qualified_trial *t));

#endif
