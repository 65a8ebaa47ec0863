/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Routes to hosts beyond routers: what is looked up, and what ways follow. */
#include "hosts_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dir_build.h"
#include "fault.h"
#include "paths.h"
#include "routes.h"

static struct md_probes probes;
static struct md_routes routes;

/* The kernel's: pairs of netdev and destination. */
static struct {
	uint32_t ifindex;
	const char *to;
} table[8];
static size_t n_table, n_leads;

static int leads(void *arg, uint32_t ifindex, const union ibv_gid *from, const union ibv_gid *to)
{
	union ibv_gid own[] = {unit_gid("10.1.0.1"), unit_gid("10.2.0.1")};

	(void)arg;
	n_leads++;
	assert_true(ifindex == 1 || ifindex == 2);
	assert_true(mv_gid_equal(from, &own[ifindex - 1]));
	for (size_t i = 0; i < n_table; i++) {
		union ibv_gid there = unit_gid(table[i].to);

		if (table[i].ifindex == ifindex && mv_gid_equal(&there, to))
			return 1;
	}
	return 0;
}

static void route(uint32_t ifindex, const char *to)
{
	table[n_table].ifindex = ifindex;
	table[n_table++].to = to;
}

static int setup(void **state)
{
	memset(&probes, 0, sizeof(probes));
	routes = (struct md_routes){.leads = leads, .number = 1, .next_ns = UINT64_MAX};
	n_table = n_leads = 0;
	return hosts_setup(state);
}

/* GIDs of PEER that routes may lead to. */
enum {
	ON_0 = 2,
	ON_1,
	NEAR,
};

static void test_looked_up_once(void **state)
{
	(void)state;
	route(1, "10.3.0.1");
	route(2, "10.4.0.1");
	tell(1, 1, PEER);
	assert_true(md_routes_of(&routes, view, host(1), MD_S));
	assert_int_equal(host(1)->routes.from[ON_0], 1);
	assert_int_equal(host(1)->routes.from[ON_1], 2);
	/* What is in a network of the rail's own is no matter of routes; but out of the other rail it is asked for. */
	assert_int_equal(host(1)->routes.from[NEAR], 0);
	assert_int_equal(n_leads, 5);
	assert_false(md_routes_of(&routes, view, host(1), MD_S));
	assert_int_equal(n_leads, 5);
}

static void test_changes(void **state)
{
	(void)state;
	tell(1, 1, PEER);
	assert_false(md_routes_of(&routes, view, host(1), MD_S));
	route(1, "10.3.0.1");
	md_routes_changed(&routes, 5 * MD_S);
	md_routes_changed(&routes, 7 * MD_S);
	assert_int_equal(routes.next_ns, 5 * MD_S);
	assert_true(md_routes_again(&routes, view, &hosts, 5 * MD_S));
	assert_int_equal(host(1)->routes.from[ON_0], 1);
	assert_true(routes.next_ns == UINT64_MAX);
	/* And it is gone again. */
	n_table = 0;
	md_routes_changed(&routes, 8 * MD_S);
	assert_true(md_routes_again(&routes, view, &hosts, 8 * MD_S));
	assert_int_equal(host(1)->routes.from[ON_0], 0);
	/* Another description is looked at anew. */
	route(2, "10.4.0.1");
	tell(1, 2, "rail mlx5_1; gid 10.4.0.1/28 v2;");
	assert_null(host(1)->routes.from);
	assert_true(md_routes_of(&routes, view, host(1), MD_S));
	assert_int_equal(host(1)->routes.from[0], 2);
	md_routes_forget(&routes, &hosts);
	assert_null(host(1)->routes.from);
}

static void test_not_of_neighbours(void **state)
{
	struct peer peer = {1, 1, 1, 1000, PEER};
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	md_gidmap_claim(&map, host(1), view, &targets);
	assert_false(md_routes_of(&routes, view, host(1), MD_S));
	assert_int_equal(n_leads, 0);
}

/* Hosts of many addresses cost no more than their share, and those behind them wait for the next turn. */
static void test_bounds(void **state)
{
	char text[8192] = "rail mlx5_0;";
	uint64_t before;

	(void)state;
	for (int i = 0; i < 240; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "gid 10.5.0.%d/24 v2;", i + 1);
	tell(1, 1, text);
	tell(2, 1, text);
	tell(3, 1, PEER);
	md_routes_changed(&routes, MD_S);
	before = routes.n_looked;
	md_routes_again(&routes, view, &hosts, MD_S);
	assert_int_equal(routes.n_looked - before, 2 * 480);
	/* It was more than its share. */
	assert_int_equal(routes.next_ns, MD_S + 2 * MD_ROUTES_TURN_NS);
	assert_int_not_equal(host(3)->routes.number, routes.number);
	md_routes_again(&routes, view, &hosts, MD_S);
	assert_int_equal(host(3)->routes.number, routes.number);
	assert_true(routes.next_ns == UINT64_MAX);
}

/* 240 addresses, others for each number. */
static void tell_many(unsigned int n, uint64_t generation)
{
	char text[8192] = "rail mlx5_0;";

	for (int i = 0; i < 240; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "gid 10.%d.0.%d/24 v2;", 5 + (int)(generation % 2), i + 1);
	tell(n, generation, text);
}

/* A port that goes or comes has no route looked up again. */
static void test_same_gids(void **state)
{
	static const char up[] = "rail mlx5_0; gid 10.3.0.1/28 v2; rail mlx5_1; gid 10.4.0.1/28 v2;";
	static const char down[] = "rail mlx5_0 down; gid 10.3.0.1/28 v2; rail mlx5_1; gid 10.4.0.1/28 v2;";
	static const char other[] = "rail mlx5_0; gid 10.3.0.1/28 v1; rail mlx5_1; gid 10.4.0.1/28 v2;";
	size_t before;

	(void)state;
	route(1, "10.3.0.1");
	tell(1, 1, up);
	assert_true(md_routes_of(&routes, view, host(1), MD_S));
	before = n_leads;
	for (uint64_t generation = 2; generation < 20; generation++) {
		tell(1, generation, generation % 2 ? up : down);
		assert_false(md_routes_of(&routes, view, host(1), MD_S));
		assert_int_equal(host(1)->routes.from[0], 1);
	}
	assert_int_equal(n_leads, before);
	/* Routers do not forward RoCE v1. */
	tell(1, 20, other);
	assert_null(host(1)->routes.from);
	md_routes_of(&routes, view, host(1), MD_S);
	assert_int_equal(host(1)->routes.from[0], 0);
}

/* Hosts that answer ever other things have so much looked up at once, and no more. */
static void test_answers_are_rationed(void **state)
{
	const unsigned int n = 100;
	uint64_t now_ns = MD_S;

	(void)state;
	for (unsigned int i = 1; i <= n; i++)
		tell_many(i, 1);
	for (unsigned int i = 1; i <= n; i++)
		md_routes_of(&routes, view, host(i), now_ns);
	assert_in_range(routes.n_looked, MD_ROUTES_BURST, MD_ROUTES_BURST + 480);
	assert_int_equal(routes.next_ns, now_ns + MD_ROUTES_TURN_NS);
	/* That takes nothing away from those that this host has to do with. */
	tell(n + 1, 1, PEER);
	route(1, "10.3.0.1");
	md_routes_of(&routes, view, host(n + 1), now_ns);
	assert_null(host(n + 1)->routes.from);
	md_hosts_want(&hosts, host(n + 1), 0);
	assert_true(md_routes_of(&routes, view, host(n + 1), now_ns));
	/* The rest is looked at in turns, which are as far apart as they are long. */
	for (unsigned int turn = 0; routes.next_ns != UINT64_MAX; turn++) {
		uint64_t before = routes.n_looked;

		assert_true(turn < 2 * n);
		now_ns = routes.next_ns;
		md_routes_again(&routes, view, &hosts, now_ns);
		assert_true(routes.next_ns >= now_ns + (routes.n_looked - before) / MD_ROUTES_PER_TURN * MD_ROUTES_TURN_NS);
	}
	for (unsigned int i = 1; i <= n; i++)
		assert_int_equal(host(i)->routes.number, routes.number);
}

/* Those that are never the same keep nobody waiting. */
static void test_turns(void **state)
{
	(void)state;
	for (unsigned int i = 1; i <= 4; i++)
		tell_many(i, 1);
	tell(5, 1, PEER);
	tell(6, 1, PEER);
	md_hosts_want(&hosts, host(6), 0);
	for (uint64_t generation = 2; generation < 8; generation++) {
		md_routes_again(&routes, view, &hosts, MD_S);
		assert_int_equal(host(6)->routes.number, routes.number);
		assert_true(routes.next_ns != UINT64_MAX);
		for (unsigned int i = 1; i <= 4; i++)
			tell_many(i, generation);
	}
	assert_int_equal(host(5)->routes.number, routes.number);
}

/* Likewise hosts that one account wants: those of another one are looked at, at once and in turns. */
static void test_accounts(void **state)
{
	enum { MALLORY = 1000, VICTIM };
	const unsigned int n = 200;

	(void)state;
	for (unsigned int i = 1; i <= n + 2; i++) {
		tell_many(i, 1);
		md_hosts_want(&hosts, host(i), MALLORY);
	}
	md_hosts_want(&hosts, host(1), VICTIM);
	md_hosts_want(&hosts, host(n + 2), VICTIM);
	for (unsigned int i = 2; i <= n + 1; i++)
		md_routes_of(&routes, view, host(i), MD_S);
	assert_int_not_equal(host(n + 1)->routes.number, routes.number);
	md_routes_of(&routes, view, host(1), MD_S);
	assert_int_equal(host(1)->routes.number, routes.number);
	/* In the first turn Mallory's hosts, in the second one those of the other account, too, even if each of Mallory's needs a turn. */
	for (unsigned int turn = 0; turn < 2; turn++) {
		md_routes_again(&routes, view, &hosts, MD_S);
		for (unsigned int i = 2; i <= n + 1; i++)
			tell_many(i, 2 + turn);
	}
	assert_int_equal(host(n + 2)->routes.number, routes.number);
}

/* Two hosts of one account take just a turn. */
static void test_accounts_in_turns(void **state)
{
	(void)state;
	for (unsigned int i = 1; i <= 3; i++) {
		tell_many(i, 1);
		md_hosts_want(&hosts, host(i), i == 3 ? 1001 : 1000);
	}
	for (unsigned int turn = 0; turn < 3; turn++) {
		md_routes_again(&routes, view, &hosts, MD_S);
		tell_many(1, 2 + turn);
		tell_many(2, 2 + turn);
	}
	assert_int_equal(host(3)->routes.number, routes.number);
}

/* Messages go out of each rail that has a route, from its address. */
static void test_ways(void **state)
{
	const union ibv_gid from[] = {unit_gid("10.1.0.1"), unit_gid("10.2.0.1")}, to[] = {unit_gid("10.3.0.1"), unit_gid("10.4.0.1")};
	struct md_endpoint ends[MD_PATHS_MAX];
	size_t n;

	(void)state;
	route(1, "10.3.0.1");
	route(2, "10.4.0.1");
	tell(1, 1, "rail mlx5_0; gid 10.3.0.1/28 v2; rail mlx5_1; gid 10.4.0.1/28 v2;");
	md_routes_of(&routes, view, host(1), MD_S);
	n = md_paths_find(view, &hosts, &map, &targets, &probes, &to[0], ends, MD_PATHS_MAX);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(ends[i].ifindex, i + 1);
		assert_memory_equal(&ends[i].from, &from[i], sizeof(from[i]));
		assert_memory_equal(&ends[i].ip, &to[i], sizeof(to[i]));
	}
	view->nets[0].running = false;
	assert_int_equal(md_paths_find(view, &hosts, &map, &targets, &probes, &to[0], ends, MD_PATHS_MAX), 1);
	assert_int_equal(ends[0].ifindex, 2);
}

static void test_in_the_directory(void **state)
{
	const union ibv_gid to = unit_gid("10.4.0.1");
	const struct mv_host_id self = {{9}};
	const struct md_dir_build_from from = {.self = &self, .name = "me", .view = view, .hosts = &hosts, .map = &map,
					       .targets = &targets};
	struct md_dir_build content;

	(void)state;
	route(2, "10.4.0.1");
	tell(1, 1, PEER);
	md_routes_of(&routes, view, host(1), MD_S);
	assert_int_equal(md_dir_build_make(&from, MD_S, &content), 0);
	for (size_t g = 0; g < content.dir.n_gids; g++)
		assert_int_equal(content.gids[g].routed_from, mv_gid_equal(&content.gids[g].gid, &to) ? 2 : 0);
	md_dir_build_free(&content);
}

static void test_no_memory(void **state)
{
	(void)state;
	route(1, "10.3.0.1");
	tell(1, 1, PEER);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_false(md_routes_of(&routes, view, host(1), MD_S));
	fault_disarm();
	assert_null(host(1)->routes.from);
	assert_true(md_routes_of(&routes, view, host(1), MD_S));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_looked_up_once, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_not_of_neighbours, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_same_gids, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_answers_are_rationed, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_turns, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_accounts, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_accounts_in_turns, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_ways, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_in_the_directory, setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, setup, hosts_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
