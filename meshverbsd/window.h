/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_WINDOW_H
#define MD_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"

/*
 * Which messages of one sender have been taken: the newest id and, for the MD_SEEN_BITS ids up to it, a bit each.
 * What is older counts as taken. 1 KiB; pure.
 */
struct md_window {
	uint64_t start; /* of the sender: ids of another start are new */
	uint64_t newest; /* 0: none yet */
	uint64_t bits[MD_SEEN_BITS / 64]; /* id modulo MD_SEEN_BITS */
};

/**
 * md_window_take - is this the first copy?
 * @id: not 0
 *
 * Return: true for the first copy of an id, which is remembered; false for others, for ids behind the window and of
 * an earlier start.
 */
bool md_window_take(struct md_window *window, uint64_t start, uint64_t id);

#endif
