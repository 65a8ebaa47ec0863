/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable connection, requester side: InfiniBand Architecture Specification volume 1,
 * section 9.7.5 and 9.9.2.
 *
 * Work requests get their PSNs in order when they are first sent. What is lost is repeated from the
 * oldest missing packet on (go-back-N). A response acknowledges everything before it, except READs
 * and atomics, whose answer must come in person.
 */
#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "quirk.h"
#include "rc_req.h"

/* Timer field of an RNR NAK in units of 10 us: table 45 of the specification. */
static const uint32_t rnr_10us[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
				      16,    24,   32,   48,    64,    96,    128,   192,
				      256,   384,  512,  768,   1024,  1536,  2048,  3072,
				      4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

static struct sim_counters *counters(struct qp *qp)
{
	return &qp->dev->ports[qp->attr.av_port - 1].counters;
}

static void count(_Atomic uint64_t *c)
{
	atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

/** rc_req_account() - bring the share of @qp in the packets in flight up to date. */
void rc_req_account(struct qp *qp)
{
	struct requester *r = &qp->req;
	uint32_t now =
		r->stalled || !rc_outstanding(r) ? 0 : (uint32_t)psn_diff(r->max_psn, r->una_psn);

	qp->obj.uc->hca->sending.in_flight += now - r->counted;
	r->counted = now;
}

/** rc_req_fail() - the oldest work request fails, the queue pair goes to ERR. */
void rc_req_fail(struct qp *qp, uint8_t syndrome, uint8_t vendor)
{
	send_fail_head(qp, syndrome, vendor);
	qp_enter_err(qp);
}

static void go_back(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;
	uint32_t i;

	r->rd_out = 0;
	for (i = r->head; i != r->cur; i++) {
		struct send_wqe *w = rc_wqe(qp, i);

		if (psn_diff(psn, w->last_psn) <= 0)
			break;
		r->rd_out += rc_has_answer(w);
	}
	if (i == r->cur && i != r->tail && !rc_wqe(qp, i)->started)
		return; /* nothing sent from there on */
	r->cur = i;
	r->cur_psn = psn;
	r->since_ack_request = ACK_REQUEST_EACH;
	qp_kick(qp);
}

static void progress(struct qp *qp)
{
	struct requester *r = &qp->req;

	r->retries = qp->attr.retry_cnt;
	r->rnr_retries = qp->attr.rnr_retry;
	r->repeating = r->stalled = false;
	if (rc_outstanding(r))
		rc_timer_start(qp);
	else
		r->deadline_ns = 0;
	rc_req_account(qp);
	qp_kick(qp);
}

/** rc_req_retire() - complete what lies before una_psn. */
void rc_req_retire(struct qp *qp)
{
	struct requester *r = &qp->req;

	while (r->head != r->tail && qp->state != IBV_QPS_ERR) {
		struct send_wqe *w = rc_wqe(qp, r->head);

		if (!w->started || psn_diff(w->last_psn, r->una_psn) >= 0)
			return;
		/* An acknowledgement may overtake a repetition that was under way. */
		if (r->cur == r->head) {
			r->cur++;
			r->cur_psn = psn_add(w->last_psn, 1);
		} else if (rc_has_answer(w) && r->rd_out) {
			r->rd_out--;
		}
		send_complete_head(qp);
	}
}

/*
 * Everything up to @psn was executed. Return: false if the answer of a READ or atomic in between is
 * missing, which then is asked for again.
 */
static bool acknowledge(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;
	uint32_t upto = psn_add(psn, 1);
	bool all = true;

	for (uint32_t i = r->head; i != r->tail; i++) {
		struct send_wqe *w = rc_wqe(qp, i);

		if (!w->started || psn_diff(w->first_psn, upto) >= 0)
			break;
		if (!rc_has_answer(w) || psn_diff(w->last_psn, r->una_psn) < 0)
			continue;
		upto = psn_diff(r->una_psn, w->first_psn) > 0 ? r->una_psn : w->first_psn;
		all = false;
		break;
	}
	if (psn_diff(upto, r->una_psn) > 0) {
		r->una_psn = upto;
		if (r->cur != r->tail && rc_wqe(qp, r->cur)->started &&
		    psn_diff(r->cur_psn, upto) < 0)
			go_back(qp, upto); /* skip ahead: the repetition is no longer needed */
		rc_req_retire(qp);
		if (qp->state != IBV_QPS_ERR)
			progress(qp);
	}
	if (!all && !r->repeating) {
		r->repeating = true;
		go_back(qp, upto);
	}
	return all;
}

/* One retry is used up. Return: false if there was none left and the queue pair failed. */
static bool use_retry(struct qp *qp)
{
	struct requester *r = &qp->req;

	if (r->retries) {
		r->retries--;
		return true;
	}
	count(&counters(qp)->req_retry_exceeded);
	rc_req_fail(qp, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, 0x81);
	return false;
}

/** rc_req_timer() - look at the timers; called for queue pairs that have one running. */
void rc_req_timer(struct qp *qp)
{
	struct requester *r = &qp->req;
	uint64_t now = qp->obj.uc->hca->now_ns;

	if (r->rnr_until_ns) {
		if (now < r->rnr_until_ns)
			return;
		r->rnr_until_ns = 0;
	}
	if (!r->deadline_ns || now < r->deadline_ns)
		return;
	if (!rc_outstanding(r)) {
		r->deadline_ns = 0;
		return;
	}
	count(&counters(qp)->local_ack_timeout_err);
	if (!use_retry(qp))
		return;
	r->repeating = false;
	r->stalled = true;
	rc_req_account(qp);
	go_back(qp, r->una_psn);
	rc_timer_start(qp);
}

static void rnr_nak(struct qp *qp, const struct wire_packet *p)
{
	struct requester *r = &qp->req;

	if (r->rnr_retries != 7) {
		if (!r->rnr_retries) {
			count(&counters(qp)->rnr_nak_retry_err);
			rc_req_fail(qp, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, 0x87);
			return;
		}
		r->rnr_retries--;
	}
	go_back(qp, p->psn);
	r->deadline_ns = 0;
	r->rnr_until_ns = qp->obj.uc->hca->now_ns + rnr_10us[p->syndrome & 0x1f] * 10000ull;
	qp_kick(qp);
}

static void nak(struct qp *qp, const struct wire_packet *p)
{
	switch (p->syndrome) {
	case AETH_NAK_SEQ:
		count(&counters(qp)->packet_seq_err);
		if (!use_retry(qp))
			return;
		go_back(qp, p->psn);
		if (rc_outstanding(&qp->req))
			rc_timer_start(qp);
		return;
	case AETH_NAK_INV_REQ:
		rc_req_fail(qp, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, 0x8a);
		return;
	case AETH_NAK_REM_ACC:
		rc_req_fail(qp, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, 0x88);
		return;
	case AETH_NAK_REM_OP:
		rc_req_fail(qp, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, 0x89);
		return;
	default:
		return;
	}
}

static void on_ack(struct qp *qp, const struct wire_packet *p)
{
	if ((p->syndrome & AETH_TYPE) == 0) {
		acknowledge(qp, p->psn);
		return;
	}
	/* The others name the packet that was not executed, and so acknowledge those before. */
	if (psn_diff(p->psn, qp->req.una_psn) > 0 && !acknowledge(qp, psn_add(p->psn, -1)))
		return;
	if (qp->state == IBV_QPS_ERR || qp->req.head == qp->req.tail)
		return;
	if ((p->syndrome & AETH_TYPE) == AETH_RNR)
		rnr_nak(qp, p);
	else if ((p->syndrome & AETH_TYPE) == AETH_NAK)
		nak(qp, p);
}

static void on_read_response(struct qp *qp, struct send_wqe *w, const struct wire_packet *p)
{
	uint64_t off = (uint64_t)psn_diff(p->psn, w->first_psn) * qp->mtu;
	uint64_t want = w->length - off < qp->mtu ? w->length - off : qp->mtu;

	if (p->payload_len != want) {
		rc_req_fail(qp, MLX5_CQE_SYNDROME_BAD_RESP_ERR, 0);
		return;
	}
	if (!quirk_late_read(qp, w, off, p->payload, p->payload_len) && data_scatter_send(qp, w, off, p->payload, p->payload_len)) {
		rc_req_fail(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, 0x51);
		return;
	}
	qp->req.una_psn = psn_add(p->psn, 1);
	rc_req_retire(qp);
}

static void on_atomic_response(struct qp *qp, struct send_wqe *w, const struct wire_packet *p)
{
	uint64_t orig = p->atomic_orig;

	if (data_scatter_send(qp, w, 0, (uint8_t *)&orig, sizeof(orig))) {
		rc_req_fail(qp, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, 0x51);
		return;
	}
	qp->req.una_psn = psn_add(p->psn, 1);
	rc_req_retire(qp);
}

static void on_answer(struct qp *qp, const struct wire_packet *p)
{
	struct requester *r = &qp->req;
	struct send_wqe *w;

	if (psn_diff(p->psn, r->una_psn) > 0 && !acknowledge(qp, psn_add(p->psn, -1)))
		return;
	if (qp->state == IBV_QPS_ERR || r->head == r->tail)
		return;
	w = rc_wqe(qp, r->head);
	if (!w->started || p->psn != r->una_psn || psn_diff(p->psn, w->first_psn) < 0)
		return;
	if (p->opcode == OP_ATOMIC_ACK && rc_is_atomic(w))
		on_atomic_response(qp, w, p);
	else if (p->opcode != OP_ATOMIC_ACK && rc_is_read(w))
		on_read_response(qp, w, p);
	else
		return;
	if (qp->state != IBV_QPS_ERR)
		progress(qp);
}

/** rc_req_response() - a packet from the responder: ACK, NAK, READ response or atomic ACK. */
void rc_req_response(struct qp *qp, const struct wire_packet *p)
{
	struct requester *r = &qp->req;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	/* Of something acknowledged already, or never sent. */
	if (psn_diff(p->psn, r->una_psn) < 0 || psn_diff(p->psn, r->max_psn) >= 0)
		return;
	if (p->opcode == OP_ACK)
		on_ack(qp, p);
	else
		on_answer(qp, p);
}
