/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_limit.h"

static uint64_t interval_ns(const struct md_rate *rate)
{
	return 1000000000ull / rate->per_second;
}

/* Used part of the bucket. More than the whole bucket means that the clock went back: the bucket is full then. */
static uint64_t used_ns(const struct md_limit *limit, const struct md_rate *rate, uint64_t now_ns)
{
	uint64_t used = limit->full_at_ns > now_ns ? limit->full_at_ns - now_ns : 0;

	return used > rate->burst * interval_ns(rate) ? 0 : used;
}

bool md_limit_has(const struct md_limit *limit, const struct md_rate *rate, uint64_t now_ns)
{
	return used_ns(limit, rate, now_ns) <= (rate->burst - 1) * interval_ns(rate);
}

bool md_limit_take(struct md_limit *limit, const struct md_rate *rate, uint64_t now_ns)
{
	return md_limit_take_some(limit, rate, 1, now_ns);
}

bool md_limit_take_some(struct md_limit *limit, const struct md_rate *rate, uint32_t n, uint64_t now_ns)
{
	uint64_t used = used_ns(limit, rate, now_ns) + n * interval_ns(rate);

	if (used > rate->burst * interval_ns(rate))
		return false;
	limit->full_at_ns = now_ns + used;
	return true;
}
