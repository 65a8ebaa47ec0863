/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fault_match.h"

#include "wire.h"

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

static bool hit(struct sim_state *st, struct sim_fault *f, uint32_t rule)
{
	uint32_t n = atomic_fetch_add_explicit(&f->seen, 1, memory_order_relaxed);

	if (n < f->skip || (f->every > 1 && (n - f->skip) % f->every != f->every - 1))
		return false;
	if (f->ppm && f->ppm < 1000000 && dice(st->seed, rule, n) >= f->ppm)
		return false;
	n = atomic_fetch_add_explicit(&f->hits, 1, memory_order_relaxed);
	if (f->limit && n >= f->limit) {
		atomic_fetch_sub_explicit(&f->hits, 1, memory_order_relaxed);
		return false;
	}
	return true;
}

enum sim_fault_action fault_match(struct sim_state *st, uint8_t dir, uint32_t dev, uint32_t port,
				  uint32_t qpn, uint8_t opcode, uint8_t syndrome,
				  uint32_t *delay_us)
{
	uint8_t class;

	if (!atomic_load_explicit(&st->faults_generation, memory_order_relaxed))
		return SIM_FAULT_OFF;
	class = class_of(opcode, syndrome);
	for (uint32_t i = 0; i < SIM_MAX_FAULTS; i++) {
		struct sim_fault *f = &st->faults[i];
		uint32_t action = atomic_load_explicit(&f->action, memory_order_acquire);

		if (!action || !(f->dir & dir) || !(f->class_mask & class) ||
		    (f->dev != 0xff && f->dev != dev) || (f->port && f->port != port) ||
		    (f->qpn && f->qpn != qpn) || !hit(st, f, i))
			continue;
		*delay_us = f->delay_us;
		return action;
	}
	return SIM_FAULT_OFF;
}
