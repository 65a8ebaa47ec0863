/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Watches: which processes watch which paths. */
#include "probes_internal.h"

#include <stdlib.h>

static struct md_probe *add(struct md_probes *probes, const struct md_probe_key *path)
{
	struct md_probe *p = probes->n < MD_PROBES_MAX ? calloc(1, sizeof(*p)) : NULL;

	if (!p)
		return NULL;
	p->key = *path;
	/* Nobody can tell a nonce who knows others: md_hash64() has a secret. */
	probes->nonce++;
	p->nonce = md_hash64(&probes->nonce, sizeof(probes->nonce));
	p->next_ns = UINT64_MAX;
	LIST_INIT(&p->watches);
	LIST_INIT(&p->shares);
	HASH_ADD(hh, probes->by_key, key, sizeof(p->key), p);
	if (!p->hh.tbl) {
		free(p);
		return NULL;
	}
	md_probe_look_for_host(probes, p);
	probes->n++;
	return p;
}

/* @p: NULL or without watches: freed */
static void drop_unwatched(struct md_probes *probes, struct md_probe *p)
{
	if (!p || !LIST_EMPTY(&p->watches))
		return;
	probes->n_suspect -= p->suspect;
	probes->n_down -= p->state == MV_PROBED_DOWN;
	probes->n_changes++;
	HASH_DEL(probes->by_key, p);
	md_probe_leave_host(probes, p);
	probes->n--;
	free(p);
}

static bool is_scheduled(uint8_t watch)
{
	return watch & (MV_WATCH_WORK | MV_WATCH_PRIMARY);
}

/* A process of an account begins to watch a path for WORK or PRIMARY, or ends. */
static void count_users(struct md_probes *probes, struct md_probe_share *share, bool begins)
{
	struct md_probe_user *user = share->user;

	share->n_scheduled += begins ? 1 : (size_t)-1;
	if (share->n_scheduled != begins)
		return;
	user->n_scheduled += begins ? 1 : (size_t)-1;
	if (user->n_scheduled == begins)
		probes->n_users += begins ? 1 : (size_t)-1;
}

/* @watch: before the change; @after: its mask then */
static void count_scheduled(struct md_probes *probes, struct md_probe_watch *watch, uint8_t after, uint64_t now_ns)
{
	struct md_probe *p = watch->probe;
	bool was = p->n_scheduled;

	if (is_scheduled(after) != is_scheduled(watch->watch))
		count_users(probes, watch->share, is_scheduled(after));
	p->n_scheduled += is_scheduled(after);
	p->n_scheduled -= is_scheduled(watch->watch);
	if (was == (p->n_scheduled > 0))
		return;
	probes->n_scheduled += was ? (size_t)-1 : 1;
	probes->n_changes++;
	p->begun_ns = now_ns;
	/* At once if it is new, else by its schedule: see has_to_wait(). */
	p->next_ns = was ? UINT64_MAX : larger(now_ns, p->sent_ns ? p->sent_ns + md_probe_interval(probes, p) : 0);
	md_probes_not_after(probes, p->next_ns);
	if (was) {
		md_probe_set_suspect(probes, p, false);
		md_probe_await_no_more(probes, p);
		p->suspicion.warned = false;
	}
	if (!probes->n_scheduled && !probes->untold)
		md_probes_set_next(probes, UINT64_MAX);
}

static struct md_probe_share *find_share(const struct md_probe *p, uint64_t account)
{
	struct md_probe_share *share;

	LIST_FOREACH(share, &p->shares, of_path)
	if (share->user->account == account)
		return share;
	return NULL;
}

/* Return: NULL: no memory. */
static struct md_probe_user *user_of(struct md_probes *probes, uint64_t account)
{
	struct md_probe_user *user = &probes->root;

	if (account)
		HASH_FIND(hh, probes->users, &account, sizeof(account), user);
	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->account = account;
	HASH_ADD(hh, probes->users, account, sizeof(user->account), user);
	if (user->hh.tbl)
		return user;
	free(user);
	return NULL;
}

/* Charges a watch to an account. A path counts once for all processes of the account. Return: 0; -EDQUOT. */
static int count_watch(struct md_probe_user *user, bool new_path)
{
	if (user->account &&
	    (user->n_watches >= MD_WATCHES_PER_ACCOUNT || (new_path && user->n_paths >= MD_PATHS_PER_ACCOUNT)))
		return -EDQUOT;
	user->n_watches++;
	user->n_paths += new_path;
	return 0;
}

static void uncount_watch(struct md_probes *probes, struct md_probe_user *user, bool last_of_path)
{
	user->n_paths -= last_of_path;
	if (--user->n_watches || !user->account)
		return;
	HASH_DEL(probes->users, user);
	free(user);
}

/* A further watch of the path by the account. Return: NULL: no memory. */
static struct md_probe_share *take_share(struct md_probe *p, struct md_probe_user *user)
{
	struct md_probe_share *share = find_share(p, user->account);

	if (!share) {
		share = calloc(1, sizeof(*share));
		if (!share)
			return NULL;
		share->user = user;
		LIST_INSERT_HEAD(&p->shares, share, of_path);
		p->want_ns = 0;
	}
	share->n++;
	return share;
}

/* Return: was it the account's last watch of the path? */
static bool give_share_back(struct md_probe_share *share)
{
	if (--share->n)
		return false;
	LIST_REMOVE(share, of_path);
	free(share);
	return true;
}

static void drop_watch(struct md_probes *probes, struct md_probe_watch *watch)
{
	struct md_probe *p = watch->probe;
	struct md_probe_user *user = watch->share->user;

	md_probe_untold(probes, watch, false);
	count_scheduled(probes, watch, 0, 0);
	LIST_REMOVE(watch, of_path);
	uncount_watch(probes, user, give_share_back(watch->share));
	HASH_DEL(watch->list->by_path, watch);
	watch->list->n--;
	free(watch);
	probes->n_watches--;
	drop_unwatched(probes, p);
}

void md_probes_drop(struct md_probes *probes, struct md_probe_watch_list *list)
{
	while (list->by_path)
		drop_watch(probes, list->by_path);
}

void md_probes_fini(struct md_probes *probes)
{
	struct md_probe *p, *next;

	HASH_ITER(hh, probes->by_key, p, next) {
		/* Removing the last watch frees the path. */
		for (size_t more = 1; more;) {
			struct md_probe_watch *watch = LIST_FIRST(&p->watches);

			more = LIST_NEXT(watch, of_path) != NULL;
			drop_watch(probes, watch);
		}
	}
}

/* Return: the watch, in the lists of path and process; NULL: no memory. */
static struct md_probe_watch *add_watch(struct md_probe *p, uint64_t client, struct md_probe_user *user,
					struct md_probe_watch_list *list)
{
	struct md_probe_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->probe = p;
	watch->client = client;
	watch->list = list;
	HASH_ADD(hh, list->by_path, probe, sizeof(watch->probe), watch);
	watch->share = watch->hh.tbl ? take_share(p, user) : NULL;
	if (!watch->share) {
		if (watch->hh.tbl)
			HASH_DEL(list->by_path, watch);
		free(watch);
		return NULL;
	}
	LIST_INSERT_HEAD(&p->watches, watch, of_path);
	list->n++;
	return watch;
}

static int new_watch(struct md_probes *probes, const struct md_probe_key *path, uint64_t client, uint64_t account,
		     struct md_probe_watch_list *list, struct md_probe_watch **ret)
{
	struct md_probe *p = md_probes_find(probes, path);
	bool is_first = !p || !find_share(p, account);
	struct md_probe_user *user;
	int err;

	if (list->n >= MD_WATCHES_PER_CLIENT || !md_has_room(probes->n_watches, MD_WATCHES_MAX, account) ||
	    (!p && !md_has_room(probes->n, MD_PROBES_MAX, account)))
		return -ENOSPC;
	user = user_of(probes, account);
	err = user ? count_watch(user, is_first) : -ENOMEM;
	if (err)
		return err;
	if (!p)
		p = add(probes, path);
	*ret = p ? add_watch(p, client, user, list) : NULL;
	if (!*ret) {
		uncount_watch(probes, user, is_first);
		drop_unwatched(probes, p);
		return -ENOMEM;
	}
	probes->n_watches++;
	return 0;
}

static struct md_probe_watch *find_watch(const struct md_probes *probes, const struct md_probe_key *path,
					 const struct md_probe_watch_list *list)
{
	const struct md_probe *p = md_probes_find(probes, path);
	struct md_probe_watch *watch = NULL;

	if (p)
		HASH_FIND(hh, list->by_path, &p, sizeof(p), watch);
	return watch;
}

bool md_probes_watches(const struct md_probes *probes, const struct md_probe_key *path, const struct md_probe_watch_list *list)
{
	return find_watch(probes, path, list);
}

int md_probes_watch(struct md_probes *probes, const struct md_probe_key *path, uint8_t mask, uint64_t client, uint64_t account,
		    struct md_probe_watch_list *list, uint64_t now_ns)
{
	struct md_probe_watch *watch = find_watch(probes, path, list);
	int err;

	if (!probes->interval_ns)
		return -EOPNOTSUPP;
	if (!mask) {
		if (watch)
			drop_watch(probes, watch);
		return 0;
	}
	if (!watch) {
		err = new_watch(probes, path, client, account, list, &watch);
		if (err)
			return err;
	}
	count_scheduled(probes, watch, mask, now_ns);
	watch->watch = mask;
	/* The process waits for an answer. A warned process knows the state, and is told how the warning ends. */
	watch->told = watch->told && watch->warned && watch->probe->suspicion.warned;
	md_probe_tell_one(probes, watch);
	md_probes_tell_soon(probes, now_ns);
	return 0;
}
