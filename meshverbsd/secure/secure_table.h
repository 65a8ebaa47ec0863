/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_TABLE_H
#define MD_SECURE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A table of at most so many entries, all memory taken at the start: found by key, ordered by use.
 * Strangers choose the keys, so they are hashed with a secret.
 */
struct md_table {
	size_t max, n; /* entries; constant, current */
	size_t key_bytes, entry_bytes; /* constant */
	uint32_t mask; /* number of buckets - 1 */
	uint32_t newest, oldest, unused; /* heads of lists: index + 1, 0: none */
	uint8_t *entries; /* max * entry_bytes */
	struct md_table_link *links; /* max */
	uint32_t *buckets; /* index + 1, 0: none */
	uint8_t secret[16];
};

/**
 * md_table_init - an empty table
 * @max: 1 .. 2^24
 * @entry_bytes: of an entry, which begins with @key_bytes of key; a multiple of 8
 *
 * Return: 0 or -ENOMEM.
 */
int md_table_init(struct md_table *table, size_t max, size_t key_bytes, size_t entry_bytes);
void md_table_fini(struct md_table *table); /* also of a zeroed one; wipes entries */

/** md_table_find - the entry with that key, or NULL */
void *md_table_find(const struct md_table *table, const void *key);

/** md_table_add - a new entry, zero but for its key; NULL: full. There must be none with that key.
 */
void *md_table_add(struct md_table *table, const void *key);

/** md_table_touch - @entry was used just now */
void md_table_touch(struct md_table *table, void *entry);

/** md_table_oldest - the entry not used for longest; NULL: empty */
void *md_table_oldest(const struct md_table *table);

void md_table_remove(struct md_table *table, void *entry);

#endif
