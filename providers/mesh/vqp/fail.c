// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "vqp_int.h"

/*
 * Virtual QPs that end: the program brings them to ERR, or there is no path to the peer.
 *
 * Receives are flushed by the QP that has them, the program's own or the shadow. Sends are flushed by a QP only if it has been in
 * RTS: providers take no send before, not even in ERR. Otherwise completions for sends are made here, in the software
 * CQ.
 */

/* vqp->lock */
static int to_err(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int err;

	h->failure.ended = true;
	if (h->now.qp)
		err = mesh_root.lib.verbs.modify_qp(h->now.qp, &attr, IBV_QP_STATE);
	else
		err = h->mc->lower.qp.modify_qp(h->qp, &attr, IBV_QP_STATE);
	return -mesh_positive(err);
}

/*
 * A program with an SRQ waits for IBV_EVENT_QP_LAST_WQE_REACHED before it destroys its QP. The program's own QP gives that event
 * on the transition to ERR, unless a move has brought it to ERR before (lastwqe.c). So the program's own QP goes to ERR after the
 * shadow, already in ERR, has completed its last receive. Locks: conn->lock only.
 */
static void lower_follows(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (!h->now.qp || !h->srq)
		return;
	if (h->now.rtr)
		mesh_shadow_wait_drained(h, &h->now);
	h->mc->lower.qp.modify_qp(h->qp, &attr, IBV_QP_STATE);
}

/* Complete the first waiting send with @status. cq->lock and vqp->lock; the software CQ has room. */
static void complete_first(struct mesh_vqp *h, enum ibv_wc_status status)
{
	const struct mesh_send *first = mesh_sendq_place(&h->queue, 0);
	struct ibv_wc wc = {
		.wr_id = first->wr.wr_id,
		.status = status,
		.opcode = mesh_wc_opcode(first->wr.opcode),
		.qp_num = h->qp->qp_num,
	};

	mesh_sw_cq_append(h->send_cq, &wc);
	mesh_sendq_pop(&h->queue);
}

bool mesh_vqp_flush_queued(struct mesh_vqp *h)
{
	struct mesh_cq *cq = h->send_cq;
	bool some = false;

	if (h->mode != MESH_VQP_FLUSHING || (h->now.qp && h->now.rts))
		return false;
	for (; h->queue.n && mesh_sw_cq_room(&cq->sw_cq); some = true)
		complete_first(h, IBV_WC_WR_FLUSH_ERR);
	return some;
}

/* vqp->lock */
static int flush(struct mesh_vqp *h)
{
	int err = to_err(h);

	if (err)
		return err;
	if (h->tracker && !h->tracker->lost)
		h->tracker->lost = "it is in ERR";
	h->failure.status = IBV_WC_WR_FLUSH_ERR;
	h->mode = MESH_VQP_FLUSHING;
	mesh_post_drain(h);
	return 0;
}

/* Destroy a shadow that was not used: the program's own QP has the same receives, and flushes them. */
static void drop_unused_shadow(struct mesh_vqp *h)
{
	bool waiting;

	mesh_lock(&h->lock);
	waiting = h->mode == MESH_VQP_QUEUING;
	mesh_unlock(&h->lock);
	if (waiting)
		mesh_vqp_unprepare(h); /* if used, the shadow stays, and flushes its receives */
}

/* Prepare the CQ for completions that the plugin makes. Return: 0; -errno: events or places are missing. */
static int prepare_sw_cq(struct mesh_vqp *h)
{
	struct mesh_data *data = &h->mc->data;
	struct mesh_cq *cq = h->send_cq;
	int err;

	mesh_lock(&data->lock);
	err = mesh_cq_notify_prepare(cq);
	mesh_cq_use(cq);
	mesh_unlock(&data->lock);
	mesh_lock(&cq->lock);
	if (!h->flushing.on) {
		if (mesh_sw_cq_reserve(&cq->sw_cq, h->made.cap.max_send_wr + 1))
			err = -ENOMEM;
		h->flushing.on = true;
		h->flushing.next = cq->sw_cq.flushing;
		cq->sw_cq.flushing = h;
	}
	mesh_unlock(&cq->lock);
	return err;
}

static int bring_to_err(struct mesh_vqp *h)
{
	struct ibv_qp_attr to_err_attr = {.qp_state = IBV_QPS_ERR};
	struct mesh_cq *cq = h->send_cq;
	bool appended = false;
	uint64_t err_ns;
	int err;

	if (mesh_failover_give_up(h)) {
		err = -mesh_positive(mesh_vqp_modify_lower(h, &to_err_attr, IBV_QP_STATE));
		/* A QP that was well leaves its SRQ when it is destroyed: to wait for its last receive here would cost each program time. */
		if (!err)
			mesh_vqp_stop_srq(h, mesh_vqp_err_ns(h));
		return err;
	}
	drop_unused_shadow(h);
	err = prepare_sw_cq(h);
	if (err)
		return err;
	mesh_lock(&cq->lock);
	mesh_lock(&h->lock);
	err = flush(h);
	if (!err)
		appended = mesh_vqp_flush_queued(h);
	mesh_unlock(&h->lock);
	mesh_unlock(&cq->lock);
	if (appended)
		mesh_cq_notify(cq);
	if (err)
		return err;
	err_ns = mesh_now_ns();
	lower_follows(h);
	if (h->now.qp)
		mesh_vqp_stop_srq(h, err_ns);
	return 0;
}

int mesh_vqp_flush(struct mesh_vqp *h)
{
	int err = bring_to_err(h);

	mesh_last_wqe_due(h); /* only after the last receive */
	return err;
}

/*
 * A shadow in use has to report the error itself, in the order of its work: the first send that waits for a key becomes a send
 * that fails there. No error is withheld from now on. vqp->lock
 */
static void fail_active(struct mesh_vqp *h, enum ibv_wc_status status)
{
	if (h->tracker && !h->tracker->lost)
		h->tracker->lost = "it failed";
	h->failure.status = status;
	h->mode = MESH_VQP_FLUSHING;
	mesh_post_drain(h);
}

/* For a QP that moves, or has failed, the move decides, and gives the withheld errors. vqp->lock */
static bool is_moving(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED || (h->tracker && h->tracker->broken);
}

bool mesh_vqp_fail(struct mesh_vqp *h, enum ibv_wc_status status)
{
	bool active, decided, now;

	mesh_lock(&h->lock);
	decided = is_moving(h) || h->mode == MESH_VQP_FLUSHING;
	active = !decided && h->mode == MESH_VQP_ACTIVE && h->now.rts;
	if (active)
		fail_active(h, status);
	mesh_unlock(&h->lock);
	if (active || decided)
		return active;

	drop_unused_shadow(h);
	prepare_sw_cq(h); /* without events or places, a program may wait for ever, as with a silent peer */
	mesh_lock(&h->lock);
	h->mode = MESH_VQP_FAILING;
	h->failure.status = status;
	now = h->queue.n;
	mesh_unlock(&h->lock);
	if (now)
		mesh_vqp_fail_now(h);
	return true;
}

/* The program's own QP is still in INIT, and flushes its receives in ERR. The first send gets @status as usual. */
void mesh_vqp_fail_both(struct mesh_vqp *h, enum ibv_wc_status status)
{
	int cancel = mesh_cancel_off(); /* modify to ERR is a system call */

	mesh_vqp_fail(h, status);
	mesh_lock(&h->lock);
	if (h->mode == MESH_VQP_FAILING && !h->now.qp)
		to_err(h);
	mesh_unlock(&h->lock);
	mesh_cancel_restore(cancel);
}

void mesh_vqp_fail_now(struct mesh_vqp *h)
{
	struct mesh_cq *cq = h->send_cq;
	int cancel = mesh_cancel_off(); /* modify to ERR is a system call */
	bool appended = false, ended = false;

	mesh_lock(&cq->lock);
	mesh_lock(&h->lock);
	if (h->mode == MESH_VQP_FAILING && h->queue.n &&
	    (mesh_sw_cq_room(&cq->sw_cq) || !mesh_sw_cq_reserve(&cq->sw_cq, 1))) {
		complete_first(h, h->failure.status);
		appended = true;
		ended = !flush(h);
	}
	appended |= mesh_vqp_flush_queued(h);
	mesh_unlock(&h->lock);
	mesh_unlock(&cq->lock);
	if (appended)
		mesh_cq_notify(cq);
	if (ended)
		lower_follows(h);
	mesh_cancel_restore(cancel);
}
