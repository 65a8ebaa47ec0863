/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "probes.h"

#include <stdlib.h>
#include <string.h>

/* A path that does not answer is probed ten times as seldom after this many intervals, and a hundred times after ten times as many. */
#define BRISK_INTERVALS 50
/* A path that answers after those who work there were warned: until they are warned again. */
#define WARN_AGAIN_NS (10 * MD_S)
/* With more paths some tick is due soon anyway, and to find out which one costs more than a tick in vain. */
#define FEW_PATHS 64
/* Nobody is warned before that can be over so soon: who is warned does not wait for ever (providers/mesh/probed.h). */
#define WARN_AHEAD_NS (MD_S / 10)

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

static bool same_host(const struct md_probe *a, const struct md_probe *b)
{
	return a->has_host && b->has_host && !memcmp(&a->host, &b->host, sizeof(a->host));
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Who only works there has no use for a silence that proves nothing. */
static enum mv_probed as_seen_by(const struct md_probe_watch *watch, enum mv_probed state)
{
	return watch->watch == MV_WATCH_WORK && state == MV_PROBED_SILENT ? MV_PROBED_UP : state;
}

static void tell(struct md_probes *probes, struct md_probe *p)
{
	struct md_probe_watch *watch;

	LIST_FOREACH(watch, &p->watches, of_path) {
		enum mv_probed state = as_seen_by(watch, p->state);

		/* Whoever was warned waits for what comes of that. */
		if (watch->told && (watch->warned ? p->warned : watch->told_probed == state))
			continue;
		watch->told = probes->ops->tell(probes->arg, watch->client, &p->key, state);
		watch->told_probed = state;
		watch->warned &= !watch->told;
		probes->untold |= !watch->told;
	}
}

/* It answers. */
static void end_warning(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	if (!p->warned)
		return;
	p->warned = false;
	p->no_warning_ns = now_ns + WARN_AGAIN_NS;
	tell(probes, p);
}

static void set_state(struct md_probes *probes, struct md_probe *p, enum mv_probed state)
{
	if (p->state == state)
		return;
	probes->n_changes += md_probes_doubt(probes) || state == MV_PROBED_DOWN;
	probes->n_down -= p->state == MV_PROBED_DOWN;
	probes->n_down += state == MV_PROBED_DOWN;
	p->state = state;
	tell(probes, p);
}

static void tell_the_rest(struct md_probes *probes)
{
	struct md_probe *p, *next;

	if (!probes->untold)
		return;
	probes->untold = false;
	HASH_ITER(hh, probes->by_key, p, next)
	tell(probes, p);
}

/* ---- when ------------------------------------------------------------------------------------ */

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t part_of(const struct md_probes *probes)
{
	return probes->interval_ns / MD_PROBE_PARTS;
}

static void set_rounds(struct md_probes *probes, struct md_probe *p, unsigned int rounds)
{
	probes->n_changes += !rounds != !p->rounds;
	p->rounds = rounds;
}

static void set_suspect(struct md_probes *probes, struct md_probe *p, bool suspect)
{
	probes->n_suspect += suspect;
	probes->n_suspect -= p->suspect;
	p->suspect = suspect;
	set_rounds(probes, p, 0);
}

/* Between probes of a path that answers. */
static uint64_t interval_of(const struct md_probes *probes)
{
	return larger(probes->interval_ns, probes->n_scheduled * MD_S / MD_PROBES_PER_S);
}

/* How long until its next probe. */
static uint64_t pace(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	uint64_t interval = interval_of(probes);
	uint64_t part = larger(part_of(probes),
			       probes->n_suspect * (1 + MD_WITNESSES_MAX) * MD_S / MD_PROBES_BURST_PER_S);
	uint64_t since = p->suspect ? p->suspect_ns : larger(p->answered_ns, p->begun_ns);
	uint64_t brisk = BRISK_INTERVALS * probes->interval_ns, age = now_ns > since ? now_ns - since : 0;

	if (age < brisk)
		return p->suspect ? part : interval;
	return age < 10 * brisk ? 10 * interval : 100 * interval;
}

/* On a grid, so that paths of different phases do not each need a turn of their own, and turns that come a little late do not add up. */
static uint64_t pace_on_grid(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	uint64_t grid = part_of(probes);

	return (pace(probes, p, now_ns) + grid - 1) / grid * grid;
}

/* A little later than the next one of the peer, if there is one: so it is always the same end that probes. Not on the grid, which would be later still. */
static uint64_t behind_peer(const struct md_probes *probes, const struct md_probe *p)
{
	return p->heard_ns + interval_of(probes) + part_of(probes) / 2;
}

static void schedule(const struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	uint64_t grid = part_of(probes);

	p->next_ns = (now_ns + grid / 4) / grid * grid + pace_on_grid(probes, p, now_ns);
	if (!p->suspect && p->state == MV_PROBED_UP)
		p->next_ns = larger(p->next_ns, behind_peer(probes, p));
}

static void set_next(struct md_probes *probes, uint64_t regular_ns)
{
	bool awaited = probes->n_awaited && probes->awaited_ns < regular_ns;

	probes->regular_ns = regular_ns;
	probes->next_ns = awaited ? probes->awaited_ns : regular_ns;
}

/* When its next probe is due: earlier, if the last one has no answer where there should be one by now. */
static uint64_t due_of(const struct md_probes *probes, const struct md_probe *p)
{
	uint64_t answer_ns = p->sent_ns + larger(part_of(probes), 2000ull * p->slow_us);

	return p->awaited && answer_ns < p->next_ns ? answer_ns : p->next_ns;
}

/* Looks at all of them: once in a tick. */
static void find_next(struct md_probes *probes, uint64_t now_ns)
{
	uint64_t next_ns = probes->untold ? now_ns + probes->interval_ns : UINT64_MAX;
	struct md_probe *p, *next;

	probes->awaited_ns = UINT64_MAX;
	HASH_ITER(hh, probes->by_key, p, next) {
		if (p->next_ns < next_ns)
			next_ns = p->next_ns;
		if (p->awaited && due_of(probes, p) < probes->awaited_ns)
			probes->awaited_ns = due_of(probes, p);
	}
	set_next(probes, next_ns);
}

/*
 * What is due earlier than it was moves the next tick. What is due later leaves it: a tick that finds nothing due, and sets the time
 * as it is, costs less than to look at all of them each time.
 */
static void not_after(struct md_probes *probes, uint64_t at_ns)
{
	if (at_ns < probes->regular_ns)
		set_next(probes, at_ns);
}

/* One that has just been probed by itself; find_next() follows. */
static void await(struct md_probes *probes, struct md_probe *p)
{
	if (p->answered == p->number || p->state == MV_PROBED_UNKNOWN || p->state == MV_PROBED_DOWN)
		return;
	probes->n_awaited += !p->awaited;
	p->awaited = true;
}

static void await_no_more(struct md_probes *probes, struct md_probe *p)
{
	probes->n_awaited -= p->awaited;
	p->awaited = false;
}

static void tell_soon(struct md_probes *probes, uint64_t now_ns)
{
	if (probes->untold)
		not_after(probes, now_ns + probes->interval_ns);
}

/* ---- watching -------------------------------------------------------------------------------- */

static struct md_probe *add(struct md_probes *probes, const struct md_probe_key *path)
{
	struct md_probe *p = probes->n < MD_PROBES_MAX ? calloc(1, sizeof(*p)) : NULL;

	if (!p)
		return NULL;
	p->key = *path;
	/* Any number will do that others cannot tell. */
	probes->nonce = probes->nonce * 6364136223846793005ull + 1442695040888963407ull;
	p->nonce = probes->nonce;
	p->next_ns = UINT64_MAX;
	LIST_INIT(&p->watches);
	HASH_ADD(hh, probes->by_key, key, sizeof(p->key), p);
	if (!p->hh.tbl) {
		free(p);
		return NULL;
	}
	probes->n++;
	return p;
}

static void drop(struct md_probes *probes, struct md_probe *p)
{
	probes->n_suspect -= p->suspect;
	probes->n_down -= p->state == MV_PROBED_DOWN;
	probes->n_changes++;
	HASH_DEL(probes->by_key, p);
	probes->n--;
	free(p);
}

static bool is_scheduled(uint8_t watch)
{
	return watch & (MV_WATCH_WORK | MV_WATCH_HOME);
}

/* @before, @after: what one process has it watched for */
static void count_scheduled(struct md_probes *probes, struct md_probe *p, uint8_t before, uint8_t after, uint64_t now_ns)
{
	bool was = p->n_scheduled;

	p->n_scheduled += is_scheduled(after);
	p->n_scheduled -= is_scheduled(before);
	if (was == (p->n_scheduled > 0))
		return;
	probes->n_scheduled += was ? (size_t)-1 : 1;
	probes->n_changes++;
	p->begun_ns = now_ns;
	p->next_ns = was ? UINT64_MAX : now_ns;
	not_after(probes, p->next_ns);
	if (was) {
		set_suspect(probes, p, false);
		await_no_more(probes, p);
		p->warned = false;
	}
	if (!probes->n_scheduled && !probes->untold)
		set_next(probes, UINT64_MAX);
}

/* A path counts once for a user, however many processes of his have it watched. */
static bool is_watched_by(const struct md_probe *p, uid_t uid)
{
	const struct md_probe_watch *watch;

	LIST_FOREACH(watch, &p->watches, of_path)
	if (watch->uid == uid)
		return true;
	return false;
}

/* One more path. Return: 0; -EDQUOT; -ENOMEM. */
static int count_path(struct md_probes *probes, uid_t uid)
{
	struct md_probe_user *user;

	if (!uid)
		return 0;
	HASH_FIND(hh, probes->users, &uid, sizeof(uid), user);
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return -ENOMEM;
		user->uid = uid;
		HASH_ADD(hh, probes->users, uid, sizeof(user->uid), user);
		if (!user->hh.tbl) {
			free(user);
			return -ENOMEM;
		}
	}
	if (user->n_paths >= MD_PATHS_PER_UID)
		return -EDQUOT;
	user->n_paths++;
	return 0;
}

static void uncount_path(struct md_probes *probes, uid_t uid)
{
	struct md_probe_user *user;

	if (!uid)
		return;
	HASH_FIND(hh, probes->users, &uid, sizeof(uid), user);
	if (--user->n_paths)
		return;
	HASH_DEL(probes->users, user);
	free(user);
}

static void drop_watch(struct md_probes *probes, struct md_probe_watch *watch)
{
	struct md_probe *p = watch->probe;
	uid_t uid = watch->uid;

	count_scheduled(probes, p, watch->watch, 0, 0);
	LIST_REMOVE(watch, of_path);
	if (!is_watched_by(p, uid))
		uncount_path(probes, uid);
	LIST_REMOVE(watch, of_client);
	watch->list->n--;
	free(watch);
	probes->n_watches--;
	if (LIST_EMPTY(&p->watches))
		drop(probes, p);
}

void md_probes_drop(struct md_probes *probes, struct md_probe_watch_list *list)
{
	struct md_probe_watch *watch;

	while ((watch = LIST_FIRST(&list->watches)))
		drop_watch(probes, watch);
}

void md_probes_fini(struct md_probes *probes)
{
	struct md_probe *p, *next;

	HASH_ITER(hh, probes->by_key, p, next) {
		/* The last one takes the path with it. */
		for (size_t more = 1; more;) {
			struct md_probe_watch *watch = LIST_FIRST(&p->watches);

			more = LIST_NEXT(watch, of_path) != NULL;
			drop_watch(probes, watch);
		}
	}
}

static int new_watch(struct md_probes *probes, const struct md_probe_key *path, uint64_t client, uid_t uid,
		     struct md_probe_watch_list *list, struct md_probe_watch **ret)
{
	struct md_probe *p = md_probes_find(probes, path);
	bool counts = !p || !is_watched_by(p, uid);
	struct md_probe_watch *watch;
	int err;

	if (list->n >= MD_WATCHES_PER_CLIENT || (!p && probes->n >= MD_PROBES_MAX))
		return -ENOSPC;
	err = counts ? count_path(probes, uid) : 0;
	if (err)
		return err;
	watch = calloc(1, sizeof(*watch));
	if (watch && !p)
		p = add(probes, path);
	if (!watch || !p) {
		free(watch);
		if (counts)
			uncount_path(probes, uid);
		return -ENOMEM;
	}
	watch->probe = p;
	watch->client = client;
	watch->uid = uid;
	watch->list = list;
	LIST_INSERT_HEAD(&p->watches, watch, of_path);
	LIST_INSERT_HEAD(&list->watches, watch, of_client);
	list->n++;
	probes->n_watches++;
	*ret = watch;
	return 0;
}

static struct md_probe_watch *find_watch(const struct md_probes *probes, const struct md_probe_key *path, uint64_t client)
{
	struct md_probe *p = md_probes_find(probes, path);
	struct md_probe_watch *watch;

	if (!p)
		return NULL;
	LIST_FOREACH(watch, &p->watches, of_path)
	if (watch->client == client)
		return watch;
	return NULL;
}

bool md_probes_watches(const struct md_probes *probes, const struct md_probe_key *path, uint64_t client)
{
	return find_watch(probes, path, client);
}

int md_probes_watch(struct md_probes *probes, const struct md_probe_key *path, uint8_t mask, uint64_t client, uid_t uid,
		    struct md_probe_watch_list *list, uint64_t now_ns)
{
	struct md_probe_watch *watch = find_watch(probes, path, client);
	int err;

	if (!probes->interval_ns)
		return -EOPNOTSUPP;
	if (!mask) {
		if (watch)
			drop_watch(probes, watch);
		return 0;
	}
	if (!watch) {
		err = new_watch(probes, path, client, uid, list, &watch);
		if (err)
			return err;
	}
	count_scheduled(probes, watch->probe, watch->watch, mask, now_ns);
	watch->watch = mask;
	/* An answer is waited for; but who was warned has one, and is told what comes of that. */
	watch->told = watch->told && watch->warned && watch->probe->warned;
	tell(probes, watch->probe);
	tell_soon(probes, now_ns);
	return 0;
}

/* ---- what comes back ------------------------------------------------------------------------- */

/* A witness has come: those that wait for one need not wait longer. */
static void wake_suspects(struct md_probes *probes, const struct md_probe *of, uint64_t now_ns)
{
	struct md_probe *p, *next;

	HASH_ITER(hh, probes->by_key, p, next) {
		if (!p->suspect || !same_host(p, of))
			continue;
		p->suspect_ns = now_ns;
		if (p->next_ns > now_ns + part_of(probes))
			p->next_ns = now_ns;
		not_after(probes, p->next_ns);
	}
}

static void clear_suspicion(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	bool was_suspect = p->suspect;

	set_suspect(probes, p, false);
	if (was_suspect)
		wake_suspects(probes, p, now_ns);
}

/* A sixteenth less for each interval, in which there may have been no echo of ours: see md_probes_heard(). */
static void time_it(const struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	uint64_t n = 1 + (now_ns - p->timed_ns) / interval_of(probes);

	for (; n && p->slow_us > p->rtt_us + 16; n--)
		p->slow_us -= (p->slow_us - p->rtt_us) / 16;
	if (n || p->slow_us < p->rtt_us)
		p->slow_us = p->rtt_us;
	p->timed_ns = now_ns;
}

void md_probes_echo(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *echo,
		    const struct mv_host_id *sender, uint64_t now_ns)
{
	struct md_probe *p = md_probes_find(probes, path);
	bool off_pace;

	if (!p || echo->nonce != p->nonce || !echo->number || echo->number > p->number) {
		probes->count.stray++;
		return;
	}
	if (echo->number <= p->answered)
		return;
	probes->count.echoes++;
	off_pace = p->suspect || pace(probes, p, now_ns) > probes->interval_ns;
	p->answered = echo->number;
	p->answered_ns = now_ns;
	p->n_answered++;
	probes->n_changes += !p->has_host || memcmp(&p->host, sender, sizeof(*sender));
	p->host = *sender;
	p->has_host = true;
	p->peer_dropped = echo->dropped;
	if (echo->number == p->number) {
		p->rtt_us = (uint32_t)((now_ns - p->sent_ns) / 1000);
		time_it(probes, p, now_ns);
		await_no_more(probes, p);
	}
	clear_suspicion(probes, p, now_ns);
	end_warning(probes, p, now_ns);
	if (p->state == MV_PROBED_DOWN && p->n_answered >= probes->multiplier) {
		probes->count.recovered++;
		set_state(probes, p, MV_PROBED_UP);
	} else if (p->state != MV_PROBED_DOWN) {
		set_state(probes, p, MV_PROBED_UP);
	}
	tell_soon(probes, now_ns);
	if (off_pace && p->n_scheduled)
		schedule(probes, p, now_ns);
	set_next(probes, p->next_ns < probes->regular_ns ? p->next_ns : probes->regular_ns);
}

/* Did the answer to the probe before this one arrive, and not long after it went? */
static bool confirms(const struct md_probes *probes, const struct md_probe *p, const struct md_probe_wire *probe, uint64_t now_ns)
{
	return probe->nonce == p->heard_nonce && probe->behind && probe->number - probe->behind == p->heard_number &&
	       now_ns - p->heard_ns <= 2 * interval_of(probes);
}

static void put_off(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	bool was_first = p->next_ns <= probes->regular_ns;

	p->next_ns = behind_peer(probes, p);
	not_after(probes, p->next_ns); /* earlier than it was, if paths have become fewer */
	probes->count.spared++;
	if (was_first && !probes->untold && probes->n <= FEW_PATHS)
		find_next(probes, now_ns);
}

static void probe_now(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	/* No more often than suspects are probed, whatever the peer says. */
	if (p->next_ns <= now_ns || now_ns - p->sent_ns < part_of(probes))
		return;
	p->next_ns = now_ns;
	not_after(probes, now_ns);
}

void md_probes_heard(struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_wire *probe,
		     const struct mv_host_id *sender, uint64_t now_ns)
{
	struct md_probe *p = md_probes_find(probes, path);
	bool confirmed, settled, rests;

	if (!p || !p->has_host || memcmp(&p->host, sender, sizeof(*sender)))
		return;
	confirmed = confirms(probes, p, probe, now_ns);
	if (confirmed)
		p->answered_ns = larger(p->answered_ns, p->heard_ns);
	p->heard_nonce = probe->nonce;
	p->heard_number = probe->number;
	p->heard_ns = now_ns;
	/* One of ours that is under way tells more; where both are, time and again, one of the two ends is next to rest. */
	settled = p->n_scheduled && p->state == MV_PROBED_UP && p->answered == p->number;
	rests = settled || (p->awaited && p->state == MV_PROBED_UP && memcmp(&path->local, &path->remote, sizeof(path->local)) > 0);
	if (rests && confirmed && now_ns - p->sent_ns < MD_PROBE_OWN_NS)
		put_off(probes, p, now_ns);
	else if (settled && probe->behind > 1)
		probe_now(probes, p, now_ns);
}

void md_probes_challenged(struct md_probes *probes, const struct md_probe_key *path, uint64_t now_ns)
{
	struct md_probe *p = md_probes_find(probes, path);

	if (!p || p->answered == p->number)
		return;
	clear_suspicion(probes, p, now_ns);
	end_warning(probes, p, now_ns);
	p->number = p->answered; /* the one under way has been dropped */
	if (p->n_scheduled) {
		p->next_ns = now_ns;
		not_after(probes, now_ns);
	}
}

/* ---- judging --------------------------------------------------------------------------------- */

/*
 * One that was asked after the suspect, in the same turn, and has answered. Or in a later turn: many suspects are not all asked in the
 * same turns, but have the same witnesses.
 */
static struct md_probe *witness_of(const struct md_probes *probes, const struct md_probe *suspect)
{
	struct md_probe *p, *next;

	/* Not asked itself. */
	if (!suspect->turn)
		return NULL;
	HASH_ITER(hh, probes->by_key, p, next)
	if (p != suspect && same_host(p, suspect) && p->turn >= suspect->turn && p->answered >= p->turn_number)
		return p;
	return NULL;
}

/* Who has it watched is to know first which of the other paths are better. */
static void judge_others(struct md_probes *probes, const struct md_probe *suspect)
{
	struct md_probe *p, *next;

	HASH_ITER(hh, probes->by_key, p, next)
	if (p != suspect && same_host(p, suspect) && p->turn == suspect->turn && p->answered < p->turn_number &&
	    p->state == MV_PROBED_UP)
		set_state(probes, p, MV_PROBED_SILENT);
}

static unsigned int rounds_needed(const struct md_probes *probes)
{
	return MD_PROBE_PARTS * (probes->multiplier - 1);
}

/* Early enough to be of use, and not so early that those who are warned lose patience. */
static bool is_time_to_warn(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	uint64_t rest = (rounds_needed(probes) - p->rounds) * pace_on_grid(probes, p, now_ns);

	return p->rounds >= MD_PROBE_WARN_ROUNDS && rest <= WARN_AHEAD_NS && !p->warned && now_ns >= p->no_warning_ns;
}

static void warn(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	struct md_probe_watch *watch;

	if (!is_time_to_warn(probes, p, now_ns))
		return;
	judge_others(probes, p);
	LIST_FOREACH(watch, &p->watches, of_path)
	if (watch->watch & MV_WATCH_WORK && probes->ops->warn(probes->arg, watch->client, &p->key))
		p->warned = watch->warned = true;
	probes->count.warnings += p->warned;
}

static void is_down(struct md_probes *probes, struct md_probe *suspect)
{
	judge_others(probes, suspect);
	set_suspect(probes, suspect, false);
	suspect->warned = false;
	probes->count.down++;
	set_state(probes, suspect, MV_PROBED_DOWN);
}

static void judge_round(struct md_probes *probes, struct md_probe *p, bool is_void, uint64_t now_ns)
{
	struct md_probe *witness = is_void ? NULL : witness_of(probes, p);

	if (!witness) {
		probes->count.void_rounds++;
		/* For those who wait for it to work steadily. */
		if (now_ns - p->suspect_ns >= probes->multiplier * probes->interval_ns)
			set_state(probes, p, MV_PROBED_SILENT);
		return;
	}
	if (witness->peer_dropped != p->peer_dropped) {
		p->peer_dropped = witness->peer_dropped;
		set_rounds(probes, p, 0);
		probes->count.void_rounds++;
		return;
	}
	probes->count.rounds++;
	set_rounds(probes, p, p->rounds + 1);
	if (p->rounds >= rounds_needed(probes))
		is_down(probes, p);
	else
		warn(probes, p, now_ns);
}

static void review(struct md_probes *probes, struct md_probe *p, uint64_t now_ns)
{
	await_no_more(probes, p);
	if (p->answered == p->number)
		return;
	p->n_answered = 0;
	if (p->suspect) {
		judge_round(probes, p, p->dropped != probes->dropped, now_ns);
	} else if (p->state == MV_PROBED_UP || p->state == MV_PROBED_SILENT) {
		set_suspect(probes, p, true);
		p->suspect_ns = now_ns;
		p->turn = 0;
	}
}

/* The newest probe may be on its way still; more than that is silence. */
static bool answers(const struct md_probe *p)
{
	return p->number - p->answered < 2;
}

/* Is the case against it among the few that are furthest? */
static bool is_among_first(const struct md_probes *probes, const struct md_probe *suspect)
{
	const struct md_probe *p, *next;
	unsigned int n_before = 0;
	bool earlier = true;

	HASH_ITER(hh, probes->by_key, p, next) {
		if (p == suspect)
			earlier = false;
		else if (p->suspect && p->rounds >= suspect->rounds + !earlier)
			n_before++;
	}
	return suspect->rounds && n_before < MD_SCARCE_SUSPECTS;
}

/*
 * Whoever answers has room. Of the others, those that are about to be found dead, one after another; and now and then everyone, who
 * might answer again.
 */
static bool has_room(const struct md_probes *probes, const struct md_probe *p, uint64_t now_ns)
{
	unsigned int waiting;

	if (answers(p))
		return true;
	waiting = probes->ops->waiting(probes->arg, &p->key);
	if (waiting < MD_SCARCE_PERCENT)
		return true;
	if (waiting >= MD_SCARCER_PERCENT)
		return false;
	return is_among_first(probes, p) || now_ns - p->sent_ns >= MD_SCARCE_NS;
}

enum md_probes_answer md_probes_answer(const struct md_probes *probes, const struct md_probe_key *path)
{
	const struct md_probe *p = md_probes_find(probes, path);
	unsigned int waiting;

	if (p && answers(p))
		return MD_PROBES_ANSWER;
	waiting = probes->ops->waiting(probes->arg, path);
	if (waiting < (p ? MD_SCARCE_PERCENT : MD_SCARCEST_PERCENT))
		return MD_PROBES_ANSWER;
	return p && p->state == MV_PROBED_DOWN ? MD_PROBES_LEAVE : MD_PROBES_REFUSE;
}

/* In a turn of suspects and witnesses, or by itself. */
static void send_probe(struct md_probes *probes, struct md_probe *p, bool in_turn, uint64_t now_ns)
{
	uint64_t behind = p->number + 1 - p->answered;
	const struct md_probe_wire wire = {
		.nonce = p->nonce, .number = p->number + 1, .behind = p->answered && behind <= UINT32_MAX ? (uint32_t)behind : 0};
	int err = has_room(probes, p, now_ns) ? probes->ops->send(probes->arg, &p->key, &wire) : -EAGAIN;

	if (md_probes_is_shortage(err)) {
		probes->count.held++;
		if (in_turn)
			p->turn = 0;
		return;
	}
	p->number = wire.number;
	p->dropped = probes->dropped;
	p->sent_ns = now_ns;
	if (in_turn) {
		p->turn = probes->turn;
		p->turn_number = p->number;
	}
	if (err)
		probes->count.not_sent++;
	else
		probes->count.sent++;
}

/* Those of one kind. Return: how many. */
static unsigned int send_witnesses_that(bool answer, struct md_probes *probes, const struct md_probe *suspect, unsigned int max,
					uint64_t now_ns)
{
	struct md_probe *p, *next;
	unsigned int n = 0;

	HASH_ITER(hh, probes->by_key, p, next) {
		if (n == max)
			break;
		if (p->suspect || p->turn == probes->turn || answers(p) != answer)
			continue;
		if (!p->has_host)
			p->has_host = probes->ops->host(probes->arg, &p->key, &p->host);
		if (!same_host(p, suspect))
			continue;
		send_probe(probes, p, true, now_ns);
		if (p->n_scheduled)
			schedule(probes, p, now_ns);
		n++;
	}
	return n;
}

/* What is probed right behind the suspects of this turn. Return: how many. */
static unsigned int send_witnesses(struct md_probes *probes, const struct md_probe *suspect, uint64_t now_ns)
{
	/* However many are dead already, they come last. */
	unsigned int n = send_witnesses_that(true, probes, suspect, MD_WITNESSES_MAX, now_ns);

	return n + send_witnesses_that(false, probes, suspect, MD_WITNESSES_MAX - n, now_ns);
}

void md_probes_tick(struct md_probes *probes, bool drained, uint32_t dropped, uint64_t now_ns)
{
	uint64_t slack = part_of(probes) / 2;
	unsigned int n_sent = 0;
	bool late = false;
	struct md_probe *p, *next;

	if (!drained) {
		probes->next_ns = now_ns + part_of(probes);
		return;
	}
	probes->dropped = dropped;
	probes->turn++;
	/* Those that are due a little later keep step. */
	HASH_ITER(hh, probes->by_key, p, next) {
		uint64_t due_ns = due_of(probes, p);

		if (!p->n_scheduled || due_ns > now_ns + (p->suspect ? slack : 0) || n_sent >= MD_PROBES_PER_TURN)
			continue;
		/* Being late takes nothing from the proof: both echoes had the same time, and more of it. */
		late |= now_ns > due_ns + probes->interval_ns;
		review(probes, p, now_ns);
		send_probe(probes, p, p->suspect, now_ns);
		if (!p->suspect)
			await(probes, p);
		n_sent++;
		schedule(probes, p, now_ns);
	}
	HASH_ITER(hh, probes->by_key, p, next)
	if (probes->n_suspect && p->suspect && p->turn == probes->turn && n_sent < MD_PROBES_PER_TURN)
		n_sent += send_witnesses(probes, p, now_ns);
	probes->count.late += late;
	tell_the_rest(probes);
	find_next(probes, now_ns);
}
