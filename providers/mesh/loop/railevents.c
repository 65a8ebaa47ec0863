// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"
#include "detect.h"
#include "heldint.h"
#include "ud.h"

/*
 * The program waits on its own completion channel, whose descriptor the kernel fills. So a completion on a rail is made
 * a completion of the program's CQ (kick.c).
 */
bool mesh_rail_events(struct mesh_rail *rail)
{
	bool datagrams = false;
	struct ibv_cq *cq;
	void *shadow;

	/* The channel does not block: the last call says EAGAIN. */
	while (!ibv_get_cq_event(rail->channel, &cq, &shadow)) {
		if (shadow)
			mesh_kick_cq_event(cq);
		else
			datagrams |= mesh_ud_event(rail, cq);
		ibv_ack_cq_events(cq, 1);
	}
	return datagrams;
}

static int poll_until(struct pollfd *fds, nfds_t n_fds, uint64_t until_ns)
{
	uint64_t now_ns = mesh_now_ns(), wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec timeout = {.tv_sec = (time_t)(wait_ns / 1000000000ull), .tv_nsec = (long)(wait_ns % 1000000000ull)};

	return ppoll(fds, n_fds, &timeout, NULL);
}

/* @fds: of rails. @n: of ppoll(). Return: whether there was nothing but completion events of CQs, and they are relayed. */
static bool relay(const struct pollfd *fds, struct mesh_rail *const *rails, size_t n_rails, int n)
{
	size_t i;

	if (n <= 0)
		return false;
	for (i = 0; i < n_rails; i++)
		n -= fds[2 * i].revents == POLLIN;
	if (n)
		return false;
	for (i = 0; i < n_rails; i++)
		if (fds[2 * i].revents && (!mesh_rail_channel_intact(rails[i]) || mesh_rail_events(rails[i])))
			return false;
	return true;
}

int mesh_rails_poll(struct pollfd *fds, size_t n_fixed, struct mesh_rail *const *rails, size_t n_rails, uint64_t until_ns,
		    uint64_t turn_ns)
{
	int n;

	do
		n = poll_until(fds, n_fixed + 2 * n_rails, until_ns);
	while (relay(fds + n_fixed, rails, n_rails, n) && mesh_now_ns() < turn_ns);
	return n;
}

/* QPs of srqloop.c have no record. The event is not acknowledged yet, so @qp is there. */
static void note_last_wqe(const struct ibv_qp *qp)
{
	struct mesh_leftover *record = qp->qp_context != &mesh_own_qp ? qp->qp_context : NULL;

	if (record)
		atomic_store_explicit(&record->last_wqe, true, memory_order_release);
}

/* Of the rail's own objects, of which the program knows nothing; left unread they would only pile up. */
bool mesh_rail_async_events(struct mesh_rail *rail)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(rail->context, &event)) {
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: event %s", rail->device, ibv_event_type_str(event.event_type));
		mesh_port_event(&rail->ports_down, &event);
		if (event.event_type == IBV_EVENT_GID_CHANGE)
			mesh_rail_forget_gid(rail);
		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			note_last_wqe(event.element.qp);
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			atomic_store_explicit(&rail->fatal, true, memory_order_relaxed);
		ibv_ack_async_event(&event);
	}
	return !atomic_load_explicit(&rail->fatal, memory_order_relaxed);
}
