/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "heardhosts.h"

#include <string.h>

#include "peers.h"

struct md_view *view;
struct md_hosts hosts;
struct md_gidmap map;
struct md_targets targets;
struct md_probes probes; /* none, but where it says so */

static void on_leaving(void *arg, const struct md_host *host)
{
	(void)arg;
	md_gidmap_release(&map, &host->id, host->desc);
}

int setup(void **state)
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

int teardown(void **state)
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

struct md_host *host(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	return md_hosts_find(&hosts, &id);
}

void hear(unsigned int n, uint64_t generation, const char *text, uint32_t ifindex, uint16_t rail, uint64_t now_ns)
{
	struct peer peer = {n, 1, generation, 1000, text};
	unsigned int changed;

	assert_int_equal(peers_hear(&hosts, &peer, ifindex, rail, now_ns, &changed), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
	md_gidmap_settle(&map, &hosts, view, &targets);
}

void tell(unsigned int n, const char *text, const char *address, uint64_t now_ns)
{
	struct peer peer = {n, 1, 1, 5000, text};
	unsigned int changed;

	assert_int_equal(peers_tell(&hosts, &peer, address, now_ns, &changed), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
	md_gidmap_settle(&map, &hosts, view, &targets);
}

int holder(const char *gid_text)
{
	union ibv_gid gid = unit_gid(gid_text);
	const struct md_holder *found = md_gidmap_find(&map, &gid);
	unsigned int n;

	if (!found)
		return -1;
	memcpy(&n, &found->hosts[0].bytes[8], sizeof(n));
	return (int)n;
}

struct md_dir_build_from from(void)
{
	static struct mv_host_id self;

	self = peers_id(77);
	return (struct md_dir_build_from){.self = &self,
					  .name = "me",
					  .view = view,
					  .hosts = &hosts,
					  .map = &map,
					  .targets = &targets};
}

void claim_again(bool fleet_key)
{
	struct md_host *each, *next;

	map.fleet_key = fleet_key;
	HASH_ITER(hh, hosts.by_id, each, next)
	{
		each->claimed.view = 0;
		md_gidmap_claim(&map, each, view, &targets);
	}
}
