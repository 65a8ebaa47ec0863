/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_MSG_DEDUP_H
#define MD_MSG_DEDUP_H

#include <stdbool.h>
#include <stdint.h>

#include "bounds.h"

/*
 * Messages that have arrived lately, as keyed hashes of claimed sender, number and content. So nobody can make the
 * agent mistake another host's message for a copy, except by sending that very message. Remembers at least the last
 * MD_DEDUP_SLOTS / 2 messages, for MD_DEDUP_NS unless there are more. Always 256 KiB. Zeroed at first. Pure.
 */
struct md_msg_dedup {
	uint64_t turned_ns; /* when the newer half was begun */
	uint32_t newer; /* index of the newer half */
	uint32_t n; /* entries in the newer half */
	uint64_t halves[2][MD_DEDUP_SLOTS]; /* hash tables; 0: free */
};

/** md_msg_dedup_has - has a copy arrived? Nothing is remembered */
bool md_msg_dedup_has(struct md_msg_dedup *dedup, uint64_t hash);

/** md_msg_dedup_first - is it the first copy? If so, it is remembered */
bool md_msg_dedup_first(struct md_msg_dedup *dedup, uint64_t hash, uint64_t now_ns);

#endif
