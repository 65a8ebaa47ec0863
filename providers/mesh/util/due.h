/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DUE_H
#define MESH_DUE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Things that are due at some time, the first one at hand: a pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986). What
 * waits has its place in itself, so nothing is allocated and nothing can fail. No locks: the caller's.
 */

struct mesh_due {
	uint64_t at_ns; /* constant while it waits */
	struct mesh_due *child, *next; /* first of those that are due no earlier; the next one beside it */
	struct mesh_due **link; /* what points to it; NULL: it does not wait */
};

static inline bool mesh_due_waits(const struct mesh_due *due)
{
	return due->link;
}

/** mesh_due_add - have it wait, until @at_ns; it does not wait yet */
void mesh_due_add(struct mesh_due **first, struct mesh_due *due, uint64_t at_ns);
/** mesh_due_remove - it does not wait any more; it does, or nothing happens */
void mesh_due_remove(struct mesh_due **first, struct mesh_due *due);

#endif
