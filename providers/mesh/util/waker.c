// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "waker.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cancel.h"

bool mesh_is_socket(int fd, uint64_t ino)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISSOCK(st.st_mode) && st.st_ino == ino;
}

static void close_both(struct mesh_waker *waker)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (mesh_is_socket(waker->fd[i], waker->ino[i]))
			close(waker->fd[i]);
		waker->fd[i] = -1;
	}
}

/* Return: 0; -errno, with both closed. */
static int open_both(struct mesh_waker *waker)
{
	struct stat st;
	int i, fd[2];

	/* Not SOCK_DGRAM: a thread in ppoll() would not notice that the program closes both. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd))
		return -errno;
	for (i = 0; i < 2; i++) {
		if (fstat(fd[i], &st)) {
			int err = -errno;

			close(fd[0]);
			close(fd[1]);
			return err;
		}
		waker->ino[i] = st.st_ino;
	}
	waker->fd[0] = fd[0];
	waker->fd[1] = fd[1];
	return 0;
}

int mesh_waker_init(struct mesh_waker *waker)
{
	int err;

	waker->fd[0] = waker->fd[1] = -1;
	atomic_init(&waker->woken, false);
	err = open_both(waker);
	if (!err)
		mesh_lock_init(&waker->lock);
	return err;
}

void mesh_waker_fini(struct mesh_waker *waker)
{
	close_both(waker);
	mesh_lock_fini(&waker->lock);
}

void mesh_waker_wake(struct mesh_waker *waker)
{
	int cancel;

	if (atomic_exchange_explicit(&waker->woken, true, memory_order_seq_cst))
		return;
	cancel = mesh_cancel_off(); /* send() is a cancellation point */
	mesh_lock(&waker->lock);
	if (!mesh_is_socket(waker->fd[1], waker->ino[1]) || send(waker->fd[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		atomic_store_explicit(&waker->woken, false, memory_order_relaxed);
	mesh_unlock(&waker->lock);
	mesh_cancel_restore(cancel);
}

void mesh_waker_heard(struct mesh_waker *waker)
{
	char drain[64];

	if (mesh_is_socket(waker->fd[0], waker->ino[0]))
		while (recv(waker->fd[0], drain, sizeof(drain), MSG_DONTWAIT) > 0)
			;
	atomic_store_explicit(&waker->woken, false, memory_order_seq_cst);
}

void mesh_waker_check(struct mesh_waker *waker)
{
	if (mesh_is_socket(waker->fd[0], waker->ino[0]) && mesh_is_socket(waker->fd[1], waker->ino[1]))
		return;
	mesh_lock(&waker->lock);
	close_both(waker);
	open_both(waker);
	mesh_unlock(&waker->lock);
	atomic_store_explicit(&waker->woken, false, memory_order_seq_cst);
}
