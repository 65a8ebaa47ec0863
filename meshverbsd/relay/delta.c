/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "delta.h"

#define RUN_MAX     255 /* largest number in a run's byte */
#define WORTH_BYTES 3 /* so many equal bytes end a run, because a new run costs two bytes */

/* Return: number of bytes from @at that equal the former record. */
static size_t alike(const struct md_delta *delta, const uint8_t *record, size_t at, size_t len)
{
	size_t n = 0;

	/* Fast path, 8 bytes at a time. */
	while (at + n + sizeof(uint64_t) <= len && !memcmp(record + at + n, delta->last + at + n, sizeof(uint64_t)))
		n += sizeof(uint64_t);
	while (at + n < len && record[at + n] == delta->last[at + n])
		n++;
	return n;
}

/* Return: number of new bytes of the run that begins at @at. */
static size_t unlike(const struct md_delta *delta, const uint8_t *record, size_t at, size_t len)
{
	size_t n = 0, same = 0;

	while (at + n < len && same < WORTH_BYTES && n < RUN_MAX) {
		same = record[at + n] == delta->last[at + n] ? same + 1 : 0;
		n++;
	}
	return same == WORTH_BYTES ? n - same : n;
}

/* Sets the length of @delta->last. */
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
