/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_cookie.h"

#include <assert.h>
#include <string.h>

#include <sodium.h>

/* struct md_addr without padding. */
struct key {
	uint8_t ip[16], local[16];
	uint32_t ifindex;
	uint32_t port;
};

struct given {
	struct key key; /* key of the table */
	struct md_cookie cookie;
};

static_assert(sizeof(struct md_cookie) == crypto_shorthash_siphashx24_BYTES,
	      "a cookie is a SipHash");
static_assert(sizeof(((struct md_cookies *)0)->secrets[0]) == crypto_shorthash_siphashx24_KEYBYTES,
	      "its key");
static_assert(sizeof(struct key) == 40, "no padding");

int md_cookies_init(struct md_cookies *cookies, size_t max, uint64_t now_ns)
{
	cookies->epoch = now_ns / MD_COOKIE_EPOCH_NS;
	randombytes_buf(cookies->secrets, sizeof(cookies->secrets));
	return md_table_init(&cookies->given, max, sizeof(struct key), sizeof(struct given));
}

void md_cookies_fini(struct md_cookies *cookies)
{
	sodium_memzero(cookies->secrets, sizeof(cookies->secrets));
	md_table_fini(&cookies->given);
}

static void turn_epoch(struct md_cookies *cookies, uint64_t now_ns)
{
	uint64_t epoch = now_ns / MD_COOKIE_EPOCH_NS;

	if (epoch == cookies->epoch)
		return;
	if (epoch == cookies->epoch + 1)
		memcpy(cookies->secrets[1], cookies->secrets[0], sizeof(cookies->secrets[1]));
	else /* suspended for long, or the clock went back: old cookies are void */
		randombytes_buf(cookies->secrets[1], sizeof(cookies->secrets[1]));
	randombytes_buf(cookies->secrets[0], sizeof(cookies->secrets[0]));
	cookies->epoch = epoch;
}

static struct key key_of(const struct md_addr *addr)
{
	struct key key = {.ifindex = addr->ifindex, .port = addr->port};

	memcpy(key.ip, &addr->ip, sizeof(key.ip));
	memcpy(key.local, &addr->local, sizeof(key.local));
	return key;
}

/* Packets from other addresses may arrive on any link, so their cookies do not include the netdev. */
static bool is_of_a_link(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_LINKLOCAL(ip) || IN6_IS_ADDR_UNSPECIFIED(ip);
}

static struct md_cookie hash_addr(const uint8_t *secret, const struct md_addr *addr)
{
	struct key key = key_of(addr);
	struct md_cookie cookie;

	memset(key.local, 0, sizeof(key.local));
	if (!is_of_a_link(&addr->ip))
		key.ifindex = 0;
	crypto_shorthash_siphashx24(cookie.bytes, (const uint8_t *)&key, sizeof(key), secret);
	return cookie;
}

struct md_cookie md_cookie_make(struct md_cookies *cookies, const struct md_addr *addr,
				uint64_t now_ns)
{
	turn_epoch(cookies, now_ns);
	return hash_addr(cookies->secrets[0], addr);
}

bool md_cookie_valid(struct md_cookies *cookies, const struct md_addr *addr,
		     const struct md_cookie *cookie, uint64_t now_ns)
{
	bool valid = false;

	turn_epoch(cookies, now_ns);
	for (size_t i = 0; i < 2; i++) {
		struct md_cookie right = hash_addr(cookies->secrets[i], addr);

		valid |= !sodium_memcmp(&right, cookie, sizeof(right));
	}
	return valid;
}

void md_cookie_keep(struct md_cookies *cookies, const struct md_addr *addr,
		    const struct md_cookie *cookie)
{
	struct key key = key_of(addr);
	struct given *given = md_table_find(&cookies->given, &key);

	if (!given)
		given = md_table_add(&cookies->given, &key);
	if (!given) {
		md_table_remove(&cookies->given, md_table_oldest(&cookies->given));
		given = md_table_add(&cookies->given, &key);
	}
	given->cookie = *cookie;
	md_table_touch(&cookies->given, given);
}

struct md_cookie md_cookie_given(struct md_cookies *cookies, const struct md_addr *addr)
{
	struct key key = key_of(addr);
	struct given *given = md_table_find(&cookies->given, &key);

	if (!given)
		return (struct md_cookie){0};
	md_table_touch(&cookies->given, given);
	return given->cookie;
}
