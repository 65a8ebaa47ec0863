/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BUNDLE_WIRE_H
#define MD_BUNDLE_WIRE_H

#include "delta.h"
#include "fields.h"
#include "msg_envelope.h"

/*
 * Payload of kind BUNDLE: many messages between processes, or many acks, in one datagram. Each means the same as
 * alone (msg_envelope.h). Older agents, and those with another version of bundles, drop them. So an agent asks first,
 * by an empty bundle of messages; an empty bundle of acks is the answer. Each message is encoded as its difference from
 * the one before (delta.h). Pure.
 */

#define MD_BUNDLE_HEADER_BYTES 12
#define MD_BUNDLE_ACK_BYTES 8 /* for each ack: the id */

/* A bundle that is being written. */
struct md_bundle_writer {
	struct md_writer w;
	struct md_delta delta;
};

struct md_bundle_wire {
	enum md_msg_op op; /* of all its entries */
	uint16_t n; /* number of messages or acks; 0: a question or its answer */
	uint64_t start; /* ACK: start number of the agent that gave the ids, or that asks (secure.h); DATA: 0 */
	struct md_reader left; /* of a decoded bundle: state of md_bundle_next() */
	struct md_delta delta; /* of a decoded bundle: state of md_bundle_next() */
};

/**
 * md_bundle_begin - write the header
 * @w: state for md_bundle_add(); md_bundle_end() fills in the number of entries
 * @buf: MD_PAYLOAD_MAX_BYTES
 */
void md_bundle_begin(struct md_bundle_writer *w, uint8_t *buf, enum md_msg_op op, uint64_t start);

/** md_bundle_add - add an entry; @envelope: with the bundle's op. Return: false: no room, and nothing is added */
bool md_bundle_add(struct md_bundle_writer *w, const struct md_envelope *envelope);

/** md_bundle_end - finish; @n: number of entries added. Return: length of the payload */
size_t md_bundle_end(struct md_bundle_writer *w, uint16_t n);

/**
 * md_bundle_decode - parse and check a bundle, but not its messages
 * @ret: written on success only; points into @buf
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_bundle_decode(const uint8_t *buf, size_t len, struct md_bundle_wire *ret);

/** md_bundle_next - get the next of @n entries; its data is in @bundle, valid until the next call */
void md_bundle_next(struct md_bundle_wire *bundle, struct md_envelope *ret);

#endif
