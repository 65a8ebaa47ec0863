// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "starve.h"

/* The helper thread runs at least once a second, to see whether the program has ended. */
#define LEAST_NS 2000000000ull
/*
 * Longest time that counts between two looks. A thread that did not poll for longer slept, or was stopped, and so did not keep
 * the helper thread from running.
 */
#define POLLED_NS 100000000ull
/* Pause between two results true. */
#define AGAIN_NS 10000000ull

bool mesh_starved_long(struct mesh_starve *starve)
{
	uint64_t now_ns = mesh_now_ns(), limit_ns = mesh_root.config.move_timeout_ms * 1000000ull, since_ns;

	since_ns = starve->looked_ns ? now_ns - starve->looked_ns : 0;
	starve->looked_ns = now_ns;
	starve->waited_ns += since_ns < POLLED_NS ? since_ns : POLLED_NS;
	if (starve->waited_ns < (limit_ns > LEAST_NS ? limit_ns : LEAST_NS) || now_ns < starve->gave_ns + AGAIN_NS)
		return false;
	starve->gave_ns = now_ns;
	return true;
}
