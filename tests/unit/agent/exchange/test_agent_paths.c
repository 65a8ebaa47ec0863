/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ways to hosts with many addresses: those that a plain search finds, in its order, at less cost. Hosts, netdevs and networks are
 * made at random out of few numbers, so that all sorts of things coincide.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "hostsint.h"
#include "paths.h"
#include "peers.h"

/* A round takes eight times as long under AddressSanitizer and thirty times as long under ThreadSanitizer, which has one thread to watch. */
#if defined(__SANITIZE_THREAD__)
#define ROUNDS 100
#elif defined(__SANITIZE_ADDRESS__)
#define ROUNDS 500
#else
#define ROUNDS 3000
#endif

static unsigned int seed, n_walks;
static struct md_view *view;
static struct md_hosts hosts;
static struct md_gidmap map;
static struct md_targets targets;
static const struct md_probes no_probes;

struct md_netset __real_md_view_on_link(const struct md_view *of, const union ibv_gid *gid);
struct md_netset __wrap_md_view_on_link(const struct md_view *of, const union ibv_gid *gid);

struct md_netset __wrap_md_view_on_link(const struct md_view *of, const union ibv_gid *gid)
{
	n_walks++;
	return __real_md_view_on_link(of, gid);
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
	hosts.leaving = on_leaving;
	return 0;
}

static void forget_all(void)
{
	md_hosts_fini(&hosts);
	md_gidmap_fini(&map);
	md_targets_fini(&targets);
	md_view_free(view);
	view = NULL;
	setup(NULL);
}

static int teardown(void **state)
{
	(void)state;
	forget_all();
	return 0;
}

/* ---- at random ------------------------------------------------------------------------------- */

static unsigned int below(unsigned int n)
{
	/* Numerical Recipes' generator: the same everywhere. */
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static union ibv_gid any_gid(void)
{
	char text[64];

	switch (below(8)) {
	case 0:
		snprintf(text, sizeof(text), "fe80::%x", 1 + below(4));
		break;
	case 1:
	case 2:
		snprintf(text, sizeof(text), "2001:db8:%x::%x", below(4), 1 + below(30));
		break;
	default:
		snprintf(text, sizeof(text), "10.%u.%u.%u", below(3), below(3), 1 + below(30));
		break;
	}
	return unit_gid(text);
}

static uint8_t any_prefix_len(const union ibv_gid *gid)
{
	static const uint8_t lengths[] = {0, 8, 16, 24, 31, 32};

	if (mv_gid_family(gid) == MV_FAMILY_IPV4)
		return (uint8_t)(96 + lengths[below(6)]);
	return (uint8_t)(below(4) * 32); /* also those that would take mapped addresses in */
}

static struct md_desc *any_desc(uint32_t n_rails, uint32_t n_gids)
{
	struct md_desc *desc = md_desc_new(n_rails, n_gids);

	assert_non_null(desc);
	for (uint32_t r = 0; r < n_rails; r++) {
		desc->rails[r].flags = below(5) ? MV_RAIL_UP : 0;
		desc->rails[r].link_layer = below(9) ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	}
	for (uint32_t g = 0; g < n_gids; g++) {
		struct mv_dir_gid *gid = &desc->gids[g];

		gid->gid = g && below(2) ? desc->gids[g - 1].gid : any_gid();
		gid->rail = below(n_rails);
		gid->vlan_id = MV_VLAN_NONE;
		gid->index = g;
		gid->type = MV_GID_TYPE_ROCE_V2;
		if (!below(6)) {
			gid->type = MV_GID_TYPE_UNKNOWN;
			gid->index = MV_DIR_INDEX_NONE;
		}
	}
	return desc;
}

static void any_view(void)
{
	unsigned int first, n_nets;

	view = calloc(1, sizeof(*view));
	assert_non_null(view);
	view->desc = any_desc(2, below(6));
	first = below(4) ? 0 : 60; /* netdevs of another sort, so that a set of them takes more than a word */
	n_nets = below(8);
	view->n_nets = first + n_nets;
	view->n_onlinks = n_nets ? below(24) : 0;
	view->onlinks = calloc(view->n_onlinks + 1, sizeof(*view->onlinks));
	assert_non_null(view->onlinks);
	for (unsigned int n = 0; n < first; n++)
		view->nets[n].ifindex = 100 + n;
	for (unsigned int n = 0; n < n_nets; n++) {
		view->nets[first + n].ifindex = 1 + n * 3 % 8;
		view->nets[first + n].running = below(5);
	}
	for (size_t i = 0; i < view->n_onlinks; i++) {
		struct md_onlink *onlink = &view->onlinks[i];
		union ibv_gid gid = any_gid();

		/* As the kernel tells of them: those of one netdev together, as a rule. */
		onlink->ifindex = i && below(3) ? onlink[-1].ifindex : view->nets[first + below(n_nets)].ifindex;
		onlink->prefix_len = any_prefix_len(&gid);
		onlink->prefix = mv_gid_network(&gid, onlink->prefix_len);
	}
}

static void any_sightings(struct md_host *host)
{
	host->sightings.n = host->sightings.cap = below(4) ? below(12) : 0;
	host->sightings.list = calloc(host->sightings.n + 1, sizeof(*host->sightings.list));
	assert_non_null(host->sightings.list);
	for (size_t i = 0; i < host->sightings.n; i++) {
		union ibv_gid gid = any_gid();

		host->sightings.list[i].ip = md_paths_ip(&gid);
		host->sightings.list[i].ifindex = 1 + below(10); /* also netdevs that are not ours any more */
	}
}

static void any_hosts(void)
{
	for (unsigned int n = 1 + below(3); n; n--) {
		struct md_host *host = calloc(1, sizeof(*host));

		assert_non_null(host);
		host->id = peers_id(n);
		host->start = 1;
		host->bundles.start = below(2);
		any_sightings(host);
		if (below(9)) {
			host->desc = any_desc(1 + below(3), below(120));
			hosts.bytes += md_desc_bytes(host->desc);
		}
		HASH_ADD(hh, hosts.by_id, id, sizeof(host->id), host);
		hosts.n++;
		md_hosts_count(&hosts, host, 0);
	}
}

static void any_targets(void)
{
	for (unsigned int n = below(6); n; n--) {
		union ibv_gid gid = any_gid();
		struct md_target *target = md_targets_use(&targets, &gid, 0, MD_S);

		if (!target)
			continue;
		target->host = peers_id(1 + below(3));
		target->answered_ns = below(2);
		target->silent_since_ns = !below(4);
		if (below(2))
			strcpy(target->name, "x");
	}
}

static void claim_all(void)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts.by_id, host, next)
	md_gidmap_claim(&map, host, view, &targets);
}

static void any_world(void)
{
	any_view();
	any_hosts();
	any_targets();
	claim_all();
}

/* ---- what is to come out --------------------------------------------------------------------- */

static bool plain_on_link(uint32_t ifindex, const union ibv_gid *gid)
{
	enum mv_gid_family family = mv_gid_family(gid);

	for (size_t i = 0; i < view->n_onlinks; i++) {
		const struct md_onlink *onlink = &view->onlinks[i];

		if (onlink->ifindex == ifindex && (family == MV_FAMILY_IPV4 || family == MV_FAMILY_IPV6) &&
		    mv_gid_family(&onlink->prefix) == family && mv_gid_in_prefix(gid, &onlink->prefix, onlink->prefix_len))
			return true;
	}
	return false;
}

struct plain {
	struct md_endpoint ends[MD_PATHS_MAX];
	size_t n, max;
};

static void plain_add(struct plain *plain, const struct md_host *host, const struct in6_addr *ip, uint32_t ifindex)
{
	if (plain->n == plain->max)
		return;
	for (size_t i = 0; i < plain->n; i++)
		if (plain->ends[i].ifindex == ifindex && IN6_ARE_ADDR_EQUAL(&plain->ends[i].ip, ip))
			return;
	plain->ends[plain->n++] =
		(struct md_endpoint){.ip = *ip, .ifindex = ifindex, .bundles = md_host_takes_bundles(host)};
}

static void plain_add_gid(struct plain *plain, const struct md_host *host, const struct mv_dir_gid *gid)
{
	const struct mv_dir_rail *rail = &host->desc->rails[gid->rail];
	struct in6_addr ip = md_paths_ip(&gid->gid);

	if (mv_dir_gid_in_grace(gid) || !(rail->flags & MV_RAIL_UP) || rail->link_layer != IBV_LINK_LAYER_ETHERNET)
		return;
	for (size_t n = 0; n < view->n_nets; n++)
		if (view->nets[n].running && plain_on_link(view->nets[n].ifindex, &gid->gid))
			plain_add(plain, host, &ip, view->nets[n].ifindex);
}

/* At how many addresses the host is heard by a netdev that works; more than @most count as @most. */
static size_t plain_heard(const struct md_host *host, uint32_t ifindex, size_t most)
{
	const struct md_net *net = md_view_net(view, ifindex);
	size_t n = 0;

	for (size_t i = 0; net && net->running && i < host->sightings.n; i++)
		n += host->sightings.list[i].ifindex == ifindex;
	return n < most ? n : most;
}

/* The most by each netdev that leave as many for what is known otherwise. */
static size_t plain_most(const struct md_host *host, size_t room)
{
	for (size_t most = host->sightings.n, sum; most > 1; most--) {
		size_t largest = 0;

		sum = 0;
		for (size_t i = 0; i < view->n_nets; i++) {
			size_t n = plain_heard(host, view->nets[i].ifindex, most);

			sum += n;
			largest = n > largest ? n : largest;
		}
		if (sum + largest <= room)
			return most;
	}
	return 1;
}

static void plain_add_host(struct plain *plain, const struct md_host *host)
{
	uint32_t n_gids = host->desc ? host->desc->n_gids : 0;
	size_t most = plain_most(host, plain->max - plain->n), n[128] = {0};

	for (size_t i = 0; i < host->sightings.n; i++) {
		const struct md_net *net = md_view_net(view, host->sightings.list[i].ifindex);
		uint32_t ifindex = host->sightings.list[i].ifindex;
		size_t before = plain->n;

		if (net && net->running && n[ifindex % 128] < most)
			plain_add(plain, host, &host->sightings.list[i].ip, ifindex);
		n[ifindex % 128] += plain->n - before;
	}
	for (uint32_t g = 0; g < n_gids; g++)
		plain_add_gid(plain, host, &host->desc->gids[g]);
	for (uint32_t g = 0; g < n_gids; g++) {
		const struct md_target *target = md_targets_find(&targets, &host->desc->gids[g].gid);
		struct in6_addr ip = md_paths_ip(&host->desc->gids[g].gid);

		if (target && target->answered_ns && !target->silent_since_ns &&
		    !memcmp(&target->host, &host->id, sizeof(host->id)))
			plain_add(plain, host, &ip, 0);
	}
}

static void check_ways(const union ibv_gid *gid, size_t max)
{
	const struct md_holder *holder = md_gidmap_find(&map, gid);
	struct plain plain = {0};
	struct md_endpoint ends[MD_PATHS_MAX];
	size_t n = md_paths_find(view, &hosts, &map, &targets, &no_probes, gid, ends, max);

	for (unsigned int h = 0; holder && h < holder->n; h++) {
		plain.max = plain.n + (max - plain.n) / (holder->n - h);
		plain_add_host(&plain, md_hosts_find(&hosts, &holder->hosts[h]));
	}
	assert_int_equal(n, plain.n);
	for (size_t i = 0; i < n; i++) {
		assert_memory_equal(&ends[i].ip, &plain.ends[i].ip, sizeof(ends[i].ip));
		assert_int_equal(ends[i].ifindex, plain.ends[i].ifindex);
		assert_int_equal(ends[i].bundles, plain.ends[i].bundles);
	}
}

/* Return: how many of them had as many ways as there is room for. */
static unsigned int check_all_ways(void)
{
	unsigned int n_full = 0;
	struct md_holder *holder, *next;

	HASH_ITER(hh, map.by_gid, holder, next)
	{
		struct md_endpoint ends[MD_PATHS_MAX];

		check_ways(&holder->gid, MD_PATHS_MAX);
		check_ways(&holder->gid, below(MD_PATHS_MAX));
		n_full += md_paths_find(view, &hosts, &map, &targets, &no_probes, &holder->gid, ends, MD_PATHS_MAX) == MD_PATHS_MAX;
	}
	return n_full;
}

static void test_ways(void **state)
{
	unsigned int n_full = 0;

	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct md_view *old;

		seed = round;
		any_world();
		view->number = below(3);
		n_full += check_all_ways();
		/* What hosts have kept is of no use now. */
		old = view;
		any_view();
		view->number = old->number + 1;
		n_full += check_all_ways();
		md_view_free(old);
		forget_all();
	}
	assert_int_not_equal(n_full, 0);
}

static enum md_evidence plain_evidence(const struct md_host *host, const union ibv_gid *gid)
{
	const struct md_target *target = md_targets_find(&targets, gid);

	if (target && target->answered_ns && !memcmp(&target->host, &host->id, sizeof(host->id)))
		return target->name[0] ? MD_EVIDENCE_FILE : MD_EVIDENCE_ON_LINK;
	if (!host->sightings.n)
		return MD_EVIDENCE_TOLD;
	for (size_t i = 0; i < host->sightings.n; i++)
		if (plain_on_link(host->sightings.list[i].ifindex, gid))
			return MD_EVIDENCE_ON_LINK;
	return MD_EVIDENCE_HEARD;
}

static void test_evidence(void **state)
{
	unsigned int n[MD_EVIDENCE_OWN + 1] = {0};

	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct md_holder *holder, *next;

		seed = round;
		any_world();
		HASH_ITER(hh, map.by_gid, holder, next)
		{
			if (mv_gid_family(&holder->gid) == MV_FAMILY_LINK_LOCAL)
				continue;
			assert_true(holder->in_grace || !md_view_has_gid(view, &holder->gid));
			assert_int_equal(holder->evidence,
					 plain_evidence(md_hosts_find(&hosts, &holder->hosts[0]), &holder->gid));
			n[holder->evidence]++;
		}
		forget_all();
	}
	assert_true(n[MD_EVIDENCE_FILE] && n[MD_EVIDENCE_TOLD] && n[MD_EVIDENCE_ON_LINK] && n[MD_EVIDENCE_HEARD]);
}

/* Each entry by itself, so that none is as the one before it. */
static void plain_claim(struct md_gidmap *plain, const struct md_host *host)
{
	struct md_host one = *host;

	for (uint32_t g = 0; host->desc && g < host->desc->n_gids; g++) {
		one.desc = &(struct md_desc){.n_rails = host->desc->n_rails,
					     .n_gids = 1,
					     .rails = host->desc->rails,
					     .gids = &host->desc->gids[g]};
		md_gidmap_claim(plain, &one, view, &targets);
	}
}

static void check_claims(struct md_gidmap *plain)
{
	struct md_holder *holder, *next;

	assert_int_equal(HASH_COUNT(map.by_gid), HASH_COUNT(plain->by_gid));
	assert_int_equal(!map.n_contested, !plain->n_contested);
	HASH_ITER(hh, map.by_gid, holder, next)
	{
		const struct md_holder *other = md_gidmap_find(plain, &holder->gid);

		assert_non_null(other);
		assert_int_equal(holder->n, other->n);
		assert_memory_equal(holder->hosts, other->hosts, holder->n * sizeof(holder->hosts[0]));
		assert_int_equal(holder->in_grace, other->in_grace);
		assert_true(holder->evidence == other->evidence);
	}
}

static void test_claims(void **state)
{
	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct md_gidmap plain = {0};
		struct md_host *host, *next;

		seed = round;
		any_world();
		HASH_ITER(hh, hosts.by_id, host, next)
		plain_claim(&plain, host);
		check_claims(&plain);
		md_gidmap_fini(&plain);
		forget_all();
	}
}

static uint32_t dead; /* bit per ifindex */

static bool runs(void *arg, const struct md_net *net)
{
	(void)arg;
	return net->ifindex >= 32 || !(dead >> net->ifindex & 1);
}

static uint32_t route(void *arg, const struct in6_addr *to)
{
	(void)arg;
	(void)to;
	return 1;
}

/* By what may it leave of those whose network it is in? -1: by none; 0: as routes say */
static int plain_leave(const union ibv_gid *gid, bool *ret_on_link)
{
	uint32_t down = 0, other = 0;

	for (size_t n = 0; n < view->n_nets; n++)
		if (plain_on_link(view->nets[n].ifindex, gid))
			*(runs(NULL, &view->nets[n]) ? &other : &down) = view->nets[n].ifindex;
	*ret_on_link = down || other;
	return down ? (other ? (int)other : -1) : 0;
}

static void test_leaves(void **state)
{
	static const struct md_paths_ops ops = {runs, route};

	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		seed = round;
		any_view();
		dead = below(256);
		for (int i = 0; i < 8; i++) {
			union ibv_gid gid = any_gid();
			struct in6_addr ip = md_paths_ip(&gid);
			uint32_t ifindex = 0;
			bool is_on_link, leaves = md_paths_leave(view, &ops, NULL, &ip, &ifindex);
			int plain = plain_leave(&gid, &is_on_link);

			if (is_on_link)
				assert_int_equal(leaves ? (int)ifindex : -1, plain);
		}
		forget_all();
	}
}

/* ---- what it costs --------------------------------------------------------------------------- */

#define N_GIDS 128

/*
 * A host of pods: 64 addresses as v1 and v2, each in a network of its own; we have 32 netdevs, on which @n_on_link of these
 * networks are
 */
static void host_of_pods(unsigned int n_on_link)
{
	struct md_host *host = calloc(1, sizeof(*host));

	view = calloc(1, sizeof(*view));
	assert_true(view && host);
	view->desc = md_desc_new(0, 0);
	view->onlinks = calloc(N_GIDS, sizeof(*view->onlinks));
	assert_non_null(view->onlinks);
	view->n_nets = 32;
	for (uint32_t n = 0; n < view->n_nets; n++)
		view->nets[n] = (struct md_net){.ifindex = n + 1, .running = true};
	host->id = peers_id(1);
	host->desc = md_desc_new(1, N_GIDS);
	host->desc->rails[0].flags = MV_RAIL_UP;
	host->desc->rails[0].link_layer = IBV_LINK_LAYER_ETHERNET;
	for (uint32_t g = 0; g < N_GIDS; g++) {
		char text[32];

		snprintf(text, sizeof(text), "10.%u.0.2", g / 2);
		host->desc->gids[g] = (struct mv_dir_gid){.gid = unit_gid(text), .index = g, .type = MV_GID_TYPE_ROCE_V2};
	}
	for (uint32_t i = 0; i < n_on_link; i++)
		view->onlinks[view->n_onlinks++] = (struct md_onlink){
			.ifindex = i % 32 + 1, .prefix = mv_gid_network(&host->desc->gids[2 * i].gid, 112), .prefix_len = 112};
	hosts.bytes += md_desc_bytes(host->desc);
	HASH_ADD(hh, hosts.by_id, id, sizeof(host->id), host);
	md_hosts_count(&hosts, host, 0);
	hosts.n++;
	claim_all();
}

static size_t find_counted(size_t max)
{
	union ibv_gid gid = unit_gid("10.0.0.2");
	struct md_endpoint ends[MD_PATHS_MAX];

	check_ways(&gid, max);
	n_walks = 0;
	return md_paths_find(view, &hosts, &map, &targets, &no_probes, &gid, ends, max);
}

/* One walk over our networks for each address, not for each entry of the GID table and netdev of ours. */
static void test_walks(void **state)
{
	(void)state;
	host_of_pods(32);
	assert_int_equal(find_counted(MD_PATHS_MAX), 32);
	assert_in_range(n_walks, 0, N_GIDS / 2);
}

/* None for the next message, until something is different. */
static void test_kept(void **state)
{
	union ibv_gid gid = unit_gid("10.0.0.2");

	(void)state;
	host_of_pods(32);
	view->number = 1;
	assert_int_equal(find_counted(MD_PATHS_MAX), 32);
	assert_int_equal(n_walks, 0);
	assert_int_equal(find_counted(16), 16);
	assert_int_equal(n_walks, 0);
	view->nets[3].running = false;
	view->number++;
	check_ways(&gid, MD_PATHS_MAX);
	assert_int_equal(find_counted(MD_PATHS_MAX), 31);
	assert_int_equal(n_walks, 0);
	/* That there are none, too. */
	view->n_onlinks = 0;
	view->number++;
	assert_int_equal(find_counted(MD_PATHS_MAX), 0);
	assert_int_equal(n_walks, 0);
}

static void hear(uint64_t generation, const char *text, size_t n_ways)
{
	struct peer peer = {1, 1, generation, 1000, text};
	struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ends[MD_PATHS_MAX];
	unsigned int news;

	assert_int_equal(peers_hear(&hosts, &peer, 9, 0, MD_S, &news), 0);
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
	unsigned int news;
	size_t n;

	for (uint16_t i = 0; i < 2; i++)
		assert_int_equal(peers_hear(&hosts, &peer, view->nets[i].ifindex, i, MD_S, &news), 0);
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
	unsigned int news;

	for (uint16_t rail = 0; rail < n_rails; rail++)
		assert_int_equal(peers_hear(&hosts, peer, ifindex, rail, MD_S, &news), 0);
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

static void test_kept_without_memory(void **state)
{
	(void)state;
	host_of_pods(32);
	view->number = 1;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		union ibv_gid gid = unit_gid("10.0.0.2");

		view->number++;
		check_ways(&gid, MD_PATHS_MAX);
		check_ways(&gid, MD_PATHS_MAX);
	});
}

static void test_walks_of_claims(void **state)
{
	(void)state;
	host_of_pods(32);
	hosts.by_id->sightings.list = calloc(1, sizeof(struct md_sighting));
	hosts.by_id->sightings.n = hosts.by_id->sightings.cap = 1;
	n_walks = 0;
	claim_all();
	assert_in_range(n_walks, 1, N_GIDS / 2);
}

/* A beacon that tells nothing new of GIDs or links costs none, whatever else it says. */
static void test_walks_of_claims_again(void **state)
{
	struct md_host *host;

	(void)state;
	host_of_pods(32);
	view->number = 1;
	host = hosts.by_id;
	host->sightings.list = calloc(2, sizeof(struct md_sighting));
	assert_non_null(host->sightings.list);
	host->sightings.n = host->sightings.cap = 2;
	host->sightings.list[0].ifindex = host->sightings.list[1].ifindex = view->nets[0].ifindex;
	claim_all();
	n_walks = 0;
	host->sightings.list[0].start = 7;
	host->sightings.list[1].rail = 7;
	claim_all();
	assert_int_equal(n_walks, 0);
	host->sightings.list[1].ifindex = view->nets[1].ifindex;
	claim_all();
	assert_int_not_equal(n_walks, 0);
	n_walks = 0;
	claim_all();
	assert_int_equal(n_walks, 0);
	view->number = 2;
	claim_all();
	assert_int_not_equal(n_walks, 0);
}

/* Each of eight rails hears each of the host's eight: all these pairs are considered, and one that is known otherwise. */
static void test_eight_rails(void **state)
{
	struct md_endpoint ends[MD_PATHS_MAX];
	union ibv_gid gid = unit_gid("10.0.0.2");
	struct md_host *host;

	(void)state;
	host_of_pods(1);
	host = hosts.by_id;
	host->sightings.list = calloc(64, sizeof(struct md_sighting));
	assert_non_null(host->sightings.list);
	host->sightings.n = host->sightings.cap = 64;
	for (uint32_t i = 0; i < 64; i++) {
		char text[32];
		union ibv_gid rail;

		snprintf(text, sizeof(text), "fe80::%x", 1 + i % 8);
		rail = unit_gid(text);
		host->sightings.list[i] = (struct md_sighting){.ip = md_paths_ip(&rail), .ifindex = 1 + i / 8};
	}
	claim_all();
	assert_int_equal(md_paths_find(view, &hosts, &map, &targets, &no_probes, &gid, ends, MD_PATHS_MAX), 65);
}

/* Nor any when there is no more room. */
static void test_walks_while_there_is_room(void **state)
{
	union ibv_gid gid = unit_gid("10.0.0.2");

	(void)state;
	host_of_pods(64);
	/* Each of the networks is on a second netdev, too. */
	for (size_t i = 0; i < 64; i++) {
		view->onlinks[64 + i] = view->onlinks[i];
		view->onlinks[64 + i].ifindex = (view->onlinks[i].ifindex + 7) % 32 + 1;
	}
	view->n_onlinks = 128;
	assert_int_equal(find_counted(MD_PATHS_MAX), MD_PATHS_MAX);
	assert_int_equal(n_walks, MD_PATHS_MAX / 2);
	/* Nor when it is heard in as many places. */
	hosts.by_id->sightings.list = calloc(32, sizeof(struct md_sighting));
	hosts.by_id->sightings.n = hosts.by_id->sightings.cap = 32;
	for (uint32_t i = 0; i < 32; i++)
		hosts.by_id->sightings.list[i] = (struct md_sighting){.ip = md_paths_ip(&gid), .ifindex = i + 1};
	assert_int_equal(find_counted(32), 32);
	assert_int_equal(n_walks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(test_evidence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaves, setup, teardown),
		cmocka_unit_test_setup_teardown(test_walks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_described_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_down, setup, teardown),
		cmocka_unit_test_setup_teardown(test_heard_on_other_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invented_holders, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_without_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_walks_of_claims, setup, teardown),
		cmocka_unit_test_setup_teardown(test_walks_of_claims_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_walks_while_there_is_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_eight_rails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
