/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_BUNDLES_H
#define MD_BUNDLES_H

#include <netinet/in.h>

#include "bounds.h"
#include "bundle_wire.h"

/*
 * Messages and receipts that wait until a datagram is full, or for the end of a turn of the event loop; receipts longer,
 * MD_RECEIPTS_NS. Those to one place go together. No I/O, no clock: what is full goes to @send. Zeroed, but for @send and
 * @arg, to begin with.
 */

/* Where a bundle goes, and what all of it has in common. */
struct md_bundle_to {
	struct mv_host_id host; /* for whom it is sealed */
	struct in6_addr ip, from; /* @from: own address to send from; unspecified: the kernel's choice */
	uint16_t port;
	uint32_t ifindex; /* to leave by; 0: as routes say */
	enum md_parcel_op op;
	uint64_t start; /* RECEIPT: as in the datagram */
};

struct md_bundle {
	struct md_bundle_to to;
	uint16_t n; /* 0: the place is free */
	struct md_bundle_writer w;
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
};

struct md_bundles {
	void (*send)(void *arg, const struct md_bundle_to *to, const uint8_t *payload, size_t len);
	void *arg;
	uint64_t due_ns; /* when receipts are; 0: there are none */
	unsigned int next; /* place that is emptied when there is no free one */
	struct md_bundle bundles[MD_BUNDLES];
};

/** md_bundles_add - have one go to a place, perhaps at once; @parcel: of @to->op, its data is copied; @now_ns: only of a receipt */
void md_bundles_add(struct md_bundles *bundles, const struct md_bundle_to *to, const struct md_parcel_wire *parcel,
		    uint64_t now_ns);

/** md_bundles_flush - the end of a turn: send what is not to wait longer */
void md_bundles_flush(struct md_bundles *bundles, uint64_t now_ns);

/** md_bundles_next - when that is to be called at the latest; UINT64_MAX: nothing waits */
static inline uint64_t md_bundles_next(const struct md_bundles *bundles)
{
	return bundles->due_ns ? bundles->due_ns : UINT64_MAX;
}

#endif
