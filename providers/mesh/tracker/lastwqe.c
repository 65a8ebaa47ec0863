// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "lastwqe.h"
#include "wr_tracker.h"

/*
 * IBV_EVENT_QP_LAST_WQE_REACHED: a queue pair with an SRQ is in ERR.
 *
 * For a program that did not bring the QP to ERR, the event means a fault of the connection. A program that did waits for the
 * event before it destroys the QP. The program's own QP reports the event once, on the transition to ERR, which a drain
 * or a broken path may cause. So an event that the program reads before it knows of ERR is withheld, and not
 * acknowledged. The program gets a harmless event instead, because it may be blocked until it gets one.
 *
 * Later, when the program knows of ERR, the event has to come. An event that was read cannot be put back. But a QP of the plugin
 * on the same device can cause one, which is translated into the withheld event, and which the program acknowledges.
 *
 * An event that the program has not read by then is left alone.
 *
 * Other QPs of the plugin on the program's device have events, too: a QP that consumes receives of an SRQ (srq_drain.c)
 * is brought to ERR in the end. These events are hidden and acknowledged here, because an unacknowledged event blocks
 * the destruction of its QP.
 */

/* One event at a time: a device may drop the event of a QP that leaves ERR before the event is read. last_wqe->lock */
static void speak_for_first(struct mesh_context *mc)
{
	struct mesh_last_wqe *own = &mc->data.last_wqe;
	int err;

	if (own->speaking || TAILQ_EMPTY(&own->due))
		return;
	err = mesh_own_to_err(mc, own->qp);
	own->speaking = !err;
	if (err)
		mv_log(&mesh_root.log, MV_LOG_WARN, "%s: no event for a queue pair that is in ERR: %s", mc->device,
		       strerrordesc_np(err));
}

static void destroy_own(struct ibv_qp *qp, struct ibv_srq *srq, struct ibv_cq *cq)
{
	if (qp)
		mesh_root.lib.verbs.destroy_qp(qp);
	if (srq)
		mesh_root.lib.verbs.destroy_srq(srq);
	if (cq)
		mesh_root.lib.verbs.destroy_cq(cq);
}

/* No lock of the plugin is held. Return: true: there is a QP of the plugin that can cause the event. */
static bool prepare(struct mesh_context *mc)
{
	struct ibv_context *verbs = atomic_load_explicit(&mc->verbs, memory_order_relaxed);
	struct ibv_qp_init_attr attr = {
		.qp_context = (void *)&mesh_own_qp,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct mesh_last_wqe *own = &mc->data.last_wqe;
	struct ibv_qp *qp = NULL;
	struct ibv_pd *pd;
	bool there;

	mesh_lock(&own->lock);
	there = own->qp;
	mesh_unlock(&own->lock);
	if (there)
		return true;
	mesh_lock(&mc->data.lock);
	pd = mesh_data_pd(mc);
	mesh_unlock(&mc->data.lock);
	if (!pd)
		return false;
	attr.send_cq = attr.recv_cq = mesh_root.lib.verbs.create_cq(verbs, 1, NULL, NULL, 0);
	attr.srq = mesh_root.lib.verbs.create_srq(pd, &srq_attr);
	if (attr.send_cq && attr.srq)
		qp = mesh_root.lib.verbs.create_qp(pd, &attr);
	mesh_lock(&own->lock);
	there = own->qp; /* another thread was faster */
	if (qp && !there) {
		own->qp = qp;
		own->srq = attr.srq;
		own->cq = attr.send_cq;
	}
	mesh_unlock(&own->lock);
	if (!qp || there)
		destroy_own(qp, attr.srq, attr.send_cq);
	return qp || there;
}

/* A harmless event, which is acknowledged to no object. */
static void say_nothing(struct ibv_async_event *event, uint8_t port_num)
{
	event->event_type = IBV_EVENT_GID_CHANGE;
	event->element.port_num = port_num;
}

/* Translate an event of the plugin's QP into that of the first QP that is due; hide events of other QPs of the plugin. */
static void translate(struct mesh_context *mc, struct ibv_async_event *event)
{
	struct mesh_last_wqe *own = &mc->data.last_wqe;
	struct ibv_async_event ours = *event;
	struct mesh_vqp *h = NULL;

	mesh_lock(&own->lock);
	if (event->element.qp == own->qp && event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		own->speaking = false;
		h = TAILQ_FIRST(&own->due);
	}
	if (h) {
		TAILQ_REMOVE(&own->due, h, last_wqe.next_due);
		h->last_wqe.state = MESH_LAST_WQE_NONE;
		event->element.qp = h->qp;
	} else {
		say_nothing(event, 1); /* the QP that was due may have been destroyed */
	}
	speak_for_first(mc);
	mesh_unlock(&own->lock);
	mesh_root.lib.verbs.ack_async_event(&ours);
}

/*
 * Is the QP in ERR without the program's knowledge? Never without a log. Nor if the program's own QP does the work and cannot
 * move any more: then all is as on a bare HCA. vqp->lock
 */
static bool is_behind_its_back(const struct mesh_vqp *h, const struct ibv_qp *qp)
{
	return h->qp == qp && h->tracker && !h->failure.ended && (h->mode != MESH_VQP_TRACKED || !h->tracker->lost);
}

static void note_read(struct mesh_vqp *h, const struct ibv_qp *qp)
{
	mesh_lock(&h->lock);
	if (h->qp == qp) {
		mesh_lock(&h->mc->data.last_wqe.lock);
		h->last_wqe.of_lower = true;
		mesh_unlock(&h->mc->data.last_wqe.lock);
	}
	mesh_unlock(&h->lock);
}

static void keep_back(struct mesh_context *mc, struct ibv_async_event *event)
{
	struct mesh_vqp *h = mesh_vqp_find(mc, event->element.qp);
	struct ibv_async_event withheld = *event;
	bool again = false;

	if (!h)
		return;
	note_read(h, event->element.qp);
	if (!prepare(mc))
		return;
	mesh_lock(&h->lock);
	if (is_behind_its_back(h, event->element.qp)) {
		mesh_lock(&mc->data.last_wqe.lock);
		again = h->last_wqe.state != MESH_LAST_WQE_NONE;
		if (!again)
			h->last_wqe.state = MESH_LAST_WQE_WITHHELD;
		mesh_unlock(&mc->data.last_wqe.lock);
		say_nothing(event, h->made.port_num);
	}
	mesh_unlock(&h->lock);
	if (again)
		mesh_root.lib.verbs.ack_async_event(&withheld);
}

/* The program reads an event which says that the QP went to ERR. */
static void told_of_err(struct mesh_context *mc, const struct ibv_qp *qp)
{
	struct mesh_vqp *h = mesh_vqp_find(mc, qp);

	if (!h)
		return;
	mesh_lock(&h->lock);
	if (h->qp == qp && h->tracker && !h->now.qp)
		mesh_last_wqe_ended(h);
	mesh_unlock(&h->lock);
}

/* Is the event of a QP of the plugin? That QP exists until the event is acknowledged. */
static bool is_own(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->qp_context == &mesh_own_qp;
	default:
		return false;
	}
}

void mesh_last_wqe_event(struct mesh_context *mc, struct ibv_async_event *event)
{
	atomic_store_explicit(&mc->data.last_wqe.program_reads, true, memory_order_relaxed);
	if (is_own(event)) {
		translate(mc, event);
		return;
	}
	switch (event->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		keep_back(mc, event);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		told_of_err(mc, event->element.qp);
		break;
	default:
		break;
	}
}

void mesh_last_wqe_due(struct mesh_vqp *h)
{
	struct mesh_last_wqe *own = &h->mc->data.last_wqe;

	mesh_lock(&own->lock);
	if (h->last_wqe.state == MESH_LAST_WQE_WITHHELD) {
		h->last_wqe.state = MESH_LAST_WQE_DUE;
		TAILQ_INSERT_TAIL(&own->due, h, last_wqe.next_due);
	}
	speak_for_first(h->mc);
	mesh_unlock(&own->lock);
}

void mesh_last_wqe_ended(struct mesh_vqp *h)
{
	if (h->failure.ended)
		return;
	h->failure.ended = true;
	mesh_last_wqe_due(h);
}

void mesh_last_wqe_forget(struct mesh_vqp *h)
{
	struct ibv_async_event withheld = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED, .element.qp = h->qp};
	struct mesh_last_wqe *own = &h->mc->data.last_wqe;
	enum mesh_last_wqe_state was;

	mesh_lock(&own->lock);
	was = h->last_wqe.state;
	if (was == MESH_LAST_WQE_DUE)
		TAILQ_REMOVE(&own->due, h, last_wqe.next_due);
	h->last_wqe.state = MESH_LAST_WQE_NONE;
	h->last_wqe.of_lower = false;
	mesh_unlock(&own->lock);
	if (was != MESH_LAST_WQE_NONE)
		mesh_root.lib.verbs.ack_async_event(&withheld); /* otherwise destroying the QP would block */
}

void mesh_last_wqe_open(struct mesh_context *mc)
{
	mesh_lock_init(&mc->data.last_wqe.lock);
	TAILQ_INIT(&mc->data.last_wqe.due);
}

void mesh_last_wqe_close(struct mesh_context *mc)
{
	struct mesh_last_wqe *own = &mc->data.last_wqe;

	destroy_own(own->qp, own->srq, own->cq);
	mesh_lock_fini(&own->lock);
}
