/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HANDOFF_H
#define MESH_HANDOFF_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * One thread leads at a time: it does the helper thread's work. Another one watches it. A command to a firmware that hangs keeps the leader for
 * seconds, so the one that watches becomes the leader then, and the former goes on with what it was at, alone.
 *
 * The leader says when it enters a section in which that may happen, and when it leaves. In a section it touches nothing that is the
 * leader's own. Costs the leader two atomic operations for a section.
 */

struct mesh_handoff {
	_Atomic uint64_t turn; /* odd: the leader is in a section */
	_Atomic bool watched, rests; /* there is one that watches; it sleeps until a section is entered */
	sem_t woken;
};

/** mesh_handoff_init - nobody watches */
void mesh_handoff_init(struct mesh_handoff *handoff);

/** mesh_handoff_enter - the leader enters a section. Return: for mesh_handoff_leave() */
static inline uint64_t mesh_handoff_enter(struct mesh_handoff *handoff)
{
	uint64_t turn = atomic_load_explicit(&handoff->turn, memory_order_relaxed) + 1;

	atomic_store_explicit(&handoff->turn, turn, memory_order_seq_cst);
	if (atomic_load_explicit(&handoff->rests, memory_order_seq_cst))
		sem_post(&handoff->woken);
	return turn;
}

/** mesh_handoff_leave - it leaves that section. Return: false: another thread leads since */
static inline bool mesh_handoff_leave(struct mesh_handoff *handoff, uint64_t turn)
{
	return atomic_compare_exchange_strong_explicit(&handoff->turn, &turn, turn + 1, memory_order_acq_rel, memory_order_acquire);
}

/** mesh_handoff_take - become the leader in its place, in that section. Return: false: it has left that section meanwhile */
static inline bool mesh_handoff_take(struct mesh_handoff *handoff, uint64_t turn)
{
	return mesh_handoff_leave(handoff, turn);
}

/** mesh_handoff_watch - watch the leader. Return: the section that it does not come out of */
uint64_t mesh_handoff_watch(struct mesh_handoff *handoff);

#endif
