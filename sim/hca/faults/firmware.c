// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands that take time. */
#include "firmware.h"

#include <sys/prctl.h>
#include <time.h>

#define LOOK_NS 20000000ull /* at the setting, from one time to the next */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000ull),
				 .tv_nsec = (long)(until_ns % 1000000000ull)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

void firmware_wait(const struct sim_dev *dev, enum sim_firmware kind)
{
	const _Atomic uint32_t *us = &dev->firmware_us[kind];
	uint64_t begun_ns, until_ns, at_ns;
	int slack;

	if (!atomic_load_explicit(us, memory_order_relaxed))
		return;
	/* A thread's sleep is longer by its timer slack, 50 us, which is as long as a command. */
	slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	begun_ns = at_ns = now_ns();
	while ((until_ns = begun_ns + atomic_load_explicit(us, memory_order_relaxed) * 1000ull) > at_ns) {
		sleep_until(until_ns - at_ns < LOOK_NS ? until_ns : at_ns + LOOK_NS);
		at_ns = now_ns();
	}
	if (slack >= 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);
}
