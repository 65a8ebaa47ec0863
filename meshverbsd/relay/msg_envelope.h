/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_MSG_ENVELOPE_H
#define MD_MSG_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "secure.h"

/*
 * Payload of kind MESSAGE: a message between two processes, or the ack of one, from agent to agent. Ids grow within
 * one start of their sender. All copies of a message have the same id: copies go over several paths, and are repeated
 * until an ack comes. Pure.
 */

enum md_msg_op {
	MD_MSG_DATA = 1,
	MD_MSG_ACK, /* the message has arrived: it was delivered, or no process has the QP */
};

struct md_envelope {
	enum md_msg_op op;
	uint64_t id;
	uint64_t start; /* ACK: start number of the agent that gave the id (secure.h); DATA: 0 */
	uint16_t len; /* DATA: length of the encoded mv_ctl_msg; ACK: 0 */
	const uint8_t *data;
};

/** md_envelope_encode - encode; @buf: MD_PAYLOAD_MAX_BYTES. Return: length */
size_t md_envelope_encode(const struct md_envelope *envelope, uint8_t *buf);

/**
 * md_envelope_decode - parse and check, but not the message itself
 * @ret: written on success only; its data points into @buf
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_envelope_decode(const uint8_t *buf, size_t len, struct md_envelope *ret);

#endif
