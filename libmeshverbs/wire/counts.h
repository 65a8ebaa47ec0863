/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_COUNTS_H
#define MV_COUNTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Counters of a process: decisions, repairs, moves. They are in a page of shared memory, a memfd of at most 1 MiB with
 * sealed size, which the process hands to its agent with the REGISTER frame (ctl.h). The agent sums up the pages of all
 * processes, also of ended ones. So counting needs no messages, and no count is lost when a process ends.
 *
 * Positions in the page never change: an obsolete counter keeps its position, new ones are appended. So processes and
 * agents of different versions understand each other.
 */

/*
 * Upper bounds of the histogram's buckets in microseconds; a further bucket has no bound. A pause is the time from the
 * moment when a connection was found to need another path until its work went on.
 */
#define MV_PAUSE_BOUNDS_US                                                                         \
	{                                                                                          \
		1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000    \
	}
#define MV_PAUSE_BUCKETS 12
#define MV_PAUSE_PLACES                                                                            \
	(MV_PAUSE_BUCKETS + 1) /* places of a histogram: its buckets, then the sum in microseconds */

#define MV_COUNT_FAILOVER_REASONS 4

enum mv_count {
	/* GID decisions, one for each connect and address handle, by enum mv_action. */
	MV_COUNT_DECIDED,
	MV_COUNT_DECIDED_END = MV_COUNT_DECIDED + 8, /* room for further actions */
	/* Results of decisions for another index. */
	MV_COUNT_REPAIRED_QP = MV_COUNT_DECIDED_END,
	MV_COUNT_REPAIRED_AH,
	MV_COUNT_REPAIR_REFUSED, /* refused by the lower provider; the program's own index was tried then */
	/* Not done because of mode = observe. */
	MV_COUNT_OBSERVED_GID,
	MV_COUNT_OBSERVED_MOVE,
	/* Connections whose path does not work. */
	MV_COUNT_STUCK, /* cannot be moved: the peer has no agent, or there is no other path */
	MV_COUNT_HELD, /* the peer was asked */
	MV_COUNT_MOVED, /* moved by agreement, while connecting */
	MV_COUNT_GIVEN_UP, /* by enum mv_ctl_reason; reason 0: no answer in time */
	MV_COUNT_GIVEN_UP_END = MV_COUNT_GIVEN_UP + 24, /* room for further reasons */
	MV_COUNT_RELAYED_AH = MV_COUNT_GIVEN_UP_END, /* address handles for destinations behind another NIC */
	/* Errors that a program got because no path was left. */
	MV_COUNT_SURFACED,
	/* Delay of connections that needed agreement: buckets, then the sum in microseconds. */
	MV_COUNT_CONNECT_PAUSE,
	MV_COUNT_CONNECT_PAUSE_US = MV_COUNT_CONNECT_PAUSE + MV_PAUSE_BUCKETS,
	/*
	 * Connections moved while at work, by enum mv_ctl_reason from MV_CTL_REASON_PORT on; and for each reason, the
	 * pause since the reason was seen.
	 */
	MV_COUNT_MOVED_FAILOVER,
	MV_COUNT_FAILOVER_PAUSE = MV_COUNT_MOVED_FAILOVER + MV_COUNT_FAILOVER_REASONS,
	/* Made in advance for the next move. */
	MV_COUNT_ARMED_MR = MV_COUNT_FAILOVER_PAUSE + MV_COUNT_FAILOVER_REASONS * MV_PAUSE_PLACES,
	MV_COUNT_ARMED_QP,
	MV_COUNT_ARM_FAILED, /* failed, and not tried again in this process */
	MV_COUNT_ARMED_CONNECTED, /* queue pairs connected to the peer's */
	MV_N_COUNTS,
};

#define MV_COUNTS_MAGIC 0x3130746e63766dull /* "mvcnt01" */
#define MV_COUNTS_MAX   480 /* positions in a page */

struct mv_counts_page {
	uint64_t magic;
	uint64_t n; /* positions in use; the rest is 0 */
	_Atomic uint64_t values[MV_COUNTS_MAX];
};

/* A counter as monitoring shows it. */
struct mv_count_row {
	const char *name; /* without "meshverbs_" and "_total"; NULL: unused, or part of a histogram */
	const char *label, *label_value; /* NULL: no label */
	const char *help;
};

/** mv_count_row - the counter at a position, @place < MV_N_COUNTS. Constant */
const struct mv_count_row *mv_count_row(size_t place);

/** mv_count_former - name under which a counter is shown, too, until the next release. Return: NULL: none. Constant */
const char *mv_count_former(const char *name);

/* A histogram of pauses. */
struct mv_pause_row {
	const char *cause; /* NULL: end of the list */
	size_t first; /* position of the first bucket; the sum follows the last one */
};

/** mv_pause_rows - all histograms of pauses; same metric name, different causes. Constant */
const struct mv_pause_row *mv_pause_rows(void);

/** mv_pause_bucket - bucket of a pause, below MV_PAUSE_BUCKETS */
size_t mv_pause_bucket(uint64_t pause_us);

/** mv_pause_bound_us - upper bound of a bucket; UINT64_MAX for the last one */
uint64_t mv_pause_bound_us(size_t bucket);

#endif
