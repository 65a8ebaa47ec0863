/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LOOKUP_H
#define MESH_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * First contact with a host beyond a router, whose beacons do not arrive here: ask the agent to find out which host has an
 * address. Uses a socket of its own, because there may be no helper thread yet.
 */

enum mesh_lookup_for {
	/* By the routes of this host the path does not work. On a bare HCA it fails after a second or more. */
	MESH_LOOKUP_BROKEN,
	/*
	 * The path works, but to move later the peer's host has to be known. At most MESH_LOOKUPS_VAIN unsuccessful waits per
	 * minute.
	 */
	MESH_LOOKUP_WORKS,
};

#define MESH_LOOKUPS_VAIN 3

/**
 * mesh_lookup - have the agent find out which host has an address
 *
 * Waits 250 ms at most for a broken path, 100 ms for a working one. Does not wait for an address that was asked for in vain in
 * the last 5 s, nor, for a minute, after an agent that does not know LOOK. Locks: none. Cancellation is off. Preserves errno.
 *
 * Return: does the directory have the address now?
 */
bool mesh_lookup(const union ibv_gid *dgid, enum mesh_lookup_for what);

#endif
