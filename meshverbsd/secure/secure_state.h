/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_STATE_H
#define MD_SECURE_STATE_H

/* What sealing (secure.c) and opening (secure_open.c) have in common. */

#include <assert.h>

#include <sodium.h>

#include "peer_keys.h"
#include "secure.h"
#include "secure_cookie.h"
#include "secure_limit.h"
#include "secure_window.h"

#define MD_NONCE_BYTES   crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define MD_TAG_BYTES     crypto_aead_xchacha20poly1305_ietf_ABYTES
#define MD_VERSION       1

enum md_protection { MD_PLAIN, MD_SEALED, MD_PAIRWISE };
/* Each has a key of its own. */
enum md_purpose { MD_BEACONS, MD_HANDSHAKES, MD_OTHERS, MD_N_PURPOSES };

struct md_header {
	uint8_t magic[4];
	uint8_t version, kind, protection, about;
	uint64_t key_id;
	struct mv_host_id sender;
	uint64_t start, counter; /* big endian on the wire */
	struct md_cookie cookie, mine;
};

static_assert(sizeof(struct md_header) == MD_HEADER_BYTES, "the header has no padding");
static_assert(MD_NONCE_BYTES + MD_TAG_BYTES == MD_SEALED_BYTES, "what sealing adds");

#define MD_MAGIC "MVDG"

static_assert(sizeof(((struct md_sealing_key *)0)->subkeys) == MD_N_PURPOSES * crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
	      "a subkey for each purpose");

/* What is of paths must not be held up by what else comes, nor by each other: md_is_of_path(). */
enum md_share { MD_SHARE_OTHERS, MD_SHARE_PATHS, MD_N_SHARES };

struct md_source_limits {
	struct md_limit groups[MD_SOURCE_GROUPS];
	struct md_limit all;
};

/* MD_LINK_SHARES */
struct md_link_limits {
	struct md_source_limits forgeries; /* of sources that have not shown that they receive there */
	struct md_source_limits proven_forgeries; /* of those that have: nobody else can use up their tokens */
	struct md_source_limits challenges[MD_N_SHARES]; /* sent */
	struct md_source_limits learned[MD_N_SHARES]; /* challenges taken: each makes the agent repeat something */
};

struct md_secure {
	struct mv_host_id host;
	uint64_t start, counter;
	size_t n_keys;
	struct md_sealing_key keys[MD_KEYS_MAX];
	struct md_peer_keys peers; /* used while there is no fleet key */
	struct md_cookies cookies;
	struct md_windows windows;
	uint8_t source_secret[crypto_shorthash_KEYBYTES];
	struct md_link_limits far, links[MD_LINK_SHARES]; /* forwarded by a router; not forwarded */
};

/** md_purpose_of - which key is for that kind */
enum md_purpose md_purpose_of(enum md_kind kind);

/** md_is_pairwise - is that kind sealed between hosts with identities? */
bool md_is_pairwise(enum md_kind kind);

/** md_link_of - stands for everybody on a link, where a cookie for one address cannot be given */
struct md_addr md_link_of(uint32_t ifindex);

/**
 * md_secure_reply - make a CHALLENGE or a PROOF
 * @to: header, in host byte order, of what it answers, which came from @from
 *
 * A challenge's cookie is what the datagram it answers gave as its sender's, so only who has seen
 * that can make one. A proof is an empty datagram with the cookie just learnt.
 *
 * Return: its length.
 */
size_t md_secure_reply(struct md_secure *s, enum md_kind kind, const struct md_header *to,
		       const struct md_addr *from, uint64_t now_ns, uint8_t *ret);

#endif
