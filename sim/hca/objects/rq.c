/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receive work requests: of a queue pair's own ring, or of a shared receive queue. */
#include "hca.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "dma.h"
#include "quirk.h"

static void sum_length(struct recv_wqe *r)
{
	r->length = 0;
	for (uint32_t i = 0; i < r->n_segs; i++)
		r->length += r->segs[i].len;
}

static uint32_t max_segs(uint32_t bytes)
{
	uint32_t n = bytes / WQE_UNIT;

	return n < MAX_RECV_SEGS ? n : MAX_RECV_SEGS;
}

static void srq_limit_check(struct srq *srq, uint16_t left)
{
	if (!srq->limit || left >= srq->limit)
		return;
	srq->limit = 0;
	evq_push_async(srq->obj.uc->async, IBV_EVENT_SRQ_LIMIT_REACHED, srq, srq->obj.user_handle,
		       &srq->async_events);
}

static int srq_take(struct srq *srq, struct recv_wqe *ret)
{
	uint16_t left = (uint16_t)(dma_db(srq->db) - srq->taken);
	struct mlx5_wqe_srq_next_seg next;
	const uint8_t *wqe;

	if (!left)
		return -EAGAIN;
	wqe = srq->buf + ((size_t)(srq->head & (srq->n_wqe - 1)) << srq->shift);
	dma_read(&next, wqe, sizeof(next));
	ret->index = srq->head;
	ret->n_segs = wqe_recv_segs(wqe + sizeof(next), max_segs((1u << srq->shift) - sizeof(next)),
				    ret->segs);
	sum_length(ret);
	srq->head = be16toh(next.next_wqe_index);
	srq->taken++;
	srq_limit_check(srq, left - 1);
	return 0;
}

/** rq_take() - consume the next receive work request of @qp. Return: 0, or -EAGAIN if none is
 * posted. */
int rq_take(struct qp *qp, struct recv_wqe *ret)
{
	const uint8_t *wqe;

	if (qp->srq && quirk_is(qp, SIM_QUIRK_SRQ_HIDES) && (uint16_t)(dma_db(qp->srq->db) - qp->srq->taken) == 1)
		return -EAGAIN;
	if (qp->srq)
		return srq_take(qp->srq, ret);
	if (!qp->rq.cnt || (uint16_t)dma_db(&qp->db[0]) == qp->rq.taken)
		return -EAGAIN;
	wqe = qp->rq.buf + ((size_t)(qp->rq.taken & (qp->rq.cnt - 1)) << qp->rq.shift);
	ret->index = qp->rq.taken++;
	ret->n_segs = wqe_recv_segs(wqe, max_segs(1u << qp->rq.shift), ret->segs);
	sum_length(ret);
	return 0;
}

/** rq_flush() - in ERR: complete what is posted, in order; of a shared queue only the message that
 * was under way. */
void rq_flush(struct qp *qp)
{
	struct recv_done d = {.cqe_op = MLX5_CQE_RESP_ERR,
			      .syndrome = MLX5_CQE_SYNDROME_WR_FLUSH_ERR};
	struct recv_wqe r;

	if (qp->resp.have_recv) {
		qp->resp.have_recv = false;
		d.index = qp->resp.recv.index;
		cq_recv_done(qp, &d);
	}
	if (qp->srq)
		return;
	while (!rq_take(qp, &r)) {
		d.index = r.index;
		cq_recv_done(qp, &d);
	}
}
