/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DUE_H
#define MESH_DUE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Timers: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986). Entries are embedded, so nothing is allocated, and nothing
 * fails. Locks: the caller's.
 */

struct mesh_due {
	uint64_t at_ns; /* constant while in the heap */
	struct mesh_due *child, *next; /* first child, due no earlier; next sibling */
	struct mesh_due **link; /* pointer to this entry; NULL: not in the heap */
};

static inline bool mesh_due_waits(const struct mesh_due *due)
{
	return due->link;
}

/** mesh_due_add - add an entry, which is not in the heap, for @at_ns */
void mesh_due_add(struct mesh_due **first, struct mesh_due *due, uint64_t at_ns);
/** mesh_due_remove - remove an entry; no effect if not in the heap */
void mesh_due_remove(struct mesh_due **first, struct mesh_due *due);

#endif
