// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <poll.h>

#include "conn.h"
#include "ud.h"

/*
 * Events of the rails. Each rail that is used has a thread of its own for them: the helper thread may have to wait for the
 * kernel, which takes seconds to find that a neighbour does not answer, and programs that sleep on completions of other
 * connections must not wait with it.
 */

/*
 * The program waits on its own completion channel, whose descriptor the kernel fills. So a completion on a rail is made
 * a completion of the program's CQ (kick.c).
 */
static void completions(struct mesh_rail *rail)
{
	struct ibv_cq *cq;
	void *context;

	/* The channel does not block: the last call says EAGAIN. */
	while (!ibv_get_cq_event(rail->channel, &cq, &context)) {
		if (!mesh_ud_event(rail, cq))
			mesh_kick_cq_event(cq);
		ibv_ack_cq_events(cq, 1);
	}
}

/* Of the rail's own objects, of which the program knows nothing; left unread they would only pile up. */
static void async_events(struct mesh_rail *rail)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(rail->context, &event)) {
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: event %s", rail->device, ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

static void *watch(void *arg)
{
	struct mesh_rail *rail = arg;
	struct pollfd fds[] = {{.fd = rail->channel->fd, .events = POLLIN},
			       {.fd = rail->context->async_fd, .events = POLLIN}};

	pthread_setname_np(pthread_self(), "meshverbs-rail");
	for (;;) {
		if (poll(fds, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		if (fds[0].revents & POLLNVAL) /* the program closed what it found */
			break;
		if (fds[0].revents)
			completions(rail);
		if (fds[1].revents & (POLLNVAL | POLLERR))
			fds[1].fd = -1;
		else if (fds[1].revents)
			async_events(rail);
	}
	mv_log_once(&mesh_root.log, MV_LOG_ERR, "%s: its events cannot be read any more", rail->device);
	return NULL;
}

int mesh_rail_watch(struct mesh_rail *rail)
{
	int err;

	if (atomic_exchange_explicit(&rail->watched, true, memory_order_relaxed))
		return 0;
	mesh_rail_ref(rail); /* for good: reopening it takes milliseconds */
	err = mesh_thread_start(watch, rail);
	if (err) {
		atomic_store_explicit(&rail->watched, false, memory_order_relaxed);
		mesh_rail_put(rail);
	}
	return err;
}
