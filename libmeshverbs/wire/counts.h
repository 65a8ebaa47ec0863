/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_COUNTS_H
#define MV_COUNTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a process counts of its decisions, repairs and moves. It keeps the figures in a page of
 * shared memory, a memfd of 1 MiB at most that nobody can shrink or enlarge, and hands that to its agent with the REGISTER
 * frame (ctl.h). The agent adds up the pages of all processes, also of those that have ended: so
 * counting costs no message, and nothing is lost when a process ends.
 *
 * Places in the page are for ever: a figure that is not counted any more keeps its place, new ones
 * go to the end. So processes and agents of different versions understand each other.
 */

/*
 * Upper ends of the histogram's buckets, in microseconds; one more is without end. A pause is the
 * time from the moment that a connection was found to need another path to the one when its work
 * went on.
 */
#define MV_PAUSE_BOUNDS_US                                                                         \
	{                                                                                          \
		1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000    \
	}
#define MV_PAUSE_BUCKETS 12
#define MV_PAUSE_PLACES                                                                            \
	(MV_PAUSE_BUCKETS + 1) /* of a histogram: its buckets, then the sum in microseconds */

#define MV_COUNT_LIVE_REASONS 4

enum mv_count {
	/* GID decisions, one for each connect and address handle: enum mv_action. */
	MV_COUNT_DECIDED,
	MV_COUNT_DECIDED_END = MV_COUNT_DECIDED + 8, /* there may be more */
	/* What came of decisions to use another index. */
	MV_COUNT_REPAIRED_QP = MV_COUNT_DECIDED_END,
	MV_COUNT_REPAIRED_AH,
	MV_COUNT_REPAIR_REFUSED, /* by the base; the program's own index was tried then */
	/* Not carried out because of mode = observe. */
	MV_COUNT_OBSERVED_GID,
	MV_COUNT_OBSERVED_MOVE,
	/* Connections whose path does not work. */
	MV_COUNT_STUCK, /* and cannot be moved: no agent at the peer's, no other path */
	MV_COUNT_HELD, /* the peer was asked */
	MV_COUNT_MOVED, /* agreed, when the connection was made */
	MV_COUNT_GIVEN_UP, /* by enum mv_ctl_reason; the first one: no answer in time */
	MV_COUNT_GIVEN_UP_END = MV_COUNT_GIVEN_UP + 24, /* there may be more */
	MV_COUNT_RELAYED_AH = MV_COUNT_GIVEN_UP_END, /* address handles behind another NIC */
	/* Errors that a program was given because there was no way left. */
	MV_COUNT_SURFACED,
	/* How long connections that had to be agreed upon were held: buckets, then the sum in
	   microseconds. */
	MV_COUNT_CONNECT_PAUSE,
	MV_COUNT_CONNECT_PAUSE_US = MV_COUNT_CONNECT_PAUSE + MV_PAUSE_BUCKETS,
	/*
	 * Connections at work that moved, by enum mv_ctl_reason from MV_CTL_REASON_PORT on; and for
	 * each of these reasons how long it took from the moment that the reason was seen.
	 */
	MV_COUNT_MOVED_LIVE,
	MV_COUNT_LIVE_PAUSE = MV_COUNT_MOVED_LIVE + MV_COUNT_LIVE_REASONS,
	/* Made for the next move before it is needed. */
	MV_COUNT_AHEAD_MR = MV_COUNT_LIVE_PAUSE + MV_COUNT_LIVE_REASONS * MV_PAUSE_PLACES,
	MV_COUNT_AHEAD_QP,
	MV_COUNT_AHEAD_FAILED, /* and given up for this process */
	MV_COUNT_AHEAD_CONNECTED, /* queue pairs, to the peer's */
	MV_N_COUNTS,
};

#define MV_COUNTS_MAGIC 0x3130746e63766dull /* "mvcnt01" */
#define MV_COUNTS_MAX   480 /* places that a page has */

struct mv_counts_page {
	uint64_t magic;
	uint64_t n; /* places in use; those behind are 0 */
	_Atomic uint64_t values[MV_COUNTS_MAX];
};

/* A figure as monitoring sees it: a counter. */
struct mv_count_row {
	const char *name; /* without "meshverbs_" and "_total"; NULL: the place is kept free, or is
			     of a histogram */
	const char *label, *label_value; /* NULL: none */
	const char *help;
};

/** mv_count_row - the figure at a place, @place < MV_N_COUNTS */
const struct mv_count_row *mv_count_row(size_t place);

/* A histogram of pauses. */
struct mv_pause_row {
	const char *cause; /* NULL: behind the last */
	size_t first; /* of its buckets; the sum follows them */
};

/** mv_pause_rows - all histograms of pauses; they share one name, and differ by cause */
const struct mv_pause_row *mv_pause_rows(void);

/** mv_pause_bucket - which of the MV_PAUSE_BUCKETS a pause falls into */
size_t mv_pause_bucket(uint64_t pause_us);

/** mv_pause_bound_us - upper end of a bucket, UINT64_MAX for the last */
uint64_t mv_pause_bound_us(size_t bucket);

#endif
