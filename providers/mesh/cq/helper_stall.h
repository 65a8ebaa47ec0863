/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELPER_STALL_H
#define MESH_HELPER_STALL_H

#include "cqrecord.h"

/* Detects a helper thread that does not get processor time. stalled.h says what happens then. */

#define MESH_STALL_LOOK 64u /* empty polls between two looks at the clock; a power of two */

/** mesh_helper_stalled_long - the helper thread has not run since the last look: is that too long? poll_lock */
bool mesh_helper_stalled_long(struct mesh_helper_stall *stall);

/** mesh_helper_stalled - an empty poll. Return: true: call mesh_stalled_flush(). Hot; poll_lock */
static inline bool mesh_helper_stalled(struct mesh_helper_stall *stall)
{
	uint32_t turns = atomic_load_explicit(&mesh_root.process->turns, memory_order_relaxed);

	if (turns != stall->turns) {
		stall->turns = turns;
		stall->looked_ns = stall->waited_ns = 0;
		return false;
	}
	return !(++stall->n_empty & (MESH_STALL_LOOK - 1)) && mesh_helper_stalled_long(stall);
}

#endif
