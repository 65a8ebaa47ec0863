/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sightings: by which rails of a host its beacons arrive on which netdevs of ours, and how much room there is for them. */
#include "hosts_fixture.h"

#include <errno.h>
#include <string.h>

static void test_many_sightings(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	for (uint32_t i = 1; i <= MD_SIGHTINGS_MAX; i++)
		assert_int_equal(peers_hear(&hosts, &peer, i, 0, MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &peer, 9999, 0, MD_S, &changed), -ENOSPC);
	assert_int_equal(host(1)->sightings.n, MD_SIGHTINGS_MAX);
}

/* All rails that a beacon can name. Return: how many were taken. */
static unsigned int hear_all_rails(struct peer *peer, uint32_t ifindex, uint64_t now_ns)
{
	unsigned int changed, n = 0;

	for (uint16_t rail = 0; rail < MD_RAILS_MAX; rail++)
		n += !peers_hear(&hosts, peer, ifindex, rail, now_ns, &changed);
	return n;
}

static bool is_seen(unsigned int n, uint32_t ifindex, uint16_t rail)
{
	for (size_t i = 0; i < host(n)->sightings.n; i++)
		if (host(n)->sightings.list[i].ifindex == ifindex && host(n)->sightings.list[i].rail == rail)
			return true;
	return false;
}

/* Somebody on netdevs 2 to 6 speaks as host 1, from all rails that there may be: netdev 1 keeps its room. */
static void test_sightings_on_other_links(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	for (uint32_t ifindex = 2; ifindex < 6; ifindex++)
		assert_int_equal(hear_all_rails(&peer, ifindex, MD_S), MD_RAILS_MAX);
	assert_int_equal(host(1)->sightings.n, MD_SIGHTINGS_MAX);
	for (uint16_t rail = 0; rail < 16; rail++)
		assert_int_equal(peers_hear(&hosts, &peer, 1, rail, MD_S, &changed), 0);
	for (uint32_t i = 0; i < 50; i++)
		hear_all_rails(&peer, 2 + i % 5, MD_S + i * MD_MS);
	assert_int_equal(host(1)->sightings.n, MD_SIGHTINGS_MAX);
	for (uint16_t rail = 0; rail < 16; rail++)
		assert_true(is_seen(1, 1, rail));
	/* An equal part, not more. */
	assert_in_range(hear_all_rails(&peer, 1, 2 * MD_S), MD_SIGHTINGS_MAX / 6, MD_SIGHTINGS_MAX / 6 + 1);
}

/* The sighting that makes room is the one that was not heard for the longest. */
static void test_sighting_that_makes_room(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed, n_gone = 0;

	(void)state;
	for (uint32_t ifindex = 2; ifindex < 6; ifindex++)
		hear_all_rails(&peer, ifindex, MD_S);
	for (uint32_t ifindex = 2; ifindex < 6; ifindex++)
		for (uint16_t rail = 0; rail < MD_RAILS_MAX; rail++)
			if (rail != 40)
				assert_int_equal(peers_hear(&hosts, &peer, ifindex, rail, 2 * MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_SIGHTING);
	assert_true(is_seen(1, 1, 0));
	for (uint32_t ifindex = 2; ifindex < 6; ifindex++)
		n_gone += !is_seen(1, ifindex, 40);
	assert_int_equal(n_gone, 1);
}

/* ... and as hundreds of hosts, on netdev 2: room of other links, and of each host, stays. */
static void test_sightings_of_many_hosts(void **state)
{
	struct peer invented = {1000, 100, 1, 1000, ONE_RAIL}, peer = {1, 100, 1, 1000, ONE_RAIL};
	const unsigned int n = 300, most = 300 * MD_SIGHTINGS_OF_HOST + MD_SIGHTINGS_OF_LINK;
	struct md_hosts_share *share = &hosts.shares[md_link_share(2)];
	struct md_net_heard nets[] = {{.ifindex = 1}, {.ifindex = 2}};

	(void)state;
	for (; invented.n < 1000 + n; invented.n++)
		assert_true(hear_all_rails(&invented, 2, MD_S) >= MD_SIGHTINGS_OF_HOST);
	md_hosts_on_nets(&hosts, nets, 2);
	assert_int_equal(nets[1].n, most);
	assert_int_equal(share->n_sightings, MD_SIGHTINGS_OF_LINK);
	for (peer.n = 1; peer.n <= 10; peer.n++)
		assert_int_equal(hear_all_rails(&peer, 1, MD_S), MD_RAILS_MAX);
	md_hosts_on_nets(&hosts, nets, 2);
	assert_int_equal(nets[0].n, 10 * MD_RAILS_MAX);
	assert_int_equal(nets[1].n, most);
	/* Room of a host that he has spoken as. */
	peer.n = 1000;
	assert_int_equal(hear_all_rails(&peer, 1, MD_S), MD_RAILS_MAX);
	peer.n = 1000 + n - 1;
	assert_int_equal(hear_all_rails(&peer, 1, MD_S), MD_RAILS_MAX);
	/* Netdev 2 has a half of the room of a host that is heard there, too; what netdev 1 loses, it has room for. */
	peer.n = 1;
	assert_int_equal(hear_all_rails(&peer, 2, MD_S), MD_RAILS_MAX / 2);
	assert_int_equal(hear_all_rails(&peer, 1, MD_S), MD_RAILS_MAX);
	assert_int_equal(hear_all_rails(&peer, 1, MD_S), MD_RAILS_MAX);
	assert_int_equal(share->n_sightings, MD_SIGHTINGS_OF_LINK);
	md_hosts_forget_net(&hosts, 2);
	assert_int_equal(share->n_sightings, 0);
	assert_int_equal(hear_all_rails(&peer, 2, MD_S), MD_RAILS_MAX);
}

/* A netdev without room: its sightings take places of a netdev on which the host is heard from more rails. */
static void test_sightings_without_room(void **state)
{
	struct peer invented = {1000, 100, 1, 1000, ONE_RAIL}, peer = {1, 100, 1, 60000, ONE_RAIL};
	struct md_hosts_share *shares = hosts.shares;
	unsigned int changed;

	(void)state;
	for (; invented.n < 1300; invented.n++)
		hear_all_rails(&invented, 1, MD_S);
	assert_int_equal(shares[md_link_share(1)].n_sightings, MD_SIGHTINGS_OF_LINK);
	assert_int_equal(hear_all_rails(&peer, 2, MD_S), MD_RAILS_MAX);
	for (uint16_t rail = 0; rail < 16; rail++)
		assert_int_equal(peers_hear(&hosts, &peer, 1, rail, MD_S, &changed), 0);
	assert_int_equal(host(1)->sightings.n, MD_RAILS_MAX);
	assert_int_equal(shares[md_link_share(1)].n_sightings, MD_SIGHTINGS_OF_LINK);
	assert_int_equal(shares[md_link_share(2)].n_sightings, MD_RAILS_MAX - MD_SIGHTINGS_OF_HOST);
	md_hosts_expire(&hosts, 100 * MD_S);
	assert_int_equal(shares[md_link_share(1)].n_sightings, 0);
	assert_int_equal(shares[md_link_share(2)].n_sightings, MD_RAILS_MAX - MD_SIGHTINGS_OF_HOST);
}

/* A host that was heard in many ways has no more memory for them than for those in which it is heard. */
static void test_memory_of_former_sightings(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	hear_all_rails(&peer, 1, MD_S);
	assert_int_equal(host(1)->sightings.cap, MD_RAILS_MAX);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 5, 4 * MD_S, &changed), 0);
	md_hosts_expire(&hosts, 5 * MD_S);
	assert_int_equal(host(1)->sightings.n, 1);
	assert_int_equal(host(1)->sightings.cap, 2);
	assert_true(is_seen(1, 1, 5));
}

/* A host that does not tell a change on one of its links was down there. Then it has forgotten whom it heard there, and is greeted. */
static void test_rail_that_was_down(void **state)
{
	struct peer peer = {1, 100, 7, 1000, ONE_RAIL " rail mlx5_1; gid 10.2.0.2/24 v2;"};
	unsigned int changed;

	(void)state;
	for (uint32_t ifindex = 1; ifindex <= 2; ifindex++)
		assert_int_equal(peers_hear(&hosts, &peer, ifindex, (uint16_t)(ifindex - 1), MD_S, &changed), 0);
	/* Told on both links. */
	peer.generation = 8;
	assert_int_equal(peers_hear(&hosts, &peer, 2, 1, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, 0);
	/* The port of netdev 1 goes down and comes back. */
	peer.generation = 9;
	assert_int_equal(peers_hear(&hosts, &peer, 2, 1, 2 * MD_S, &changed), 0);
	peer.generation = 10;
	assert_int_equal(peers_hear(&hosts, &peer, 2, 1, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_BACK);
	/* Once. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, 0);
}

/* Descriptions of a host that changes very often are taken later. Its sightings know each generation all the same, so the host is not greeted. */
static void test_changes_that_are_held_back(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	for (unsigned int i = 0; i < 2 * MD_CHANGES_BURST; i++) {
		peer.generation++;
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
		assert_int_equal(changed & ~MD_CHANGED_DESC, 0);
	}
	assert_true(hosts.n_held_back > 0);
	assert_true(host(1)->generation < peer.generation);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_sightings, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_sightings_on_other_links, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_sighting_that_makes_room, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_sightings_of_many_hosts, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_sightings_without_room, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_memory_of_former_sightings, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_rail_that_was_down, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_changes_that_are_held_back, table_setup, table_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
