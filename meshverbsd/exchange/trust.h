/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TRUST_H
#define MD_TRUST_H

#include "errands.h"
#include "pins.h"
#include "secure.h"
#include "secure_limit.h"
#include "statement.h"

/* A host id with which a host was heard whose key is pinned. */
struct md_bound {
	UT_hash_handle hh;
	struct mv_host_id id;
	char name[sizeof(((struct md_statement *)0)->name)];
	struct md_public key;
};

/* Who this host is, and who others have to be. The functions are in agent.h. */
struct md_trust {
	bool on;
	char why[192]; /* why not, for people */
	int dir_fd; /* STATE_DIR; -1: there is none */
	char machine_id[64];
	struct md_identity identity;
	struct md_pins pins;
	bool pins_lost; /* the file could not be read: it is not overwritten */
	bool pins_full; /* said already */
	struct md_bound *bound; /* since the start; MD_PINS_MAX at most */
	size_t n_bound;
	uint64_t rotated_ns; /* 0: not since the start */

	/* The next identity on its way to the disk: the errand's thread has it meanwhile. */
	struct md_errand rotate;
	struct md_identity next;
	int rotate_err;

	/* What we sign; 0: nothing yet. */
	size_t statement_len;
	uint8_t statement[MD_STATEMENT_MAX];

	/* The pins on their way to the disk: the errand's thread has the text meanwhile. */
	struct md_errand save;
	char *save_text;
	size_t save_len;
	int save_err, said_err;
	uint64_t save_ns; /* not before */

	uint64_t look_ns; /* when hosts are looked through */
	/* Statements verified, of all and of groups of source addresses: of what routers have forwarded, and of each link, as in secure.h. */
	struct md_verifying {
		struct md_limit all, groups[64];
	} verifying[1 + MD_LINK_SHARES];
	struct md_limit asking;
	struct {
		uint64_t sent, received, rejected, throttled; /* statements */
		uint64_t pinned, changed, impostors, rotated, confirmed;
	} count;
};

#endif
