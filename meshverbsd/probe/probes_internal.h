/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROBES_INTERNAL_H
#define MD_PROBES_INTERNAL_H

#include <string.h>

#include "probes.h"

/* What the files of probes.h have in common. None of it is for others. */

/** larger - of two numbers */
static inline uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** md_probes_part - from one round to the next, while a path is suspect, ns */
static inline uint64_t md_probes_part(const struct md_probes *probes)
{
	return probes->interval_ns / MD_PROBE_PARTS;
}

/** md_probes_interval - between probes of a path that answers, ns */
static inline uint64_t md_probes_interval(const struct md_probes *probes)
{
	return larger(probes->interval_ns, probes->n_scheduled * MD_S / MD_PROBES_PER_S);
}

/** md_probes_same_host - do both lead to one host, as far as is known? */
static inline bool md_probes_same_host(const struct md_probe *a, const struct md_probe *b)
{
	return a->has_host && b->has_host && !memcmp(&a->host, &b->host, sizeof(a->host));
}

/** md_probe_set_state - and tell those who have it watched, if it is another one */
void md_probe_set_state(struct md_probes *probes, struct md_probe *p, enum mv_probed state);
/** md_probe_set_rounds - how many speak against it */
void md_probe_set_rounds(struct md_probes *probes, struct md_probe *p, unsigned int rounds);
/** md_probe_set_suspect - or not any more; no round speaks against it then */
void md_probe_set_suspect(struct md_probes *probes, struct md_probe *p, bool suspect);
/** md_probe_tell - those who have it watched and have not been told how it is; those who cannot be told now are next time */
void md_probe_tell(struct md_probes *probes, struct md_probe *p);
/** md_probes_tell_the_rest - those who could not be told */
void md_probes_tell_the_rest(struct md_probes *probes);
/** md_probes_tell_soon - should there be any of those, a tick is due for them */
void md_probes_tell_soon(struct md_probes *probes, uint64_t now_ns);
/** md_probe_pace - how long until its next probe, ns */
uint64_t md_probe_pace(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns);
/**
 * md_probe_pace_on_grid - the same on a grid, so that paths of different phases do not each need a turn of their own, and turns that come
 * a little late do not add up
 */
uint64_t md_probe_pace_on_grid(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns);
/**
 * md_probe_behind_peer - a little later than the next one of the peer, if there is one: so it is always the same end that probes. Not on the
 * grid, which would be later still.
 */
uint64_t md_probe_behind_peer(const struct md_probes *probes, const struct md_probe *p);
/** md_probe_schedule - its next probe, after one now */
void md_probe_schedule(const struct md_probes *probes, struct md_probe *p, uint64_t now_ns);
/** md_probe_due - when its next probe is due: earlier, if the last one has no answer where there should be one by now */
uint64_t md_probe_due(const struct md_probes *probes, const struct md_probe *p);
/** md_probe_await - one that has just been probed and is no suspect; md_probes_find_next() follows */
void md_probe_await(struct md_probes *probes, struct md_probe *p);
/** md_probe_await_no_more - an answer is there, or has been looked for */
void md_probe_await_no_more(struct md_probes *probes, struct md_probe *p);
/** md_probes_find_next - looks at all of them when a tick is due: once in a tick */
void md_probes_find_next(struct md_probes *probes, uint64_t now_ns);
/** md_probes_set_next - @regular_ns: when a probe is due, but for those that are awaited */
void md_probes_set_next(struct md_probes *probes, uint64_t regular_ns);
/** md_probes_not_after - something is due earlier than it was */
void md_probes_not_after(struct md_probes *probes, uint64_t at_ns);

#endif
