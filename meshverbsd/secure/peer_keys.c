/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "peer_keys.h"

#include <errno.h>
#include <string.h>

#include <sodium.h>

#define N_SUBKEYS (sizeof(((struct md_sealing_key *)0)->subkeys) / sizeof(((struct md_sealing_key *)0)->subkeys[0]))

void md_sealing_key_derive(const uint8_t master[32], struct md_sealing_key *ret)
{
	uint8_t id[crypto_kdf_BYTES_MIN];

	for (uint64_t i = 0; i < N_SUBKEYS; i++)
		crypto_kdf_derive_from_key(ret->subkeys[i], sizeof(ret->subkeys[i]), i + 1, "mvagent1", master);
	crypto_kdf_derive_from_key(id, sizeof(id), 0, "mvkeyid1", master);
	memcpy(&ret->id, id, sizeof(ret->id));
	sodium_memzero(id, sizeof(id));
}

int md_peer_keys_init(struct md_peer_keys *keys, size_t max)
{
	return md_table_init(&keys->table, max, sizeof(struct mv_host_id), sizeof(struct md_peer_key));
}

void md_peer_keys_fini(struct md_peer_keys *keys)
{
	md_table_fini(&keys->table);
	sodium_memzero(keys, sizeof(*keys));
}

void md_peer_keys_own(struct md_peer_keys *keys, const struct md_identity *identity)
{
	keys->on = true;
	keys->own[MD_FORMER] = keys->own[MD_NEWEST];
	keys->own[MD_NEWEST].box = identity->box;
	memcpy(keys->own[MD_NEWEST].secret, identity->box_secret, sizeof(keys->own[MD_NEWEST].secret));
	keys->number++;
}

struct md_peer_key *md_peer_keys_find(const struct md_peer_keys *keys, const struct mv_host_id *host)
{
	return keys->on ? md_table_find(&keys->table, host) : NULL;
}

/* Both ends compute the same key. @ret: unchanged if a public key is of low order, which no host can have. */
static void make(const struct md_public *own, const uint8_t secret[32], const struct md_public *box, struct md_sealing_key *ret)
{
	bool first = memcmp(own, box, sizeof(*box)) < 0;
	static const char context[] = "meshverbs pair 1";
	uint8_t shared[32], master[32];
	crypto_generichash_state state;

	if (!crypto_scalarmult(shared, secret, box->bytes)) {
		crypto_generichash_init(&state, (const uint8_t *)context, sizeof(context) - 1, sizeof(master));
		crypto_generichash_update(&state, shared, sizeof(shared));
		crypto_generichash_update(&state, first ? own->bytes : box->bytes, sizeof(box->bytes));
		crypto_generichash_update(&state, first ? box->bytes : own->bytes, sizeof(box->bytes));
		crypto_generichash_final(&state, master, sizeof(master));
		md_sealing_key_derive(master, ret);
	}
	sodium_memzero(shared, sizeof(shared));
	sodium_memzero(master, sizeof(master));
}

int md_peer_keys_set(struct md_peer_keys *keys, const struct mv_host_id *host, const struct md_public *box)
{
	struct md_peer_key *peer = md_table_find(&keys->table, host);

	if (!peer) {
		peer = md_table_add(&keys->table, host);
		if (!peer)
			return -ENOSPC;
		peer->number = keys->number;
		peer->boxes[MD_NEWEST] = *box;
		return 0;
	}
	if (md_public_is(&peer->boxes[MD_NEWEST], box))
		return 0;
	peer->boxes[MD_FORMER] = peer->boxes[MD_NEWEST];
	peer->boxes[MD_NEWEST] = *box;
	for (size_t own = 0; own < MD_N_AGES; own++) {
		peer->pairs[own][MD_FORMER] = peer->pairs[own][MD_NEWEST];
		sodium_memzero(&peer->pairs[own][MD_NEWEST], sizeof(peer->pairs[own][MD_NEWEST]));
	}
	return 0;
}

void md_peer_keys_forget(struct md_peer_keys *keys, const struct mv_host_id *host)
{
	struct md_peer_key *peer = md_table_find(&keys->table, host);

	if (peer)
		md_table_remove(&keys->table, peer);
}

/* This end may have a new key, of which the other end may not know yet. */
static void follow_own(const struct md_peer_keys *keys, struct md_peer_key *peer)
{
	if (peer->number == keys->number)
		return;
	if (peer->number + 1 == keys->number)
		memcpy(peer->pairs[MD_FORMER], peer->pairs[MD_NEWEST], sizeof(peer->pairs[MD_FORMER]));
	else
		sodium_memzero(peer->pairs[MD_FORMER], sizeof(peer->pairs[MD_FORMER]));
	sodium_memzero(peer->pairs[MD_NEWEST], sizeof(peer->pairs[MD_NEWEST]));
	peer->number = keys->number;
	peer->known = MD_FORMER;
}

/* Return: NULL: there is none. Each is computed once, whatever arrives. */
static const struct md_sealing_key *pair_key(const struct md_peer_keys *keys, struct md_peer_key *peer, enum md_key_age own,
					     enum md_key_age theirs)
{
	struct md_pair_key *pair = &peer->pairs[own][theirs];

	if (!pair->made && !md_public_is_zero(&peer->boxes[theirs]) && !md_public_is_zero(&keys->own[own].box)) {
		pair->made = true;
		make(&keys->own[own].box, keys->own[own].secret, &peer->boxes[theirs], &pair->key);
	}
	return pair->key.id ? &pair->key : NULL;
}

const struct md_sealing_key *md_peer_key_seal(const struct md_peer_keys *keys, struct md_peer_key *peer)
{
	follow_own(keys, peer);
	return pair_key(keys, peer, peer->known, MD_NEWEST);
}

const struct md_sealing_key *md_peer_key_open(const struct md_peer_keys *keys, struct md_peer_key *peer, uint64_t id)
{
	follow_own(keys, peer);
	for (size_t theirs = 0; theirs < MD_N_AGES; theirs++) {
		for (size_t own = 0; own < MD_N_AGES; own++) {
			const struct md_sealing_key *key = pair_key(keys, peer, own, theirs);

			if (key && key->id == id)
				return key;
		}
	}
	return NULL;
}

void md_peer_key_opened(struct md_peer_key *peer, const struct md_sealing_key *key)
{
	peer->seals = true;
	if (key == &peer->pairs[MD_NEWEST][MD_NEWEST].key || key == &peer->pairs[MD_NEWEST][MD_FORMER].key)
		peer->known = MD_NEWEST;
}
