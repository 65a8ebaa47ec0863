/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Thousands of messages, changes or challenges: what is done for them in a turn, and what is left for others. */
#include "unit.h"

#include <errno.h>

#include "peers.h"
#include "relay_fixture.h"

/* Changes without end, while thousands of messages wait: they are looked at every 10 ms. */
static void test_changes_without_end(void **state)
{
	const unsigned int n = 1000;
	uint64_t begun = now;

	(void)state;
	n_endpoints = 0;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(send_one(5), 0);
	n_looked = 0;
	for (unsigned int i = 0; i < 10000; i++)
		md_msg_relay_known(&relay, now);
	assert_int_equal(n_looked, n);
	assert_int_equal(md_msg_relay_next(&relay), now + MD_KNOWN_NS);
	/* The last change is not lost. */
	n_endpoints = 1;
	now = begun + MD_KNOWN_NS;
	md_msg_relay_tick(&relay, now);
	assert_int_not_equal(n_sent, 0);
	assert_true(md_msg_relay_next(&relay) > now);
}

/* A host with ever other addresses has messages sent again for some of its challenges only. */
static void test_cookies_without_end(void **state)
{
	struct mv_host_id one = peers_id(1);
	struct md_endpoint to = {.ifindex = 1};
	unsigned int n;

	(void)state;
	for (unsigned int i = 0; i < MD_MSGS_PER_ACCOUNT; i++)
		assert_int_equal(send_one(5), 0);
	n_sent = 0;
	for (unsigned int i = 0; i < 10000; i++) {
		to.ip.s6_addr[0] = (uint8_t)(i >> 8);
		to.ip.s6_addr[1] = (uint8_t)i;
		md_msg_relay_learned(&relay, &one, &to, now);
	}
	assert_in_range(n_sent, MD_LEARNED_BURST / 2, MD_LEARNED_BURST);
	n = n_sent;
	now += MD_S;
	to.ip.s6_addr[2] = 1;
	md_msg_relay_learned(&relay, &one, &to, now);
	assert_true(n_sent > n);
}

/* After a restart all hosts of a large job challenge us. Looking for messages to each leaves room for those that have some. */
static void test_cookies_of_a_fleet(void **state)
{
	struct mv_host_id one = peers_id(1), two = peers_id(2);
	struct md_endpoint to = {.ifindex = 1};

	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_int_equal(send_one(5), 0);
	n_sent = 0;
	for (unsigned int i = 0; i < 1000; i++) {
		to.ip.s6_addr[0] = (uint8_t)(i >> 8);
		to.ip.s6_addr[1] = (uint8_t)i;
		md_msg_relay_learned(&relay, &two, &to, now);
	}
	assert_int_equal(n_sent, 0);
	to.ip.s6_addr[2] = 1;
	md_msg_relay_learned(&relay, &one, &to, now);
	assert_int_equal(n_sent, 256);
}

/* Clients that come and go leave room for others. */
static void test_orphans(void **state)
{
	(void)state;
	for (uint64_t client = 5; client < 10; client++) {
		for (int i = 0; i < MD_MSGS_PER_CLIENT; i++)
			assert_int_equal(send_one(client), 0);
		md_msg_relay_orphan(&relay, client);
		assert_int_equal(relay.n, MD_ORPHANS_MAX);
		assert_int_equal(relay.n_orphans, MD_ORPHANS_MAX);
	}
	assert_int_equal(n_done, 0);
	assert_int_equal(send_one(10), 0);
	run(now + MD_S);
	assert_int_equal(n_done, MD_ORPHANS_MAX + 1);
	assert_int_equal(relay.n_orphans, 0);
}

static void test_limit(void **state)
{
	(void)state;
	n_endpoints = 0;
	for (int i = 0; i < MD_MSGS_MAX; i++)
		assert_int_equal(send_one(5), 0);
	assert_int_equal(send_one(5), -ENOSPC);
	assert_int_equal(relay.count.no_room, 1);
	run(now + MD_S);
	assert_int_equal(n_done, MD_MSGS_MAX);
	assert_int_equal(send_one(5), 0);
}

/*
 * A user may have thousands of messages due at the same time, each of which is sent to eight addresses. The event loop
 * does other things in between, and of all messages those go first that have been due for longest.
 */
static void test_many_due(void **state)
{
	const unsigned int n = MD_MSGS_PER_ACCOUNT;
	unsigned int calls = 1, before;

	(void)state;
	n_endpoints = MD_PATHS_MAX;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(send_one(5), 0);
	run(now + 200 * MD_MS);
	assert_int_equal(send_one(6), 0);
	now += MD_S;
	before = n_sent;
	assert_true(md_msg_relay_tick(&relay, now) < now);
	assert_in_range(n_sent - before, 1, MD_TRIES_PER_TURN * MD_PATHS_AT_ONCE);
	while (md_msg_relay_tick(&relay, now) <= now)
		calls++;
	assert_int_equal(calls, n / MD_TRIES_PER_TURN);
	assert_int_equal(relay.count.retried, 3 * n + 1);
	assert_int_equal(n_done, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changes_without_end, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_cookies_without_end, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_cookies_of_a_fleet, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_orphans, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_limit, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_many_due, relay_setup, relay_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
