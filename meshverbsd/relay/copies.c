/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "copies.h"

#include <string.h>

/*
 * The slot that has the hash, or the free slot where it belongs. There is a free one: at most half of the slots are
 * used.
 */
static uint64_t *slot_of(uint64_t *half, uint64_t hash)
{
	uint32_t i = hash % MD_COPIES_SLOTS;

	while (half[i] && half[i] != hash)
		i = (i + 1) % MD_COPIES_SLOTS;
	return &half[i];
}

/* Clears the older half, which becomes the newer one. */
static void turn(struct md_copies *copies, uint64_t now_ns)
{
	copies->newer ^= 1;
	copies->n = 0;
	copies->turned_ns = now_ns;
	memset(copies->halves[copies->newer], 0, sizeof(copies->halves[0]));
}

bool md_copies_has(struct md_copies *copies, uint64_t hash)
{
	hash += !hash;
	return *slot_of(copies->halves[0], hash) || *slot_of(copies->halves[1], hash);
}

bool md_copies_first(struct md_copies *copies, uint64_t hash, uint64_t now_ns)
{
	uint64_t *slot;

	hash += !hash;
	if (copies->n == MD_COPIES_SLOTS / 2 || now_ns - copies->turned_ns >= MD_COPIES_NS)
		turn(copies, now_ns);
	if (*slot_of(copies->halves[!copies->newer], hash))
		return false;
	slot = slot_of(copies->halves[copies->newer], hash);
	if (*slot)
		return false;
	*slot = hash;
	copies->n++;
	return true;
}
