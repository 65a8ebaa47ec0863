// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "clock.h"

#include <time.h>

uint64_t mesh_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
