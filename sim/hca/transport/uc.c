/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Unreliable connection: requests as on a reliable one, never answered. A work request is complete
 * when its last packet has left; a message with a missing packet is thrown away by the receiver.
 */
#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "dma.h"

static struct send_wqe *cur_wqe(struct qp *qp)
{
	return &qp->req.ring[qp->req.cur & (qp->sq.n_bbs - 1)];
}

static bool is_write(const struct send_wqe *w)
{
	return w->opcode == MLX5_OPCODE_RDMA_WRITE || w->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
}

static bool has_imm(const struct send_wqe *w)
{
	return w->opcode == MLX5_OPCODE_SEND_IMM || w->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
}

static uint8_t opcode_of(const struct send_wqe *w, bool first, bool last)
{
	uint8_t op = first ? (last ? OP_SEND_ONLY : OP_SEND_FIRST)
			   : (last ? OP_SEND_LAST : OP_SEND_MIDDLE);

	if (last && has_imm(w))
		op++;
	if (is_write(w))
		op += OP_WRITE_FIRST - OP_SEND_FIRST;
	return op | OP_UC;
}

/* Return: 0, or the syndrome of a local error. */
static uint8_t send_one(struct qp *qp, struct send_wqe *w)
{
	struct requester *r = &qp->req;
	uint64_t off = (uint64_t)psn_diff(r->cur_psn, w->first_psn) * qp->mtu,
		 left = w->length - off;
	bool last = r->cur_psn == w->last_psn;
	struct hca *h = qp->obj.uc->hca;
	struct wire_packet p = {
		.opcode = opcode_of(w, off == 0, last),
		.solicited = last && w->solicited,
		.pkey = qp_pkey(qp),
		.dest_qpn = qp->attr.dest_qpn,
		.psn = r->cur_psn,
		.va = w->raddr,
		.rkey = w->rkey,
		.dma_len = (uint32_t)w->length,
		.imm = w->imm,
		.payload_len = left < qp->mtu ? (uint32_t)left : qp->mtu,
	};
	uint8_t *frame = net_frame(h);

	r->cur_psn = psn_add(r->cur_psn, 1);
	if (!path_refresh(h, qp->dev, qp->attr.av_port, &qp->path))
		return 0;
	wire_begin(frame, &qp->path.wire, &p);
	if (p.payload_len && data_gather(qp, w, off, p.payload_len, p.payload))
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	net_send(h, qp, &qp->path, &p, frame);
	return 0;
}

static uint8_t start(struct qp *qp, struct send_wqe *w)
{
	struct requester *r = &qp->req;

	if (w->error)
		return w->error;
	if (w->opcode == MLX5_OPCODE_RDMA_READ || w->opcode == MLX5_OPCODE_ATOMIC_CS ||
	    w->opcode == MLX5_OPCODE_ATOMIC_FA)
		return MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	if (w->length > 1u << 30)
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	w->first_psn = r->cur_psn = r->next_psn;
	if (w->opcode != MLX5_OPCODE_NOP)
		r->next_psn =
			psn_add(r->next_psn, (int32_t)psn_count((uint32_t)w->length, qp->mtu));
	w->last_psn = psn_add(r->next_psn, -1);
	w->started = true;
	return 0;
}

/** uc_transmit() - send up to @budget packets. Return: true if there are more. */
bool uc_transmit(struct qp *qp, int budget)
{
	struct requester *r = &qp->req;

	if (qp->state != IBV_QPS_RTS)
		return false;
	while (r->cur != r->tail) {
		struct send_wqe *w = cur_wqe(qp);
		uint8_t err = w->started ? 0 : start(qp, w);

		if (!err && psn_diff(w->last_psn, r->cur_psn) >= 0) {
			if (budget-- <= 0)
				return true;
			err = send_one(qp, w);
		}
		if (err) {
			rc_req_fail(qp, err, 0);
			return false;
		}
		if (psn_diff(r->cur_psn, w->last_psn) > 0) {
			r->cur++;
			send_complete_head(qp);
		}
	}
	return false;
}

static void fail_recv(struct qp *qp, uint8_t syndrome)
{
	struct recv_done d = {
		.cqe_op = MLX5_CQE_RESP_ERR, .syndrome = syndrome, .index = qp->resp.recv.index};

	qp->resp.have_recv = false;
	cq_recv_done(qp, &d);
	qp_enter_err(qp);
}

static void drop_message(struct qp *qp)
{
	/* A receive work request that was begun is used again for the next message. */
	qp->resp.in_message = false;
	qp->resp.uc_drop = true;
}

static bool take(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (!r->have_recv && !rq_take(qp, &r->recv))
		r->have_recv = true;
	return r->have_recv;
}

static void finish(struct qp *qp, const struct wire_packet *p, uint8_t cqe_op)
{
	struct recv_done d = {.cqe_op = cqe_op,
			      .solicited = p->solicited,
			      .grh = true,
			      .byte_len = (uint32_t)qp->resp.offset,
			      .imm = p->imm,
			      .index = qp->resp.recv.index};

	qp->resp.have_recv = false;
	cq_recv_done(qp, &d);
}

static void on_send(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;

	if (flags & WIRE_START && !take(qp)) {
		drop_message(qp);
		return;
	}
	if (r->offset + p->payload_len > r->recv.length) {
		fail_recv(qp, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
		return;
	}
	if (data_scatter_recv(qp, &r->recv, r->offset, p->payload, p->payload_len)) {
		fail_recv(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
		return;
	}
	r->offset += p->payload_len;
	r->in_message = !(flags & WIRE_END);
	if (flags & WIRE_END)
		finish(qp, p, flags & WIRE_IMM ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_SEND);
}

static void on_write(struct qp *qp, const struct wire_packet *p, uint32_t flags)
{
	struct responder *r = &qp->resp;
	uint8_t *dst = NULL;

	if (flags & WIRE_START) {
		r->write_va = p->va;
		r->write_rkey = p->rkey;
		r->write_len = p->dma_len;
	}
	if (r->offset + p->payload_len > r->write_len ||
	    (flags & WIRE_END && r->offset + p->payload_len != r->write_len)) {
		drop_message(qp);
		return;
	}
	if (p->payload_len)
		dst = mr_remote(qp, r->write_rkey, r->write_va + r->offset, p->payload_len,
				IBV_ACCESS_REMOTE_WRITE);
	if ((p->payload_len && !dst) || (flags & WIRE_IMM && !take(qp))) {
		drop_message(qp);
		return;
	}
	if (dst) {
		late_push(qp->obj.uc->hca, qp->dev, dst);
		dma_write(dst, p->payload, p->payload_len);
	}
	r->offset += p->payload_len;
	r->in_message = !(flags & WIRE_END);
	if (flags & WIRE_IMM)
		finish(qp, p, MLX5_CQE_RESP_WR_IMM);
}

/** uc_receive() - a packet from the peer. */
void uc_receive(struct qp *qp, const struct wire_packet *p)
{
	struct responder *r = &qp->resp;
	uint32_t flags = wire_op_flags(p->opcode);
	bool in_order = p->psn == r->epsn;

	if (qp->state == IBV_QPS_ERR)
		return;
	r->epsn = psn_add(p->psn, 1);
	if (flags & WIRE_START) {
		r->uc_drop = false;
		r->offset = 0;
		r->message_write = flags & WIRE_WRITE;
	} else if (!in_order || r->uc_drop || !r->in_message ||
		   r->message_write != !!(flags & WIRE_WRITE)) {
		drop_message(qp);
		return;
	}
	if (flags & WIRE_END ? p->payload_len > qp->mtu : p->payload_len != qp->mtu) {
		drop_message(qp);
		return;
	}
	if (flags & WIRE_SEND)
		on_send(qp, p, flags);
	else
		on_write(qp, p, flags);
}
