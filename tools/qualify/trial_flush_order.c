// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "flushing.h"
#include "trial.h"

static enum mv_trial_verdict look(const struct flushing *f, struct mv_qualified_trial *t)
{
	const char *queue = f->sends ? "send" : "receive";
	uint32_t first, second;

	if (flushing_disorder(f, &first, &second))
		return q_fail(t, "work request %u of the %s queue was completed before number %u", first, queue, second);
	if (f->behind)
		return q_fail(t, "%u completions of the %s queue came behind that of the work request that was posted last", f->behind, queue);
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	return flushing_repeat(b, t, look);
}

const struct q_trial trial_flush_order = {
	.name = "flush-order",
	.assumption = "Completions in ERR come in the order in which the work requests were posted, that of the one posted last behind all others.",
	.source = "IBTA vol. 1, 10.8.5 (order of completions of a queue)",
	.run = run,
};
