/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Statements of hosts about themselves. Any bytes: what is decoded is a name and keys, and the wish for an answer is no part of
 * the digest. A genuine one, with one byte changed: never verified, but for that wish.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "statement.h"

static const struct mv_host_id host = {.bytes = {7}};

static void check_digest(uint8_t *bytes, size_t len, const struct md_statement *said)
{
	uint8_t with[MD_CONTENT_BYTES], without[MD_CONTENT_BYTES];

	md_statement_ask(bytes, true);
	md_statement_digest(bytes, len, said, with);
	md_statement_ask(bytes, false);
	md_statement_digest(bytes, len, said, without);
	FUZZ_CHECK(!memcmp(with, without, sizeof(with)));
}

static void check_raw(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1); /* of that size, so that what is read beyond it is found */
	struct md_statement said;

	FUZZ_CHECK(bytes);
	memcpy(bytes, data, size);
	memset(&said, 0xee, sizeof(said));
	if (!md_statement_decode(bytes, size, &host, 5, &said)) {
		FUZZ_CHECK(size <= MD_STATEMENT_MAX && said.start == 5 && !memcmp(&said.host, &host, sizeof(host)));
		FUZZ_CHECK(memchr(said.name, '\0', sizeof(said.name)) && md_statement_is_name(said.name));
		FUZZ_CHECK(!md_public_is_zero(&said.sign) && !md_public_is_zero(&said.box));
		md_statement_verify(bytes, size, &said);
		check_digest(bytes, size, &said);
	} else {
		FUZZ_CHECK(said.start == 0xeeeeeeeeeeeeeeee);
	}
	free(bytes);
}

/* Of a host with one key, or two: the former one has signed the present one. */
static const struct md_identity *identity(bool rotated)
{
	static const char file[] = "secret AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n";
	static struct md_identity identities[2];
	char why[100];

	if (!identities[0].secret[0]) {
		FUZZ_CHECK(!md_identity_parse(file, strlen(file), "", &identities[0], why, sizeof(why)));
		FUZZ_CHECK(!md_identity_rotate(&identities[0], &identities[1]));
	}
	return &identities[rotated];
}

static bool is_verified(const uint8_t *bytes, size_t len, uint64_t start)
{
	struct md_statement said;

	return !md_statement_decode(bytes, len, &host, start, &said) && md_statement_verify(bytes, len, &said);
}

static void check_signed(const uint8_t *data, size_t size)
{
	struct md_statement said = {.host = host, .start = 5};
	uint8_t bytes[MD_STATEMENT_MAX];
	size_t at, len, n;

	if (size < 5)
		return;
	n = size - 5 < sizeof(said.name) - 1 ? size - 5 : sizeof(said.name) - 1;
	memcpy(said.name, data + 5, n);
	said.generation = data[4];
	len = md_statement_sign(&said, identity(data[0] & 2), bytes);
	FUZZ_CHECK((len != 0) == md_statement_is_name(said.name));
	if (!len)
		return;
	FUZZ_CHECK(len <= sizeof(bytes) && is_verified(bytes, len, 5));
	FUZZ_CHECK(!is_verified(bytes, len, 6) && !is_verified(bytes, len - 1, 5));
	md_statement_ask(bytes, true);
	FUZZ_CHECK(is_verified(bytes, len, 5));
	at = (data[1] << 8 | data[2]) % len;
	bytes[at] ^= data[3];
	FUZZ_CHECK(is_verified(bytes, len, 5) == (!data[3] || (at == 2 && data[3] == 1)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] & 1)
		check_signed(data, size);
	else if (size)
		check_raw(data + 1, size - 1);
	return 0;
}
