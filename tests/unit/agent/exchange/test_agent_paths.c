/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which ways lead to a host that describes itself anew, or in whose name others speak. */
#include "paths_fixture.h"

#include <string.h>

static void hear(uint64_t generation, const char *text, size_t n_ways)
{
	struct peer peer = {1, 1, generation, 1000, text};
	struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ends[MD_PATHS_MAX];
	unsigned int changed;

	assert_int_equal(peers_hear(&hosts, &peer, 9, 0, MD_S, &changed), 0);
	md_gidmap_claim(&map, md_hosts_find(&hosts, &id), view, &targets);
	check_ways(&gid, MD_PATHS_MAX);
	assert_int_equal(md_paths_find(view, &hosts, &map, &targets, &no_probes, &gid, ends, MD_PATHS_MAX), n_ways);
}

static void test_described_anew(void **state)
{
	(void)state;
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2;");
	view->number = 1;
	hear(1, "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.9.0.2/24 v2; gid 10.2.0.2/24 v2;", 2);
	/* Fewer GIDs, so that numbers of former ones mean nothing, or others. */
	hear(2, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1);
	hear(3, "rail mlx5_0; gid 10.9.0.2/24 v2; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2; gid 10.2.0.3/24 v2;", 3);
	hear(4, "rail mlx5_0 down; gid 10.1.0.2/24 v2;", 0);
	hear(5, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1);
}

/* Does its endpoint by our first netdev say so, when it has been heard there from its rail 0 (and from 1 by our second)? */
static bool is_said_down(uint64_t generation, const char *text)
{
	struct peer peer = {1, 1, generation, 1000, text};
	struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ends[MD_PATHS_MAX];
	unsigned int changed;
	size_t n;

	for (uint16_t i = 0; i < 2; i++)
		assert_int_equal(peers_hear(&hosts, &peer, view->nets[i].ifindex, i, MD_S, &changed), 0);
	md_gidmap_claim(&map, md_hosts_find(&hosts, &id), view, &targets);
	n = md_paths_find(view, &hosts, &map, &targets, &no_probes, &gid, ends, MD_PATHS_MAX);
	assert_in_range(n, 2, 4);
	assert_int_equal(ends[0].ifindex, view->nets[0].ifindex);
	for (size_t i = 1; i < n; i++)
		assert_false(ends[i].said_down);
	return ends[0].said_down;
}

static void test_said_down(void **state)
{
	(void)state;
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2;");
	assert_false(is_said_down(1, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;"));
	assert_true(is_said_down(2, "rail mlx5_0 down; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;"));
	/* It hears all the same. */
	assert_false(is_said_down(3, "rail mlx5_0 down drained; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;"));
	assert_false(is_said_down(4, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2;"));
}

/* Heard on netdev @ifindex from @n_rails rails. */
static void hear_rails(struct peer *peer, uint32_t ifindex, uint16_t n_rails)
{
	struct mv_host_id id = peers_id(peer->n);
	unsigned int changed;

	for (uint16_t rail = 0; rail < n_rails; rail++)
		assert_int_equal(peers_hear(&hosts, peer, ifindex, rail, MD_S, &changed), 0);
	md_gidmap_claim(&map, md_hosts_find(&hosts, &id), view, &targets);
}

/* Return: how many ways to the GID, by that netdev, are of the host; of them @ret_own: to that GID. */
static size_t n_ways_by(const union ibv_gid *gid, unsigned int n, uint32_t ifindex, size_t *ret_own)
{
	struct md_endpoint ends[MD_PATHS_MAX];
	struct mv_host_id id = peers_id(n);
	size_t n_all = md_paths_find(view, &hosts, &map, &targets, &no_probes, gid, ends, MD_PATHS_MAX), found = 0;

	*ret_own = 0;
	for (size_t i = 0; i < n_all; i++) {
		union ibv_gid to = md_paths_gid(&ends[i].ip);

		if (ends[i].ifindex != ifindex || memcmp(&ends[i].host, &id, sizeof(id)))
			continue;
		found++;
		*ret_own += mv_gid_equal(&to, gid);
	}
	return found;
}

/* Somebody on our second netdev speaks as a host on the first, at many addresses: the host is reached at its own. */
static void test_heard_on_other_links(void **state)
{
	struct peer peer = {1, 1, 1, 1000, "rail mlx5_0; gid 10.1.0.2/24 v2;"};
	union ibv_gid gid = unit_gid("10.1.0.2");
	size_t own;

	(void)state;
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2;");
	hear_rails(&peer, 2, MD_RAILS_MAX);
	assert_int_equal(n_ways_by(&gid, 1, 1, &own), 1);
	assert_int_equal(own, 1);
	hear_rails(&peer, 1, 1);
	assert_int_equal(n_ways_by(&gid, 1, 1, &own), 2);
	assert_int_equal(own, 1);
	check_ways(&gid, MD_PATHS_MAX);
}

/* ... or as several hosts with its link-local GID. */
static void test_invented_holders(void **state)
{
	struct peer peer = {1, 1, 1, 1000, "rail mlx5_0; gid fe80::77 v2;"};
	union ibv_gid gid = unit_gid("fe80::77");
	size_t own;

	(void)state;
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2;");
	for (; peer.n < MD_GID_HOSTS_MAX; peer.n++)
		hear_rails(&peer, 2, MD_RAILS_MAX);
	hear_rails(&peer, 1, 1);
	assert_int_equal(n_ways_by(&gid, peer.n, 1, &own), 1);
	check_ways(&gid, MD_PATHS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_described_anew, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_said_down, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_heard_on_other_links, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_invented_holders, paths_setup, paths_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
