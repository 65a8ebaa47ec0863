/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_COUNT_H
#define MESH_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "counts.h"

/*
 * What this process counts for monitoring: decisions, repairs, moves. Never on the data path. From the moment that the
 * agent is connected it sees each figure change; what came before is in it, too.
 */

/** mesh_count - one more; any thread, any lock may be held */
void mesh_count(enum mv_count place);

/** mesh_count_pause - a pause is over; @first: its histogram */
void mesh_count_pause(enum mv_count first, uint64_t pause_ns);

/**
 * mesh_counts_news - something happened that the operator wants to know of: have the agent told, if there is one
 *
 * Starts the helper thread. To be called without locks.
 */
void mesh_counts_news(void);

/**
 * mesh_counts_share - a page with the figures, for a new agent
 *
 * Helper thread only. Return: its descriptor, to be closed by the caller; -1 without.
 */
int mesh_counts_share(void);

/** mesh_counts_unshare - that agent is gone: the next one gets what is counted from now on; helper thread only */
void mesh_counts_unshare(void);

#endif
