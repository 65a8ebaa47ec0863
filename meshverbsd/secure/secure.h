/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_H
#define MD_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>

#include "directory.h"
#include "identity.h"
#include "secure_key.h"
#include "start.h"

/*
 * Protection of all datagrams between agents, in both directions. docs/security.md has the threats; this is the
 * mechanism.
 *
 * On the wire, integers big endian:
 *
 *    0  magic "MVDG"       4  version    5  kind    6  protection (0 plain, 1 sealed, 2 sealed pairwise)
 *    7  about: CHALLENGE: kind of the datagram it answers; else 0
 *    8  key id             16  sender's host id      32  sender's start number   40  counter
 *   48  cookie: made by the receiver for the sender's address; zero: not known yet
 *   64  mine: cookie made by the sender for the receiver's address
 *   80  plain: payload; sealed: nonce (24), then the payload encrypted, then 16 bytes of tag
 *
 * A cookie is a keyed hash of the address that it is made for, with a secret that its maker changes at each start and
 * every minute. So cookies need no state, and a returned cookie proves two things: its sender can receive at its source
 * address (return routability), and has made the datagram lately and for this receiver (freshness). Every unicast
 * datagram needs a cookie. A datagram without a valid one is answered by a CHALLENGE, which is a header only and so
 * never larger than the datagram. This file learns cookies and answers challenges; the agent only sends the reply, if
 * any.
 *
 * With a fleet key, datagrams are encrypted (XChaCha20-Poly1305; all bytes up to the end of the nonce are
 * authenticated), and each counter is accepted once, or a beacon's once on each netdev of its link (secure_copies.h):
 * there is a window of MD_WINDOW counters for each sender. A window begins only with a datagram that has a valid
 * cookie, and is forgotten only when no cookie of its last datagram can be valid any more. So no old datagram is
 * accepted after a restart of the receiver or of the sender, or when the table is full, whatever the clocks say. A
 * beacon is multicast and has no cookie, so the beacon of an unknown sender is challenged first.
 *
 * Beacons are accepted with hop limit 255 only, which no forwarded packet has, and over IPv6 from link-local addresses
 * only. Without a key, nothing else is known of a beacon's sender but that it is on the link.
 *
 * Not thread-safe: one thread at a time. No allocation after md_secure_new(). Times are CLOCK_BOOTTIME, in ns.
 */

#define MD_PORT               28791
#define MD_HEADER_BYTES       80
#define MD_HEADER_SENDER_AT   16
#define MD_SEALED_BYTES       40 /* overhead of sealing: nonce and tag */
#define MD_DATAGRAM_MAX_BYTES 1232 /* fits the smallest IPv6 MTU, 1280 */
#define MD_PAYLOAD_MAX_BYTES  (MD_DATAGRAM_MAX_BYTES - MD_HEADER_BYTES - MD_SEALED_BYTES)
#define MD_WINDOW             1024 /* counters behind the newest that are still accepted, once each */
#ifndef MD_COOKIE_EPOCH_NS /* tests set a shorter one */
#define MD_COOKIE_EPOCH_NS    (60 * 1000000000ull) /* a cookie is valid for one to two epochs */
#endif

/* Kinds of datagrams. The agent defines their payloads. */
enum md_kind {
	MD_KIND_BEACON = 1, /* multicast to a link, or unicast to a neighbour on it */
	MD_KIND_QUERY, /* which host are you? Payload: generation of the asker, MD_QUERY_BYTES */
	MD_KIND_ENTRY, /* answer to QUERY: this host, with these rails */
	MD_KIND_MESSAGE, /* from process to process */
	MD_KIND_CHALLENGE, /* internal to secure.c: here is your cookie */
	MD_KIND_PROOF, /* internal to secure.c: here is the cookie back */
	/* Older agents do not know the kinds from here on, and drop them as not of an agent. */
	MD_KIND_PROBE, /* do packets get through between these two addresses? */
	MD_KIND_ECHO, /* answer to PROBE: yes */
	MD_KIND_BUNDLE, /* many MESSAGEs; sent only to agents that have sent one */
	MD_KIND_IDENTITY, /* statement.h: multicast to a link, or unicast; only without a fleet key */
	MD_KIND_CONFIRM, /* question, sealed pairwise: can you open this? And the answer to it */
	MD_KIND_END,
};

/* The other end of a datagram, and the way to it. */
struct md_addr {
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t port; /* host byte order */
	/*
	 * The netdev of arrival or departure. Always set with link-local addresses and beacons. With other addresses it
	 * may be 0, then in both directions.
	 */
	uint32_t ifindex;
	/*
	 * Address of this end, for datagrams of a path (md_is_of_path()); else zero. Cookies given to us are stored for
	 * this address, because the other end made them for it. Cookies that we make do not depend on it.
	 */
	struct in6_addr local;
	uint32_t arrived; /* the netdev of arrival, always set; chooses the rate limits, and the place of copies (secure_copies.h) */
};

enum md_verdict {
	MD_OPEN_OK, /* accept */
	MD_OPEN_LEARNED, /* a CHALLENGE: send what @about names again; a beacon to that address only */
	MD_OPEN_PROVEN, /* a PROOF: nothing to do */
	/* From here on: drop and count. */
	MD_OPEN_UNPROVEN, /* no cookie, or an old one; the reply has the right one */
	MD_OPEN_NOT_OURS, /* no datagram of an agent: bad length, magic or field */
	MD_OPEN_VERSION, /* another version */
	MD_OPEN_OWN, /* our own datagram, returned */
	MD_OPEN_SAME_ID, /* another agent has our host id */
	MD_OPEN_OFF_LINK, /* a beacon that may have been forwarded: hop limit or source address */
	MD_OPEN_PLAIN, /* not sealed, but we have a key */
	MD_OPEN_SEALED, /* sealed, but we have no key */
	MD_OPEN_OTHER_KEY, /* sealed with an unknown key */
	MD_OPEN_FORGED, /* authentication failed */
	MD_OPEN_REPLAY, /* accepted before */
	MD_OPEN_TOO_OLD, /* behind the window: may have been accepted before */
	MD_OPEN_OLD_START, /* from a former life of its sender */
	MD_OPEN_NO_ROOM, /* a new sender, and no window may be forgotten yet */
	MD_OPEN_THROTTLED, /* too many forgeries lately, not decrypted */
	MD_OPEN_PORT, /* no key, and not from the agents' port: any user of that host may have sent it; set by the agent */
	MD_OPEN_UNSEALED, /* not sealed, though its sender seals for us */
	MD_OPEN_STRANGER, /* sealed pairwise, but the sender's public key is unknown or has changed */
	MD_OPEN_N_VERDICTS,
};

/*
 * Rate limits are separate for each link, and for forwarded datagrams, so that a flood on one link, or from afar, keeps
 * out no datagram of other links. Netdevs with equal ifindex modulo MD_LINK_SHARES share limits.
 */
#define MD_LINK_SHARES 32

#define MD_SOURCE_GROUPS 256

struct md_opened {
	/* The kind, of OK, LEARNED and PROVEN. Without a key, all fields are only claimed by the sender. */
	enum md_kind kind;
	enum md_kind about; /* with LEARNED */
	struct mv_host_id sender;
	/*
	 * Identity under which facts about the sender are remembered. With a key: the sender. Without: a hash of the
	 * source address, which is all that the sender has proven.
	 */
	struct mv_host_id voucher;
	uint64_t start, counter; /* of two datagrams of a sender, the one with the larger (start, counter) is newer */
	bool fresh; /* has our cookie: the sender receives at its source address */
	bool sealed; /* with the fleet key or pairwise: the sender is authentic */
	uint32_t group; /* group of source addresses for rate limits, below MD_SOURCE_GROUPS */
	bool on_link; /* no router has forwarded it: its sender is a neighbour, or uses a neighbour's address */
	bool confirmed; /* the sender's first datagram that is sealed pairwise: it has our public key */
	size_t payload_len;
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	/* To be sent to the source of the datagram, whatever the verdict; length 0: nothing. */
	size_t reply_len;
	uint8_t reply[MD_HEADER_BYTES + MD_SEALED_BYTES];
};

struct md_secure_config {
	struct mv_host_id host;
	uint64_t start; /* larger than at any former start of this host: md_start_number() */
	size_t max_senders; /* replay windows, about 350 bytes each, and pairwise keys, about 700; 0: 65536 and 16384 */
	size_t max_cookies; /* cookies given to us; 0: 16384. About 100 bytes each */
};

struct md_secure;

/**
 * md_secure_new - create the state
 * @keys: copied; n == 0: no protection but cookies and hop limits
 * @ret: free with md_secure_free()
 *
 * Return: 0; -ENOMEM; -EIO: libsodium cannot start (no source of random numbers).
 */
int md_secure_new(const struct md_secure_config *config, const struct md_keys *keys,
		  uint64_t now_ns, struct md_secure **ret);
void md_secure_free(struct md_secure *s); /* wipes keys; NULL is allowed */

/**
 * md_secure_reload - use other keys
 *
 * Windows and cookies stay. A rotation loses nothing: first the new key as second line, then the lines swapped.
 *
 * Return: true: there was no key and now is one, or the reverse. Then whatever was learnt before has another degree of
 * trust.
 */
bool md_secure_reload(struct md_secure *s, const struct md_keys *keys);

/** md_secure_has_key - are datagrams sealed? */
bool md_secure_has_key(const struct md_secure *s);

/*
 * Identities (ident/), without a fleet key: messages between two hosts that know each other's public keys are sealed
 * pairwise. All other datagrams stay plain: cookies protect them, and descriptions of hosts are signed (statement.h).
 * With a fleet key, these functions have no effect.
 */

/** md_secure_identity - use this identity; a second call is a rotation. Copied */
void md_secure_identity(struct md_secure *s, const struct md_identity *identity);
/** md_secure_peer - set the public key of a host, from its statement. Return: 0 or -ENOSPC */
int md_secure_peer(struct md_secure *s, const struct mv_host_id *host, const struct md_public *box);
void md_secure_forget_peer(struct md_secure *s, const struct mv_host_id *host);
/** md_secure_peer_seals - has the host sealed a datagram for us? From then on its unsealed messages are refused. */
bool md_secure_peer_seals(const struct md_secure *s, const struct mv_host_id *host);

/**
 * md_seal - make a datagram
 * @to: NULL: multicast on @ifindex
 * @kind: none that is internal to secure.c
 * @payload: at most MD_PAYLOAD_MAX_BYTES
 * @ret: MD_DATAGRAM_MAX_BYTES, filled from the start
 *
 * Do not send a datagram twice, or to two addresses: cookie and counter are for one datagram. Send replies and answers
 * from the address to which the datagram was sent, because cookies are made for that address.
 *
 * Return: length of the datagram, at least 1.
 */
size_t md_seal(struct md_secure *s, enum md_kind kind, const struct md_addr *to, uint32_t ifindex,
	       const void *payload, size_t payload_len, uint64_t now_ns, uint8_t *ret);

/** md_seal_for - like md_seal(), for one host: sealed pairwise if the keys are known and md_is_pairwise(@kind) */
size_t md_seal_for(struct md_secure *s, const struct mv_host_id *host, enum md_kind kind, const struct md_addr *to,
		   uint32_t ifindex, const void *payload, size_t payload_len, uint64_t now_ns, uint8_t *ret);

/**
 * md_open - check a datagram that has arrived
 * @datagram: @len bytes; refused if longer than MD_DATAGRAM_MAX_BYTES
 * @hop_limit: as received (IPV6_HOPLIMIT, IP_TTL); -1: not known
 *
 * Return: the verdict. In @ret, payload and sender are valid for OK, LEARNED and PROVEN; the reply is always valid.
 */
enum md_verdict md_open(struct md_secure *s, const uint8_t *datagram, size_t len,
			const struct md_addr *from, int hop_limit, uint64_t now_ns,
			struct md_opened *ret);

/**
 * md_challenge - challenge a datagram that md_open() has taken without a cookie
 * @ret: MD_HEADER_BYTES + MD_SEALED_BYTES; is to be sent to @from
 *
 * Return: its length; 0: no challenge, because too many were sent lately.
 */
size_t md_challenge(struct md_secure *s, const uint8_t *datagram, size_t len, const struct md_addr *from, int hop_limit,
		    uint64_t now_ns, uint8_t *ret);

/**
 * md_is_of_path - is a datagram a PROBE, an ECHO, or a CHALLENGE to either? Looks at the kind only.
 *
 * Datagrams of a path have cookies of that path: struct md_addr then includes the netdev and this end's address.
 * Otherwise probes to one address, from several addresses or netdevs, would replace each other's cookies.
 */
bool md_is_of_path(const uint8_t *datagram, size_t len);

/** md_is_beacon - is a datagram a BEACON? Looks at the kind only */
bool md_is_beacon(const uint8_t *datagram, size_t len);

/** md_verdict_name - name of a counter, e.g. "replay": lower case, '_' between words; "?" beyond the enum. Constant string */
const char *md_verdict_name(enum md_verdict verdict);
/** md_verdict_text - part of a sentence for people. Constant string */
const char *md_verdict_text(enum md_verdict verdict);

#endif
