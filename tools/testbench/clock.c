// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Time and random numbers. */
#include <errno.h>
#include <time.h>

#include "bench.h"

#define SPIN_NS 2000000ull /* then polling yields the CPU */
#define NAP_NS  50000ull
#define BUSY_NS 20000000ull /* a longer round counts as that */

uint64_t q_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void q_sleep_ns(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000ull), .tv_nsec = (long)(ns % 1000000000ull)};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* xorshift64* */
uint32_t q_random(struct q_bench *b, uint32_t n)
{
	uint64_t x = b->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	b->random = x;
	return (uint32_t)((x * 0x2545f4914f6cdd1dull >> 32) % n);
}

void q_begin(struct q_bench *b, uint64_t trial_ns, uint64_t end_ns, uint64_t all_ns)
{
	uint64_t now_ns = q_now_ns(), half_ns = end_ns - all_ns / 2;

	b->until_ns = now_ns + trial_ns < end_ns ? now_ns + trial_ns : end_ns;
	b->rest_until_ns = now_ns + trial_ns / 2 < half_ns ? now_ns + trial_ns / 2 : half_ns;
}

bool q_has_time(const struct q_bench *b)
{
	return q_now_ns() < b->until_ns;
}

void q_pause_after(uint64_t began_ns)
{
	if (q_now_ns() - began_ns > SPIN_NS)
		q_sleep_ns(NAP_NS);
}

void q_rest(struct q_bench *b)
{
	uint64_t now = q_now_ns(), busy_ns = now - b->rested_ns;

	if (b->rests && b->rested_ns && now < b->rest_until_ns)
		q_sleep_ns(2 * (busy_ns < BUSY_NS ? busy_ns : BUSY_NS));
	b->rested_ns = q_now_ns();
}
