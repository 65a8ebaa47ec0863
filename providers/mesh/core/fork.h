/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FORK_H
#define MESH_FORK_H

#include "mesh.h"

/*
 * Locks around a fork() of the program. The plugin's own locks need no care: they lie in a page that is cleared in the child. But
 * the plugin's threads call libibverbs, whose lock on its list of devices is not reset in a child. And descriptors of GPU memory
 * must not live on in a child (dmabuf.h).
 *
 * So fork() takes open_lock and dmabufs_lock. It holds them while fork handlers of the program wait for locks of the program,
 * which callers of the plugin may hold. So no thread waits for these two locks without a limit; after the limit it goes on
 * without the lock.
 */

/**
 * mesh_fork_init - install the fork handlers, once; they stay, as the plugin does
 * @child_too: called in the child
 *
 * Return: 0 or -errno.
 */
int mesh_fork_init(void (*child_too)(void));

/** mesh_fork_lock - take a lock, wait @ms at most, and only once per fork of the process. Return: false: not locked */
#define mesh_fork_lock(l, ms) mesh_fork_lock_mutex(&(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE, ms)
bool mesh_fork_lock_mutex(struct mv_mutex *mutex, const struct mv_lock_class *class, const char *where, unsigned int ms)
	MV_THREAD_SAFETY(try_acquire_capability(true, *mutex));

#endif
