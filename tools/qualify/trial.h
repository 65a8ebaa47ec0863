/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef QUALIFY_TRIAL_H
#define QUALIFY_TRIAL_H

#include "bench.h"

/* A trial, one in each file trial_*.c. main.c runs them. */
struct q_trial {
	const char *name, *assumption, *source;
	enum mv_trial_verdict (*run)(struct q_bench *b, struct mv_qualified_trial *t);
};

extern const struct q_trial trial_prefix, trial_packets, trial_reads_counted, trial_atomics, trial_final, trial_holes, trial_landing,
	trial_flush, trial_flush_order, trial_srq, trial_srq_drain, trial_reads, trial_walker, trial_psns, trial_two_ports, trial_twin,
	trial_times;

#endif
