// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "wr_tracker.h"

#include <errno.h>
#include <stdlib.h>

#include "detect.h"
#include "lastwqe.h"
#include "mlx5_wr_walker.h"

const char mesh_tracker_kind[] = "it posted a work request of a kind that cannot be posted again";

struct mesh_wr_tracker *mesh_tracker_new(const struct ibv_qp_cap *cap, bool sq_sig_all, bool shared)
{
	struct mesh_wr_tracker *tracker = calloc(1, sizeof(*tracker));

	if (!tracker)
		return NULL;
	tracker->shared = shared;
	/* One receive of an SRQ may be partly filled. */
	tracker->max_withheld = cap->max_send_wr + (shared ? 1 : cap->max_recv_wr);
	mv_wrring_init(&tracker->sends, cap, sq_sig_all);
	return tracker;
}

int mesh_tracker_room(struct mesh_wr_tracker *tracker, const struct ibv_qp_cap *cap)
{
	int err = mv_wrring_room(&tracker->sends);

	if (err || tracker->shared || tracker->receives.places)
		return err;
	return mesh_srqlog_init(&tracker->receives, cap->max_recv_wr, cap->max_recv_sge ? cap->max_recv_sge : 1);
}

void mesh_tracker_free(struct mesh_wr_tracker *tracker)
{
	if (!tracker)
		return;
	mv_wrring_fini(&tracker->sends);
	mesh_srqlog_fini(&tracker->receives);
	free(tracker->begun);
	free(tracker->withheld);
	free(tracker);
}

void mesh_tracker_rtr(struct mesh_wr_tracker *tracker, uint32_t mtu_bytes)
{
	tracker->mtu_bytes = mtu_bytes;
	tracker->n_received = 0;
	tracker->rts = false;
}

void mesh_tracker_rts(struct mesh_wr_tracker *tracker, uint32_t sq_psn)
{
	tracker->n_withheld = 0;
	tracker->acknowledged = false;
	tracker->unlogged = false;
	tracker->broken = false;
	tracker->err_ns = 0;
	tracker->rts = true;
	mv_wrring_connect(&tracker->sends, tracker->mtu_bytes, sq_psn & 0xffffff);
	if (tracker->walker)
		mesh_walker_rts(tracker->walker);
}

int mesh_tracker_send(struct mesh_wr_tracker *tracker, const struct ibv_send_wr *wr)
{
	int err;

	if (tracker->lost || mesh_tracker_reads(tracker))
		return -1;
	err = mv_wrring_add(&tracker->sends, wr);
	if (err == -ENOSPC)
		return ENOMEM;
	if (err) {
		tracker->lost = mesh_tracker_kind;
		return -1;
	}
	return 0;
}

/* The remote address of a no-op is that of an element, which no address of the program is. */
static const enum ibv_wc_opcode opcodes[] = {IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
					     IBV_WC_FETCH_ADD};

/* NULL: not a no-op. */
static const enum ibv_wc_opcode *vqp_place_of(const struct ibv_send_wr *wr)
{
	size_t i;

	for (i = 0; wr->opcode == IBV_WR_RDMA_READ && i < sizeof(opcodes) / sizeof(*opcodes); i++)
		if (wr->wr.rdma.remote_addr == (uintptr_t)&opcodes[i])
			return &opcodes[i];
	return NULL;
}

enum ibv_wc_opcode mesh_wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

enum ibv_wc_opcode mesh_tracker_wc_opcode(const struct ibv_send_wr *wr)
{
	const enum ibv_wc_opcode *opcode = vqp_place_of(wr);

	return opcode ? *opcode : mesh_wc_opcode(wr->opcode);
}

void mesh_tracker_skipped_wr(const struct ibv_send_wr *done, struct ibv_send_wr *ret)
{
	enum ibv_wc_opcode opcode = mesh_tracker_wc_opcode(done);
	size_t i = 0;

	while (opcodes[i] != opcode)
		i++;
	*ret = (struct ibv_send_wr){
		.wr_id = done->wr_id,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = done->send_flags & (IBV_SEND_SIGNALED | IBV_SEND_FENCE),
		.wr.rdma.remote_addr = (uintptr_t)&opcodes[i],
	};
}

/* No atomic of the program has this remote address. */
static const uint64_t nowhere;

void mesh_tracker_lost(const struct ibv_send_wr *atomic, struct ibv_send_wr *ret)
{
	*ret = *atomic;
	ret->send_flags |= IBV_SEND_SIGNALED;
	ret->wr.atomic.remote_addr = (uintptr_t)&nowhere;
}

bool mesh_tracker_is_lost(const struct ibv_send_wr *wr)
{
	return mv_wr_is_atomic(wr) && wr->wr.atomic.remote_addr == (uintptr_t)&nowhere;
}

bool mesh_tracker_reads(const struct mesh_wr_tracker *tracker)
{
	return tracker->walker && !tracker->walker->ended;
}

static void received(struct mesh_wr_tracker *tracker, uint64_t wr_id)
{
	struct mesh_srq_recv *first;

	tracker->n_received++;
	if (tracker->shared || mesh_tracker_reads(tracker))
		return;
	first = mesh_srqlog_first(&tracker->receives);
	if (!first || first->wr_id != wr_id)
		tracker->lost = "a receive completed that is not the first one outstanding";
	else
		mesh_srqlog_drop(&tracker->receives, first);
}

/*
 * May another path cure the error? Other errors go to the program, and end all moves. Flushed work may be polled before the work
 * that failed, which may be in another CQ. If the path was not the cause, the peer refuses to move.
 */
static bool is_of_path(enum ibv_wc_status status)
{
	return mesh_detects(MESH_DETECT_RETRY) && (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR);
}

static bool keep(struct mesh_wr_tracker *tracker, struct mesh_completion *c)
{
	if (!tracker->withheld)
		tracker->withheld = calloc(tracker->max_withheld, sizeof(*tracker->withheld));
	if (!tracker->withheld || tracker->n_withheld == tracker->max_withheld)
		return false;
	tracker->withheld[tracker->n_withheld++] = *c;
	c->withheld = true;
	atomic_store_explicit(&c->cq->fast, false, memory_order_relaxed); /* for mesh_helper_stalled() */
	return true;
}

/*
 * Is a failed work request a receive, with one CQ for both queues? All sends that may complete are in the log, so another wr_id
 * is a receive's. (With the same wr_id for a send and a receive, the program could not tell its own errors apart either. Then the
 * answer is no.)
 */
static bool is_no_send(const struct mesh_vqp *h, uint64_t wr_id)
{
	struct mesh_wr_tracker *tracker = h->tracker;

	if (!tracker->shared || h->recv_cq != h->send_cq || mesh_tracker_reads(tracker))
		return false;
	/* After the log of a program's own QP was lost, sends are not logged: mesh_post_is_left(). */
	if (tracker->unlogged || (tracker->lost && !h->now.qp))
		return false;
	return !mv_wrring_has(&tracker->sends, wr_id, &tracker->next_failed);
}

/*
 * The request in place of a lost atomic has failed: it gets the error of an atomic whose path is gone. Completions of later work
 * may come first. During a drain, because the NIC is lost, errors are withheld, and flush_errors() gives them from the
 * log.
 */
static void fail_lost(struct mesh_vqp *h, struct mesh_completion *c)
{
	struct mesh_wr_tracker *tracker = h->tracker;

	if (!tracker->lost && h->mode != MESH_VQP_DRAINING)
		tracker->lost = tracker->lost_atomic; /* if lost before, the program has brought the QP to ERR since */
	if (c->wr_id == tracker->lost_wr_id && c->status != IBV_WC_WR_FLUSH_ERR)
		c->status = IBV_WC_RETRY_EXC_ERR;
}

/*
 * Also with a lost log: work that was logged before completes in its order, and so does work before a lost atomic. Return: should
 * it be shown?
 */
static bool one_that_succeeded(struct mesh_wr_tracker *tracker, struct mesh_completion *c)
{
	const char *lost = tracker->lost;
	const struct ibv_send_wr *first;
	bool show = true;

	first = (tracker->skipped_wrs || tracker->lost_atomic) &&
		!c->receive ? mv_wrring_first_signaled(&tracker->sends) : NULL;
	if (first && first->wr_id == c->wr_id) {
		c->opcode = vqp_place_of(first);
		show = !(first->send_flags & MESH_SEND_UNASKED);
	}
	if (c->receive)
		received(tracker, c->wr_id);
	else if (!mesh_tracker_reads(tracker) && mv_wrring_retire(&tracker->sends, c->wr_id) < 0)
		tracker->lost = "a send completed that is not the first one outstanding";
	else
		tracker->acknowledged = true;
	if (lost)
		tracker->lost = lost; /* keep the first reason */
	return show;
}

/*
 * Keep the order of errors after mesh_failover_flush_errors(), which gives withheld errors while another thread may be
 * polling. An error polled before those were shown was flushed after them, so it goes behind them. c->cq->lock,
 * vqp->lock. Return: true: it waits.
 */
static bool wait_turn(struct mesh_vqp *h, struct mesh_completion *c)
{
	const struct ibv_wc wc = {.wr_id = c->wr_id, .status = c->status, .qp_num = h->qp->qp_num};

	if (h->tracker->n_withheld)
		return keep(h->tracker, c);
	if (!c->cq->sw_cq.n || mesh_sw_cq_reserve(&c->cq->sw_cq, 1))
		return false;
	mesh_sw_cq_append(c->cq, &wc);
	return true;
}

/* Kept out of the hot path. c->cq->lock, vqp->lock. Return: should it be shown? */
__attribute__((noinline)) static bool one_that_failed(struct mesh_vqp *h, struct mesh_completion *c)
{
	struct mesh_wr_tracker *tracker = h->tracker;

	if (tracker->lost_atomic)
		fail_lost(h, c);
	c->failed_receive |= is_no_send(h, c->wr_id);
	if (h->mode == MESH_VQP_QUEUING) {
		/* The shadow does no work yet: shadow.c looks at its flushed receives when it is destroyed. */
		if (!tracker->lost && !is_of_path(c->status))
			tracker->lost = "a work request failed";
		return true;
	}
	if (tracker->lost)
		return !wait_turn(h, c);
	if (h->mode == MESH_VQP_DRAINED) {
		tracker->n_flushed++; /* mesh_failover_flush_errors() gives the errors itself */
		c->withheld = true;
		return false;
	}
	if (h->mode != MESH_VQP_DRAINING && !is_of_path(c->status)) {
		tracker->lost = "a work request failed";
		return true;
	}
	if (mesh_tracker_reads(tracker))
		mesh_walker_keep(h, c);
	if (!keep(tracker, c)) {
		tracker->lost = "out of memory";
		return true;
	}
	if (!tracker->broken && h->mode != MESH_VQP_DRAINING)
		h->client.ops->path_failed(h->client.arg);
	tracker->broken = true;
	if (!tracker->err_ns && h->mode != MESH_VQP_DRAINED)
		tracker->err_ns = mesh_now_ns();
	return false;
}

/*
 * Is the completion of a QP that was drained? Only a receive of an SRQ can complete then, after the drain has timed out
 * (lastrecv.c). vqp->lock
 */
static bool is_late(const struct mesh_vqp *h, const struct mesh_completion *c)
{
	bool works = c->qpn == (h->now.qp ? h->now.qp->qp_num : h->qp->qp_num);

	if (!h->tracker->shared)
		return false;
	if (h->mode == MESH_VQP_DRAINED)
		return works;
	return !works && (h->mode == MESH_VQP_ACTIVE || h->mode == MESH_VQP_DRAINING);
}

/*
 * A filled receive is shown; the peer has noticed that the counts disagree. A partly filled receive goes back to the SRQ, because
 * its message will be sent again. Return: should it be shown?
 */
static bool completed_late(struct mesh_completion *c)
{
	if (c->status == IBV_WC_SUCCESS)
		return true;
	c->failed_receive = c->withheld = c->late = true;
	return false;
}

/* c->cq->lock, vqp->lock. Return: should it be shown? */
static bool completed(struct mesh_vqp *h, struct mesh_completion *c)
{
	struct mesh_wr_tracker *tracker = h->tracker;

	if (h->early.hides_lower && h->early.n_at_lower && !h->now.qp && c->status == IBV_WC_WR_FLUSH_ERR) {
		h->early.n_at_lower--; /* receives from before RTR are flushed first */
		return false;
	}
	if (c->wr_id == mesh_tracker_send_drain_wr(tracker)) {
		tracker->send_drain_wr = MESH_DRAIN_WR_SEEN;
		return false;
	}
	if (c->wr_id == mesh_tracker_recv_drain_wr(tracker)) {
		tracker->recv_drain_wr = MESH_DRAIN_WR_SEEN;
		return false;
	}
	if (is_late(h, c))
		return completed_late(c);
	if (c->status != IBV_WC_SUCCESS)
		return one_that_failed(h, c);
	return one_that_succeeded(tracker, c);
}

bool mesh_tracker_completed(struct mesh_vqp *h, struct mesh_completion *c)
{
	bool show;

	mesh_lock(&h->lock);
	show = !h->tracker || completed(h, c);
	if (c->status != IBV_WC_SUCCESS && h->tracker && (show || h->tracker->lost))
		mesh_last_wqe_ended(h);
	mesh_unlock(&h->lock);
	return show;
}
