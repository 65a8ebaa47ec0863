/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "secure_cookie.h"
#include "secure_limit.h"
#include "secure_window.h"

#define VERSION 1
#define DEFAULT_MAX 16384
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES crypto_aead_xchacha20poly1305_ietf_ABYTES

/*
 * What strangers can make us do, for each group of source addresses and altogether. A forgery costs some
 * two microseconds, an answer some three.
 */
#define N_GROUPS 256
static const struct md_rate group_forgeries = {.per_second = 500, .burst = 1000};
static const struct md_rate all_forgeries = {.per_second = 20000, .burst = 4000};
static const struct md_rate group_challenges = {.per_second = 32, .burst = 64};
static const struct md_rate all_challenges = {.per_second = 2000, .burst = 2000};

enum protection { PLAIN, SEALED };
enum purpose { BEACONS, HANDSHAKES, OTHERS, N_PURPOSES };

struct header {
	uint8_t magic[4];
	uint8_t version, kind, protection, about;
	uint64_t key_id;
	struct mv_host_id sender;
	uint64_t start, counter; /* big endian */
	struct md_cookie cookie, mine;
};

static_assert(sizeof(struct header) == MD_HEADER_BYTES, "the header has no padding");
static_assert(NONCE_BYTES + TAG_BYTES == MD_SEALED_BYTES, "what sealing adds");
static_assert(sizeof(((struct md_keys *)0)->keys[0]) == crypto_kdf_KEYBYTES, "master keys");
static_assert(crypto_kdf_KEYBYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "subkeys");

static const uint8_t magic[4] = {'M', 'V', 'D', 'G'};

struct sealing_key {
	uint64_t id; /* as on the wire; says nothing of the key */
	uint8_t subkeys[N_PURPOSES][crypto_aead_xchacha20poly1305_ietf_KEYBYTES];
};

struct limits {
	struct md_limit groups[N_GROUPS];
	struct md_limit all;
};

struct md_secure {
	struct mv_host_id host;
	uint64_t start, counter;
	size_t n_keys;
	struct sealing_key keys[MD_KEYS_MAX];
	struct md_cookies cookies;
	struct md_windows windows;
	uint8_t group_secret[crypto_shorthash_KEYBYTES];
	struct limits forgeries; /* of sources that have not shown that they receive there */
	struct limits proven_forgeries; /* of those that have: nobody else can use up their tokens */
	struct limits challenges;
};

/* One datagram on its way through md_open(). */
struct incoming {
	struct header header;
	const uint8_t *datagram;
	size_t len;
	const struct md_addr *from;
	int hop_limit;
	uint64_t now_ns;
	bool fresh; /* its cookie is valid */
};

static enum purpose purpose_of(enum md_kind kind)
{
	switch (kind) {
	case MD_KIND_BEACON:
		return BEACONS;
	case MD_KIND_CHALLENGE:
	case MD_KIND_PROOF:
		return HANDSHAKES;
	default:
		return OTHERS;
	}
}

static bool is_handshake(enum md_kind kind)
{
	return purpose_of(kind) == HANDSHAKES;
}

static void derive(const uint8_t *master, struct sealing_key *key)
{
	uint8_t id[crypto_kdf_BYTES_MIN];

	for (uint64_t i = 0; i < N_PURPOSES; i++)
		crypto_kdf_derive_from_key(key->subkeys[i], sizeof(key->subkeys[i]), i + 1, "mvagent1", master);
	crypto_kdf_derive_from_key(id, sizeof(id), 0, "mvkeyid1", master);
	memcpy(&key->id, id, sizeof(key->id));
	sodium_memzero(id, sizeof(id));
}

static void use_keys(struct md_secure *s, const struct md_keys *keys)
{
	sodium_memzero(s->keys, sizeof(s->keys));
	s->n_keys = keys ? keys->n : 0;
	for (size_t i = 0; i < s->n_keys; i++)
		derive(keys->keys[i], &s->keys[i]);
}

int md_secure_new(const struct md_secure_config *config, const struct md_keys *keys, uint64_t now_ns,
		  struct md_secure **ret)
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
	randombytes_buf(s->group_secret, sizeof(s->group_secret));
	use_keys(s, keys);
	rc = md_cookies_init(&s->cookies, config->max_cookies ? config->max_cookies : DEFAULT_MAX, now_ns);
	if (!rc)
		rc = md_windows_init(&s->windows, config->max_senders ? config->max_senders : DEFAULT_MAX);
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

/* Sending. */

/* Stands for everybody on a link where a cookie for one address cannot be given. */
static struct md_addr link_of(uint32_t ifindex)
{
	return (struct md_addr){.ifindex = ifindex};
}

static void fill_header(struct md_secure *s, enum md_kind kind, const struct md_addr *to, uint32_t ifindex,
			uint64_t now_ns, struct header *header)
{
	struct md_addr link = link_of(ifindex);

	memset(header, 0, sizeof(*header));
	memcpy(header->magic, magic, sizeof(magic));
	header->version = VERSION;
	header->kind = (uint8_t)kind;
	header->sender = s->host;
	header->start = htobe64(s->start);
	header->counter = htobe64(++s->counter);
	header->mine = md_cookie_make(&s->cookies, to ? to : &link, now_ns);
	if (to)
		header->cookie = md_cookie_given(&s->cookies, to);
}

static size_t finish(struct md_secure *s, struct header *header, const void *payload, size_t payload_len, uint8_t *ret)
{
	const struct sealing_key *key = &s->keys[0];
	uint8_t *nonce = ret + sizeof(*header);
	unsigned long long sealed_len;

	if (!s->n_keys) {
		memcpy(ret, header, sizeof(*header));
		if (payload_len)
			memcpy(ret + sizeof(*header), payload, payload_len);
		return sizeof(*header) + payload_len;
	}
	header->protection = SEALED;
	header->key_id = key->id;
	memcpy(ret, header, sizeof(*header));
	randombytes_buf(nonce, NONCE_BYTES);
	crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE_BYTES, &sealed_len, payload, payload_len, ret,
						   sizeof(*header) + NONCE_BYTES, NULL, nonce,
						   key->subkeys[purpose_of(header->kind)]);
	return sizeof(*header) + NONCE_BYTES + sealed_len;
}

size_t md_seal(struct md_secure *s, enum md_kind kind, const struct md_addr *to, uint32_t ifindex, const void *payload,
	       size_t payload_len, uint64_t now_ns, uint8_t *ret)
{
	struct header header;

	assert(payload_len <= MD_PAYLOAD_MAX_BYTES);
	assert(kind > 0 && kind < MD_KIND_END && !is_handshake(kind));
	fill_header(s, kind, to, ifindex, now_ns, &header);
	return finish(s, &header, payload, payload_len, ret);
}

/*
 * A challenge's cookie is what the datagram it answers gave as its sender's, so only who has seen that can make
 * one. A proof is an empty datagram with the cookie just learnt.
 */
static void reply(struct md_secure *s, enum md_kind kind, const struct incoming *in, struct md_opened *ret)
{
	struct header header;

	fill_header(s, kind, in->from, 0, in->now_ns, &header);
	header.cookie = in->header.mine;
	if (kind == MD_KIND_CHALLENGE)
		header.about = in->header.kind;
	ret->reply_len = finish(s, &header, NULL, 0, ret->reply);
}

/* Receiving. */

static enum md_verdict read_header(struct md_secure *s, struct incoming *in)
{
	struct header *header = &in->header;

	if (in->len < sizeof(*header) || in->len > MD_DATAGRAM_MAX_BYTES)
		return MD_OPEN_NOT_OURS;
	memcpy(header, in->datagram, sizeof(*header));
	if (memcmp(header->magic, magic, sizeof(magic)))
		return MD_OPEN_NOT_OURS;
	if (header->version != VERSION)
		return MD_OPEN_VERSION;
	header->start = be64toh(header->start);
	header->counter = be64toh(header->counter);
	if (!header->kind || header->kind >= MD_KIND_END || header->protection > SEALED || !header->counter)
		return MD_OPEN_NOT_OURS;
	if ((header->kind == MD_KIND_CHALLENGE) != (header->about != 0) || header->about >= MD_KIND_CHALLENGE)
		return MD_OPEN_NOT_OURS;
	if (memcmp(&header->sender, &s->host, sizeof(s->host)))
		return MD_OPEN_OK;
	return header->start == s->start ? MD_OPEN_OWN : MD_OPEN_SAME_ID;
}

static bool is_on_link(const struct incoming *in)
{
	return in->hop_limit == 255 && IN6_IS_ADDR_LINKLOCAL(&in->from->ip);
}

/*
 * A challenge may answer a multicast, which had the cookie for its whole link. That one does for nothing else,
 * and only with a key: everybody there has heard it.
 */
static bool has_valid_cookie(struct md_secure *s, const struct incoming *in)
{
	struct md_addr link = link_of(in->from->ifindex);

	if (md_cookie_valid(&s->cookies, in->from, &in->header.cookie, in->now_ns))
		return true;
	return md_secure_has_key(s) && in->header.kind == MD_KIND_CHALLENGE && in->header.about == MD_KIND_BEACON &&
	       md_cookie_valid(&s->cookies, &link, &in->header.cookie, in->now_ns);
}

/* Sources are counted by address; those who have a whole IPv6 network count as one. */
static unsigned int group_of(const struct md_secure *s, const struct md_addr *from)
{
	struct {
		uint8_t ip[16];
		uint32_t ifindex;
	} key = {.ifindex = 0};
	uint64_t hash;

	memcpy(key.ip, &from->ip, sizeof(key.ip));
	if (IN6_IS_ADDR_LINKLOCAL(&from->ip))
		key.ifindex = from->ifindex;
	else if (!IN6_IS_ADDR_V4MAPPED(&from->ip))
		memset(key.ip + 8, 0, 8);
	crypto_shorthash((uint8_t *)&hash, (const uint8_t *)&key, sizeof(key), s->group_secret);
	return hash % N_GROUPS;
}

static void challenge(struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	struct md_limit *group = &s->challenges.groups[group_of(s, in->from)];

	if (is_handshake(in->header.kind))
		return;
	if (md_limit_has(&s->challenges.all, &all_challenges, in->now_ns) &&
	    md_limit_take(group, &group_challenges, in->now_ns)) {
		md_limit_take(&s->challenges.all, &all_challenges, in->now_ns);
		reply(s, MD_KIND_CHALLENGE, in, ret);
	}
}

static const struct sealing_key *find_key(const struct md_secure *s, uint64_t id)
{
	for (size_t i = 0; i < s->n_keys; i++)
		if (s->keys[i].id == id)
			return &s->keys[i];
	return NULL;
}

static bool decrypt(const struct sealing_key *key, const struct incoming *in, struct md_opened *ret)
{
	const uint8_t *nonce = in->datagram + sizeof(in->header);
	size_t head_len = sizeof(in->header) + NONCE_BYTES;
	unsigned long long payload_len;

	if (crypto_aead_xchacha20poly1305_ietf_decrypt(ret->payload, &payload_len, NULL, in->datagram + head_len,
						       in->len - head_len, in->datagram, head_len, nonce,
						       key->subkeys[purpose_of(in->header.kind)]))
		return false;
	ret->payload_len = payload_len;
	return true;
}

static enum md_verdict authenticate(struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	const struct sealing_key *key = find_key(s, in->header.key_id);
	struct limits *limits = in->fresh ? &s->proven_forgeries : &s->forgeries;
	struct md_limit *group = &limits->groups[group_of(s, in->from)];

	if (!key)
		return MD_OPEN_OTHER_KEY;
	if (in->len < MD_HEADER_BYTES + MD_SEALED_BYTES)
		return MD_OPEN_NOT_OURS;
	if (!md_limit_has(group, &group_forgeries, in->now_ns) ||
	    !md_limit_has(&limits->all, &all_forgeries, in->now_ns))
		return MD_OPEN_THROTTLED;
	if (decrypt(key, in, ret))
		return MD_OPEN_OK;
	md_limit_take(group, &group_forgeries, in->now_ns);
	md_limit_take(&limits->all, &all_forgeries, in->now_ns);
	return MD_OPEN_FORGED;
}

static enum md_verdict open_sealed(struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	enum md_verdict verdict = authenticate(s, in, ret);

	if (verdict)
		return verdict;
	if (!in->fresh && in->header.kind != MD_KIND_BEACON)
		return MD_OPEN_UNPROVEN;
	return md_windows_take(&s->windows, &in->header.sender, in->header.start, in->header.counter, in->fresh,
			       in->now_ns);
}

static enum md_verdict open_plain(const struct incoming *in, struct md_opened *ret)
{
	size_t payload_len = in->len - sizeof(in->header);

	if (in->header.key_id || payload_len > sizeof(ret->payload))
		return MD_OPEN_NOT_OURS;
	if (!in->fresh && in->header.kind != MD_KIND_BEACON)
		return MD_OPEN_UNPROVEN;
	memcpy(ret->payload, in->datagram + sizeof(in->header), payload_len);
	ret->payload_len = payload_len;
	return MD_OPEN_OK;
}

static enum md_verdict judge(struct md_secure *s, struct incoming *in, struct md_opened *ret)
{
	enum md_verdict verdict = read_header(s, in);

	if (verdict)
		return verdict;
	if (md_secure_has_key(s) != (in->header.protection == SEALED))
		return md_secure_has_key(s) ? MD_OPEN_PLAIN : MD_OPEN_SEALED;
	if (in->header.kind == MD_KIND_BEACON && !is_on_link(in))
		return MD_OPEN_OFF_LINK;
	in->fresh = has_valid_cookie(s, in);
	verdict = md_secure_has_key(s) ? open_sealed(s, in, ret) : open_plain(in, ret);
	if (!verdict && is_handshake(in->header.kind) && ret->payload_len)
		return MD_OPEN_NOT_OURS;
	return verdict;
}

static void describe(const struct incoming *in, struct md_opened *ret)
{
	ret->kind = in->header.kind;
	ret->about = in->header.about;
	ret->sender = in->header.sender;
	ret->start = in->header.start;
	ret->counter = in->header.counter;
}

enum md_verdict md_open(struct md_secure *s, const uint8_t *datagram, size_t len, const struct md_addr *from,
			int hop_limit, uint64_t now_ns, struct md_opened *ret)
{
	struct incoming in = {
		.datagram = datagram, .len = len, .from = from, .hop_limit = hop_limit, .now_ns = now_ns};
	enum md_verdict verdict;

	ret->reply_len = 0;
	ret->payload_len = 0;
	verdict = judge(s, &in, ret);
	if (verdict == MD_OPEN_UNPROVEN)
		challenge(s, &in, ret);
	if (verdict)
		return verdict;
	describe(&in, ret);
	if (in.fresh)
		md_cookie_keep(&s->cookies, from, &in.header.mine);
	if (ret->kind == MD_KIND_PROOF)
		return MD_OPEN_PROVEN;
	if (ret->kind != MD_KIND_CHALLENGE)
		return MD_OPEN_OK;
	if (md_secure_has_key(s))
		reply(s, MD_KIND_PROOF, &in, ret);
	return MD_OPEN_LEARNED;
}
