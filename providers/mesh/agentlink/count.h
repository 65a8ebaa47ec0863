/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_COUNT_H
#define MESH_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "counts.h"

/*
 * Counters of this process for monitoring: decisions, repairs, moves. Never on the data path. A connected agent sees each change;
 * counts from before the connection are included.
 */

/** mesh_count - add one; any thread, with any locks held */
void mesh_count(enum mv_count place);

/** mesh_count_pause - add a pause, ns, to a histogram; @first: its first counter */
void mesh_count_pause(enum mv_count first, uint64_t pause_ns);

/**
 * mesh_counts_changed - an event for the operator: have the agent, if there is one, see the counters
 *
 * Starts the helper thread if needed. Locks: none may be held.
 */
void mesh_counts_changed(void);

/**
 * mesh_counts_share - make a shared page with the counters, for a new agent
 *
 * Helper thread only. Return: descriptor, to be closed by the caller; -1: none could be made.
 */
int mesh_counts_share(void);

/** mesh_counts_unshare - the agent is gone: the next agent gets later counts only; helper thread only */
void mesh_counts_unshare(void);

#endif
