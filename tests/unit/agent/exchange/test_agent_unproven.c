/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A neighbour forges source addresses. What the agent sends there is rationed for each link and each group of addresses,
 * and together not longer than what came in.
 */
#include "forged.h"

#include <string.h>

#include "peers.h"

/* One statement to the group would have all agents of the link answer. One to us draws a challenge, which is a header. */
static void test_statements_that_ask(void **state)
{
	(void)state;
	begin("a-host-with-a-long-name", 1);
	beacon(2, 2, DESC);
	statement(2, 2, false, true);
	memset(&sent, 0, sizeof(sent)); /* it was asked whether it has our key */
	for (unsigned int i = 0; i < 1000; i++)
		statement(2, 7, true, true);
	assert_int_equal(sent.n, 0);
	for (unsigned int i = 0; i < 1000; i++)
		statement(2, 7, true, false);
	assert_int_equal(sent.of_kind[MD_KIND_CHALLENGE], sent.n);
	assert_in_range(sent.n, 1, 64);
	assert_int_equal(sent.longest, MD_HEADER_BYTES);
	end();
}

/* Who shows the cookie of the challenge is answered. */
static void test_statement_with_a_cookie(void **state)
{
	const struct in6_addr us = address(0xffff);
	struct md_addr from = md_tx_addr(&us, 0, NET);
	struct md_opened opened;

	(void)state;
	begin("a-host-with-a-long-name", 1);
	beacon(2, 2, DESC);
	statement(2, 2, false, true);
	statement(2, 2, true, false);
	assert_int_equal(sent.of_kind[MD_KIND_CHALLENGE], 1);
	assert_int_equal(md_open(forger, sent.last, sent.last_len, &from, 255, clock_ns, &opened), MD_OPEN_LEARNED);
	statement(2, 2, true, false);
	assert_int_equal(sent.last[5], MD_KIND_IDENTITY);
	end();
}

/* Datagrams to the group that are none for it: nobody answers. One to us draws a challenge no longer than itself. */
static void test_challenges(void **state)
{
	static const enum md_kind kinds[] = {MD_KIND_QUERY, MD_KIND_ENTRY, MD_KIND_MESSAGE, MD_KIND_PROBE, MD_KIND_ECHO, MD_KIND_BUNDLE};
	static const uint8_t payload[8];

	(void)state;
	begin("h", 1);
	beacon(2, 2, DESC);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		arrive(kinds[i], 2, 7, true, payload, sizeof(payload));
	next.hop_limit = 64; /* a statement from beyond a router */
	is_next = true;
	next.bytes[5] = MD_KIND_IDENTITY;
	md_rx_drain(&agent);
	assert_int_equal(sent.n, 0);
	for (unsigned int i = 0; i < 1000; i++)
		arrive(MD_KIND_QUERY, 2, 7, false, NULL, 0);
	assert_int_equal(sent.of_kind[MD_KIND_CHALLENGE], sent.n);
	assert_in_range(sent.n, 1, 64);
	assert_int_equal(sent.longest, MD_HEADER_BYTES);
	end();
}

/* Beacons of many hosts without description, from the address of a victim; then from an address each. */
static void test_questions_for_descriptions(void **state)
{
	(void)state;
	begin("h", 1);
	for (unsigned int n = 1; n <= 1000; n++)
		beacon(n, 7, NULL);
	assert_int_equal(sent.of_kind[MD_KIND_QUERY], MD_UNPROVEN_GROUP_BURST);
	assert_int_equal(sent.n, MD_UNPROVEN_GROUP_BURST);
	for (unsigned int n = 1001; n <= 20000; n++)
		beacon(n, n, NULL);
	assert_in_range(sent.n, MD_NEW_HOSTS_BURST / 2, MD_NEW_HOSTS_BURST);
	assert_true(sent.bytes <= came_bytes);
	/* Later again. */
	clock_ns += 10 * MD_S;
	beacon(1, 7, NULL);
	assert_int_equal(sent.last[5], MD_KIND_QUERY);
	end();
}

/* Somebody repeats beacons of a host on another link, without end. Where the host is heard, it is still asked. */
static void test_questions_on_another_link(void **state)
{
	(void)state;
	begin("h", 1);
	use_two_links();
	for (unsigned int i = 0; i < 9950; i++) {
		beacon_on(2, 2, 7 + i % 9, NULL);
		clock_ns += MD_MS;
	}
	memset(&sent, 0, sizeof(sent));
	beacon_on(NET, 2, 2, NULL);
	assert_int_equal(sent.of_kind[MD_KIND_QUERY], 1);
	/* Not for each beacon. */
	beacon_on(NET, 2, 2, NULL);
	assert_int_equal(sent.of_kind[MD_KIND_QUERY], 1);
	end();
}

static void look(unsigned int seconds)
{
	for (unsigned int i = 0; i < 4 * seconds; i++) {
		clock_ns += MD_S / 4;
		md_trust_look_hosts(&agent, clock_ns);
		md_tx_beacons(&agent, clock_ns);
	}
}

/* Hosts that somebody makes up at the address of a victim are asked for their keys. */
static void test_questions_for_keys(void **state)
{
	const unsigned int seconds = 60;

	(void)state;
	begin("h", 1);
	for (unsigned int n = 1; n <= 500; n++)
		beacon(n, 7, DESC);
	look(seconds);
	/* A beacon is shorter than our statement. */
	assert_int_equal(sent.n, 0);
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int n = 1; n <= 500; n++)
			beacon(n, 7, DESC);
	look(seconds);
	assert_int_equal(sent.of_kind[MD_KIND_IDENTITY], sent.n);
	assert_in_range(sent.n, MD_UNPROVEN_GROUP_BURST, MD_UNPROVEN_GROUP_BURST + MD_UNPROVEN_GROUP_RATE * seconds);
	assert_true(sent.bytes <= came_bytes);
	/* A host that is really there says enough. */
	beacon(1000, 1000, DESC);
	statement(1000, 1000, false, true);
	assert_int_equal(sent.last[5], MD_KIND_CONFIRM);
	end();
}

/* A host is asked for its key on each link on which it is heard: on the first one, its beacons may be forged. */
static void test_questions_for_keys_on_each_link(void **state)
{
	(void)state;
	begin("h", 1);
	use_two_links();
	for (from_rail = 0; from_rail < 16; from_rail++)
		beacon_on(2, 2, 7, DESC);
	from_rail = 0;
	for (unsigned int i = 0; i < 100; i++) {
		beacon(2, 2, DESC);
		look(10);
	}
	assert_in_range(sent.of_net[NET], sent.n / 4, sent.n * 3 / 4);
	assert_in_range(sent.n, 15, 25);
	end();
}

static void sealed_by_stranger(unsigned int n, uint32_t at)
{
	const struct mv_host_id id = peers_id(n);
	struct md_received received = {.ip = address(at), .ifindex = NET};

	memcpy(received.bytes + MD_HEADER_SENDER_AT, &id, sizeof(id));
	md_trust_stranger(&agent, &received, clock_ns);
}

/* Somebody sends what cannot be opened, from his own address in a host's name: the host is still told our key. */
static void test_strangers(void **state)
{
	(void)state;
	begin("h", 1);
	beacon(2, 2, DESC);
	memset(&sent, 0, sizeof(sent));
	for (unsigned int i = 0; i < 10; i++)
		sealed_by_stranger(2, 7);
	assert_int_equal(sent.n, 1);
	for (unsigned int i = 0; i < 10; i++)
		sealed_by_stranger(2, 2);
	assert_int_equal(sent.of_kind[MD_KIND_IDENTITY], 2);
	end();
}

/* A newcomer on a link with many hosts is greeted with no more than it has sent. */
static void test_greetings(void **state)
{
	(void)state;
	begin("a-host-with-a-name-that-is-long-but-still-fits", 1000);
	for (unsigned int n = 1; n <= 10; n++) {
		beacon(n, n, n % 2 ? NULL : DESC);
		look(1);
		assert_true(sent.bytes <= came_bytes);
	}
	end();
	begin("h", 1000);
	beacon(1, 1, DESC);
	look(1);
	assert_int_equal(sent.of_kind[MD_KIND_BEACON], 1);
	assert_true(sent.bytes <= came_bytes);
	/* What was spent on the greeting does not pay for a question, too. */
	for (unsigned int i = 0; i < 10; i++) {
		beacon(1, 1, DESC);
		look(10);
		assert_true(sent.bytes <= came_bytes);
	}
	assert_int_not_equal(sent.of_kind[MD_KIND_IDENTITY], 0);
	end();
}

/*
 * A port that was down is greeted, and that is all: the directory stays as it is. Otherwise who forges the generations of a signed host
 * would wake all processes each time.
 */
static void test_greeting_of_a_port_that_is_back(void **state)
{
	(void)state;
	begin("h", 1000);
	use_two_links();
	beacon_on(2, 2, 2, DESC);
	beacon(2, 2, DESC);
	look(1);
	for (generation = 3; generation <= 7; generation += 2) {
		beacon_on(2, 2, 2, DESC);
		memset(&sent, 0, sizeof(sent));
		agent.publishing.due_ns = UINT64_MAX;
		beacon(2, 2, DESC);
		look(1);
		assert_int_equal(sent.of_kind[MD_KIND_BEACON], 1);
		assert_int_equal(agent.publishing.due_ns, UINT64_MAX);
	}
	generation = 1;
	end();
}

/* Whatever comes, in whatever order: what goes to single addresses is together not longer. */
static void test_anything(void **state)
{
	(void)state;
	srandom(1);
	for (unsigned int round = 0; round < 4; round++) {
		begin(round % 2 ? "h" : "a-host-with-a-name-that-is-long-but-still-fits", round / 2 ? 1000 : 1);
		for (unsigned int i = 0; i < 5000; i++) {
			const unsigned int n = 1 + (unsigned int)random() % 50;
			const uint32_t at = random() % 2 ? n : 7;

			if (random() % 2)
				beacon(n, at, random() % 2 ? DESC : NULL);
			else
				statement(n, at, random() % 2, random() % 2);
			if (random() % 4 == 0)
				look(1);
			assert_true(sent.bytes <= came_bytes);
		}
		assert_true(sent.bytes > 0);
		end();
	}
}

/* Wanted hosts that nothing can be asked of yet take no tokens from others. */
static void test_hosts_without_bytes_delay_none(void **state)
{
	const unsigned int n_poor = 512, rich = 5000;
	struct mv_host_id id = peers_id(rich);

	(void)state;
	begin("h", 1);
	for (unsigned int n = 1; n <= n_poor; n++) {
		id = peers_id(n);
		beacon(n, n, DESC);
		md_hosts_want(&agent.hosts, md_hosts_find(&agent.hosts, &id), 5);
		md_hosts_find(&agent.hosts, &id)->asking.unanswered = 0;
	}
	for (unsigned int i = 0; i < 4; i++)
		beacon(rich, rich, DESC);
	id = peers_id(rich);
	md_hosts_want(&agent.hosts, md_hosts_find(&agent.hosts, &id), 5);
	memset(&sent, 0, sizeof(sent));
	for (unsigned int i = 0; i < 8; i++) {
		clock_ns += MD_S / 4;
		md_trust_look_hosts(&agent, clock_ns);
	}
	assert_true(sent.of_kind[MD_KIND_IDENTITY] > 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts_without_bytes_delay_none),
		cmocka_unit_test(test_statements_that_ask),
		cmocka_unit_test(test_statement_with_a_cookie),
		cmocka_unit_test(test_challenges),
		cmocka_unit_test(test_questions_for_descriptions),
		cmocka_unit_test(test_questions_on_another_link),
		cmocka_unit_test(test_questions_for_keys),
		cmocka_unit_test(test_questions_for_keys_on_each_link),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_greetings),
		cmocka_unit_test(test_greeting_of_a_port_that_is_back),
		cmocka_unit_test(test_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
