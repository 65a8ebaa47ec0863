// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdio.h>

#include "psn.h"
#include "trial.h"

#define BYTES     (64u << 10)
#define ANSWER_NS 10000000000ull

struct psns {
	struct q_qp req, resp;
	struct q_mem from, to;
};

static enum mv_trial_verdict message(struct psns *p, enum ibv_wr_opcode opcode, uint32_t length, enum ibv_mtu mtu, uint32_t *psn, struct mv_qualified_trial *t)
{
	uint32_t expected = mv_psn_add(*psn, mv_psn_count(opcode, length, q_mtu_bytes(mtu))), got;
	struct ibv_wc wc;
	int err = 0;

	if (opcode == IBV_WR_SEND)
		err = q_post_recv(&p->resp, 0, &p->to, 0, BYTES);
	if (!err)
		err = q_post(&p->req, &(struct q_post){.opcode = opcode,
						       .flags = IBV_SEND_SIGNALED,
						       .from = &p->from,
						       .length = length,
						       .to = opcode == IBV_WR_SEND ? NULL : &p->to,
						       .operand = 1});
	if (!err)
		err = q_wait(p->req.send_cq, ANSWER_NS, &wc);
	if (!err && wc.status != IBV_WC_SUCCESS)
		return q_unsure(t, "a message of %u bytes at MTU %u ended with: %s", length, q_mtu_bytes(mtu), ibv_wc_status_str(wc.status));
	if (!err)
		err = q_rq_psn(&p->resp, &got);
	if (err)
		return q_broken(t, "a message", err);
	if (got != expected)
		return q_fail(t, "opcode %d of %u bytes took %u PSNs at MTU %u, not %u", (int)opcode, length, mv_psn_ahead(*psn, got), q_mtu_bytes(mtu),
			      mv_psn_ahead(*psn, expected));
	*psn = got;
	q_drain(p->resp.recv_cq);
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict at_mtu(struct q_bench *b, struct psns *p, enum ibv_mtu mtu, bool atomics, struct mv_qualified_trial *t, uint32_t *n)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};
	uint32_t bytes = q_mtu_bytes(mtu);
	const uint32_t lengths[] = {0, 1, bytes - 1, bytes, bytes + 1, 2 * bytes, 3 * bytes - 1, BYTES - 1, BYTES};
	struct q_way way = q_way(b, mtu);
	enum mv_trial_verdict verdict = MV_TRIAL_PASS;
	uint32_t psn;
	int err;

	if (*n & 1)
		way.psn = MV_PSN_MASK - 20;
	psn = way.psn;
	err = q_connect(&p->req, &p->resp, &way);
	if (err)
		return q_broken(t, "connecting", err);
	for (size_t o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]) && verdict == MV_TRIAL_PASS; l++, ++*n)
			verdict = message(p, opcodes[o], lengths[l], mtu, &psn, t);
	for (; atomics && verdict == MV_TRIAL_PASS; atomics = false)
		verdict = message(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, mtu, &psn, t);
	return verdict;
}

static enum mv_trial_verdict all(struct q_bench *b, struct psns *p, struct mv_qualified_trial *t)
{
	enum ibv_mtu max = b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu;
	enum mv_trial_verdict verdict;
	struct ibv_device_attr attr;
	uint32_t n = 0;
	bool atomics = !ibv_query_device(b->dut.ctx, &attr) && attr.atomic_cap != IBV_ATOMIC_NONE;

	for (int mtu = IBV_MTU_256; mtu <= (int)max; mtu++) {
		verdict = at_mtu(b, p, (enum ibv_mtu)mtu, atomics, t, &n);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
	}
	q_figure(t, "messages", n);
	q_figure(t, "mtu_max", q_mtu_bytes(max));
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = 4, .recv_wr = 4, .sge = 1};
	enum mv_trial_verdict verdict;
	struct psns p = {0};
	int err = q_qp_make(b->peer, &size, &p.req);

	if (!err)
		err = q_qp_make(&b->dut, &size, &p.resp);
	if (!err)
		err = q_mem_make(b->peer, BYTES, &p.from);
	if (!err)
		err = q_mem_make(&b->dut, BYTES, &p.to);
	verdict = err ? q_broken(t, "queue pairs and memory", err) : all(b, &p, t);
	q_qp_end(&p.req);
	q_qp_end(&p.resp);
	q_mem_end(&p.from);
	q_mem_end(&p.to);
	return verdict;
}

const struct q_trial trial_psns = {
	.name = "psns",
	.assumption = "At every MTU a SEND or WRITE takes a PSN for each MTU begun, a READ one for each packet of its response, one of no bytes or an atomic one.",
	.source = "IBTA vol. 1, 9.7.2, 9.7.3",
	.run = run,
};
