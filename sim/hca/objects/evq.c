/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Event files: the asynchronous event file of a context and completion channels.
 *
 * The events lie in a list; the program holds one end of a socket pair on which a single byte is
 * ready exactly while the list is not empty, so poll(), epoll and O_NONBLOCK work on it as on the
 * kernel's file, and destroying an object can take back events that were not read. read() on it
 * comes to evq_read().
 *
 * All under hca->lock, except evq_of_fd() and evq_read(), which are called without it.
 */
#include "hca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fdtab.h"

struct evq *evq_new(void)
{
	struct evq *q = calloc(1, sizeof(*q));
	int fds[2];

	if (!q)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		free(q);
		return NULL;
	}
	STAILQ_INIT(&q->events);
	q->fd = fds[0];
	q->token_fd = fds[1];
	q->refs = 1;
	fdtab_set(q->fd, FD_EVENTS, q);
	return q;
}

/** evq_put() - drop a reference: the file itself holds one, each CQ on the channel one. */
void evq_put(struct evq *q)
{
	struct event *e;

	if (!q || --q->refs)
		return;
	if (q->uc)
		LIST_REMOVE(q, link);
	while ((e = STAILQ_FIRST(&q->events))) {
		STAILQ_REMOVE_HEAD(&q->events, link);
		free(e);
	}
	evq_end(q);
	free(q);
}

/**
 * evq_end() - the device was taken away from under the file: no more events.
 *
 * The program's end says POLLHUP for ever, where the kernel's file says POLLERR; read() says EIO.
 */
void evq_end(struct evq *q)
{
	/* Not close(): that is ours, and takes the lock. */
	if (!q->over)
		syscall(SYS_close, q->token_fd);
	q->over = true;
}

static void token_put(struct evq *q)
{
	if (!q->token && !q->over && !STAILQ_EMPTY(&q->events))
		q->token = send(q->token_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static void push(struct evq *q, const void *owner, uint32_t *reported, const void *data,
		 uint32_t len)
{
	struct event *e = q->over ? NULL : calloc(1, sizeof(*e));

	if (!e)
		return;
	e->owner = owner;
	e->reported = reported;
	e->len = len;
	memcpy(&e->data, data, len);
	STAILQ_INSERT_TAIL(&q->events, e, link);
	token_put(q);
}

void evq_push_comp(struct evq *q, struct cq *cq)
{
	push(q, cq, &cq->comp_events, &cq->obj.user_handle, sizeof(uint64_t));
}

/**
 * evq_push_async() - queue an asynchronous event.
 * @owner: the object it is about, NULL for the device or a port. @element: its user handle or the
 * port number.
 * @reported: counted when the program reads it, or NULL.
 */
void evq_push_async(struct evq *q, uint32_t type, const void *owner, uint64_t element,
		    uint32_t *reported)
{
	struct event e = {.data.async = {.element = element, .type = type}};

	if (q)
		push(q, owner, reported, &e.data, sizeof(e.data.async));
}

/** evq_drop() - forget the unread events of an object that goes away. */
void evq_drop(struct evq *q, const void *owner)
{
	struct event *e, *next;
	char byte;

	if (!q)
		return;
	for (e = STAILQ_FIRST(&q->events); e; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->owner != owner)
			continue;
		STAILQ_REMOVE(&q->events, e, event, link);
		free(e);
	}
	if (STAILQ_EMPTY(&q->events) && q->token && q->fd >= 0 &&
	    recv(q->fd, &byte, 1, MSG_DONTWAIT) == 1)
		q->token = false;
}

struct evq *evq_of_fd(int fd)
{
	return fdtab_get(fd, FD_EVENTS);
}

/**
 * evq_read() - what read() on the file does: wait (unless it is O_NONBLOCK), then copy as many
 * whole events as fit.
 *
 * Return: bytes, or -1 with errno (EAGAIN, EINTR, EINVAL if not even one event fits, EIO after
 * evq_end()).
 */
long evq_read(struct hca *h, struct evq *q, int fd, void *buf, unsigned long len)
{
	unsigned long done = 0;
	struct event *e;
	char byte;
	long got;

	engine_hurry(h);
	do {
		/* Not only the first time: another thread may have taken the event of this byte. */
		got = recv(fd, &byte, 1, 0);
		if (!got)
			errno = EIO;
		if (got != 1)
			return -1;
		hca_lock(h);
		q->token = false;
		while ((e = STAILQ_FIRST(&q->events)) && done + e->len <= len) {
			memcpy((char *)buf + done, &e->data, e->len);
			done += e->len;
			if (e->reported)
				++*e->reported;
			STAILQ_REMOVE_HEAD(&q->events, link);
			free(e);
		}
		token_put(q);
		hca_unlock(h);
		if (!done && e) {
			errno = EINVAL;
			return -1;
		}
	} while (!done);
	return (long)done;
}
