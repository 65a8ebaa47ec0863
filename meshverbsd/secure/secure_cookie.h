/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_COOKIE_H
#define MD_SECURE_COOKIE_H

#include <stdbool.h>
#include <stdint.h>

#include "secure.h"
#include "secure_table.h"

/*
 * Cookies. Of cookies that we make, only the secrets are stored. Cookies that we were given are stored by address. If
 * the table is full, the least recently used is dropped, and the next datagram to that address is challenged.
 */
struct md_cookie {
	uint8_t bytes[16];
};

struct md_cookies {
	uint64_t epoch; /* epoch of secrets[0] */
	uint8_t secrets[2][16]; /* of this epoch and of the one before */
	struct md_table given; /* cookies given to us, by address */
};

int md_cookies_init(struct md_cookies *cookies, size_t max, uint64_t now_ns); /* 0 or -ENOMEM */
void md_cookies_fini(struct md_cookies *cookies);

/** md_cookie_make - make the cookie for @addr; a zero ip: for a whole link */
struct md_cookie md_cookie_make(struct md_cookies *cookies, const struct md_addr *addr,
				uint64_t now_ns);

/** md_cookie_valid - did we make @cookie for @addr, in this epoch or the one before? */
bool md_cookie_valid(struct md_cookies *cookies, const struct md_addr *addr,
		     const struct md_cookie *cookie, uint64_t now_ns);

/** md_cookie_keep - store a cookie that @addr has given us */
void md_cookie_keep(struct md_cookies *cookies, const struct md_addr *addr,
		    const struct md_cookie *cookie);

/** md_cookie_given - Return: the cookie that @addr has given us; zero: none */
struct md_cookie md_cookie_given(struct md_cookies *cookies, const struct md_addr *addr);

#endif
