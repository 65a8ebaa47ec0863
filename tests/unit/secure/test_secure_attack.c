/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What attackers try on datagrams. docs/security.md names these tests with the claims they stand
 * for. */
#include "hosts.h"

#include <stdio.h>
#include <string.h>

static struct md_keys keys;
static struct host a, b, m; /* m: the attacker */

static int with_key(void **state)
{
	(void)state;
	keys = keys_of(1, 'k', 0);
	host_start(&a, 1, &keys);
	host_start(&b, 2, &keys);
	host_start(&m, 66, NULL);
	return 0;
}

static int without_key(void **state)
{
	(void)state;
	host_start(&a, 1, NULL);
	host_start(&b, 2, NULL);
	host_start(&m, 66, NULL);
	return 0;
}

static int stop_hosts(void **state)
{
	(void)state;
	host_stop(&a);
	host_stop(&b);
	host_stop(&m);
	return 0;
}

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

static void test_replay(void **state)
{
	struct wire wires[100];

	(void)state;
	meet(&a, &b);
	for (int i = 0; i < 100; i++) {
		wires[i] = seal(&a, i % 2 ? MD_KIND_MESSAGE : MD_KIND_BEACON, i % 2 ? &b : NULL,
				"once");
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_OK);
	}
	for (int i = 0; i < 100; i++)
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_REPLAY);
	for (int i = 0; i < MD_WINDOW; i++)
		assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
	for (int i = 0; i < 100; i++)
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_TOO_OLD);
	/* Under another address as well. */
	wires[1].from = m.addr;
	assert_true(receive(&b, &wires[1]) >= MD_OPEN_UNPROVEN);
	/* And elsewhere: a third host takes no message that was meant for another. */
	host_restart(&m, &keys);
	meet(&a, &m);
	assert_true(receive(&m, &wires[1]) >= MD_OPEN_UNPROVEN);
}

/* All that a has ever said to b, again, after b has forgotten everything: at once, and while they
 * talk anew. */
static void test_replay_to_restarted(void **state)
{
	struct wire wires[40];

	(void)state;
	meet(&a, &b);
	for (int i = 0; i < 40; i++) {
		wires[i] = seal(&a, i % 2 ? MD_KIND_MESSAGE : MD_KIND_BEACON, i % 2 ? &b : NULL,
				"once");
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_OK);
	}
	host_restart(&b, &keys);
	for (int i = 0; i < 40; i++)
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	for (int i = 0; i < 40; i++) {
		enum md_verdict verdict = receive(&b, &wires[i]);

		/* Cookies of b's former life are not even tried against the window. */
		assert_verdict(verdict, i % 2 ? MD_OPEN_UNPROVEN : MD_OPEN_REPLAY);
	}
}

/* What a said in its former life, after its restart. */
static void test_replay_of_former_life(void **state)
{
	struct wire message, beacon;

	(void)state;
	meet(&a, &b);
	message = seal(&a, MD_KIND_MESSAGE, &b, "held back");
	beacon = seal(&a, MD_KIND_BEACON, NULL, "held back");
	host_restart(&a, &keys);
	meet(&a, &b);
	assert_verdict(receive(&b, &message), MD_OPEN_OLD_START);
	assert_verdict(receive(&b, &beacon), MD_OPEN_OLD_START);
	now_ns += 2 * MD_COOKIE_EPOCH_NS + 1;
	assert_verdict(receive(&b, &message), MD_OPEN_UNPROVEN);
	assert_verdict(receive(&b, &beacon), MD_OPEN_UNPROVEN);
}

/* Hosts with the key fill the table; the window of a is not lost to them while its datagrams are
 * fresh. */
static void test_replay_under_eviction(void **state)
{
	struct md_secure_config config = {.host = {{[15] = 2}}, .start = 1000, .max_senders = 8};
	struct host others[32];
	struct wire message, beacon;
	int refused = 0;

	(void)state;
	host_stop(&b);
	b.config = config;
	assert_int_equal(md_secure_new(&config, &keys, now_ns, &b.s), 0);
	meet(&a, &b);
	message = seal(&a, MD_KIND_MESSAGE, &b, "once");
	beacon = seal(&a, MD_KIND_BEACON, NULL, "once");
	assert_verdict(receive(&b, &message), MD_OPEN_OK);
	assert_verdict(receive(&b, &beacon), MD_OPEN_OK);
	for (int i = 0; i < 32; i++)
		host_start(&others[i], (uint8_t)(100 + i), &keys);
	for (int step = 0; step < 130; step++) {
		for (int i = 0; i < 32; i++) {
			enum md_verdict verdict = tell(&others[i], MD_KIND_QUERY, &b, "x");
			struct wire wire;

			refused += verdict == MD_OPEN_NO_ROOM;
			if (!opened.reply_len)
				continue;
			wire = wire_reply(&b);
			receive(&others[i], &wire);
		}
		assert_true(receive(&b, &message) >= MD_OPEN_UNPROVEN);
		assert_true(receive(&b, &beacon) >= MD_OPEN_UNPROVEN);
		now_ns += SECOND_NS;
	}
	assert_true(refused > 0);
	for (int i = 0; i < 32; i++)
		host_stop(&others[i]);
}

static void test_reflection(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	wire.from = b.addr;
	assert_verdict(receive(&a, &wire), MD_OPEN_OWN);
	wire.bytes[31] = 2; /* sender: b */
	assert_verdict(receive(&a, &wire), MD_OPEN_FORGED);
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

/* No answer is longer than its question, and answers have no answers. */
static void check_amplification(void)
{
	for (int kind = MD_KIND_BEACON; kind <= MD_KIND_MESSAGE; kind++) {
		struct wire wire = seal(&a, kind, kind == MD_KIND_BEACON ? NULL : &b, "");

		now_ns += SECOND_NS;
		receive(&b, &wire);
		assert_true(opened.reply_len <= wire.len);
		for (int hops = 0; opened.reply_len; hops++) {
			struct host *at = hops % 2 ? &a : &b, *to = hops % 2 ? &b : &a;
			size_t len = opened.reply_len;

			assert_true(hops < 2);
			wire = wire_reply(at);
			receive(to, &wire);
			assert_true(opened.reply_len <= len);
		}
		/* A challenge from nowhere is not answered. */
		wire = seal(&a, MD_KIND_QUERY, &b, "");
		wire.bytes[5] = MD_KIND_CHALLENGE;
		wire.bytes[7] = MD_KIND_QUERY;
		memset(wire.bytes + 48, 0, 16);
		receive(&b, &wire);
		assert_int_equal(opened.reply_len, 0);
	}
}

static void test_amplification(void **state)
{
	(void)state;
	check_amplification();
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

/* How many of 10,000 datagrams in a second get past the limit, that is, are not THROTTLED, or are
 * answered. */
static int forged_in_a_second(struct host *to, const struct wire *wire, bool many_sources,
			      int *ret_answers)
{
	uint64_t end = now_ns + SECOND_NS;
	struct wire w = *wire;
	int looked_at = 0;

	*ret_answers = 0;
	for (uint32_t i = 0; now_ns < end; i++, now_ns += SECOND_NS / 10000) {
		if (many_sources)
			memcpy(&w.from.ip.s6_addr[10], &i, sizeof(i));
		w.bytes[MD_HEADER_BYTES]++;
		looked_at += receive(to, &w) != MD_OPEN_THROTTLED;
		*ret_answers += opened.reply_len != 0;
	}
	return looked_at;
}

static void test_forgeries_throttled(void **state)
{
	struct wire forged;
	int answers, looked_at;

	(void)state;
	meet(&a, &b);
	forged = seal(&a, MD_KIND_BEACON, NULL, "x");
	forged.bytes[MD_HEADER_BYTES + MD_SEALED_BYTES]++;
	looked_at = forged_in_a_second(&b, &forged, false, &answers);
	assert_int_equal(answers, 0);
	assert_in_range(looked_at, 500, 1600);
	/* In the name of a, whose own unicast has a valid cookie and so passes all the same. */
	while (receive(&b, &forged) != MD_OPEN_THROTTLED)
		forged.bytes[MD_HEADER_BYTES]++;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
	/* And so do others. */
	host_restart(&m, &keys);
	meet(&b, &m);
}

/* From everywhere, and ten times as fast: less than a tenth of a second's work for each second. */
static void test_many_forgeries_throttled(void **state)
{
	struct wire forged;
	int looked_at = 0;

	(void)state;
	meet(&a, &b);
	forged = seal(&a, MD_KIND_MESSAGE, &b, "x");
	memset(forged.bytes + 48, 0, 16);
	forged.bytes[MD_HEADER_BYTES]++;
	for (uint32_t i = 0; i < 100000; i++, now_ns += SECOND_NS / 100000) {
		memcpy(&forged.from.ip.s6_addr[10], &i, sizeof(i));
		looked_at += receive(&b, &forged) != MD_OPEN_THROTTLED;
	}
	assert_in_range(looked_at, 20000, 25000);
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
}

static void test_challenges_throttled(void **state)
{
	struct wire forged;
	int answers;

	(void)state;
	meet(&a, &b);
	forged = seal(&m, MD_KIND_MESSAGE, &b, "x");
	forged_in_a_second(&b, &forged, false, &answers);
	assert_in_range(answers, 60, 100);
	now_ns += 10 * SECOND_NS;
	forged_in_a_second(&b, &forged, true, &answers);
	assert_in_range(answers, 1000, 4000);
	/* Who has a network has one share, whatever its addresses; in IPv4 each is one. */
	now_ns += 10 * SECOND_NS;
	forged.from.ip = ip_of("2001:db8:0:1::");
	forged_in_a_second(&b, &forged, true, &answers);
	assert_in_range(answers, 60, 100);
	now_ns += 10 * SECOND_NS; /* by a hash of a random key both may have one place */
	forged.from.ip = ip_of("10.1.0.1");
	forged_in_a_second(&b, &forged, false, &answers);
	assert_in_range(answers, 60, 100);
	now_ns += 10 * SECOND_NS;
	forged.from.ip = m.addr.ip;
	forged_in_a_second(&b, &forged, true, &answers);
	/* Probes of all paths of a network are answered at once, whatever others have taken. */
	forged = seal(&m, MD_KIND_PROBE, &b, "x");
	forged.from.ip = ip_of("2001:db8:0:1::");
	forged_in_a_second(&b, &forged, true, &answers);
	assert_in_range(answers, 4096, 9000);
	/* The bucket is empty, but those who have a cookie need none. */
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
}

/* From everywhere, by another link or from beyond routers. */
static void flood(struct host *to, struct wire *forged, uint32_t link, int hop_limit)
{
	forged->from.arrived = link;
	forged->hop_limit = hop_limit;
	for (uint32_t i = 0; i < 200100; i++) {
		memcpy(&forged->from.ip.s6_addr[4], &i, sizeof(i));
		receive(to, forged);
		now_ns += i < 200000 ? SECOND_NS / 200000 : 0;
	}
}

/* What comes by one link, or by routers, does not keep out what comes by another link. */
static void test_flood_on_another_link(void **state)
{
	const bool keyed = md_secure_has_key(b.s);
	struct wire forged, beacon;

	(void)state;
	meet(&a, &b);
	forged = seal(&m, keyed ? MD_KIND_BEACON : MD_KIND_MESSAGE, keyed ? NULL : &b, "x");
	if (keyed) {
		forged = seal(&a, MD_KIND_MESSAGE, &b, "x");
		memset(forged.bytes + 48, 0, 16);
		forged.bytes[MD_HEADER_BYTES]++;
	}
	forged.from.ip = ip_of("2001:db8::1");
	for (int link = 0; link < 2; link++) {
		flood(&b, &forged, link ? LINK + 1 : LINK, link ? 255 : 64);
		beacon = seal(&a, MD_KIND_BEACON, NULL, "x");
		assert_verdict(receive(&b, &beacon), MD_OPEN_OK);
		host_restart(&m, keyed ? &keys : NULL);
		assert_verdict(tell(&m, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
		assert_true(opened.reply_len);
	}
	/* The flood was one: on that link nobody is challenged any more. */
	m.addr.arrived = LINK + 1;
	host_restart(&m, keyed ? &keys : NULL);
	assert_verdict(tell(&m, MD_KIND_MESSAGE, &b, "x"), keyed ? MD_OPEN_THROTTLED : MD_OPEN_UNPROVEN);
	assert_false(opened.reply_len);
}

/* Who has a cookie asks for everything again, and again: few are heard. */
static void test_challenges_taken_throttled(void **state)
{
	int learned = 0;

	(void)state;
	meet(&m, &b);
	for (int i = 0; i < 10000; i++, now_ns += SECOND_NS / 10000) {
		struct wire wire = seal(&m, MD_KIND_QUERY, &b, "");
		enum md_verdict verdict;

		wire.bytes[5] = MD_KIND_CHALLENGE;
		wire.bytes[7] = MD_KIND_MESSAGE;
		verdict = receive(&b, &wire);
		learned += verdict == MD_OPEN_LEARNED;
		if (verdict != MD_OPEN_LEARNED)
			assert_verdict(verdict, MD_OPEN_THROTTLED);
	}
	assert_in_range(learned, 60, 100);
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
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

/* Nothing that strangers do takes memory: what they can fill is of fixed size, and full tables keep
 * on working. */
static void test_cookie_table_full(void **state)
{
	struct md_secure_config config = {.host = {{[15] = 2}}, .start = 1000, .max_cookies = 16};

	(void)state;
	host_stop(&b);
	b.config = config;
	assert_int_equal(md_secure_new(&config, NULL, now_ns, &b.s), 0);
	for (int i = 0; i < 200; i++) {
		struct host other;

		host_start(&other, (uint8_t)(20 + i), NULL);
		meet(&b, &other);
		host_stop(&other);
	}
	meet(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define KEYED(test) cmocka_unit_test_setup_teardown(test, with_key, stop_hosts)
#define PLAIN(test) cmocka_unit_test_setup_teardown(test, without_key, stop_hosts)
		KEYED(test_tampering),
		KEYED(test_lengths),
		PLAIN(test_plain_lengths),
		KEYED(test_replay),
		KEYED(test_replay_to_restarted),
		KEYED(test_replay_of_former_life),
		KEYED(test_replay_under_eviction),
		KEYED(test_reflection),
		KEYED(test_kinds_do_not_mix),
		KEYED(test_key_id_forged),
		KEYED(test_amplification),
		PLAIN(test_amplification),
		PLAIN(test_spoofed_source),
		PLAIN(test_forged_challenge),
		KEYED(test_forgeries_throttled),
		KEYED(test_many_forgeries_throttled),
		PLAIN(test_challenges_throttled),
		PLAIN(test_flood_on_another_link),
		KEYED(test_flood_on_another_link),
		PLAIN(test_challenges_taken_throttled),
		PLAIN(test_forged_plain_beacon),
		PLAIN(test_fields_that_cannot_be),
		KEYED(test_zero_id),
		PLAIN(test_zero_id),
		PLAIN(test_cookie_table_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
