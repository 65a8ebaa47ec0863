/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "paths_fixture.h"

#include <string.h>

unsigned int n_walks;
struct md_view *view;
struct md_hosts hosts;
struct md_gidmap map;
struct md_targets targets;
const struct md_probes no_probes;

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

int paths_setup(void **state)
{
	(void)state;
	memset(&hosts, 0, sizeof(hosts));
	memset(&map, 0, sizeof(map));
	memset(&targets, 0, sizeof(targets));
	hosts.leaving = on_leaving;
	return 0;
}

void forget_all(void)
{
	md_hosts_fini(&hosts);
	md_gidmap_fini(&map);
	md_targets_fini(&targets);
	md_view_free(view);
	view = NULL;
	paths_setup(NULL);
}

int paths_teardown(void **state)
{
	(void)state;
	forget_all();
	return 0;
}

void claim_all(void)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts.by_id, host, next)
	md_gidmap_claim(&map, host, view, &targets);
}

bool plain_on_link(uint32_t ifindex, const union ibv_gid *gid)
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

void check_ways(const union ibv_gid *gid, size_t max)
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
