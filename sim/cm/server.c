/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <netinet/in.h> /* before the kernel's headers, which then leave its types alone */

#include "server.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cm.h"
#include "gsi.h"
#include "neigh.h"
#include "proto.h"

#define MAX_EVENTS 16

/* A program's open file. */
struct client {
	LIST_ENTRY(client) link;
	int fd;
	int token_fd; /* the other end is the program's descriptor; -1 before the first datagram */
	bool token; /* a byte is in it */
	struct cm_file *file;
};

struct cm_server {
	struct host *host;
	struct cm cm;
	struct gsi gsi;
	int epoll, listener;
	LIST_HEAD(, client) clients;
};

/* For neigh.c. In programs engine.c has this function. */
uint64_t engine_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void op_send(void *arg, const struct cm_path *path, const uint8_t *mad)
{
	struct cm_server *s = arg;

	gsi_send(&s->gsi, s->host->state, path, mad);
}

static int op_route(void *arg, const uint8_t *src, const uint8_t *dst, uint32_t ifindex,
		    struct cm_route *ret)
{
	(void)arg;
	return neigh_route(src, dst, ifindex, ret->src, &ret->ifindex, &ret->local);
}

static int op_neighbour(void *arg, const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
			uint8_t *ret_mac)
{
	(void)arg;
	return neigh_try(sgid, dgid, ifindex, ret_mac);
}

static bool op_own_address(void *arg, const uint8_t *addr)
{
	struct cm_server *s = arg;

	for (size_t i = 0; i < s->host->net.n_addrs; i++)
		if (!memcmp(s->host->net.addrs[i].raw, addr, 16))
			return true;
	return false;
}

static void op_readable(void *arg, struct cm_file *f)
{
	struct client *c = f->user;

	(void)arg;
	if (!c->token)
		c->token = send(c->token_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static const struct cm_ops ops = {.send = op_send,
				  .route = op_route,
				  .neighbour = op_neighbour,
				  .own_address = op_own_address,
				  .readable = op_readable};

static int watch(struct cm_server *s, int fd, void *what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = what};

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static void drop_client(struct cm_server *s, struct client *c)
{
	if (c->file)
		cm_close(&s->cm, c->file);
	LIST_REMOVE(c, link);
	close(c->fd);
	if (c->token_fd >= 0)
		close(c->token_fd);
	free(c);
}

static void accept_client(struct cm_server *s)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c = fd >= 0 ? calloc(1, sizeof(*c)) : NULL;

	if (!c || watch(s, fd, c)) {
		free(c);
		if (fd >= 0)
			close(fd);
		return;
	}
	c->fd = fd;
	c->token_fd = -1;
	LIST_INSERT_HEAD(&s->clients, c, link);
}

static int descriptor_of(struct msghdr *m)
{
	struct cmsghdr *h = CMSG_FIRSTHDR(m);
	int fd;

	if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
	    h->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(h), sizeof(fd));
	return fd;
}

static int reply(struct client *c, const struct cm_reply *r)
{
	return send(c->fd, r, CM_HEAD_BYTES + r->len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The first datagram. */
static int hello(struct cm_server *s, struct client *c, int fd)
{
	struct cm_reply r = {0};

	if (fd < 0)
		return -EPROTO;
	c->token_fd = fd;
	c->file = cm_open(&s->cm);
	if (!c->file)
		return -ENOMEM;
	c->file->user = c;
	r.file = c->file->number;
	return reply(c, &r);
}

static int command(struct cm_server *s, struct client *c, const struct cm_request *q, size_t len)
{
	struct cm_reply r = {0};

	if (len < CM_HEAD_BYTES || q->in_len != len - CM_HEAD_BYTES || q->out_len > CM_MAX_OUT)
		return -EPROTO;
	r.err = cm_command(&s->cm, c->file, q->command, q->in, q->in_len, r.out, q->out_len,
			   &r.len);
	r.drain = c->token && STAILQ_EMPTY(&c->file->events);
	if (r.drain)
		c->token = false;
	return reply(c, &r);
}

static void serve_client(struct cm_server *s, struct client *c)
{
	union {
		struct cmsghdr h;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct cm_request q;
	struct iovec iov = {.iov_base = &q, .iov_len = sizeof(q)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fd = n > 0 ? descriptor_of(&m) : -1, err;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		err = -EPIPE;
	else if (!c->file)
		err = hello(s, c, fd);
	else
		err = fd < 0 ? command(s, c, &q, (size_t)n) : -EPROTO;
	if (err) {
		if (fd >= 0 && fd != c->token_fd)
			close(fd);
		drop_client(s, c);
	}
}

static int open_listener(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + sizeof(CM_SOCKET_NAME) - 1;

	memcpy(a.sun_path, CM_SOCKET_NAME, sizeof(CM_SOCKET_NAME) - 1);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, len) && !listen(fd, 64))
		return fd;
	len = (socklen_t)errno;
	if (fd >= 0)
		close(fd);
	return -(int)len;
}

int cm_server_open(struct host *h, struct cm_server **ret)
{
	struct cm_server *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->host = h;
	s->gsi.fds[0] = s->gsi.fds[1] = -1;
	LIST_INIT(&s->clients);
	cm_init(&s->cm, h->state, &ops, s, engine_clock() ^ h->state->seed);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->listener = open_listener();
	err = s->epoll < 0 ? -errno : s->listener < 0 ? s->listener : gsi_open(&s->gsi);
	if (!err)
		err = watch(s, s->listener, &s->listener);
	for (int i = 0; i < 2 && !err; i++)
		err = watch(s, s->gsi.fds[i], &s->gsi.fds[i]);
	if (err)
		cm_server_close(s);
	else
		*ret = s;
	return err;
}

void cm_server_close(struct cm_server *s)
{
	if (!s)
		return;
	while (!LIST_EMPTY(&s->clients))
		drop_client(s, LIST_FIRST(&s->clients));
	cm_fini(&s->cm);
	gsi_close(&s->gsi);
	if (s->listener >= 0)
		close(s->listener);
	if (s->epoll >= 0)
		close(s->epoll);
	free(s);
}

int cm_server_fd(const struct cm_server *s)
{
	return s->epoll;
}

void cm_server_show(const struct cm_server *s, char *text, size_t size)
{
	cm_show(&s->cm, text, size);
}

int cm_server_run(struct cm_server *s)
{
	struct epoll_event ev[MAX_EVENTS];
	int n = epoll_wait(s->epoll, ev, MAX_EVENTS, 0);
	uint64_t next;

	s->cm.now_ns = engine_clock();
	for (int i = 0; i < n; i++) {
		void *what = ev[i].data.ptr;

		if (what == &s->listener)
			accept_client(s);
		else if (what == &s->gsi.fds[0] || what == &s->gsi.fds[1])
			gsi_receive(&s->gsi, &s->cm, *(int *)what);
		else
			serve_client(s, what);
	}
	next = cm_timers(&s->cm);
	if (!next)
		return -1;
	return next > s->cm.now_ns ? (int)((next - s->cm.now_ns + 999999) / 1000000) : 0;
}
