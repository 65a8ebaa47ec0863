/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UNCLAIMS_H
#define MESH_UNCLAIMS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "ctl.h"

/*
 * UNCLAIMs for which the agent's socket had no room. The helper thread sends them again, because the program's thread that
 * destroyed the queue pair has gone on. Guarded by the caller's lock.
 *
 * A lost UNCLAIM leaves a claim at the agent as long as this process is connected: it counts against the user's limit of claims,
 * and messages for that QPN come here and are dropped. The claim ends earlier if this process gets a new queue pair with that
 * QPN, with the end of that queue pair, or if the kernel says that another process has the QPN.
 */
#define MESH_UNCLAIMS_MAX 4096u

struct mesh_unclaims {
	SLIST_HEAD(, mesh_unclaim) list; /* newest first; the order does not matter */
	unsigned int n;
};

/**
 * mesh_unclaims_add - queue an UNCLAIM
 *
 * Lost without memory, or with MESH_UNCLAIMS_MAX in the queue.
 *
 * Return: true: the queue was empty: wake the helper thread.
 */
bool mesh_unclaims_add(struct mesh_unclaims *unclaims, const struct mv_frame *frame);
/** mesh_unclaims_take - take one out. Return: false: the queue is empty. */
bool mesh_unclaims_take(struct mesh_unclaims *unclaims, struct mv_frame *ret);
/** mesh_unclaims_drop - empty the queue */
void mesh_unclaims_drop(struct mesh_unclaims *unclaims);

#endif
