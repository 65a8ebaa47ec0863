/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_VOUCH_H
#define MD_VOUCH_H

#include "statement.h"

enum md_trust_in {
	/* the host has shown a key, but not as a neighbour; the hosts file or the administrator may pin that key */
	MD_TRUST_UNPINNED,
	MD_TRUST_PINNED, /* the host has the key that is pinned for its name */
	MD_TRUST_CHANGED, /* another key is pinned for its name, or for its host id */
	MD_TRUST_REVOKED, /* the key is revoked */
};

/* Result of a host's verified statement. */
struct md_vouch {
	enum md_trust_in trust;
	struct md_statement said; /* the newest statement */
	uint8_t digest[MD_CONTENT_BYTES];
	bool is_new; /* no key was pinned for its name before */
	uint64_t log_again_ns; /* the log does not report impostors of this host before this time */
};

#endif
