/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_RANDOM_H
#define UNIT_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Random worlds that a seed brings back: xorshift64 (G. Marsaglia, Xorshift RNGs, 2003). Tests have one thread. */

/* The seed, not 0; the test sets it. Weak: all files of a test have this one. */
__attribute__((weak)) uint64_t rng;

static inline uint32_t rnd(uint32_t below)
{
	if (!rng)
		abort(); /* nothing would be random */
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng >> 16) % below);
}

static inline bool chance(uint32_t percent)
{
	return rnd(100) < percent;
}

#endif
