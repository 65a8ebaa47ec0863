// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "wake.h"

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

static void close_both(struct mesh_wake *wake)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (mesh_is_socket(wake->fd[i], wake->ino[i]))
			close(wake->fd[i]);
		wake->fd[i] = -1;
	}
}

/* Return: 0; -errno, with both closed. */
static int open_both(struct mesh_wake *wake)
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
		wake->ino[i] = st.st_ino;
	}
	wake->fd[0] = fd[0];
	wake->fd[1] = fd[1];
	return 0;
}

int mesh_wake_init(struct mesh_wake *wake)
{
	int err;

	wake->fd[0] = wake->fd[1] = -1;
	atomic_init(&wake->woken, false);
	err = open_both(wake);
	if (!err)
		mesh_lock_init(&wake->lock);
	return err;
}

void mesh_wake_fini(struct mesh_wake *wake)
{
	close_both(wake);
	mesh_lock_fini(&wake->lock);
}

void mesh_wake(struct mesh_wake *wake)
{
	int cancel;

	if (atomic_exchange_explicit(&wake->woken, true, memory_order_seq_cst))
		return;
	cancel = mesh_cancel_off(); /* send() is a cancellation point */
	mesh_lock(&wake->lock);
	if (!mesh_is_socket(wake->fd[1], wake->ino[1]) || send(wake->fd[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		atomic_store_explicit(&wake->woken, false, memory_order_relaxed);
	mesh_unlock(&wake->lock);
	mesh_cancel_restore(cancel);
}

void mesh_wake_heard(struct mesh_wake *wake)
{
	char drain[64];

	if (mesh_is_socket(wake->fd[0], wake->ino[0]))
		while (recv(wake->fd[0], drain, sizeof(drain), MSG_DONTWAIT) > 0)
			;
	atomic_store_explicit(&wake->woken, false, memory_order_seq_cst);
}

void mesh_wake_check(struct mesh_wake *wake)
{
	if (mesh_is_socket(wake->fd[0], wake->ino[0]) && mesh_is_socket(wake->fd[1], wake->ino[1]))
		return;
	mesh_lock(&wake->lock);
	close_both(wake);
	open_both(wake);
	mesh_unlock(&wake->lock);
	atomic_store_explicit(&wake->woken, false, memory_order_seq_cst);
}
