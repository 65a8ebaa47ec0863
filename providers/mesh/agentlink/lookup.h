/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LOOKUP_H
#define MESH_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * First contact with a host beyond a router, which no beacon tells of: the agent is asked to find out whose an address is. By a socket
 * of its own for the moment: there may be no helper thread yet.
 */

enum mesh_lookup_for {
	/* Its path does not work, by the routes of this host: bare it fails after a second or more. */
	MESH_LOOKUP_BROKEN,
	/* It works, but to move later the peer's host has to be known. No more than MESH_LOOKUPS_VAIN waits in vain in a minute. */
	MESH_LOOKUP_WORKS,
};

#define MESH_LOOKUPS_VAIN 3

/**
 * mesh_lookup - have the agent find out whose an address is
 *
 * Waits 250 ms at most for a path that is broken, 100 ms for one that works, and not for an address that has been asked for in vain in the
 * last five seconds, nor for a minute of an agent of a version before LOOK. Without locks, cancellation off. Keeps errno.
 *
 * Return: whether the directory has it now.
 */
bool mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what);

#endif
