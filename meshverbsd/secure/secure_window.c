/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_window.h"

#include <string.h>

/* One word more than MD_WINDOW counters need, since the window seldom begins at a word's start. */
#define WORD_BITS 64
#define N_WORDS   (MD_WINDOW / WORD_BITS + 1)

/* The cookie of a datagram may have been made as late as the moment of its arrival. */
#define COOKIE_LIFE_NS (2 * MD_COOKIE_EPOCH_NS)

struct sender {
	struct mv_host_id id; /* key of the table */
	uint64_t start;
	uint64_t newest; /* largest counter accepted */
	uint64_t taken_ns; /* when a datagram was last accepted */
	uint64_t words[N_WORDS]; /* bit c % 64 of word c / 64 % N_WORDS: counter c was accepted */
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

static uint64_t *word_of(struct sender *sender, uint64_t counter)
{
	return &sender->words[counter / WORD_BITS % N_WORDS];
}

static uint64_t bit_of(uint64_t counter)
{
	return 1ull << counter % WORD_BITS;
}

/* Clears words that enter the window: they have bits of counters N_WORDS * 64 ago. */
static void advance(struct sender *sender, uint64_t counter)
{
	uint64_t first = sender->newest / WORD_BITS + 1, last = counter / WORD_BITS;

	if (last >= first && last - first >= N_WORDS)
		first = last - N_WORDS + 1;
	for (uint64_t i = first; i <= last; i++)
		sender->words[i % N_WORDS] = 0;
	sender->newest = counter;
}

static enum md_verdict take_counter(struct sender *sender, uint64_t counter)
{
	if (counter > sender->newest)
		advance(sender, counter);
	else if (sender->newest - counter >= MD_WINDOW)
		return MD_OPEN_TOO_OLD;
	else if (*word_of(sender, counter) & bit_of(counter))
		return MD_OPEN_REPLAY;
	*word_of(sender, counter) |= bit_of(counter);
	return MD_OPEN_OK;
}

/* All counters up to the first count as accepted: a window that is forgotten now may have accepted them. */
static void begin(struct sender *sender, uint64_t start, uint64_t counter)
{
	sender->start = start;
	sender->newest = counter;
	memset(sender->words, 0xff, sizeof(sender->words));
	*word_of(sender, counter) = bit_of(counter) | (bit_of(counter) - 1);
}

static bool forgettable(const struct sender *sender, uint64_t now_ns)
{
	return now_ns > sender->taken_ns && now_ns - sender->taken_ns > COOKIE_LIFE_NS;
}

static struct sender *add_sender(struct md_windows *windows, const struct mv_host_id *id,
				 uint64_t now_ns)
{
	struct sender *sender = md_table_add(&windows->senders, id);

	if (sender)
		return sender;
	sender = md_table_oldest(&windows->senders);
	if (!forgettable(sender, now_ns))
		return NULL;
	md_table_remove(&windows->senders, sender);
	return md_table_add(&windows->senders, id);
}

/* The datagram has another start number than the window. */
static enum md_verdict take_start(struct sender *sender, uint64_t start, uint64_t counter,
				  bool fresh, uint64_t now_ns)
{
	if (start < sender->start && !forgettable(sender, now_ns))
		return MD_OPEN_OLD_START;
	if (!fresh)
		return MD_OPEN_UNPROVEN;
	begin(sender, start, counter);
	return MD_OPEN_OK;
}

enum md_verdict md_windows_take(struct md_windows *windows, const struct mv_host_id *id,
				uint64_t start, uint64_t counter, bool fresh, uint64_t now_ns)
{
	struct sender *sender = md_table_find(&windows->senders, id);
	enum md_verdict verdict = MD_OPEN_OK;

	if (!sender) {
		if (!fresh)
			return MD_OPEN_UNPROVEN;
		sender = add_sender(windows, id, now_ns);
		if (!sender)
			return MD_OPEN_NO_ROOM;
		begin(sender, start, counter);
	} else if (start != sender->start) {
		verdict = take_start(sender, start, counter, fresh, now_ns);
	} else {
		verdict = take_counter(sender, counter);
	}
	if (verdict)
		return verdict;
	sender->taken_ns = now_ns;
	md_table_touch(&windows->senders, sender);
	return MD_OPEN_OK;
}
