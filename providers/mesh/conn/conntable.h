/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNTABLE_H
#define MESH_CONNTABLE_H

#include "conn.h"

/* Shared by conn.c and connqueue.c: the table of connections. */

/* One per process, referred to by the process page that fork() clears. Guarded by process->conns.lock. */
struct mesh_conns {
	struct mesh_conn **buckets;
	size_t n_buckets, n; /* n_buckets is a power of two */
	LIST_HEAD(, mesh_conn) all; /* connections in the table, newest first */
	uint64_t last_serial; /* last one that was used */
	/* Queues of the helper thread: new; left by earlier turns, due; and not due. Each holds a reference. */
	TAILQ_HEAD(mesh_queue, mesh_conn) queued, overdue, put_back;
	struct mesh_timer *timers; /* heap */
	struct mesh_conn *followers; /* self-connected QPs that follow others, by @table.next_follower */
	TAILQ_HEAD(mesh_movers, mesh_conn) waiting[MESH_MOVERS]; /* waiting to move, each with a reference */
	bool changed; /* another thread has queued a connection since the helper thread took the queue last */
};

/** mesh_conns_lock, mesh_conns_unlock - process->conns.lock; what happens under it passes no cancellation point */
void mesh_conns_lock(void) MV_ACQUIRES(&mesh_root.process->conns.lock);
void mesh_conns_unlock(void) MV_RELEASES(&mesh_root.process->conns.lock);
/** mesh_conns_locked - the table; @make: make it if missing. NULL: there is none, or no memory. process->conns.lock */
struct mesh_conns *mesh_conns_locked(bool make);
/** mesh_conns_put_locked - queue a connection for the next turn; process->conns.lock */
void mesh_conns_put_locked(struct mesh_conns *conns, struct mesh_conn *conn);

#endif
