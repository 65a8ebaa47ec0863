/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "secure_state.h"

#define DEFAULT_MAX 16384
/*
 * Without a fleet key: more than the hosts that a neighbour on one link can make up, have authenticated and let expire
 * while a cookie is valid: 500 a second (exchange/trust_statement.c), 4,096 in a row.
 */
#define MAX_WINDOWS (4 * DEFAULT_MAX)

static_assert(sizeof(((struct md_keys *)0)->keys[0]) == crypto_kdf_KEYBYTES, "master keys");
static_assert(crypto_kdf_KEYBYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "subkeys");

enum md_purpose md_purpose_of(enum md_kind kind)
{
	switch (kind) {
	case MD_KIND_BEACON:
		return MD_BEACONS;
	case MD_KIND_CHALLENGE:
	case MD_KIND_PROOF:
		return MD_HANDSHAKES;
	default:
		return MD_OTHERS;
	}
}

bool md_is_pairwise(enum md_kind kind)
{
	return kind == MD_KIND_MESSAGE || kind == MD_KIND_BUNDLE || kind == MD_KIND_CONFIRM;
}

static void use_keys(struct md_secure *s, const struct md_keys *keys)
{
	sodium_memzero(s->keys, sizeof(s->keys));
	s->n_keys = keys ? keys->n : 0;
	for (size_t i = 0; i < s->n_keys; i++)
		md_sealing_key_derive(keys->keys[i], &s->keys[i]);
}

int md_secure_new(const struct md_secure_config *config, const struct md_keys *keys,
		  uint64_t now_ns, struct md_secure **ret)
{
	struct md_secure *s;
	int rc;

	if (sodium_init() < 0)
		return -EIO;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->host = config->host;
	s->start = config->start;
	randombytes_buf(s->source_secret, sizeof(s->source_secret));
	use_keys(s, keys);
	rc = md_cookies_init(&s->cookies, config->max_cookies ? config->max_cookies : DEFAULT_MAX,
			     now_ns);
	if (!rc)
		rc = md_windows_init(&s->windows,
				     config->max_senders ? config->max_senders : MAX_WINDOWS);
	if (!rc)
		rc = md_peer_keys_init(&s->peers, config->max_senders ? config->max_senders : DEFAULT_MAX);
	if (rc) {
		md_secure_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void md_secure_free(struct md_secure *s)
{
	if (!s)
		return;
	md_cookies_fini(&s->cookies);
	md_windows_fini(&s->windows);
	md_peer_keys_fini(&s->peers);
	sodium_memzero(s, sizeof(*s));
	free(s);
}

bool md_secure_reload(struct md_secure *s, const struct md_keys *keys)
{
	bool had = md_secure_has_key(s);

	use_keys(s, keys);
	return md_secure_has_key(s) != had;
}

bool md_secure_has_key(const struct md_secure *s)
{
	return s->n_keys > 0;
}

/* ---- hosts with identities ---- */

void md_secure_identity(struct md_secure *s, const struct md_identity *identity)
{
	md_peer_keys_own(&s->peers, identity);
}

int md_secure_peer(struct md_secure *s, const struct mv_host_id *host, const struct md_public *box)
{
	int err = md_peer_keys_set(&s->peers, host, box);
	struct md_peer_key *peer = md_peer_keys_find(&s->peers, host);

	if (!err && peer && !peer->window.newest)
		md_windows_give_back(&s->windows, host, &peer->window);
	return err;
}

void md_secure_forget_peer(struct md_secure *s, const struct mv_host_id *host)
{
	const struct md_peer_key *peer = md_peer_keys_find(&s->peers, host);

	if (peer)
		md_windows_keep(&s->windows, host, &peer->window);
	md_peer_keys_forget(&s->peers, host);
}

bool md_secure_peer_seals(const struct md_secure *s, const struct mv_host_id *host)
{
	const struct md_peer_key *peer = md_secure_has_key(s) ? NULL : md_peer_keys_find(&s->peers, host);

	return peer && peer->seals;
}

/* ---- sending ---- */

struct md_addr md_link_of(uint32_t ifindex)
{
	return (struct md_addr){.ifindex = ifindex};
}

static void fill_header(struct md_secure *s, enum md_kind kind, const struct md_addr *to,
			uint32_t ifindex, uint64_t now_ns, struct md_header *header)
{
	struct md_addr link = md_link_of(ifindex);

	memset(header, 0, sizeof(*header));
	memcpy(header->magic, MD_MAGIC, sizeof(header->magic));
	header->version = MD_VERSION;
	header->kind = (uint8_t)kind;
	header->sender = s->host;
	header->start = htobe64(s->start);
	header->counter = htobe64(++s->counter);
	header->mine = md_cookie_make(&s->cookies, to ? to : &link, now_ns);
	if (to)
		header->cookie = md_cookie_given(&s->cookies, to);
}

/* @key: NULL: not sealed */
static size_t finish(const struct md_sealing_key *key, enum md_protection protection, struct md_header *header, const void *payload,
		     size_t payload_len, uint8_t *ret)
{
	uint8_t *nonce = ret + sizeof(*header);
	unsigned long long sealed_len;

	if (!key) {
		memcpy(ret, header, sizeof(*header));
		if (payload_len)
			memcpy(ret + sizeof(*header), payload, payload_len);
		return sizeof(*header) + payload_len;
	}
	header->protection = (uint8_t)protection;
	header->key_id = key->id;
	memcpy(ret, header, sizeof(*header));
	randombytes_buf(nonce, MD_NONCE_BYTES);
	crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + MD_NONCE_BYTES, &sealed_len, payload,
						   payload_len, ret,
						   sizeof(*header) + MD_NONCE_BYTES, NULL, nonce,
						   key->subkeys[md_purpose_of(header->kind)]);
	return sizeof(*header) + MD_NONCE_BYTES + sealed_len;
}

size_t md_seal(struct md_secure *s, enum md_kind kind, const struct md_addr *to, uint32_t ifindex,
	       const void *payload, size_t payload_len, uint64_t now_ns, uint8_t *ret)
{
	return md_seal_for(s, NULL, kind, to, ifindex, payload, payload_len, now_ns, ret);
}

static const struct md_sealing_key *fleet_key(const struct md_secure *s)
{
	return s->n_keys ? &s->keys[0] : NULL;
}

/*
 * A host that has not sealed anything may be unable to open sealed datagrams. So only CONFIRM, which asks for that, is
 * sealed then.
 */
static const struct md_sealing_key *pairwise_key(struct md_secure *s, const struct mv_host_id *host, enum md_kind kind)
{
	struct md_peer_key *peer = host && md_is_pairwise(kind) ? md_peer_keys_find(&s->peers, host) : NULL;

	return peer && (peer->seals || kind == MD_KIND_CONFIRM) ? md_peer_key_seal(&s->peers, peer) : NULL;
}

size_t md_seal_for(struct md_secure *s, const struct mv_host_id *host, enum md_kind kind, const struct md_addr *to,
		   uint32_t ifindex, const void *payload, size_t payload_len, uint64_t now_ns, uint8_t *ret)
{
	const struct md_sealing_key *key = fleet_key(s);
	enum md_protection protection = MD_SEALED;
	struct md_header header;

	assert(payload_len <= MD_PAYLOAD_MAX_BYTES);
	assert(kind > 0 && kind < MD_KIND_END && md_purpose_of(kind) != MD_HANDSHAKES);
	if (!key) {
		protection = MD_PAIRWISE;
		key = pairwise_key(s, host, kind);
	}
	fill_header(s, kind, to, ifindex, now_ns, &header);
	return finish(key, protection, &header, payload, payload_len, ret);
}

size_t md_secure_reply(struct md_secure *s, enum md_kind kind, const struct md_header *to,
		       const struct md_addr *from, uint64_t now_ns, uint8_t *ret)
{
	struct md_header header;

	fill_header(s, kind, from, 0, now_ns, &header);
	header.cookie = to->mine;
	if (kind == MD_KIND_CHALLENGE)
		header.about = to->kind;
	return finish(fleet_key(s), MD_SEALED, &header, NULL, 0, ret);
}
