/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_WINDOW_H
#define MD_SECURE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "secure.h"
#include "secure_table.h"

/*
 * Replay windows of all senders. The rule that keeps them safe: a window begins with a fresh
 * datagram only, one with a cookie that is valid now, and takes nothing older than that; and it is
 * forgotten, or begun anew for a sender's smaller start number, only when the last datagram it took
 * is so long ago that no cookie in it can still be valid. Whatever it ever took is not fresh then,
 * and cannot begin the next window.
 */
struct md_windows {
	struct md_table senders;
};

int md_windows_init(struct md_windows *windows, size_t max_senders); /* 0 or -ENOMEM */
void md_windows_fini(struct md_windows *windows);

/**
 * md_windows_take - may this authentic datagram be taken?
 * @fresh: its cookie is valid
 *
 * Return: MD_OPEN_OK, and it will not be taken a second time; MD_OPEN_UNPROVEN: it is the sender's
 * first, or the first of its new life, and not fresh; REPLAY, TOO_OLD, OLD_START, NO_ROOM.
 */
enum md_verdict md_windows_take(struct md_windows *windows, const struct mv_host_id *sender,
				uint64_t start, uint64_t counter, bool fresh, uint64_t now_ns);

#endif
