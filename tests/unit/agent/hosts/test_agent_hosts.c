/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of hosts: what beacons and answers change of a host. The clock is ours. */
#include "hosts_fixture.h"

#include <errno.h>
#include <stdlib.h>

#include "ctl.h"

static void test_changes(void **state)
{
	struct md_net_heard nets[] = {{.ifindex = 3, .n = 7}, {.ifindex = 2}, {.ifindex = 1}};
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_HOST | MD_CHANGED_SIGHTING | MD_CHANGED_DESC | MD_CHANGED_NAME);
	assert_int_equal(host(1)->desc->n_gids, 1);
	assert_string_equal(host(1)->name, "host1");
	/* The same once more tells nothing. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, 0);
	/* Heard elsewhere. */
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_SIGHTING);
	md_hosts_on_nets(&hosts, nets, 3);
	assert_true(nets[0].n == 0 && nets[1].n == 1 && nets[2].n == 1);
	md_hosts_on_nets(&hosts, nets, 1);
	assert_true(nets[0].n == 0);
	/* Another description. */
	peer.generation = 2;
	peer.text = "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC);
	assert_int_equal(n_left, 1);
	assert_int_equal(host(1)->desc->n_gids, 2);
	/* Started again: new, though its generation is an older one's. */
	peer.start = 101;
	peer.generation = 1;
	peer.text = ONE_RAIL;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_HOST | MD_CHANGED_SIGHTING | MD_CHANGED_DESC);
	assert_int_equal(hosts.n, 1);
	/* It does not know who is there on its other links either, and has to hear that soon. */
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_SIGHTING);
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, 0);
}

static void test_down(void **state)
{
	struct peer peer = {1, 100, 1, 1000, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;"};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_false(changed & MD_CHANGED_DOWN);
	peer.generation = 2;
	peer.text = "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 down; gid 10.2.0.2/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC | MD_CHANGED_DOWN);
	/* Up again is no hurry. */
	peer.generation = 3;
	peer.text = "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;";
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC);
}

static void test_own_and_old(void **state)
{
	struct peer self = {0, 100, 1, 1000, ONE_RAIL}, peer = {1, 100, 1, 1000, ONE_RAIL};
	struct md_heard heard = {.sender = peers_id(1), .start = 99, .ifindex = 1, .proven = true};
	struct md_beacon beacon = {
		.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .desc_bytes = 4, .piece = MD_NO_PIECE};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &self, 1, 0, MD_S, &changed), -EALREADY);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), -ESTALE);
	/* Without proof anybody can say such a number: it must not shut out the true one. */
	heard.proven = false;
	heard.start = UINT64_MAX;
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(host(1)->start, 100);
}

/* The directory must not have a host whose id means that no host is known. */
static void test_zero_id(void **state)
{
	struct md_heard heard = {.start = 100, .ifindex = 1};
	struct md_beacon beacon = {
		.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .desc_bytes = 4, .piece = MD_NO_PIECE};
	unsigned int changed;

	(void)state;
	for (int i = 0; i < 4; i++) {
		heard.answer = i & 1;
		heard.proven = i & 2;
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), -EINVAL);
	}
	assert_int_equal(hosts.n, 0);
}

/* A beacon that comes after one that was sent later, by another link. */
static void test_overtaken(void **state)
{
	static uint8_t bytes[2][MD_DESC_BYTES_MAX];
	static const char *const texts[2] = {ONE_RAIL, "rail mlx5_0; gid 10.1.0.9/24 v2;"};
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1, .proven = true};
	struct md_beacon beacons[2];
	unsigned int changed;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct md_desc *desc = peers_desc(texts[i]);

		beacons[i] = (struct md_beacon){.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1 + i};
		beacons[i].desc_bytes = (uint32_t)md_desc_encode(desc, bytes[i]);
		md_beacon_cut(&beacons[i], bytes[i], 0);
		free(desc);
	}
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacons[1], MD_S, &changed), 0);
	heard.ifindex = 2;
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacons[0], MD_S, &changed), 0);
	assert_int_equal(host(1)->generation, 2);
	assert_int_equal(changed, MD_CHANGED_SIGHTING);
	/* Without proof that would let anybody shut out the true one. */
	heard.proven = false;
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacons[0], MD_S, &changed), 0);
	assert_int_equal(host(1)->generation, 1);
}

/* A sighting of which it was not known any more what it means: now that it is, the directory is to say so. */
static void test_new_numbers(void **state)
{
	struct peer both = {1, 100, 1, 1000, "rail mlx5_0; rail mlx5_1;"}, second = {1, 100, 2, 1000, "rail mlx5_1;"};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &both, 1, 0, MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &both, 2, 1, MD_S, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &second, 2, 0, MD_S, &changed), 0);
	both.generation = 3;
	assert_int_equal(peers_hear(&hosts, &both, 2, 1, MD_S, &changed), 0);
	assert_false(host(1)->sightings.list[0].has_rail);
	assert_int_equal(peers_hear(&hosts, &both, 1, 0, MD_S, &changed), 0);
	assert_true(host(1)->sightings.list[0].has_rail);
	assert_int_equal(changed, MD_CHANGED_SIGHTING | MD_CHANGED_BACK);
	assert_int_equal(peers_hear(&hosts, &both, 1, 0, MD_S, &changed), 0);
	assert_int_equal(changed, 0);
}

static void test_malformed(void **state)
{
	static const uint8_t bad[4] = {0, 1, 0, 0};
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1};
	struct md_beacon beacon = {
		.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1, .desc_bytes = 4};
	unsigned int changed;

	(void)state;
	md_beacon_cut(&beacon, bad, 0);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), -EBADMSG);
	assert_null(host(1)->desc);
}

static void test_answers(void **state)
{
	struct peer peer = {1, 100, 1, 5000, ONE_RAIL};
	struct peer liar = {1, 100, 2, 5000, "rail mlx5_0; gid 10.9.0.9/24 v2;"};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_tell(&hosts, &peer, "10.7.0.1", MD_S, &changed), 0);
	assert_true(changed & MD_CHANGED_DESC);
	assert_false(changed & MD_CHANGED_SIGHTING);
	assert_int_equal(host(1)->sightings.n, 0);
	/* Another address cannot speak for it, as long as the first one answers. */
	assert_int_equal(peers_tell(&hosts, &liar, "10.8.0.1", 2 * MD_S, &changed), 0);
	assert_int_equal(changed, 0);
	assert_false(md_hosts_expire(&hosts, 18 * MD_S));
	/* Once it is heard, no answer from afar changes anything. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 18 * MD_S, &changed), 0);
	assert_int_equal(peers_tell(&hosts, &liar, "10.7.0.1", 18 * MD_S, &changed), 0);
	assert_int_equal(changed, 0);
	assert_int_equal(host(1)->generation, 1);
	/* ... but the neighbour's own answer does. */
	assert_int_equal(md_hosts_forget_net(&hosts, 1), 1);
	assert_int_equal(peers_tell(&hosts, &liar, "10.7.0.1", 19 * MD_S, &changed), 0);
	assert_true(changed & MD_CHANGED_DESC);
}

/* A host that answers at several addresses stays known when the first one, or the link on which it is heard, fails. */
static void test_answers_at_another_address(void **state)
{
	struct peer peer = {1, 100, 1, 5000,
			    "rail mlx5_0; gid 10.1.0.2/24 v2; gid fe80::7/64 v2;"
			    "rail mlx5_1; gid 10.2.0.2/24 v2; gid 10.3.0.2/24 grace;"};
	struct peer liar = {1, 100, 2, 5000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_tell(&hosts, &peer, "10.1.0.2", MD_S, &changed), 0);
	for (unsigned int i = 1; i < 10; i++) {
		assert_int_equal(peers_tell(&hosts, &peer, "10.2.0.2", i * 5 * MD_S, &changed), 0);
		assert_false(md_hosts_expire(&hosts, i * 5 * MD_S));
		assert_non_null(host(1));
		/* The second address stands for the host 3.5 intervals after the first one has answered. */
		assert_int_equal(host(1)->told.by.s6_addr[13], i < 4 ? 1 : 2);
	}
	/* Also while beacons of the host are heard, which somebody may have forged. */
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 50 * MD_S, &changed), 0);
	assert_int_equal(peers_tell(&hosts, &peer, "10.2.0.2", 60 * MD_S, &changed), 0);
	md_hosts_expire(&hosts, 70 * MD_S);
	assert_non_null(host(1));
	assert_int_equal(host(1)->sightings.n, 0);
	/* An address that others may have, too, is not enough. */
	assert_int_equal(peers_tell(&hosts, &liar, "fe80::7", 71 * MD_S, &changed), 0);
	assert_int_equal(peers_tell(&hosts, &liar, "10.3.0.2", 71 * MD_S, &changed), 0);
	assert_int_equal(host(1)->generation, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changes, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_down, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_own_and_old, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_zero_id, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_overtaken, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_new_numbers, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_malformed, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_answers, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_answers_at_another_address, table_setup, table_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
