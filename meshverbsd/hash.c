/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hash.h"

#include <sodium.h>

/* Of this process alone, drawn with the first use: hash values never leave it. */
static uint8_t secret[crypto_shorthash_KEYBYTES];
static int drawn;

uint32_t md_hash(const void *key, unsigned int len)
{
	uint8_t out[crypto_shorthash_BYTES];
	uint32_t ret;

	if (!drawn) {
		randombytes_buf(secret, sizeof(secret));
		drawn = 1;
	}
	crypto_shorthash(out, key, len, secret);
	__builtin_memcpy(&ret, out, sizeof(ret));
	return ret;
}
