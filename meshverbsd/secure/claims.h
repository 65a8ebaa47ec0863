/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CLAIMS_H
#define MD_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "directory.h"

/*
 * Two hosts say that they have the same GID: whose is it? A GID is taken from who has it only by
 * somebody with better evidence, or when who had it has fallen silent; among equals the first one
 * stays. So a host that joins cannot draw another's connections to itself, and one that moves an
 * address waits for the old holder's entry to expire or to drop it.
 *
 * What a host that is vouched for says is signed. A GID that it was once heard with on the GID's link, or has answered at, is taken by the
 * hosts file only, as long as it is heard: others may say what they like on that link. Any other GID of such a host goes to another one
 * that is vouched for, and is heard on that link or has answered there: whoever signs may have invented himself.
 *
 * A GID that its host only keeps (kept.h) is taken on equal evidence by a host that has it; from a host that is vouched for only by
 * another such, with MD_EVIDENCE_ON_LINK at least. Our own host gives one up to anybody.
 *
 * Link-local GIDs are everybody's own on every link, and are not claimed (always both).
 */
enum md_evidence {
	MD_EVIDENCE_TOLD, /* said by unicast, from wherever */
	MD_EVIDENCE_HEARD, /* said by a beacon, on some link of ours */
	/*
	 * said by a beacon on a link of ours that the GID's address belongs to; of who is vouched for, also earlier, since the host is known.
	 * Or the host has answered at that address.
	 */
	MD_EVIDENCE_ON_LINK,
	MD_EVIDENCE_FILE, /* our administrator says so: the hosts file */
	MD_EVIDENCE_OWN, /* it is in our own GID table */
};

struct md_claim {
	struct mv_host_id host;
	enum md_evidence evidence;
	bool vouched; /* its identity is pinned, and has signed this */
	bool live; /* heard within the expiry time, and still says so; always for FILE and OWN */
};

/**
 * md_claim_wins - does a new claim take a GID from who has it?
 *
 * A claim of the same host always does: it is that host's news.
 */
bool md_claim_wins(const struct md_claim *holder, const struct md_claim *claimant);

#endif
