/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_START_H
#define MD_START_H

#include <stdint.h>

/**
 * md_start_number - a number larger than at any former start of this host's agent
 * @dir_fd: of CONTROL_DIR, which has the last number in the file "start"; -1: none
 * @realtime_ns: CLOCK_REALTIME
 *
 * The number is the time, or the last number plus one if the clock was set back. If the file cannot be read or written,
 * the number is the time. Then, if the clock was set back, peers with a key ignore this host until they forget its
 * former life (two cookie epochs).
 *
 * Return: the number, never 0.
 */
uint64_t md_start_number(int dir_fd, uint64_t realtime_ns);

#endif
