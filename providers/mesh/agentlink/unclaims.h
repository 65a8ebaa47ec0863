/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UNCLAIMS_H
#define MESH_UNCLAIMS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "ctl.h"

/*
 * UNCLAIMs that the agent's socket had no room for, to be sent again by the helper thread. Nobody else can: who wanted to say it, the
 * program's thread that destroyed a queue pair, has gone on. Guarded by the caller's lock.
 *
 * One that is lost all the same leaves a claim with the agent for as long as this process is connected to it: a place of those that
 * its user has, and messages for that number come here and are dropped. It ends earlier if this process gets a queue pair of that
 * number again, with that one, or if the kernel says that the number is another process's by now.
 */
#define MESH_UNCLAIMS_MAX 4096u

struct mesh_unclaims {
	SLIST_HEAD(, mesh_unclaim) list; /* newest first; their order does not matter */
	unsigned int n;
};

/**
 * mesh_unclaims_add - keep one
 *
 * With MESH_UNCLAIMS_MAX of them, or without memory, it is lost.
 *
 * Return: whether it is the only one: from now on there is something to send again.
 */
bool mesh_unclaims_add(struct mesh_unclaims *unclaims, const struct mv_frame *frame);
/** mesh_unclaims_take - give one out. Return: false: there is none */
bool mesh_unclaims_take(struct mesh_unclaims *unclaims, struct mv_frame *ret);
/** mesh_unclaims_drop - forget all */
void mesh_unclaims_drop(struct mesh_unclaims *unclaims);

#endif
