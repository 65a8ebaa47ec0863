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
	keys->box = identity->box;
	memcpy(keys->box_secret, identity->box_secret, sizeof(keys->box_secret));
	keys->number++;
}

struct md_peer_key *md_peer_keys_find(const struct md_peer_keys *keys, const struct mv_host_id *host)
{
	return keys->on ? md_table_find(&keys->table, host) : NULL;
}

/* Both ends compute the same key. Return: false: a public key of low order, which no host can have. */
static bool make(const struct md_peer_keys *keys, const struct md_public *box, struct md_sealing_key *ret)
{
	bool first = memcmp(&keys->box, box, sizeof(*box)) < 0;
	static const char context[] = "meshverbs pair 1";
	uint8_t shared[32], master[32];
	crypto_generichash_state state;
	bool ok;

	ok = !crypto_scalarmult(shared, keys->box_secret, box->bytes);
	if (ok) {
		crypto_generichash_init(&state, (const uint8_t *)context, sizeof(context) - 1, sizeof(master));
		crypto_generichash_update(&state, shared, sizeof(shared));
		crypto_generichash_update(&state, first ? keys->box.bytes : box->bytes, sizeof(box->bytes));
		crypto_generichash_update(&state, first ? box->bytes : keys->box.bytes, sizeof(box->bytes));
		crypto_generichash_final(&state, master, sizeof(master));
		md_sealing_key_derive(master, ret);
	}
	sodium_memzero(shared, sizeof(shared));
	sodium_memzero(master, sizeof(master));
	return ok;
}

int md_peer_keys_set(struct md_peer_keys *keys, const struct mv_host_id *host, const struct md_public *box)
{
	struct md_peer_key *peer = md_table_find(&keys->table, host);

	if (!peer)
		peer = md_table_add(&keys->table, host);
	if (!peer)
		return -ENOSPC;
	if (md_public_is(&peer->box, box))
		return 0;
	peer->box = *box;
	/* The old key still opens datagrams under way. */
	if (peer->now.id)
		peer->other = peer->now;
	memset(&peer->now, 0, sizeof(peer->now));
	peer->other_is_newer = false;
	return 0;
}

void md_peer_keys_forget(struct md_peer_keys *keys, const struct mv_host_id *host)
{
	struct md_peer_key *peer = md_table_find(&keys->table, host);

	if (peer)
		md_table_remove(&keys->table, peer);
}

const struct md_sealing_key *md_peer_key_seal(const struct md_peer_keys *keys, struct md_peer_key *peer)
{
	if (peer->now.id)
		return &peer->now;
	if (!make(keys, &peer->box, &peer->now))
		return NULL;
	peer->number = keys->number;
	return &peer->now;
}

static const struct md_sealing_key *with_id(const struct md_peer_key *peer, uint64_t id)
{
	if (!id)
		return NULL;
	return peer->now.id == id ? &peer->now : peer->other.id == id ? &peer->other : NULL;
}

const struct md_sealing_key *md_peer_key_open(const struct md_peer_keys *keys, struct md_peer_key *peer, uint64_t id)
{
	const struct md_sealing_key *key;

	if (!md_peer_key_seal(keys, peer))
		return NULL;
	key = with_id(peer, id);
	if (key || peer->number == keys->number)
		return key;
	/* Computed once for each key of this end, whatever arrives. */
	if (!make(keys, &peer->box, &peer->other))
		return NULL;
	peer->number = keys->number;
	peer->other_is_newer = true;
	return with_id(peer, id);
}

void md_peer_key_opened(struct md_peer_key *peer, const struct md_sealing_key *key)
{
	struct md_sealing_key old = peer->now;

	peer->seals = true;
	if (key != &peer->other || !peer->other_is_newer)
		return;
	peer->now = peer->other;
	peer->other = old;
	peer->other_is_newer = false;
	sodium_memzero(&old, sizeof(old));
}
