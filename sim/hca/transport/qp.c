/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pairs: doorbells, states other than by modify, and what all transports share on the send
 * side. */
#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "dma.h"
#include "doorbell.h"
#include "quirk.h"

/** qp_find() - queue pair of this process by its number, or NULL. */
struct qp *qp_find(struct hca *h, uint32_t qpn)
{
	if (qpn >> SIM_SLOT_QPN_BITS != h->slot)
		return NULL;
	return h->qps[qpn & ((1u << SIM_SLOT_QPN_BITS) - 1)];
}

/** qp_fetch() - have what packets and acknowledgements need on its way from memory; NULL: nothing */
void qp_fetch(const struct qp *qp)
{
	static const size_t hot[][2] = {
		{0, offsetof(struct qp, resp.recv)},
		{offsetof(struct qp, resp.offset), offsetof(struct qp, resp.queue)},
		{offsetof(struct qp, sqd), sizeof(struct qp)},
	};

	for (size_t i = 0; qp && i < sizeof(hot) / sizeof(hot[0]); i++)
		for (size_t at = hot[i][0]; at < hot[i][1]; at += 64)
			__builtin_prefetch((const char *)qp + at);
}

/** qp_kick() - there is something to send, or a timer to be set. */
void qp_kick(struct qp *qp)
{
	qp_enqueue(qp, &qp->obj.uc->hca->sending.busy);
}

/** qp_enqueue() - to the end of another queue, if it is not there already; NULL: of none */
void qp_enqueue(struct qp *qp, struct qp_queue *queue)
{
	if (qp->queue == queue)
		return;
	if (qp->queue)
		TAILQ_REMOVE(qp->queue, qp, queue_link);
	qp->queue = queue;
	if (queue)
		TAILQ_INSERT_TAIL(queue, qp, queue_link);
}

/** qp_async() - tell the program about an event of the queue pair: IBV_EVENT_*. */
void qp_async(struct qp *qp, uint32_t event)
{
	evq_push_async(qp->obj.uc->async, event, qp, qp->obj.user_handle, &qp->events.n_read);
}

/** qp_poll_send() - decode what was posted since the last time. */
void qp_poll_send(struct qp *qp)
{
	uint16_t posted = (uint16_t)dma_db(&qp->db[1]);
	struct requester *r = &qp->req;

	if (posted == qp->sq_parsed)
		return;
	/* A doorbell before RTS is not looked at; the record counts on and is seen then. */
	if (qp->state < IBV_QPS_RTS)
		return;
	if ((uint16_t)(posted - qp->sq_parsed) > qp->sq.n_bbs) {
		qp->sq_parsed = posted;
		qp_fatal(qp, IBV_EVENT_QP_FATAL);
		return;
	}
	while (posted != qp->sq_parsed) {
		struct send_wqe *w;

		if (r->tail - r->head >= qp->sq.n_bbs) {
			qp->sq_parsed = posted;
			qp_fatal(qp, IBV_EVENT_QP_FATAL);
			return;
		}
		w = &r->ring[r->tail & (qp->sq.n_bbs - 1)];
		wqe_decode(&qp->sq, qp->sq_parsed, (uint16_t)(posted - qp->sq_parsed), qp->qpn,
			   qp->type == IBV_QPT_UD ? WQE_DATAGRAM : WQE_CONNECTED, w);
		quirk_wqe_format(qp, w);
		qp->sq_parsed = (uint16_t)(qp->sq_parsed + w->n_bbs);
		r->tail++;
	}
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		send_flush(qp);
	else
		qp_kick(qp);
}

/** send_complete_head() - the oldest send work request is done. */
void send_complete_head(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct send_wqe *w = &r->ring[r->head & (qp->sq.n_bbs - 1)];

	if (w->signaled)
		cq_send_done(qp, w, 0, 0);
	r->head++;
}

/** send_fail_head() - the oldest one failed; it completes whether it was signaled or not. */
void send_fail_head(struct qp *qp, uint8_t syndrome, uint8_t vendor)
{
	struct requester *r = &qp->req;

	if (r->head == r->tail)
		return;
	cq_send_done(qp, &r->ring[r->head & (qp->sq.n_bbs - 1)], syndrome, vendor);
	r->head++;
	if ((int32_t)(r->cur - r->head) < 0)
		r->cur = r->head;
}

/** send_flush() - complete all send work requests, in order, as flushed. */
void send_flush(struct qp *qp)
{
	struct requester *r = &qp->req;

	quirk_flush(qp);
	while (r->head != r->tail) {
		cq_send_done(qp, &r->ring[r->head & (qp->sq.n_bbs - 1)],
			     MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
		r->head++;
	}
	r->cur = r->head;
	r->rd_out = 0;
	r->deadline_ns = r->rnr_until_ns = 0;
	r->una_psn = r->max_psn;
	rc_req_account(qp);
}

/** qp_reset() - forget everything as on the way to RESET; the program sets its doorbell records to
 * zero. */
void qp_reset(struct qp *qp)
{
	struct send_wqe *ring = qp->req.ring;
	struct hca *h = qp->obj.uc->hca;

	late_flush(qp);
	qp_enqueue(qp, NULL);
	if (qp->holds_gid)
		path_hold_gid(h, qp->dev_index, qp->attr.av_port, qp->path.sgid_index, -1);
	qp->holds_gid = false;
	qp->req.una_psn = qp->req.max_psn;
	rc_req_account(qp);
	memset(&qp->req, 0, sizeof(qp->req));
	memset(&qp->resp, 0, sizeof(qp->resp));
	memset(&qp->path, 0, sizeof(qp->path));
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->req.ring = ring;
	qp->sq_parsed = qp->rq.taken = 0;
	qp->sqd.notify = qp->sqd.drained = qp->events.last_wqe = false;
	qp->state = IBV_QPS_RESET;
	doorbell_state(h, qp);
}

/** qp_enter_err() - stop both directions and flush; rq_psn stays to be read. */
void qp_enter_err(struct qp *qp)
{
	if (qp->state == IBV_QPS_RESET)
		return;
	qp->state = IBV_QPS_ERR;
	doorbell_state(qp->obj.uc->hca, qp);
	qp->resp.q_head = qp->resp.q_tail;
	qp->resp.ack_due = false;
	qp_poll_send(qp);
	send_flush(qp);
	rq_flush(qp);
	if (qp->srq && !qp->events.last_wqe) {
		qp->events.last_wqe = true;
		if (!late_last_wqe(qp))
			qp_async(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	qp_kick(qp);
}

/** qp_fatal() - to ERR with an asynchronous event. */
void qp_fatal(struct qp *qp, uint32_t event)
{
	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR)
		return;
	qp_enter_err(qp);
	qp_async(qp, event);
}

/** qp_transmit() - one turn of a queue pair on the busy list. Return: false if it may leave the
 * list; a timer may be running. */
bool qp_transmit(struct qp *qp, int budget)
{
	bool more = false;

	if (qp->state == IBV_QPS_ERR) {
		rq_flush(qp);
		return false;
	}
	switch (qp->type) {
	case IBV_QPT_RC:
		if (qp->req.deadline_ns || qp->req.rnr_until_ns)
			rc_req_timer(qp);
		more = rc_resp_transmit(qp, budget);
		more |= rc_req_transmit(qp, budget);
		return more;
	case IBV_QPT_UC:
		return uc_transmit(qp, budget);
	case IBV_QPT_UD:
		return ud_transmit(qp, budget);
	default:
		return false;
	}
}

/** qp_destroy() - free it; nothing is flushed, as the library cleans its CQs itself. */
void qp_destroy(struct qp *qp)
{
	struct hca *h = qp->obj.uc->hca;

	qp_reset(qp);
	doorbell_remove(h, qp);
	evq_drop(qp->obj.uc->async, qp);
	LIST_REMOVE(qp, link);
	h->qps[qp->qpn & ((1u << SIM_SLOT_QPN_BITS) - 1)] = NULL;
	h->n_qps--;
	atomic_store(&h->state->slots[h->slot].n_qps, h->n_qps);
	qp->pd->obj.users--;
	if (qp->scq)
		qp->scq->obj.users--;
	if (qp->rcq)
		qp->rcq->obj.users--;
	if (qp->srq)
		qp->srq->obj.users--;
	obj_del(&qp->obj);
	free(qp->mcast.groups);
	free(qp->req.ring);
	free(qp);
}
