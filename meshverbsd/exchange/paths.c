/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "paths.h"

#include "routes.h"

#include <stdlib.h>
#include <string.h>

struct in6_addr md_paths_ip(const union ibv_gid *gid)
{
	struct in6_addr ip;

	memcpy(&ip, gid->raw, sizeof(ip));
	return ip;
}

union ibv_gid md_paths_gid(const struct in6_addr *ip)
{
	union ibv_gid gid;

	memcpy(gid.raw, ip, sizeof(gid.raw));
	return gid;
}

struct list {
	struct md_endpoint *ends;
	size_t n, max;
};

/* A drained rail still receives. */
static bool rail_hears(const struct mv_dir_rail *rail)
{
	return rail->flags & (MV_RAIL_UP | MV_RAIL_DRAINED);
}

static bool is_cut(const struct md_host_cut *cut, uint32_t ifindex)
{
	for (size_t i = 0; i < cut->n; i++)
		if (cut->nets[i] == ifindex)
			return true;
	return false;
}

/* Return: the new entry; NULL: the pair is in the list already, or the list is full. */
static struct md_endpoint *add(struct list *list, const struct md_host *host, const struct in6_addr *ip, uint32_t ifindex, bool said_down)
{
	if (list->n == list->max)
		return NULL;
	for (size_t i = 0; i < list->n; i++)
		if (list->ends[i].ifindex == ifindex && IN6_ARE_ADDR_EQUAL(&list->ends[i].ip, ip))
			return NULL;
	list->ends[list->n] = (struct md_endpoint){.ip = *ip,
						   .ifindex = ifindex,
						   .host = host->id,
						   .bundles = md_host_takes_bundles(host),
						   .said_down = said_down,
						   .cut = is_cut(&host->cut, ifindex)};
	return &list->ends[list->n++];
}

/*
 * Somebody on a link can be heard as the host at any number of addresses. So no netdev may use up the list, nor may all
 * netdevs keep out addresses that are known otherwise. Return: how many heard addresses of each netdev fit.
 */
static size_t heard_by_one(const struct md_view *view, const struct md_host *host, size_t room)
{
	size_t n[MD_NETS_MAX] = {0}, most = 1, sum;

	if (2 * host->sightings.n <= room)
		return room;
	for (size_t i = 0; i < host->sightings.n; i++) {
		const struct md_net *net = md_view_net(view, host->sightings.list[i].ifindex);

		if (net && net->running && ++n[net - view->nets] > most)
			most = n[net - view->nets];
	}
	for (; most > 1; most--) {
		sum = most;
		for (size_t i = 0; i < view->n_nets; i++)
			sum += n[i] < most ? n[i] : most;
		if (sum <= room)
			break;
	}
	return most;
}

static void add_heard(struct list *list, const struct md_view *view, const struct md_host *host)
{
	size_t n[MD_NETS_MAX] = {0}, most = heard_by_one(view, host, list->max - list->n);

	for (size_t i = 0; i < host->sightings.n && list->n < list->max; i++) {
		const struct md_sighting *sighting = &host->sightings.list[i];
		const struct md_net *net = md_view_net(view, sighting->ifindex);
		bool said_down = sighting->has_rail && host->desc && !rail_hears(&host->desc->rails[sighting->rail]);

		if (net && net->running && n[net - view->nets] < most)
			n[net - view->nets] += add(list, host, &sighting->ip, sighting->ifindex, said_down) != NULL;
	}
}

static bool is_known(const struct md_desc *desc, const struct md_near *near, size_t n, uint32_t g, uint32_t ifindex)
{
	for (size_t i = 0; i < n; i++)
		if (near[i].ifindex == ifindex && mv_gid_equal(&desc->gids[near[i].gid].gid, &desc->gids[g].gid))
			return true;
	return false;
}

/* Each pair once. Return: number of pairs. */
static size_t find_near(const struct md_view *view, const struct md_desc *desc, struct md_near ret[static MD_PATHS_MAX])
{
	const struct mv_dir_gid *last = NULL;
	size_t n_ret = 0;

	for (uint32_t g = 0; g < desc->n_gids && n_ret < MD_PATHS_MAX; g++) {
		const struct mv_dir_gid *gid = &desc->gids[g];
		const struct mv_dir_rail *rail = &desc->rails[gid->rail];
		struct md_netset on_link;

		/* A GID in grace is no address of the host now. */
		if (mv_dir_gid_in_grace(gid) || !(rail->flags & MV_RAIL_UP) || rail->link_layer != IBV_LINK_LAYER_ETHERNET)
			continue;
		/* The entry before is the same GID, as RoCE v1 and RoCE v2. */
		if (last && mv_gid_equal(&last->gid, &gid->gid))
			continue;
		last = gid;
		on_link = md_view_on_link(view, &gid->gid);
		for (size_t n = 0; n < view->n_nets && n_ret < MD_PATHS_MAX; n++) {
			const struct md_net *net = &view->nets[n];

			if (net->running && md_netset_has(&on_link, n) && !is_known(desc, ret, n_ret, g, net->ifindex))
				ret[n_ret++] = (struct md_near){.gid = g, .ifindex = net->ifindex};
		}
	}
	return n_ret;
}

/* Out of memory: the next call searches again. */
static void keep_near(struct md_host_near *near, uint64_t view_number, const struct md_near *pairs, size_t n)
{
	struct md_near *copy = n ? malloc(n * sizeof(*copy)) : NULL;

	free(near->pairs);
	near->pairs = copy;
	near->n = n;
	near->view = n && !copy ? 0 : view_number;
	if (copy)
		memcpy(copy, pairs, n * sizeof(*copy));
}

/*
 * The pairs are cached: thousands of messages are sent when queue pairs move, and a host may have hundreds of
 * addresses, and we hundreds of networks.
 */
static void add_on_link(struct list *list, const struct md_view *view, struct md_host *host)
{
	struct md_near found[MD_PATHS_MAX];
	const struct md_near *near = host->near.pairs;
	size_t n = host->near.n;

	if (!host->desc || list->n == list->max)
		return;
	if (!view->number || host->near.view != view->number) {
		n = find_near(view, host->desc, found);
		near = found;
		if (view->number)
			keep_near(&host->near, view->number, found, n);
	}
	for (size_t i = 0; i < n; i++) {
		struct in6_addr ip = md_paths_ip(&host->desc->gids[near[i].gid].gid);

		add(list, host, &ip, near[i].ifindex, false);
	}
}

/* One pair for each of our rails from which a route leads to the GID. */
static void add_by_routes(struct list *list, const struct md_view *view, const struct md_host *host, uint32_t g)
{
	const union ibv_gid *gid = &host->desc->gids[g].gid, *source;
	const struct in6_addr ip = md_paths_ip(gid);
	struct md_endpoint *end;

	for (uint32_t r = 0; r < view->desc->n_rails && r < MV_DIR_ROUTED_RAILS && list->n < list->max; r++) {
		bool leads = host->routes.from[g] >> r & 1;
		const struct md_net *net = leads ? md_view_net(view, view->rail_ifindexes[r]) : NULL;

		source = net && net->running ? md_routes_source(view->desc, r, gid) : NULL;
		if (!source)
			continue;
		end = add(list, host, &ip, net->ifindex, !rail_hears(&host->desc->rails[host->desc->gids[g].rail]));
		if (end)
			end->from = md_paths_ip(source);
	}
}

static void add_routes(struct list *list, const struct md_view *view, const struct md_host *host)
{
	for (uint32_t g = 0; host->routes.from && host->desc && g < host->desc->n_gids; g++)
		if (host->routes.from[g] && !mv_dir_gid_in_grace(&host->desc->gids[g]))
			add_by_routes(list, view, host, g);
}

/* Addresses of the host at which it answers queries. */
static void add_routed(struct list *list, const struct md_targets *targets,
		       const struct md_host *host)
{
	const struct md_desc *desc = host->desc;

	for (uint32_t g = 0; desc && g < desc->n_gids && list->n < list->max; g++) {
		const struct md_target *target = md_targets_find(targets, &desc->gids[g].gid);
		struct in6_addr ip;

		if (!target || !target->answered_ns || target->silent_since_ns ||
		    memcmp(&target->host, &host->id, sizeof(host->id)))
			continue;
		ip = md_paths_ip(&target->gid);
		add(list, host, &ip, 0, false);
	}
}

/*
 * Does the host receive at this GID? Silence of a GID that the host does not have, or of a port that is down, says
 * nothing of our netdev.
 */
static bool hears_at(const struct md_host *host, const union ibv_gid *gid)
{
	for (uint32_t g = 0; host->desc && g < host->desc->n_gids; g++)
		if (mv_gid_equal(&host->desc->gids[g].gid, gid) && rail_hears(&host->desc->rails[host->desc->gids[g].rail]))
			return true;
	return false;
}

/* Return: the netdev of a path to the host, if the path is doubted (@doubted), or answers (!@doubted); else 0. */
static uint32_t netdev_of(const struct md_view *view, const struct md_host *host, const struct md_probe *p, bool doubted)
{
	if (!md_probe_leads_to(p, &host->id) || md_probe_is_doubted(p) != doubted ||
	    (doubted ? !hears_at(host, &p->key.remote) : p->state != MV_PROBED_UP))
		return 0;
	return md_view_gid_ifindex(view, &p->key.local);
}

static void find_cut(const struct md_view *view, const struct md_probes *probes, struct md_host *host)
{
	struct md_host_cut *cut = &host->cut;
	const struct md_probe *p, *next;
	uint32_t ifindex;

	cut->n = 0;
	HASH_ITER(hh, probes->by_key, p, next) {
		ifindex = netdev_of(view, host, p, true);
		if (ifindex && cut->n < MD_CUT_MAX && !is_cut(cut, ifindex))
			cut->nets[cut->n++] = ifindex;
	}
	/* A netdev is not cut if another port of the host answers by it. */
	HASH_ITER(hh, probes->by_key, p, next) {
		if (!cut->n)
			break;
		ifindex = netdev_of(view, host, p, false);
		for (size_t i = 0; i < cut->n; i++)
			if (cut->nets[i] == ifindex)
				cut->nets[i--] = cut->nets[--cut->n];
	}
	cut->changes = probes->n_changes;
	cut->view = view->number;
}

static void look_for_cut(const struct md_view *view, const struct md_probes *probes, struct md_host *host)
{
	if (!md_probes_doubt(probes))
		host->cut.n = 0;
	else if (host->cut.changes != probes->n_changes || !view->number || host->cut.view != view->number)
		find_cut(view, probes, host);
}

size_t md_paths_find(const struct md_view *view, const struct md_hosts *hosts, const struct md_gidmap *map,
		     const struct md_targets *targets, const struct md_probes *probes, const union ibv_gid *gid,
		     struct md_endpoint *ret, size_t max)
{
	const struct md_holder *holder = md_gidmap_find(map, gid);
	struct list list = {.ends = ret};

	for (unsigned int h = 0; holder && h < holder->n; h++) {
		struct md_host *host = md_hosts_find(hosts, &holder->hosts[h]);

		if (!host)
			continue;
		/* Somebody may have invented the other holders. */
		list.max = list.n + (max - list.n) / (holder->n - h);
		look_for_cut(view, probes, host);
		add_heard(&list, view, host);
		add_on_link(&list, view, host);
		add_routes(&list, view, host);
		add_routed(&list, targets, host);
	}
	return list.n;
}

bool md_paths_is_of(const struct md_host *host, const struct md_endpoint *at)
{
	union ibv_gid gid = md_paths_gid(&at->ip);

	for (size_t i = 0; i < host->sightings.n; i++)
		if (IN6_ARE_ADDR_EQUAL(&host->sightings.list[i].ip, &at->ip) &&
		    (!at->ifindex || at->ifindex == host->sightings.list[i].ifindex))
			return true;
	/* Link-local addresses are not unique: the host has to be heard at it. */
	if (IN6_IS_ADDR_LINKLOCAL(&at->ip))
		return false;
	for (uint32_t g = 0; host->desc && g < host->desc->n_gids; g++)
		if (mv_gid_equal(&host->desc->gids[g].gid, &gid))
			return true;
	return false;
}

/* For an address on none of our links. Routes are looked up only if a netdev of ours has no carrier. */
static bool leaves_by_route(const struct md_view *view, const struct md_paths_ops *ops, void *arg, const struct in6_addr *to)
{
	const struct md_net *net;
	size_t i;

	for (i = 0; i < view->n_nets && ops->runs(arg, &view->nets[i]); i++)
		;
	if (i == view->n_nets)
		return true;
	net = md_view_net(view, ops->route(arg, to));
	return !net || ops->runs(arg, net);
}

bool md_paths_leave(const struct md_view *view, const struct md_paths_ops *ops, void *arg, const struct in6_addr *to,
		    uint32_t *ifindex)
{
	const union ibv_gid gid = md_paths_gid(to);
	struct md_netset on_link = {0};
	uint32_t dead = 0, other = 0;

	if (!*ifindex)
		on_link = md_view_on_link(view, &gid);
	for (size_t i = 0; i < view->n_nets; i++) {
		const struct md_net *net = &view->nets[i];

		if (*ifindex ? *ifindex != net->ifindex : !md_netset_has(&on_link, i))
			continue;
		*(ops->runs(arg, net) ? &other : &dead) = net->ifindex;
	}
	if (!*ifindex && !dead && !other)
		return leaves_by_route(view, ops, arg, to);
	if (dead && !*ifindex)
		*ifindex = other;
	return !dead || other;
}

static bool says_down(const struct md_host *host, const union ibv_gid *gid)
{
	bool down = false;

	for (uint32_t g = 0; host && host->desc && g < host->desc->n_gids; g++) {
		const struct mv_dir_gid *own = &host->desc->gids[g];

		if (!mv_gid_equal(&own->gid, gid))
			continue;
		if (rail_hears(&host->desc->rails[own->rail]))
			return false;
		down = true;
	}
	return down;
}

bool md_paths_said_down(const struct md_hosts *hosts, const struct md_gidmap *map, const union ibv_gid *gid)
{
	const struct md_holder *holder = md_gidmap_find(map, gid);

	for (unsigned int h = 0; holder && h < holder->n; h++)
		if (!says_down(md_hosts_find(hosts, &holder->hosts[h]), gid))
			return false;
	return holder && holder->n;
}
