/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable connection, responder side: InfiniBand Architecture Specification volume 1,
 * section 9.7.4. Requests are executed strictly in PSN order. See rc_answer.c for what goes back.
 */
#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <string.h>

#include "dma.h"
#include "quirk.h"
#include "rc_answer.h"

static struct sim_counters *counters(struct qp *qp)
{
	return &qp->dev->ports[qp->attr.av_port - 1].counters;
}

static void count(_Atomic uint64_t *c)
{
	atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

/* A request that cannot be executed: say so after the answers of those before it, and stop. */
static void refuse(struct qp *qp, uint8_t syndrome, uint32_t event)
{
	rc_resp_transmit(qp, INT_MAX);
	if (qp->state == IBV_QPS_ERR)
		return;
	rc_answer_aeth(qp, syndrome, qp->resp.epsn);
	qp_enter_err(qp);
	if (event)
		qp_async(qp, event);
}

/* A receive work request that cannot take the message fails, whatever the requester is told. */
static void refuse_recv(struct qp *qp, uint8_t cqe_syndrome, uint8_t nak)
{
	struct recv_done d = {.cqe_op = MLX5_CQE_RESP_ERR,
			      .syndrome = cqe_syndrome,
			      .index = qp->resp.recv.index};

	qp->resp.have_recv = false;
	cq_recv_done(qp, &d);
	refuse(qp, nak, 0);
}

static void rnr(struct qp *qp)
{
	rc_resp_transmit(qp, INT_MAX);
	rc_answer_aeth(qp, AETH_RNR | (qp->attr.min_rnr_timer & 0x1f), qp->resp.epsn);
	qp->resp.ack_due = false;
	/* What is under way behind it gets no NAK of its own. */
	qp->resp.nak_sent = true;
}

static void recv_finish(struct qp *qp, const struct wire_packet *p, uint8_t cqe_op,
			uint32_t byte_len)
{
	struct recv_done d = {
		.cqe_op = cqe_op,
		.solicited = p->solicited,
		.grh = true,
		.byte_len = byte_len,
		.imm = p->imm,
		.src_qpn = 0,
		.index = qp->resp.recv.index,
	};

	qp->resp.have_recv = false;
	cq_recv_done(qp, &d);
}

/* Payload of a packet inside a message: full packets, and a last one that is not empty unless it is
 * the only one. */
static bool length_ok(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	if (!(flags & WIRE_END))
		return p->payload_len == qp->mtu;
	return p->payload_len <= qp->mtu && (p->payload_len || flags & WIRE_START);
}

static void advance(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;

	r->epsn = psn_add(r->epsn, 1);
	r->in_message = !(flags & WIRE_END);
	if (flags & WIRE_END)
		r->msn = psn_add(r->msn, 1);
	r->offset += p->payload_len;
	r->last_atomic = false;
	r->ack_due |= p->ack_request;
}

static void on_send(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;
	int err;

	if (flags & WIRE_START) {
		if (rq_take(qp, &r->recv)) {
			rnr(qp);
			return;
		}
		r->have_recv = true;
		r->message_write = false;
		r->offset = 0;
	}
	if (!length_ok(qp, p, flags) || flags & WIRE_IETH) {
		refuse(qp, AETH_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (r->offset + p->payload_len > r->recv.length) {
		refuse_recv(qp, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, AETH_NAK_INV_REQ);
		return;
	}
	err = data_scatter_recv(qp, &r->recv, r->offset, p->payload, p->payload_len);
	if (err) {
		refuse_recv(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, AETH_NAK_REM_OP);
		return;
	}
	advance(qp, p, flags);
	if (flags & WIRE_END)
		recv_finish(qp, p, flags & WIRE_IMM ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND,
			    (uint32_t)r->offset);
}

static void on_write(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;
	uint8_t *dst = NULL;

	if (flags & WIRE_START) {
		r->message_write = true;
		r->offset = 0;
		r->write_va = p->va;
		r->write_rkey = p->rkey;
		r->write_len = p->dma_len;
		if (r->write_len &&
		    !mr_remote(qp, p->rkey, p->va, p->dma_len, IBV_ACCESS_REMOTE_WRITE)) {
			refuse(qp, AETH_NAK_REM_ACC, IBV_EVENT_QP_ACCESS_ERR);
			return;
		}
		if (!r->write_len && !(qp->attr.access & IBV_ACCESS_REMOTE_WRITE)) {
			refuse(qp, AETH_NAK_REM_ACC, IBV_EVENT_QP_ACCESS_ERR);
			return;
		}
	}
	if (!length_ok(qp, p, flags) || r->offset + p->payload_len > r->write_len ||
	    (flags & WIRE_END && r->offset + p->payload_len != r->write_len)) {
		refuse(qp, AETH_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (p->payload_len) {
		/* Anew for each packet: the region may have gone in the middle of a message. */
		dst = mr_remote(qp, r->write_rkey, r->write_va + r->offset, p->payload_len,
				IBV_ACCESS_REMOTE_WRITE);
		if (!dst) {
			refuse(qp, AETH_NAK_REM_ACC, IBV_EVENT_QP_ACCESS_ERR);
			return;
		}
	}
	if (flags & WIRE_IMM) {
		if (rq_take(qp, &r->recv)) {
			rnr(qp);
			return;
		}
		r->have_recv = true;
	}
	if (dst && !quirk_late_write(qp, dst, p->payload, p->payload_len, flags & WIRE_END))
		dma_write(dst, p->payload, p->payload_len);
	advance(qp, p, flags);
	if (flags & WIRE_IMM)
		recv_finish(qp, p, MLX5_CQE_RESP_WR_IMM, r->write_len);
}

static bool read_allowed(struct qp *qp, const struct wire_packet *p)
{
	if (!p->dma_len)
		return qp->attr.access & IBV_ACCESS_REMOTE_READ;
	return mr_remote(qp, p->rkey, p->va, p->dma_len, IBV_ACCESS_REMOTE_READ);
}

static void on_read(struct qp *qp, const struct wire_packet *p)
{
	struct responder *r = &qp->resp;

	if (!qp->attr.max_dest_rd_atomic || p->dma_len > 1u << 31) {
		refuse(qp, AETH_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (!read_allowed(qp, p)) {
		refuse(qp, AETH_NAK_REM_ACC, IBV_EVENT_QP_ACCESS_ERR);
		return;
	}
	r->msn = psn_add(r->msn, 1);
	if (!rc_answer_read(qp, p)) {
		/* More than max_dest_rd_atomic at once: as if it was lost. */
		r->msn = psn_add(r->msn, -1);
		return;
	}
	r->epsn = psn_add(r->epsn, (int32_t)psn_count(p->dma_len, qp->mtu));
	r->read_psns += psn_count(p->dma_len, qp->mtu) - 1;
	r->last_atomic = false;
}

static uint64_t atomic_execute(const struct wire_packet *p, uint64_t *target)
{
	if (p->opcode == OP_FETCH_ADD)
		return dma_fetch_add(target, p->swap_add);
	return dma_cmp_swap(target, p->compare, p->swap_add);
}

static void on_atomic(struct qp *qp, const struct wire_packet *p)
{
	struct responder *r = &qp->resp;
	struct rd_response *e,
		done = {.atomic = true, .psn = p->psn, .first_psn = p->psn, .last_psn = p->psn};
	uint8_t *target;

	if (p->va & 7 || !qp->attr.max_dest_rd_atomic) {
		refuse(qp, AETH_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	target = mr_remote(qp, p->rkey, p->va, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC);
	if (!target || (uintptr_t)target & 7) {
		refuse(qp, AETH_NAK_REM_ACC, IBV_EVENT_QP_ACCESS_ERR);
		return;
	}
	e = rc_answer_add(qp);
	if (!e)
		return;
	late_push(qp->obj.uc->hca, qp->dev, target);
	done.orig = atomic_execute(p, (uint64_t *)(void *)target);
	r->msn = psn_add(r->msn, 1);
	done.msn = r->msn;
	r->saved[r->n_saved++ % MAX_RD_ATOMIC] = done;
	*e = done;
	r->epsn = psn_add(r->epsn, 1);
	r->last_atomic = true;
}

static void on_duplicate(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;

	count(&counters(qp)->duplicate_request);
	if (p->opcode == OP_READ_REQUEST) {
		rc_answer_cut(qp, p->psn);
		/* Its last packet must lie before the expected PSN, or it is not a repetition. */
		if (psn_diff(psn_add(p->psn, (int32_t)psn_count(p->dma_len, qp->mtu)), r->epsn) <=
			    0 &&
		    read_allowed(qp, p))
			rc_answer_read(qp, p);
		return;
	}
	if (flags & WIRE_ATOMIC) {
		rc_answer_cut(qp, p->psn);
		for (uint32_t i = 0; i < MAX_RD_ATOMIC && i < r->n_saved; i++) {
			struct rd_response *e;

			if (r->saved[i].psn != p->psn)
				continue;
			e = rc_answer_add(qp);
			if (e)
				*e = r->saved[i];
		}
		return;
	}
	r->ack_due = true;
}

static void execute(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;
	bool start = flags & WIRE_START;

	if (start == r->in_message ||
	    (r->in_message && r->message_write != !!(flags & WIRE_WRITE))) {
		refuse(qp, AETH_NAK_INV_REQ, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	if (flags & WIRE_SEND)
		on_send(qp, p, flags);
	else if (flags & WIRE_WRITE)
		on_write(qp, p, flags);
	else if (flags & WIRE_ATOMIC)
		on_atomic(qp, p);
	else
		on_read(qp, p);
}

/** rc_resp_request() - a request packet from the peer. */
void rc_resp_request(struct qp *qp, const struct wire_packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t flags = wire_op_flags(p->opcode);
	int32_t d = psn_diff(p->psn, r->epsn);

	if (qp->state == IBV_QPS_ERR)
		return;
	if (d > 0) {
		count(&counters(qp)->out_of_sequence);
		if (!r->beyond || psn_diff(p->psn, r->beyond_psn) >= 0)
			r->beyond_psn = psn_add(p->psn, 1);
		r->beyond = true;
		if (!r->nak_sent) {
			r->nak_sent = true;
			rc_resp_transmit(qp, INT_MAX);
			rc_answer_aeth(qp, AETH_NAK_SEQ, r->epsn);
			r->ack_due = false;
		}
		return;
	}
	if (d < 0) {
		on_duplicate(qp, p, flags);
	} else {
		r->nak_sent = false;
		execute(qp, p, flags);
	}
	if (qp->state != IBV_QPS_ERR)
		qp_kick(qp);
}
