// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fork.h"

#include <errno.h>
#include <time.h>

/* Enough for a thread that opens a device, which takes milliseconds, unless the firmware hangs. */
#define WAIT_MS 2000

MV_LOCKS_UNCHECKED bool mesh_fork_lock_mutex(struct mv_mutex *mutex, const struct mv_lock_class *class, const char *where, unsigned int ms)
{
	struct timespec until;
	bool locked;

	if (mv_mutex_trylock(mutex, class, where))
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
	locked = mv_mutex_lock_until(mutex, class, where, &until);
	if (!locked)
		atomic_store_explicit(&mesh_root.fork_in_vain, true, memory_order_relaxed);
	return locked;
}

/*
 * Two threads may fork at the same time, and each must release only what it holds: only a thread itself ever stores its own id
 * there. Fork handlers of the program run until the release, and may call any function.
 */
static void hold(struct mv_mutex *mutex, _Atomic unsigned long *holder, bool locked)
{
	if (!locked)
		return;
	mv_lock_given(mutex); /* held over the program's handlers */
	atomic_store_explicit(holder, (unsigned long)pthread_self(), memory_order_relaxed);
}

static bool let_go(_Atomic unsigned long *holder)
{
	if (atomic_load_explicit(holder, memory_order_relaxed) != (unsigned long)pthread_self())
		return false;
	atomic_store_explicit(holder, 0, memory_order_relaxed);
	return true;
}

/* In this order; no other code holds both. */
MV_LOCKS_UNCHECKED static void prepare(void)
{
	struct mesh_root *root = &mesh_root;

	hold(&root->process->open_lock.mutex, &root->open_forker, mesh_fork_lock(&root->process->open_lock, WAIT_MS));
	hold(&root->process->dmabufs_lock.mutex, &root->dmabufs_forker, mesh_fork_lock(&root->process->dmabufs_lock, WAIT_MS));
}

MV_LOCKS_UNCHECKED static void parent(void)
{
	struct mesh_root *root = &mesh_root;

	if (let_go(&root->dmabufs_forker))
		mesh_unlock(&root->process->dmabufs_lock);
	if (let_go(&root->open_forker))
		mesh_unlock(&root->process->open_lock);
	atomic_store_explicit(&root->fork_in_vain, false, memory_order_relaxed);
}

/* Constant since mesh_fork_init(). */
static void (*in_child)(void);

/* The mutexes are cleared already. */
static void child(void)
{
	int cancel = mesh_cancel_off(); /* close() is a cancellation point, fork() is not */

	atomic_store_explicit(&mesh_root.open_forker, 0, memory_order_relaxed);
	atomic_store_explicit(&mesh_root.dmabufs_forker, 0, memory_order_relaxed);
	atomic_store_explicit(&mesh_root.fork_in_vain, false, memory_order_relaxed);
	mv_locks_forget();
	in_child();
	mesh_cancel_restore(cancel);
}

int mesh_fork_init(void (*child_too)(void))
{
	in_child = child_too;
	return -pthread_atfork(prepare, parent, child);
}
