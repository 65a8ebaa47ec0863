/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_window.h"

#include <string.h>

#include "secure_copies.h"

#define WORD_BITS 64

/* The cookie of a datagram may have been made as late as the moment of its arrival. */
#define COOKIE_LIFE_NS (2 * MD_COOKIE_EPOCH_NS)

struct sender {
	struct mv_host_id id; /* key of the table */
	struct md_window window;
	struct md_copies copies; /* of its beacons, in the life that the window is of */
};

int md_windows_init(struct md_windows *windows, size_t max_senders)
{
	return md_table_init(&windows->senders, max_senders, sizeof(struct mv_host_id),
			     sizeof(struct sender));
}

void md_windows_fini(struct md_windows *windows)
{
	md_table_fini(&windows->senders);
}

static uint64_t *word_of(struct md_window *window, uint64_t counter)
{
	return &window->words[counter / WORD_BITS % MD_WINDOW_WORDS];
}

static uint64_t bit_of(uint64_t counter)
{
	return 1ull << counter % WORD_BITS;
}

/* Clears words that enter the window: they have bits of counters MD_WINDOW_WORDS * 64 ago. */
static void advance(struct md_window *window, uint64_t counter)
{
	uint64_t first = window->newest / WORD_BITS + 1, last = counter / WORD_BITS;

	if (last >= first && last - first >= MD_WINDOW_WORDS)
		first = last - MD_WINDOW_WORDS + 1;
	for (uint64_t i = first; i <= last; i++)
		window->words[i % MD_WINDOW_WORDS] = 0;
	window->newest = counter;
}

static enum md_verdict take_counter(struct md_window *window, uint64_t counter)
{
	if (counter > window->newest)
		advance(window, counter);
	else if (window->newest - counter >= MD_WINDOW)
		return MD_OPEN_TOO_OLD;
	else if (*word_of(window, counter) & bit_of(counter))
		return MD_OPEN_REPLAY;
	*word_of(window, counter) |= bit_of(counter);
	return MD_OPEN_OK;
}

/* All counters up to the first count as accepted: a window that is forgotten now may have accepted them. */
static void begin(struct md_window *window, uint64_t start, uint64_t counter)
{
	window->start = start;
	window->newest = counter;
	memset(window->words, 0xff, sizeof(window->words));
	*word_of(window, counter) = bit_of(counter) | (bit_of(counter) - 1);
}

static bool forgettable(const struct md_window *window, uint64_t now_ns)
{
	return now_ns > window->taken_ns && now_ns - window->taken_ns > COOKIE_LIFE_NS;
}

static struct sender *add_sender(struct md_windows *windows, const struct mv_host_id *id,
				 uint64_t now_ns)
{
	struct sender *sender = md_table_add(&windows->senders, id);

	if (sender)
		return sender;
	sender = md_table_oldest(&windows->senders);
	if (!forgettable(&sender->window, now_ns))
		return NULL;
	md_table_remove(&windows->senders, sender);
	return md_table_add(&windows->senders, id);
}

/* The datagram has another start number than the window. */
static enum md_verdict take_start(struct md_window *window, uint64_t start, uint64_t counter,
				  bool fresh, uint64_t now_ns)
{
	if (start < window->start && !forgettable(window, now_ns))
		return MD_OPEN_OLD_START;
	if (!fresh)
		return MD_OPEN_UNPROVEN;
	begin(window, start, counter);
	return MD_OPEN_OK;
}

static enum md_verdict take(struct md_window *window, uint64_t start, uint64_t counter, bool fresh, uint64_t now_ns)
{
	enum md_verdict verdict = MD_OPEN_OK;

	if (!window->newest)
		begin(window, start, counter);
	else if (start != window->start)
		verdict = take_start(window, start, counter, fresh, now_ns);
	else
		verdict = take_counter(window, counter);
	if (!verdict)
		window->taken_ns = now_ns;
	return verdict;
}

enum md_verdict md_windows_take(struct md_windows *windows, const struct mv_host_id *id, uint64_t start, uint64_t counter,
				uint32_t beacon_on, bool fresh, uint64_t now_ns)
{
	struct sender *sender = md_table_find(&windows->senders, id);
	enum md_verdict verdict;
	uint64_t former;

	if (!sender && !fresh)
		return MD_OPEN_UNPROVEN;
	if (!sender)
		sender = add_sender(windows, id, now_ns);
	if (!sender)
		return MD_OPEN_NO_ROOM;
	former = sender->window.start;
	verdict = take(&sender->window, start, counter, fresh, now_ns);
	if (sender->window.start != former) /* the sender has restarted, and counts from 1; the first datagram may be of any kind */
		memset(&sender->copies, 0, sizeof(sender->copies));
	if (beacon_on && verdict == MD_OPEN_REPLAY && md_copies_take(&sender->copies, counter, beacon_on, now_ns))
		verdict = MD_OPEN_OK;
	else if (beacon_on && !verdict)
		md_copies_first(&sender->copies, counter, beacon_on, now_ns);
	if (!verdict)
		md_table_touch(&windows->senders, sender);
	return verdict;
}

enum md_verdict md_windows_take_for(const struct md_windows *windows, struct md_window *window, uint64_t start,
				    uint64_t counter, bool fresh, uint64_t now_ns)
{
	if (!window->newest && !fresh)
		return MD_OPEN_UNPROVEN;
	if (!window->newest && now_ns <= windows->closed_until_ns)
		return MD_OPEN_NO_ROOM;
	return take(window, start, counter, fresh, now_ns);
}

static void drop_oldest(struct md_windows *windows)
{
	struct sender *oldest = md_table_oldest(&windows->senders);
	uint64_t until_ns = oldest->window.taken_ns + COOKIE_LIFE_NS;

	if (until_ns > windows->closed_until_ns)
		windows->closed_until_ns = until_ns;
	md_table_remove(&windows->senders, oldest);
}

void md_windows_keep(struct md_windows *windows, const struct mv_host_id *host, const struct md_window *window)
{
	struct sender *sender = md_table_find(&windows->senders, host);

	if (!window->newest)
		return;
	if (!sender && windows->senders.n == windows->senders.max)
		drop_oldest(windows);
	if (!sender)
		sender = md_table_add(&windows->senders, host);
	sender->window = *window;
	md_table_touch(&windows->senders, sender);
}

void md_windows_give_back(struct md_windows *windows, const struct mv_host_id *host, struct md_window *ret)
{
	struct sender *sender = md_table_find(&windows->senders, host);

	if (!sender)
		return;
	*ret = sender->window;
	md_table_remove(&windows->senders, sender);
}
