/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packet faults on demand: the rules are in the host's state (struct sim_fault). */
#include "hca.h"

#include <stdlib.h>
#include <string.h>

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

static uint8_t class_of(uint8_t opcode, uint8_t syndrome)
{
	uint32_t flags = wire_op_flags(opcode);

	if (flags & WIRE_DETH)
		return SIM_CLASS_UD;
	if (!(flags & WIRE_RESPONSE))
		return SIM_CLASS_REQUEST;
	if (opcode == OP_ACK)
		return syndrome & AETH_TYPE ? SIM_CLASS_NAK : SIM_CLASS_ACK;
	return SIM_CLASS_DATA_RESPONSE;
}

/* A number in [0, 1000000) that depends on nothing but the seed, the rule and how many packets it
 * saw. */
static uint32_t dice(uint64_t seed, uint32_t rule, uint32_t n)
{
	uint64_t x = seed + 0x9e3779b97f4a7c15ull * (((uint64_t)rule << 32) + n + 1);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)((x ^ x >> 31) % 1000000);
}

static bool hit(struct hca *h, struct sim_fault *f, uint32_t rule)
{
	uint32_t n = atomic_fetch_add_explicit(&f->seen, 1, memory_order_relaxed);

	if (n < f->skip || (f->every > 1 && (n - f->skip) % f->every != f->every - 1))
		return false;
	if (f->ppm && f->ppm < 1000000 && dice(h->state->seed, rule, n) >= f->ppm)
		return false;
	n = atomic_fetch_add_explicit(&f->hits, 1, memory_order_relaxed);
	if (f->limit && n >= f->limit) {
		atomic_fetch_sub_explicit(&f->hits, 1, memory_order_relaxed);
		return false;
	}
	return true;
}

/** fault_check() - what happens to a packet; the first rule that hits decides. @dir: SIM_FAULT_TX
 * or _RX. */
enum sim_fault_action fault_check(struct hca *h, uint8_t dir, uint32_t dev, uint32_t port,
				  uint32_t qpn, uint8_t opcode, uint8_t syndrome,
				  uint32_t *delay_us)
{
	uint8_t class;

	if (!atomic_load_explicit(&h->state->faults_generation, memory_order_relaxed))
		return SIM_FAULT_OFF;
	class = class_of(opcode, syndrome);
	for (uint32_t i = 0; i < SIM_MAX_FAULTS; i++) {
		struct sim_fault *f = &h->state->faults[i];
		uint32_t action = atomic_load_explicit(&f->action, memory_order_acquire);

		if (!action || !(f->dir & dir) || !(f->class_mask & class) ||
		    (f->dev != 0xff && f->dev != dev) || (f->port && f->port != port) ||
		    (f->qpn && f->qpn != qpn) || !hit(h, f, i))
			continue;
		*delay_us = f->delay_us;
		return action;
	}
	return SIM_FAULT_OFF;
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

/** faults_run() - let go what is due. Return: when the next one is, 0 if there is none. */
uint64_t faults_run(struct hca *h)
{
	struct held *e;

	while ((e = TAILQ_FIRST(&h->faults->held)) && e->due_ns <= h->now_ns) {
		TAILQ_REMOVE(&h->faults->held, e, link);
		if (e->rx)
			net_deliver(h, e->frame, e->len, 1);
		else
			net_emit(h, e->ifindex, e->frame, e->len);
		free(e);
	}
	return e ? e->due_ns : 0;
}
