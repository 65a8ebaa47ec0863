/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HANDOFF_H
#define MESH_HANDOFF_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The helper thread's work has one leader at a time, and the leader has a watcher. A command to a NIC whose firmware hangs blocks
 * the leader for seconds. Then the watcher becomes the leader, and the former leader only finishes its one connection.
 *
 * A section is a part of the leader's work in which the leader may give a command. The leader marks its begin and end, and in
 * between touches nothing that belongs to the leader. A section costs two atomic operations.
 */

struct mesh_handoff {
	_Atomic uint64_t turn; /* odd: the leader is in a section */
	_Atomic bool watched; /* there is a watcher */
	_Atomic bool rests; /* the watcher sleeps until a section is entered */
	sem_t woken;
};

/** mesh_handoff_init - initialise; there is no watcher yet */
void mesh_handoff_init(struct mesh_handoff *handoff);

/** mesh_handoff_enter - the leader enters a section. Return: pass it to mesh_handoff_leave(). */
static inline uint64_t mesh_handoff_enter(struct mesh_handoff *handoff)
{
	uint64_t turn = atomic_load_explicit(&handoff->turn, memory_order_relaxed) + 1;

	atomic_store_explicit(&handoff->turn, turn, memory_order_seq_cst);
	if (atomic_load_explicit(&handoff->rests, memory_order_seq_cst))
		sem_post(&handoff->woken);
	return turn;
}

/** mesh_handoff_leave - the leader leaves the section. Return: false: the watcher has become the leader meanwhile. */
static inline bool mesh_handoff_leave(struct mesh_handoff *handoff, uint64_t turn)
{
	return atomic_compare_exchange_strong_explicit(&handoff->turn, &turn, turn + 1, memory_order_acq_rel, memory_order_acquire);
}

/** mesh_handoff_take - the watcher becomes the leader. Return: false: the leader has left the section meanwhile. */
static inline bool mesh_handoff_take(struct mesh_handoff *handoff, uint64_t turn)
{
	return mesh_handoff_leave(handoff, turn);
}

/** mesh_handoff_watch - watch the leader, until it is stuck. Return: the section in which it is stuck. */
uint64_t mesh_handoff_watch(struct mesh_handoff *handoff);

#endif
