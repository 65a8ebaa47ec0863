// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "stream.h"
#include "trial.h"

#define ROUNDS 20

static enum mv_trial_verdict one(struct q_bench *b, struct stream *s, bool wait_long, struct mv_qualified_trial *t, uint32_t *ret_executed)
{
	uint32_t executed, packet;
	int err = stream_cut(b, s, &executed), differs;

	if (err)
		return q_broken(t, "large WRITEs", err);
	if (stream_is_beyond(s, executed))
		return q_fail(t, "rq_psn in ERR is beyond the last packet that was sent");
	differs = stream_compare(s, executed, &packet);
	if (differs)
		return q_fail(t, "rq_psn in ERR says that %u packets were executed, but packet %u of a pass of %u %s", executed, packet, s->packets,
			      differs < 0 ? "had not landed in memory" : "is in memory");
	/* Memory that agreed must not change later. */
	q_sleep_ns(wait_long ? 100000000ull : 10000000ull);
	if (stream_compare(s, executed, &packet))
		return q_fail(t, "packet %u of a pass of %u landed in memory after the drain", packet, s->packets);
	*ret_executed = executed;
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct stream *s, struct mv_qualified_trial *t)
{
	enum mv_trial_verdict verdict;
	uint32_t n, cut = 0, executed = 0;

	for (n = 0; (n < ROUNDS || !cut) && q_has_time(b); n++) {
		s->passes = n < STREAM_SHORT || cut ? 1 : STREAM_PASSES;
		verdict = one(b, s, n < 3, t, &executed);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		cut += stream_was_cut(s, executed);
	}
	q_figure(t, "rounds", n);
	q_figure(t, "rounds_cut", cut);
	return cut ? MV_TRIAL_PASS : q_unsure(t, "in none of %u rounds the queue pair reached ERR in the middle of the WRITEs", n);
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	enum mv_trial_verdict verdict;
	struct stream s;
	int err = stream_open(b, b->peer, &b->dut, &s);

	if (err)
		return q_broken(t, "queue pairs and memory", err);
	verdict = rounds(b, &s, t);
	stream_close(&s);
	return verdict;
}

const struct q_trial trial_landing = {
	.name = "landing",
	.assumption = "When ibv_modify_qp to ERR has returned, all bytes of the packets before rq_psn are in host memory, and none lands later.",
	.source = "IBTA vol. 1, 10.3.1.7; PCIe, ordering of posted writes; that 2ERR_QP waits for scatter is not documented",
	.run = run,
};
