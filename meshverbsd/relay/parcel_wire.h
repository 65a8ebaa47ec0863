/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PARCEL_WIRE_H
#define MD_PARCEL_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "secure.h"

/*
 * Payload of the kind MESSAGE: a message between two processes on its way from agent to agent, or the receipt for
 * one. Ids grow within one start of their sender and are the same in every copy of a message: copies go over
 * several paths and are repeated until a receipt comes. Pure.
 */

enum md_parcel_op {
	MD_PARCEL_CARRY = 1,
	MD_PARCEL_RECEIPT, /* it has arrived: handed over, or nobody here has that QP */
};

struct md_parcel_wire {
	enum md_parcel_op op;
	uint64_t id;
	uint64_t start; /* RECEIPT: of the agent that gave the id (secure.h); CARRY: 0 */
	uint16_t len; /* CARRY: of the encoded mv_ctl_msg; RECEIPT: 0 */
	const uint8_t *data;
};

/** md_parcel_encode - write one; @buf: MD_PAYLOAD_MAX_BYTES; returns its length */
size_t md_parcel_encode(const struct md_parcel_wire *parcel, uint8_t *buf);

/**
 * md_parcel_decode - read and check one; the message itself is not looked at
 * @ret: written on success only; its data points into @buf
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_parcel_decode(const uint8_t *buf, size_t len, struct md_parcel_wire *ret);

#endif
