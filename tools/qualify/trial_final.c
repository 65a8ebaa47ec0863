// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "psn.h"
#include "round.h"
#include "trial.h"

#define ROUNDS 12

static void fill(struct q_bench *b, struct round *r)
{
	while (r->n < ROUND_MESSAGES)
		r->messages[r->n++] = (struct round_message){.opcode = q_random(b, 2) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, .length = q_mtu_bytes(r->mtu)};
}

/* The requester is not in ERR, so it still sends. */
static enum mv_trial_verdict look_again(struct round *r, uint32_t executed, struct mv_qualified_trial *t)
{
	static const uint32_t waits_ms[] = {1, 9, 90};
	uint32_t psn, at, ms = 0;
	bool there;
	int err;

	for (size_t i = 0; i < sizeof(waits_ms) / sizeof(waits_ms[0]); i++) {
		q_sleep_ns(waits_ms[i] * 1000000ull);
		ms += waits_ms[i];
		err = q_rq_psn(&r->resp, &psn);
		if (err)
			return q_broken(t, "ibv_query_qp in ERR", err);
		if (mv_psn_ahead(r->psn, psn) != executed)
			return q_fail(t, "rq_psn said %u PSNs at once, and %u after %u ms in ERR", executed, mv_psn_ahead(r->psn, psn), ms);
		if (!round_compare(r, executed, &at, &there))
			return q_fail(t, "after %u ms in ERR packet %u is %s memory, but by rq_psn %u were executed", ms, at, there ? "in" : "not in", executed);
	}
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct round *r, struct mv_qualified_trial *t)
{
	enum mv_trial_verdict verdict;
	struct round_end end;
	uint32_t n, cut = 0, told = 0;
	int err;

	for (n = 0; (n < ROUNDS || !told) && q_has_time(b); n++) {
		r->n = r->stall = 0;
		fill(b, r);
		if (n & 1)
			round_stall(b, r);
		r->psn = q_random(b, 1u << 24);
		err = round_run(b, r, &end);
		if (err == -ERANGE)
			return q_fail(t, "rq_psn is beyond the last packet that was sent, or before the first one");
		if (err)
			return q_broken(t, "a round", err);
		verdict = look_again(r, end.executed, t);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		told += end.informative;
		cut += end.cut;
		if (!(r->psn & 1)) /* every second round, the requester notices that the responder does not answer */
			q_to(&r->req, IBV_QPS_ERR);
	}
	q_figure(t, "rounds", n);
	q_figure(t, "rounds_cut", cut);
	return told ? MV_TRIAL_PASS : q_unsure(t, "in none of %u rounds something was executed, and something not", n);
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	static struct round round;
	enum ibv_mtu mtu = b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu;
	enum mv_trial_verdict verdict;
	int err = round_open(b, &round, mtu, 0);

	if (err)
		return q_broken(t, "queue pairs and memory", err);
	verdict = rounds(b, &round, t);
	round_close(&round);
	return verdict;
}

const struct q_trial trial_final = {
	.name = "final",
	.assumption = "Once a responder is in ERR its rq_psn and memory stay as they are, though the requester goes on sending: after 1, 10, 100 ms.",
	.source = "IBTA vol. 1, 10.3.1.7 (ERR: nothing is executed)",
	.run = run,
};
