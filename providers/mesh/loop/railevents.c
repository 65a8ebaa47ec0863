// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"
#include "arm.h"
#include "railevents.h"
#include "ud.h"
#include "vqp_int.h"

/*
 * The program waits on its own completion channel, whose descriptor the kernel fills. So a completion event of a rail is turned
 * into one of the program's CQ (cq_notify.c).
 */
bool mesh_rail_events(struct mesh_rail *rail)
{
	bool datagrams = false;
	struct ibv_cq *cq;
	void *shadow;

	/*
	 * The channel is non-blocking: the last call returns EAGAIN. Datagrams may come without end. So an event of datagrams ends
	 * the loop, and timers and messages have their turn before the next event.
	 */
	while (!datagrams && !ibv_get_cq_event(rail->channel, &cq, &shadow)) {
		if (shadow)
			mesh_cq_notify_owner(cq);
		else
			datagrams = mesh_ud_event(rail, cq);
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

/* @fds: of rails. @n: result of ppoll(). Return: true: there were only completion events of CQs, and all are relayed. */
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

/*
 * Is the device gone? When a NIC is reset, unplugged or bound to another driver, the kernel reports DEVICE_FATAL, and detaches
 * the open files, which then return POLLERR for ever.
 */
static bool is_over(const struct pollfd *events)
{
	return events->revents & (POLLERR | POLLHUP | POLLNVAL);
}

static void lose_rail(size_t i)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_rail *rail = process->read_rails.rails[i];

	mesh_lock(&process->read_rails.lock);
	process->read_rails.rails[i] = process->read_rails.rails[--process->read_rails.n];
	mesh_unlock(&process->read_rails.lock);
	mesh_rail_lose(rail);
	mesh_conn_rail_lost(mesh_now_ns());
	mesh_ud_rail_lost(rail);
	mesh_conns_queue_all(false);
	mesh_rail_put(rail);
}

void mesh_read_rail_events(size_t i, const struct pollfd events[2])
{
	struct mesh_rail *rail = mesh_root.process->read_rails.rails[i];
	bool intact = mesh_rail_intact(rail); /* if not intact, the descriptors belong to the program: do not read */
	bool lost = !intact || is_over(&events[0]) || is_over(&events[1]);

	if (intact && events[0].revents)
		mesh_rail_events(rail);
	if (intact && events[1].revents)
		lost |= !mesh_rail_async_events(rail);
	if (lost)
		lose_rail(i);
}

void mesh_check_read_rails(void)
{
	struct mesh_process *process = mesh_root.process;
	size_t i;

	for (i = process->read_rails.n; i-- > 0;)
		if (!mesh_rail_intact(process->read_rails.rails[i]) ||
		    atomic_load_explicit(&process->read_rails.rails[i]->fatal, memory_order_relaxed))
			lose_rail(i);
}
