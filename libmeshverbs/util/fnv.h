/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_FNV_H
#define MV_FNV_H

#include <stddef.h>
#include <stdint.h>

/*
 * Hashes without a secret: FNV-1a (Fowler, Noll, Vo; constants from draft-eastlake-fnv). All hosts and versions compute
 * the same hash. Whoever chooses the bytes can make two hashes equal. Where others choose the bytes, the agent uses
 * md_hash64(). Pure, any thread.
 */
#define MV_FNV32_START 0x811c9dc5u
#define MV_FNV64_START 0xcbf29ce484222325u

/** mv_fnv32 - go on with a hash. @hash: MV_FNV32_START, or that of the bytes before */
static inline uint32_t mv_fnv32(uint32_t hash, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	while (n--)
		hash = (hash ^ *at++) * 0x1000193u;
	return hash;
}

/** mv_fnv64 - go on with a hash. @hash: MV_FNV64_START, or that of the bytes before */
static inline uint64_t mv_fnv64(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	while (n--)
		hash = (hash ^ *at++) * 0x100000001b3u;
	return hash;
}

/** mv_mix64 - finalizer of SplitMix64 (Steele, Lea, Flood 2014): each bit of @x changes about half of the result's bits */
static inline uint64_t mv_mix64(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

#endif
