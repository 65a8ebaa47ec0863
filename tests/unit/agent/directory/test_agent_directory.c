/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whose GID, which ways lead there, and what goes into the directory file. */
#include "ctl.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "content.h"
#include "fault.h"
#include "paths.h"
#include "peers.h"
#include "publish.h"
#include "tmpdir.h"

#define OWN                                                                                        \
	"rail mlx5_0; gid fe80::1/64 v2; gid 10.1.0.1/24 v1; gid 10.1.0.1/24 v2;"                  \
	"rail mlx5_1; gid 10.2.0.1/24 v2;"

static struct md_view *view;
static struct md_hosts hosts;
static struct md_gidmap map;
static struct md_targets targets;
static struct md_probes probes; /* none, but where it says so */

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
	hosts.leaving = on_leaving;
	memset(&probes, 0, sizeof(probes));
	view = peers_view(OWN);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_hosts_fini(&hosts);
	/* With the last host the last holder has gone. */
	assert_null(map.by_gid);
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

/* A beacon, and the claims that follow from it. */
static void hear(unsigned int n, uint64_t generation, const char *text, uint32_t ifindex,
		 uint16_t rail, uint64_t now_ns)
{
	struct peer peer = {n, 1, generation, 1000, text};
	unsigned int news;

	assert_int_equal(peers_hear(&hosts, &peer, ifindex, rail, now_ns, &news), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
	md_gidmap_settle(&map, &hosts, view, &targets);
}

static void tell(unsigned int n, const char *text, const char *address, uint64_t now_ns)
{
	struct peer peer = {n, 1, 1, 5000, text};
	unsigned int news;

	assert_int_equal(peers_tell(&hosts, &peer, address, now_ns, &news), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
	md_gidmap_settle(&map, &hosts, view, &targets);
}

static int holder(const char *gid_text)
{
	union ibv_gid gid = unit_gid(gid_text);
	const struct md_holder *found = md_gidmap_find(&map, &gid);
	unsigned int n;

	if (!found)
		return -1;
	memcpy(&n, &found->hosts[0].bytes[8], sizeof(n));
	return (int)n;
}

/* ---- whose GID ------------------------------------------------------------------------------- */

static void test_first_comes_first(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	assert_int_equal(holder("10.1.0.3"), 2);
	/* Once the first one has dropped the address, the other one has it. */
	hear(1, 2, "rail mlx5_0; gid 10.1.0.4/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	assert_int_equal(holder("10.1.0.4"), 1);
}

static void test_better_evidence(void **state)
{
	(void)state;
	/* Told from afar, heard on a link with another network, heard on its own link. */
	tell(1, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.7.0.1", MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	hear(3, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 3);
	hear(4, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 3);
	/* The best one falls silent. */
	hear(2, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, 4 * MD_S);
	assert_true(md_hosts_expire(&hosts, MD_S + 3500 * MD_MS));
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_null(host(3));
	assert_int_equal(holder("10.1.0.2"), 2);
}

/* Of a host that does not have it at present: whoever has it, with evidence as good, has it. */
static void test_kept(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	hear(1, 2, "rail mlx5_0 down; gid 10.1.0.2/24 kept;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	/* Not who keeps it, too, nor who only says so. */
	hear(3, 1, "rail mlx5_0; gid 10.1.0.2/24 kept;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	tell(4, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.7.0.1", MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	hear(2, 2, "rail mlx5_0; gid 10.1.0.3/24 v2; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	/* Nor is it taken back from who has it. */
	hear(1, 3, "rail mlx5_0 down; gid 10.1.0.2/24 kept; gid 10.1.0.4/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	assert_int_equal(holder("10.1.0.4"), 1);
	hear(2, 3, "rail mlx5_0; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
}

static void test_own_kept(void **state)
{
	uint64_t until_ns[] = {MD_S};
	struct md_view *old = view;

	(void)state;
	view = peers_view("rail mlx5_0 down; gid 10.1.0.8/24 kept;");
	view->kept_until_ns = until_ns;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.8/24 kept;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.8"), -1);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.8/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.8"), 2);
	md_gidmap_own(&map, view);
	assert_int_equal(holder("10.1.0.8"), 2);
	/* It is back. */
	view->kept_until_ns = NULL;
	md_gidmap_own(&map, view);
	assert_int_equal(holder("10.1.0.8"), -1);
	md_view_free(old);
}

static void test_own_are_ours(void **state)
{
	struct md_view *old = view;

	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.1/24 v2; gid fe80::1/64 v2; gid 10.1.0.9/24 v2;", 1, 0,
	     MD_S);
	assert_int_equal(holder("10.1.0.1"), -1);
	assert_int_equal(holder("fe80::1"), 1); /* everybody's own on every link */
	/* We get an address that somebody has, and lose one that somebody wants. */
	view = peers_view("rail mlx5_0; gid 10.1.0.9/24 v2;");
	md_gidmap_own(&map, view);
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_int_equal(holder("10.1.0.9"), -1);
	assert_int_equal(holder("10.1.0.1"), 1);
	md_view_free(old);
}

static void test_hosts_file_decides(void **state)
{
	union ibv_gid gid = unit_gid("10.1.0.2");

	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(md_targets_add(&targets, &gid, "two"), 0);
	md_target_answered(md_targets_find(&targets, &gid), &(struct mv_host_id){0}, MD_S);
	tell(2, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.1.0.2", MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	md_target_answered(md_targets_find(&targets, &gid), &host(2)->id, MD_S);
	tell(2, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.1.0.2", MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
}

static void test_link_local_are_shared(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");
	struct mv_host_id id = peers_id(3);

	(void)state;
	for (unsigned int n = 1; n <= MD_GID_HOSTS_MAX + 2; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, MD_GID_HOSTS_MAX);
	assert_true(md_gidmap_holds(&map, &id, &gid));
	md_gidmap_release(&map, &id, host(3)->desc);
	assert_false(md_gidmap_holds(&map, &id, &gid));
	assert_int_equal(md_gidmap_find(&map, &gid)->n, MD_GID_HOSTS_MAX - 1);
}

/* It says what it says with a signature from now on. */
static void vouch(unsigned int n)
{
	struct md_statement said = {.host = peers_id(n), .start = host(n)->start, .generation = host(n)->generation};
	uint8_t digest[MD_CONTENT_BYTES] = {0};
	unsigned int news;

	memcpy(said.name, host(n)->name, sizeof(said.name));
	memcpy(said.content, host(n)->content, sizeof(said.content));
	assert_int_equal(md_hosts_vouch(&hosts, host(n), &said, digest, MD_TRUST_PINNED, &news), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
}

/* Hosts that somebody makes up have no part in the link-local GID of one that signs, and keep it out no longer. */
static void test_link_local_of_one_that_signs(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");
	struct mv_host_id id = peers_id(5);
	unsigned int n;

	(void)state;
	for (n = 1; n <= MD_GID_HOSTS_MAX; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	hear(5, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_false(md_gidmap_holds(&map, &id, &gid));
	vouch(5);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 1);
	assert_true(md_gidmap_holds(&map, &id, &gid));
	hear(6, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 1);
	/* Whoever claims first. */
	md_gidmap_release(&map, &id, host(5)->desc);
	assert_null(md_gidmap_find(&map, &gid));
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 1);
	assert_true(md_gidmap_holds(&map, &id, &gid));
}

/* ---- paths ----------------------------------------------------------------------------------- */

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

/* ---- paths that probes doubt ----------------------------------------------------------------- */

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
	watch_second(keys, MV_WATCH_SPARE, &list);
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

/* ---- the file -------------------------------------------------------------------------------- */

static struct md_content_from from(void)
{
	static struct mv_host_id self;

	self = peers_id(77);
	return (struct md_content_from){.self = &self,
					.name = "me",
					.view = view,
					.hosts = &hosts,
					.map = &map,
					.targets = &targets};
}

static void test_directory(void **state)
{
	struct md_content_from what = from();
	struct md_published published = {0};
	union ibv_gid gid = unit_gid("10.66.0.1");
	struct md_content content;
	struct mv_directory dir;
	struct tmpdir tmp;
	ssize_t at;

	(void)state;
	tmpdir_make(&tmp);
	assert_int_equal(chmod(tmp.path, 0755), 0);
	published.dir_fd = open(tmp.path, O_DIRECTORY | O_RDONLY);
	assert_int_equal(md_targets_add(&targets, &gid, "silent"), 0);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     1, 0, MD_S);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     2, 1, MD_S);
	/* A netdev that is not ours (any more), and a rail that the description does not have. */
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     9, 1, MD_S);
	hear(1, 1,
	     "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.2/24 "
	     "v2;",
	     1, 5, MD_S);
	assert_false(md_publish_exists(published.dir_fd));
	assert_int_equal(md_content_make(&what, 5 * MD_S, &content), 0);
	assert_int_equal(md_publish(&published, &content.dir, 5 * MD_S), 0);
	md_content_free(&content);
	assert_true(md_publish_exists(published.dir_fd));

	assert_int_equal(mv_directory_open(tmp.path, &dir), 0);
	assert_int_equal(dir.header->n_hosts, 3);
	assert_string_equal(dir.hosts[0].name, "me");
	assert_int_equal(dir.hosts[0].n_rails, 2);
	assert_string_equal(dir.hosts[1].name, "host1");
	assert_string_equal(dir.hosts[2].name, "silent");
	assert_int_equal(dir.hosts[2].agent_version, 0);
	assert_int_equal(dir.hosts[2].n_rails, 0);
	/* Our own address is ours alone. */
	gid = unit_gid("10.1.0.1");
	at = mv_directory_find_gid(&dir, &gid, 0);
	assert_true(at >= 0);
	assert_int_equal(dir.rails[dir.gids[dir.order[at]].rail].host, 0);
	gid = unit_gid("10.2.0.2");
	at = mv_directory_find_gid(&dir, &gid, 0);
	assert_true(at >= 0);
	assert_int_equal(dir.gids[dir.order[at]].rail, 3);
	assert_string_equal(dir.rails[3].device, "mlx5_1");
	assert_int_equal(dir.header->n_links, 2);
	assert_true(mv_directory_linked(&dir, 0, 2));
	assert_true(mv_directory_linked(&dir, 1, 3));
	assert_false(mv_directory_linked(&dir, 0, 3));
	assert_true(mv_directory_alive(&dir, 6 * MD_S));
	md_publish_heartbeat(&published, 60 * MD_S);
	assert_true(mv_directory_alive(&dir, 61 * MD_S));

	/* The next file: who has the old one learns of it. */
	assert_false(mv_directory_superseded(&dir));
	assert_int_equal(md_content_make(&what, 6 * MD_S, &content), 0);
	assert_int_equal(md_publish(&published, &content.dir, 6 * MD_S), 0);
	assert_true(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	/* The agent itself lets go of it when nothing is urgent, or there is one more. */
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	assert_int_equal(md_publish(&published, &content.dir, 6 * MD_S), 0);
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	md_publish_heartbeat(&published, 6 * MD_S);
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	assert_int_equal(md_publish(&published, &content.dir, 6 * MD_S), 0);

	/* An agent that starts supersedes what its former life has left. */
	assert_int_equal(mv_directory_open(tmp.path, &dir), 0);
	assert_int_equal(dir.header->generation, 4);
	md_publish_fini(&published);
	assert_int_equal(tmpdir_mapped(&tmp), 1); /* our own */
	published = (struct md_published){.dir_fd = published.dir_fd};
	assert_int_equal(md_publish(&published, &content.dir, 7 * MD_S), 0);
	assert_true(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	md_content_free(&content);
	md_publish_fini(&published);
	close(published.dir_fd);
	tmpdir_remove(&tmp);
}

static int publish_once(struct md_published *published)
{
	struct md_content_from what = from();
	struct md_content content;
	int err = md_content_make(&what, MD_S, &content);

	if (err)
		return err;
	err = md_publish(published, &content.dir, MD_S);
	md_content_free(&content);
	return err;
}

/* What @n's host is in the directory: enum mv_dir_host_flags. */
static uint32_t flags_of(unsigned int n)
{
	struct md_content_from what = from();
	struct mv_host_id id = peers_id(n);
	struct md_content content;
	uint32_t flags = 0;
	bool found = false;

	assert_int_equal(md_content_make(&what, MD_S, &content), 0);
	for (uint32_t h = 0; h < content.dir.n_hosts; h++)
		if (!memcmp(&content.dir.hosts[h].id, &id, sizeof(id))) {
			flags = content.dir.hosts[h].flags;
			found = true;
		}
	md_content_free(&content);
	assert_true(found);
	return flags;
}

/* A host that has only answered is beyond a router, as far as this one knows; one whose beacons have come is not, also when they come no more. */
static void test_routed(void **state)
{
	struct peer peer = {1, 100, 1, 1000, "rail mlx5_0; gid 10.1.0.2/24 v2;"};
	unsigned int news;

	(void)state;
	assert_int_equal(peers_tell(&hosts, &peer, "10.9.0.2", MD_S, &news), 0);
	assert_int_equal(flags_of(1), MV_PEER_ROUTED);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &news), 0);
	assert_int_equal(flags_of(1), 0);
	md_hosts_forget_net(&hosts, 1);
	assert_int_equal(flags_of(1), 0);
}

/* Return: how many GIDs of @n's host the directory has. */
static uint32_t gids_of(unsigned int n)
{
	struct md_content_from what = from();
	struct mv_host_id id = peers_id(n);
	struct md_content content;
	uint32_t n_gids = 0;

	assert_int_equal(md_content_make(&what, MD_S, &content), 0);
	for (uint32_t g = 0; g < content.dir.n_gids; g++)
		n_gids += !memcmp(&content.dir.hosts[content.dir.rails[content.dir.gids[g].rail].host].id, &id, sizeof(id));
	md_content_free(&content);
	return n_gids;
}

/* What the directory says of this host: enum mv_dir_host_flags */
static uint32_t own_flags(void)
{
	struct md_content_from what = from();
	struct md_content content;
	uint32_t flags;

	assert_int_equal(md_content_make(&what, MD_S, &content), 0);
	flags = content.dir.hosts[0].flags;
	md_content_free(&content);
	return flags;
}

static void claim_again(bool fleet_key)
{
	struct md_host *each, *next;

	map.fleet_key = fleet_key;
	HASH_ITER(hh, hosts.by_id, each, next)
	{
		each->claimed_view = 0;
		md_gidmap_claim(&map, each, view, &targets);
	}
}

/* Whoever may open an RDMA device can speak for any host on IPoIB: without a fleet key programs are told nothing of what others have there. */
static void test_infiniband_of_others(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 ib; gid fe80::1:2 ib; gid fec0::1:2 ib;", 1, 0, MD_S);
	assert_int_equal(gids_of(1), 1);
	assert_int_equal(holder("fe80::1:2"), -1); /* nor do messages come in the name of one */
	assert_int_equal(own_flags(), MV_PEER_AUTHENTICATED);
	claim_again(true);
	assert_int_equal(gids_of(1), 3);
	assert_int_equal(own_flags(), MV_PEER_AUTHENTICATED | MV_PEER_FLEET_KEY);
}

/* Does the directory say that the GID is mv_dir_gid_is_unmet()? -1: it has no such GID. */
static int unmet(const char *gid_text)
{
	struct md_content_from what = from();
	const union ibv_gid gid = unit_gid(gid_text);
	struct md_content content;
	int ret = -1;

	assert_int_equal(md_content_make(&what, MD_S, &content), 0);
	for (uint32_t g = 0; g < content.dir.n_gids; g++)
		if (mv_gid_equal(&content.dir.gids[g].gid, &gid))
			ret = mv_dir_gid_is_unmet(&content.dir.gids[g]);
	md_content_free(&content);
	return ret;
}

#define UNMET_B "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 down; gid 10.2.0.2/24 v2; gid 10.7.0.2/24 v2;"

/* An address of a network of ours is not that of a host that was never heard there: it may be another's, which has no agent. */
static void test_unmet(void **state)
{
	(void)state;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.1.0.2"), false);
	assert_int_equal(unmet("10.2.0.2"), true);
	assert_int_equal(unmet("10.7.0.2"), false); /* beyond a router: nobody else is meant */
	claim_again(true);
	assert_int_equal(unmet("10.2.0.2"), false);
	claim_again(false);
	assert_int_equal(unmet("10.2.0.2"), true);
	assert_int_equal(unmet("10.2.0.1"), false); /* our own */
	assert_int_equal(holder("10.2.0.2"), 1);
	/* Heard there, and what it is there counts as long as the host is known. */
	hear(1, 1, UNMET_B, 2, 1, 2 * MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	md_hosts_forget_net(&hosts, 2);
	hear(1, 2, UNMET_B, 1, 0, 3 * MD_S);
	assert_int_equal(host(1)->n_sightings, 1);
	assert_int_equal(unmet("10.2.0.2"), false);
	hear(1, 3, UNMET_B "gid 10.2.0.3/24 v2;", 1, 0, 3 * MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	assert_int_equal(unmet("10.2.0.3"), false);
}

/* One that is kept has no index to say so with. */
static void test_unmet_kept(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 kept;", 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), -1);
	assert_int_equal(holder("10.2.0.2"), 1);
	claim_again(true);
	assert_int_equal(unmet("10.2.0.2"), false);
}

/* Who answers at the address has it. So does who stands with it in the hosts file, for which the agent asks there as well. */
static void test_unmet_answers(void **state)
{
	const struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.2.0.2");
	struct md_target *target;

	(void)state;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	target = md_targets_use(&targets, &gid, 0, MD_S);
	assert_non_null(target);
	host(1)->claimed_view = 0;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), true);
	assert_true(md_target_answered(target, &id, MD_S));
	host(1)->claimed_view = 0; /* as who takes the answer does */
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
}

/* The same where routers lead: there a host has to have answered. */
static void test_unanswered(void **state)
{
	const struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.7.0.2");
	struct md_target *target;

	(void)state;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_true(md_gidmap_find(&map, &gid)->doubts == MV_DIR_INDEX_UNANSWERED);
	target = md_targets_use(&targets, &gid, 0, MD_S);
	assert_non_null(target);
	assert_true(md_target_answered(target, &id, MD_S));
	claim_again(false);
	assert_int_equal(md_gidmap_find(&map, &gid)->doubts, 0);
	assert_int_equal(holder("10.1.0.2"), 1);
	gid = unit_gid("10.1.0.2");
	assert_int_equal(md_gidmap_find(&map, &gid)->doubts, 0);
}

/* Where our own port is down nothing of ours goes out there. When it is up again, all that was said before is looked at anew. */
static void test_unmet_when_ours_is_up(void **state)
{
	struct mv_dir_rail *rail = &view->desc->rails[1];

	(void)state;
	rail->flags = 0;
	view->nets[1].running = false;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	rail->flags = MV_RAIL_UP;
	view->nets[1].running = true;
	view->number++;
	md_gidmap_own(&map, view);
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_int_equal(unmet("10.2.0.2"), true);
}

/* Two ports of ours are in one network, and only the one that carries counts: who was heard on the other is not there. */
static void test_unmet_where_it_carries(void **state)
{
	(void)state;
	md_view_free(view);
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2; rail mlx5_2; gid 10.2.0.7/24 v2;");
	hear(1, 1, UNMET_B, 3, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	view->nets[2].running = false;
	claim_again(false);
	assert_int_equal(unmet("10.2.0.2"), true);
}

/* Who signs may have invented himself, and said first what another host has: heard on the GID's link, that host takes it, and keeps it. */
static void test_thief(void **state)
{
	(void)state;
	hear(6, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	vouch(6);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 6);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 6); /* anybody could say that there */
	vouch(1);
	assert_int_equal(holder("10.1.0.2"), 1);
	/* Also where its port is down, and it is heard elsewhere only; and to others on that link. */
	md_hosts_forget_net(&hosts, 1);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	hear(6, 2, "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
}

/* What a host that is vouched for only keeps is not everybody's who is heard anywhere. */
static void test_thief_of_what_is_kept(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.8.0.2/24 kept; gid 10.1.0.2/24 kept;", 2, 0, MD_S);
	vouch(1);
	hear(7, 1, "rail mlx5_0; gid 10.8.0.2/24 v2; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	assert_int_equal(holder("10.8.0.2"), 1);
	assert_int_equal(holder("10.1.0.2"), 1);
	hear(7, 1, "rail mlx5_0; gid 10.8.0.2/24 v2; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.8.0.2"), 1);
	assert_int_equal(holder("10.1.0.2"), 1);
	vouch(7);
	assert_int_equal(holder("10.8.0.2"), 1);
	assert_int_equal(holder("10.1.0.2"), 7); /* heard where it belongs */
}

/* A host that has answered at an address beyond a router has it, whoever is heard to say so. */
static void test_answered_is_no_hearsay(void **state)
{
	const struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.9.0.2");
	struct md_target *target = md_targets_use(&targets, &gid, 0, MD_S);

	(void)state;
	assert_non_null(target);
	assert_true(md_target_answered(target, &id, MD_S));
	tell(1, "rail mlx5_0; gid 10.9.0.2/24 v2;", "10.9.0.2", MD_S);
	hear(6, 1, "rail mlx5_0; gid 10.9.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.9.0.2"), 1);
}

/* A link that is lost is told of at once: all claims are looked at again when there is one more. */
static void test_ground(void **state)
{
	(void)state;
	md_gidmap_own(&map, view);
	assert_true(map.other_ground);
	map.other_ground = false;
	md_gidmap_own(&map, view);
	assert_false(map.other_ground);
	view->nets[1].running = false;
	md_gidmap_own(&map, view);
	assert_false(map.other_ground);
	view->nets[1].running = true;
	md_gidmap_own(&map, view);
	assert_true(map.other_ground);
	map.other_ground = false;
	view->onlinks[1].prefix_len++;
	md_gidmap_own(&map, view);
	assert_true(map.other_ground);
}

/* Whatever has failed: there is a good file under the name, and no other. */
static void check_files(const struct tmpdir *tmp)
{
	struct mv_directory dir;

	assert_int_equal(mv_directory_open(tmp->path, &dir), 0);
	assert_false(mv_directory_superseded(&dir));
	mv_directory_close(&dir);
	assert_int_equal(access(tmpdir_at(tmp, "directory.new"), F_OK), -1);
}

static void test_publish_faults(void **state)
{
	static const struct {
		enum fault_call call;
		int err;
	} faults[] = {{FAULT_ALLOC, ENOMEM},
		      {FAULT_OPEN, EMFILE},
		      {FAULT_WRITE, ENOSPC},
		      {FAULT_MMAP, ENOMEM}};
	struct md_published published = {0};
	struct tmpdir tmp;

	(void)state;
	tmpdir_make(&tmp);
	assert_int_equal(chmod(tmp.path, 0755), 0);
	published.dir_fd = open(tmp.path, O_DIRECTORY | O_RDONLY);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(publish_once(&published), 0);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		bool fired = true;

		for (unsigned int nth = 1; fired; nth++) {
			unsigned int fds = fault_open_fds();
			int err;

			fault_arm(faults[i].call, nth, faults[i].err);
			err = publish_once(&published);
			fired = fault_fired();
			fault_disarm();
			assert_int_equal(err, fired ? -faults[i].err : 0);
			assert_int_equal(fault_open_fds(), fds);
			check_files(&tmp);
		}
	}
	md_publish_fini(&published);
	close(published.dir_fd);
	tmpdir_remove(&tmp);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* A sign of life of host 1, without description. */
static void sign_of_life(uint64_t start, uint64_t generation, uint32_t ifindex, uint16_t rail)
{
	struct md_heard heard = {.sender = peers_id(1), .start = start, .ifindex = ifindex};
	struct md_beacon beacon = {.rail = rail,
				   .agent_version = MV_CTL_VERSION,
				   .interval_ms = 1000,
				   .generation = generation,
				   .desc_bytes = 4,
				   .piece = MD_NO_PIECE};
	unsigned int news;

	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &news), 0);
}

/* "0-mlx5_1 1-mlx5_2": which devices of host 1 the rails of ours are linked with. */
static const char *links(void)
{
	struct md_content_from what = from();
	struct md_content content;
	static char text[256];
	size_t len = 0;

	text[0] = '\0';
	assert_int_equal(md_content_make(&what, MD_S, &content), 0);
	for (uint32_t local = 0; local < 2; local++)
		for (uint32_t remote = 2; remote < content.dir.n_rails; remote++)
			for (size_t i = 0; i < content.dir.n_links; i++)
				if (content.links[i].local_rail == local && content.links[i].remote_rail == remote)
					len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u-%s", len ? " " : "",
								local, content.rails[remote].device);
	md_content_free(&content);
	return text;
}

#define RAIL_0 "rail mlx5_0; gid 10.3.0.2/24 v2;"
#define RAIL_1 "rail mlx5_1; gid 10.1.0.2/24 v2;"
#define RAIL_2 "rail mlx5_2; gid 10.2.0.2/24 v2;"

static void hear_both(void)
{
	hear(1, 1, RAIL_1 RAIL_2, 1, 0, MD_S);
	hear(1, 1, RAIL_1 RAIL_2, 2, 1, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* A device that has come has numbers before those of the others; then it goes again. */
static void test_links_of_new_numbers(void **state)
{
	(void)state;
	hear_both();
	hear(1, 2, RAIL_0 RAIL_1 RAIL_2, 1, 1, MD_S);
	assert_string_equal(links(), "0-mlx5_1");
	hear(1, 2, RAIL_0 RAIL_1 RAIL_2, 2, 2, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 2, 1, MD_S);
	assert_string_equal(links(), "1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* One that has gone and comes back: `devlink dev reload`. */
static void test_links_of_reloaded(void **state)
{
	(void)state;
	hear_both();
	hear(1, 2, RAIL_2, 2, 0, MD_S);
	assert_string_equal(links(), "1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 2, 1, MD_S);
	assert_string_equal(links(), "1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* What changes no numbers costs no link, not for a moment: also where beacons are ahead of the description, or behind it. */
static void test_links_stay(void **state)
{
	(void)state;
	hear_both();
	hear(1, 2, RAIL_1 "gid 10.1.0.3/24 v2;" RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	sign_of_life(1, 4, 1, 0);
	sign_of_life(1, 3, 2, 1);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	hear(1, 4, RAIL_1 RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	sign_of_life(1, 1, 2, 1);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* Beacons that count already as a description does that is not there yet. */
static void test_links_ahead_of_description(void **state)
{
	(void)state;
	hear_both();
	sign_of_life(1, 2, 1, 1);
	sign_of_life(1, 2, 2, 2);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	tell(1, RAIL_1 RAIL_2, "10.7.0.1", MD_S); /* overruled */
	hear(1, 2, RAIL_0 RAIL_1 RAIL_2, 1, 1, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	/* One that counts as the former did comes late. */
	sign_of_life(1, 1, 2, 1);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	sign_of_life(1, 1, 1, 0);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* Generations begin anew with each start. */
static void test_links_of_new_start(void **state)
{
	struct peer peer = {1, 2, 1, 1000, RAIL_0 RAIL_1 RAIL_2};
	unsigned int news;

	(void)state;
	hear_both();
	assert_int_equal(peers_hear(&hosts, &peer, 1, 1, MD_S, &news), 0);
	assert_string_equal(links(), "0-mlx5_1");
	assert_int_equal(peers_hear(&hosts, &peer, 2, 2, MD_S, &news), 0);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	/* Again, and no number is another one now. */
	peer.start = 3;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 1, MD_S, &news), 0);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_comes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_better_evidence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_are_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hosts_file_decides, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_are_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_of_one_that_signs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_probes_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves_by_carrier, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_down, setup, teardown),
		cmocka_unit_test_setup_teardown(test_routed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_infiniband_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unanswered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_when_ours_is_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_where_it_carries, setup, teardown),
		cmocka_unit_test_setup_teardown(test_thief, setup, teardown),
		cmocka_unit_test_setup_teardown(test_thief_of_what_is_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answered_is_no_hearsay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ground, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_publish_faults, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_of_new_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_of_reloaded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_ahead_of_description, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_of_new_start, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
