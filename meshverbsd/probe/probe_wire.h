/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROBE_WIRE_H
#define MD_PROBE_WIRE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Payload of PROBE and ECHO. An echo repeats nonce and number of its probe. The path is that of the datagram: from its
 * source to its destination address; the echo goes the reverse way. Pure.
 */
#define MD_PROBE_BYTES 24

struct md_probe_wire {
	uint64_t nonce; /* chosen by the sender for the path; an end that has not seen the probe cannot forge an echo */
	uint64_t number; /* of the probe, growing */
	/* One field on the wire, by kind. */
	union {
		uint32_t dropped; /* ECHO: datagrams that its sender has lost, or left unanswered, for want of room */
		uint32_t behind; /* PROBE: its number minus the newest number that was answered; 0: not said */
	};
};

/** md_probe_encode - write a payload; @buf: MD_PROBE_BYTES. Return: its length */
size_t md_probe_encode(const struct md_probe_wire *probe, uint8_t *buf);

/**
 * md_probe_decode - parse and check a payload
 * @ret: written on success only
 *
 * Return: 0; -EBADMSG; -EPROTONOSUPPORT for another version.
 */
int md_probe_decode(const uint8_t *buf, size_t len, struct md_probe_wire *ret);

#endif
