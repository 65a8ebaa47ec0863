/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_EXPIRY_H
#define MD_EXPIRY_H

#include "hosts.h"

/*
 * When hosts are looked through for who has not been heard for too long, and what of that time does not count, for it was our own
 * fault. No clock and no I/O.
 */
struct md_expiry {
	uint64_t due_ns; /* of the next look */
	uint64_t looked_ns; /* the last one */
	uint32_t dropped; /* as of then */
};

/** md_expiry_begin - @dropped: as md_udp_dropped() */
void md_expiry_begin(struct md_expiry *expiry, uint32_t dropped, uint64_t now_ns);

/**
 * md_expiry_look - it is due: forget who has been silent
 * @drained: all that had arrived has been taken
 * @dropped: as md_udp_dropped(), after that
 *
 * Return: as md_hosts_expire(); @expiry->due_ns is later than @now_ns.
 */
bool md_expiry_look(struct md_expiry *expiry, struct md_hosts *hosts, bool drained, uint32_t dropped, uint64_t now_ns);

#endif
