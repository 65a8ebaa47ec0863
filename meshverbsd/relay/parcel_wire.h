/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PARCEL_WIRE_H
#define MD_PARCEL_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "secure.h"

/*
 * Payload of kind MESSAGE: a message between two processes, or the receipt of one, from agent to agent. Ids grow within
 * one start of their sender. All copies of a message have the same id: copies go over several paths, and are repeated
 * until a receipt comes. Pure.
 */

enum md_parcel_op {
	MD_PARCEL_CARRY = 1,
	MD_PARCEL_RECEIPT, /* the message has arrived: it was delivered, or no process has the QP */
};

struct md_parcel_wire {
	enum md_parcel_op op;
	uint64_t id;
	uint64_t start; /* RECEIPT: start number of the agent that gave the id (secure.h); CARRY: 0 */
	uint16_t len; /* CARRY: length of the encoded mv_ctl_msg; RECEIPT: 0 */
	const uint8_t *data;
};

/** md_parcel_encode - encode; @buf: MD_PAYLOAD_MAX_BYTES. Return: length */
size_t md_parcel_encode(const struct md_parcel_wire *parcel, uint8_t *buf);

/**
 * md_parcel_decode - parse and check, but not the message itself
 * @ret: written on success only; its data points into @buf
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_parcel_decode(const uint8_t *buf, size_t len, struct md_parcel_wire *ret);

#endif
