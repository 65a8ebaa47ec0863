/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Arithmetic on the 24-bit packet sequence numbers of InfiniBand, which wrap around. */
#ifndef SIM_PSN_H
#define SIM_PSN_H

#include <stdint.h>

#define PSN_MASK 0xffffffu

/** psn_add() - @psn moved by @n, which may be negative. */
static inline uint32_t psn_add(uint32_t psn, int32_t n)
{
	return (psn + (uint32_t)n) & PSN_MASK;
}

/** psn_diff() - how far @a is after @b: negative when before, in [-2^23, 2^23). */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/** psn_count() - packets that a message of @bytes takes at @mtu bytes of payload each; an empty one
 * takes one. */
static inline uint32_t psn_count(uint32_t bytes, uint32_t mtu)
{
	return bytes ? (bytes - 1) / mtu + 1 : 1;
}

#endif
