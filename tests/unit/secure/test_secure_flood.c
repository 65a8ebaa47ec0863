/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Many datagrams at a time: what they cost, how many are answered, and that they keep nobody out. */
#include "attacked.h"

#include <string.h>

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
		KEYED(test_amplification),
		PLAIN(test_amplification),
		KEYED(test_forgeries_throttled),
		KEYED(test_many_forgeries_throttled),
		PLAIN(test_challenges_throttled),
		PLAIN(test_flood_on_another_link),
		KEYED(test_flood_on_another_link),
		PLAIN(test_challenges_taken_throttled),
		PLAIN(test_cookie_table_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
