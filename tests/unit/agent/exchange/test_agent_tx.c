/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the agent sends to hosts that it has not asked: answers and greetings are rationed for each link. */
#include "oneagent.h"

#include <string.h>

static void test_answers_to_wanted_hosts(void **state)
{
	struct md_host *flood, *wanted[2];
	unsigned int n = 0;

	(void)state;
	flood = add_host(1);
	for (unsigned int i = 0; i < 2; i++) {
		wanted[i] = add_host(2 + i);
		md_hosts_want(&agent.hosts, wanted[i], 0);
	}
	/* One address, and then many. */
	while (is_answered(flood, 1))
		n++;
	assert_in_range(n, MD_ANSWERS_BURST, MD_ANSWERS_GROUP_BURST);
	for (uint32_t i = 0; i < 8192; i++)
		is_answered(flood, i % MD_SOURCE_GROUPS);
	assert_true(is_answered(wanted[0], 1));
	/* One of those may not take it all for itself. */
	for (unsigned int i = 0; i < 8192; i++)
		is_answered(wanted[0], 1);
	assert_true(is_answered(wanted[1], 1));
}

static void test_answers_on_another_link(void **state)
{
	struct md_opened opened = {.kind = MD_KIND_QUERY};
	struct md_received received = {.ifindex = 1, .hop_limit = 255};
	uint64_t before;

	(void)state;
	for (uint32_t i = 0; i < 8192; i++) {
		opened.group = i % MD_SOURCE_GROUPS;
		md_tx_entry(&agent, &received, &opened);
	}
	before = agent.counts.queries.refused;
	assert_true(before > 0);
	received.ifindex = 2;
	md_tx_entry(&agent, &received, &opened);
	received.hop_limit = 64;
	md_tx_entry(&agent, &received, &opened);
	assert_int_equal(agent.counts.queries.refused, before);
}

static uint32_t no_random(uint32_t below)
{
	return below - 1;
}

static unsigned int n_greetings(uint32_t ifindex)
{
	unsigned int n = 0;

	for (size_t i = 0; i < agent.tx.greetings.n; i++)
		n += agent.tx.greetings.list[i].ifindex == ifindex;
	return n;
}

/* @n newcomers, each with an address of its own. */
static void greet(uint32_t ifindex, unsigned int n)
{
	static uint32_t number;
	struct in6_addr ip = {0};

	while (n--) {
		number++;
		memcpy(&ip.s6_addr[12], &number, sizeof(number));
		md_tx_greet(&agent, &ip, ifindex, 1000, MD_S);
	}
}

/* Somebody makes up newcomers on netdev 2, which has thousands of hosts: those on netdev 1 are greeted. */
static void test_greetings_on_another_link(void **state)
{
	(void)state;
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 2;
	for (uint32_t i = 0; i < 2; i++)
		agent.tx.announce.outlets[i] = (struct md_outlet){.ifindex = 1 + i, .n_heard = 10000};
	greet(2, 1000);
	assert_int_equal(n_greetings(2), MD_GREETINGS_MAX);
	greet(1, 100);
	assert_int_equal(n_greetings(1), 100);
	greet(2, 1000);
	assert_int_equal(n_greetings(1), 100);
	/* Not more than there are on netdev 2. */
	greet(1, 1000);
	assert_int_equal(n_greetings(1), MD_GREETINGS_MAX / 2);
	assert_int_equal(n_greetings(2), MD_GREETINGS_MAX / 2);
}

/* Somebody makes up newcomers at the address of a victim, which gets little; and at many addresses, in which all get little. */
static void test_greetings_are_rationed(void **state)
{
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};
	uint64_t now_ns = MD_S, before;

	(void)state;
	agent.tx.said.len = MD_DESC_BYTES_MAX; /* many pieces */
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 1;
	agent.tx.announce.outlets[0] = (struct md_outlet){.ifindex = 1, .n_heard = 10000, .next_ns = UINT64_MAX};
	for (unsigned int i = 0; i < 1000; i++) {
		md_tx_greet(&agent, &ip, 1, 1000, now_ns);
		md_tx_beacons(&agent, now_ns + 100 * MD_S);
	}
	assert_int_equal(agent.counts.beacons.sent, MD_UNPROVEN_GROUP_BURST);
	assert_int_equal(n_datagrams(), MD_UNPROVEN_GROUP_BURST); /* one each: this host signs nothing */
	for (uint32_t i = 1; i < 100000; i++) {
		memcpy(&ip.s6_addr[8], &i, sizeof(i));
		md_tx_greet(&agent, &ip, 1, 1000, now_ns);
		md_tx_beacons(&agent, now_ns + 100 * MD_S);
	}
	assert_int_equal(n_datagrams(), MD_GREETINGS_BURST);
	/* Newcomers are greeted again later. */
	before = n_datagrams();
	now_ns += MD_S;
	for (uint32_t i = 1; i < 10000; i++) {
		memcpy(&ip.s6_addr[8], &i, sizeof(i));
		md_tx_greet(&agent, &ip, 1, 1000, now_ns);
		md_tx_beacons(&agent, now_ns + 100 * MD_S);
	}
	assert_int_equal(n_datagrams(), before + MD_GREETINGS_RATE);
}

/* With a fleet key each newcomer is greeted: nobody without the key makes up newcomers. */
static void test_greetings_with_a_key(void **state)
{
	const struct md_keys keys = {.n = 1};
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};

	(void)state;
	md_secure_reload(agent.secure, &keys);
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 1;
	agent.tx.announce.outlets[0] = (struct md_outlet){.ifindex = 1, .n_heard = 10000, .next_ns = UINT64_MAX};
	for (unsigned int i = 0; i < 2 * MD_GREETINGS_BURST; i++) {
		md_tx_greet(&agent, &ip, 1, 0, MD_S);
		md_tx_beacons(&agent, 100 * MD_S);
	}
	assert_int_equal(agent.counts.beacons.sent, 2 * MD_GREETINGS_BURST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers_to_wanted_hosts, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_answers_on_another_link, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_greetings_on_another_link, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_greetings_are_rationed, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_greetings_with_a_key, setup_agent, teardown_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
