/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_GID_ARBITRATION_H
#define MD_GID_ARBITRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "directory.h"

/*
 * Which host has a GID that two hosts claim? A claim needs better evidence than the holder's, unless the holder has
 * fallen silent. With equal evidence the holder keeps the GID. So a host that joins cannot draw another host's
 * connections to itself, and an address that moves to another host is free when the old holder drops it or expires.
 *
 * Claims of a vouched host are signed. Take a GID with which the vouched host was once heard on the GID's link, or at
 * which it has answered: as long as that host is heard, only the hosts file can take the GID from it, because anybody
 * on that link can claim anything. Any other GID of a vouched host is weaker, because a signer may have invented
 * itself: another vouched host takes the GID if it is heard on that link, or has answered at the GID.
 *
 * A GID in grace (gid_grace.h) goes to a host that has the GID, with equal evidence. A vouched host yields a GID in grace
 * only to another vouched host with MD_EVIDENCE_ON_LINK or better. Our own host yields a GID in grace to any host.
 *
 * Link-local GIDs are not unique, so several hosts have each of them: see gidmap.h.
 */
enum md_evidence {
	MD_EVIDENCE_TOLD, /* claimed by unicast, from anywhere */
	MD_EVIDENCE_HEARD, /* claimed by a beacon on some link of ours */
	/*
	 * claimed by a beacon on a link of ours in whose subnet the GID is. For a vouched host: now, or at any time
	 * since the host is known. Or the host has answered at that address.
	 */
	MD_EVIDENCE_ON_LINK,
	MD_EVIDENCE_FILE, /* the hosts file says so */
	MD_EVIDENCE_OWN, /* the GID is in our own GID table */
};

struct md_gid_claim {
	struct mv_host_id host;
	enum md_evidence evidence;
	bool vouched; /* the host's identity is pinned, and has signed the claim */
	bool live; /* the host was heard within the expiry time, and still claims the GID; always true for FILE and OWN */
};

/**
 * md_gid_claim_wins - does a new claim take the GID from its holder?
 *
 * A new claim of the holder itself always wins: it is an update.
 */
bool md_gid_claim_wins(const struct md_gid_claim *holder, const struct md_gid_claim *claimant);

#endif
