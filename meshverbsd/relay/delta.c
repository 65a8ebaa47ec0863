/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "delta.h"

#define RUN_MAX     255 /* what either number of a run can say */
#define WORTH_BYTES 3 /* so many alike end a run: the numbers of the next one take fewer */

/* How many bytes from @at on are as before. */
static size_t alike(const struct md_delta *delta, const uint8_t *record, size_t at, size_t len)
{
	size_t n = 0;

	/* Most are. */
	while (at + n + sizeof(uint64_t) <= len && !memcmp(record + at + n, delta->last + at + n, sizeof(uint64_t)))
		n += sizeof(uint64_t);
	while (at + n < len && record[at + n] == delta->last[at + n])
		n++;
	return n;
}

/* How many are to be written from @at on. */
static size_t unlike(const struct md_delta *delta, const uint8_t *record, size_t at, size_t len)
{
	size_t n = 0, same = 0;

	while (at + n < len && same < WORTH_BYTES && n < RUN_MAX) {
		same = record[at + n] == delta->last[at + n] ? same + 1 : 0;
		n++;
	}
	return same == WORTH_BYTES ? n - same : n;
}

/* What is in @delta->last is all of it. */
static void end_at(struct md_delta *delta, size_t len)
{
	if (delta->len > len)
		memset(delta->last + len, 0, delta->len - len);
	delta->len = len;
}

bool md_delta_put(struct md_writer *w, struct md_delta *delta, const uint8_t *record, size_t len)
{
	size_t at = 0, same, differ;

	while (at < len) {
		same = alike(delta, record, at, len);
		if (same > RUN_MAX)
			same = RUN_MAX;
		differ = unlike(delta, record, at + same, len);
		md_put8(w, (uint8_t)same);
		md_put8(w, (uint8_t)differ);
		md_put(w, record + at + same, differ);
		at += same + differ;
	}
	if (w->bad)
		return false;
	memcpy(delta->last, record, len);
	end_at(delta, len);
	return true;
}

void md_delta_get(struct md_reader *r, struct md_delta *delta, size_t len)
{
	size_t at = 0;

	while (at < len && !r->bad) {
		size_t same = md_get8(r), differ = md_get8(r);
		const uint8_t *bytes = md_get(r, differ);

		if (!bytes || same + differ > len - at) {
			r->bad = true;
			return;
		}
		memcpy(delta->last + at + same, bytes, differ);
		at += same + differ;
	}
	end_at(delta, len);
}
