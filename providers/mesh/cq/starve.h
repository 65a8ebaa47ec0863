/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_STARVE_H
#define MESH_STARVE_H

#include "cqrecord.h"

/* Detects a helper thread that does not get processor time. starved.h says what happens then. */

#define MESH_STARVE_LOOK 64u /* empty polls between two looks at the clock; a power of two */

/** mesh_starved_long - the helper thread has not run since the last look: is that too long? poll_lock */
bool mesh_starved_long(struct mesh_starve *starve);

/** mesh_starved_look - an empty poll. Return: true: call mesh_starved_give(). Hot; poll_lock */
static inline bool mesh_starved_look(struct mesh_starve *starve)
{
	uint32_t turns = atomic_load_explicit(&mesh_root.process->turns, memory_order_relaxed);

	if (turns != starve->turns) {
		starve->turns = turns;
		starve->looked_ns = starve->waited_ns = 0;
		return false;
	}
	return !(++starve->n_empty & (MESH_STARVE_LOOK - 1)) && mesh_starved_long(starve);
}

#endif
