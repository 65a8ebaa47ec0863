/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PEER_KEYS_H
#define MD_PEER_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directory.h"
#include "identity.h"
#include "secure_table.h"
#include "secure_window.h"

/*
 * Pairwise keys, by which this host and one other host seal datagrams to each other. A key is the X25519 secret of one
 * key of each end, hashed with both public keys. It is computed when the first datagram needs it, and then kept. Each
 * end has a newest and a former key, so an entry has four pairwise keys, and rotations lose nothing, also those of both
 * ends at once:
 *
 *   - The other end has a new key. It had that key before it announced it, so this end seals with the new key at once.
 *   - This end has a new key. The other end may not know it yet. This end seals with its former key until a datagram
 *     arrives that is sealed with the new one.
 *   - This end opens all four.
 *
 * Not thread-safe. The secrets are wiped by md_peer_keys_fini().
 */
struct md_sealing_key {
	uint64_t id; /* as on the wire; a hash that reveals nothing of the key; 0: no key */
	uint8_t subkeys[3][32]; /* by enum md_purpose of secure_state.h */
};

/* Index of a key of either end. */
enum md_key_age { MD_NEWEST, MD_FORMER, MD_N_AGES };

struct md_pair_key {
	bool made; /* also if the other end's public key is invalid: then the id is 0 */
	struct md_sealing_key key;
};

struct md_peer_key {
	struct mv_host_id host; /* key of the table */
	struct md_public boxes[MD_N_AGES]; /* public keys of the other end; zero: none */
	struct md_pair_key pairs[MD_N_AGES][MD_N_AGES]; /* by key of this end and key of the other end */
	uint64_t number; /* md_peer_keys.number for which @pairs is valid */
	enum md_key_age known; /* the key of this end that the other end is known to have */
	struct md_window window; /* of the other end */
	bool seals; /* the other end has sealed a datagram for this end; unsealed ones are refused from then on */
};

struct md_peer_keys {
	bool on; /* this host has an identity */
	struct md_table table;
	struct {
		struct md_public box; /* public key */
		uint8_t secret[32];
	} own[MD_N_AGES]; /* of this end */
	uint64_t number; /* keys that this end has had */
};

/** md_sealing_key_derive - derive id and subkeys from 32 secret bytes */
void md_sealing_key_derive(const uint8_t master[32], struct md_sealing_key *ret);

int md_peer_keys_init(struct md_peer_keys *keys, size_t max); /* 0 or -ENOMEM */
void md_peer_keys_fini(struct md_peer_keys *keys);

/** md_peer_keys_own - this end has new keys */
void md_peer_keys_own(struct md_peer_keys *keys, const struct md_identity *identity);

/** md_peer_keys_set - set a host's public key. Return: 0 or -ENOSPC */
int md_peer_keys_set(struct md_peer_keys *keys, const struct mv_host_id *host, const struct md_public *box);
void md_peer_keys_forget(struct md_peer_keys *keys, const struct mv_host_id *host);

/* owned by @keys; NULL: none */
struct md_peer_key *md_peer_keys_find(const struct md_peer_keys *keys, const struct mv_host_id *host);

/** md_peer_key_seal - Return: the key for sealing; NULL: the host's public key is invalid */
const struct md_sealing_key *md_peer_key_seal(const struct md_peer_keys *keys, struct md_peer_key *peer);

/** md_peer_key_open - Return: the key with @id; NULL: none */
const struct md_sealing_key *md_peer_key_open(const struct md_peer_keys *keys, struct md_peer_key *peer, uint64_t id);

/** md_peer_key_opened - @key has opened a datagram that is no replay, so the other end has @key */
void md_peer_key_opened(struct md_peer_key *peer, const struct md_sealing_key *key);

#endif
