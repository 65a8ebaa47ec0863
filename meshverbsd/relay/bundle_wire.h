/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BUNDLE_WIRE_H
#define MD_BUNDLE_WIRE_H

#include "delta.h"
#include "fields.h"
#include "parcel_wire.h"

/*
 * Payload of the kind BUNDLE: many messages between processes, or many receipts, in one datagram. What each of them
 * means is what it means alone (parcel_wire.h). Agents from before there were bundles, or with another version of them,
 * drop them; so who wants to send one asks first, by an empty bundle of messages, which is answered by an empty one of
 * receipts. Each message, with its id, is written as what differs from the one before it (delta.h). Pure.
 */

#define MD_BUNDLE_HEADER_BYTES 12
#define MD_BUNDLE_RECEIPT_BYTES 8 /* of each: the id */

/* One that is being written. */
struct md_bundle_writer {
	struct md_writer w;
	struct md_delta delta;
};

struct md_bundle_wire {
	enum md_parcel_op op; /* of all of it */
	uint16_t n; /* messages or receipts; 0: a question, its answer */
	uint64_t start; /* RECEIPT: of the agent that gave the ids, or asks (secure.h); CARRY: 0 */
	struct md_reader left; /* decoded ones: for md_bundle_next() */
	struct md_delta delta; /* likewise */
};

/**
 * md_bundle_begin - write the head of one
 * @w: md_bundle_add() goes on with it; how many it is to be is written by md_bundle_end()
 * @buf: MD_PAYLOAD_MAX_BYTES
 */
void md_bundle_begin(struct md_bundle_writer *w, uint8_t *buf, enum md_parcel_op op, uint64_t start);

/** md_bundle_add - write one more; @parcel: of the bundle's op. Return: false when there is no room for it. */
bool md_bundle_add(struct md_bundle_writer *w, const struct md_parcel_wire *parcel);

/** md_bundle_end - @n: md_bundle_add() has said yes so often. Return: length of the payload. */
size_t md_bundle_end(struct md_bundle_writer *w, uint16_t n);

/**
 * md_bundle_decode - read and check one; the messages themselves are not looked at
 * @ret: written on success only; it points into @buf
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_bundle_decode(const uint8_t *buf, size_t len, struct md_bundle_wire *ret);

/** md_bundle_next - the next one of a decoded bundle, which has @n; its data is in @bundle, until the next call */
void md_bundle_next(struct md_bundle_wire *bundle, struct md_parcel_wire *ret);

#endif
