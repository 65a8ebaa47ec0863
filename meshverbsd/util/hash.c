/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hash.h"

#include <stdbool.h>

#include <sodium.h>

/* Drawn at first use. Hash values leave the process only as nonces of probes, whose bytes begin at random. */
static uint8_t secret[crypto_shorthash_KEYBYTES];
static bool drawn;

uint64_t md_hash64(const void *bytes, size_t len)
{
	uint64_t hash;

	_Static_assert(sizeof(hash) == crypto_shorthash_BYTES, "one number");
	if (!drawn) {
		randombytes_buf(secret, sizeof(secret));
		drawn = true;
	}
	crypto_shorthash((uint8_t *)&hash, bytes, len, secret);
	return hash;
}

uint32_t md_hash(const void *key, unsigned int len)
{
	return (uint32_t)md_hash64(key, len);
}
