/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "targetsint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gidmap.h"
#include "hosts.h"
#include "secure.h"

struct md_target *md_targets_find(const struct md_targets *targets, const union ibv_gid *gid)
{
	struct md_target *target;

	HASH_FIND(hh, targets->by_gid, gid->raw, sizeof(gid->raw), target);
	return target;
}

static int add(struct md_targets *targets, const union ibv_gid *gid, struct md_target_user *user, struct md_target **ret)
{
	struct md_target *target;

	if (!md_has_room(targets->n, MD_TARGETS_MAX, user->account) || md_target_user_full(user))
		return -ENOSPC;
	target = calloc(1, sizeof(*target));
	if (!target)
		return -ENOMEM;
	target->gid = *gid;
	HASH_ADD(hh, targets->by_gid, gid.raw, sizeof(gid->raw), target);
	if (!target->hh.tbl) {
		free(target);
		return -ENOMEM;
	}
	md_target_charge(targets, target, user);
	targets->n++;
	*ret = target;
	return 0;
}

static void remove_target(struct md_targets *targets, struct md_target *target)
{
	HASH_DEL(targets->by_gid, target);
	while (target->n_needs)
		md_target_user_put(targets, target->needs[--target->n_needs].user);
	target->payer->n--;
	md_target_user_put(targets, target->payer);
	targets->n--;
	free(target);
}

int md_targets_add(struct md_targets *targets, const union ibv_gid *gid, const char *name)
{
	struct md_target *target = md_targets_find(targets, gid);
	int err;

	if (target && target->name[0])
		return -EEXIST;
	if (!target) {
		err = add(targets, gid, &targets->root, &target);
		if (err)
			return err;
	} else {
		md_target_charge(targets, target, &targets->root);
	}
	snprintf(target->name, sizeof(target->name), "%s", name);
	return 0;
}

void md_targets_forget_file(struct md_targets *targets)
{
	struct md_target *target, *next;

	/* A target that a process needs stays. The next tick removes the others. */
	HASH_ITER(hh, targets->by_gid, target, next)
	target->name[0] = '\0';
}

struct md_target *md_targets_use(struct md_targets *targets, const union ibv_gid *gid, uint64_t account, uint64_t now_ns)
{
	struct md_target *target = md_targets_find(targets, gid);
	struct md_target_user *user = md_target_user_get(targets, account);

	if (user && (target || !add(targets, gid, user, &target))) {
		md_target_note_need(targets, target, user, true, now_ns);
		md_target_choose_payer(targets, target, now_ns);
		/* Other hosts prolong nothing that an account pays for: else the account would pay for ever. */
		if (account != MD_TARGETS_OF_OTHERS || target->payer->account == MD_TARGETS_OF_OTHERS)
			target->used_ns = now_ns;
	}
	if (user)
		md_target_user_put(targets, user);
	return user ? target : NULL;
}

void md_targets_share(struct md_targets *targets, const union ibv_gid *gid, uint64_t account, uint64_t now_ns)
{
	struct md_target *target = md_targets_find(targets, gid);
	struct md_target_user *user = target && md_target_is_wanted(target) ? md_target_user_get(targets, account) : NULL;

	if (!user)
		return;
	md_target_note_need(targets, target, user, false, now_ns);
	md_target_user_put(targets, user);
}

static bool is_answering(const struct md_target *target)
{
	return target->answered_ns && !target->silent_since_ns;
}

static bool is_listed(const struct md_desc *desc, const union ibv_gid *gid)
{
	for (uint32_t g = 0; g < desc->n_gids; g++)
		if (mv_gid_equal(&desc->gids[g].gid, gid))
			return true;
	return false;
}

void md_targets_unlearn(struct md_targets *targets, const struct md_target *of, const struct md_desc *desc)
{
	struct md_target *first = md_target_first(targets, of), *target;
	unsigned int kept = 0;

	for (unsigned int i = 0; first && i < first->n_learned; i++) {
		target = md_targets_find(targets, &first->learned[i]);
		if (!target || !mv_gid_equal(&target->via, &first->gid))
			continue;
		if (is_listed(desc, &target->gid))
			first->learned[kept++] = target->gid;
		else if (target->name[0] || target->used_ns)
			memset(&target->via, 0, sizeof(target->via));
		else
			remove_target(targets, target);
	}
	if (first)
		first->n_learned = kept;
}

/*
 * Is the target an address that one host lists, and at which another host answers, the one that answers at @first? Then the
 * target belongs to the host that answers: the target is not to go when the other host goes.
 */
static bool is_listed_by_another(const struct md_targets *targets, const struct md_target *target,
				 const struct md_target *first)
{
	const struct md_target *by = md_target_first(targets, target);

	/* A host may answer at two addresses. The address that the target was learnt from may be needed longer than @first. */
	return by != target && target->answered_ns && !memcmp(&target->host, &first->host, sizeof(target->host)) &&
	       (!by || memcmp(&by->host, &first->host, sizeof(by->host)));
}

bool md_targets_learn(struct md_targets *targets, const union ibv_gid *gid, const struct md_target *of)
{
	struct md_target *first = md_target_first(targets, of), *target = md_targets_find(targets, gid);
	size_t most = first && first->payer->account ? MD_TARGETS_PER_ACCOUNT / 2 : MD_TARGETS_PER_ACCOUNT;

	if (!first || first->n_learned == MD_LEARNED_TARGETS || (target && !is_listed_by_another(targets, target, first)))
		return false;
	/* Addresses that only stand by leave room for hosts that a process of any account, or of this one, will ask for. */
	if (!target && (first->payer->n >= most || add(targets, gid, first->payer, &target)))
		return false;
	target->via = first->gid;
	first->learned[first->n_learned++] = *gid;
	return true;
}

/* A target that has never answered lets the others go first until its interval is over: nobody may be there. */
static uint64_t turn_ns(const struct md_target *target)
{
	return target->answered_ns ? target->asked_ns : target->regular_ns;
}

/* Those that were asked longest ago come first. */
static int by_turn(const struct md_target *a, const struct md_target *b)
{
	return turn_ns(a) < turn_ns(b) ? -1 : turn_ns(a) > turn_ns(b);
}

void md_targets_hurry(struct md_targets *targets, const struct md_gidmap *map, bool tells, uint64_t now_ns)
{
	struct md_target *target, *next;

	/*
	 * MD_QUERY_RATE may hold most targets back until the next change. With an order that stays, some would never be
	 * asked.
	 */
	HASH_SRT(hh, targets->by_gid, by_turn);
	HASH_ITER(hh, targets->by_gid, target, next)
	{
		/*
		 * A target may be silent because of a port of ours, which is up now. That may be so since this agent was
		 * started. An address that no known host has may be nobody's, and waits for its time, unless it was not
		 * asked at all.
		 */
		if (!target->answered_ns && !target->unsent && !md_gidmap_find(map, &target->gid))
			continue;
		target->tells |= tells && target->answered_ns;
		target->n_tries = 0;
		if (target->next_ns > now_ns)
			target->next_ns = now_ns;
	}
}

bool md_target_hinted(struct md_target *target, const struct md_host *host, uint64_t start, uint64_t generation)
{
	if (host && host->desc && host->start == start && host->generation == generation)
		return false;
	return is_answering(target) && target->n_hints++ < MD_HINTS;
}

bool md_target_silent(const struct md_target *target, uint64_t now_ns)
{
	return target->silent_since_ns && now_ns - target->silent_since_ns >= MD_S &&
	       now_ns - target->asked_ns < MD_SILENT_NS;
}

bool md_target_expects(const struct md_target *target, uint64_t now_ns)
{
	return target->asked_ns && now_ns - target->asked_ns < MD_QUERY_NS;
}

bool md_target_answered(struct md_target *target, const struct mv_host_id *host, uint64_t now_ns)
{
	bool changed = !is_answering(target) || memcmp(&target->host, host, sizeof(*host));

	target->host = *host;
	target->answered_ns = now_ns;
	target->silent_since_ns = 0;
	target->n_tries = 0;
	/* If a query is due already, something has changed here since the answered query was sent. */
	if (target->next_ns > now_ns) {
		target->tells = false;
		target->next_ns = target->regular_ns;
	}
	return changed;
}

bool md_targets_may_answer(const struct md_targets *targets, const struct md_target *target, const struct mv_host_id *host, uint64_t now_ns)
{
	return !target->answered_ns || !memcmp(&target->host, host, sizeof(*host)) ||
	       now_ns - target->answered_ns >= md_targets_interval_ms(targets, target->payer->account) * MD_MS;
}

static void query(struct md_targets *targets, struct md_target *target, uint64_t now_ns,
		  bool (*ask)(void *arg, const struct md_target *target), void *arg)
{
	target->regular_ns = now_ns + md_targets_interval_ms(targets, target->payer->account) * MD_MS;
	if (is_answering(target)) {
		/* Queries in between, made for a process, do not count as tries. */
		if (!target->n_tries || target->next_ns <= now_ns) {
			target->n_tries++;
			target->next_ns = now_ns + MD_QUERY_RETRY_NS;
		}
	} else {
		/* If the last query is MD_SILENT_NS or longer ago, a new time of silence begins. */
		if (!target->silent_since_ns || now_ns - target->asked_ns >= MD_SILENT_NS)
			target->silent_since_ns = now_ns;
		target->next_ns = target->regular_ns;
		/* A program may be waiting for this host, and the first query may be lost. */
		if (!target->answered_ns && target->n_tries < MD_QUERY_TRIES && ++target->n_tries < MD_QUERY_TRIES)
			target->next_ns = now_ns + MD_QUERY_RETRY_NS;
	}
	target->asked_ns = now_ns;
	/* The cookie that came with the last answer may be too old, and the address another host's. */
	if (now_ns >= target->answered_ns + MD_COOKIE_EPOCH_NS)
		target->tells = false;
	target->unsent = !ask(arg, target);
}

/* @due_ns: when a target is due. If MD_QUERY_RATE holds it back, come back when the bucket is full. */
static uint64_t next_tick(uint64_t due_ns, uint64_t now_ns)
{
	return due_ns > now_ns ? due_ns : now_ns + QUERY_BURST * QUERY_EACH_NS;
}

uint64_t md_targets_ask_now(struct md_targets *targets, struct md_target *target, uint64_t account, uint64_t now_ns,
			    bool (*ask)(void *arg, const struct md_target *target), void *arg)
{
	struct md_target_user *user = account == MD_TARGETS_OF_OTHERS ? NULL : md_target_user_find(targets, account);

	md_target_choose_payer(targets, target, now_ns);
	if (!user)
		user = target->payer;
	if (md_target_user_has_room(user, now_ns)) {
		md_target_user_take_room(user, now_ns);
		target->n_hints = 0;
		query(targets, target, now_ns, ask, arg);
	}
	return next_tick(target->next_ns, now_ns);
}

void md_targets_ask_hinted(struct md_targets *targets, struct md_target *target, uint64_t now_ns,
			   bool (*ask)(void *arg, const struct md_target *target), void *arg)
{
	static const struct md_rate rate = {.per_second = MD_QUERY_RATE, .burst = QUERY_BURST};

	md_target_choose_payer(targets, target, now_ns);
	if (md_limit_take(&target->payer->hinted, &rate, now_ns))
		query(targets, target, now_ns, ask, arg);
}

/* A single lost query or answer does not make a target silent. */
static void give_up(struct md_target *target, uint64_t now_ns)
{
	if (!is_answering(target) || target->n_tries < MD_QUERY_TRIES)
		return;
	target->n_tries = 0;
	target->silent_since_ns = now_ns;
}

static bool is_wanted(const struct md_target *target, uint64_t now_ns)
{
	/* @used_ns may be later than @now_ns, the time at which the turn of the event loop began. */
	return target->name[0] || (target->used_ns && now_ns < target->used_ns + MD_TARGET_IDLE_NS);
}

static bool is_needed(const struct md_targets *targets, const struct md_target *target, uint64_t now_ns)
{
	const struct md_target *via = mv_gid_is_zero(&target->via) ? NULL : md_targets_find(targets, &target->via);

	return is_wanted(target, now_ns) || (via && is_wanted(via, now_ns));
}

uint64_t md_targets_tick(struct md_targets *targets, uint64_t now_ns,
			 bool (*ask)(void *arg, const struct md_target *target), void *arg)
{
	uint64_t next_ns = now_ns + MD_QUERY_NS;
	struct md_target *target, *next;
	bool held_back = false;

	HASH_ITER(hh, targets->by_gid, target, next)
	{
		if (!is_needed(targets, target, now_ns)) {
			remove_target(targets, target);
			continue;
		}
		if (target->next_ns <= now_ns) {
			give_up(target, now_ns);
			md_targets_ask_now(targets, target, MD_TARGETS_OF_OTHERS, now_ns, ask, arg);
			held_back |= target->next_ns <= now_ns;
		}
		if (target->next_ns < next_ns)
			next_ns = target->next_ns;
	}
	/*
	 * An account may need all of MD_QUERY_RATE, and a tick that comes late loses queries. With an order that stays, the
	 * last targets would lose each time.
	 */
	if (held_back)
		HASH_SRT(hh, targets->by_gid, by_turn);
	return next_tick(next_ns, now_ns);
}

void md_targets_fini(struct md_targets *targets)
{
	struct md_target *target, *next;

	HASH_ITER(hh, targets->by_gid, target, next)
	remove_target(targets, target);
}
