/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "msg_dedup.h"

#include <string.h>

/*
 * The slot that has the hash, or the free slot where it belongs. There is a free one: at most half of the slots are
 * used.
 */
static uint64_t *slot_of(uint64_t *half, uint64_t hash)
{
	uint32_t i = hash % MD_DEDUP_SLOTS;

	while (half[i] && half[i] != hash)
		i = (i + 1) % MD_DEDUP_SLOTS;
	return &half[i];
}

/* Clears the older half, which becomes the newer one. */
static void turn(struct md_msg_dedup *dedup, uint64_t now_ns)
{
	dedup->newer ^= 1;
	dedup->n = 0;
	dedup->turned_ns = now_ns;
	memset(dedup->halves[dedup->newer], 0, sizeof(dedup->halves[0]));
}

bool md_msg_dedup_has(struct md_msg_dedup *dedup, uint64_t hash)
{
	hash += !hash;
	return *slot_of(dedup->halves[0], hash) || *slot_of(dedup->halves[1], hash);
}

bool md_msg_dedup_first(struct md_msg_dedup *dedup, uint64_t hash, uint64_t now_ns)
{
	uint64_t *slot;

	hash += !hash;
	if (dedup->n == MD_DEDUP_SLOTS / 2 || now_ns - dedup->turned_ns >= MD_DEDUP_NS)
		turn(dedup, now_ns);
	if (*slot_of(dedup->halves[!dedup->newer], hash))
		return false;
	slot = slot_of(dedup->halves[dedup->newer], hash);
	if (*slot)
		return false;
	*slot = hash;
	dedup->n++;
	return true;
}
