/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* State of paths, notification of processes, schedule of probes. */
#include "probes_internal.h"

#include <utlist.h>

/*
 * After this many intervals of silence, a path is probed a tenth as often; after ten times as many, a hundredth. Where many
 * paths make the intervals longer, these count: rounds have to come to a verdict before.
 */
#define BRISK_INTERVALS 50

void md_probes_init(struct md_probes *probes, const struct md_probe_ops *ops, void *arg, uint64_t interval_ns,
		    unsigned int multiplier, uint64_t nonce)
{
	*probes = (struct md_probes){.ops = ops,
				     .arg = arg,
				     .interval_ns = interval_ns,
				     .multiplier = multiplier,
				     .nonce = nonce,
				     .n_changes = 1,
				     .next_ns = UINT64_MAX,
				     .regular_ns = UINT64_MAX};
}

struct md_probe *md_probes_find(const struct md_probes *probes, const struct md_probe_key *path)
{
	struct md_probe *p;

	HASH_FIND(hh, probes->by_key, path, sizeof(*path), p);
	return p;
}

/* ---- notification ---------------------------------------------------------------------------- */

/* A process that only works on the path is not told SILENT: silence that proves nothing is of no use to it. */
static enum mv_probed as_seen_by(const struct md_probe_watch *watch, enum mv_probed state)
{
	return watch->watch == MV_WATCH_WORK && state == MV_PROBED_SILENT ? MV_PROBED_UP : state;
}

void md_probe_untold(struct md_probes *probes, struct md_probe_watch *watch, bool untold)
{
	if (watch->untold_prev) {
		DL_DELETE2(probes->untold, watch, untold_prev, untold_next);
		probes->n_untold--;
	}
	watch->untold_prev = watch->untold_next = NULL;
	if (untold) {
		DL_APPEND2(probes->untold, watch, untold_prev, untold_next);
		probes->n_untold++;
	}
}

/* A warned process is told once the warning is over. */
static bool has_changed(const struct md_probe_watch *watch)
{
	const struct md_probe *p = watch->probe;

	if (!watch->told)
		return true;
	return watch->warned ? !p->suspicion.warned : watch->told_probed != as_seen_by(watch, p->state);
}

void md_probe_tell_one(struct md_probes *probes, struct md_probe_watch *watch)
{
	const struct md_probe *p = watch->probe;
	enum mv_probed state = as_seen_by(watch, p->state);

	if (has_changed(watch)) {
		watch->told = probes->ops->tell(probes->arg, watch->client, &p->key, state);
		watch->told_probed = state;
		watch->warned &= !watch->told;
	}
	md_probe_untold(probes, watch, !watch->told);
}

void md_probe_tell(struct md_probes *probes, struct md_probe *p)
{
	struct md_probe_watch *watch;

	LIST_FOREACH(watch, &p->watches, of_path) {
		if (!has_changed(watch)) {
			md_probe_untold(probes, watch, false);
		} else if (probes->n_tells < MD_TELLS_AT_ONCE) {
			probes->n_tells++;
			md_probe_tell_one(probes, watch);
		} else {
			/* Whoever waits keeps the place: with changes without end the last ones would never be told. */
			if (!watch->untold_prev)
				md_probe_untold(probes, watch, true);
			probes->n_hurry = probes->n_untold;
		}
	}
}

void md_probe_set_state(struct md_probes *probes, struct md_probe *p, enum mv_probed state)
{
	if (p->state == state)
		return;
	probes->n_changes += md_probes_doubt(probes) || state == MV_PROBED_DOWN;
	probes->n_down -= p->state == MV_PROBED_DOWN;
	probes->n_down += state == MV_PROBED_DOWN;
	p->state = state;
	md_probe_tell(probes, p);
}

/* Those that have not been tried wait for no longer than need be: the event loop may have a lot to do in each turn. */
static unsigned int tells_of_turn(const struct md_probes *probes)
{
	if (!probes->n_hurry || probes->n_tells + MD_TELLS_PER_TURN > MD_TELLS_AT_ONCE)
		return MD_TELLS_PER_TURN;
	return MD_TELLS_AT_ONCE - probes->n_tells;
}

void md_probes_tell_the_rest(struct md_probes *probes)
{
	unsigned int most = tells_of_turn(probes);
	const struct md_probe_watch *last = probes->untold ? probes->untold->untold_prev : NULL;

	/* A user may have thousands of watches and read nothing. */
	for (unsigned int i = 0; i < most && last; i++) {
		struct md_probe_watch *watch = probes->untold;

		if (watch == last)
			last = NULL;
		md_probe_tell_one(probes, watch);
		probes->n_hurry -= probes->n_hurry > 0;
	}
	if (!last)
		probes->n_hurry = 0;
	probes->n_tells = 0;
}

/* ---- schedule -------------------------------------------------------------------------------- */

void md_probe_set_rounds(struct md_probes *probes, struct md_probe *p, unsigned int rounds)
{
	probes->n_changes += !rounds != !p->suspicion.rounds;
	p->suspicion.rounds = rounds;
}

void md_probe_set_suspect(struct md_probes *probes, struct md_probe *p, bool suspect)
{
	probes->n_suspect += suspect;
	probes->n_suspect -= p->suspect;
	p->suspect = suspect;
	md_probe_set_rounds(probes, p, 0);
}

/*
 * How many paths share a rate with this one? @n of all accounts do. Accounts have half as much besides, which they share
 * alike: a user with thousands of paths does not have the few paths of others probed seldom.
 */
static size_t n_alike(const struct md_probes *probes, const struct md_probe *p, size_t n)
{
	const struct md_probe_share *share = LIST_FIRST(&p->shares);

	for (unsigned int i = 0; share && i < MD_PROBE_ACCOUNTS; i++, share = LIST_NEXT(share, of_path))
		if (share->n_scheduled && 2 * probes->n_users * share->user->n_scheduled < n)
			n = 2 * probes->n_users * share->user->n_scheduled;
	return n;
}

uint64_t md_probe_interval(const struct md_probes *probes, const struct md_probe *p)
{
	return larger(probes->interval_ns, n_alike(probes, p, probes->n_scheduled) * MD_S / MD_PROBES_PER_S);
}

/* ns between two rounds of the path, if it and @n paths of all accounts are suspect */
static uint64_t pace_of_suspects(const struct md_probes *probes, const struct md_probe *p, size_t n)
{
	return larger(md_probes_part(probes), n_alike(probes, p, n) * (1 + MD_WITNESSES_MAX) * MD_S / MD_PROBES_BURST_PER_S);
}

uint64_t md_probe_pace(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	uint64_t interval = md_probe_interval(probes, p);
	uint64_t pace = p->suspect ? pace_of_suspects(probes, p, probes->n_suspect) : interval;
	uint64_t since = p->suspect ? p->suspicion.since_ns : larger(p->answered_ns, p->begun_ns);
	uint64_t brisk = BRISK_INTERVALS * larger(probes->interval_ns, pace), age = now_ns > since ? now_ns - since : 0;

	if (age < brisk)
		return pace;
	return age < 10 * brisk ? 10 * interval : 100 * interval;
}

uint64_t md_probe_pace_on_grid(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	uint64_t grid = md_probes_part(probes);

	return (md_probe_pace(probes, p, now_ns) + grid - 1) / grid * grid;
}

uint64_t md_probe_behind_peer(const struct md_probes *probes, const struct md_probe *p)
{
	return p->heard.at_ns + md_probe_interval(probes, p) + md_probes_part(probes) / 2;
}

void md_probe_schedule(const struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	uint64_t grid = md_probes_part(probes);

	p->next_ns = (now_ns + grid / 4) / grid * grid + md_probe_pace_on_grid(probes, p, now_ns);
	if (!p->suspect && p->state == MV_PROBED_UP)
		p->next_ns = larger(p->next_ns, md_probe_behind_peer(probes, p));
}

void md_probes_set_next(struct md_probes *probes, uint64_t regular_ns)
{
	bool awaited = probes->n_awaited && probes->awaited_ns < regular_ns;

	probes->regular_ns = regular_ns;
	probes->next_ns = awaited ? probes->awaited_ns : regular_ns;
}

uint64_t md_probe_due(const struct md_probes *probes, const struct md_probe *p)
{
	uint64_t answer_ns = p->sent_ns + larger(md_probes_part(probes), 2000ull * p->rtt.slow_us);

	return p->awaited && answer_ns < p->next_ns ? answer_ns : p->next_ns;
}

void md_probes_find_next(struct md_probes *probes, uint64_t now_ns)
{
	uint64_t next_ns = probes->untold ? now_ns + probes->interval_ns : UINT64_MAX;
	struct md_probe *p, *next;

	probes->awaited_ns = UINT64_MAX;
	HASH_ITER(hh, probes->by_key, p, next) {
		if (p->next_ns < next_ns)
			next_ns = p->next_ns;
		if (p->awaited && md_probe_due(probes, p) < probes->awaited_ns)
			probes->awaited_ns = md_probe_due(probes, p);
	}
	md_probes_set_next(probes, next_ns);
}

/*
 * Moves the next tick to an earlier time, never to a later one: an idle tick, which computes the time anew, costs less
 * than a search of all paths at each change.
 */
void md_probes_not_after(struct md_probes *probes, uint64_t at_ns)
{
	if (at_ns < probes->regular_ns)
		md_probes_set_next(probes, at_ns);
}

/*
 * A path whose echo is missing is probed at once, with witnesses, and each witness whose echo is missing likewise: who
 * answers most probes would have all paths probed in each turn. So a path that was suspect lately keeps its schedule.
 */
bool md_probe_was_suspect_lately(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	return p->suspicion.since_ns && now_ns - p->suspicion.since_ns < pace_of_suspects(probes, p, probes->n_scheduled);
}

void md_probe_await(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	if (p->answered == p->number || p->state == MV_PROBED_UNKNOWN || p->state == MV_PROBED_DOWN ||
	    md_probe_was_suspect_lately(probes, p, now_ns))
		return;
	probes->n_awaited += !p->awaited;
	p->awaited = true;
}

void md_probe_await_no_more(struct md_probes *probes, struct md_probe *p)
{
	probes->n_awaited -= p->awaited;
	p->awaited = false;
}

void md_probes_tell_soon(struct md_probes *probes, uint64_t now_ns)
{
	if (probes->untold)
		md_probes_not_after(probes, now_ns + probes->interval_ns);
}
