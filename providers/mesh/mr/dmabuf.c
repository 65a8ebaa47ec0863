// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork.h"

/* The kernel's table of descriptors grows up to the highest number in use. */
#define HIGHEST_MIN_FD 4096
#define WAIT_MS 1000

/* Never freed, but reused: a child of fork() can walk the list in any state. */
struct mesh_dmabuf {
	struct mesh_dmabuf *next; /* in dmabufs.all; constant */
	struct mesh_dmabuf *next_free;
	_Atomic int fd; /* -1: free */
	dev_t dev; /* of the dma-buf */
	ino_t ino;
};

/* @ret_min_fd: smallest number for duplicates. Return: how many there may be. */
static unsigned int room(int *ret_min_fd)
{
	struct rlimit limit;
	int n;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	n = limit.rlim_cur < 1 << 20 ? (int)limit.rlim_cur : 1 << 20;
	*ret_min_fd = n - n / 4;
	if (*ret_min_fd < FD_SETSIZE && n > FD_SETSIZE)
		*ret_min_fd = FD_SETSIZE;
	if (*ret_min_fd > HIGHEST_MIN_FD)
		*ret_min_fd = HIGHEST_MIN_FD;
	return (unsigned int)n / 4;
}

static void push_free(struct mesh_dmabuf *dmabuf)
{
	struct mesh_dmabufs *dmabufs = &mesh_root.dmabufs;

	dmabuf->next_free = atomic_load_explicit(&dmabufs->free, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&dmabufs->free, &dmabuf->next_free, dmabuf, memory_order_release,
						      memory_order_relaxed))
		;
}

/* Only one thread at a time pops (dmabufs_lock), so there is no ABA problem. */
static struct mesh_dmabuf *pop_free(void)
{
	struct mesh_dmabufs *dmabufs = &mesh_root.dmabufs;
	struct mesh_dmabuf *dmabuf = atomic_load_explicit(&dmabufs->free, memory_order_acquire);

	while (dmabuf && !atomic_compare_exchange_weak_explicit(&dmabufs->free, &dmabuf, dmabuf->next_free,
								memory_order_acquire, memory_order_acquire))
		;
	return dmabuf;
}

/* dmabufs_lock. Return: a free entry in the list; NULL: no memory. */
static struct mesh_dmabuf *take_free(void)
{
	struct mesh_dmabufs *dmabufs = &mesh_root.dmabufs;
	struct mesh_dmabuf *dmabuf = pop_free();

	if (dmabuf)
		return dmabuf;
	dmabuf = malloc(sizeof(*dmabuf));
	if (!dmabuf)
		return NULL;
	atomic_init(&dmabuf->fd, -1);
	dmabuf->next = atomic_load_explicit(&dmabufs->all, memory_order_relaxed);
	atomic_store_explicit(&dmabufs->all, dmabuf, memory_order_release);
	return dmabuf;
}

/* dmabufs_lock. Return: 0 or -errno */
static int duplicate(struct mesh_dmabuf *dmabuf, int fd)
{
	struct stat st;
	int min_fd = 0, dup;

	if (atomic_load_explicit(&mesh_root.dmabufs.n, memory_order_relaxed) >= room(&min_fd))
		return -EMFILE;
	if (fstat(fd, &st))
		return -errno;
	dup = fcntl(fd, F_DUPFD_CLOEXEC, min_fd);
	if (dup < 0)
		return errno == EINVAL ? -EMFILE : -errno; /* the limit does not allow a number that high */
	dmabuf->dev = st.st_dev;
	dmabuf->ino = st.st_ino;
	atomic_fetch_add_explicit(&mesh_root.dmabufs.n, 1, memory_order_relaxed);
	atomic_store_explicit(&dmabuf->fd, dup, memory_order_release);
	return 0;
}

static int keep(int fd, struct mesh_dmabuf **ret)
{
	struct mesh_dmabuf *dmabuf = take_free();
	int err = dmabuf ? duplicate(dmabuf, fd) : -ENOMEM;

	if (!err)
		*ret = dmabuf;
	else if (dmabuf)
		push_free(dmabuf);
	return err;
}

/* Is the calling thread about to fork, with dmabufs_lock held? Then a fork handler of the program has called. */
static bool is_forking(void)
{
	return atomic_load_explicit(&mesh_root.dmabufs_forker, memory_order_relaxed) == (unsigned long)pthread_self();
}

MV_LOCKS_UNCHECKED struct mesh_dmabuf *mesh_dmabuf_keep(int fd)
{
	struct mesh_process *process = mesh_root.process;
	bool forking = is_forking();
	struct mesh_dmabuf *dmabuf;
	int err;

	/*
	 * A forking thread may hold this lock while it waits for a lock of this thread's callers: wait for a limited time
	 * (fork.h).
	 */
	if (!forking && !mesh_fork_lock(&process->dmabufs_lock, WAIT_MS)) {
		errno = EAGAIN;
		return NULL;
	}
	err = keep(fd, &dmabuf);
	if (!forking)
		mesh_unlock(&process->dmabufs_lock);
	if (!err)
		return dmabuf;
	errno = -err;
	return NULL;
}

int mesh_dmabuf_fd(const struct mesh_dmabuf *dmabuf)
{
	int fd = atomic_load_explicit(&dmabuf->fd, memory_order_acquire);
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_ino == dmabuf->ino && st.st_dev == dmabuf->dev ? fd : -EBADF;
}

static void drop(struct mesh_dmabuf *dmabuf)
{
	int fd = mesh_dmabuf_fd(dmabuf);

	if (fd >= 0)
		close(fd);
	atomic_store_explicit(&dmabuf->fd, -1, memory_order_release);
	atomic_fetch_sub_explicit(&mesh_root.dmabufs.n, 1, memory_order_relaxed);
	push_free(dmabuf);
}

MV_LOCKS_UNCHECKED void mesh_dmabuf_drop(struct mesh_dmabuf *dmabuf)
{
	struct mesh_process *process = mesh_root.process;
	int saved_errno = errno, cancel;
	bool locked;

	if (!dmabuf)
		return;
	cancel = mesh_cancel_off(); /* close() is a cancellation point */
	/* fork() copies the descriptors before the memory: a descriptor closed in between would stay open in the child. */
	locked = !is_forking() && mesh_fork_lock(&process->dmabufs_lock, WAIT_MS);
	drop(dmabuf);
	if (locked)
		mesh_unlock(&process->dmabufs_lock);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

void mesh_dmabufs_forked(void)
{
	struct mesh_dmabuf *dmabuf;

	for (dmabuf = atomic_load_explicit(&mesh_root.dmabufs.all, memory_order_acquire); dmabuf; dmabuf = dmabuf->next)
		if (atomic_load_explicit(&dmabuf->fd, memory_order_relaxed) >= 0)
			drop(dmabuf);
	/* Another thread of the parent may have been changing the count. */
	atomic_store_explicit(&mesh_root.dmabufs.n, 0, memory_order_relaxed);
}
