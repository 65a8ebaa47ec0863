/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PENDING_UNREGISTER_H
#define MESH_PENDING_UNREGISTER_H

#include <stdbool.h>
#include <sys/queue.h>

#include "ctl.h"

/*
 * UNREGISTER_QPs for which the agent's socket had no room. The helper thread sends them again, because the program's
 * thread that destroyed the queue pair has gone on. Guarded by the caller's lock.
 *
 * A lost UNREGISTER_QP leaves a registration at the agent as long as this process is connected: it counts against the
 * user's limit of registrations, and messages for that QPN come here and are dropped. The registration ends earlier if
 * this process gets a new queue pair with that QPN, with the end of that queue pair, or if the kernel says that another
 * process has the QPN.
 */
#define MESH_PENDING_UNREGISTER_MAX 4096u

struct mesh_pending_unregister {
	SLIST_HEAD(, mesh_pending_qp) list; /* newest first; the order does not matter */
	unsigned int n;
};

/**
 * mesh_pending_unregister_add - queue an UNREGISTER_QP
 *
 * Lost without memory, or with MESH_PENDING_UNREGISTER_MAX in the queue.
 *
 * Return: true: the queue was empty: wake the helper thread.
 */
bool mesh_pending_unregister_add(struct mesh_pending_unregister *pending, const struct mv_frame *frame);
/** mesh_pending_unregister_take - take one out. Return: false: the queue is empty. */
bool mesh_pending_unregister_take(struct mesh_pending_unregister *pending, struct mv_frame *ret);
/** mesh_pending_unregister_drop - empty the queue */
void mesh_pending_unregister_drop(struct mesh_pending_unregister *pending);

#endif
