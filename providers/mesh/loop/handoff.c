// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "handoff.h"

#include <errno.h>
#include <unistd.h>

/*
 * Interval at which the watcher looks at the leader. A leader in the same section at two looks in a row is stuck. The interval is
 * far longer than a firmware command (some 60 us), and than a busy machine delays a thread: a healthy host sees no take-over. A
 * build for stress tests sets it low (-DLOOK_US=300).
 */
#ifndef LOOK_US
#define LOOK_US 125000
#endif
/* The watcher sleeps after so many looks in a row at an idle leader. */
#define LOOKS 8

void mesh_handoff_init(struct mesh_handoff *handoff)
{
	sem_init(&handoff->woken, 0, 0);
}

/* Sleep until the next section. */
static void rest(struct mesh_handoff *handoff, uint64_t turn)
{
	atomic_store_explicit(&handoff->rests, true, memory_order_seq_cst);
	if (atomic_load_explicit(&handoff->turn, memory_order_seq_cst) == turn)
		while (sem_wait(&handoff->woken) && errno == EINTR)
			;
	atomic_store_explicit(&handoff->rests, false, memory_order_relaxed);
	while (!sem_trywait(&handoff->woken))
		; /* several sections may have been entered */
}

uint64_t mesh_handoff_watch(struct mesh_handoff *handoff)
{
	uint64_t turn, last = atomic_load_explicit(&handoff->turn, memory_order_acquire);
	unsigned int idle = 0;

	for (;;) {
		usleep(LOOK_US);
		turn = atomic_load_explicit(&handoff->turn, memory_order_acquire);
		if (turn == last && turn % 2)
			return turn;
		idle = turn == last ? idle + 1 : 0;
		if (idle == LOOKS) {
			rest(handoff, turn);
			idle = 0;
		}
		last = turn;
	}
}
