/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DELTA_H
#define MD_DELTA_H

#include "fields.h"

/*
 * Records written as what differs from the one before them. Messages of queue pairs that move together differ in a few
 * numbers only, and the fewer bytes each takes, the fewer datagrams there are. Pure.
 *
 * On the wire a record is runs, each of them: one byte, how many bytes are those that the record before has at the same
 * place (beyond its end, and before the first: zero); one byte, how many come now; those. As many as the record has
 * bytes, of which its reader knows the number.
 */

#define MD_DELTA_RECORD_MAX_BYTES 520 /* an id and the longest message: bundle_wire.c */
/* Of a record of @len bytes on the wire, at most: a run is only begun where it saves more than its two bytes, or after 255. */
#define MD_DELTA_WIRE_BYTES(len) ((len) + 2 + 2 * ((len) / 255))

/* Zeroed to begin with. */
struct md_delta {
	uint8_t last[MD_DELTA_RECORD_MAX_BYTES]; /* the last record; zero beyond its end */
	size_t len;
};

/**
 * md_delta_put - write one more record; @len: at most MD_DELTA_RECORD_MAX_BYTES
 *
 * Return: false when there is no room for it: @w is bad, and @delta as it was.
 */
bool md_delta_put(struct md_writer *w, struct md_delta *delta, const uint8_t *record, size_t len);

/** md_delta_get - read one more, of @len bytes, into @delta->last; else @r is bad, and @delta of no use any more */
void md_delta_get(struct md_reader *r, struct md_delta *delta, size_t len);

#endif
