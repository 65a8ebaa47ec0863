/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_COPIES_H
#define MD_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include "bounds.h"

/*
 * Which messages have arrived lately, by a keyed hash of who says to have sent it, its number and its content: so
 * nobody can make us take somebody else's message for a copy, but by sending that very message. Remembers the last
 * MD_COPIES_SLOTS / 2 at least, for MD_COPIES_NS if they are not too many; 256 KiB, whoever sends whatever. Zeroed to
 * begin with. Pure.
 */
struct md_copies {
	uint64_t turned_ns; /* when the newer half was begun */
	uint32_t newer; /* which of the two halves that is */
	uint32_t n; /* in the newer half */
	uint64_t halves[2][MD_COPIES_SLOTS]; /* hash tables; 0: free */
};

/** md_copies_first - is it the first copy? Then it is remembered. */
bool md_copies_first(struct md_copies *copies, uint64_t hash, uint64_t now_ns);

#endif
