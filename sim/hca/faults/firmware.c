// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands that take time. */
#include "firmware.h"

#include <stdbool.h>
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

/*
 * Takes the place that is free first, of as many as there are commands at a time. A place is the time when its command is
 * through, so nothing has to be given back, and a process that is killed leaves nothing behind. Return: when the command begins.
 */
static uint64_t begin(struct sim_dev *dev, uint64_t at_ns, uint64_t takes_ns)
{
	uint32_t n = atomic_load_explicit(&dev->firmware_at_once, memory_order_relaxed), first, i;
	uint64_t free_ns, begun_ns;

	if (!n)
		return at_ns;
	do {
		for (first = 0, i = 1; i < n; i++)
			if (atomic_load_explicit(&dev->firmware_free_ns[i], memory_order_relaxed) <
			    atomic_load_explicit(&dev->firmware_free_ns[first], memory_order_relaxed))
				first = i;
		free_ns = atomic_load_explicit(&dev->firmware_free_ns[first], memory_order_relaxed);
		begun_ns = free_ns > at_ns ? free_ns : at_ns;
	} while (!atomic_compare_exchange_strong_explicit(&dev->firmware_free_ns[first], &free_ns, begun_ns + takes_ns,
							   memory_order_relaxed, memory_order_relaxed));
	return begun_ns;
}

/* Sleeps until the command is through. Return: false: the setting was changed meanwhile. */
static bool sleep_through(const struct sim_dev *dev, uint64_t until_ns, uint32_t setting)
{
	uint64_t at_ns;

	while ((at_ns = now_ns()) < until_ns) {
		sleep_until(until_ns - at_ns < LOOK_NS ? until_ns : at_ns + LOOK_NS);
		if (atomic_load_explicit(&dev->firmware_setting, memory_order_acquire) != setting)
			return false;
	}
	return true;
}

void firmware_wait(struct sim_dev *dev, enum sim_firmware kind)
{
	const _Atomic uint32_t *us = &dev->firmware_us[kind];
	uint64_t came_ns, takes_ns;
	uint32_t setting;
	int slack;

	if (!atomic_load_explicit(us, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&dev->firmware_commands, 1, memory_order_relaxed);
	/* A thread's sleep is longer by its timer slack, 50 us, which is as long as a command. */
	slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	came_ns = now_ns();
	do {
		setting = atomic_load_explicit(&dev->firmware_setting, memory_order_acquire);
		takes_ns = atomic_load_explicit(us, memory_order_relaxed) * 1000ull;
	} while (takes_ns && !sleep_through(dev, begin(dev, came_ns, takes_ns) + takes_ns, setting));
	if (slack >= 0)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);
}
