/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "window.h"

#include <string.h>

static uint64_t bit_of(uint64_t id)
{
	return 1ull << (id % 64);
}

static uint64_t *word_of(struct md_window *window, uint64_t id)
{
	return &window->bits[id / 64 % (MD_SEEN_BITS / 64)];
}

static void advance(struct md_window *window, uint64_t id)
{
	if (id - window->newest >= MD_SEEN_BITS) {
		memset(window->bits, 0, sizeof(window->bits));
	} else {
		for (uint64_t skipped = window->newest + 1; skipped != id; skipped++)
			*word_of(window, skipped) &= ~bit_of(skipped);
	}
	*word_of(window, id) |= bit_of(id);
	window->newest = id;
}

bool md_window_take(struct md_window *window, uint64_t start, uint64_t id)
{
	if (start < window->start)
		return false;
	if (start > window->start) {
		memset(window, 0, sizeof(*window));
		window->start = start;
	}
	if (id > window->newest) {
		advance(window, id);
		return true;
	}
	if (window->newest - id >= MD_SEEN_BITS || *word_of(window, id) & bit_of(id))
		return false;
	*word_of(window, id) |= bit_of(id);
	return true;
}
