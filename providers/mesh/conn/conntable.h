/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNTABLE_H
#define MESH_CONNTABLE_H

#include "conn.h"

/* What the files of the table of connections share: conn.c connqueue.c. */

/* In the process's wiped page hangs one of these; under process->conns_lock. */
struct mesh_conns {
	struct mesh_conn **buckets;
	size_t n_buckets, n; /* n_buckets: a power of two */
	LIST_HEAD(, mesh_conn) all; /* those in the table, newest first */
	uint64_t last_serial; /* of those given out */
	/* For the helper thread: what is new; what it has left, first that which was due. Each holds a reference. */
	TAILQ_HEAD(mesh_queue, mesh_conn) queued, overdue, put_back;
	struct mesh_due *due; /* for it later */
	struct mesh_conn *followers; /* by @next_follower: those that follow others */
	TAILQ_HEAD(mesh_turns, mesh_conn) waiting[MESH_TURNS]; /* for their turn to move, each with a reference */
	bool news; /* queued by somebody else than the thread since it took the queue last */
};

/** mesh_conns_lock, mesh_conns_unlock - conns_lock; what happens under it passes no cancellation point */
void mesh_conns_lock(void) MV_ACQUIRES(&mesh_root.process->conns_lock);
void mesh_conns_unlock(void) MV_RELEASES(&mesh_root.process->conns_lock);
/** mesh_conns_locked - the table; @make: made if there is none; NULL: there is none, or no memory; conns_lock */
struct mesh_conns *mesh_conns_locked(bool make);
/** mesh_conns_put_locked - the helper thread looks at it in its next turn; conns_lock */
void mesh_conns_put_locked(struct mesh_conns *conns, struct mesh_conn *conn);

#endif
