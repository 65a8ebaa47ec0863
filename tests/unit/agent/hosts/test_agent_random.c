/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of hosts, their GIDs and routes: whatever comes, in whatever order. The order is the same in each run. */
#include "ctl.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dir_build.h"
#include "gidmap.h"
#include "peers.h"
#include "routes.h"

#define N_STEPS 200000
#define G5	"gid 10.3.0.2/24 v2;gid 10.3.0.3/24 v2;gid 10.3.0.4/24 v2;gid 10.3.0.5/24 v2;gid 10.3.0.6/24 v2;"
#define BIG	"rail mlx5_0;" G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 /* more than fits one piece */

static const char *const texts[] = {
	"rail mlx5_0; gid 10.1.0.2/24 v2;",
	"rail mlx5_0 down; gid 10.1.0.2/24 v2;",
	"rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.3/24 v2;",
	"rail mlx5_1; gid 10.2.0.3/24 v2; gid fe80::7 v2;",
	"rail mlx5_0; gid fe80::7 v2; gid 10.1.0.1 v2; rail mlx5_1; gid 10.2.0.2 grace;",
	"rail mlx5_2; rail mlx5_3; gid 2001:db8::1/64 v2; gid 10.9.0.3 v1; gid 10.9.0.3 v2;",
	BIG,
	"",
};

#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

static uint64_t seed;
static uint8_t bytes[N_TEXTS][MD_DESC_BYTES_MAX];
static size_t lens[N_TEXTS];

static struct md_hosts hosts;
static struct md_gidmap map;
static struct md_targets targets;
static struct md_routes routes;
static struct md_view *view;
static uint64_t now_ns;

static unsigned int below(unsigned int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned int)((seed >> 11) % n);
}

static int leads(void *arg, uint32_t ifindex, const union ibv_gid *from, const union ibv_gid *to)
{
	(void)arg;
	(void)from;
	return (ifindex + to->raw[15]) % 3 == 0;
}

static void on_leaving(void *arg, const struct md_host *host)
{
	(void)arg;
	md_gidmap_release(&map, &host->id, host->desc);
}

static int setup(void **state)
{
	(void)state;
	seed = 88172645463325252ull;
	now_ns = MD_S;
	hosts.leaving = on_leaving;
	hosts.self = peers_id(0);
	routes = (struct md_routes){.leads = leads, .number = 1, .next_ns = UINT64_MAX};
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2; rail mlx5_2; gid fe80::7/64 v2;");
	view->number = 1;
	for (size_t t = 0; t < N_TEXTS; t++) {
		struct md_desc *desc = peers_desc(texts[t]);

		lens[t] = md_desc_encode(desc, bytes[t]);
		free(desc);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	peers_fini(&hosts);
	assert_null(map.by_gid); /* each host has released what it held */
	md_gidmap_fini(&map);
	md_view_free(view);
	return 0;
}

/* ---- what may come ---------------------------------------------------------------------------- */

static void hear(unsigned int n, uint64_t counter)
{
	unsigned int t = below(N_TEXTS), changed = 0;
	struct md_heard heard = {.ifindex = 1 + below(3),
				 .sender = peers_id(n),
				 .start = 1 + below(2),
				 .counter = counter,
				 .answer = below(5) == 0,
				 .near = below(2),
				 .wanted = below(20) == 0,
				 .account = below(40),
				 .proven = below(12) == 0};
	struct md_beacon beacon = {.rail = (uint16_t)below(4),
				   .agent_version = MV_CTL_VERSION,
				   .interval_ms = below(2) ? 1 : 1000,
				   .generation = 1 + below(3),
				   .desc_bytes = (uint32_t)lens[t]};
	struct md_host *host;

	heard.ip.s6_addr[15] = (uint8_t)(n + below(2));
	snprintf(beacon.name, sizeof(beacon.name), "host%u", n + (below(9) == 0));
	if (below(4))
		md_beacon_cut(&beacon, bytes[t], (uint8_t)below(md_beacon_pieces(beacon.desc_bytes)));
	else
		beacon.piece = MD_NO_PIECE;
	md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed);
	host = md_hosts_find(&hosts, &heard.sender);
	if (!host || !(changed & (MD_CHANGED_DESC | MD_CHANGED_SIGHTING)))
		return;
	md_routes_of(&routes, view, host, now_ns);
	md_gidmap_claim(&map, host, view, &targets);
}

static void state_keys(struct md_host *host, unsigned int n)
{
	static const enum md_trust_in trusts[] = {MD_TRUST_PINNED, MD_TRUST_PINNED, MD_TRUST_UNPINNED, MD_TRUST_CHANGED};
	struct md_statement said = {.host = host->id, .start = 1 + below(2), .generation = 1 + below(3)};
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	unsigned int t = below(N_TEXTS), changed;

	snprintf(said.name, sizeof(said.name), "host%u", n);
	md_statement_content(said.name, MV_CTL_VERSION, bytes[t], lens[t], said.content);
	if (below(3) == 0)
		memcpy(said.content, host->content.hash, sizeof(said.content));
	assert_int_equal(md_hosts_vouch(&hosts, host, &said, digest, trusts[below(4)], &changed), 0);
	md_gidmap_claim(&map, host, view, &targets);
}

static void change_our_side(unsigned int which)
{
	if (which == 0) {
		now_ns += below(3) * MD_S / 10;
		md_hosts_expire(&hosts, now_ns);
	} else if (which == 1) {
		md_hosts_forget_net(&hosts, 1 + below(3));
	} else if (which == 2) {
		md_gidmap_settle(&map, &hosts, view, &targets);
	} else if (which == 3) {
		md_routes_changed(&routes, now_ns);
		md_routes_again(&routes, view, &hosts, now_ns);
	} else if (which == 4) {
		md_gidmap_own(&map, view);
		md_routes_forget(&routes, &hosts);
	} else {
		view->number++;
	}
}

/* ---- what always holds ------------------------------------------------------------------------ */

static void check_hosts(void)
{
	for (const struct md_host *host = hosts.by_id; host; host = host->hh.next)
		for (size_t i = 0; i < host->sightings.n; i++)
			if (host->sightings.list[i].has_rail)
				assert_true(host->desc && host->sightings.list[i].rail < host->desc->n_rails);
	for (const struct md_holder *holder = map.by_gid; holder; holder = holder->hh.next)
		for (unsigned int i = 0; i < holder->n; i++)
			assert_non_null(md_hosts_find(&hosts, &holder->hosts[i]));
}

/* Each host is in the list where it belongs, and what accounts want adds up. */
static void check_lists(void)
{
	size_t n = 0, n_wants = 0, n_bytes = 0, all[MD_HOSTS_SHARES][2][2] = {0};

	for (unsigned int i = 0; i < 2 * MD_HOSTS_SHARES + MD_WANTERS; i++) {
		const struct md_hosts_list *list = i < 2 * MD_HOSTS_SHARES ? &hosts.shares[i / 2].of[i % 2] : &hosts.wanters[i - 2 * MD_HOSTS_SHARES].list;

		n += list->n;
		n_bytes += list->bytes;
		assert_true(list->charge >= list->bytes && list->charge >= list->n * MD_WANTED_EACH);
	}
	assert_int_equal(n, hosts.n);
	assert_int_equal(n_bytes, hosts.bytes);
	for (const struct md_host *host = hosts.by_id; host; host = host->hh.next) {
		all[host->room.share][md_host_is_vouched(host)][0]++;
		all[host->room.share][md_host_is_vouched(host)][1] += host->desc ? md_desc_bytes(host->desc) : 0;
		n_wants += (size_t)__builtin_popcount(md_host_wanters(host));
		assert_ptr_equal(host->room.in, md_host_is_wanted(host) ? &hosts.wanters[host->wanted.charged].list
									: &hosts.shares[host->room.share].of[md_host_is_vouched(host)]);
		assert_true(!md_host_is_wanted(host) || md_host_wanters(host) >> host->wanted.charged & 1);
	}
	for (unsigned int i = 0; i < 2 * MD_HOSTS_SHARES; i++) {
		assert_int_equal(hosts.shares[i / 2].all[i % 2].n, all[i / 2][i % 2][0]);
		assert_int_equal(hosts.shares[i / 2].all[i % 2].bytes, all[i / 2][i % 2][1]);
	}
	for (unsigned int w = 0; w < MD_WANTERS; w++)
		n_wants -= hosts.wanters[w].n;
	assert_int_equal(n_wants, 0);
}

static void check_directory(void)
{
	const struct md_dir_build_from from = {
		.self = &hosts.self, .name = "me", .hosts = &hosts, .map = &map, .targets = &targets, .view = view};
	struct md_dir_build content;

	assert_int_equal(md_dir_build_make(&from, now_ns, &content), 0);
	for (size_t l = 0; l < content.dir.n_links; l++)
		assert_true(content.links[l].remote_rail < content.dir.n_rails);
	for (size_t g = 0; g < content.dir.n_gids; g++)
		assert_true(content.gids[g].rail < content.dir.n_rails);
	md_dir_build_free(&content);
}

static void test_any_order(void **state)
{
	unsigned long n_described = 0, n_vouched = 0;

	(void)state;
	for (unsigned int step = 0; step < N_STEPS; step++) {
		unsigned int what = below(100), n = 1 + below(6);
		struct mv_host_id id = peers_id(n);
		struct md_host *host = md_hosts_find(&hosts, &id);

		if (what < 60 || !host)
			hear(n, step);
		else if (what < 80)
			state_keys(host, n);
		else if (what < 84)
			md_hosts_unvouch(&hosts, host);
		else
			change_our_side(below(6));
		check_hosts();
		check_lists();
		if (step % 64 == 0)
			check_directory();
		host = md_hosts_find(&hosts, &id);
		n_described += host && host->desc;
		n_vouched += host && host->desc && md_host_is_vouched(host);
	}
	/* Else the test tries nothing. */
	assert_true(n_described > N_STEPS / 10 && n_vouched > N_STEPS / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_any_order, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
