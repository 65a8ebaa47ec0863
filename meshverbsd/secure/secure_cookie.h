/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_COOKIE_H
#define MD_SECURE_COOKIE_H

#include <stdbool.h>
#include <stdint.h>

#include "secure.h"
#include "secure_table.h"

/*
 * Cookies: those we give, of which only the secrets are kept, and those we were given, for
 * addresses we send to. When there is no room for another of these the one not used for longest is
 * forgotten, which costs its peer's next datagram a challenge.
 */
struct md_cookie {
	uint8_t bytes[16];
};

struct md_cookies {
	uint64_t epoch; /* of secrets[0] */
	uint8_t secrets[2][16]; /* of this epoch and the one before */
	struct md_table given; /* by address */
};

int md_cookies_init(struct md_cookies *cookies, size_t max, uint64_t now_ns); /* 0 or -ENOMEM */
void md_cookies_fini(struct md_cookies *cookies);

/** md_cookie_make - the cookie for @addr; for a link when its ip is zero */
struct md_cookie md_cookie_make(struct md_cookies *cookies, const struct md_addr *addr,
				uint64_t now_ns);

/** md_cookie_valid - have we given @cookie to @addr in this epoch or the one before? */
bool md_cookie_valid(struct md_cookies *cookies, const struct md_addr *addr,
		     const struct md_cookie *cookie, uint64_t now_ns);

/** md_cookie_keep - @addr has given us this one */
void md_cookie_keep(struct md_cookies *cookies, const struct md_addr *addr,
		    const struct md_cookie *cookie);

/** md_cookie_given - what @addr has given us; zero: nothing */
struct md_cookie md_cookie_given(struct md_cookies *cookies, const struct md_addr *addr);

#endif
