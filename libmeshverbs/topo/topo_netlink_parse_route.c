/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Parses routes in rtnetlink messages. */
#include "topo_netlink_attr.h"

#include <errno.h>
#include <string.h>
#include <linux/rtnetlink.h>

/* In kernel headers since Linux 5.3. */
enum { NEXT_HOP_ID = 30 }; /* RTA_NH_ID */

/* RTA_VIA: a gateway of another family than the route's. */
static int get_via(struct mv_nl_span value, union ibv_gid *ret)
{
	struct rtvia via;

	if (value.len < sizeof(via.rtvia_family))
		return -EBADMSG;
	memcpy(&via.rtvia_family, value.data, sizeof(via.rtvia_family));
	value.data += sizeof(via.rtvia_family);
	value.len -= sizeof(via.rtvia_family);
	return mv_nl_get_gid(value, (uint8_t)via.rtvia_family, ret);
}

/* Attributes that a route and each of its next hops may have. */
static int parse_hop_attr(const struct mv_nl_attr *attr, uint8_t family, struct mv_route *route)
{
	if (attr->type == RTA_GATEWAY)
		return mv_nl_get_gid(attr->value, family, &route->gateway);
	if (attr->type == RTA_VIA)
		return get_via(attr->value, &route->gateway);
	return 0;
}

static int parse_route_attr(const struct mv_nl_attr *attr, uint8_t family, struct mv_route *route,
			    struct mv_nl_span *hops)
{
	switch (attr->type) {
	case RTA_DST:
		return mv_nl_get_gid(attr->value, family, &route->dst);
	case RTA_OIF:
		return mv_nl_get_u32(attr->value, &route->ifindex);
	case RTA_PREFSRC:
		return mv_nl_get_gid(attr->value, family, &route->prefsrc);
	case RTA_TABLE:
		return mv_nl_get_u32(attr->value, &route->table);
	case RTA_PRIORITY:
		return mv_nl_get_u32(attr->value, &route->metric);
	case RTA_MULTIPATH:
		*hops = attr->value;
		return 0;
	default:
		return parse_hop_attr(attr, family, route);
	}
}

/* Adds one route for each next hop. */
static int parse_hops(struct mv_topo *topo, struct mv_nl_span hops, uint8_t family,
		      const struct mv_route *base)
{
	while (hops.len >= sizeof(struct rtnexthop)) {
		struct mv_route route = *base;
		struct rtnexthop hop;
		struct mv_nl_span attrs;
		struct mv_nl_attr attr;
		size_t step;
		int rc;

		memcpy(&hop, hops.data, sizeof(hop));
		if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > hops.len)
			return -EBADMSG;
		route.ifindex = (uint32_t)hop.rtnh_ifindex;
		attrs = (struct mv_nl_span){hops.data + sizeof(hop), hop.rtnh_len - sizeof(hop)};
		while ((rc = mv_nl_next_attr(&attrs, &attr)) > 0) {
			rc = parse_hop_attr(&attr, family, &route);
			if (rc)
				return rc;
		}
		if (!rc)
			rc = mv_topo_add_route(topo, &route);
		if (rc)
			return rc;
		step = RTNH_ALIGN(hop.rtnh_len);
		if (step > hops.len)
			step = hops.len;
		hops.data += step;
		hops.len -= step;
	}
	return 0;
}

int mv_nl_parse_route(struct mv_topo *topo, struct mv_nl_span message)
{
	struct mv_route route = {0};
	struct mv_nl_span hops = {0};
	struct rtmsg info;
	struct mv_nl_attr attr;
	bool by_number = false;
	int rc;

	if (mv_nl_take_header(&message, &info, sizeof(info)))
		return -EBADMSG;
	if (info.rtm_family != AF_INET && info.rtm_family != AF_INET6)
		return 0;
	/* A cloned route is a cache entry, perhaps an assumption, and not in the tables. */
	if (info.rtm_type != RTN_UNICAST || info.rtm_flags & RTM_F_CLONED)
		return 0;
	if (mv_nl_get_prefix_len(info.rtm_dst_len, info.rtm_family, &route.dst_len))
		return -EBADMSG;
	route.fib_len = route.dst_len;
	route.table = info.rtm_table;
	/* A default route has no RTA_DST. */
	if (info.rtm_family == AF_INET)
		route.dst = mv_gid_from_ipv4(0);

	while ((rc = mv_nl_next_attr(&message, &attr)) > 0) {
		by_number |= attr.type == NEXT_HOP_ID;
		rc = parse_route_attr(&attr, info.rtm_family, &route, &hops);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	if (hops.len)
		return parse_hops(topo, hops, info.rtm_family, &route);
	if (route.ifindex)
		return mv_topo_add_route(topo, &route);
	/* With net.ipv4.nexthop_compat_mode = 0, only the next hop object tells where the route leads. */
	return by_number ? -EOPNOTSUPP : 0;
}
