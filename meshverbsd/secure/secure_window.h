/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_WINDOW_H
#define MD_SECURE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "secure.h"
#include "secure_table.h"

/*
 * Replay windows of all senders, with one rule. A window begins only with a fresh datagram, whose cookie is valid now,
 * and accepts none older than that. A window is forgotten, or restarted for a smaller start number, only when its last
 * accepted datagram is so old that no cookie in it can be valid. Then no datagram that the window ever accepted is
 * fresh, so none of them can begin the next window.
 */
struct md_windows {
	struct md_table senders;
};

int md_windows_init(struct md_windows *windows, size_t max_senders); /* 0 or -ENOMEM */
void md_windows_fini(struct md_windows *windows);

/**
 * md_windows_take - may an authentic datagram be accepted?
 * @fresh: its cookie is valid
 *
 * Return: MD_OPEN_OK: accepted, and never again; MD_OPEN_UNPROVEN: the first datagram of the sender, or of its new
 * life, and not fresh; MD_OPEN_REPLAY; MD_OPEN_TOO_OLD; MD_OPEN_OLD_START; MD_OPEN_NO_ROOM.
 */
enum md_verdict md_windows_take(struct md_windows *windows, const struct mv_host_id *sender,
				uint64_t start, uint64_t counter, bool fresh, uint64_t now_ns);

#endif
