/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_EXPIRY_H
#define MD_EXPIRY_H

#include "hosts.h"

/*
 * Timer that makes silent hosts expire. Time in which this agent did not run does not count as silence. Time in which it
 * lost datagrams does not either, up to one further lifetime of a host. No clock, no I/O.
 */
struct md_expiry {
	uint64_t due_ns; /* next run of md_expiry_look() */
	uint64_t looked_ns; /* last run */
	uint32_t dropped; /* md_udp_dropped() at the last run */
};

/**
 * md_expiry_begin - start the timer; the first run is due at once
 * @dropped: md_udp_dropped() at present
 */
void md_expiry_begin(struct md_expiry *expiry, uint32_t dropped, uint64_t now_ns);

/**
 * md_expiry_look - remove hosts that have been silent too long; the caller calls at @expiry->due_ns
 * @drained: the sockets are empty: every datagram that had arrived has been read
 * @dropped: md_udp_dropped(), read after the sockets were drained
 *
 * Return: as md_hosts_expire(). @expiry->due_ns is later than @now_ns afterwards.
 */
bool md_expiry_look(struct md_expiry *expiry, struct md_hosts *hosts, bool drained, uint32_t dropped, uint64_t now_ns);

#endif
