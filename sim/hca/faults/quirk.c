/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "quirk.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#define LATE_BYTES  (32u << 10)
#define LATE_DMA_NS 300000000ull

/** quirk_rq_psn() - what a query says of the next PSN that is expected. */
uint32_t quirk_rq_psn(struct qp *qp)
{
	struct responder *r = &qp->resp;
	uint32_t psn = r->epsn;

	if (quirk_is(qp, SIM_QUIRK_PSN_HIGHEST) && r->beyond && psn_diff(r->beyond_psn, psn) > 0)
		psn = r->beyond_psn;
	if (qp->state != IBV_QPS_ERR)
		return psn;
	if (quirk_is(qp, SIM_QUIRK_PSN_OFF_BY_ONE))
		psn = psn_add(psn, 1);
	if (quirk_is(qp, SIM_QUIRK_PSN_MOVES))
		psn = psn_add(psn, (int32_t)r->n_queries++);
	if (quirk_is(qp, SIM_QUIRK_PSN_MESSAGES) && r->in_message)
		psn = psn_add(psn, -(int32_t)(r->offset / qp->mtu));
	if (quirk_is(qp, SIM_QUIRK_PSN_READS))
		psn = psn_add(psn, -(int32_t)r->read_psns);
	if (quirk_is(qp, SIM_QUIRK_PSN_ATOMICS) && r->last_atomic)
		psn = psn_add(psn, -1);
	return psn;
}

/** quirk_late_write() - bytes of a WRITE. @last: packet of it. Return: whether they are written later; else the caller does so. */
bool quirk_late_write(struct qp *qp, uint8_t *dst, const uint8_t *src, uint32_t len, bool last)
{
	if (quirk_is(qp, SIM_QUIRK_PUSHED_DMABUF) && mr_dmabuf(qp->obj.uc->hca, dst))
		return late_dma(qp, dst, src, len, LATE_DMA_NS, LATE_BY_REGION);
	if (quirk_is(qp, SIM_QUIRK_PUSHED_DMA))
		return late_dma(qp, dst, src, len, LATE_DMA_NS, LATE_BY_ALL);
	if (!last || qp->resp.write_len < LATE_BYTES)
		return false;
	if (!quirk_is(qp, SIM_QUIRK_LATE_DMA) && !(quirk_is(qp, SIM_QUIRK_LATE_DMABUF) && mr_dmabuf(qp->obj.uc->hca, dst)))
		return false;
	return late_dma(qp, dst, src, len, LATE_DMA_NS, LATE_BY_NONE);
}

/** quirk_late_read() - bytes of a READ's response, @off from its begin; as quirk_late_write(). Lists of more than one entry are not late. */
bool quirk_late_read(struct qp *qp, const struct send_wqe *w, uint64_t off, const uint8_t *src, uint32_t len)
{
	uint8_t unit = w->data, *dst;
	struct wqe_seg s;

	if (w->length < LATE_BYTES || off + len != w->length || !quirk_is(qp, SIM_QUIRK_LATE_READS))
		return false;
	if (!wqe_next_seg(&qp->sq, w, &unit, &s) || s.inl || s.len < off + len)
		return false;
	dst = mr_local(qp->obj.uc->hca, qp->pd, s.lkey, s.addr, s.len, true);
	return dst && late_dma(qp, dst + off, src, len, LATE_DMA_NS, LATE_BY_NONE);
}

/** quirk_flush() - the queue pair is about to flush its sends: what is taken from them before that. */
void quirk_flush(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct send_wqe *first = &r->ring[r->head & (qp->sq.n_bbs - 1)], *second = &r->ring[(r->head + 1) & (qp->sq.n_bbs - 1)];

	if (r->tail - r->head < 2)
		return;
	if (quirk_is(qp, SIM_QUIRK_FLUSH_ORDER)) {
		cq_send_done(qp, second, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
		cq_send_done(qp, first, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
		r->head += 2;
	} else if (quirk_is(qp, SIM_QUIRK_LOST_FLUSH) && !first->signaled) {
		r->head++;
	}
}

/** quirk_wqe_format() - a work request was read: what it looks like from now on. The ring is the program's memory. */
void quirk_wqe_format(struct qp *qp, const struct send_wqe *w)
{
	volatile uint8_t *ds = (uint8_t *)(uintptr_t)qp->sq.buf + (size_t)(w->index & (qp->sq.n_bbs - 1)) * WQE_BB + 7;

	if (quirk_is(qp, SIM_QUIRK_WQE_FORMAT) && w->ds > 1)
		*ds = (uint8_t)(w->ds - 1);
}
