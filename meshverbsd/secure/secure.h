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
 * What every datagram between agents goes through, in both directions. docs/security.md says what
 * is defended against whom; here is how.
 *
 * On the wire, integers big endian:
 *
 *    0  magic "MVDG"       4  version    5  kind    6  protection (0 plain, 1 sealed, 2 sealed pairwise)
 *    7  about: CHALLENGE: kind of the datagram it answers; else 0
 *    8  key id             16  sender's host id      32  sender's start number   40  counter
 *   48  cookie: the receiver's, for the address this comes from; zero: not known yet
 *   64  mine: the sender's, for the address this goes to
 *   80  plain: payload; sealed: nonce (24), then the payload encrypted, then 16 bytes of tag
 *
 * Cookies prove two things without state: a cookie is a keyed hash, under a secret of its maker
 * that changes with each start and every minute, of the address it was given to. Who sends one back
 * can receive at the address it sends from (return routability), and has made the datagram lately
 * and for this receiver (freshness). Every unicast datagram needs one; who sends one without gets a
 * CHALLENGE, which is a header only, so never larger than what it answers. Learning cookies and
 * answering challenges happens in here; the agent only sends the reply when there is one.
 *
 * With a key, datagrams are encrypted (XChaCha20-Poly1305, all before the nonce's end
 * authenticated) and each counter is taken once: a window of MD_WINDOW counters for each sender.
 * That window is made only by a datagram with a valid cookie, and forgotten only when the last
 * datagram it let pass has a cookie that is no longer valid; so neither a restart of the receiver,
 * nor of the sender, nor a full table lets an old datagram in, whatever the clocks say. A beacon
 * (multicast, no cookie) of an unknown sender is therefore challenged first.
 *
 * Beacons are taken with hop limit 255 only, which none has that a router forwarded, and over IPv6
 * from link-local addresses only. Without a key, nothing else is known about who sends them but
 * that it is on the link.
 *
 * Not thread-safe: one thread, or one at a time. Nothing is allocated after md_secure_new(). Times
 * are CLOCK_BOOTTIME, in ns.
 */

#define MD_PORT               28791
#define MD_HEADER_BYTES       80
#define MD_HEADER_SENDER_AT   16
#define MD_SEALED_BYTES       40 /* what sealing adds: nonce and tag */
#define MD_DATAGRAM_MAX_BYTES 1232 /* fits the smallest IPv6 MTU */
#define MD_PAYLOAD_MAX_BYTES  (MD_DATAGRAM_MAX_BYTES - MD_HEADER_BYTES - MD_SEALED_BYTES)
#define MD_WINDOW             1024 /* counters behind the newest that are still taken, once each */
#ifndef MD_COOKIE_EPOCH_NS /* tests have not the time */
#define MD_COOKIE_EPOCH_NS    (60 * 1000000000ull) /* a cookie lives for one to two of these */
#endif

/* What a datagram is for. Payloads are the agent's affair. */
enum md_kind {
	MD_KIND_BEACON = 1, /* multicast to a link, or by unicast to one neighbour of it */
	MD_KIND_QUERY, /* which host are you? Has the generation of who asks: MD_QUERY_BYTES */
	MD_KIND_ENTRY, /* answer: this one, with these rails */
	MD_KIND_MESSAGE, /* from process to process */
	MD_KIND_CHALLENGE, /* secure.c's own: here is your cookie */
	MD_KIND_PROOF, /* secure.c's own: here it is back */
	/* Agents from before these take them for no datagram of an agent, and drop them. */
	MD_KIND_PROBE, /* does anything get through between these two addresses? */
	MD_KIND_ECHO, /* answer: yes */
	MD_KIND_BUNDLE, /* many of what MESSAGE carries; to those only who have sent one: likewise */
	MD_KIND_IDENTITY, /* statement.h: multicast to a link, or by unicast; without a fleet key only: likewise */
	MD_KIND_CONFIRM, /* sealed with a pairwise key: can you open this? And the answer: likewise */
	MD_KIND_END,
};

/* The other end of a datagram. */
struct md_addr {
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t port; /* host byte order */
	/*
	 * The netdev it arrives on or leaves by: always with link-local addresses and beacons. With
	 * others it may be 0, but the same then for what is sent to an address and what comes from
	 * it.
	 */
	uint32_t ifindex;
	/*
	 * This end's address, for what goes over a path (md_is_of_path()), else zero: what the other end has given us as a cookie is for
	 * the address that we send from. Cookies that we give do not depend on it.
	 */
	struct in6_addr local;
	uint32_t arrived; /* the netdev that it came in by, whatever the address: so it is rationed, and nothing else depends on it */
};

enum md_verdict {
	MD_OPEN_OK, /* take it */
	MD_OPEN_LEARNED, /* a CHALLENGE: what @about names may be sent again now, a beacon to that
			    address alone */
	MD_OPEN_PROVEN, /* a PROOF: nothing to do */
	/* From here on: dropped, to be counted. */
	MD_OPEN_UNPROVEN, /* no cookie, or an old one; a reply tells the right one */
	MD_OPEN_NOT_OURS, /* no datagram of an agent: length, magic, or a field that cannot be */
	MD_OPEN_VERSION, /* of another version */
	MD_OPEN_OWN, /* our own, come back */
	MD_OPEN_SAME_ID, /* of another agent that has our host id */
	MD_OPEN_OFF_LINK, /* a beacon that may have been forwarded: hop limit or source address */
	MD_OPEN_PLAIN, /* not sealed, but we have a key */
	MD_OPEN_SEALED, /* sealed, but we have no key */
	MD_OPEN_OTHER_KEY, /* sealed with a key that we do not have */
	MD_OPEN_FORGED, /* authentication failed */
	MD_OPEN_REPLAY, /* taken before */
	MD_OPEN_TOO_OLD, /* behind the window: may have been taken before */
	MD_OPEN_OLD_START, /* of an earlier life of its sender */
	MD_OPEN_NO_ROOM, /* a new sender, and no window may be forgotten yet */
	MD_OPEN_THROTTLED, /* too many forgeries lately to look at it */
	MD_OPEN_PORT, /* no key, and not from the port of agents: any user of that host may have sent it (the agent looks) */
	MD_OPEN_UNSEALED, /* of a host that seals what it sends to this one, and this is not */
	MD_OPEN_STRANGER, /* sealed with a pairwise key, but that host's public key is not known, or another one */
	MD_OPEN_N_VERDICTS,
};

/*
 * Each link has limits of its own, and so has what routers have forwarded: who floods one link, or from afar, keeps nothing out that
 * comes by others. Netdevs of one number modulo this have one together.
 */
#define MD_LINK_SHARES 32

#define MD_SOURCE_GROUPS 256

struct md_opened {
	/* OK, LEARNED, PROVEN. Without a key these are what the sender says. */
	enum md_kind kind;
	enum md_kind about; /* LEARNED */
	struct mv_host_id sender;
	/*
	 * Who answers for it: with a key the sender, without one the address that it came from,
	 * which is all that has been proven then. What is remembered of a sender, and the sender
	 * must not be able to forge, goes under this.
	 */
	struct mv_host_id voucher;
	uint64_t start, counter; /* of one sender's datagrams, the one with the larger (start,
				    counter) is newer */
	bool sealed; /* with the fleet key, or pairwise: the sender is who it says */
	uint32_t group; /* of source addresses, as they are rationed: below MD_SOURCE_GROUPS */
	bool on_link; /* no router has forwarded it: its sender is a neighbour, or has taken a neighbour's address */
	bool confirmed; /* the first one of that sender that was sealed pairwise: it has this host's public key */
	size_t payload_len;
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	/* To be sent to where the datagram came from, whatever the verdict; 0: nothing. */
	size_t reply_len;
	uint8_t reply[MD_HEADER_BYTES + MD_SEALED_BYTES];
};

struct md_secure_config {
	struct mv_host_id host;
	uint64_t start; /* larger than at any earlier start of this host: md_start_number() */
	size_t max_senders; /* replay windows; 0: 16384. About 200 bytes each, with a key only */
	size_t max_cookies; /* of others; 0: 16384. About 100 bytes each */
};

struct md_secure;

/**
 * md_secure_new - begin
 * @keys: copied; with n == 0 there is no protection but cookies and hop limits
 *
 * Return: 0; -ENOMEM; -EIO when libsodium cannot start (no source of random numbers).
 */
int md_secure_new(const struct md_secure_config *config, const struct md_keys *keys,
		  uint64_t now_ns, struct md_secure **ret);
void md_secure_free(struct md_secure *s); /* wipes keys; NULL is fine */

/**
 * md_secure_reload - use other keys from now on
 *
 * Windows and cookies stay: a rotation (the old key second in the new file, or the new one second
 * in the old) loses nothing.
 *
 * Return: true when there was no key and now is one, or the other way round: what was learnt until
 * now deserves another degree of trust.
 */
bool md_secure_reload(struct md_secure *s, const struct md_keys *keys);

/** md_secure_has_key - are datagrams sealed? */
bool md_secure_has_key(const struct md_secure *s);

/*
 * Identities (ident/): without a fleet key, messages between two hosts that know each other's public keys are sealed with a key of the
 * two. What else agents say to each other stays plain: cookies protect it as they do without identities, and what a beacon says of a
 * host is signed (statement.h). With a fleet key all this does nothing.
 */

/** md_secure_identity - use this identity from now on; a second call is a rotation */
void md_secure_identity(struct md_secure *s, const struct md_identity *identity);
/** md_secure_peer - that is a host's public key, as its statement says; 0 or -ENOSPC */
int md_secure_peer(struct md_secure *s, const struct mv_host_id *host, const struct md_public *box);
void md_secure_forget_peer(struct md_secure *s, const struct mv_host_id *host);
/** md_secure_peer_seals - has that host sealed something for this one? From then on only what is sealed is taken from it. */
bool md_secure_peer_seals(const struct md_secure *s, const struct mv_host_id *host);

/**
 * md_seal - make a datagram
 * @to: NULL: multicast on @ifindex
 * @kind: not secure.c's own
 * @payload: at most MD_PAYLOAD_MAX_BYTES
 * @ret: MD_DATAGRAM_MAX_BYTES, filled from the start
 *
 * The same datagram must not be sent to two addresses, or twice: each has another cookie, and
 * another counter. Replies and answers have to leave from the address that the datagram was sent
 * to, or cookies do not fit.
 *
 * Return: its length, at least 1.
 */
size_t md_seal(struct md_secure *s, enum md_kind kind, const struct md_addr *to, uint32_t ifindex,
	       const void *payload, size_t payload_len, uint64_t now_ns, uint8_t *ret);

/** md_seal_for - the same for one host, with the key of that pair if there is one and the kind is one of md_is_pairwise() */
size_t md_seal_for(struct md_secure *s, const struct mv_host_id *host, enum md_kind kind, const struct md_addr *to,
		   uint32_t ifindex, const void *payload, size_t payload_len, uint64_t now_ns, uint8_t *ret);

/**
 * md_open - judge a datagram that has arrived
 * @datagram: @len bytes; longer ones than MD_DATAGRAM_MAX_BYTES are refused
 * @hop_limit: as received (IPV6_HOPLIMIT, IP_TTL); -1: not known
 *
 * Return: verdict. @ret's payload and sender are valid for OK, LEARNED and PROVEN, its reply
 * always.
 */
enum md_verdict md_open(struct md_secure *s, const uint8_t *datagram, size_t len,
			const struct md_addr *from, int hop_limit, uint64_t now_ns,
			struct md_opened *ret);

/**
 * md_is_of_path - is a datagram a PROBE, an ECHO, or a CHALLENGE to one of them?
 *
 * Nothing else of it has been looked at. What goes over one path has cookies of that path: the netdev and this end's
 * address belong to struct md_addr then, or probes from several addresses, or out of several netdevs, to one address would take each
 * other's cookie away.
 */
bool md_is_of_path(const uint8_t *datagram, size_t len);

/** md_verdict_name - "replay": for counters; lower case, '_' between words; "?" beyond the enum */
const char *md_verdict_name(enum md_verdict verdict);
/** md_verdict_text - a sentence part for people */
const char *md_verdict_text(enum md_verdict verdict);

#endif
