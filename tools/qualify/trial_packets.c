// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "round.h"
#include "trial.h"

/* Each packet needs a slot, so there are fewer messages. */
static void fill(struct q_bench *b, struct round *r)
{
	uint32_t packets = 0, n;

	while (packets + 5 <= ROUND_MESSAGES) {
		n = 1 + q_random(b, 5);
		r->messages[r->n++] = (struct round_message){.opcode = q_random(b, 2) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
							     .length = n * q_mtu_bytes(r->mtu) - q_random(b, q_mtu_bytes(r->mtu) - 1)};
		packets += n;
	}
}

static const struct round_kind kinds[] = {
	{.name = "messages of one to five packets", .fill = fill},
	{.name = "messages of several packets, PSNs that wrap", .fill = fill, .wraps = true},
};

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	return round_repeat(b, t, kinds, sizeof(kinds) / sizeof(kinds[0]));
}

const struct q_trial trial_packets = {
	.name = "packets",
	.assumption = "In the middle of a message, too, the rq_psn of a responder in ERR counts the packets that were executed.",
	.source = "IBTA vol. 1, 9.7.1, 9.7.4; PRM, QPC next_rcv_psn",
	.run = run,
};
