// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "round.h"
#include "trial.h"

static void add(struct round *r, enum ibv_wr_opcode opcode, uint32_t length, bool inlined)
{
	r->messages[r->n++] = (struct round_message){.opcode = opcode, .length = length, .inlined = inlined};
}

static void fill_writes(struct q_bench *b, struct round *r)
{
	(void)b;
	while (r->n < ROUND_MESSAGES)
		add(r, IBV_WR_RDMA_WRITE, q_mtu_bytes(r->mtu), false);
}

static void fill_sends(struct q_bench *b, struct round *r)
{
	(void)b;
	while (r->n < ROUND_MESSAGES)
		add(r, IBV_WR_SEND, q_mtu_bytes(r->mtu), false);
}

/* Empty messages leave no trace in memory; the others show that each empty one takes a PSN. */
static void fill_empty(struct q_bench *b, struct round *r)
{
	while (r->n < ROUND_MESSAGES)
		add(r, q_random(b, 2) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, q_random(b, 2) ? 0 : 1 + q_random(b, q_mtu_bytes(r->mtu)), false);
}

static void fill_inline(struct q_bench *b, struct round *r)
{
	while (r->n < ROUND_MESSAGES)
		add(r, q_random(b, 4) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 1 + q_random(b, ROUND_INLINE), true);
}

static const struct round_kind kinds[] = {
	{.name = "WRITEs of one packet", .fill = fill_writes},
	{.name = "SENDs of one packet", .fill = fill_sends},
	{.name = "messages with and without bytes", .fill = fill_empty},
	{.name = "inline messages", .fill = fill_inline},
	{.name = "PSNs that wrap", .fill = fill_empty, .wraps = true},
};

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	return round_repeat(b, t, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

const struct q_trial trial_prefix = {
	.name = "prefix",
	.assumption = "The rq_psn of a responder in ERR is the end of what it executed: each WRITE and SEND before it is in memory, none behind it.",
	.source = "IBTA vol. 1, 9.7.4 (requests are executed in PSN order); PRM, QPC next_rcv_psn; not documented for ERR",
	.run = run,
};
