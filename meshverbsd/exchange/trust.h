/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TRUST_H
#define MD_TRUST_H

#include "async_job.h"
#include "pins.h"
#include "secure.h"
#include "secure_limit.h"
#include "statement.h"

/* The last host id under which a host with a known key was heard; a host has another id after each boot. */
struct md_bound {
	UT_hash_handle hh, of_name;
	struct mv_host_id id;
	char name[sizeof(((struct md_statement *)0)->name)];
	struct md_public key;
	uint64_t start; /* largest start number in a statement with that id */
	bool sealed; /* the host has sealed something under that id: no other host has repeated its statement */
	LIST_HEAD(, md_vouch) besides; /* of hosts that are vouched for under another id, as the host of that name */
};

/* This host's identity, and the keys that other hosts have to have. Functions: agent.h. */
struct md_trust {
	bool on;
	char why[192]; /* reason for people, if not @on */
	int dir_fd; /* STATE_DIR; -1: none */
	char machine_id[64];
	struct md_identity identity;
	struct md_pins pins;
	bool pins_lost; /* the file could not be read, so it is not overwritten */
	bool pins_full; /* the log has said that no more pins fit */
	struct md_bound *bound, *bound_names; /* hash tables, by host id and by name, of this run; at most MD_PINS_MAX */
	size_t n_bound;
	uint64_t rotated_ns; /* last rotation of the own key; 0: none in this run */

	/* The next identity is being written. Until the job is done, its thread owns these fields. */
	struct md_job rotate;
	struct md_identity next;
	int rotate_err;

	/* Our statement; length 0: none yet. */
	size_t statement_len;
	uint8_t statement[MD_STATEMENT_MAX];

	/* The pins are being written. Until the job is done, its thread owns the text. */
	struct md_job save;
	char *save_text;
	size_t save_len;
	int save_err, said_err;
	uint64_t save_ns, save_noted_ns; /* no write before; for md_pins.noted only */

	uint64_t look_ns; /* next look at hosts */
	/*
	 * Rate limits of verifying statements, total and by group of source addresses. Index 0: datagrams that routers
	 * forwarded. Others: a share for each link, as in secure.h.
	 */
	struct md_verifying {
		struct md_limit all, groups[64];
	} verifying[1 + MD_LINK_SHARES];
	struct md_wanted_limits asking_wanted; /* questions to hosts that are wanted */
	struct {
		uint64_t sent, received, rejected, throttled; /* statements */
		uint64_t pinned, changed, impostors, rotated, confirmed;
	} count;
};

/** md_trust_follows - is the statement signed with @key, or with a key that @key has signed as its successor? */
bool md_trust_follows(const struct md_trust *trust, const struct md_statement *said, const struct md_public *key);

/** md_bound_find - Return: the host whose id this is, and whose key is pinned; NULL: none. Valid until the next note */
const struct md_bound *md_bound_find(const struct md_trust *trust, const struct mv_host_id *id);
/** md_bound_of - Return: the host of a statement, by name and key, or former key; NULL: none. Valid until the next note */
const struct md_bound *md_bound_of(const struct md_trust *trust, const struct md_statement *said);
/**
 * md_bound_note - the host of a statement has that id, and no other one any more
 * @sealed: the host has sealed something under that id
 *
 * A statement is valid for ever, and anybody can repeat it. So an id under which the host has sealed something gives way
 * only to another such id.
 *
 * Without memory, or with MD_PINS_MAX notes of hosts that have sealed something, the first host to claim an id has it.
 */
void md_bound_note(struct md_trust *trust, const struct md_statement *said, bool sealed);
/** md_bound_list - a host is vouched for: if it has another id than the host of its name, list it there */
void md_bound_list(struct md_trust *trust, struct md_vouch *vouch);
void md_bound_drop_all(struct md_trust *trust);

#endif
