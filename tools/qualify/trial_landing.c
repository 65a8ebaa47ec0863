// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "stream.h"
#include "trial.h"

static enum mv_trial_verdict one(struct q_bench *b, struct stream *s, uint32_t n, void *arg, struct mv_qualified_trial *t,
				 uint32_t *ret_executed)
{
	uint32_t executed, packet;
	int err = stream_cut(b, s, &executed), differs = 0;

	(void)arg;
	if (!err && stream_is_beyond(s, executed))
		return q_fail(t, "%s: rq_psn in ERR is beyond the last packet that was sent", s->kind->name);
	if (!err)
		err = stream_compare(s, executed, &differs, &packet);
	if (err)
		return q_kind_broken(t, s->kind, "large WRITEs", err);
	if (differs)
		return q_fail(t, "%s: rq_psn in ERR says that %u packets were executed, but packet %u of a pass of %u %s", s->kind->name,
			      executed, packet, s->packets, differs < 0 ? "had not landed there" : "is there");
	/* Memory that agreed must not change later. */
	q_sleep_ns(n < 3 ? 100000000ull : 10000000ull);
	err = stream_compare(s, executed, &differs, &packet);
	if (err)
		return q_kind_broken(t, s->kind, "large WRITEs", err);
	if (differs)
		return q_fail(t, "%s: packet %u of a pass of %u landed after the drain", s->kind->name, packet, s->packets);
	*ret_executed = executed;
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict with_kind(struct q_bench *b, const struct q_kind *kind, struct mv_qualified_trial *t)
{
	enum mv_trial_verdict verdict;
	struct stream s;
	int err = stream_open(b->peer, &b->dut, kind, &s);

	if (err)
		return kind->is_optional ? MV_TRIAL_PASS : q_kind_broken(t, kind, "queue pairs and memory", err);
	verdict = stream_rounds(b, &s, t, one, NULL);
	stream_close(&s);
	return verdict;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	return stream_kinds(b, t, with_kind);
}

const struct q_trial trial_landing = {
	.name = "landing",
	.assumption = "When ibv_modify_qp to ERR has returned, all bytes of the packets before rq_psn are in memory, and none lands later.",
	.source = "IBTA vol. 1, 10.3.1.7; PCIe, ordering of posted writes; that 2ERR_QP waits for scatter is not documented",
	.run = run,
};
