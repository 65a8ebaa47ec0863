/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Unreliable datagrams. */
#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "dma.h"

#define GRH_BYTES       40
#define MAC_PATIENCE_NS 1000000000ull
#define QKEY_PRIVILEGED 0x80000000u /* a work request with this bit uses the queue pair's own key  \
				     */

static void path_of(struct qp *qp, const struct send_wqe *w, struct path *ret)
{
	const struct wqe_av *av = &w->av;

	memset(ret, 0, sizeof(*ret));
	memcpy(ret->wire.dmac, av->dmac, 6);
	memcpy(ret->wire.dgid, av->dgid, 16);
	ret->wire.traffic_class = av->traffic_class;
	ret->wire.hop_limit = av->hop_limit ? av->hop_limit : 1;
	ret->wire.flow_label = av->flow_label;
	ret->wire.udp_sport =
		av->udp_sport ? av->udp_sport : (uint16_t)(0xc000 | (qp->qpn & 0x3fff));
	ret->sgid_index = av->sgid_index;
	ret->dlid = av->rlid;
}

static bool on_infiniband(const struct qp *qp)
{
	return qp->dev->ports[qp->attr.port - 1].link_layer == SIM_LINK_INFINIBAND;
}

/* The MAC behind a LID may take a moment to learn; a datagram waits for it, but not for ever. */
static bool wait_for_mac(struct qp *qp, const struct send_wqe *w)
{
	struct requester *r = &qp->req;
	struct hca *h = qp->obj.uc->hca;
	struct path path;

	if (!on_infiniband(qp) || w->error || !lid_address(h->state, w->av.rlid))
		return false;
	path_of(qp, w, &path);
	if (path_refresh(h, qp->dev, qp->attr.port, &path)) {
		r->deadline_ns = 0;
		return false;
	}
	if (!r->deadline_ns)
		r->deadline_ns = h->now_ns + MAC_PATIENCE_NS;
	if (h->now_ns < r->deadline_ns)
		return true;
	r->deadline_ns = 0;
	return false;
}

static uint8_t send_one(struct qp *qp, struct send_wqe *w)
{
	struct hca *h = qp->obj.uc->hca;
	struct wire_packet p = {
		.opcode = OP_UD |
			  (w->opcode == MLX5_OPCODE_SEND_IMM ? OP_SEND_ONLY_IMM : OP_SEND_ONLY),
		.solicited = w->solicited,
		.pkey = qp_pkey(qp),
		.dest_qpn = w->av.dest_qpn,
		.psn = qp->req.next_psn,
		.imm = w->imm,
		.qkey = w->av.qkey & QKEY_PRIVILEGED ? qp->attr.qkey : w->av.qkey,
		.src_qpn = qp->qpn,
		.payload_len = (uint32_t)w->length,
	};
	struct path path;
	uint8_t *frame;

	if (w->error)
		return w->error;
	if (w->opcode == MLX5_OPCODE_NOP)
		return 0;
	if (w->length > qp->mtu)
		return MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	path_of(qp, w, &path);
	frame = net_frame(h);
	qp->req.next_psn = psn_add(qp->req.next_psn, 1);
	if (!path_refresh(h, qp->dev, qp->attr.port, &path))
		return 0;
	wire_begin(frame, &path.wire, &p);
	if (p.payload_len && data_gather(qp, w, 0, p.payload_len, p.payload))
		return MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	net_send(h, qp, &path, &p, frame);
	return 0;
}

/** ud_transmit() - send up to @budget datagrams. Return: true if there are more. */
bool ud_transmit(struct qp *qp, int budget)
{
	struct requester *r = &qp->req;

	if (qp->state != IBV_QPS_RTS)
		return false;
	while (r->cur != r->tail) {
		uint8_t err;

		if (budget-- <= 0 || wait_for_mac(qp, &r->ring[r->cur & (qp->sq.n_bbs - 1)]))
			return true;
		err = send_one(qp, &r->ring[r->cur & (qp->sq.n_bbs - 1)]);
		if (err) {
			/* Only the send side stops: the program may bring it back to RTS. */
			send_fail_head(qp, err, 0);
			qp->state = IBV_QPS_SQE;
			send_flush(qp);
			return false;
		}
		r->cur++;
		send_complete_head(qp);
	}
	return false;
}

/* The 40 bytes before the payload: the GRH, or the IP header at their end (IPv4: in the last 20).
 */
static void grh_bytes(const struct wire_packet *p, uint8_t ret[GRH_BYTES])
{
	memset(ret, 0, GRH_BYTES);
	memcpy(ret + GRH_BYTES - p->l3_len, p->l3, p->l3_len);
}

/** ud_receive() - a datagram for @qp, whose addresses were checked. */
void ud_receive(struct qp *qp, const struct wire_packet *p)
{
	struct recv_done d = {
		.cqe_op = p->opcode == (OP_UD | OP_SEND_ONLY_IMM) ? MLX5_CQE_RESP_SEND_IMM
								  : MLX5_CQE_RESP_SEND,
		.solicited = p->solicited,
		.grh = true,
		.byte_len = p->payload_len + GRH_BYTES,
		.imm = p->imm,
		.src_qpn = p->src_qpn,
		.l3_type = p->v1             ? MLX5_CQE_L3_HDR_TYPE_NONE
			   : p->l3_len == 20 ? MLX5_CQE_L3_HDR_TYPE_IPV4
					     : MLX5_CQE_L3_HDR_TYPE_IPV6,
	};
	struct recv_wqe r;
	uint8_t grh[GRH_BYTES];

	if (qp->state == IBV_QPS_ERR || p->qkey != qp->attr.qkey || rq_take(qp, &r))
		return;
	d.index = r.index;
	if (on_infiniband(qp)) {
		d.grh = false;
		d.l3_type = 0;
		d.slid = lid_of_address(qp->obj.uc->hca->state, p->sgid);
		memset(grh, 0, sizeof(grh));
	} else {
		grh_bytes(p, grh);
	}
	if (p->payload_len + GRH_BYTES > r.length) {
		d.cqe_op = MLX5_CQE_RESP_ERR;
		d.syndrome = MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	} else if (data_scatter_recv(qp, &r, 0, grh, GRH_BYTES) ||
		   data_scatter_recv(qp, &r, GRH_BYTES, p->payload, p->payload_len)) {
		d.cqe_op = MLX5_CQE_RESP_ERR;
		d.syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	}
	cq_recv_done(qp, &d);
	if (d.syndrome)
		qp_enter_err(qp);
}
