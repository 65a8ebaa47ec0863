// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs explain: routes from netdevs to the destination, and other ports that reach it. */
#include <string.h>

#include "entry.h"
#include "explain.h"

/* ::/0 and other short IPv6 prefixes cover the range of mapped IPv4 addresses, but are not for IPv4. */
static bool covers(const union ibv_gid *prefix, unsigned int prefix_len, const union ibv_gid *dgid)
{
	if (mv_gid_family(dgid) == MV_FAMILY_IPV4 && prefix_len < 96)
		return false;
	return mv_gid_in_prefix(dgid, prefix, prefix_len);
}

const struct mv_addr *explain_covering(const struct mv_topo *topo, uint32_t ifindex,
				       const union ibv_gid *dgid)
{
	const struct mv_addr *addr, *best = NULL;
	size_t i;

	for (i = 0; i < topo->n_addrs; i++) {
		addr = &topo->addrs[i];
		if (addr->ifindex == ifindex && covers(&addr->prefix, addr->prefix_len, dgid) &&
		    (!best || addr->prefix_len > best->prefix_len))
			best = addr;
	}
	return best;
}

/* Does an earlier entry of the port have the same netdev? */
static bool netdev_done(const struct mv_topo *topo, const struct mv_port *port, size_t i,
			const struct mv_netdev *netdev)
{
	while (i--)
		if (mv_topo_gid_netdev(topo, &port->gids[i]) == netdev)
			return true;
	return false;
}

static void show_row(struct out *out, const struct mv_netdev *netdev, const char *lookup,
		     const char *gateway, const char *source, const char *text)
{
	out_row(out);
	out_text(out, "netdev", "NETDEV", OUT_PLAIN, netdev->name);
	out_text(out, "lookup", NULL, OUT_PLAIN, lookup);
	out_text(out, "gateway", NULL, OUT_PLAIN, gateway);
	out_text(out, "source", NULL, OUT_PLAIN, source);
	out_text(out, "text", "RESULT", OUT_PLAIN, text);
}

static void show_route(struct out *out, const struct mv_netdev *netdev,
		       const struct mv_route *route)
{
	char gateway[MV_GID_STRLEN], prefsrc[MV_GID_STRLEN], src[MV_GID_STRLEN], text[256];
	bool via = !mv_gid_is_zero(&route->gateway), prefers = !mv_gid_is_zero(&route->prefsrc);
	bool only = !mv_gid_is_zero(&route->src);

	mv_gid_format(&route->gateway, gateway);
	mv_gid_format(&route->prefsrc, prefsrc);
	mv_gid_format(&route->src, src);
	snprintf(text, sizeof(text), "route %s%s%s%s%s%s%s", via ? "via " : "on the link",
		 via ? gateway : "", prefers ? ", source " : "", prefers ? prefsrc : "",
		 only ? ", for packets from " : "", only ? src : "", only ? " only" : "");
	show_row(out, netdev, "route", via ? gateway : NULL, prefers ? prefsrc : NULL, text);
}

static bool leads_there(const struct mv_route *route, uint32_t ifindex, const union ibv_gid *dgid)
{
	return route->ifindex == ifindex && covers(&route->dst, route->dst_len, dgid);
}

/* Shows the most specific routes; several if each holds for one source address. */
static void show_routes(struct out *out, const struct mv_topo *topo, const struct mv_netdev *netdev,
			const union ibv_gid *dgid)
{
	unsigned int longest = 0;
	bool found = false;
	char text[128];
	size_t i;

	for (i = 0; i < topo->n_routes; i++)
		if (leads_there(&topo->routes[i], netdev->ifindex, dgid) &&
		    topo->routes[i].fib_len > longest)
			longest = topo->routes[i].fib_len;
	for (i = 0; i < topo->n_routes; i++) {
		if (!leads_there(&topo->routes[i], netdev->ifindex, dgid) ||
		    topo->routes[i].fib_len != longest)
			continue;
		show_route(out, netdev, &topo->routes[i]);
		found = true;
	}
	if (found)
		return;
	snprintf(text, sizeof(text), "no address prefix and no route of %s covers it",
		 netdev->name);
	show_row(out, netdev, "none", NULL, NULL, text);
}

static void show_covered(struct out *out, const struct mv_netdev *netdev,
			 const struct mv_addr *addr)
{
	char prefix[64], text[128] = "no route look-up needed";

	if (addr)
		snprintf(text, sizeof(text), "%s covers it, no route look-up needed",
			 prefix_text(&addr->prefix, addr->prefix_len, prefix, sizeof(prefix)));
	show_row(out, netdev, "prefix", NULL, NULL, text);
}

/* @out: NULL: look up only. */
static int port_routes(struct out *out, struct host *host, const struct mv_port *port,
		       const union ibv_gid *dgid)
{
	const struct mv_netdev *netdev;
	size_t i;
	int rc;

	for (i = 0; i < port->n_gids; i++) {
		netdev = mv_topo_gid_netdev(&host->topo, &port->gids[i]);
		if (!netdev || netdev_done(&host->topo, port, i, netdev))
			continue;
		if (!mv_decide_wants_route(&host->topo, netdev, dgid)) {
			if (out)
				show_covered(out, netdev,
					     explain_covering(&host->topo, netdev->ifindex, dgid));
			continue;
		}
		rc = host_find_routes(host, netdev, dgid);
		if (rc)
			return rc;
		if (out)
			show_routes(out, &host->topo, netdev, dgid);
	}
	return 0;
}

int explain_routes(struct out *out, struct host *host, const struct explain *explain)
{
	int rc = 0;

	out_list(out, "routes", "Routes");
	if (explain->port->link_layer == IBV_LINK_LAYER_ETHERNET)
		rc = port_routes(out, host, explain->port, &explain->dgid);
	out_list_end(out);
	return rc;
}

static void show_elsewhere(struct out *out, const struct mv_topo *topo,
			   const struct mv_device *device, const struct mv_port *port,
			   const struct mv_gid_entry *entry)
{
	out_row(out);
	out_text(out, "device", "DEV", OUT_PLAIN, device->name);
	out_uint(out, "port", "PORT", port->num);
	out_uint(out, "index", "INDEX", entry->index);
	out_gid(out, &entry->gid);
	out_text(out, "type", "TYPE", OUT_PLAIN, mv_gid_type_name(entry->type));
	out_netdev(out, mv_topo_gid_netdev(topo, entry));
}

int explain_elsewhere(struct out *out, struct host *host, const struct explain *explain)
{
	const struct mv_gid_entry *entry;
	const struct mv_device *device;
	const struct mv_port *port;
	size_t d, p;
	int rc = 0;

	out_list(out, "elsewhere", "Other ports of this host that reach it");
	for (d = 0; !rc && d < host->topo.n_devices; d++) {
		device = &host->topo.devices[d];
		for (p = 0; p < device->n_ports; p++) {
			port = &device->ports[p];
			if (port == explain->port || port->link_layer != IBV_LINK_LAYER_ETHERNET)
				continue;
			rc = port_routes(NULL, host, port, &explain->dgid);
			if (rc)
				break;
			entry = explain_best(&host->topo, port, &explain->dgid);
			if (entry)
				show_elsewhere(out, &host->topo, device, port, entry);
		}
	}
	out_list_end(out);
	return rc;
}
