/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROBE_WIRE_H
#define MD_PROBE_WIRE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Payload of the kinds PROBE and ECHO; an echo repeats its probe's nonce and number. The path is that of the datagram: from one
 * address to the other, and back between the same two. Pure.
 */
#define MD_PROBE_BYTES 24

struct md_probe_wire {
	uint64_t nonce; /* of who asks, for this path: who has not seen the probe cannot answer */
	uint64_t number; /* of the probe, grows */
	/* One field on the wire, by kind: */
	union {
		uint32_t dropped; /* ECHO: datagrams that its sender has lost, or left unanswered, for want of room */
		uint32_t behind; /* PROBE: how many numbers before it the newest one that was answered is; 0: it is not said */
	};
};

/** md_probe_encode - write one; @buf: MD_PROBE_BYTES; returns its length */
size_t md_probe_encode(const struct md_probe_wire *probe, uint8_t *buf);

/**
 * md_probe_decode - read and check one
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_probe_decode(const uint8_t *buf, size_t len, struct md_probe_wire *ret);

#endif
