/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Paths to a host: which there are, and which of them fail by probes, by carrier, or by the host's own word. */
#include "ctl.h"

#include <string.h>

#include "heardhosts.h"
#include "peers.h"

static struct md_endpoint ends[MD_PATHS_MAX];

static size_t paths(const char *gid_text)
{
	union ibv_gid gid = unit_gid(gid_text);

	return md_paths_find(view, &hosts, &map, &targets, &probes, &gid, ends, MD_PATHS_MAX);
}

static bool has_path(size_t n, const char *ip_text, uint32_t ifindex)
{
	union ibv_gid gid = unit_gid(ip_text);

	for (size_t i = 0; i < n; i++)
		if (ends[i].ifindex == ifindex && !memcmp(&ends[i].ip, &gid, sizeof(gid)))
			return true;
	return false;
}

static void test_paths(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.2");
	size_t n;

	(void)state;
	assert_int_equal(paths("10.1.0.2"), 0);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v1; gid 10.1.0.2/24 v2; gid 10.9.0.2/24 v2;"
	     "rail mlx5_1 down; gid 10.2.0.2/24 v2;",
	     1, 0, MD_S);
	/* Where it is heard, and its address on the link of ours; once, though there are v1 and v2.
	 */
	n = paths("10.9.0.2");
	assert_int_equal(n, 2);
	assert_true(has_path(n, "fe80::1:0", 1));
	assert_true(has_path(n, "10.1.0.2", 1));
	/* The address that answers. */
	assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	md_target_answered(md_targets_find(&targets, &gid), &host(1)->id, MD_S);
	n = paths("10.1.0.2");
	assert_int_equal(n, 3);
	assert_true(has_path(n, "10.9.0.2", 0));
	/* A netdev without carrier is of no use. */
	view->nets[0].running = false;
	assert_int_equal(paths("10.1.0.2"), 1);
}

#define N_PROBED 4 /* the last one never answers */

static const struct md_probe_key *probed[N_PROBED];
static struct md_probe_wire newest[N_PROBED];
static bool lost[N_PROBED]; /* what goes there */
static bool moved[N_PROBED]; /* the address is host 2's now */
static uint64_t probes_now_ns;

static int probe(void *arg, const struct md_probe_key *path, const struct md_probe_wire *wire)
{
	(void)arg;
	for (size_t i = 0; i < N_PROBED; i++)
		if (probed[i] && !memcmp(probed[i], path, sizeof(*path)))
			newest[i] = *wire;
	return 0;
}

static unsigned int nothing_waits(void *arg, const struct md_probe_key *path)
{
	(void)arg;
	(void)path;
	return 0;
}

static bool of_host_1(void *arg, const struct md_probe_key *path, struct mv_host_id *ret)
{
	(void)arg;
	(void)path;
	*ret = peers_id(1);
	return true;
}

static bool told(void *arg, uint64_t client, const struct md_probe_key *path, enum mv_probed state)
{
	(void)arg;
	(void)client;
	(void)path;
	(void)state;
	return true;
}

static bool warned(void *arg, uint64_t client, const struct md_probe_key *path)
{
	(void)arg;
	(void)client;
	(void)path;
	return true;
}

static void probe_for(unsigned int ms)
{
	const struct mv_host_id ids[] = {peers_id(1), peers_id(2)};

	for (; ms; ms--) {
		probes_now_ns += MD_MS;
		if (probes_now_ns >= probes.next_ns)
			md_probes_tick(&probes, true, 0, probes_now_ns);
		for (size_t i = 0; i < N_PROBED; i++)
			if (newest[i].number && !lost[i])
				md_probes_echo(&probes, probed[i], &newest[i], &ids[moved[i]], probes_now_ns);
		memset(newest, 0, sizeof(newest));
		paths("10.1.0.2"); /* what is kept has to be noticed as old */
	}
}

static void watch_paths(struct md_probe_watch_list *list, const struct md_probe_key keys[N_PROBED])
{
	static const struct md_probe_ops ops = {probe, nothing_waits, of_host_1, told, warned};

	md_probes_init(&probes, &ops, NULL, 10 * MD_MS, 3, 7);
	memset(lost, 0, sizeof(lost));
	memset(moved, 0, sizeof(moved));
	lost[N_PROBED - 1] = true;
	probes_now_ns = MD_S;
	for (size_t i = 0; i < N_PROBED; i++) {
		probed[i] = &keys[i];
		assert_int_equal(md_probes_watch(&probes, &keys[i], MV_WATCH_WORK, 1, 0, list, MD_S), 0);
	}
	probe_for(30);
}

/* Of the two by the second netdev. */
static void watch_second(const struct md_probe_key keys[N_PROBED], uint8_t watch, struct md_probe_watch_list *list)
{
	for (size_t i = 1; i < 3; i++)
		assert_int_equal(md_probes_watch(&probes, &keys[i], watch, 1, 0, list, probes_now_ns), 0);
}

static void lose(size_t i, bool loses)
{
	lost[i] = loses;
	probe_for(100); /* long enough for it to be found, or to be back */
}

/* Of those to host 1. @nets: bit per ifindex. Return: likewise, those by which they are cut off. */
static uint32_t cut_nets(void)
{
	uint32_t cut = 0, heard = 0;

	for (size_t i = 0, n = paths("10.1.0.2"); i < n; i++)
		*(ends[i].cut ? &cut : &heard) |= 1u << ends[i].ifindex;
	assert_int_equal(cut & heard, 0);
	return cut;
}

static void test_probes_doubt(void **state)
{
	const struct md_probe_key keys[N_PROBED] = {
		{unit_gid("10.1.0.1"), unit_gid("10.1.0.2")},
		{unit_gid("10.2.0.1"), unit_gid("10.2.0.2")},
		{unit_gid("10.2.0.1"), unit_gid("10.2.0.3")},
		{unit_gid("10.2.0.1"), unit_gid("10.2.0.4")},
	};
	uint32_t netdevs[] = {1, 1, 1, 2}; /* of OWN */
	struct md_probe_watch_list list = {0};

	(void)state;
	free(view->gid_ifindexes);
	view->gid_ifindexes = netdevs;
	view->number = 1;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2; rail mlx5_2; gid 10.2.0.3/24 v2;", 1, 0, MD_S);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.7/24 v2;", 1, 0, MD_S);
	watch_paths(&list, keys);
	assert_int_equal(cut_nets(), 0);
	/* With the first round that speaks against it, long before it is found dead. */
	lost[0] = true;
	probe_for(20);
	assert_int_equal(md_probes_find(&probes, &keys[0])->state, MV_PROBED_UP);
	assert_int_equal(cut_nets(), 1 << 1);
	/* To that host. */
	assert_int_not_equal(paths("10.1.0.7"), 0);
	assert_false(ends[0].cut);
	probe_for(40);
	assert_int_equal(md_probes_find(&probes, &keys[0])->state, MV_PROBED_DOWN);
	assert_int_equal(cut_nets(), 1 << 1);
	lose(0, false);
	assert_int_equal(cut_nets(), 0);
	/* By that netdev another port of the host is heard. */
	lose(1, true);
	assert_int_equal(md_probes_find(&probes, &keys[1])->state, MV_PROBED_DOWN);
	assert_int_equal(cut_nets(), 0);
	assert_int_equal(md_probes_watch(&probes, &keys[2], 0, 1, 0, &list, probes_now_ns), 0);
	assert_int_equal(cut_nets(), 1 << 2);
	assert_int_equal(md_probes_watch(&probes, &keys[2], MV_WATCH_WORK, 1, 0, &list, probes_now_ns), 0);
	probe_for(20);
	assert_int_equal(cut_nets(), 0);
	/* It is another host's by now; and back. */
	moved[2] = true;
	probe_for(20);
	assert_int_equal(cut_nets(), 1 << 2);
	moved[2] = false;
	probe_for(20);
	assert_int_equal(cut_nets(), 0);
	lose(2, true);
	assert_int_equal(cut_nets(), 1 << 2);
	lose(2, false);
	assert_int_equal(cut_nets(), 0);
	lose(2, true);
	assert_int_equal(cut_nets(), 1 << 2);
	/* Where the host does not hear, or has that address no more, it is no wonder. */
	hear(1, 2, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 down; gid 10.2.0.2/24 v2; rail mlx5_2; gid 10.2.0.5/24 v2;", 1, 0, MD_S);
	assert_int_equal(cut_nets(), 0);
	hear(1, 3, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2; rail mlx5_2; gid 10.2.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(cut_nets(), 1 << 2);
	/* Dead as far as is known, but nobody works there, so it is not probed any more. */
	watch_second(keys, MV_WATCH_ALTERNATE, &list);
	assert_int_equal(md_probes_find(&probes, &keys[1])->state, MV_PROBED_DOWN);
	assert_int_equal(cut_nets(), 0);
	watch_second(keys, MV_WATCH_WORK, &list);
	assert_int_equal(cut_nets(), 1 << 2);
	/* The address is on another netdev by now. */
	netdevs[3] = 9;
	view->number++;
	assert_int_equal(cut_nets(), 0);
	netdevs[3] = 2;
	view->number++;
	assert_int_equal(cut_nets(), 1 << 2);
	/* Nobody has it watched any more. */
	md_probes_drop(&probes, &list);
	assert_int_equal(cut_nets(), 0);
	md_probes_fini(&probes);
	view->gid_ifindexes = NULL;
}

static uint32_t dead; /* bit per ifindex: without carrier */

static bool runs(void *arg, const struct md_net *net)
{
	(void)arg;
	return !(dead >> net->ifindex & 1);
}

static uint32_t router; /* by which netdev it is reached */

static uint32_t route(void *arg, const struct in6_addr *to)
{
	(void)arg;
	(void)to;
	assert_int_not_equal(dead, 0); /* else it does not matter */
	return router;
}

static const struct md_paths_ops paths_ops = {runs, route};

/* Return: by what it leaves, -1: by nothing. */
static int leaves(const char *ip_text, uint32_t ifindex)
{
	union ibv_gid gid = unit_gid(ip_text);
	struct in6_addr ip = md_paths_ip(&gid);

	return md_paths_leave(view, &paths_ops, NULL, &ip, &ifindex) ? (int)ifindex : -1;
}

static void test_leaves_by_carrier(void **state)
{
	(void)state;
	dead = 0;
	md_view_free(view);
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2; rail mlx5_2; gid 10.1.0.7/24 v2;");
	assert_int_equal(leaves("10.1.0.2", 1), 1);
	assert_int_equal(leaves("10.1.0.2", 0), 0);
	assert_int_equal(leaves("10.77.0.2", 0), 0);
	dead = 1 << 1;
	assert_int_equal(leaves("10.1.0.2", 1), -1);
	assert_int_equal(leaves("fe80::1:0", 1), -1);
	assert_int_equal(leaves("fe80::1:0", 2), 2);
	/* One that routes would send: by another netdev of that link, if there is one. */
	assert_int_equal(leaves("10.1.0.2", 0), 3);
	assert_int_equal(leaves("10.2.0.2", 0), 0);
	dead |= 1 << 3;
	assert_int_equal(leaves("10.1.0.2", 0), -1);
	/* Behind a router; and by a netdev of which we know nothing. */
	for (router = 0; router < 5; router++)
		assert_int_equal(leaves("10.77.0.2", 0), router == 1 || router == 3 ? -1 : 0);
	assert_int_equal(leaves("10.1.0.2", 9), 9);
}

static bool said_down(const char *text)
{
	union ibv_gid gid = unit_gid(text);

	return md_paths_said_down(&hosts, &map, &gid);
}

static void test_said_down(void **state)
{
	(void)state;
	assert_false(said_down("10.1.0.2"));
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v1; rail mlx5_1 down; gid 10.2.0.2/24 v2; gid fe80::7 v2;", 1, 0, MD_S);
	assert_false(said_down("10.1.0.2"));
	assert_true(said_down("10.2.0.2"));
	assert_true(said_down("fe80::7"));
	/* A drained one works; and another host's is up. */
	hear(2, 1, "rail mlx5_0 down drained; gid 10.1.0.3/24 v2; rail mlx5_1; gid fe80::7 v2;", 1, 0, MD_S);
	assert_false(said_down("10.1.0.3"));
	assert_false(said_down("fe80::7"));
	hear(1, 2, "rail mlx5_0; gid 10.1.0.2/24 v1; rail mlx5_1; gid 10.2.0.2/24 v2;", 1, 0, 2 * MD_S);
	assert_false(said_down("10.2.0.2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_probes_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves_by_carrier, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_down, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
