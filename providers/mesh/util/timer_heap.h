/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TIMER_HEAP_H
#define MESH_TIMER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Timers: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986). Entries are embedded, so nothing is allocated, and nothing
 * fails. Locks: the caller's.
 */

struct mesh_timer {
	uint64_t at_ns; /* constant while in the heap */
	struct mesh_timer *child, *next; /* first child, due no earlier; next sibling */
	struct mesh_timer **link; /* pointer to this entry; NULL: not in the heap */
};

static inline bool mesh_timer_is_set(const struct mesh_timer *timer)
{
	return timer->link;
}

/** mesh_timer_add - add an entry, which is not in the heap, for @at_ns */
void mesh_timer_add(struct mesh_timer **first, struct mesh_timer *timer, uint64_t at_ns);
/** mesh_timer_remove - remove an entry; no effect if not in the heap */
void mesh_timer_remove(struct mesh_timer **first, struct mesh_timer *timer);

#endif
