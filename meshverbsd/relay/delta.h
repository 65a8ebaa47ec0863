/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DELTA_H
#define MD_DELTA_H

#include "fields.h"

/*
 * Delta encoding: a record is encoded as its difference from the record before. Messages of queue pairs that move
 * together differ in a few numbers, so more of them fit in a datagram. Pure.
 *
 * On the wire a record is a sequence of runs. A run is: one byte, number of bytes equal to the former record at the
 * same place (zeros before the first record, and beyond its end); one byte, number of new bytes; the new bytes. The
 * runs end when the record has its length, which the reader knows. Example: former record "abcdef", new record
 * "abXdef": 2 1 'X' 3 0.
 */

#define MD_DELTA_RECORD_MAX_BYTES 520 /* id and the longest message: bundle_wire.c */
/*
 * Longest encoding of a record of @len bytes: a new run begins only where it saves more than its two bytes, or after
 * 255 bytes.
 */
#define MD_DELTA_WIRE_BYTES(len) ((len) + 2 + 2 * ((len) / 255))

/* Zeroed at first. */
struct md_delta {
	uint8_t last[MD_DELTA_RECORD_MAX_BYTES]; /* the last record; zero beyond its end */
	size_t len;
};

/**
 * md_delta_put - append a record; @len: at most MD_DELTA_RECORD_MAX_BYTES
 *
 * Return: false: no room: @w is bad, and @delta unchanged.
 */
bool md_delta_put(struct md_writer *w, struct md_delta *delta, const uint8_t *record, size_t len);

/** md_delta_get - read a record of @len bytes into @delta->last. On error @r is bad, and @delta unusable */
void md_delta_get(struct md_reader *r, struct md_delta *delta, size_t len);

#endif
