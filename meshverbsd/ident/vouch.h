/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_VOUCH_H
#define MD_VOUCH_H

#include <sys/queue.h>

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
	LIST_ENTRY(md_vouch) of_name; /* in md_bound.besides; zero: not there */
};

/** md_vouch_unlist - take it out of md_bound.besides, if it is there. @vouch: may be NULL */
static inline void md_vouch_unlist(struct md_vouch *vouch)
{
	if (!vouch)
		return;
	if (vouch->of_name.le_prev)
		LIST_REMOVE(vouch, of_name);
	vouch->of_name.le_prev = NULL;
}

#endif
