/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_WINDOW_H
#define MD_SECURE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "secure.h"
#include "secure_table.h"

/* One word more than MD_WINDOW counters need, since the window seldom begins at a word's start. */
#define MD_WINDOW_WORDS (MD_WINDOW / 64 + 1)

/*
 * Replay windows of all senders, with one rule. A window begins only with a fresh datagram, whose cookie is valid now,
 * and accepts none older than that. A window is forgotten, or restarted for a smaller start number, only when its last
 * accepted datagram is so old that no cookie in it can be valid. Then no datagram that the window ever accepted is
 * fresh, so none of them can begin the next window. The exception is md_windows_keep().
 *
 * struct md_window: of one sender. Zeroed at first.
 */
struct md_window {
	uint64_t start;
	uint64_t newest; /* largest counter accepted; 0: the window has not begun */
	uint64_t taken_ns; /* when a datagram was last accepted */
	uint64_t words[MD_WINDOW_WORDS]; /* bit c % 64 of word c / 64 % MD_WINDOW_WORDS: counter c was accepted */
};

/*
 * With a fleet key: the windows of all senders. Without one, the window of a host is with its pairwise key (peer_keys.h),
 * as long as the host is known; here are the windows of hosts that were forgotten.
 */
struct md_windows {
	struct md_table senders;
	uint64_t closed_until_ns; /* md_windows_keep() has dropped a window: until then no window of a pairwise key begins */
};

int md_windows_init(struct md_windows *windows, size_t max_senders); /* 0 or -ENOMEM */
void md_windows_fini(struct md_windows *windows);

/**
 * md_windows_take - may an authentic datagram be accepted?
 * @beacon_on: the netdev on which a beacon arrived; 0: another datagram
 * @fresh: its cookie is valid
 *
 * Return: MD_OPEN_OK: accepted, and never again, but for beacons on another netdev (secure_copies.h); MD_OPEN_UNPROVEN: the first datagram of the sender, or of its new
 * life, and not fresh; MD_OPEN_REPLAY; MD_OPEN_TOO_OLD; MD_OPEN_OLD_START; MD_OPEN_NO_ROOM.
 */
enum md_verdict md_windows_take(struct md_windows *windows, const struct mv_host_id *sender, uint64_t start, uint64_t counter,
				uint32_t beacon_on, bool fresh, uint64_t now_ns);

/** md_windows_take_for - as md_windows_take(), with the window of a pairwise key */
enum md_verdict md_windows_take_for(const struct md_windows *windows, struct md_window *window, uint64_t start,
				    uint64_t counter, bool fresh, uint64_t now_ns);

/**
 * md_windows_keep - the host of that window is forgotten
 *
 * In a full table the oldest window is dropped. No further window begins until nothing that it has accepted is fresh.
 */
void md_windows_keep(struct md_windows *windows, const struct mv_host_id *host, const struct md_window *window);

/** md_windows_give_back - the host is known again: move its window to *@ret, if there is one */
void md_windows_give_back(struct md_windows *windows, const struct mv_host_id *host, struct md_window *ret);

#endif
