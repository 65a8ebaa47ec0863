/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_LIMIT_H
#define MD_SECURE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Token bucket in one word: the time at which the bucket will be full. Zeroed: full. Not thread-safe. */
struct md_limit {
	uint64_t full_at_ns;
};

struct md_rate {
	uint32_t per_second; /* 1 .. 10^9 */
	uint32_t burst; /* at least 1 */
};

/** md_limit_has - is there a token? Takes none */
bool md_limit_has(const struct md_limit *limit, const struct md_rate *rate, uint64_t now_ns);

/** md_limit_take - take a token. Return: false: there is none */
bool md_limit_take(struct md_limit *limit, const struct md_rate *rate, uint64_t now_ns);

/** md_limit_take_some - take @n tokens. Return: false: there are fewer, and none is taken */
bool md_limit_take_some(struct md_limit *limit, const struct md_rate *rate, uint32_t n, uint64_t now_ns);

#endif
