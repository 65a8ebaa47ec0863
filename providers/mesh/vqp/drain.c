// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "vqp_failover.h"
#include "srq.h"
#include "vqp_int.h"

/* Brings the QP at work to rest: waits for its atomics, then drains it in ERR. */

#define DRAIN_STEP_US  20
#define DRAIN_AGAIN_NS 1000000ull
#define LAST_WORD_NS   100000000ull /* a thread of the program waits */

/* ---- atomics --------------------------------------------------------------------------------------------------- */

/*
 * Which atomics are done shows by completions. If no completion is to come (SILENT), the plugin must not post work of its own for
 * one: a SEND would consume a receive; whether the peer allows READs or WRITEs, even of no bytes, is not known; and the address
 * of the last atomic may be deregistered. A refused request would break a healthy QP. So posting goes on until the program posts
 * a signaled request, as it must before its queue is full.
 */
static enum mv_atomics quieten(struct mesh_vqp *h)
{
	enum mv_atomics found = MV_ATOMICS_NONE;

	mesh_lock(&h->lock);
	if (h->tracker && mesh_tracker_reads(h->tracker))
		found = mesh_walker_atomics(h);
	else if (h->tracker)
		found = mv_wrring_atomics(&h->tracker->sends);
	if (!h->tracker || !h->tracker->lost) /* with a lost log the move is refused */
		h->paused.quiet = found == MV_ATOMICS_SILENT ? MESH_QUIET_SOON : MESH_QUIET_YES;
	mesh_unlock(&h->lock);
	return found;
}

bool mesh_failover_quiesce(struct mesh_vqp *h)
{
	if (mesh_walker_engage(h))
		return false;
	if (quieten(h) == MV_ATOMICS_NONE)
		return true;
	/* The program may be waiting for this thread before it polls. */
	mesh_shadow_collect(h, &h->now);
	return quieten(h) == MV_ATOMICS_NONE;
}

/* ---- the drain ----------------------------------------------------------------------------------------------- */

/* Limit of a drain: 45 % of move_ns. The peer waits for half of move_ns, and so hears of a timeout in time. */
static uint64_t drain_ns(void)
{
	return mesh_root.move_times.move_ns / 20 * 9;
}

/* Can sends be outstanding? Not with a send queue of size 0, nor before RTS. vqp->lock */
static bool has_sends(const struct mesh_vqp *h)
{
	return h->tracker->rts && h->made.cap.max_send_wr;
}

/* A queue that can have nothing outstanding needs no sentinel. An SRQ takes none, because other QPs share it. vqp->lock */
static void begin_drain_wrs(struct mesh_vqp *h)
{
	h->tracker->send_drain_wr = has_sends(h) ? MESH_DRAIN_WR_NONE : MESH_DRAIN_WR_SEEN;
	h->tracker->recv_drain_wr = !h->tracker->shared && h->made.cap.max_recv_wr ? MESH_DRAIN_WR_NONE : MESH_DRAIN_WR_SEEN;
}

/* From here on no work is posted to the QP at work. Return: 0 or -EOPNOTSUPP. */
static int begin_drain(struct mesh_vqp *h)
{
	int err = 0;

	mesh_lock(&h->lock);
	if (h->tracker->lost || (h->mode != MESH_VQP_TRACKED && h->mode != MESH_VQP_ACTIVE))
		err = -EOPNOTSUPP;
	h->paused.quiet = MESH_QUIET_NO; /* all work waits now */
	if (!err) {
		h->mode = MESH_VQP_DRAINING;
		h->paused.n_new_receives = 0;
		begin_drain_wrs(h);
	}
	mesh_unlock(&h->lock);
	return err;
}

/*
 * Return: 0; -EAGAIN: another thread is in a batch (ibv_wr_start()), and may be waiting for this thread; -errno. A program that
 * ends a drain may be in a batch itself.
 */
static int now_to_err(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (h->now.qp)
		return -mesh_positive(mesh_root.lib.verbs.modify_qp(h->now.qp, &attr, IBV_QP_STATE));
	return -mesh_positive(mesh_vqp_try_modify_lower(h, &attr, IBV_QP_STATE));
}

/* 0 or errno */
static int post_send_drain_wr(struct mesh_vqp *h)
{
	struct ibv_send_wr drain_wr = {
		.wr_id = mesh_tracker_send_drain_wr(h->tracker), .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
		*bad;

	return h->now.qp ? ibv_post_send(h->now.qp, &drain_wr, &bad) : h->mc->lower.io.post_send(h->qp, &drain_wr, &bad);
}

static int post_recv_drain_wr(struct mesh_vqp *h)
{
	struct ibv_recv_wr drain_wr = {.wr_id = mesh_tracker_recv_drain_wr(h->tracker)}, *bad;

	return h->now.qp ? ibv_post_recv(h->now.qp, &drain_wr, &bad) : h->mc->lower.io.post_recv(h->qp, &drain_wr, &bad);
}

/*
 * The sentinel of the sends has to come behind all completions in its CQ, so with an SRQ it is posted after the last receive has
 * completed. Return: true: the caller has to post the sentinel, which counts as posted. vqp->lock is not held.
 */
static bool wants_drain_wr(struct mesh_vqp *h, bool send)
{
	bool wants;

	mesh_lock(&h->lock);
	if (send) {
		wants = h->tracker->send_drain_wr == MESH_DRAIN_WR_NONE && (!h->tracker->shared || h->drain.drained);
		h->tracker->send_drain_wr = wants ? MESH_DRAIN_WR_POSTED : h->tracker->send_drain_wr;
	} else {
		wants = h->tracker->recv_drain_wr == MESH_DRAIN_WR_NONE;
		h->tracker->recv_drain_wr = wants ? MESH_DRAIN_WR_POSTED : h->tracker->recv_drain_wr;
	}
	mesh_unlock(&h->lock);
	return wants;
}

/*
 * Called without vqp->lock: another thread may be in a batch (ibv_wr_start()) with the provider's lock, and poll. Other
 * posts come only from threads that bypass the plugin, and those use the provider's locks (mlx5_wr_walker.h).
 */
static void post_both_drain_wrs(struct mesh_vqp *h)
{
	if (wants_drain_wr(h, true) && post_send_drain_wr(h)) {
		mesh_lock(&h->lock);
		h->tracker->send_drain_wr = MESH_DRAIN_WR_NONE;
		mesh_unlock(&h->lock);
	}
	if (wants_drain_wr(h, false) && post_recv_drain_wr(h)) {
		mesh_lock(&h->lock);
		h->tracker->recv_drain_wr = MESH_DRAIN_WR_NONE;
		mesh_unlock(&h->lock);
	}
}

/*
 * libmlx5 looks at the CQ when a queue is full. A poller of an extended CQ holds the lock of that CQ from start_poll to end_poll,
 * and may be waiting for conn->lock: so only try to freeze such CQs. With such a CQ no batch of libmlx5 is open when a
 * drain begins, because QPs of mesh_post_is_left() do not move. With other CQs a batch may be open
 * (mesh_walker_in_batch()): then this function is called again.
 */
static void post_drain_wrs(struct mesh_vqp *h)
{
	struct mesh_cq *a = h->send_cq, *b = h->recv_cq;
	bool frozen_a, frozen_b;

	if (!h->now.qp && mesh_walker_in_batch(h))
		return;
	frozen_a = a->ex.extended && mesh_cq_try_freeze(a);
	frozen_b = b != a && b->ex.extended && mesh_cq_try_freeze(b);
	if ((frozen_a || !a->ex.extended) && (frozen_b || b == a || !b->ex.extended))
		post_both_drain_wrs(h);
	mesh_cq_thaw(b, frozen_b);
	mesh_cq_thaw(a, frozen_a);
}

/*
 * Have all completed receives of an SRQ been polled? A receive that was not would be posted to the next QP again. In the CQ of
 * the sends such receives come before the sentinel; other CQs get no sentinel. vqp->lock
 */
static bool has_received(const struct mesh_vqp *h)
{
	return !h->tracker->shared || h->drain.received || (h->recv_cq == h->send_cq && has_sends(h));
}

/* A full queue takes a sentinel once some of its work was flushed and polled. Return: is all work flushed? */
static bool is_empty(struct mesh_vqp *h)
{
	struct mesh_wr_tracker *tracker = h->tracker;
	bool empty;

	post_drain_wrs(h);
	mesh_lock(&h->lock);
	empty = tracker->send_drain_wr == MESH_DRAIN_WR_SEEN && tracker->recv_drain_wr == MESH_DRAIN_WR_SEEN && has_received(h);
	if (empty && !tracker->lost && mesh_tracker_reads(tracker) && !mesh_walker_through(tracker)) {
		/* Work was posted behind the sentinels: post new sentinels behind that work. */
		begin_drain_wrs(h);
		empty = false;
	}
	mesh_unlock(&h->lock);
	return empty;
}

/*
 * Soft-RoCE flushes receives on the transition to ERR, but not a receive posted in ERR. So the transition is repeated if the
 * sentinels do not come at once.
 */
static void again_to_err(struct mesh_vqp *h, uint64_t now_ns)
{
	struct mesh_drain *drain = &h->drain;

	if (now_ns < drain->again_ns)
		return;
	now_to_err(h);
	drain->step_ns *= 2;
	drain->again_ns = now_ns + drain->step_ns;
}

/* Return: as now_to_err(). */
static int begin_err(struct mesh_vqp *h)
{
	int err = h->drain.in_err ? 0 : now_to_err(h);

	if (!err && !h->drain.in_err) {
		h->drain.err_ns = mesh_now_ns();
		mesh_lock(&h->lock);
		if (!h->tracker->err_ns)
			h->tracker->err_ns = h->drain.err_ns;
		mesh_unlock(&h->lock);
	}
	h->drain.in_err = !err;
	return err;
}

static const char *drain_wr_text(enum mesh_drain_wr_state drain_wr)
{
	return drain_wr == MESH_DRAIN_WR_SEEN ? "flushed" : drain_wr == MESH_DRAIN_WR_POSTED ? "not flushed" : "no sentinel could be posted";
}

static void log_not_empty(struct mesh_vqp *h)
{
	const struct mesh_wr_tracker *tracker = h->tracker;

	if (!h->drain.in_err) {
		mv_log(&mesh_root.log, MV_LOG_WARN,
		       "%s QP 0x%x: not brought to ERR: a thread is in a batch of ibv_wr_start() for %llu ms",
		       h->mc->device, h->qp->qp_num, (unsigned long long)(h->drain.limit_ns / 1000000));
		return;
	}
	mv_log(&mesh_root.log, MV_LOG_WARN, "%s QP 0x%x: in ERR, but not empty after %llu ms: sends: %s; receives: %s",
	       h->mc->device, h->qp->qp_num, (unsigned long long)(h->drain.limit_ns / 1000000),
	       drain_wr_text(tracker->send_drain_wr),
	       has_received(h)    ? drain_wr_text(tracker->recv_drain_wr)
	       : h->drain.drained ? "not polled"
				  : "not completed");
}

/* Return: 0: all work is flushed; -EAGAIN: not yet; -ETIMEDOUT; -errno: the QP cannot be brought to ERR. */
static int look_whether_empty(struct mesh_vqp *h)
{
	int err = begin_err(h);
	uint64_t now_ns;

	if (err && err != -EAGAIN)
		return err;
	if (!err && !h->drain.drained)
		h->drain.drained = mesh_vqp_drained(h);
	/* Always once: a QP with an SRQ has completions, but flushes no receives. */
	if (!err)
		h->drain.received |= mesh_shadow_collect(h, &h->now) && h->drain.drained;
	if (!err && is_empty(h))
		return 0;
	now_ns = mesh_now_ns();
	if (now_ns > h->drain.until_ns) {
		log_not_empty(h);
		return -ETIMEDOUT;
	}
	if (!err)
		again_to_err(h, now_ns);
	return -EAGAIN;
}

/* Return: is all work flushed? */
static bool wait_until_empty(struct mesh_vqp *h)
{
	int err = -EINVAL;

	while (h->drain.on && (err = look_whether_empty(h)) == -EAGAIN && !mesh_vqp_is_own_poll(h))
		usleep(DRAIN_STEP_US);
	h->drain.on = false;
	return !err;
}

/* For callers other than the one that began the drain. */
void mesh_failover_end_drain(struct mesh_vqp *h)
{
	wait_until_empty(h);
}

/*
 * Called in ERR, behind the sentinels, and before SYNC or anything is posted to the next QP. The answer is the last barrier between two
 * NICs: a posted PCIe write of this NIC, behind all that this NIC has written to host memory (docs/rationale/failover.md).
 */
static int read_psn(struct mesh_vqp *h, uint32_t *ret)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	memset(&attr, 0, sizeof(attr));
	memset(&init, 0, sizeof(init));
	if (h->now.qp)
		err = mesh_root.lib.verbs.query_qp(h->now.qp, &attr, IBV_QP_RQ_PSN, &init);
	else
		err = h->mc->lower.qp.query_qp(h->qp, &attr, IBV_QP_RQ_PSN, &init);
	if (err)
		return -mesh_positive(err);
	*ret = attr.rq_psn & MV_PSN_MASK;
	return 0;
}

/*
 * Post the outstanding receives, and those posted during the drain, to the next QP. On failure no QP has the rest.
 * vqp->lock
 */
static int hand_receives_on(struct mesh_vqp *h)
{
	struct mesh_srqlog *log = &h->tracker->receives;
	const struct mesh_srq_recv *recv;
	uint32_t i;
	int err = 0;

	h->paused.n_new_receives = log->n_left;
	for (i = 0; i < log->n && !err; i++) {
		recv = mesh_srqlog_at(log, i);
		if (recv->gone)
			continue;
		err = mesh_failover_post_recv(h, recv->wr_id, recv->sges, recv->num_sge);
		h->paused.n_new_receives -= !err;
	}
	return -mesh_positive(err);
}

/* All outstanding work was flushed, receives as well. Return: the number of flushed sends. vqp->lock */
static uint32_t count_flushed_sends(const struct mesh_vqp *h)
{
	const struct mesh_wr_tracker *tracker = h->tracker;
	uint32_t receives = 0, i;

	if (mesh_tracker_reads(tracker))
		return (uint32_t)mv_wrlog_count(&tracker->sends.log);
	if (!tracker->shared)
		receives = tracker->receives.n_left - h->paused.n_new_receives;
	/* Of an SRQ only a receive that was being filled completes in error. */
	for (i = 0; tracker->shared && i < tracker->n_withheld; i++)
		receives += tracker->withheld[i].failed_receive;
	return tracker->n_withheld - receives;
}

static int start_drain(struct mesh_vqp *h, uint64_t limit_ns)
{
	uint64_t now_ns = mesh_now_ns();
	int err = mesh_walker_engage(h);

	if (!err)
		err = begin_drain(h);
	if (err)
		return err;
	h->drain = (struct mesh_drain){.on = true,
				       .until_ns = now_ns + limit_ns,
				       .limit_ns = limit_ns,
				       .step_ns = DRAIN_AGAIN_NS,
				       .again_ns = now_ns + DRAIN_AGAIN_NS};
	err = begin_err(h);
	if (err)
		return err;
	is_empty(h); /* posts the sentinels */
	return -EAGAIN;
}

static int finish_drain(struct mesh_vqp *h, struct mv_move_sync *ret)
{
	int err = read_psn(h, &ret->next_psn);

	mesh_lock(&h->lock);
	if (!err && !h->tracker->lost && mesh_tracker_reads(h->tracker) && !mesh_walker_through(h->tracker)) {
		h->drain.on = true; /* the program posted a moment ago */
		mesh_unlock(&h->lock);
		return -EAGAIN;
	}
	/* if lost, flush_errors() settles; mesh_walker_settle() may be called only once */
	if (!err && mesh_tracker_reads(h->tracker))
		mesh_walker_settle(h->tracker);
	if (!err && h->tracker->lost)
		err = -EOPNOTSUPP;
	ret->n_received = h->tracker->n_received;
	h->tracker->n_undone = count_flushed_sends(h);
	if (!err) {
		err = hand_receives_on(h);
		/* Also if that failed: the old QP is empty, and flush errors of the next QP are not to be withheld twice. */
		if (mesh_tracker_reads(h->tracker))
			mesh_walker_end(h->tracker);
		h->tracker->n_received = 0;
		h->mode = MESH_VQP_DRAINED; /* replay.c posts nothing before */
	}
	mesh_unlock(&h->lock);
	if (err)
		return err;
	mesh_vqp_leave_srq(h);
	/* From here on no completion of the old QP goes to the program, however the move ends: flush_errors(). */
	mesh_srq_end_withheld(h->srq, h->tracker->begun, false);
	return 0;
}

int mesh_failover_drain(struct mesh_vqp *h, bool first, struct mv_move_sync *ret)
{
	int err;

	if (!first && !h->drain.on)
		return -EOPNOTSUPP; /* the program has ended the drain */
	err = first ? start_drain(h, drain_ns()) : look_whether_empty(h);
	if (err == -EAGAIN)
		return err;
	h->drain.on = false;
	return err ? err : finish_drain(h, ret);
}

/* Receives stay at the old QP, and flush errors stay withheld: the caller is about to end the QP. */
int mesh_failover_last_word(struct mesh_vqp *h, struct mv_move_sync *ret)
{
	int err = -EAGAIN;

	if (!h->drain.on) /* a thread that polls itself would not see the completions */
		err = mesh_vqp_is_own_poll(h) ? -EBUSY : start_drain(h, LAST_WORD_NS);
	if (err != -EAGAIN)
		h->drain.on = false;
	else
		err = wait_until_empty(h) ? read_psn(h, &ret->next_psn) : -ETIMEDOUT;
	mesh_lock(&h->lock);
	if (!err && h->tracker->lost)
		err = -EOPNOTSUPP;
	ret->n_received = h->tracker->n_received;
	mesh_unlock(&h->lock);
	return err;
}
