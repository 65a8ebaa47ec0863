// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Makes a hole in the PSNs without raw packets: the requester begins at a later PSN than the responder expects, so its
 * packets follow packets that never existed. Then a requester that begins at the expected PSN fills a part of the hole.
 */
#include <errno.h>
#include <string.h>

#include "psn.h"
#include "trial.h"

#define ROUNDS    6
#define MESSAGES  8
#define ANSWER_NS 10000000000ull

struct holes {
	struct q_qp req, resp;
	struct q_mem from, to;
	uint32_t mtu_bytes;
};

static int post(struct holes *h, uint32_t first, uint32_t n)
{
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct q_post p = {.wr_id = first + i,
				   .opcode = IBV_WR_RDMA_WRITE,
				   .flags = i + 1 == n ? IBV_SEND_SIGNALED : 0,
				   .from = &h->from,
				   .length = h->mtu_bytes,
				   .to = &h->to,
				   .to_at = (size_t)(first + i) * h->mtu_bytes};

		err = q_post(&h->req, &p);
	}
	return err;
}

static bool is_there(const struct holes *h, uint32_t slot)
{
	const volatile uint8_t *at = h->to.buf + (size_t)slot * h->mtu_bytes;

	return at[0] == 1 && at[h->mtu_bytes - 1] == 1;
}

/* Resets the requester's QP, with its first packet at @psn. The responder stays as it is. */
static int requester_at(struct holes *h, const struct q_way *way, uint32_t psn)
{
	int err = q_to(&h->req, IBV_QPS_RESET);

	if (!err)
		err = q_drain(h->req.send_cq);
	if (!err)
		err = q_to_init(&h->req);
	return err ? err : q_to_rts(&h->req, &h->resp, way, psn, way->back_psn);
}

static int psn_is(struct holes *h, const struct q_way *way, uint32_t *ret_ahead)
{
	uint32_t psn;
	int err = q_rq_psn(&h->resp, &psn);

	if (!err)
		*ret_ahead = mv_psn_ahead(way->psn, psn);
	return err;
}

/* Return: PASS, or the verdict that ends the trial. */
static enum mv_trial_verdict one(struct q_bench *b, struct holes *h, struct mv_qualified_trial *t)
{
	uint32_t gap = 1 + q_random(b, 3), ahead;
	struct q_way way = q_way(b, b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu);
	struct ibv_wc wc;
	int err;

	memset(h->to.buf, 0, h->to.bytes);
	way.timeout = 10; /* 4 ms, at most 8 ms for each retry */
	way.retry_cnt = 2;
	err = q_connect(&h->req, &h->resp, &way);
	if (!err)
		err = requester_at(h, &way, way.psn + gap);
	if (!err)
		err = post(h, gap, MESSAGES);
	if (!err)
		err = q_wait(h->req.send_cq, ANSWER_NS, &wc);
	if (err)
		return q_broken(t, "messages behind a hole", err);
	if (wc.status == IBV_WC_SUCCESS)
		return q_fail(t, "a WRITE %u packets behind a hole was acknowledged", gap);
	err = psn_is(h, &way, &ahead);
	if (err)
		return q_broken(t, "ibv_query_qp", err);
	if (ahead)
		return q_fail(t, "nothing was executed, the hole is at the first packet, but rq_psn is %u further on", ahead);
	err = requester_at(h, &way, way.psn);
	if (!err)
		err = post(h, 0, gap);
	if (!err)
		err = q_wait(h->req.send_cq, ANSWER_NS, &wc);
	if (!err && wc.status != IBV_WC_SUCCESS)
		return q_unsure(t, "the messages that fill the hole were not acknowledged: %s", ibv_wc_status_str(wc.status));
	if (!err)
		err = requester_at(h, &way, way.psn + gap + 1); /* another hole, of one packet */
	if (!err)
		err = post(h, gap + 1, MESSAGES);
	if (!err)
		err = q_wait(h->req.send_cq, ANSWER_NS, &wc);
	if (!err)
		err = q_to(&h->resp, IBV_QPS_ERR);
	if (!err)
		err = psn_is(h, &way, &ahead);
	if (err)
		return q_broken(t, "a hole behind messages", err);
	for (uint32_t i = 0; i < ahead && i < MESSAGES + gap; i++)
		if (!is_there(h, i))
			return q_fail(t, "rq_psn in ERR says %u packets, packet %u is a hole", ahead, i);
	return ahead < gap ? q_fail(t, "%u messages were acknowledged, rq_psn in ERR says %u", gap, ahead) : MV_TRIAL_PASS;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = 32, .recv_wr = 1, .sge = 1};
	enum mv_trial_verdict verdict = MV_TRIAL_PASS;
	struct holes h = {0};
	uint32_t n = 0;
	int err;

	h.mtu_bytes = q_mtu_bytes(b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu);
	err = q_qp_make(b->peer, &size, &h.req);
	if (!err)
		err = q_qp_make(&b->dut, &size, &h.resp);
	if (!err)
		err = q_mem_make(b->peer, 4096, &h.from);
	if (!err)
		err = q_mem_make(&b->dut, (size_t)64 * h.mtu_bytes, &h.to);
	if (err)
		verdict = q_broken(t, "queue pairs and memory", err);
	else
		memset(h.from.buf, 1, h.from.bytes);
	for (; n < ROUNDS && verdict == MV_TRIAL_PASS && q_has_time(b); n++)
		verdict = one(b, &h, t);
	q_figure(t, "rounds", n);
	q_qp_end(&h.req);
	q_qp_end(&h.resp);
	q_mem_end(&h.from);
	q_mem_end(&h.to);
	return verdict == MV_TRIAL_PASS && !n ? q_unsure(t, "no time was left") : verdict;
}

const struct q_trial trial_holes = {
	.name = "holes",
	.assumption = "If packets are missing, rq_psn is the first one that is missing, not one behind the last that came.",
	.source = "IBTA vol. 1, 9.7.4.1 (PSN sequence error); with out-of-order placement (mlx5dv_create_qp(3), MLX5DV_QP_CREATE_OOO_DP) not documented",
	.run = run,
};
