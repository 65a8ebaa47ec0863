/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which of a host's addresses messages are sent to, and which tries take which of them. */
#include "unit.h"

#include "peers.h"
#include "relay_fixture.h"

static void test_cookie_learnt(void **state)
{
	struct mv_host_id one = peers_id(1), two = peers_id(2);
	struct md_endpoint to = {.ifindex = 1, .ip.s6_addr = {[15] = 1}};

	(void)state;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, 4);
	md_msg_relay_learned(&relay, &two, &to, now);
	assert_int_equal(n_sent, 4);
	now += MD_S;
	md_msg_relay_learned(&relay, &one, &to, now);
	assert_int_equal(n_sent, 6);
	assert_int_equal(sent_to[1], 4);
	/* The second challenge answers what went out before the first one came. */
	md_msg_relay_learned(&relay, &one, &to, now + MD_MS);
	assert_int_equal(n_sent, 6);
}

/* With many ways each try takes some, and all tries together take all. */
static void test_many_ways(void **state)
{
	(void)state;
	n_endpoints = 24;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, MD_PATHS_FIRST);
	run(now + MD_S);
	assert_int_equal(n_sent, MD_PATHS_FIRST * MD_TRIES_FEW +
					 MD_PATHS_AT_ONCE * (MD_TRIES - MD_TRIES_FEW));
	for (size_t i = 0; i < n_endpoints; i++)
		assert_true(sent_to[i] > 0);
}

/* Nothing comes of it, but for a change that is late: it is not the first that is thought of. */
static void test_said_down(void **state)
{
	const union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ways[MD_PATHS_MAX];
	uint64_t begun = now;

	(void)state;
	said_down = 0;
	assert_int_equal(send_one(5), 0);
	run(begun + 30 * MD_MS);
	assert_int_equal(relay.count.retried, 1);
	assert_int_equal(sent_to[0], 0);
	assert_int_equal(sent_to[1], 2);
	run(begun + 110 * MD_MS);
	assert_int_equal(relay.count.retried, 2);
	assert_int_equal(sent_to[0], 1);
	assert_int_equal(sent_to[1], 3);
	md_msg_relay_acked(&relay, last_id, &here, now);
	/* Nor is it one to have a cookie for. */
	assert_int_equal(md_msg_relay_first_ways(&relay, &gid, ways, MD_PATHS_MAX), 1);
	assert_int_equal(ways[0].ip.s6_addr[15], 1);
	/* Then nothing is known of any. */
	said_down = ALL;
	assert_int_equal(md_msg_relay_first_ways(&relay, &gid, ways, MD_PATHS_MAX), 2);
	assert_int_equal(send_one(5), 0);
	assert_int_equal(sent_to[0], 2);
	assert_int_equal(sent_to[1], 4);
}

/* Messages go another way; but a cookie is for later, too. */
static void test_cut(void **state)
{
	const union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ways[MD_PATHS_MAX];

	(void)state;
	cut = 1;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(sent_to[0], 1);
	assert_int_equal(sent_to[1], 0);
	assert_int_equal(md_msg_relay_first_ways(&relay, &gid, ways, MD_PATHS_MAX), 2);
	/* And there is no other. */
	said_down = 0;
	assert_int_equal(send_one(6), 0);
	assert_int_equal(sent_to[0], 2);
	assert_int_equal(sent_to[1], 1);
}

/* The first tries take every netdev once, and each another address of it. */
static void test_few_netdevs(void **state)
{
	unsigned int on[2] = {0};

	(void)state;
	n_endpoints = 6;
	n_netdevs = 2;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, 2);
	for (size_t i = 0; i < n_endpoints; i++)
		on[i % 2] += sent_to[i];
	assert_int_equal(on[0], 1);
	assert_int_equal(on[1], 1);
	now = md_msg_relay_next(&relay);
	md_msg_relay_tick(&relay, now);
	assert_int_equal(n_sent, 4);
	for (size_t i = 0; i < n_endpoints; i++)
		assert_true(sent_to[i] <= 1);
	now = md_msg_relay_next(&relay);
	md_msg_relay_tick(&relay, now);
	assert_int_equal(n_sent, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_cookie_learnt, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_many_ways, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_few_netdevs, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_said_down, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_cut, relay_setup, relay_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
