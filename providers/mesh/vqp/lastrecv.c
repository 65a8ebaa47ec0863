// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <unistd.h>

#include "srq.h"
#include "vqp_int.h"

/*
 * Drained: every receive that a QP in ERR took from an SRQ has completed.
 *
 * When modify to ERR returns, a receive may still be on its way to the CQ. With an SRQ no sentinel receive can be posted behind
 * it. The device reports IBV_EVENT_QP_LAST_WQE_REACHED after the last receive (InfiniBand Architecture Specification volume 1,
 * 10.3.1). For a shadow, the plugin reads that event. For the program's own QP only the program can read it, and many programs
 * never do: then a timeout decides. Soft-RoCE before Linux 6.4 lacks the event.
 */

#define DRAIN_NS   500000000ull /* the plugin reads the event: after that, the device has lost it */
#define PROGRAM_NS 200000000ull /* the program reads events, or waits for the plugin */
#define GRACE_NS   20000000ull /* nobody reads the event: HCAs need microseconds */
#define STOP_NS    200000000ull /* mesh_vqp_stop_srq(): patience_ns() of the program's own QP is half of that at most */
#define POLLED_NS  2000000ull /* longest wait for another thread between ibv_start_poll() and ibv_end_poll() */
#define STEP_US	   20

static bool has_come(const struct mesh_shadow *shadow)
{
	struct mesh_rail *rail = shadow->spd->rail;

	if (!atomic_load_explicit(&shadow->reap_entry->last_wqe, memory_order_acquire) && mesh_rail_intact(rail))
		mesh_rail_async_events(rail);
	return atomic_load_explicit(&shadow->reap_entry->last_wqe, memory_order_acquire) || mesh_rail_lost(rail);
}

bool mesh_shadow_drained(const struct mesh_vqp *h, const struct mesh_shadow *shadow, uint64_t err_ns)
{
	/* The program's device and the rails are of the same kind. */
	uint64_t most_ns = mesh_mlx5_is_lower(h->mc) ? DRAIN_NS : GRACE_NS;

	return !shadow->rail_srq || has_come(shadow) || mesh_now_ns() > err_ns + most_ns;
}

void mesh_shadow_wait_drained(const struct mesh_vqp *h, const struct mesh_shadow *shadow)
{
	uint64_t err_ns = mesh_now_ns();

	while (!mesh_shadow_drained(h, shadow, err_ns))
		usleep(STEP_US);
}

static uint64_t patience_ns(struct mesh_vqp *h, uint64_t limit_ns)
{
	bool reads = atomic_load_explicit(&h->mc->data.last_wqe.program_reads, memory_order_relaxed);
	uint64_t ns = reads && mesh_mlx5_is_lower(h->mc) ? PROGRAM_NS : GRACE_NS;

	return ns < limit_ns / 2 ? ns : limit_ns / 2;
}

/* @limit_ns: how long the caller waits at most */
static bool is_drained(struct mesh_vqp *h, uint64_t err_ns, uint64_t limit_ns)
{
	struct mesh_last_wqe *own = &h->mc->data.last_wqe;
	bool read;

	if (!h->srq)
		return true;
	if (h->now.qp)
		return mesh_shadow_drained(h, &h->now, err_ns);
	mesh_lock(&own->lock);
	read = h->last_wqe.of_lower;
	mesh_unlock(&own->lock);
	return read || mesh_now_ns() > err_ns + patience_ns(h, limit_ns);
}

bool mesh_vqp_drained(struct mesh_vqp *h)
{
	return is_drained(h, h->drain.err_ns, h->drain.limit_ns);
}

/* Return: false: a thread polls. */
static bool collect_last(struct mesh_vqp *h, uint64_t err_ns)
{
	uint64_t until_ns = mesh_now_ns() + POLLED_NS;
	bool drained;

	for (;;) {
		drained = is_drained(h, err_ns, STOP_NS);
		if (mesh_shadow_collect(h, &h->now) && drained)
			return true;
		if (mesh_vqp_is_own_poll(h) || (drained && mesh_now_ns() > until_ns))
			return false;
		usleep(STEP_US);
	}
}

uint64_t mesh_vqp_err_ns(struct mesh_vqp *h)
{
	uint64_t err_ns;

	mesh_lock(&h->lock);
	err_ns = h->tracker ? h->tracker->err_ns : 0;
	mesh_unlock(&h->lock);
	return err_ns;
}

void mesh_vqp_leave_srq(struct mesh_vqp *h)
{
	if (!h->srq)
		return;
	mesh_lock(&h->lock);
	if (h->tracker)
		h->tracker->err_ns = 0;
	mesh_unlock(&h->lock);
	if (!h->now.qp) {
		mesh_srq_left(mesh_srq_leaving(h->mc, h->qp), true);
	} else if (!h->now.reap_entry->stopped) {
		h->now.reap_entry->stopped = true;
		mesh_srq_stop_shadow(h->now.rail_srq);
	}
}

void mesh_vqp_stop_srq(struct mesh_vqp *h, uint64_t err_ns)
{
	if (!h->srq || !err_ns || (h->now.qp && h->now.reap_entry->stopped))
		return;
	if (collect_last(h, err_ns))
		mesh_vqp_leave_srq(h);
}
