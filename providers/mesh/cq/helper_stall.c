// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "helper_stall.h"

/* The helper thread runs at least once a second, to see whether the program has ended. */
#define LEAST_NS 2000000000ull
/*
 * Longest time that counts between two looks. A thread that did not poll for longer slept, or was stopped, and so did not keep
 * the helper thread from running.
 */
#define POLLED_NS 100000000ull
/* Pause between two results true. */
#define AGAIN_NS 10000000ull

bool mesh_helper_stalled_long(struct mesh_helper_stall *stall)
{
	uint64_t now_ns = mesh_now_ns(), limit_ns = mesh_root.config.move_timeout_ms * 1000000ull, since_ns;

	since_ns = stall->looked_ns ? now_ns - stall->looked_ns : 0;
	stall->looked_ns = now_ns;
	stall->waited_ns += since_ns < POLLED_NS ? since_ns : POLLED_NS;
	if (stall->waited_ns < (limit_ns > LEAST_NS ? limit_ns : LEAST_NS) || now_ns < stall->gave_ns + AGAIN_NS)
		return false;
	stall->gave_ns = now_ns;
	return true;
}
