// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "flushing.h"
#include "trial.h"

static enum mv_trial_verdict look(const struct flushing *f, struct mv_qualified_trial *t)
{
	const char *queue = f->sends ? "send" : "receive";
	uint32_t first = 0, missing = flushing_missing(f, &first);

	if (!f->marked)
		return q_fail(t, "a work request posted to the %s queue in ERR was not completed within 5 s", queue);
	if (missing)
		return q_fail(t, "%u of %u work requests of the %s queue were never completed; the first is number %u%s", missing, f->posted, queue, first,
			      !f->sends || first % f->signal_each == f->signal_each - 1 ? "" : ", unsignaled");
	if (flushing_twice(f))
		return q_fail(t, "%u of %u work requests of the %s queue were completed twice", flushing_twice(f), f->posted, queue);
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	return flushing_repeat(b, t, look);
}

const struct q_trial trial_flush = {
	.name = "flush",
	.assumption = "In ERR each outstanding work request of both queues is completed once, unsignaled ones and those posted in ERR too.",
	.source = "IBTA vol. 1, 10.3.1.7, 10.8.6; the kernel's ib_drain_qp() relies on it",
	.run = run,
};
