/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_STARVED_H
#define MESH_STARVED_H

#include <stdatomic.h>

#include "mesh.h"

/*
 * Errors that are withheld, and sends that wait, are for the helper thread to settle. Where a program's thread of a real-time policy spins on
 * the only CPU that the process may use, the helper thread never runs. So whoever polls and finds nothing looks whether the helper thread
 * has run since, and if it has not for as long as a move may take, settles that in its place: the program gets its errors.
 */

/* Of one CQ; under its poll_lock. */
struct mesh_starve {
	uint32_t turns; /* of the helper thread, as they were seen last */
	uint32_t n_empty; /* polls that found nothing */
	uint64_t looked_ns; /* at the clock; 0: not since @turns changed */
	uint64_t waited_ns; /* since then, by those who polled: what a stopped process does not poll does not count */
	uint64_t gave_ns; /* when mesh_starved_give() was due last */
};

#define MESH_STARVE_LOOK 64u /* polls that find nothing, from one look at the clock to the next; a power of two */

/** mesh_starved_long - the helper thread has not run since the last look: has it not for too long? poll_lock */
bool mesh_starved_long(struct mesh_starve *starve);

/** mesh_starved_look - a poll has found nothing. Return: whether mesh_starved_give() is due. Hot; poll_lock */
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

struct mesh_cq;

/**
 * mesh_starved_give - give the program what is withheld from it, of all connections that have this CQ
 *
 * In the program's thread, without locks, and not between ibv_start_poll() and ibv_end_poll(). Connections that somebody is at are left for the
 * next time. Several system calls. Return: nothing; what there is shows with the next poll.
 */
void mesh_starved_give(struct mesh_cq *cq);

#endif
