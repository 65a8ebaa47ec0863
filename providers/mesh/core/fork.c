// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fork.h"

#include <errno.h>
#include <time.h>

/* A device that is being opened: milliseconds, but for firmware that does not answer. */
#define WAIT_MS 2000

bool mesh_fork_lock(pthread_mutex_t *lock, unsigned int ms)
{
	struct timespec until;
	bool locked;

	if (!pthread_mutex_trylock(lock))
		return true;
	if (atomic_load_explicit(&mesh_root.fork_in_vain, memory_order_relaxed))
		return false;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	locked = !pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
	if (!locked)
		atomic_store_explicit(&mesh_root.fork_in_vain, true, memory_order_relaxed);
	return locked;
}

/* Two threads may fork at once, and each of them must give back only what it has. */
static void take(pthread_mutex_t *lock, _Atomic unsigned long *holder)
{
	if (mesh_fork_lock(lock, WAIT_MS))
		atomic_store_explicit(holder, (unsigned long)pthread_self(), memory_order_relaxed);
}

static void give(pthread_mutex_t *lock, _Atomic unsigned long *holder)
{
	/* Only the thread itself ever stores its own name there. */
	if (atomic_load_explicit(holder, memory_order_relaxed) != (unsigned long)pthread_self())
		return;
	atomic_store_explicit(holder, 0, memory_order_relaxed);
	pthread_mutex_unlock(lock);
}

/* In that order; nobody else holds both. */
static void prepare(void)
{
	struct mesh_root *root = &mesh_root;

	take(&root->process->open_lock, &root->open_forker);
	take(&root->process->dmabufs_lock, &root->dmabufs_forker);
}

static void parent(void)
{
	struct mesh_root *root = &mesh_root;

	give(&root->process->dmabufs_lock, &root->dmabufs_forker);
	give(&root->process->open_lock, &root->open_forker);
	atomic_store_explicit(&root->fork_in_vain, false, memory_order_relaxed);
}

/* Constant since mesh_fork_init(). */
static void (*in_child)(void);

/* The locks themselves are clear. */
static void child(void)
{
	int cancel = mesh_cancel_off(); /* close() is a cancellation point, fork() is none */

	atomic_store_explicit(&mesh_root.open_forker, 0, memory_order_relaxed);
	atomic_store_explicit(&mesh_root.dmabufs_forker, 0, memory_order_relaxed);
	atomic_store_explicit(&mesh_root.fork_in_vain, false, memory_order_relaxed);
	in_child();
	mesh_cancel_restore(cancel);
}

int mesh_fork_init(void (*child_too)(void))
{
	in_child = child_too;
	return -pthread_atfork(prepare, parent, child);
}
