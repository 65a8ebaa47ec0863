// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "script.h"

#include <stdio.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

struct rng {
	uint64_t state;
};

static uint64_t draw(struct rng *rng, uint64_t below)
{
	rng->state += 0x9e3779b97f4a7c15ull;
	return mix(rng->state) % below;
}

static bool chance(struct rng *rng, unsigned int percent)
{
	return draw(rng, 100) < percent;
}

static void make_op(struct rng *rng, struct op *op)
{
	op->type = (enum op_type)draw(rng, OP_TYPES);
	op->bytes = chance(rng, 30) ? (uint32_t)draw(rng, INLINE_BYTES + 1)
				    : (uint32_t)draw(rng, MAX_BYTES + 1);
	op->signaled = chance(rng, 60);
	op->in_line = op->bytes <= INLINE_BYTES && op->type < OP_READ && chance(rng, 70);
	if (op->type == OP_ADD)
		op->bytes = 8;
}

static void make_side(struct rng *rng, struct script *s, unsigned int side, int rail)
{
	struct side_script *me = &s->sides[side];

	me->srq = chance(rng, 30);
	me->events = chance(rng, 40);
	me->cq_ex = chance(rng, 30);
	me->recv_late = chance(rng, 40);
	me->reregister = chance(rng, 25);
	me->mr_time = (enum mr_time)draw(rng, MR_TIMES);
	me->before_rtr_us = chance(rng, 50) ? 0 : (unsigned int)draw(rng, 3000);
	me->before_rts_us = chance(rng, 70) ? 0 : (unsigned int)draw(rng, 1000);
	me->before_break_us = chance(rng, 40) ? 0 : (unsigned int)draw(rng, 4000);
	me->teardown = (unsigned int)draw(rng, 4);
	for (unsigned int q = 0; q < s->n_qps; q++) {
		struct qp_script *qp = &me->qps[q];

		qp->dev = rail < 0 ? (unsigned int)draw(rng, 2) : (unsigned int)rail;
		qp->wr_api = chance(rng, 40);
		qp->psn = (uint32_t)draw(rng, 1 << 24);
		qp->breaking = (enum breaking)draw(rng, BREAKINGS);
		qp->n_ops = 1 + (unsigned int)draw(rng, MAX_OPS);
		for (unsigned int i = 0; i < qp->n_ops; i++)
			make_op(rng, &qp->ops[i]);
		/* The last of each half says that all before it is done. */
		qp->ops[qp->n_ops - 1].signaled = true;
		qp->ops[qp->n_ops / 2].signaled = true;
	}
}

static enum plot make_plot(struct rng *rng)
{
	uint64_t x = draw(rng, 100);

	return x < 70   ? PLOT_TRAFFIC
	       : x < 76 ? PLOT_STALE_KEY
	       : x < 82 ? PLOT_OTHER_PD
	       : x < 94 ? PLOT_BREAK
			: PLOT_NEVER;
}

/* Taken away afterwards, so that the rest of the script stays the same. */
static void take_away(struct script *s, unsigned int without)
{
	bool breaks = s->plot == PLOT_BREAK || s->plot == PLOT_NEVER,
	     bad = s->plot == PLOT_STALE_KEY || s->plot == PLOT_OTHER_PD;

	if ((breaks && without & WITHOUT_BREAKS) || (bad && without & WITHOUT_BAD_KEYS))
		s->plot = PLOT_TRAFFIC;
	for (unsigned int side = 0; side < 2; side++) {
		struct side_script *me = &s->sides[side];

		me->srq &= !(without & WITHOUT_SRQ);
		me->events &= !(without & WITHOUT_EVENTS);
		me->cq_ex &= !(without & WITHOUT_CQ_EX);
		me->reregister &= !(without & WITHOUT_REREG);
		for (unsigned int q = 0; q < s->n_qps; q++)
			me->qps[q].wr_api &= !(without & WITHOUT_WR);
	}
}

void script_make(struct script *s, uint64_t seed, uint64_t thread, uint64_t number,
		 const struct script_limits *limits)
{
	struct rng rng = {mix(seed * 0x10001 + thread * 0x1000003 + number)};

	memset(s, 0, sizeof(*s));
	s->id = mix(rng.state);
	s->plot = make_plot(&rng);
	s->n_qps = 1 + (unsigned int)draw(&rng, MAX_QPS);
	make_side(&rng, s, 0, limits->rails[0]);
	make_side(&rng, s, 1, limits->rails[1]);
	take_away(s, limits->without);
}

unsigned int script_without(const char *word)
{
	static const char *const words[] = {"srq",    "events",   "cq_ex", "wr",
					    "breaks", "bad-keys", "rereg"};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strcmp(words[i], word) == 0)
			return 1u << i;
	}
	return 0;
}

const char *script_text(const struct script *s, char *buf, size_t len)
{
	static const char *const plots[PLOTS] = {"traffic", "stale key", "other PD", "break",
						 "never"};
	size_t n = (size_t)snprintf(buf, len, "%s, %u QPs:", plots[s->plot], s->n_qps);

	for (unsigned int side = 0; side < 2; side++) {
		const struct side_script *me = &s->sides[side];

		n += (size_t)snprintf(buf + n, n < len ? len - n : 0,
				      " side %u%s%s%s%s%s mr %u dev", side, me->srq ? " srq" : "",
				      me->events ? " events" : "", me->cq_ex ? " cq_ex" : "",
				      me->recv_late ? " late-recv" : "",
				      me->reregister ? " rereg" : "", me->mr_time);
		for (unsigned int q = 0; q < s->n_qps; q++)
			n += (size_t)snprintf(buf + n, n < len ? len - n : 0, " %u%s*%u",
					      me->qps[q].dev, me->qps[q].wr_api ? "w" : "",
					      me->qps[q].n_ops);
	}
	return buf;
}

uint8_t script_byte(const struct script *s, unsigned int side, unsigned int qp, unsigned int op,
		    size_t at)
{
	return (uint8_t)(mix(s->id + side * 64 + qp * 16 + op) + at * 5 + (at >> 8) * 11);
}

uint32_t script_imm(const struct script *s, unsigned int side, unsigned int qp, unsigned int op)
{
	return (uint32_t)mix(s->id + 4096 + side * 64 + qp * 16 + op);
}
