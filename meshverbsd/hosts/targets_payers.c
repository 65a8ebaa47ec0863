/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who pays for the queries of a target, and who wants its host. */
#include "targetsint.h"

#include <stdlib.h>
#include <string.h>

/* Targets of an account that are queried each MD_QUERY_NS. */
#define N_IN_TIME (MD_QUERY_NS / QUERY_EACH_NS)

struct md_target_user *md_target_user_find(const struct md_targets *targets, uint64_t account)
{
	struct md_target_user *user;

	if (!account)
		return (struct md_target_user *)&targets->root;
	HASH_FIND(hh, targets->users, &account, sizeof(account), user);
	return user;
}

struct md_target_user *md_target_user_get(struct md_targets *targets, uint64_t account)
{
	struct md_target_user *user = md_target_user_find(targets, account);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->account = account;
		HASH_ADD(hh, targets->users, account, sizeof(user->account), user);
		if (!user->hh.tbl) {
			free(user);
			return NULL;
		}
	}
	user->n_refs++;
	return user;
}

void md_target_user_put(struct md_targets *targets, struct md_target_user *user)
{
	if (--user->n_refs || !user->account)
		return;
	HASH_DEL(targets->users, user);
	free(user);
}

bool md_target_user_full(const struct md_target_user *user)
{
	const size_t max = user->account == MD_TARGETS_OF_OTHERS ? MD_TARGETS_FOR_OTHERS : MD_TARGETS_PER_ACCOUNT;

	return user->account && user->n >= max;
}

void md_target_charge(struct md_targets *targets, struct md_target *target, struct md_target_user *user)
{
	struct md_target_user *former = target->payer;

	user->n++;
	user->n_refs++;
	target->payer = user;
	if (!former)
		return;
	former->n--;
	md_target_user_put(targets, former);
}

struct md_target *md_target_first(const struct md_targets *targets, const struct md_target *of)
{
	return mv_gid_is_zero(&of->via) ? (struct md_target *)of : md_targets_find(targets, &of->via);
}

bool md_target_user_has_room(const struct md_target_user *user, uint64_t now_ns)
{
	return user->room_at_ns <= now_ns + (QUERY_BURST - 1) * QUERY_EACH_NS;
}

void md_target_user_take_room(struct md_target_user *user, uint64_t now_ns)
{
	if (user->room_at_ns < now_ns)
		user->room_at_ns = now_ns;
	user->room_at_ns += QUERY_EACH_NS;
}

static void forget_needs(struct md_targets *targets, struct md_target *target, uint64_t now_ns)
{
	for (unsigned int i = target->n_needs; i--;) {
		if (now_ns < target->needs[i].used_ns + MD_TARGET_IDLE_NS)
			continue;
		md_target_user_put(targets, target->needs[i].user);
		target->needs[i] = target->needs[--target->n_needs];
	}
}

void md_target_note_need(struct md_targets *targets, struct md_target *target, struct md_target_user *user, bool asks,
		      uint64_t now_ns)
{
	struct md_target_need *need = NULL;

	if (user->account == MD_TARGETS_OF_OTHERS)
		return;
	forget_needs(targets, target, now_ns);
	for (unsigned int i = 0; i < target->n_needs; i++) {
		if (target->needs[i].user == user) {
			target->needs[i].used_ns = now_ns;
			target->needs[i].asked |= asks;
			return;
		}
		if (!need || target->needs[i].user->n > need->user->n)
			need = &target->needs[i];
	}
	if (target->n_needs < MD_TARGET_ACCOUNTS)
		need = &target->needs[target->n_needs++];
	else if (asks && need->user->n > user->n)
		md_target_user_put(targets, need->user);
	else
		return;
	user->n_refs++;
	*need = (struct md_target_need){.user = user, .used_ns = now_ns, .asked = asks};
}

/*
 * Who only sends to the host of a target pays as far as that delays no other query: programs answer strangers, and the
 * strangers may have been asked for by another account.
 */
static bool may_pay(const struct md_target *target, const struct md_target_need *need)
{
	bool pays = need->user == target->payer;

	return need->asked ? pays || !md_target_user_full(need->user) : need->user->n < N_IN_TIME + pays;
}

/* Is @user rather to pay for the target than @than? The payer stays where there is little to choose. */
static bool is_better(const struct md_target *target, const struct md_target_user *user,
		      const struct md_target_user *than, uint64_t now_ns)
{
	if (!than || md_target_user_has_room(user, now_ns) != md_target_user_has_room(than, now_ns))
		return !than || md_target_user_has_room(user, now_ns);
	return 2 * user->n + (user == target->payer ? 0 : 3) < 2 * than->n + (than == target->payer ? 0 : 3);
}

static struct md_target_user *best_of(const struct md_target *target, const struct md_target *needed,
				      struct md_target_user *best, uint64_t now_ns)
{
	for (unsigned int i = 0; i < needed->n_needs; i++)
		if (may_pay(target, &needed->needs[i]) && is_better(target, needed->needs[i].user, best, now_ns))
			best = needed->needs[i].user;
	return best;
}

uint32_t md_targets_interval_ms(const struct md_targets *targets, uint64_t account)
{
	const struct md_target_user *user = md_target_user_find(targets, account);
	uint64_t by_rate_ms = user ? user->n * 1000 / MD_QUERY_RATE : 0;
	uint64_t ms = MD_QUERY_NS / MD_MS > by_rate_ms ? MD_QUERY_NS / MD_MS : by_rate_ms;

	return ms < MD_INTERVAL_MAX_MS ? (uint32_t)ms : MD_INTERVAL_MAX_MS;
}

void md_target_choose_payer(struct md_targets *targets, struct md_target *target, uint64_t now_ns)
{
	struct md_target *first = md_target_first(targets, target);
	struct md_target_user *best = NULL;
	uint64_t due_ns;

	forget_needs(targets, target, now_ns);
	if (target->name[0] || (first && first->name[0]))
		best = &targets->root;
	best = best_of(target, target, best, now_ns);
	if (first && first != target) {
		forget_needs(targets, first, now_ns);
		best = best_of(target, first, best, now_ns);
	}
	if (!best || best == target->payer)
		return;
	md_target_charge(targets, target, best);
	/* An answer that is under way will be valid for some intervals of the new payer. */
	due_ns = now_ns + md_targets_interval_ms(targets, best->account) * MD_MS;
	if (target->regular_ns > due_ns)
		target->regular_ns = due_ns;
	if (target->next_ns > due_ns)
		target->next_ns = due_ns;
}

static size_t wanters_of(const struct md_target *target, uint64_t *ret)
{
	size_t n = 0;

	if (target->name[0])
		ret[n++] = 0;
	for (unsigned int i = 0; i < target->n_needs; i++)
		if (target->needs[i].asked)
			ret[n++] = target->needs[i].user->account;
	return n;
}

size_t md_targets_wanters(const struct md_targets *targets, const struct md_target *target,
			  uint64_t ret[MD_TARGET_WANTERS])
{
	const struct md_target *first = md_target_first(targets, target);
	size_t n = wanters_of(target, ret);

	if (first && first != target)
		n += wanters_of(first, ret + n);
	if (!n)
		ret[n++] = target->payer->account;
	return n;
}
