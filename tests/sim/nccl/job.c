// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "job.h"

#include "boot.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void too_late(int number)
{
	static const char text[] = "nccl: it took too long\n";

	(void)number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(125);
	_exit(124);
}

static _Noreturn void usage(void)
{
	die(0,
	    "usage: RANK RANKS HOST-OF-RANK-0 PORT [-n ROUNDS] [-s BYTES] [-r SEED] [-t SECONDS]");
}

void job_init(struct job *job, int argc, char **argv)
{
	int c;

	*job = (struct job){.seed = 1, .count = 1 << 18, .n_rounds = 100, .seconds = 60};
	while ((c = getopt(argc, argv, "n:s:r:t:")) != -1) {
		switch (c) {
		case 'n':
			job->n_rounds = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 's':
			job->count = strtoul(optarg, NULL, 0) / sizeof(uint32_t);
			break;
		case 'r':
			job->seed = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 't':
			job->seconds = (unsigned int)atoi(optarg);
			break;
		default:
			usage();
		}
	}
	if (argc - optind != 4)
		usage();
	job->rank = atoi(argv[optind]);
	job->n_ranks = atoi(argv[optind + 1]);
	job->root = argv[optind + 2];
	job->port = atoi(argv[optind + 3]);
	if (job->n_ranks < 2 || job->n_ranks > MAX_RANKS || job->rank < 0 ||
	    job->rank >= job->n_ranks || !job->count || !job->n_rounds)
		usage();
	job->took_ms = calloc(job->n_rounds, sizeof(*job->took_ms));
	if (!job->took_ms)
		die(0, "no memory");
	signal(SIGALRM, too_late);
	alarm(job->seconds);
}

/* Any bit of the input changes all bits of the output (the finalizer of MurmurHash3, a
 * public-domain function). */
static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x85ebca6bu;
	x = (x ^ x >> 13) * 0xc2b2ae35u;
	return x ^ x >> 16;
}

static uint32_t key(const struct job *job, uint32_t round, int rank)
{
	return mix(job->seed ^ mix(round ^ mix((uint32_t)rank + 1)));
}

void job_fill(const struct job *job, uint32_t round, uint32_t *numbers)
{
	uint32_t k = key(job, round, job->rank);

	for (size_t i = 0; i < job->count; i++)
		numbers[i] = mix(k + (uint32_t)i);
}

void job_check(struct job *job, uint32_t round, const uint32_t *sums, double took_ms)
{
	uint32_t keys[MAX_RANKS];

	for (int r = 0; r < job->n_ranks; r++)
		keys[r] = key(job, round, r);
	for (size_t i = 0; i < job->count; i++) {
		uint32_t want = 0;

		for (int r = 0; r < job->n_ranks; r++)
			want += mix(keys[r] + (uint32_t)i);
		if (sums[i] != want)
			die(0, "wrong: rank %d, all_reduce %u, number %zu of %zu is %#x, not %#x",
			    job->rank, round, i, job->count, sums[i], want);
		job->digest = (job->digest << 5 | job->digest >> 27) ^ sums[i];
	}
	job->took_ms[job->done++] = took_ms;
}

static int smaller(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void job_tell(const struct job *job, const char *more)
{
	qsort(job->took_ms, job->done, sizeof(*job->took_ms), smaller);
	printf("nccl: rank %d of %d: %u all_reduces of %zu bytes, every number right, results "
	       "%08x; "
	       "median %.2f ms, longest %.2f ms%s\n",
	       job->rank, job->n_ranks, job->done, job->count * sizeof(uint32_t), job->digest,
	       job->took_ms[job->done / 2], job->took_ms[job->done - 1], more);
}
