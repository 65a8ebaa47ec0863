/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

/*
 * Links are index + 1, so that zeroed memory is an empty table, and takes no pages until used. Unused entries are zero.
 */
struct md_table_link {
	uint32_t chain; /* next entry in its bucket */
	uint32_t newer, older; /* order of use; @older also links unused entries */
};

static_assert(sizeof(((struct md_table *)0)->secret) == crypto_shorthash_KEYBYTES,
	      "secret of the hash");

static uint32_t bucket_of(const struct md_table *table, const void *key)
{
	uint64_t hash;

	crypto_shorthash((uint8_t *)&hash, key, table->key_bytes, table->secret);
	return (uint32_t)hash & table->mask;
}

static void *entry_at(const struct md_table *table, uint32_t number)
{
	return number ? table->entries + (number - 1) * table->entry_bytes : NULL;
}

static uint32_t number_of(const struct md_table *table, const void *entry)
{
	return (uint32_t)(((const uint8_t *)entry - table->entries) /
			  (ptrdiff_t)table->entry_bytes) +
	       1;
}

int md_table_init(struct md_table *table, size_t max, size_t key_bytes, size_t entry_bytes)
{
	uint32_t n_buckets = 1;

	assert(max > 0 && max <= 1 << 24);
	assert(entry_bytes % 8 == 0 && key_bytes <= entry_bytes);
	while (n_buckets < max)
		n_buckets *= 2;
	memset(table, 0, sizeof(*table));
	table->max = max;
	table->key_bytes = key_bytes;
	table->entry_bytes = entry_bytes;
	table->mask = n_buckets - 1;
	table->entries = calloc(max, entry_bytes);
	table->links = calloc(max, sizeof(*table->links));
	table->buckets = calloc(n_buckets, sizeof(*table->buckets));
	if (!table->entries || !table->links || !table->buckets) {
		md_table_fini(table);
		return -ENOMEM;
	}
	randombytes_buf(table->secret, sizeof(table->secret));
	return 0;
}

void md_table_fini(struct md_table *table)
{
	for (uint32_t number = table->newest; number; number = table->links[number - 1].older)
		sodium_memzero(entry_at(table, number), table->entry_bytes);
	free(table->entries);
	free(table->links);
	free(table->buckets);
	memset(table, 0, sizeof(*table));
}

void *md_table_find(const struct md_table *table, const void *key)
{
	uint32_t number = table->buckets[bucket_of(table, key)];

	while (number && memcmp(entry_at(table, number), key, table->key_bytes))
		number = table->links[number - 1].chain;
	return entry_at(table, number);
}

static void link_newest(struct md_table *table, uint32_t number)
{
	struct md_table_link *link = &table->links[number - 1];

	link->newer = 0;
	link->older = table->newest;
	if (table->newest)
		table->links[table->newest - 1].newer = number;
	else
		table->oldest = number;
	table->newest = number;
}

static void unlink_order(struct md_table *table, uint32_t number)
{
	struct md_table_link *link = &table->links[number - 1];

	if (link->newer)
		table->links[link->newer - 1].older = link->older;
	else
		table->newest = link->older;
	if (link->older)
		table->links[link->older - 1].newer = link->newer;
	else
		table->oldest = link->newer;
}

static uint32_t take_unused(struct md_table *table)
{
	uint32_t number = table->unused;

	if (number)
		table->unused = table->links[number - 1].older;
	else if (table->n < table->max)
		number =
			(uint32_t)table->n + 1; /* no freed entry: entries 1 to n are in use */
	return number;
}

void *md_table_add(struct md_table *table, const void *key)
{
	uint32_t *bucket = &table->buckets[bucket_of(table, key)];
	uint32_t number = take_unused(table);
	void *entry = entry_at(table, number);

	if (!entry)
		return NULL;
	table->n++;
	table->links[number - 1].chain = *bucket;
	*bucket = number;
	link_newest(table, number);
	memcpy(entry, key, table->key_bytes);
	return entry;
}

void md_table_touch(struct md_table *table, void *entry)
{
	uint32_t number = number_of(table, entry);

	if (table->newest == number)
		return;
	unlink_order(table, number);
	link_newest(table, number);
}

void *md_table_oldest(const struct md_table *table)
{
	return entry_at(table, table->oldest);
}

void md_table_remove(struct md_table *table, void *entry)
{
	uint32_t *chain = &table->buckets[bucket_of(table, entry)];
	uint32_t number = number_of(table, entry);

	while (*chain != number)
		chain = &table->links[*chain - 1].chain;
	*chain = table->links[number - 1].chain;
	unlink_order(table, number);
	sodium_memzero(entry, table->entry_bytes);
	table->links[number - 1].older = table->unused;
	table->unused = number;
	table->n--;
}
