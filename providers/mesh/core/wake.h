/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WAKE_H
#define MESH_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ranks.h"

/*
 * What the helper thread sleeps on, and others end its sleep by: a socket pair. Programs close descriptors that are not theirs, all of
 * them at once some, and open their own under the numbers. So each is looked at before it is used.
 */
struct mesh_wake {
	/* Guards those below it: the thread opens them anew when they have been closed, others write there. Innermost. */
	MESH_LOCK(WAKE) lock;
	int fd[2]; /* [0] is read, [1] written; -1: none */
	uint64_t ino[2];
	_Atomic bool woken; /* a byte is on its way; set by who sends it, cleared by the thread when it has read it and before it looks */
};

/** mesh_is_socket - is @fd the socket that had the inode number @ino? Any thread; errno is not kept. */
bool mesh_is_socket(int fd, uint64_t ino);

/** mesh_wake_init - Return: 0; -errno: there is nothing to be given back */
int mesh_wake_init(struct mesh_wake *wake);
void mesh_wake_fini(struct mesh_wake *wake);

/** mesh_wake - end the sleep, or the next one; any thread, with any of the plugin's locks but @lock */
void mesh_wake(struct mesh_wake *wake);

/* The rest is for the thread that sleeps. */

/** mesh_wake_heard - poll() has said something of fd[0]; what it was woken for is looked at after this */
void mesh_wake_heard(struct mesh_wake *wake);
/** mesh_wake_check - somebody may have closed them, and nobody could wake it any more; if none are to be had, the next check tries again */
void mesh_wake_check(struct mesh_wake *wake);

#endif
