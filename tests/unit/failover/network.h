/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_NETWORK_H
#define UNIT_NETWORK_H

#include "random.h"

/* The control network between the ends of a random world: what it loses, and numbers that nobody can guess. */
struct network {
	uint32_t loss; /* percent of messages */
	uint64_t cut_from, cut_to; /* times between which it loses all */
};

/**
 * network_loses - is the next message lost?
 * @lost_in_a_row: of its sender
 *
 * Three in a row are lost at most, so "not cut for ever" is certain and not only likely.
 */
static inline bool network_loses(const struct network *net, uint64_t now, unsigned int *lost_in_a_row)
{
	if (now >= net->cut_from && now < net->cut_to)
		return true;
	if (*lost_in_a_row >= 3 || !chance(net->loss)) {
		*lost_in_a_row = 0;
		return false;
	}
	++*lost_in_a_row;
	return true;
}

/** a_nonce - returns a random number of an attempt */
static inline uint64_t a_nonce(void)
{
	return (uint64_t)rnd(UINT32_MAX) << 32 | rnd(UINT32_MAX);
}

#endif
