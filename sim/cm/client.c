/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "fdtab.h"
#include "proto.h"

struct ucma_file {
	atomic_uint refs;
	int control; /* to simhostd */
	uint32_t number;
	pthread_mutex_t lock; /* one command at a time */
};

/* Where a command's structure has the address for its answer; -1: it has none. */
static int response_offset(uint32_t command)
{
	switch (command) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		return offsetof(struct rdma_ucm_create_id, response);
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
	case RDMA_USER_CM_CMD_GET_EVENT:
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
	case RDMA_USER_CM_CMD_MIGRATE_ID:
	case RDMA_USER_CM_CMD_QUERY:
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		return 0;
	default:
		return -1;
	}
}

/* Not close(): that is ours. */
static void shut(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static int connect_host(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(a.sun_path, CM_SOCKET_NAME, sizeof(CM_SOCKET_NAME) - 1);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
					   sizeof(CM_SOCKET_NAME) - 1))) {
		shut(fd);
		errno = ENXIO;
		return -1;
	}
	return fd;
}

static int send_descriptor(int control, int fd)
{
	union {
		struct cmsghdr h;
		char bytes[CMSG_SPACE(sizeof(int))];
	} c = {.h = {.cmsg_len = CMSG_LEN(sizeof(int)),
		     .cmsg_level = SOL_SOCKET,
		     .cmsg_type = SCM_RIGHTS}};
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};

	memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	return sendmsg(control, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int ucma_open(int flags)
{
	struct ucma_file *f = calloc(1, sizeof(*f));
	int pair[2] = {-1, -1};
	struct cm_reply hello;

	if (!f) {
		errno = ENOMEM;
		return -1;
	}
	f->control = connect_host();
	if (f->control < 0 ||
	    socketpair(AF_UNIX,
		       SOCK_STREAM | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0) |
			       (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0),
		       0, pair) ||
	    send_descriptor(f->control, pair[1]) ||
	    recv(f->control, &hello, sizeof(hello), 0) < CM_HEAD_BYTES) {
		int err = errno;

		shut(pair[0]);
		shut(pair[1]);
		shut(f->control);
		free(f);
		errno = err ? err : EIO;
		return -1;
	}
	shut(pair[1]);
	f->number = hello.file;
	atomic_init(&f->refs, 1);
	pthread_mutex_init(&f->lock, NULL);
	fdtab_set(pair[0], FD_UCMA, f);
	return pair[0];
}

void ucma_hold(struct ucma_file *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

void ucma_close(struct ucma_file *f)
{
	if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) > 1)
		return;
	shut(f->control);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* One command and its answer. Return: 0 or -errno; -EIO if the host's daemon is gone. */
static int exchange(struct ucma_file *f, int fd, const struct cm_request *q, struct cm_reply *r)
{
	int old, err = -EIO;
	ssize_t n = -1;
	char byte;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_mutex_lock(&f->lock);
	if (send(f->control, q, CM_HEAD_BYTES + q->in_len, MSG_NOSIGNAL) > 0)
		do
			n = recv(f->control, r, sizeof(*r), 0);
		while (n < 0 && errno == EINTR);
	if (n >= CM_HEAD_BYTES && (size_t)n >= CM_HEAD_BYTES + (size_t)r->len) {
		err = r->err;
		/* Within the lock: the byte of the answer, and not of one after it. */
		if (r->drain)
			(void)!recv(fd, &byte, 1, MSG_DONTWAIT);
	}
	pthread_mutex_unlock(&f->lock);
	pthread_setcancelstate(old, NULL);
	return err;
}

/* Return: 0, or -errno: -EAGAIN, -EINTR. */
static int wait_for_event(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return 0;
	return poll(&p, 1, -1) < 0 ? -errno : 0;
}

static int get_event(struct ucma_file *f, int fd, const struct cm_request *q, struct cm_reply *r)
{
	int err, flags;

	do {
		err = wait_for_event(fd);
		if (!err)
			err = exchange(f, fd, q, r);
		flags = fcntl(fd, F_GETFL);
	} while (err == -EAGAIN && flags >= 0 && !(flags & O_NONBLOCK));
	if (err != -EAGAIN || flags >= 0)
		return err;
	/* Another thread has closed it, as rping does at its end: in the kernel this one waits on. */
	pause();
	return -EINTR;
}

/* Turn what the program's memory and descriptors are needed for into bytes. */
static int complete(struct cm_request *q, uint32_t in_len)
{
	struct rdma_ucm_set_option *option = (void *)q->in;
	struct rdma_ucm_migrate_id *migrate = (void *)q->in;

	q->in_len = in_len;
	if (q->command == RDMA_USER_CM_CMD_SET_OPTION && in_len >= sizeof(*option)) {
		if (option->optlen > CM_MAX_IN - sizeof(*option))
			return -EINVAL;
		memcpy(option + 1, (void *)(uintptr_t)option->optval, option->optlen);
		q->in_len = (uint32_t)sizeof(*option) + option->optlen;
	} else if (q->command == RDMA_USER_CM_CMD_MIGRATE_ID && in_len >= sizeof(*migrate)) {
		struct ucma_file *from = fdtab_get((int)migrate->fd, FD_UCMA);

		if (!from)
			return -ENOENT;
		migrate->fd = from->number;
	}
	return 0;
}

static int run(struct ucma_file *f, int fd, const void *buf, size_t len)
{
	struct rdma_ucm_cmd_hdr h;
	struct cm_request q;
	struct cm_reply r = {0};
	int at, err;

	if (len < sizeof(h))
		return -EINVAL;
	memcpy(&h, buf, sizeof(h));
	if (h.in > len - sizeof(h) || h.in > CM_MAX_IN)
		return -EINVAL;
	q = (struct cm_request){.command = h.cmd,
				.out_len = h.out < CM_MAX_OUT ? h.out : CM_MAX_OUT};
	memcpy(q.in, (const uint8_t *)buf + sizeof(h), h.in);
	err = complete(&q, h.in);
	if (err)
		return err;
	err = h.cmd == RDMA_USER_CM_CMD_GET_EVENT ? get_event(f, fd, &q, &r)
						  : exchange(f, fd, &q, &r);
	at = response_offset(h.cmd);
	if (!err && at >= 0 && r.len) {
		uint64_t response;

		memcpy(&response, q.in + at, sizeof(response));
		memcpy((void *)(uintptr_t)response, r.out, r.len);
	}
	return err;
}

ssize_t ucma_write(struct ucma_file *f, int fd, const void *buf, size_t len)
{
	int err;

	ucma_hold(f); /* another thread may close it meanwhile */
	err = run(f, fd, buf, len);
	ucma_close(f);
	if (err) {
		errno = -err;
		return -1;
	}
	return (ssize_t)len;
}
