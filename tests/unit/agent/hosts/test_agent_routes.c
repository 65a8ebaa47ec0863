/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Routes to hosts beyond routers: what is looked up, what ways follow, which addresses are asked. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dir_build.h"
#include "fault.h"
#include "paths.h"
#include "peers.h"
#include "routes.h"
#include "secure.h"

#define OWN "rail mlx5_0; gid fe80::1/64 v2; gid 10.1.0.1/28 v1; gid 10.1.0.1/28 v2; rail mlx5_1; gid 10.2.0.1/28 v2; gid fd02::1/64 v2;"
#define PEER "rail mlx5_0; gid fe80::2/64 v2; gid 10.3.0.1/28 v1; gid 10.3.0.1/28 v2; rail mlx5_1; gid 10.4.0.1/28 v2; gid 10.1.0.2/28 v2;"

static struct md_view *view;
static struct md_hosts hosts;
static struct md_gidmap map;
static struct md_targets targets;
static struct md_probes probes;
static struct md_routes routes;

/* The kernel's: pairs of netdev and destination. */
static struct {
	uint32_t ifindex;
	const char *to;
} table[8];
static size_t n_table, n_asked;

static int leads(void *arg, uint32_t ifindex, const union ibv_gid *from, const union ibv_gid *to)
{
	union ibv_gid own[] = {unit_gid("10.1.0.1"), unit_gid("10.2.0.1")};

	(void)arg;
	n_asked++;
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

static void on_leaving(void *arg, const struct md_host *host)
{
	(void)arg;
	md_gidmap_release(&map, &host->id, host->desc);
}

static int setup(void **state)
{
	(void)state;
	memset(&hosts, 0, sizeof(hosts));
	memset(&map, 0, sizeof(map));
	memset(&targets, 0, sizeof(targets));
	memset(&probes, 0, sizeof(probes));
	hosts.leaving = on_leaving;
	routes = (struct md_routes){.leads = leads, .number = 1, .next_ns = UINT64_MAX};
	n_table = n_asked = 0;
	view = peers_view(OWN);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_hosts_fini(&hosts);
	md_gidmap_fini(&map);
	md_targets_fini(&targets);
	md_view_free(view);
	return 0;
}

static struct md_host *host(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	return md_hosts_find(&hosts, &id);
}

static void tell(unsigned int n, uint64_t generation, const char *text)
{
	struct peer peer = {n, 1, generation, 5000, text};
	unsigned int news;

	assert_int_equal(peers_tell(&hosts, &peer, "10.3.0.1", MD_S, &news), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
	md_gidmap_settle(&map, &hosts, view, &targets);
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
	assert_int_equal(n_asked, 5);
	assert_false(md_routes_of(&routes, view, host(1), MD_S));
	assert_int_equal(n_asked, 5);
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
	unsigned int news;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	md_gidmap_claim(&map, host(1), view, &targets);
	assert_false(md_routes_of(&routes, view, host(1), MD_S));
	assert_int_equal(n_asked, 0);
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
	before = n_asked;
	for (uint64_t generation = 2; generation < 20; generation++) {
		tell(1, generation, generation % 2 ? up : down);
		assert_false(md_routes_of(&routes, view, host(1), MD_S));
		assert_int_equal(host(1)->routes.from[0], 1);
	}
	assert_int_equal(n_asked, before);
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

/* ---- addresses that are asked ---------------------------------------------------------------- */

static size_t n_queries;

static bool count(void *arg, const struct md_target *target)
{
	(void)arg;
	(void)target;
	n_queries++;
	return true;
}

static void test_learned(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), two = unit_gid("10.4.0.1"), three = unit_gid("10.5.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target;

	(void)state;
	target = md_targets_use(&targets, &one, 77, MD_S);
	assert_true(md_targets_learn(&targets, &two, target));
	assert_false(md_targets_learn(&targets, &two, target));
	assert_false(md_targets_learn(&targets, &one, target));
	/* What follows from a learned one is the first one's. */
	assert_true(md_targets_learn(&targets, &three, md_targets_find(&targets, &two)));
	assert_true(mv_gid_equal(&md_targets_find(&targets, &three)->via, &one));
	assert_int_equal(targets.users->n, 3);
	n_queries = 0;
	md_targets_tick(&targets, 2 * MD_S, count, NULL);
	assert_int_equal(n_queries, 3);
	/* We have changed: those that answer are asked at once, the others when it is their time. */
	md_target_answered(md_targets_find(&targets, &two), &id, 2 * MD_S);
	md_targets_hurry(&targets, &map, true, 3 * MD_S);
	md_targets_tick(&targets, 3 * MD_S, count, NULL);
	assert_int_equal(n_queries, 4);
	/* Nobody needs the first one any more. */
	md_targets_tick(&targets, 2 * MD_S + MD_TARGET_IDLE_NS, count, NULL);
	md_targets_tick(&targets, 3 * MD_S + MD_TARGET_IDLE_NS, count, NULL);
	assert_int_equal(targets.n, 0);
	assert_null(targets.users);
}

/* A description of eight rails, the first of which has 10.3.0.1, and the others addresses that only description @n has. */
static struct md_desc *with_addresses(unsigned int n)
{
	char text[8 * 48];
	size_t len = (size_t)snprintf(text, sizeof(text), "rail mlx5_0; gid 10.3.0.1/24 v2;");

	for (unsigned int i = 1; i < 8; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "rail mlx5_%u; gid 10.%u.%u.%u/24 v2;", i, 10 + i, n / 250, 1 + n % 250);
	return peers_desc(text);
}

/* The address of a port that is down stays, because its connections move by it; so does an address that a process asks for. */
static void test_learned_and_kept(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), other = unit_gid("10.4.0.1");
	struct md_desc *kept = peers_desc("rail mlx5_0; gid 10.3.0.1/28 v2; rail mlx5_1 down; gid 10.4.0.1/28 grace;");
	struct md_desc *gone = peers_desc("rail mlx5_0; gid 10.3.0.1/28 v2;");

	(void)state;
	md_targets_use(&targets, &one, 77, MD_S);
	assert_true(md_targets_learn(&targets, &other, md_targets_find(&targets, &one)));
	md_targets_unlearn(&targets, md_targets_find(&targets, &one), kept);
	assert_non_null(md_targets_find(&targets, &other));
	md_targets_use(&targets, &other, 77, MD_S);
	md_targets_unlearn(&targets, md_targets_find(&targets, &one), gone);
	assert_non_null(md_targets_find(&targets, &other));
	free(kept);
	free(gone);
}

/* A host that has ever other addresses takes no more than its part of the account of who asked for it. */
static void test_learned_ever_others(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), file = unit_gid("10.11.0.1");
	const struct md_target *of;

	(void)state;
	md_targets_use(&targets, &one, 77, MD_S);
	for (unsigned int n = 0; n < 1000; n++) {
		struct md_desc *desc = with_addresses(n);

		of = md_targets_find(&targets, &one);
		md_targets_unlearn(&targets, of, desc);
		for (uint32_t g = 0; g < desc->n_gids; g++)
			md_targets_learn(&targets, &desc->gids[g].gid, of);
		assert_int_equal(targets.n, 8);
		for (uint32_t g = 0; g < desc->n_gids; g++)
			assert_non_null(md_targets_find(&targets, &desc->gids[g].gid));
		free(desc);
		assert_int_equal(targets.users->n, 8);
	}
	/* Ever more addresses in one description. */
	for (unsigned int n = 0; n < 100; n++) {
		union ibv_gid gid = one;

		gid.raw[13] = 100;
		gid.raw[15] = (uint8_t)n;
		md_targets_learn(&targets, &gid, md_targets_find(&targets, &one));
	}
	assert_int_equal(targets.n, 1 + MD_LEARNED_TARGETS);
	/* An address of the hosts file stays, without account. */
	{
		struct md_desc *desc = with_addresses(0), *none = peers_desc("rail mlx5_0;");

		md_targets_unlearn(&targets, md_targets_find(&targets, &one), none);
		assert_int_equal(targets.n, 1);
		assert_true(md_targets_learn(&targets, &desc->gids[1].gid, md_targets_find(&targets, &one)));
		assert_int_equal(md_targets_add(&targets, &file, "host1"), 0);
		assert_true(mv_gid_equal(&desc->gids[1].gid, &file));
		/* The host has answered at an address that it no longer has. */
		md_targets_unlearn(&targets, md_targets_find(&targets, &file), none);
		assert_non_null(md_targets_find(&targets, &file));
		assert_true(md_targets_learn(&targets, &desc->gids[2].gid, md_targets_find(&targets, &one)));
		md_targets_unlearn(&targets, md_targets_find(&targets, &desc->gids[2].gid), none);
		assert_null(md_targets_find(&targets, &desc->gids[2].gid));
		assert_int_equal(targets.n, 2);
		free(desc);
		free(none);
	}
}

/* What others had us ask is a process's from when that needs it, if it may have one more. */
static void test_taken_over(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	struct md_target *target;

	(void)state;
	target = md_targets_use(&targets, &one, MD_TARGETS_OF_OTHERS, MD_S);
	assert_false(md_target_is_wanted(target));
	assert_ptr_equal(md_targets_use(&targets, &one, 77, MD_S), target);
	assert_true(md_target_is_wanted(target));
	assert_int_equal(targets.users->account, 77);
	assert_int_equal(HASH_COUNT(targets.users), 1);
	/* Not the other way round. */
	md_targets_use(&targets, &one, MD_TARGETS_OF_OTHERS, MD_S);
	assert_int_equal(target->payer->account, 77);
	md_targets_use(&targets, &one, 0, MD_S);
	assert_int_equal(target->payer->account, 77);
}

static unsigned int n_told;

static bool count_told(void *arg, const struct md_target *target)
{
	(void)arg;
	n_told += target->tells;
	return true;
}

/* Our description goes with each query until one is answered; also to an address that is silent, since that may be our own port's fault. */
static void test_told(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), never = unit_gid("10.3.0.2");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	uint64_t now_ns = MD_S;

	(void)state;
	md_targets_use(&targets, &never, 0, MD_S);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	md_target_answered(target, &id, now_ns);
	/* Only a route has changed. */
	md_targets_hurry(&targets, &map, false, ++now_ns);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	md_target_answered(target, &id, now_ns);
	assert_int_equal(n_told, 0);
	/* The answer to the query before comes late, in the turn of the event loop that sends the next query. */
	md_targets_hurry(&targets, &map, true, ++now_ns);
	md_target_answered(target, &id, now_ns + MD_MS);
	for (int i = 0; i <= MD_QUERY_TRIES; i++, now_ns += MD_QUERY_RETRY_NS)
		md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_not_equal(target->silent_since_ns, 0);
	assert_int_equal(n_told, MD_QUERY_TRIES + 1);
	/* The next change does not wait for the interval. */
	md_targets_hurry(&targets, &map, true, now_ns);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_equal(n_told, MD_QUERY_TRIES + 2);
	md_target_answered(target, &id, now_ns);
	now_ns += MD_QUERY_NS;
	md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_equal(n_told, MD_QUERY_TRIES + 2);
	/* By then the address may be another host's. */
	now_ns += MD_COOKIE_EPOCH_NS;
	md_targets_hurry(&targets, &map, true, now_ns);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_equal(n_told, MD_QUERY_TRIES + 2);
}

/*
 * This agent was started while a port of ours was down: one address of a host has answered, the other never. The other
 * one is asked at each change, since it may be the only one by which the host can hear of the next.
 */
static void test_never_answered(void **state)
{
	const union ibv_gid up = unit_gid("10.3.0.1"), down = unit_gid("10.4.0.1"), nobodys = unit_gid("10.9.0.1");
	const struct mv_host_id id = peers_id(1);

	(void)state;
	md_targets_add(&targets, &up, "b");
	md_targets_add(&targets, &down, "b");
	md_targets_add(&targets, &nobodys, "c");
	md_targets_tick(&targets, MD_S, count, NULL);
	tell(1, 1, PEER);
	md_target_answered(md_targets_find(&targets, &up), &id, MD_S);
	n_queries = n_told = 0;
	md_targets_hurry(&targets, &map, true, 2 * MD_S);
	md_targets_tick(&targets, 2 * MD_S, count, NULL);
	assert_int_equal(n_queries, 2);
	assert_int_equal(md_targets_find(&targets, &nobodys)->asked_ns, MD_S);
	/* Whoever is there has not shown yet that our description is for him. */
	md_targets_hurry(&targets, &map, true, 3 * MD_S);
	md_targets_tick(&targets, 3 * MD_S, count_told, NULL);
	assert_int_equal(n_told, 1);
}

static bool all_down(void *arg, const struct md_target *target)
{
	count(arg, target);
	return false;
}

/* All ports were down since this agent was started. Nobody has been asked, so everybody is when a port comes up, once. */
static void test_unsent(void **state)
{
	const union ibv_gid gid = unit_gid("10.9.0.1");

	(void)state;
	md_targets_add(&targets, &gid, "c");
	md_targets_tick(&targets, MD_S, all_down, NULL);
	n_queries = 0;
	for (uint64_t now_ns = 2 * MD_S; now_ns < 2 * MD_S + 3; now_ns++) {
		md_targets_hurry(&targets, &map, true, now_ns);
		md_targets_tick(&targets, now_ns, count, NULL);
		assert_int_equal(n_queries, 1);
	}
}

static union ibv_gid asked[4];
static size_t n_asked;

static bool note_asked(void *arg, const struct md_target *target)
{
	(void)arg;
	assert_in_range(n_asked, 0, 3);
	asked[n_asked++] = target->gid;
	return true;
}

/* MD_QUERY_RATE delays the last ones. These are addresses that have never answered, until their interval is over. */
static void test_never_answered_last(void **state)
{
	const union ibv_gid answers = unit_gid("10.3.0.1"), never = unit_gid("10.4.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target;

	(void)state;
	md_targets_add(&targets, &never, "b");
	md_targets_tick(&targets, MD_S, count, NULL);
	md_targets_add(&targets, &answers, "b");
	md_targets_tick(&targets, 2 * MD_S, count, NULL);
	tell(1, 1, PEER);
	target = md_targets_find(&targets, &answers);
	md_target_answered(target, &id, 2 * MD_S);
	n_asked = 0;
	md_targets_hurry(&targets, &map, true, 3 * MD_S);
	md_targets_tick(&targets, 3 * MD_S, note_asked, NULL);
	assert_int_equal(n_asked, 2);
	assert_true(mv_gid_equal(&asked[0], &answers));
	md_target_answered(target, &id, 3 * MD_S);
	/* The other one's interval is over, and this one has been asked since. */
	md_targets_ask_now(&targets, target, 0, 4 * MD_S + MD_QUERY_NS, count, NULL);
	md_targets_hurry(&targets, &map, true, 5 * MD_S + MD_QUERY_NS);
	md_targets_tick(&targets, 5 * MD_S + MD_QUERY_NS, note_asked, NULL);
	assert_int_equal(n_asked, 4);
	assert_true(mv_gid_equal(&asked[2], &never));
}

/* A port that goes down and up within a round trip uses up no tries. */
static void test_tries_since_change(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	uint64_t now_ns = 2 * MD_S;

	(void)state;
	md_targets_tick(&targets, MD_S, count, NULL);
	md_target_answered(target, &id, MD_S);
	n_told = 0;
	for (int i = 0; i < 2 * MD_QUERY_TRIES; i++, now_ns += MD_MS) {
		md_targets_hurry(&targets, &map, true, now_ns);
		md_targets_tick(&targets, now_ns, count_told, NULL);
	}
	for (int i = 1; i < MD_QUERY_TRIES; i++)
		md_targets_tick(&targets, now_ns += MD_QUERY_RETRY_NS, count_told, NULL);
	assert_int_equal(target->silent_since_ns, 0);
	assert_int_equal(n_told, 2 * MD_QUERY_TRIES + MD_QUERY_TRIES - 1);
	/* Silent it is when all tries after the last change are used up. */
	md_targets_tick(&targets, now_ns += MD_QUERY_RETRY_NS, count_told, NULL);
	assert_true(target->silent_since_ns == now_ns);
}

/* Two hosts that ask each other because the other asks do not do so for ever. */
static void test_hints(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	unsigned int n = 0;

	(void)state;
	assert_false(md_target_hinted(target, NULL, 1, 1));
	md_targets_tick(&targets, MD_S, count, NULL);
	md_target_answered(target, &id, MD_S);
	for (uint64_t i = 0; i < 100; i++) {
		if (!md_target_hinted(target, NULL, 1, 1))
			continue;
		md_targets_ask_hinted(&targets, target, MD_S + i * MD_MS, count, NULL);
		n++;
	}
	assert_int_equal(n, MD_HINTS);
	/* They count anew when it was asked in its turn. */
	md_target_answered(target, &id, 2 * MD_S);
	md_targets_tick(&targets, 8 * MD_S, count, NULL);
	md_target_answered(target, &id, 8 * MD_S);
	assert_true(md_target_hinted(target, NULL, 1, 1));
	/* Also if a process has it asked so often that its turn never comes. */
	for (uint64_t t = 9 * MD_S; t < 60 * MD_S; t += 4 * MD_S) {
		md_targets_ask_now(&targets, target, 0, t, count, NULL);
		md_target_answered(target, &id, t);
		assert_true(md_target_hinted(target, NULL, 1, 1));
	}
}

/* Whose description is known as it is now is not asked because it asks: of two that ask each other regularly neither uses its hints up. */
static void test_no_hint(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	struct md_desc desc = {0};
	struct md_host host = {.id = id, .start = 5, .generation = 7};

	(void)state;
	md_targets_tick(&targets, MD_S, count, NULL);
	md_target_answered(target, &id, MD_S);
	assert_true(md_target_hinted(target, &host, 5, 7)); /* nothing is known of it */
	host.desc = &desc;
	for (int i = 0; i < 100; i++)
		assert_false(md_target_hinted(target, &host, 5, 7));
	assert_true(md_target_hinted(target, &host, 5, 8));
	assert_true(md_target_hinted(target, &host, 6, 7)); /* another life of its agent */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_looked_up_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same_gids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers_are_rationed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_accounts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_accounts_in_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_of_neighbours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_the_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_learned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_learned_and_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_learned_ever_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unsent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_answered_last, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tries_since_change, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hints, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_hint, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
