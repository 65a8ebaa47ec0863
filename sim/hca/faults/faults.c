/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packet faults on demand: the rules are in the host's state (struct sim_fault). */
#include "hca.h"

#include <stdlib.h>
#include <string.h>

#include "fault_match.h"

struct held {
	TAILQ_ENTRY(held) link;
	uint64_t due_ns;
	uint32_t ifindex;
	bool rx;
	size_t len;
	uint8_t frame[];
};

struct faults {
	TAILQ_HEAD(held_queue, held) held; /* by due_ns */
};

struct faults *faults_new(struct hca *h)
{
	struct faults *f = calloc(1, sizeof(*f));

	(void)h;
	if (f)
		TAILQ_INIT(&f->held);
	return f;
}

void faults_free(struct faults *f)
{
	struct held *e;

	while (f && (e = TAILQ_FIRST(&f->held))) {
		TAILQ_REMOVE(&f->held, e, link);
		free(e);
	}
	free(f);
}

/** fault_check() - what happens to a packet; the first rule that hits decides. @dir: SIM_FAULT_TX
 * or _RX. */
enum sim_fault_action fault_check(struct hca *h, uint8_t dir, uint32_t dev, uint32_t port,
				  uint32_t qpn, uint8_t opcode, uint8_t syndrome,
				  uint32_t *delay_us)
{
	return fault_match(h->state, dir, dev, port, qpn, opcode, syndrome, delay_us);
}

/** fault_delay() - keep a copy of @frame back for @delay_us. */
void fault_delay(struct hca *h, bool rx, uint32_t ifindex, const uint8_t *frame, size_t len,
		 uint32_t delay_us)
{
	struct held *e = malloc(sizeof(*e) + len), *after;

	if (!e)
		return;
	e->due_ns = h->now_ns + delay_us * 1000ull;
	e->ifindex = ifindex;
	e->rx = rx;
	e->len = len;
	memcpy(e->frame, frame, len);
	TAILQ_FOREACH_REVERSE(after, &h->faults->held, held_queue, link)
	if (after->due_ns <= e->due_ns)
		break;
	if (after)
		TAILQ_INSERT_AFTER(&h->faults->held, after, e, link);
	else
		TAILQ_INSERT_HEAD(&h->faults->held, e, link);
}

/** faults_run() - let go what is due. Return: whether anything was. */
bool faults_run(struct hca *h)
{
	struct held *e;
	bool any = false;

	while ((e = TAILQ_FIRST(&h->faults->held)) && e->due_ns <= h->now_ns) {
		TAILQ_REMOVE(&h->faults->held, e, link);
		if (e->rx)
			net_deliver(h, e->frame, e->len, 1);
		else
			net_emit(h, e->ifindex, e->frame, e->len);
		free(e);
		any = true;
	}
	return any;
}

/** faults_due() - when the next one is, 0 if there is none. */
uint64_t faults_due(struct hca *h)
{
	const struct held *e = TAILQ_FIRST(&h->faults->held);

	return e ? e->due_ns : 0;
}
