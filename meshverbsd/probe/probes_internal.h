/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROBES_INTERNAL_H
#define MD_PROBES_INTERNAL_H

#include <string.h>

#include "probes.h"

/* Shared by the files probes*.c only. */

static inline uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** md_probes_part - ns between two rounds of a suspect path */
static inline uint64_t md_probes_part(const struct md_probes *probes)
{
	return probes->interval_ns / MD_PROBE_PARTS;
}

/** md_probe_look_for_host - of a path that is new, or whose host is not known: who has its remote address? */
void md_probe_look_for_host(struct md_probes *probes, struct md_probe *p);
/** md_probe_leave_host - the path is removed, and is on no list of its host any more */
void md_probe_leave_host(struct md_probes *probes, struct md_probe *p);
/** md_probe_newest_of_host - of all paths to the host of @of, that with the newest echo. In a tick; NULL: host not known */
struct md_probe *md_probe_newest_of_host(struct md_probes *probes, const struct md_probe *of);
/**
 * md_probe_next_of_host - the next path to the host of @of, to be looked at as a witness. In a tick
 * @answer: among those that answer; else among those that do not
 *
 * Each path comes once in a turn, for all suspects: it is probed, or not fit in the whole turn. NULL: no further one.
 */
struct md_probe *md_probe_next_of_host(struct md_probes *probes, const struct md_probe *of, bool answer);
/** md_probe_set_state - set the state; if it changes, tell the processes that watch the path */
void md_probe_set_state(struct md_probes *probes, struct md_probe *p, enum mv_probed state);
/** md_probe_set_rounds - set the number of rounds that speak against the path */
void md_probe_set_rounds(struct md_probes *probes, struct md_probe *p, unsigned int rounds);
/** md_probe_set_suspect - begin or end a suspicion; the rounds become 0 */
void md_probe_set_suspect(struct md_probes *probes, struct md_probe *p, bool suspect);
/** md_probe_tell - tell the state to processes that do not know it; failures are retried by md_probes_tell_the_rest() */
void md_probe_tell(struct md_probes *probes, struct md_probe *p);
/** md_probe_tell_one - the same for one process */
void md_probe_tell_one(struct md_probes *probes, struct md_probe_watch *watch);
/** md_probe_untold - note whether a process could not be told */
void md_probe_untold(struct md_probes *probes, struct md_probe_watch *watch, bool untold);
/** md_probes_tell_soon - make a tick due if processes could not be told */
void md_probes_tell_soon(struct md_probes *probes, uint64_t now_ns);
/** md_probe_interval - ns between two probes of a path that answers */
uint64_t md_probe_interval(const struct md_probes *probes, const struct md_probe *p);
/** md_probe_pace - ns until the path's next probe */
uint64_t md_probe_pace(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns);
/** md_probe_pace_on_grid - md_probe_pace() rounded up to a grid: paths share turns, and small delays of turns do not add up */
uint64_t md_probe_pace_on_grid(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns);
/**
 * md_probe_behind_peer - a time shortly after the peer's next probe is due, so that always the same end probes. Not on
 * the grid,
 * which would be later.
 */
uint64_t md_probe_behind_peer(const struct md_probes *probes, const struct md_probe *p);
/** md_probe_schedule - set the time of the next probe, after a probe now */
void md_probe_schedule(const struct md_probes *probes, struct md_probe *p, uint64_t now_ns);
/** md_probe_due - time of the next probe; earlier than scheduled if the last echo is overdue */
uint64_t md_probe_due(const struct md_probes *probes, const struct md_probe *p);
/** md_probe_was_suspect_lately - too lately to be suspect again? */
bool md_probe_was_suspect_lately(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns);
/** md_probe_await - expect an echo of a path just probed, not suspect; the caller calls md_probes_find_next() next */
void md_probe_await(struct md_probes *probes, struct md_probe *p, uint64_t now_ns);
/** md_probe_await_no_more - the echo has arrived, or has been reviewed */
void md_probe_await_no_more(struct md_probes *probes, struct md_probe *p);
/** md_probes_find_next - compute the time of the next tick over all paths; once in a tick */
void md_probes_find_next(struct md_probes *probes, uint64_t now_ns);
/** md_probes_set_next - set the time of the next tick. @regular_ns: next probe by schedule, without awaited echoes */
void md_probes_set_next(struct md_probes *probes, uint64_t regular_ns);
/** md_probes_not_after - the next tick is due at @at_ns or earlier */
void md_probes_not_after(struct md_probes *probes, uint64_t at_ns);

#endif
