/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable connection, responder side: answers.
 *
 * They leave in the order of the requests: READ and atomic answers wait in a queue, and an
 * acknowledgement of a later request waits for the queue to be empty. Acknowledgements are
 * coalesced: one for all that came in since the queue pair had its last turn.
 */
#include "rc_answer.h"

#include <infiniband/verbs.h>

#include "dma.h"

static void send_response(struct qp *qp, struct wire_packet *p, const uint8_t *payload)
{
	struct hca *h = qp->obj.uc->hca;
	uint8_t *frame;

	if (!path_refresh(h, qp->dev, qp->attr.av_port, &qp->path))
		return;
	p->pkey = qp_pkey(qp);
	p->dest_qpn = qp->attr.dest_qpn;
	frame = net_frame(h);
	wire_begin(frame, &qp->path.wire, p);
	if (p->payload_len)
		dma_copy(p->payload, payload, p->payload_len);
	net_send(h, qp, &qp->path, p, frame);
}

/** rc_answer_aeth() - an ACK or NAK, now, whatever the queue still holds. */
void rc_answer_aeth(struct qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct wire_packet p = {
		.opcode = OP_ACK, .psn = psn, .syndrome = syndrome, .msn = qp->resp.msn};

	send_response(qp, &p, NULL);
}

/** rc_answer_add() - a place at the end of the queue, or NULL if it is full. */
struct rd_response *rc_answer_add(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (r->q_tail - r->q_head >= SIM_RD_RESPONSES)
		return NULL;
	return &r->queue[r->q_tail++ % SIM_RD_RESPONSES];
}

/** rc_answer_read() - queue the answer of a READ. Return: false if the queue is full. */
bool rc_answer_read(struct qp *qp, const struct wire_packet *p)
{
	struct rd_response *e = rc_answer_add(qp);

	if (!e)
		return false;
	*e = (struct rd_response){.psn = p->psn,
				  .first_psn = p->psn,
				  .va = p->va,
				  .rkey = p->rkey,
				  .len = p->dma_len,
				  .msn = qp->resp.msn};
	e->last_psn = psn_add(p->psn, (int32_t)psn_count(p->dma_len, qp->mtu) - 1);
	return true;
}

/** rc_answer_cut() - the requester went back: it will ask again for what is queued from @psn on. */
void rc_answer_cut(struct qp *qp, uint32_t psn)
{
	struct responder *r = &qp->resp;

	while (r->q_tail != r->q_head &&
	       psn_diff(r->queue[(r->q_tail - 1) % SIM_RD_RESPONSES].last_psn, psn) >= 0)
		r->q_tail--;
}

static uint8_t response_opcode(const struct rd_response *e)
{
	if (e->first_psn == e->last_psn)
		return OP_READ_RESP_ONLY;
	if (e->psn == e->first_psn)
		return OP_READ_RESP_FIRST;
	return e->psn == e->last_psn ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
}

/* Return: false if the region has gone and the queue pair failed. */
static bool send_read_response(struct qp *qp, struct rd_response *e)
{
	uint64_t off = (uint64_t)psn_diff(e->psn, e->first_psn) * qp->mtu;
	struct wire_packet p = {
		.opcode = response_opcode(e), .psn = e->psn, .syndrome = AETH_ACK, .msn = e->msn};
	uint8_t *src = NULL;

	p.payload_len = e->len - off < qp->mtu ? (uint32_t)(e->len - off) : qp->mtu;
	if (p.payload_len)
		src = mr_remote(qp, e->rkey, e->va + off, p.payload_len, IBV_ACCESS_REMOTE_READ);
	if (p.payload_len && !src) {
		rc_answer_aeth(qp, AETH_NAK_REM_ACC, e->psn);
		qp_fatal(qp, IBV_EVENT_QP_ACCESS_ERR);
		return false;
	}
	if (src)
		late_push(qp->obj.uc->hca, qp->dev, src);
	send_response(qp, &p, src);
	return true;
}

/** rc_resp_transmit() - send up to @budget answers. Return: true if there are more. */
bool rc_resp_transmit(struct qp *qp, int budget)
{
	struct responder *r = &qp->resp;

	while (r->q_head != r->q_tail) {
		struct rd_response *e = &r->queue[r->q_head % SIM_RD_RESPONSES];

		if (budget-- <= 0)
			return true;
		if (e->atomic) {
			struct wire_packet p = {.opcode = OP_ATOMIC_ACK,
						.psn = e->psn,
						.syndrome = AETH_ACK,
						.msn = e->msn,
						.atomic_orig = e->orig};

			send_response(qp, &p, NULL);
		} else if (!send_read_response(qp, e)) {
			return false;
		}
		if (e->psn == e->last_psn)
			r->q_head++;
		else
			e->psn = psn_add(e->psn, 1);
	}
	if (r->ack_due) {
		r->ack_due = false;
		rc_answer_aeth(qp, AETH_ACK, psn_add(r->epsn, -1));
	}
	return false;
}
