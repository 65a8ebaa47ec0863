/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_VOUCH_H
#define MD_VOUCH_H

#include "statement.h"

enum md_trust_in {
	MD_TRUST_UNPINNED, /* has shown a key, but not as a neighbour: the hosts file or the administrator may name that key */
	MD_TRUST_PINNED, /* the key that a host of this name has to have */
	MD_TRUST_CHANGED, /* a host of this name has to have another key */
	MD_TRUST_REVOKED, /* nobody with this key is believed */
};

/* What a host has shown by a statement that was verified. */
struct md_vouch {
	enum md_trust_in trust;
	struct md_statement said; /* the newest one */
	uint8_t digest[MD_CONTENT_BYTES];
	bool is_new; /* its name was met for the first time */
	uint64_t say_ns; /* nothing is said before of somebody else who speaks as this host */
};

#endif
