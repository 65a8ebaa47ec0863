/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

/* Largest headers of a RoCE v2 packet, as in the kernel's rdma/ib_addr.h: GRH, UDP, BTH, extended transport headers, ICRC. */
#define ROCE_HEADER_BYTES 96

_Static_assert(MD_RAILS_MAX <= 64, "one word says which ones run");
_Static_assert(MD_NETS_MAX % 64 == 0, "a set of nets is made of words");

struct maker {
	const struct mv_topo *topo;
	const struct mv_config *config;
	const struct md_drained *drained;
	struct md_view *view;
	uint32_t n_gids; /* number filled in so far */
};

static uint16_t roce_mtu(uint32_t netdev_mtu)
{
	for (uint16_t mtu = 4096; mtu >= 256; mtu /= 2)
		if (netdev_mtu >= mtu + (uint32_t)ROCE_HEADER_BYTES)
			return mtu;
	return 0;
}

static const struct mv_netdev *entry_netdev(const struct mv_topo *topo, const struct mv_port *port,
					    const struct mv_gid_entry *entry)
{
	return port->link_layer == IBV_LINK_LAYER_INFINIBAND ? NULL
							     : mv_topo_gid_netdev(topo, entry);
}

static bool runs(const struct mv_netdev *netdev)
{
	return netdev->up && netdev->running;
}

/* Among netdevs of several partitions, prefer one that runs. */
static const struct mv_netdev *ipoib_netdev(const struct mv_topo *topo, const struct mv_port *port)
{
	const struct mv_netdev *first = NULL;

	for (size_t i = 0; i < port->n_ipoib; i++) {
		const struct mv_netdev *netdev = mv_topo_netdev(topo, port->ipoib[i]);

		if (netdev && runs(netdev))
			return netdev;
		if (!first)
			first = netdev;
	}
	return first;
}

/* The netdev of the port itself, not of a VLAN, if possible. */
static const struct mv_netdev *port_netdev(const struct mv_topo *topo, const struct mv_port *port)
{
	const struct mv_netdev *vlan = NULL;

	if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return ipoib_netdev(topo, port);

	for (size_t g = 0; g < port->n_gids; g++) {
		const struct mv_netdev *netdev = entry_netdev(topo, port, &port->gids[g]);

		if (netdev && netdev->vlan_id == MV_VLAN_NONE)
			return netdev;
		if (netdev && !vlan)
			vlan = netdev;
	}
	return vlan && vlan->lower_ifindex ? mv_topo_netdev(topo, vlan->lower_ifindex) : vlan;
}

static void fill_gid(struct mv_dir_gid *ret, const struct mv_topo *topo,
		     const struct mv_gid_entry *entry, const struct mv_netdev *netdev)
{
	ret->gid = entry->gid;
	ret->index = entry->index;
	ret->type = (uint8_t)entry->type;
	ret->vlan_id = netdev ? netdev->vlan_id : MV_VLAN_NONE;
	if (!netdev)
		return;
	for (size_t i = 0; i < topo->n_addrs; i++) {
		const struct mv_addr *addr = &topo->addrs[i];

		/* On point-to-point links the subnet is the peer's, not ours. */
		if (addr->ifindex == netdev->ifindex && mv_gid_equal(&addr->gid, &entry->gid) &&
		    mv_gid_in_prefix(&addr->gid, &addr->prefix, addr->prefix_len))
			ret->prefix_len = addr->prefix_len;
	}
}

static void add_net(struct maker *maker, const struct mv_netdev *netdev, uint32_t rail)
{
	struct md_view *view = maker->view;
	struct md_net *net;

	if (view->n_nets == MD_NETS_MAX || md_view_net(view, netdev->ifindex))
		return;
	net = &view->nets[view->n_nets++];
	net->ifindex = netdev->ifindex;
	net->rail = rail;
	memcpy(net->name, netdev->name, sizeof(net->name));
	net->running = runs(netdev);
	for (size_t i = 0; i < maker->topo->n_addrs; i++) {
		const struct mv_addr *addr = &maker->topo->addrs[i];
		enum mv_gid_family family = mv_gid_family(&addr->gid);

		if (addr->ifindex != netdev->ifindex)
			continue;
		net->has_ipv4 |= family == MV_FAMILY_IPV4;
		net->has_ipv6 |= family == MV_FAMILY_LINK_LOCAL;
	}
}

static void add_gids(struct maker *maker, const struct mv_port *port, uint32_t r)
{
	struct md_desc *desc = maker->view->desc;
	struct mv_dir_rail *rail = &desc->rails[r];

	rail->first_gid = maker->n_gids;
	for (size_t g = 0; g < port->n_gids && maker->n_gids < desc->n_gids; g++) {
		const struct mv_gid_entry *entry = &port->gids[g];
		const struct mv_netdev *netdev = entry_netdev(maker->topo, port, entry);
		enum mv_gid_family family = mv_gid_family(&entry->gid);

		if (!netdev && port->link_layer != IBV_LINK_LAYER_INFINIBAND)
			continue;
		/* Leave out GIDs that a description cannot express. */
		if (family == MV_FAMILY_NONE || family == MV_FAMILY_MULTICAST ||
		    (netdev && netdev->vlan_id != MV_VLAN_NONE && netdev->vlan_id >= 0xfff))
			continue;
		fill_gid(&desc->gids[maker->n_gids], maker->topo, entry, netdev);
		maker->view->gid_ifindexes[maker->n_gids] = netdev ? netdev->ifindex : 0;
		desc->gids[maker->n_gids++].rail = r;
		rail->n_gids++;
		if (netdev && !mv_config_list_match(&maker->config->exclude, rail->device))
			add_net(maker, netdev, r);
	}
}

static void add_ipoib(struct maker *maker, const struct mv_port *port, uint32_t r)
{
	for (size_t i = 0; i < port->n_ipoib; i++) {
		const struct mv_netdev *netdev = mv_topo_netdev(maker->topo, port->ipoib[i]);

		if (netdev)
			add_net(maker, netdev, r);
	}
}

static void add_rail(struct maker *maker, const struct mv_device *device,
		     const struct mv_port *port, uint32_t r)
{
	struct mv_dir_rail *rail = &maker->view->desc->rails[r];
	const struct mv_netdev *netdev = port_netdev(maker->topo, port);
	bool ethernet = port->link_layer != IBV_LINK_LAYER_INFINIBAND;

	memcpy(rail->device, device->name, sizeof(rail->device));
	rail->port = port->num;
	rail->link_layer = port->link_layer;
	rail->rate_mbps = port->rate_mbps;
	rail->numa_node = device->numa_node < 0 ? -1 : device->numa_node;
	rail->lid = port->lid;
	rail->lmc = port->lmc;
	if (netdev) {
		maker->view->rail_ifindexes[r] = netdev->ifindex;
		memcpy(rail->netdev, netdev->name, sizeof(rail->netdev));
		md_make_text(rail->netdev); /* the kernel allows almost any character */
		/* The MTU of InfiniBand is a property of the port, not of the netdev; it is read from the port where needed. */
		rail->mtu_bytes = ethernet ? roce_mtu(netdev->mtu_bytes) : 0;
	}
	if (port->state == IBV_PORT_ACTIVE && (!ethernet || (netdev && runs(netdev))))
		maker->view->running |= 1ull << r;
	if (md_drained_has(maker->drained, device->name))
		rail->flags |= MV_RAIL_DRAINED;
	else if (maker->view->running & (1ull << r))
		rail->flags |= MV_RAIL_UP;
	if (mv_config_list_match(&maker->config->exclude, device->name))
		rail->flags |= MV_RAIL_EXCLUDED;
	/* The port's netdev comes first, so that it belongs to this rail even if it cannot be told from its VLANs. */
	if (netdev && !(rail->flags & MV_RAIL_EXCLUDED))
		add_net(maker, netdev, r);
	if (!ethernet && !(rail->flags & MV_RAIL_EXCLUDED))
		add_ipoib(maker, port, r);
	add_gids(maker, port, r);
}

static void add_rails(struct maker *maker)
{
	const struct mv_topo *topo = maker->topo;
	uint32_t r = 0;

	for (size_t d = 0; d < topo->n_devices; d++)
		for (size_t p = 0; p < topo->devices[d].n_ports; p++)
			if (r < maker->view->desc->n_rails)
				add_rail(maker, &topo->devices[d], &topo->devices[d].ports[p], r++);
	maker->view->desc->n_gids = maker->n_gids;
}

/* Excludes the rail with the default route, if another rail with GIDs is left. */
static void exclude_default(struct md_view *view, uint32_t default_ifindex)
{
	const struct md_net *net = md_view_net(view, default_ifindex);
	struct md_desc *desc = view->desc;

	if (!net)
		return;
	for (uint32_t r = 0; r < desc->n_rails; r++) {
		if (r != net->rail && desc->rails[r].n_gids &&
		    !(desc->rails[r].flags & MV_RAIL_EXCLUDED)) {
			desc->rails[net->rail].flags |= MV_RAIL_EXCLUDED;
			return;
		}
	}
}

static void add_onlinks(struct maker *maker)
{
	struct md_view *view = maker->view;

	for (size_t i = 0; i < maker->topo->n_addrs; i++) {
		const struct mv_addr *addr = &maker->topo->addrs[i];
		enum mv_gid_family family = mv_gid_family(&addr->gid);
		struct md_onlink *onlink;

		if ((family != MV_FAMILY_IPV4 && family != MV_FAMILY_IPV6) ||
		    !md_view_net(view, addr->ifindex))
			continue;
		/* Fields are set one by one, so that padding stays zero and views can be compared by memcmp(). */
		onlink = &view->onlinks[view->n_onlinks++];
		onlink->ifindex = addr->ifindex;
		onlink->prefix = addr->prefix;
		onlink->prefix_len = addr->prefix_len;
	}
}

/* Allocates for the largest possible number of rails and GIDs; some may be left out. */
static int make_room(struct maker *maker)
{
	size_t n_rails = 0, n_gids = 0;

	for (size_t d = 0; d < maker->topo->n_devices; d++) {
		const struct mv_device *device = &maker->topo->devices[d];

		n_rails += device->n_ports;
		for (size_t p = 0; p < device->n_ports; p++)
			n_gids += device->ports[p].n_gids;
	}
	maker->view = calloc(1, sizeof(*maker->view));
	if (!maker->view)
		return -ENOMEM;
	maker->view->desc = md_desc_new((uint32_t)(n_rails < MD_RAILS_MAX ? n_rails : MD_RAILS_MAX),
					(uint32_t)(n_gids < MD_GIDS_MAX ? n_gids : MD_GIDS_MAX));
	maker->view->onlinks = calloc(maker->topo->n_addrs + 1, sizeof(struct md_onlink));
	maker->view->gid_ifindexes = calloc(n_gids + 1, sizeof(*maker->view->gid_ifindexes));
	return maker->view->desc && maker->view->onlinks && maker->view->gid_ifindexes ? 0 : -ENOMEM;
}

int md_view_make(const struct mv_topo *topo, const struct mv_config *config,
		 const struct md_drained *drained, uint32_t default_ifindex, struct md_view **ret)
{
	struct maker maker = {.topo = topo, .config = config, .drained = drained};
	int err = make_room(&maker);

	if (err) {
		md_view_free(maker.view);
		return err;
	}
	add_rails(&maker);
	add_onlinks(&maker);
	if (config->exclude_default_route && default_ifindex)
		exclude_default(maker.view, default_ifindex);
	*ret = maker.view;
	return 0;
}

void md_view_free(struct md_view *view)
{
	if (!view)
		return;
	free(view->desc);
	free(view->onlinks);
	free(view->gid_ifindexes);
	free(view->grace_until_ns);
	free(view);
}

static bool same_desc(const struct md_desc *a, const struct md_desc *b)
{
	return a->n_rails == b->n_rails && a->n_gids == b->n_gids &&
	       !memcmp(a->rails, b->rails, a->n_rails * sizeof(*a->rails)) &&
	       !memcmp(a->gids, b->gids, a->n_gids * sizeof(*a->gids));
}

bool md_view_same(const struct md_view *a, const struct md_view *b)
{
	return same_desc(a->desc, b->desc) && a->n_nets == b->n_nets &&
	       !memcmp(a->nets, b->nets, a->n_nets * sizeof(a->nets[0])) &&
	       !memcmp(a->gid_ifindexes, b->gid_ifindexes,
		       a->desc->n_gids * sizeof(a->gid_ifindexes[0])) &&
	       a->n_onlinks == b->n_onlinks &&
	       !memcmp(a->onlinks, b->onlinks, a->n_onlinks * sizeof(a->onlinks[0]));
}

const struct md_net *md_view_net(const struct md_view *view, uint32_t ifindex)
{
	for (size_t i = 0; i < view->n_nets; i++)
		if (view->nets[i].ifindex == ifindex)
			return &view->nets[i];
	return NULL;
}

uint32_t md_view_gid_ifindex(const struct md_view *view, const union ibv_gid *gid)
{
	uint32_t ifindex = 0;

	for (uint32_t g = 0; g < view->desc->n_gids; g++) {
		if (!mv_gid_equal(&view->desc->gids[g].gid, gid))
			continue;
		if (!view->gid_ifindexes[g] || (ifindex && ifindex != view->gid_ifindexes[g]))
			return 0;
		ifindex = view->gid_ifindexes[g];
	}
	return ifindex;
}

bool md_view_has_gid(const struct md_view *view, const union ibv_gid *gid)
{
	for (uint32_t g = 0; g < view->desc->n_gids; g++)
		if (mv_gid_equal(&view->desc->gids[g].gid, gid))
			return true;
	return false;
}

bool md_view_gid_in_grace(const struct md_view *view, const union ibv_gid *gid)
{
	for (uint32_t g = 0; view->grace_until_ns && g < view->desc->n_gids; g++)
		if (view->grace_until_ns[g] && mv_gid_equal(&view->desc->gids[g].gid, gid))
			return true;
	return false;
}

size_t md_view_devices(const struct md_view *view, const union ibv_gid *gid, const char **ret,
		       size_t max)
{
	const struct md_desc *desc = view->desc;
	size_t n = 0;

	for (uint32_t g = 0; g < desc->n_gids && n < max; g++) {
		const char *device = desc->rails[desc->gids[g].rail].device;
		size_t i;

		if (!mv_gid_equal(&desc->gids[g].gid, gid))
			continue;
		for (i = 0; i < n; i++)
			if (!strcmp(ret[i], device))
				break;
		if (i == n)
			ret[n++] = device;
	}
	return n;
}

struct md_netset md_view_on_link(const struct md_view *view, const union ibv_gid *gid)
{
	enum mv_gid_family family = mv_gid_family(gid);
	struct md_netset set = {0};
	uint32_t found = 0;

	if (family != MV_FAMILY_IPV4 && family != MV_FAMILY_IPV6)
		return set;
	for (size_t i = 0; i < view->n_onlinks; i++) {
		const struct md_onlink *onlink = &view->onlinks[i];
		const struct md_net *net;

		/*
		 * Addresses of one netdev are mostly adjacent. The check of families keeps an IPv6 prefix of fewer than
		 * 96 bits from matching mapped IPv4 addresses.
		 */
		if (onlink->ifindex == found || !mv_gid_in_prefix(gid, &onlink->prefix, onlink->prefix_len) ||
		    mv_gid_family(&onlink->prefix) != family)
			continue;
		found = onlink->ifindex;
		net = md_view_net(view, found);
		if (net)
			md_netset_add(&set, (size_t)(net - view->nets));
	}
	return set;
}

bool md_view_is_rail_netdev(const struct mv_topo *topo, uint32_t ifindex)
{
	for (size_t d = 0; d < topo->n_devices; d++) {
		const struct mv_device *device = &topo->devices[d];

		for (size_t p = 0; p < device->n_ports; p++)
			for (size_t g = 0; g < device->ports[p].n_gids; g++)
				if (device->ports[p].gids[g].ifindex == ifindex)
					return true;
	}
	return false;
}
