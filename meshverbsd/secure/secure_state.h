/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_STATE_H
#define MD_SECURE_STATE_H

/* Shared by secure.c (sealing) and secure_open.c (opening) only. */

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
/* There is a subkey for each purpose. */
enum md_purpose { MD_BEACONS, MD_HANDSHAKES, MD_OTHERS, MD_N_PURPOSES };

struct md_header {
	uint8_t magic[4];
	uint8_t version, kind, protection, about;
	uint64_t key_id;
	struct mv_host_id sender;
	uint64_t start, counter; /* big endian on the wire, host order after read_header() */
	struct md_cookie cookie, mine;
};

static_assert(sizeof(struct md_header) == MD_HEADER_BYTES, "the header has no padding");
static_assert(MD_NONCE_BYTES + MD_TAG_BYTES == MD_SEALED_BYTES, "what sealing adds");

#define MD_MAGIC "MVDG"

static_assert(sizeof(((struct md_sealing_key *)0)->subkeys) == MD_N_PURPOSES * crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
	      "a subkey for each purpose");

/* Datagrams of paths (md_is_of_path()) and all others have separate limits, so that neither delays the other. */
enum md_share { MD_SHARE_OTHERS, MD_SHARE_PATHS, MD_N_SHARES };

struct md_source_limits {
	struct md_limit groups[MD_SOURCE_GROUPS];
	struct md_limit all;
};

/* Limits of one link, see MD_LINK_SHARES. */
struct md_link_limits {
	struct md_source_limits forgeries; /* forgeries from sources without valid cookie */
	/* forgeries from sources with valid cookie: others cannot use up their tokens */
	struct md_source_limits proven_forgeries;
	struct md_source_limits challenges[MD_N_SHARES]; /* challenges sent */
	struct md_source_limits learned[MD_N_SHARES]; /* challenges accepted: each makes the agent repeat a datagram */
};

struct md_secure {
	struct mv_host_id host;
	uint64_t start, counter;
	size_t n_keys;
	struct md_sealing_key keys[MD_KEYS_MAX];
	struct md_peer_keys peers; /* used without a fleet key */
	struct md_cookies cookies;
	struct md_windows windows;
	uint8_t source_secret[crypto_shorthash_KEYBYTES];
	struct md_link_limits far, links[MD_LINK_SHARES]; /* far: of forwarded datagrams. links: of all others */
};

/** md_purpose_of - the purpose whose subkey seals that kind */
enum md_purpose md_purpose_of(enum md_kind kind);

/** md_is_pairwise - is that kind sealed between hosts with identities? */
bool md_is_pairwise(enum md_kind kind);

/** md_link_of - the address of a whole link, where a cookie for a single address cannot be made */
struct md_addr md_link_of(uint32_t ifindex);

/**
 * md_secure_reply - make a CHALLENGE or a PROOF
 * @to: header of the datagram that is answered, in host byte order
 * @from: source of that datagram
 * @ret: MD_HEADER_BYTES + MD_SEALED_BYTES
 *
 * The cookie of a challenge is the one that the answered datagram had as its sender's ("mine"), so only a host that has
 * seen that datagram can challenge it. A proof is an empty datagram with the cookie just learnt.
 *
 * Return: its length.
 */
size_t md_secure_reply(struct md_secure *s, enum md_kind kind, const struct md_header *to,
		       const struct md_addr *from, uint64_t now_ns, uint8_t *ret);

#endif
