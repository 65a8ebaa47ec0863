/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HANDOFF_H
#define MESH_HANDOFF_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The helper thread's work has one leader at a time, and the leader has a watcher. A command to a firmware that hangs
 * keeps the leader for seconds. The watcher becomes the leader then; the former leader finishes its one connection.
 *
 * A section is the part of the leader's work in which it may give a command. The leader marks where a section begins
 * and ends, and touches nothing in between that belongs to the leader. A section costs two atomic operations.
 */

struct mesh_handoff {
	_Atomic uint64_t turn; /* odd: the leader is in a section */
	_Atomic bool watched; /* there is a watcher */
	_Atomic bool rests; /* the watcher sleeps until a section is entered */
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

/** mesh_handoff_leave - the leader leaves that section. Return: false: the watcher has become the leader meanwhile */
static inline bool mesh_handoff_leave(struct mesh_handoff *handoff, uint64_t turn)
{
	return atomic_compare_exchange_strong_explicit(&handoff->turn, &turn, turn + 1, memory_order_acq_rel, memory_order_acquire);
}

/** mesh_handoff_take - the watcher becomes the leader. Return: false: the leader has left that section meanwhile */
static inline bool mesh_handoff_take(struct mesh_handoff *handoff, uint64_t turn)
{
	return mesh_handoff_leave(handoff, turn);
}

/** mesh_handoff_watch - watch the leader. Return: the section that the leader does not come out of */
uint64_t mesh_handoff_watch(struct mesh_handoff *handoff);

#endif
