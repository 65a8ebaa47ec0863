/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What attackers try on datagrams: changing them, and making some of their own. */
#include "attacked.h"

#include <string.h>

/* Every bit of every byte, of a beacon and of a message. */
static void tamper(const struct wire *wire)
{
	for (size_t at = 0; at < wire->len; at++)
		for (int bit = 0; bit < 8; bit++) {
			struct wire changed = *wire;
			enum md_verdict verdict;

			changed.bytes[at] ^= (uint8_t)(1 << bit);
			now_ns += SECOND_NS /
				  500; /* or limits would answer for what is to be tried here */
			verdict = receive(&b, &changed);
			if (verdict < MD_OPEN_NOT_OURS || verdict == MD_OPEN_THROTTLED)
				fail_msg("byte %zu, bit %d changed: %s", at, bit,
					 md_verdict_name(verdict));
			assert_int_equal(opened.reply_len, 0);
		}
}

static void test_tampering(void **state)
{
	struct wire wire;

	(void)state;
	now_ns -= now_ns % MD_COOKIE_EPOCH_NS; /* cookies stay valid all the while */
	meet(&a, &b);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "to be changed");
	tamper(&wire);
	assert_verdict(receive(&b, &wire),
		       MD_OPEN_OK); /* it was good, and trying has not used it up */
	wire = seal(&a, MD_KIND_BEACON, NULL, "to be changed");
	tamper(&wire);
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	/* A challenge to b, made by a in its next life. */
	host_restart(&a, &keys);
	assert_verdict(tell(&b, MD_KIND_MESSAGE, &a, "x"), MD_OPEN_UNPROVEN);
	wire = wire_reply(&a);
	tamper(&wire);
	assert_verdict(receive(&b, &wire), MD_OPEN_LEARNED);
}

static void test_lengths(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "to be cut");
	for (size_t len = wire.len; len-- > 0;) {
		struct wire cut = wire;

		cut.len = len;
		assert_true(receive(&b, &cut) >= MD_OPEN_NOT_OURS);
		assert_int_equal(opened.reply_len, 0);
	}
	for (size_t len = wire.len + 1; len <= sizeof(wire.bytes); len++) {
		struct wire longer = wire;

		longer.len = len;
		now_ns += SECOND_NS / 100;
		assert_true(receive(&b, &longer) >= MD_OPEN_NOT_OURS);
	}
	wire.len = sizeof(wire.bytes);
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
}

static void test_plain_lengths(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "");
	for (size_t len = 0; len < sizeof(wire.bytes); len++) {
		enum md_verdict right = MD_OPEN_OK;

		wire.len = len;
		if (len < MD_HEADER_BYTES || len > MD_HEADER_BYTES + MD_PAYLOAD_MAX_BYTES)
			right = MD_OPEN_NOT_OURS;
		assert_verdict(receive(&b, &wire), right);
	}
}

/* A beacon is not a message, nor the other way round, and a challenge is neither. */
static void test_kinds_do_not_mix(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&a, MD_KIND_BEACON, NULL, "x");
	wire.bytes[5] = MD_KIND_MESSAGE;
	assert_verdict(receive(&b, &wire), MD_OPEN_FORGED);
	wire = seal(&a, MD_KIND_QUERY, &b, "");
	wire.bytes[5] = MD_KIND_PROOF;
	assert_verdict(receive(&b, &wire), MD_OPEN_FORGED);
}

/* The attacker has the key of another fleet and gives it this one's id. */
static void test_key_id_forged(void **state)
{
	struct md_keys other = keys_of(1, 'o', 0);
	struct wire wire, good;

	(void)state;
	host_stop(&m);
	host_start(&m, 66, &other);
	meet(&a, &b);
	good = seal(&a, MD_KIND_BEACON, NULL, "x");
	wire = seal(&m, MD_KIND_BEACON, NULL, "x");
	assert_verdict(receive(&b, &wire), MD_OPEN_OTHER_KEY);
	memcpy(wire.bytes + 8, good.bytes + 8, 8);
	assert_verdict(receive(&b, &wire), MD_OPEN_FORGED);
}

/*
 * Off the path, with any source address: nothing is taken, because the cookie goes to where the
 * source address is. Those that do cause something all the same are challenges.
 */
static void test_spoofed_source(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	meet(&m, &b); /* its own cookie does not help */
	for (int kind = MD_KIND_QUERY; kind <= MD_KIND_MESSAGE; kind++) {
		wire = seal(&m, kind, &b, "forged");
		wire.from = a.addr;
		assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
		for (int guess = 0; guess < 1000; guess++) {
			now_ns += SECOND_NS / 10000;
			memset(wire.bytes + 48, guess, 16);
			assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
		}
		wire = seal(&m, kind, &b, "");
		wire.from.ip.s6_addr[15]++;
		assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
		wire.from = m.addr;
		wire.from.port++;
		assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
		wire.from = m.addr;
		wire.from.ifindex++;
		assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
	}
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
}

/* Challenges that nobody asked for teach nothing: a goes on using b's cookie. */
static void test_forged_challenge(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&m, MD_KIND_QUERY, &a, "");
	wire.from = b.addr;
	wire.bytes[5] = MD_KIND_CHALLENGE;
	wire.bytes[7] = MD_KIND_QUERY;
	for (int guess = 0; guess < 256; guess++) {
		memset(wire.bytes + 48, guess, 16);
		assert_verdict(receive(&a, &wire), MD_OPEN_UNPROVEN);
		assert_int_equal(opened.reply_len, 0);
	}
	/* The cookie of a's beacons, which everybody hears, is none for that. */
	memcpy(wire.bytes + 48, seal(&a, MD_KIND_BEACON, NULL, "").bytes + 64, 16);
	assert_verdict(receive(&a, &wire), MD_OPEN_UNPROVEN);
	wire.bytes[7] = MD_KIND_BEACON;
	assert_verdict(receive(&a, &wire), MD_OPEN_NOT_OURS);
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
}

/* A beacon under a's address, which the attacker can send without a key, spoils nothing between a
 * and b. */
static void test_forged_plain_beacon(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&m, MD_KIND_BEACON, NULL, "forged");
	wire.from = a.addr;
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_verdict(tell(&b, MD_KIND_MESSAGE, &a, "x"), MD_OPEN_OK);
	wire.hop_limit = 64;
	assert_verdict(receive(&b, &wire), MD_OPEN_OFF_LINK);
}

static void test_fields_that_cannot_be(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} cases[] = {{5, 0}, {5, MD_KIND_END}, {5, 255}, {5, MD_KIND_CHALLENGE},
		     {6, 3}, {7, 1},           {8, 1},   {15, 1}};
	struct wire wire;

	(void)state;
	meet(&a, &b);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
		wire.bytes[cases[i].at] = cases[i].value;
		assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
	}
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	memset(wire.bytes + 40, 0, 8); /* counter */
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	wire.bytes[4]++;
	assert_verdict(receive(&b, &wire), MD_OPEN_VERSION);
	/* Challenges and proofs carry nothing. */
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	wire.bytes[5] = MD_KIND_PROOF;
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
	wire.bytes[5] = MD_KIND_CHALLENGE;
	wire.bytes[7] = MD_KIND_MESSAGE;
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
	wire.bytes[7] = MD_KIND_CHALLENGE;
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
}

/* Zero stands for a host that is not known: programs would take the messages of a host with that id for those of an older agent. */
static void test_zero_id(void **state)
{
	static const enum md_kind kinds[] = {MD_KIND_BEACON, MD_KIND_QUERY, MD_KIND_ENTRY, MD_KIND_MESSAGE, MD_KIND_PROBE, MD_KIND_IDENTITY};
	struct host zero;
	struct wire wire;

	(void)state;
	host_start(&zero, 0, md_secure_has_key(b.s) ? &keys : NULL);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		wire = seal(&zero, kinds[i], kinds[i] == MD_KIND_BEACON ? NULL : &b, "x");
		assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
		assert_int_equal(opened.reply_len, 0);
	}
	/* Its challenges are not answered either. */
	assert_verdict(tell(&b, MD_KIND_MESSAGE, &zero, "x"), MD_OPEN_UNPROVEN);
	wire = wire_reply(&zero);
	assert_verdict(receive(&b, &wire), MD_OPEN_NOT_OURS);
	assert_int_equal(opened.reply_len, 0);
	host_stop(&zero);
	meet(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KEYED(test_tampering),
		KEYED(test_lengths),
		PLAIN(test_plain_lengths),
		KEYED(test_kinds_do_not_mix),
		KEYED(test_key_id_forged),
		PLAIN(test_spoofed_source),
		PLAIN(test_forged_challenge),
		PLAIN(test_forged_plain_beacon),
		PLAIN(test_fields_that_cannot_be),
		KEYED(test_zero_id),
		PLAIN(test_zero_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
