/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_FLUSHING_H
#define TESTBENCH_FLUSHING_H

#include "bench.h"

/* Work requests that are outstanding when their queue pair goes to ERR, and their completions, in the order in which they came. */

#define FLUSHING_WRS   64
#define FLUSHING_EACH  8 /* is signaled */
#define FLUSHING_MARK  0x4d61726bu /* of what is posted last, in ERR */
#define FLUSHING_WC    (2 * FLUSHING_WRS)

struct flushing {
	bool sends; /* of the send queue, or of the receive queue */
	bool alive; /* does the peer answer, until that? */
	uint32_t posted, signal_each; /* every so many is signaled */
	struct ibv_wc wc[FLUSHING_WC];
	uint32_t n; /* completions, without the mark's */
	uint32_t behind; /* of them that came behind the mark */
	bool marked; /* the mark came */
	uint32_t unknown; /* completions that are of nothing that was posted */
};

/** flushing_round - 0 or -errno; a device that does not complete everything is no error */
int flushing_round(struct q_bench *b, struct q_qp *qp, struct q_qp *peer, struct q_mem *mine, struct q_mem *theirs, struct flushing *f);

/** flushing_missing - work requests without completion that should have one; *ret_first is the first of them */
uint32_t flushing_missing(const struct flushing *f, uint32_t *ret_first);
/** flushing_twice - work requests with more than one */
uint32_t flushing_twice(const struct flushing *f);
/** flushing_disorder - is one of a later work request before one of an earlier one? */
bool flushing_disorder(const struct flushing *f, uint32_t *ret_first, uint32_t *ret_second);

/** flushing_repeat - rounds of all kinds; @look: PASS or the verdict of one */
enum mv_trial_verdict flushing_repeat(struct q_bench *b, struct mv_qualified_trial *t,
				      enum mv_trial_verdict (*look)(const struct flushing *f, struct mv_qualified_trial *t));

#endif
