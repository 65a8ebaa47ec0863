/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BUNDLES_H
#define MD_BUNDLES_H

#include <netinet/in.h>

#include "bounds.h"
#include "bundle_wire.h"

/*
 * Batches messages and acks to one destination, until a datagram is full or the event loop's iteration ends;
 * acks wait up to MD_ACKS_NS. No I/O, no clock, one thread: @send sends datagrams. Zeroed at first, except
 * @send and @arg.
 */

/* Destination of a bundle; all its entries have these values. */
struct md_bundle_to {
	struct mv_host_id host; /* the bundle is sealed for this host */
	struct in6_addr ip, from; /* @from: source address; unspecified: the kernel chooses */
	uint16_t port;
	uint32_t ifindex; /* netdev to leave by; 0: as routes say */
	enum md_msg_op op;
	uint64_t start; /* ACK: as in the datagram */
};

struct md_bundle {
	struct md_bundle_to to;
	uint16_t n; /* 0: the slot is free */
	struct md_bundle_writer w;
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
};

struct md_bundles {
	void (*send)(void *arg, const struct md_bundle_to *to, const uint8_t *payload, size_t len);
	void *arg;
	uint64_t due_ns; /* when acks are due; 0: none wait */
	unsigned int next; /* the slot to be sent next if no slot is free */
	struct md_bundle bundles[MD_BUNDLES];
};

/**
 * md_bundles_add - add an entry, and send what is full. @envelope: with op @to->op, copied; @now_ns: used for acks only
 */
void md_bundles_add(struct md_bundles *bundles, const struct md_bundle_to *to, const struct md_envelope *envelope,
		    uint64_t now_ns);

/** md_bundles_flush - end of an iteration: send messages, and acks that are due */
void md_bundles_flush(struct md_bundles *bundles, uint64_t now_ns);

/** md_bundles_next - latest time of the next md_bundles_flush(); UINT64_MAX: nothing waits */
static inline uint64_t md_bundles_next(const struct md_bundles *bundles)
{
	return bundles->due_ns ? bundles->due_ns : UINT64_MAX;
}

#endif
