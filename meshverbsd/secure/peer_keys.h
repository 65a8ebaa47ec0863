/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PEER_KEYS_H
#define MD_PEER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directory.h"
#include "identity.h"
#include "secure_table.h"

/*
 * Pairwise keys: what this host seals for one other host with, and opens what comes from it. A key is X25519 of one key of each end,
 * hashed with both, and made when the first datagram needs it; then it is kept. An entry has two keys at most, so that the rotation
 * of either end loses nothing:
 *
 *   - The other end has another key: it had it before it said so, so this end seals with the new key at once, and opens both.
 *   - This end has another key: the other end may not know yet. This end seals with the old one until something arrives that is
 *     sealed with the new one, and opens both.
 */
struct md_sealing_key {
	uint64_t id; /* as on the wire; says nothing of the key; 0: there is none */
	uint8_t subkeys[3][32]; /* by enum md_purpose of secure_state.h */
};

struct md_peer_key {
	struct mv_host_id host; /* of the table */
	struct md_public box; /* the other end's */
	struct md_sealing_key now, other; /* seal with @now; open both */
	uint64_t number; /* of this end's keys: as of which the newest of the two is */
	bool other_is_newer; /* and takes the place of @now when something arrives that is sealed with it */
	bool seals; /* something has arrived that is sealed for this end: from now on nothing else counts */
};

struct md_peer_keys {
	bool on; /* this host has an identity */
	struct md_table table;
	struct md_public box; /* this end's */
	uint8_t box_secret[32];
	uint64_t number; /* grows when they change */
};

/** md_sealing_key_derive - what follows from 32 secret bytes */
void md_sealing_key_derive(const uint8_t master[32], struct md_sealing_key *ret);

int md_peer_keys_init(struct md_peer_keys *keys, size_t max); /* 0 or -ENOMEM */
void md_peer_keys_fini(struct md_peer_keys *keys);

/** md_peer_keys_own - this end has other keys from now on */
void md_peer_keys_own(struct md_peer_keys *keys, const struct md_identity *identity);

/** md_peer_keys_set - that is a host's public key; 0 or -ENOSPC */
int md_peer_keys_set(struct md_peer_keys *keys, const struct mv_host_id *host, const struct md_public *box);
void md_peer_keys_forget(struct md_peer_keys *keys, const struct mv_host_id *host);

struct md_peer_key *md_peer_keys_find(const struct md_peer_keys *keys, const struct mv_host_id *host); /* NULL: none */

/** md_peer_key_seal - what to seal with for that host; NULL: its public key is none */
const struct md_sealing_key *md_peer_key_seal(const struct md_peer_keys *keys, struct md_peer_key *peer);

/** md_peer_key_open - the one with that id; NULL: there is none */
const struct md_sealing_key *md_peer_key_open(const struct md_peer_keys *keys, struct md_peer_key *peer, uint64_t id);

/** md_peer_key_opened - @key has opened something that is not old: the other end has it */
void md_peer_key_opened(struct md_peer_key *peer, const struct md_sealing_key *key);

#endif
