/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FORK_H
#define MESH_FORK_H

#include "mesh.h"

/*
 * What a fork() of the program has to find settled. The locks of the plugin itself need nothing: they lie in a page that
 * the child finds cleared. But our threads call libibverbs, whose lock on its list of devices nobody resets in a child;
 * and what leads to memory of a GPU must not live on there (dmabuf.h).
 *
 * So fork() takes open_lock and dmabufs_lock. It holds them while handlers of the program wait for the program's locks,
 * with which we may be called; so nobody waits for these two without end, and who has waited in vain does without.
 */

/**
 * mesh_fork_init - from now on fork() does what is said above
 *
 * Once; the handlers stay, as does the plugin. Return: 0 or -errno.
 */
int mesh_fork_init(void (*child_too)(void));

/** mesh_fork_lock - lock it, wait @ms at most, once in each fork of the process. Return: false: not locked */
#define mesh_fork_lock(l, ms) mesh_fork_lock_mutex(&(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE, ms)
bool mesh_fork_lock_mutex(struct mv_mutex *mutex, const struct mv_lock_class *class, const char *where, unsigned int ms)
	MV_THREAD_SAFETY(try_acquire_capability(true, *mutex));

#endif
