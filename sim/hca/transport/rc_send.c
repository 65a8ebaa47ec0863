/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reliable connection, requester side: what is sent, and when. See rc_req.c for what comes back. */
#include "hca.h"

#include <infiniband/verbs.h>

#include "rc_req.h"

#define WINDOW                                                                                     \
	128 /* packets in flight; must fit the receive buffer of the peer's socket many times */
/*
 * Of all queue pairs of the process together. A cable has no flow control here, so what a thousand
 * queue pairs send at once would be lost in the peer's socket; a queue pair may always have one
 * packet out, whatever the others do.
 */
#define WINDOW_SHARED 1024
#define MAX_MESSAGE   (1u << 30) /* max_msg_sz of query_port */

static uint8_t first_error(struct qp *qp, const struct send_wqe *w)
{
	if (w->error)
		return w->error;
	if (w->length > MAX_MESSAGE || (rc_is_atomic(w) && w->length != sizeof(uint64_t)))
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	if (rc_has_answer(w) && !qp->attr.max_rd_atomic)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	return 0;
}

/* May the work request at `cur`, never sent before, start now? */
static bool may_start(struct qp *qp, const struct send_wqe *w)
{
	struct requester *r = &qp->req;

	if (qp->state == IBV_QPS_SQD)
		return false;
	if (w->fence >= 2 && r->rd_out)
		return false;
	return !rc_has_answer(w) || r->rd_out < qp->attr.max_rd_atomic;
}

static void start(struct qp *qp, struct send_wqe *w)
{
	struct requester *r = &qp->req;
	uint32_t n = w->opcode == MLX5_OPCODE_NOP ? 0
		     : rc_is_atomic(w)            ? 1
						  : psn_count((uint32_t)w->length, qp->mtu);

	w->first_psn = r->next_psn;
	r->next_psn = psn_add(r->next_psn, (int32_t)n);
	w->last_psn = psn_add(r->next_psn, -1);
	w->started = true;
	r->cur_psn = w->first_psn;
}

static uint8_t request_opcode(const struct send_wqe *w, bool first, bool last)
{
	bool imm = w->opcode == MLX5_OPCODE_SEND_IMM || w->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
	bool write = w->opcode == MLX5_OPCODE_RDMA_WRITE || w->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
	uint8_t op;

	if (first && last)
		op = imm ? OP_SEND_ONLY_IMM : OP_SEND_ONLY;
	else if (last)
		op = imm ? OP_SEND_LAST_IMM : OP_SEND_LAST;
	else
		op = first ? OP_SEND_FIRST : OP_SEND_MIDDLE;
	return write ? op + (OP_WRITE_FIRST - OP_SEND_FIRST) : op;
}

/* Fill in what the packet at cur_psn is; return how many PSNs it stands for. */
static uint32_t describe(struct qp *qp, const struct send_wqe *w, struct wire_packet *p,
			 uint64_t *ret_off)
{
	struct requester *r = &qp->req;
	uint64_t off = (uint64_t)psn_diff(r->cur_psn, w->first_psn) * qp->mtu,
		 left = w->length - off;
	bool first = r->cur_psn == w->first_psn, last = r->cur_psn == w->last_psn;

	*ret_off = off;
	p->pkey = qp_pkey(qp);
	p->dest_qpn = qp->attr.dest_qpn;
	p->psn = r->cur_psn;
	p->va = w->raddr + off;
	p->rkey = w->rkey;
	if (rc_is_atomic(w)) {
		p->opcode = w->opcode == MLX5_OPCODE_ATOMIC_CS ? OP_CMP_SWAP : OP_FETCH_ADD;
		p->swap_add = w->swap_add;
		p->compare = w->compare;
		p->ack_request = true;
		return 1;
	}
	if (rc_is_read(w)) {
		p->opcode = OP_READ_REQUEST;
		p->dma_len = (uint32_t)left;
		p->ack_request = true;
		return (uint32_t)psn_diff(w->last_psn, r->cur_psn) + 1;
	}
	p->opcode = request_opcode(w, first, last);
	p->payload_len = left < qp->mtu ? (uint32_t)left : qp->mtu;
	p->dma_len = (uint32_t)w->length;
	p->imm = w->imm;
	p->solicited = last && w->solicited;
	p->ack_request = ++r->since_ack_request >= ACK_REQUEST_EACH ||
			 (last && (w->signaled || r->cur + 1 == r->tail));
	if (p->ack_request)
		r->since_ack_request = 0;
	return 1;
}

/* Return: 0, or the syndrome of a local error. */
static uint8_t send_one(struct qp *qp, struct send_wqe *w)
{
	struct hca *h = qp->obj.uc->hca;
	struct requester *r = &qp->req;
	struct wire_packet p = {0};
	uint8_t *frame = net_frame(h);
	uint64_t off;
	uint32_t n = describe(qp, w, &p, &off);

	if (path_refresh(h, qp->dev, qp->attr.av_port, &qp->path)) {
		wire_begin(frame, &qp->path.wire, &p);
		if (p.payload_len && data_gather(qp, w, off, p.payload_len, p.payload))
			return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
		net_send(h, qp, &qp->path, &p, frame);
	}
	r->cur_psn = psn_add(r->cur_psn, (int32_t)n);
	if (psn_diff(r->cur_psn, r->max_psn) > 0)
		r->max_psn = r->cur_psn;
	if (!r->deadline_ns)
		rc_timer_start(qp);
	rc_req_account(qp);
	return 0;
}

static void drained_check(struct qp *qp)
{
	if (qp->state == IBV_QPS_SQD && !qp->sqd.drained && !rc_outstanding(&qp->req)) {
		qp->sqd.drained = true;
		if (qp->sqd.notify)
			qp_async(qp, IBV_EVENT_SQ_DRAINED);
	}
}

/** rc_req_transmit() - send up to @budget packets. Return: true if more could be sent right away.
 */
bool rc_req_transmit(struct qp *qp, int budget)
{
	struct requester *r = &qp->req;

	drained_check(qp);
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) || r->rnr_until_ns)
		return false;
	while (r->cur != r->tail) {
		struct send_wqe *w = rc_wqe(qp, r->cur);

		if (!w->started) {
			if (!may_start(qp, w))
				return false;
			w->error = first_error(qp, w);
			if (!w->error)
				start(qp, w);
		}
		if (w->error) {
			/* Those before it must complete first. */
			if (r->cur == r->head)
				rc_req_fail(qp, w->error, 0);
			return false;
		}
		if (psn_diff(w->last_psn, r->cur_psn) >= 0) {
			int32_t out = psn_diff(r->cur_psn, r->una_psn);

			if (out >= WINDOW ||
			    (out > 0 && qp->obj.uc->hca->sending.in_flight >= WINDOW_SHARED))
				return false;
			if (budget-- <= 0)
				return true;
			w->error = send_one(qp, w);
			if (w->error)
				continue;
		}
		if (psn_diff(r->cur_psn, w->last_psn) > 0) {
			r->rd_out += rc_has_answer(w);
			r->cur++;
			if (w->opcode == MLX5_OPCODE_NOP)
				rc_req_retire(qp);
			if (r->cur != r->tail && rc_wqe(qp, r->cur)->started)
				r->cur_psn = rc_wqe(qp, r->cur)->first_psn;
		}
	}
	return false;
}
