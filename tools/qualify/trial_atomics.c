// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "round.h"
#include "trial.h"

/* Fewer than 256, because the round compares only the counter's first byte. */
static void fill(struct q_bench *b, struct round *r)
{
	(void)b;
	while (r->n < 200)
		r->messages[r->n++] = (struct round_message){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
}

static void fill_mixed(struct q_bench *b, struct round *r)
{
	while (r->n < 200)
		r->messages[r->n++] = q_random(b, 2) ? (struct round_message){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD} :
						       (struct round_message){.opcode = IBV_WR_RDMA_WRITE, .length = q_mtu_bytes(r->mtu)};
}

static const struct round_kind kinds[] = {
	{.name = "atomics", .fill = fill},
	{.name = "atomics between WRITEs", .fill = fill_mixed},
};

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(b->dut.ctx, &attr) || attr.atomic_cap == IBV_ATOMIC_NONE)
		return q_skip(t, "the device has no atomics");
	return round_repeat(b, t, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

const struct q_trial trial_atomics = {
	.name = "atomics",
	.assumption = "An atomic takes one PSN, and the rq_psn of a responder in ERR counts as many as memory was added to.",
	.source = "IBTA vol. 1, 9.7.2, 9.4.5",
	.run = run,
};
