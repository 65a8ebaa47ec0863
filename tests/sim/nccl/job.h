/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What both programs do: all_reduces (sums) of 32-bit numbers that follow from seed, round, rank
 * and position, of which every result is checked; and how long each took, so that a pause shows.
 */
#ifndef NCCL_TEST_JOB_H
#define NCCL_TEST_JOB_H

#include <stddef.h>
#include <stdint.h>

struct job {
	int rank, n_ranks, port;
	const char *root; /* where rank 0 is */
	uint32_t seed;
	size_t count; /* numbers of an all_reduce */
	uint32_t n_rounds;
	unsigned int seconds; /* after which it ends with 124 */
	/* results */
	uint32_t done; /* rounds */
	uint32_t digest; /* of all results, in their order: the same at every rank */
	double *took_ms; /* [n_rounds] */
};

/**
 * job_init() - the arguments RANK RANKS HOST-OF-RANK-0 PORT [-n ROUNDS] [-s BYTES] [-r SEED] [-t
 * SECONDS].
 *
 * Ends the program where they are wrong, and sets its alarm.
 */
void job_init(struct job *job, int argc, char **argv);

/** job_fill() - what this rank gives to a round: job->count numbers. */
void job_fill(const struct job *job, uint32_t round, uint32_t *numbers);

/** job_check() - counts a round whose sums are right; ends the program with what is wrong where
 * they are not. */
void job_check(struct job *job, uint32_t round, const uint32_t *sums, double took_ms);

/** job_tell() - the last line, which says that all was right, how long a round took, and @more. */
void job_tell(const struct job *job, const char *more);

double now_ms(void);

#endif
