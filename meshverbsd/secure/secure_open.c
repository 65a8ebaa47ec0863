/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure.h"

#include <endian.h>
#include <string.h>

#include "secure_state.h"

/*
 * Limits of the work that strangers can cause: for each group of source addresses and in total, for each link and for
 * forwarded datagrams. A forgery costs some two microseconds, an answer some three.
 */
static const struct md_rate group_forgeries = {.per_second = 500, .burst = 1000};
static const struct md_rate all_forgeries = {.per_second = 20000, .burst = 4000};
/*
 * When an agent starts or wakes up, all others probe it on all paths at once, with void cookies. A path whose probe is
 * refused, while probes of other paths are answered, would look dead. So challenges of paths have the limits of probes
 * and echoes (bounds.h), and one group of addresses may have all paths.
 */
static const struct md_rate group_challenges[] = {
	[MD_SHARE_OTHERS] = {.per_second = 32, .burst = 64},
	[MD_SHARE_PATHS] = {.per_second = 4000, .burst = 4096},
};
static const struct md_rate all_challenges[] = {
	[MD_SHARE_OTHERS] = {.per_second = 2000, .burst = 2000},
	[MD_SHARE_PATHS] = {.per_second = 20000, .burst = 20000},
};

static_assert(sizeof(struct mv_host_id) == crypto_shorthash_siphashx24_BYTES,
	      "a voucher is a SipHash");

/* A datagram in md_open(). */
struct incoming {
	struct md_header header;
	const uint8_t *datagram;
	size_t len;
	const struct md_addr *from;
	int hop_limit;
	uint64_t now_ns;
	bool fresh; /* the cookie is valid */
};

static bool is_handshake(enum md_kind kind)
{
	return md_purpose_of(kind) == MD_HANDSHAKES;
}

static enum md_verdict read_header(struct md_secure *s, struct incoming *in)
{
	struct md_header *header = &in->header;

	if (in->len < sizeof(*header) || in->len > MD_DATAGRAM_MAX_BYTES)
		return MD_OPEN_NOT_OURS;
	memcpy(header, in->datagram, sizeof(*header));
	if (memcmp(header->magic, MD_MAGIC, sizeof(header->magic)))
		return MD_OPEN_NOT_OURS;
	if (header->version != MD_VERSION)
		return MD_OPEN_VERSION;
	header->start = be64toh(header->start);
	header->counter = be64toh(header->counter);
	if (!header->kind || header->kind >= MD_KIND_END || header->protection > MD_PAIRWISE ||
	    !header->counter)
		return MD_OPEN_NOT_OURS;
	if ((header->kind == MD_KIND_CHALLENGE) != (header->about != 0) ||
	    header->about >= MD_KIND_END || is_handshake(header->about))
		return MD_OPEN_NOT_OURS;
	/* Programs take the id 0 for a host that is not known, and then do not check which host a message is from. */
	if (mv_host_id_is_zero(&header->sender))
		return MD_OPEN_NOT_OURS;
	if (memcmp(&header->sender, &s->host, sizeof(s->host)))
		return MD_OPEN_OK;
	return header->start == s->start ? MD_OPEN_OWN : MD_OPEN_SAME_ID;
}

static bool is_on_link(const struct incoming *in)
{
	const struct in6_addr *ip = &in->from->ip;

	return in->hop_limit == 255 && (IN6_IS_ADDR_LINKLOCAL(ip) || IN6_IS_ADDR_V4MAPPED(ip));
}

/*
 * A challenge may answer a multicast, which had the cookie of the whole link. Everybody on the link has heard that
 * cookie, so it counts for a challenge only, and only with a key.
 */
static bool has_valid_cookie(struct md_secure *s, const struct incoming *in)
{
	struct md_addr link = md_link_of(in->from->ifindex);

	if (md_cookie_valid(&s->cookies, in->from, &in->header.cookie, in->now_ns))
		return true;
	return md_secure_has_key(s) && in->header.kind == MD_KIND_CHALLENGE &&
	       md_cookie_valid(&s->cookies, &link, &in->header.cookie, in->now_ns);
}

/* A source address; a link-local one together with its link. */
struct source {
	uint8_t ip[16];
	uint32_t ifindex;
};

static struct source source_of(const struct md_addr *from)
{
	struct source source = {.ifindex = IN6_IS_ADDR_LINKLOCAL(&from->ip) ? from->ifindex : 0};

	memcpy(source.ip, &from->ip, sizeof(source.ip));
	return source;
}

/* Group of a source for rate limits: an address, or an IPv6 network of 64 bits. */
static unsigned int group_of(const struct md_secure *s, const struct md_addr *from)
{
	struct source source = source_of(from);
	uint64_t hash;

	if (!IN6_IS_ADDR_LINKLOCAL(&from->ip) && !IN6_IS_ADDR_V4MAPPED(&from->ip))
		memset(source.ip + 8, 0, 8);
	crypto_shorthash((uint8_t *)&hash, (const uint8_t *)&source, sizeof(source),
			 s->source_secret);
	return hash % MD_SOURCE_GROUPS;
}

static struct mv_host_id voucher_of(const struct md_secure *s, const struct incoming *in)
{
	struct source source = source_of(in->from);
	struct mv_host_id id;

	if (in->header.protection != MD_PLAIN)
		return in->header.sender;
	crypto_shorthash_siphashx24(id.bytes, (const uint8_t *)&source, sizeof(source),
				    s->source_secret);
	return id;
}

static struct md_link_limits *limits_of(struct md_secure *s, const struct incoming *in)
{
	return in->hop_limit == 255 ? &s->links[in->from->arrived % MD_LINK_SHARES] : &s->far;
}

/* The same limit for challenges sent and accepted: a host that accepts no more challenges than others send loses none. */
static bool take_challenge(const struct md_secure *s, struct md_source_limits shares[MD_N_SHARES],
			   const struct incoming *in)
{
	enum md_share share = md_is_of_path(in->datagram, in->len) ? MD_SHARE_PATHS : MD_SHARE_OTHERS;
	struct md_limit *all = &shares[share].all;
	struct md_limit *group = &shares[share].groups[group_of(s, in->from)];

	if (!md_limit_has(all, &all_challenges[share], in->now_ns) ||
	    !md_limit_take(group, &group_challenges[share], in->now_ns))
		return false;
	return md_limit_take(all, &all_challenges[share], in->now_ns);
}

/* Return: length of the challenge; 0: none is sent. */
static size_t challenge(struct md_secure *s, const struct incoming *in, uint8_t *ret)
{
	if (is_handshake(in->header.kind) || !take_challenge(s, limits_of(s, in)->challenges, in))
		return 0;
	return md_secure_reply(s, MD_KIND_CHALLENGE, &in->header, in->from, in->now_ns, ret);
}

static const struct md_sealing_key *find_key(const struct md_secure *s, uint64_t id)
{
	for (size_t i = 0; i < s->n_keys; i++)
		if (s->keys[i].id == id)
			return &s->keys[i];
	return NULL;
}

static bool decrypt(const struct md_sealing_key *key, const struct incoming *in,
		    struct md_opened *ret)
{
	const uint8_t *nonce = in->datagram + sizeof(in->header);
	size_t head_len = sizeof(in->header) + MD_NONCE_BYTES;
	unsigned long long payload_len;

	if (crypto_aead_xchacha20poly1305_ietf_decrypt(
		    ret->payload, &payload_len, NULL, in->datagram + head_len, in->len - head_len,
		    in->datagram, head_len, nonce, key->subkeys[md_purpose_of(in->header.kind)]))
		return false;
	ret->payload_len = payload_len;
	return true;
}

static enum md_verdict authenticate(struct md_secure *s, const struct incoming *in, const struct md_sealing_key *key,
				    struct md_opened *ret)
{
	struct md_link_limits *of_link = limits_of(s, in);
	struct md_source_limits *limits = in->fresh ? &of_link->proven_forgeries : &of_link->forgeries;
	struct md_limit *group = &limits->groups[group_of(s, in->from)];

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

/* @peer: of a pairwise key; NULL: the key is the fleet's */
static enum md_verdict open_sealed(struct md_secure *s, const struct incoming *in, const struct md_sealing_key *key,
				   struct md_peer_key *peer, struct md_opened *ret)
{
	enum md_verdict verdict = authenticate(s, in, key, ret);

	if (verdict)
		return verdict;
	if (!in->fresh && in->header.kind != MD_KIND_BEACON)
		return MD_OPEN_UNPROVEN;
	if (peer)
		return md_windows_take_for(&s->windows, &peer->window, in->header.start, in->header.counter, in->fresh, in->now_ns);
	return md_windows_take(&s->windows, &in->header.sender, in->header.start, in->header.counter,
			       in->header.kind == MD_KIND_BEACON ? in->from->arrived : 0, in->fresh, in->now_ns);
}

static enum md_verdict open_with_fleet_key(struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	const struct md_sealing_key *key = find_key(s, in->header.key_id);

	return key ? open_sealed(s, in, key, NULL, ret) : MD_OPEN_OTHER_KEY;
}

static enum md_verdict open_pairwise(struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	struct md_peer_key *peer = md_peer_keys_find(&s->peers, &in->header.sender);
	const struct md_sealing_key *key;
	enum md_verdict verdict;

	if (!md_is_pairwise(in->header.kind))
		return MD_OPEN_NOT_OURS;
	key = peer ? md_peer_key_open(&s->peers, peer, in->header.key_id) : NULL;
	/* Who has shown a cookie is told our key. */
	if (!key)
		return in->fresh ? MD_OPEN_STRANGER : MD_OPEN_UNPROVEN;
	verdict = open_sealed(s, in, key, peer, ret);
	if (verdict)
		return verdict;
	ret->confirmed = !peer->seals;
	md_peer_key_opened(peer, key);
	return MD_OPEN_OK;
}

/* Announcements of neighbours, BEACON and IDENTITY, have no cookie. */
static bool is_announcement(const struct incoming *in)
{
	return in->header.kind == MD_KIND_BEACON || (in->header.kind == MD_KIND_IDENTITY && is_on_link(in));
}

static enum md_verdict open_plain(struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	size_t payload_len = in->len - sizeof(in->header);

	if (in->header.kind == MD_KIND_CONFIRM)
		return MD_OPEN_NOT_OURS;
	if (md_is_pairwise(in->header.kind) && md_secure_peer_seals(s, &in->header.sender))
		return MD_OPEN_UNSEALED;

	if (in->header.key_id || payload_len > sizeof(ret->payload))
		return MD_OPEN_NOT_OURS;
	/* Without a key beacons are not challenged. And a challenged beacon would be sent again, which is much work. */
	if (in->header.about == MD_KIND_BEACON)
		return MD_OPEN_NOT_OURS;
	if (!in->fresh && !is_announcement(in))
		return MD_OPEN_UNPROVEN;
	memcpy(ret->payload, in->datagram + sizeof(in->header), payload_len);
	ret->payload_len = payload_len;
	return MD_OPEN_OK;
}

static enum md_verdict decide(struct md_secure *s, struct incoming *in, struct md_opened *ret)
{
	enum md_verdict verdict = read_header(s, in);

	if (verdict)
		return verdict;
	if (md_secure_has_key(s) != (in->header.protection == MD_SEALED))
		return md_secure_has_key(s) ? MD_OPEN_PLAIN : MD_OPEN_SEALED;
	if (in->header.kind == MD_KIND_BEACON && !is_on_link(in))
		return MD_OPEN_OFF_LINK;
	in->fresh = has_valid_cookie(s, in);
	if (md_secure_has_key(s))
		verdict = open_with_fleet_key(s, in, ret);
	else
		verdict = in->header.protection == MD_PAIRWISE ? open_pairwise(s, in, ret) : open_plain(s, in, ret);
	if (!verdict && is_handshake(in->header.kind) && ret->payload_len)
		return MD_OPEN_NOT_OURS;
	if (!verdict && in->header.kind == MD_KIND_CHALLENGE && !take_challenge(s, limits_of(s, in)->learned, in))
		return MD_OPEN_THROTTLED;
	return verdict;
}

bool md_is_of_path(const uint8_t *datagram, size_t len)
{
	uint8_t kind;

	if (len < sizeof(struct md_header))
		return false;
	kind = datagram[offsetof(struct md_header, kind)];
	if (kind == MD_KIND_CHALLENGE)
		kind = datagram[offsetof(struct md_header, about)];
	return kind == MD_KIND_PROBE || kind == MD_KIND_ECHO;
}

bool md_is_beacon(const uint8_t *datagram, size_t len)
{
	return len >= sizeof(struct md_header) && datagram[offsetof(struct md_header, kind)] == MD_KIND_BEACON;
}

static void describe(const struct md_secure *s, const struct incoming *in, struct md_opened *ret)
{
	ret->kind = in->header.kind;
	ret->about = in->header.about;
	ret->sender = in->header.sender;
	ret->voucher = voucher_of(s, in);
	ret->start = in->header.start;
	ret->counter = in->header.counter;
	ret->fresh = in->fresh;
	ret->sealed = in->header.protection != MD_PLAIN;
	ret->on_link = is_on_link(in);
	ret->group = group_of(s, in->from);
}

enum md_verdict md_open(struct md_secure *s, const uint8_t *datagram, size_t len,
			const struct md_addr *from, int hop_limit, uint64_t now_ns,
			struct md_opened *ret)
{
	struct incoming in = {.datagram = datagram,
			      .len = len,
			      .from = from,
			      .hop_limit = hop_limit,
			      .now_ns = now_ns};
	enum md_verdict verdict;

	ret->reply_len = 0;
	ret->payload_len = 0;
	ret->confirmed = false;
	verdict = decide(s, &in, ret);
	if (verdict == MD_OPEN_UNPROVEN)
		ret->reply_len = challenge(s, &in, ret->reply);
	if (verdict)
		return verdict;
	describe(s, &in, ret);
	if (in.fresh)
		md_cookie_keep(&s->cookies, from, &in.header.mine);
	if (ret->kind == MD_KIND_PROOF)
		return MD_OPEN_PROVEN;
	if (ret->kind != MD_KIND_CHALLENGE)
		return MD_OPEN_OK;
	if (md_secure_has_key(s))
		ret->reply_len =
			md_secure_reply(s, MD_KIND_PROOF, &in.header, from, now_ns, ret->reply);
	return MD_OPEN_LEARNED;
}

size_t md_challenge(struct md_secure *s, const uint8_t *datagram, size_t len, const struct md_addr *from, int hop_limit,
		    uint64_t now_ns, uint8_t *ret)
{
	struct incoming in = {.datagram = datagram, .len = len, .from = from, .hop_limit = hop_limit, .now_ns = now_ns};

	return read_header(s, &in) == MD_OPEN_OK ? challenge(s, &in, ret) : 0;
}
