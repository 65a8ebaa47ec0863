/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_TABLE_H
#define MD_SECURE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Hash table with a fixed number of entries, in order of use. All memory is allocated at the start. Strangers choose
 * the keys, so they are hashed with a secret. Not thread-safe.
 */
struct md_table {
	size_t max, n; /* entries: limit and present number */
	size_t key_bytes, entry_bytes; /* constant */
	uint32_t mask; /* number of buckets - 1, a power of two minus 1 */
	uint32_t newest, oldest, unused; /* heads of lists: index + 1, 0: none */
	uint8_t *entries; /* max * entry_bytes */
	struct md_table_link *links; /* max */
	uint32_t *buckets; /* index + 1, 0: none */
	uint8_t secret[16];
};

/**
 * md_table_init - make an empty table
 * @max: 1 .. 2^24
 * @key_bytes: length of the key at the start of each entry
 * @entry_bytes: length of an entry; a multiple of 8
 *
 * Return: 0 or -ENOMEM.
 */
int md_table_init(struct md_table *table, size_t max, size_t key_bytes, size_t entry_bytes);
void md_table_fini(struct md_table *table); /* also for a zeroed table; wipes entries */

/** md_table_find - Return: the entry with that key, owned by the table; NULL: none */
void *md_table_find(const struct md_table *table, const void *key);

/** md_table_add - add an entry, zeroed except for its key, which must be new. Return: NULL: full */
void *md_table_add(struct md_table *table, const void *key);

/** md_table_touch - mark @entry as most recently used */
void md_table_touch(struct md_table *table, void *entry);

/** md_table_oldest - Return: the least recently used entry; NULL: empty */
void *md_table_oldest(const struct md_table *table);

void md_table_remove(struct md_table *table, void *entry);

#endif
