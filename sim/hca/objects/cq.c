/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queues: writing, overrun, arming, resizing. */
#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "cqe.h"
#include "dma.h"

/*
 * libmlx5 writes the arm record and then rings a register that is not watched here. The HCA takes
 * the record away when it has seen it, so that the same arm written again is a new one; an arm has
 * zeroes in its upper two bits.
 */
#define ARM_TAKEN 0xffffffffu

/** cq_init_db() - mark the arm record of a new CQ as not written. */
void cq_init_db(struct cq *cq)
{
	__atomic_store_n(&cq->db[1], ARM_TAKEN, __ATOMIC_RELEASE);
	cq->fired_sn = -1;
}

static void fire(struct cq *cq)
{
	cq->armed = false;
	cq->fired_sn = (int8_t)cq->arm_sn;
	cq->notified_pi = cq->pi;
	if (cq->channel)
		evq_push_comp(cq->channel, cq);
}

/** cq_poll_arm() - act upon an arm that the program wrote. */
void cq_poll_arm(struct cq *cq)
{
	uint32_t v, last, raw = __atomic_load_n(&cq->db[1], __ATOMIC_ACQUIRE);
	uint8_t sn;

	if (raw == ARM_TAKEN || !__atomic_compare_exchange_n(&cq->db[1], &raw, ARM_TAKEN, false,
							     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	v = be32toh(raw);
	sn = v >> 28 & 3;
	/* The program counts the number up with each event it reads; until then one event is
	 * enough. */
	if (cq->fired_sn == (int8_t)sn)
		return;
	cq->arm_sn = sn;
	cq->armed = true;
	cq->armed_solicited = v & MLX5_CQ_DB_REQ_NOT_SOL;
	last = cq->armed_solicited ? cq->solicited_pi : cq->pi;
	if (psn_diff(last, v & 0xffffff) > 0 && (int32_t)(last - cq->notified_pi) > 0)
		fire(cq);
}

static void write_cqe(struct cq *cq, const struct cqe_fields *f)
{
	uint8_t *slot =
		cq->buf + (size_t)(cq->pi & (cq->n_cqe - 1)) * cq->cqe_size + cq->cqe_size - 64;
	uint8_t cqe[64] __attribute__((aligned(8)));

	late_push(cq->obj.uc->hca, cq->obj.uc->dev, NULL);
	cqe_encode(f, !!(cq->pi & cq->n_cqe), cqe);
	dma_write(slot, cqe, 56);
	/* The last byte holds the owner bit: the program may read the rest once it is there. */
	for (int i = 56; i < 63; i++)
		((volatile uint8_t *)slot)[i] = cqe[i];
	__atomic_store_n(slot + 63, cqe[63], __ATOMIC_RELEASE);
	cq->pi++;
}

static bool full(struct cq *cq)
{
	return ((cq->pi - dma_db(&cq->db[0])) & 0xffffff) >= cq->n_cqe && !cq->ignore_overrun;
}

static void push(struct cq *cq, const struct cqe_fields *f, bool solicited)
{
	if (cq->overrun)
		return;
	if (full(cq)) {
		cq->overrun = cq->fail_pending = true;
		return;
	}
	write_cqe(cq, f);
	if (solicited)
		cq->solicited_pi = cq->pi;
	if (!cq->channel)
		return;
	cq_poll_arm(cq);
	if (cq->armed && (!cq->armed_solicited || solicited))
		fire(cq);
}

/** cq_run_failures() - CQs that overran: tell the program and take their queue pairs down, as the
 * hardware does. */
void cq_run_failures(struct hca *h)
{
	struct cq *cq;
	struct qp *qp;

	LIST_FOREACH(cq, &h->cqs, link) {
		if (!cq->fail_pending)
			continue;
		cq->fail_pending = false;
		evq_push_async(cq->obj.uc->async, IBV_EVENT_CQ_ERR, cq, cq->obj.user_handle,
			       &cq->async_events);
		LIST_FOREACH(qp, &h->all_qps, link)
			if (qp->scq == cq || qp->rcq == cq)
				qp_fatal(qp, IBV_EVENT_QP_FATAL);
	}
}

/** cq_send_done() - complete a send work request. @syndrome: 0, or MLX5_CQE_SYNDROME_*. */
void cq_send_done(struct qp *qp, const struct send_wqe *w, uint8_t syndrome, uint8_t vendor)
{
	struct cqe_fields f = {
		.op = syndrome ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ,
		.wqe_opcode = w->opcode,
		.qpn = qp->qpn,
		.uidx = qp->init.uidx,
		.wqe_counter = w->index,
		.byte_cnt = (uint32_t)w->length,
		.timestamp = qp->obj.uc->hca->now_ns,
		.syndrome = syndrome,
		.vendor_syndrome = vendor,
	};

	push(qp->scq, &f, syndrome);
}

/** cq_recv_done() - complete a receive work request, at once or as late as the device does (late.c). */
void cq_recv_done(struct qp *qp, const struct recv_done *d)
{
	if (!late_recv_done(qp, d))
		cq_recv_done_now(qp, d);
}

/** cq_recv_done_now() - write the completion of a receive work request. */
void cq_recv_done_now(struct qp *qp, const struct recv_done *d)
{
	struct cqe_fields f = {
		.op = d->cqe_op,
		.qpn = qp->qpn,
		.uidx = qp->init.uidx,
		.wqe_counter = (uint16_t)d->index,
		.byte_cnt = d->byte_len,
		.imm = d->imm,
		.timestamp = qp->obj.uc->hca->now_ns,
		.syndrome = d->syndrome,
		.src_qpn = d->src_qpn,
		.grh = d->grh,
		.sl = d->sl,
		.slid = d->slid,
		.l3_type = d->l3_type,
	};

	push(qp->rcq, &f, d->solicited || d->cqe_op == MLX5_CQE_RESP_ERR);
}

/**
 * cq_resize() - go on in another buffer: the old one ends with a RESIZE completion, which takes an
 * index of its own.
 *
 * The program's library copies what lies before it. Return: 0.
 */
int cq_resize(struct cq *cq, uint8_t *buf, uint32_t cqe_size, uint32_t n_cqe)
{
	struct cqe_fields f = {.op = MLX5_CQE_RESIZE_CQ};

	write_cqe(cq, &f);
	cq->buf = buf;
	cq->cqe_size = cqe_size;
	cq->n_cqe = n_cqe;
	return 0;
}
