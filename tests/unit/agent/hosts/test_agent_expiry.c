/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When a silent host is forgotten, also where this agent comes late or loses datagrams. The clock is ours. */
#include "hosts_fixture.h"

#include "expiry.h"

static void test_expiry(void **state)
{
	struct peer fast = {1, 100, 1, 1000, ONE_RAIL}, slow = {2, 100, 1, 10000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &fast, 1, 0, MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &fast, 2, 1, 3 * MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &slow, 1, 0, MD_S, &changed), 0);
	assert_false(md_hosts_expire(&hosts, MD_S + 3499 * MD_MS));
	/* The sighting of netdev 1 goes, the host stays. */
	assert_true(md_hosts_expire(&hosts, MD_S + 3500 * MD_MS));
	assert_int_equal(host(1)->sightings.n, 1);
	assert_int_equal(host(1)->sightings.list[0].ifindex, 2);
	assert_true(md_hosts_expire(&hosts, 3 * MD_S + 3500 * MD_MS));
	assert_null(host(1));
	assert_int_equal(n_left, 1);
	assert_false(md_hosts_expire(&hosts, 35 * MD_S));
	assert_true(md_hosts_expire(&hosts, 36 * MD_S));
	assert_int_equal(hosts.n, 0);
}

/* Nobody is silent while we do not listen. */
static void test_late(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL}, told = {2, 100, 1, 1000, ONE_RAIL}, heard = {3, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 9 * MD_S, &changed), 0);
	assert_int_equal(peers_tell(&hosts, &told, "10.7.0.1", 9 * MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &heard, 1, 0, 9 * MD_S, &changed), 0);
	assert_false(md_hosts_expire(&hosts, 10 * MD_S));
	/* Six seconds later some of what has come has been taken already. */
	assert_int_equal(peers_hear(&hosts, &heard, 1, 0, 16 * MD_S, &changed), 0);
	md_hosts_excuse(&hosts, 10 * MD_S, 16 * MD_S);
	assert_false(md_hosts_expire(&hosts, 16 * MD_S));
	assert_int_equal(hosts.n, 3);
	/* They have the time that they had left. */
	assert_false(md_hosts_expire(&hosts, 18499 * MD_MS));
	assert_true(md_hosts_expire(&hosts, 18500 * MD_MS));
	assert_null(host(1));
	assert_null(host(2));
	/* Whom we have heard since has no more than that. */
	assert_non_null(host(3));
	assert_true(md_hosts_expire(&hosts, 19500 * MD_MS));
	assert_int_equal(hosts.n, 0);
}

/*
 * How long a host is known that falls silent when we look every @every_ns, and datagrams had no room in that time, or were
 * left in the sockets. Its lifetime is 3.5 s. 0: still known after 20 s.
 */
static uint64_t known_for(uint64_t every_ns, unsigned int drops, bool drained)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	struct md_expiry expiry;
	unsigned int changed;

	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 9 * MD_S, &changed), 0);
	md_expiry_begin(&expiry, UINT32_MAX - 5, 9 * MD_S);
	for (uint64_t now_ns = 9 * MD_S; now_ns < 29 * MD_S; now_ns += every_ns) {
		if (now_ns < expiry.due_ns)
			continue;
		md_expiry_look(&expiry, &hosts, drained, expiry.dropped + drops, now_ns);
		assert_true(expiry.due_ns > now_ns);
		if (!hosts.n)
			return now_ns - 9 * MD_S;
	}
	return 0;
}

/* An agent that others leave a twentieth of a processor. */
static void test_starved(void **state)
{
	(void)state;
	assert_int_equal(known_for(950 * MD_MS, 1, true), 0);
}

static void test_starved_without_drops(void **state)
{
	(void)state;
	assert_int_equal(known_for(950 * MD_MS, 0, true), 0);
}

/* One that comes round in time, but not to the end of what has come: others can bring that about, so a host gets a second lifetime, no third. */
static void test_flooded(void **state)
{
	(void)state;
	assert_in_range(known_for(50 * MD_MS, 1, true), 7000 * MD_MS, 7200 * MD_MS);
}

static void test_never_drained(void **state)
{
	(void)state;
	assert_in_range(known_for(50 * MD_MS, 0, false), 7000 * MD_MS, 7200 * MD_MS);
}

/* Bursts of 6 s, after each of which the host is heard once: by an answer, or by a beacon. */
static void flooded_and_heard(bool answer)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	for (uint64_t now_ns = 9 * MD_S; now_ns < 60 * MD_S; now_ns += 6 * MD_S) {
		if (answer)
			assert_int_equal(peers_tell(&hosts, &peer, "10.7.0.1", now_ns, &changed), 0);
		else
			assert_int_equal(peers_hear(&hosts, &peer, 1, 0, now_ns, &changed), 0);
		for (uint64_t ms = 0; ms < 6000; ms += 100)
			md_hosts_excuse_loss(&hosts, now_ns + ms * MD_MS, now_ns + (ms + 100) * MD_MS);
		assert_false(md_hosts_expire(&hosts, now_ns + 6 * MD_S));
		assert_int_equal(hosts.n, 1);
	}
}

static void test_flooded_and_heard(void **state)
{
	(void)state;
	flooded_and_heard(false);
}

static void test_flooded_and_told(void **state)
{
	(void)state;
	flooded_and_heard(true);
}

/* Who hears all forgets who is gone, in time: also one that is a little late each time. */
static void test_heard_all(void **state)
{
	(void)state;
	assert_in_range(known_for(250 * MD_MS, 0, true), 3500 * MD_MS, 3750 * MD_MS);
}

static void test_lost_carrier(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_false(md_hosts_forget_net(&hosts, 2));
	assert_true(md_hosts_forget_net(&hosts, 1));
	assert_int_equal(host(1)->sightings.n, 0);
	/* It may be heard elsewhere until its time is over. */
	assert_false(md_hosts_expire(&hosts, 4 * MD_S));
	assert_non_null(host(1));
	assert_true(md_hosts_expire(&hosts, 5 * MD_S));
	assert_null(host(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_expiry, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_late, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_starved, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_starved_without_drops, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_flooded, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_never_drained, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_flooded_and_heard, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_flooded_and_told, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_heard_all, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_lost_carrier, table_setup, table_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
