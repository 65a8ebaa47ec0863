/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WAKER_H
#define MESH_WAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ranks.h"

/*
 * A socket pair: the helper thread sleeps on one end, other threads wake it through the other end. A program may close descriptors that
 * are not its own, and get their numbers for its own files. So the inode of each end is checked before use.
 */
struct mesh_waker {
	/* Guards fd and ino: the helper thread opens closed ends anew, other threads write. Innermost. */
	MESH_LOCK(WAKER) lock;
	int fd[2]; /* [0] is read, [1] written; -1: none */
	uint64_t ino[2];
	_Atomic bool woken; /* a byte is on its way; set by its sender; cleared by the helper thread once it has read the byte, before it looks */
};

/** mesh_is_socket - is @fd the socket that had the inode number @ino? Any thread; errno is not kept. */
bool mesh_is_socket(int fd, uint64_t ino);

/** mesh_waker_init - make the pair; 0; -errno: nothing has to be released */
int mesh_waker_init(struct mesh_waker *waker);
void mesh_waker_fini(struct mesh_waker *waker);

/** mesh_waker_wake - end the present or the next sleep; any thread, with any of the plugin's locks but @lock */
void mesh_waker_wake(struct mesh_waker *waker);

/* For the helper thread only. */

/** mesh_waker_heard - poll() has returned an event for fd[0]; the thread looks for work afterwards */
void mesh_waker_heard(struct mesh_waker *waker);
/**
 * mesh_waker_check - open the pair anew if the program has closed an end; after a failure the next check tries again
 */
void mesh_waker_check(struct mesh_waker *waker);

#endif
