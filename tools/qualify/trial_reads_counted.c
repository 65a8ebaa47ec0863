// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "round.h"
#include "trial.h"

/* READs leave no trace at the responder. The WRITEs between them show how many PSNs each READ took. */
static void fill(struct q_bench *b, struct round *r)
{
	uint32_t packets = 0, n;

	while (packets + 6 <= ROUND_MESSAGES) {
		n = 1 + q_random(b, 5);
		r->messages[r->n++] = (struct round_message){.opcode = IBV_WR_RDMA_READ,
							     .length = n * q_mtu_bytes(r->mtu) - q_random(b, q_mtu_bytes(r->mtu) - 1)};
		r->messages[r->n++] = (struct round_message){.opcode = IBV_WR_RDMA_WRITE, .length = q_mtu_bytes(r->mtu)};
		packets += n + 1;
	}
}

static const struct round_kind kinds[] = {
	{.name = "READs between WRITEs", .fill = fill},
	{.name = "READs between WRITEs, PSNs that wrap", .fill = fill, .wraps = true},
};

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	return round_repeat(b, t, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

const struct q_trial trial_reads_counted = {
	.name = "reads-counted",
	.assumption = "A READ takes as many PSNs as its response has packets, and counts in the rq_psn of a responder in ERR once it was executed.",
	.source = "IBTA vol. 1, 9.7.2, 9.7.4",
	.run = run,
};
