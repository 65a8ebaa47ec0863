// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>

#include "mr_table.h"

#define FIRST_BUCKETS 256

#define SEEN_BITS (1u << 16) /* hash filter of keys, never cleared */

struct mesh_mr_table {
	size_t n_buckets; /* of each index; a power of two */
	size_t n_keys;
	struct mesh_key **buckets; /* MESH_N_INDEXES * n_buckets */
	LIST_HEAD(mesh_key_list, mesh_key) by_age; /* newest first */
	uint64_t n_added;
	struct mesh_key *next; /* position of mesh_mr_table_missing(); NULL: at the end */
	uint64_t seen[SEEN_BITS / 64]; /* mesh_mr_table_seen() */
};

static size_t hash(const void *p, uint32_t key, size_t n_buckets)
{
	uint64_t h = ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ull;

	h = (h ^ key) * 0xff51afd7ed558ccdull;
	return (size_t)(h >> 32) & (n_buckets - 1);
}

static struct mesh_key **bucket(const struct mesh_mr_table *tab, enum mesh_key_index index, const void *p, uint32_t key)
{
	return &tab->buckets[index * tab->n_buckets + hash(p, key, tab->n_buckets)];
}

static struct mesh_key **bucket_of(const struct mesh_mr_table *tab, enum mesh_key_index index,
				   const struct mesh_key *key)
{
	switch (index) {
	case MESH_BY_MR:
		return bucket(tab, index, key->mr, 0);
	case MESH_BY_LKEY:
		return bucket(tab, index, key->pd, key->lkey);
	default:
		return bucket(tab, index, key->pd, key->rkey);
	}
}

static void link_one(struct mesh_mr_table *tab, enum mesh_key_index index, struct mesh_key *key)
{
	struct mesh_key **at = bucket_of(tab, index, key);

	key->next[index] = *at;
	*at = key;
}

/*
 * Move entries into the larger table, the oldest first, so that the newest of two with the same key is still found first: each
 * chain is reversed, then linked.
 */
static void move_index(struct mesh_mr_table *to, const struct mesh_mr_table *from, enum mesh_key_index index)
{
	struct mesh_key *key, *next, *turned;
	size_t i;

	for (i = index * from->n_buckets; i < (index + 1) * from->n_buckets; i++) {
		turned = NULL;
		for (key = from->buckets[i]; key; key = next) {
			next = key->next[index];
			key->next[index] = turned;
			turned = key;
		}
		for (key = turned; key; key = next) {
			next = key->next[index];
			link_one(to, index, key);
		}
	}
}

/* Without memory the table stays as it is, with longer chains. */
static void grow(struct mesh_mr_table *tab)
{
	struct mesh_mr_table larger = {.n_buckets = tab->n_buckets * 4};
	enum mesh_key_index index;

	larger.buckets = calloc(MESH_N_INDEXES * larger.n_buckets, sizeof(*larger.buckets));
	if (!larger.buckets)
		return;
	for (index = 0; index < MESH_N_INDEXES; index++)
		move_index(&larger, tab, index);
	free(tab->buckets);
	tab->buckets = larger.buckets;
	tab->n_buckets = larger.n_buckets;
}

static struct mesh_mr_table *mr_table_new(void)
{
	struct mesh_mr_table *tab = calloc(1, sizeof(*tab));

	if (!tab)
		return NULL;
	tab->n_buckets = FIRST_BUCKETS;
	tab->buckets = calloc(MESH_N_INDEXES * tab->n_buckets, sizeof(*tab->buckets));
	if (!tab->buckets) {
		free(tab);
		return NULL;
	}
	return tab;
}

static size_t seen_bit(const struct ibv_pd *pd, enum mesh_key_index index, uint32_t key)
{
	return hash((const char *)pd + (index << 4), key, SEEN_BITS);
}

static void note_seen(struct mesh_mr_table *tab, enum mesh_key_index index, const struct mesh_key *key)
{
	size_t bit = seen_bit(key->pd, index, index == MESH_BY_LKEY ? key->lkey : key->rkey);

	tab->seen[bit / 64] |= 1ull << bit % 64;
}

bool mesh_mr_table_seen(const struct mesh_mr_table *tab, enum mesh_key_index index, const struct ibv_pd *pd,
			uint32_t key)
{
	size_t bit = seen_bit(pd, index, key);

	return tab && tab->seen[bit / 64] >> bit % 64 & 1;
}

int mesh_mr_table_add(struct mesh_mr_table **tab, struct mesh_key *key)
{
	enum mesh_key_index index;

	if (!*tab)
		*tab = mr_table_new();
	if (!*tab)
		return -ENOMEM;
	if ((*tab)->n_keys >= 2 * (*tab)->n_buckets)
		grow(*tab);
	for (index = 0; index < MESH_N_INDEXES; index++)
		link_one(*tab, index, key);
	note_seen(*tab, MESH_BY_LKEY, key);
	note_seen(*tab, MESH_BY_RKEY, key);
	LIST_INSERT_HEAD(&(*tab)->by_age, key, by_age);
	key->nth = ++(*tab)->n_added;
	(*tab)->n_keys++;
	return 0;
}

void mesh_mr_table_del(struct mesh_mr_table *tab, struct mesh_key *key)
{
	enum mesh_key_index index;
	struct mesh_key **at;

	for (index = 0; index < MESH_N_INDEXES; index++) {
		for (at = bucket_of(tab, index, key); *at != key; at = &(*at)->next[index])
			;
		*at = key->next[index];
	}
	if (tab->next == key)
		tab->next = LIST_NEXT(key, by_age);
	LIST_REMOVE(key, by_age);
	tab->n_keys--;
}

struct mesh_key *mesh_mr_table_find_mr(const struct mesh_mr_table *tab, const struct ibv_mr *mr)
{
	struct mesh_key *key = tab ? *bucket(tab, MESH_BY_MR, mr, 0) : NULL;

	while (key && key->mr != mr)
		key = key->next[MESH_BY_MR];
	return key;
}

struct mesh_key *mesh_mr_table_find(const struct mesh_mr_table *tab, enum mesh_key_index index,
				    const struct ibv_pd *pd, uint32_t value)
{
	struct mesh_key *key = tab ? *bucket(tab, index, pd, value) : NULL;

	while (key && (key->pd != pd || (index == MESH_BY_LKEY ? key->lkey : key->rkey) != value))
		key = key->next[index];
	return key;
}

struct mesh_key *mesh_mr_table_next_of(const struct mesh_mr_table *tab, const struct ibv_context *verbs,
				       struct mesh_mr_table_walk *walk)
{
	struct mesh_key *key;

	if (!tab)
		return NULL;
	if (walk->n_buckets != tab->n_buckets) /* the table has grown: start again */
		*walk = (struct mesh_mr_table_walk){.n_buckets = tab->n_buckets};
	for (; walk->bucket < tab->n_buckets; walk->bucket++)
		for (key = tab->buckets[walk->bucket]; key; key = key->next[MESH_BY_MR])
			if (key->verbs == verbs)
				return key;
	return NULL;
}

static bool is_missing(const struct mesh_key *key, const struct ibv_pd *pd, const struct mesh_pd *spd)
{
	const struct mesh_shadow_mr *shadow;

	if (key->pd != pd || key->no_prereg)
		return false;
	LIST_FOREACH(shadow, &key->shadows, of_key)
		if (shadow->spd == spd)
			return false;
	return true;
}

uint64_t mesh_mr_table_look(struct mesh_mr_table *tab)
{
	if (!tab)
		return 0;
	tab->next = LIST_FIRST(&tab->by_age);
	return tab->n_added;
}

bool mesh_mr_table_missing(struct mesh_mr_table *tab, const struct ibv_pd *pd, const struct mesh_pd *spd,
			   uint64_t after, size_t max, uint32_t *ret, size_t *ret_n)
{
	struct mesh_key *key = tab ? tab->next : NULL;

	*ret_n = 0;
	for (; key && key->nth > after && max; key = LIST_NEXT(key, by_age), max--)
		if (is_missing(key, pd, spd))
			ret[(*ret_n)++] = key->lkey;
	if (tab)
		tab->next = key;
	return key && key->nth > after;
}

void mesh_mr_table_free(struct mesh_mr_table *tab)
{
	if (tab)
		free(tab->buckets);
	free(tab);
}
