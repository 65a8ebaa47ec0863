/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TEST_HOSTS_H
#define MD_TEST_HOSTS_H

#include "unit.h"

#include "secure.h"

/*
 * Hosts on one link that send each other datagrams by hand, and a clock that stands still. What is
 * in flight is a struct wire: an attacker may change, keep and repeat it.
 */
struct host {
	struct md_secure *s;
	struct md_secure_config config;
	struct md_addr addr; /* link-local */
};

struct wire {
	uint8_t bytes[MD_DATAGRAM_MAX_BYTES + 1];
	size_t len;
	struct md_addr from;
	int hop_limit;
};

extern uint64_t now_ns;
extern struct md_opened opened; /* by the last receive() */

#define SECOND_NS 1000000000ull
#define LINK      7

struct in6_addr ip_of(const char *text);

/** keys_of - @n keys, the first made of @first, the second of @second */
struct md_keys keys_of(size_t n, uint8_t first, uint8_t second);

void host_start(struct host *host, uint8_t id, const struct md_keys *keys); /* NULL: none */
void host_restart(struct host *host,
		  const struct md_keys *keys); /* forgets everything, a later start number */
void host_stop(struct host *host);

/** seal - @payload is text; @to NULL: multicast */
struct wire seal(struct host *from, enum md_kind kind, const struct host *to, const char *payload);
enum md_verdict receive(struct host *to, const struct wire *wire);

/** wire_reply - what the last receive(), by @from, wants to be sent; fails if there is nothing */
struct wire wire_reply(const struct host *from);

/** tell - seal, receive and compare */
enum md_verdict tell(struct host *from, enum md_kind kind, struct host *to, const char *payload);

/** meet - give each what it needs to take the other's datagrams */
void meet(struct host *a, struct host *b);

/** assert_verdict - by name, which tells more when it fails */
#define assert_verdict(got, expected)                                                              \
	assert_string_equal(md_verdict_name(got), md_verdict_name(expected))

#endif
