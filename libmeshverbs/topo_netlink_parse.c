/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rtnetlink messages into the snapshot; fetched in topo_netlink.c. No length in a message is
 * trusted.
 */
#include "topo_netlink.h"

#include <errno.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

/* <linux/if.h> clashes with <net/if.h>; IFF_UP and IFF_RUNNING are the same in both. */

/* IPv4 bits in front of which a GID has 96 others. */
#define IPV4_PREFIX_BITS 96

struct span {
	const uint8_t *data;
	size_t len;
};

struct attr {
	uint16_t type; /* without the nested and byte order flags */
	struct span value;
};

/*
 * Takes the next attribute off the front of @rest.
 * Return: 1, 0 at the end, -EBADMSG when what is left is no attribute.
 */
static int next_attr(struct span *rest, struct attr *ret)
{
	struct nlattr header;
	size_t step;

	/* The kernel may pad the end of a message; no attribute is shorter than its header. */
	if (rest->len < sizeof(header))
		return 0;
	memcpy(&header, rest->data, sizeof(header));
	if (header.nla_len < sizeof(header) || header.nla_len > rest->len)
		return -EBADMSG;
	ret->type = header.nla_type & NLA_TYPE_MASK;
	ret->value = (struct span){rest->data + sizeof(header), header.nla_len - sizeof(header)};
	step = NLA_ALIGN(header.nla_len);
	if (step > rest->len)
		step = rest->len;
	rest->data += step;
	rest->len -= step;
	return 1;
}

/* Takes a fixed header off the front of a message. */
static int take_header(struct span *rest, void *ret, size_t size)
{
	size_t step = NLMSG_ALIGN(size);

	if (rest->len < size)
		return -EBADMSG;
	memcpy(ret, rest->data, size);
	if (step > rest->len)
		step = rest->len;
	rest->data += step;
	rest->len -= step;
	return 0;
}

static int get_u32(struct span value, uint32_t *ret)
{
	if (value.len != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, value.data, sizeof(*ret));
	return 0;
}

/* An address of a family into a GID. */
static int get_gid(struct span value, uint8_t family, union ibv_gid *ret)
{
	in_addr_t ipv4;

	if (family == AF_INET && value.len == sizeof(ipv4)) {
		memcpy(&ipv4, value.data, sizeof(ipv4));
		*ret = mv_gid_from_ipv4(ipv4);
		return 0;
	}
	if (family == AF_INET6 && value.len == sizeof(*ret)) {
		memcpy(ret, value.data, sizeof(*ret));
		return 0;
	}
	return -EBADMSG;
}

/* Prefix length of a family in bits of the GID. */
static int get_prefix_len(uint8_t len, uint8_t family, uint8_t *ret)
{
	if (len > (family == AF_INET ? 32 : 128))
		return -EBADMSG;
	*ret = family == AF_INET ? IPV4_PREFIX_BITS + len : len;
	return 0;
}

/* Compares a string attribute, whose terminating NUL may be missing. */
static bool is_string(struct span value, const char *text)
{
	size_t len = strlen(text);

	return value.len >= len && !memcmp(value.data, text, len) &&
	       (value.len == len || !value.data[len]);
}

/* ---- links ----------------------------------------------------------------------------------- */

static int parse_vlan_data(struct span data, struct mv_netdev *netdev)
{
	struct attr attr;
	uint16_t id;
	int rc;

	while ((rc = next_attr(&data, &attr)) > 0) {
		if (attr.type != IFLA_VLAN_ID)
			continue;
		if (attr.value.len != sizeof(id))
			return -EBADMSG;
		memcpy(&id, attr.value.data, sizeof(id));
		netdev->vlan_id = id;
	}
	return rc;
}

static int parse_link_info(struct span info, struct mv_netdev *netdev)
{
	struct span data = {0};
	struct attr attr;
	bool vlan = false;
	int rc;

	while ((rc = next_attr(&info, &attr)) > 0) {
		if (attr.type == IFLA_INFO_KIND)
			vlan = is_string(attr.value, "vlan");
		else if (attr.type == IFLA_INFO_DATA)
			data = attr.value;
	}
	/* Numbers in IFLA_INFO_DATA mean something else for every other kind. */
	return rc || !vlan ? rc : parse_vlan_data(data, netdev);
}

static int parse_link_attr(const struct attr *attr, uint16_t arp_type, struct mv_netdev *netdev,
			   bool *foreign_lower)
{
	size_t len;

	switch (attr->type) {
	case IFLA_IFNAME:
		len = strnlen((const char *)attr->value.data, attr->value.len);
		if (len >= sizeof(netdev->name))
			return -EBADMSG;
		memcpy(netdev->name, attr->value.data, len);
		netdev->name[len] = '\0';
		return 0;
	case IFLA_LINK:
		return get_u32(attr->value, &netdev->lower_ifindex);
	case IFLA_LINK_NETNSID:
		*foreign_lower = true;
		return 0;
	case IFLA_MTU:
		return get_u32(attr->value, &netdev->mtu_bytes);
	case IFLA_ADDRESS:
		if (arp_type == ARPHRD_ETHER && attr->value.len == sizeof(netdev->mac))
			memcpy(netdev->mac, attr->value.data, sizeof(netdev->mac));
		return 0;
	case IFLA_LINKINFO:
		return parse_link_info(attr->value, netdev);
	default:
		return 0;
	}
}

static int parse_link(struct mv_topo *topo, struct span message)
{
	struct mv_netdev netdev = {.vlan_id = MV_VLAN_NONE};
	bool foreign_lower = false;
	struct ifinfomsg info;
	struct attr attr;
	int rc;

	if (take_header(&message, &info, sizeof(info)))
		return -EBADMSG;
	/* Bridges and IPv6 report the same links once more in their own families. */
	if (info.ifi_family != AF_UNSPEC)
		return 0;
	if (info.ifi_index <= 0)
		return -EBADMSG;
	netdev.ifindex = (uint32_t)info.ifi_index;
	netdev.up = info.ifi_flags & IFF_UP;
	netdev.running = info.ifi_flags & IFF_RUNNING;

	while ((rc = next_attr(&message, &attr)) > 0) {
		rc = parse_link_attr(&attr, info.ifi_type, &netdev, &foreign_lower);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	/* A VLAN's IFLA_LINK is a number of the other namespace then. */
	if (foreign_lower)
		netdev.lower_ifindex = 0;
	return mv_topo_add_netdev(topo, &netdev);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int parse_addr(struct mv_topo *topo, struct span message)
{
	bool has_local = false, has_address = false;
	union ibv_gid local, address;
	struct mv_addr addr = {0};
	struct ifaddrmsg info;
	struct attr attr;
	uint32_t flags;
	int rc;

	if (take_header(&message, &info, sizeof(info)))
		return -EBADMSG;
	if (info.ifa_family != AF_INET && info.ifa_family != AF_INET6)
		return 0;
	if (get_prefix_len(info.ifa_prefixlen, info.ifa_family, &addr.prefix_len))
		return -EBADMSG;
	flags = info.ifa_flags;

	while ((rc = next_attr(&message, &attr)) > 0) {
		if (attr.type == IFA_LOCAL) {
			has_local = true;
			rc = get_gid(attr.value, info.ifa_family, &local);
		} else if (attr.type == IFA_ADDRESS) {
			has_address = true;
			rc = get_gid(attr.value, info.ifa_family, &address);
		} else if (attr.type == IFA_FLAGS) {
			rc = get_u32(attr.value, &flags);
		}
		if (rc < 0)
			return rc;
	}
	if (rc)
		return rc;
	if (!has_local && !has_address)
		return -EBADMSG;
	/*
	 * Somebody else has this address. A tentative one is ours unless that turns out, so it
	 * counts.
	 */
	if (flags & IFA_F_DADFAILED)
		return 0;

	/*
	 * On point-to-point links IFA_ADDRESS is the peer's; IPv6 leaves IFA_LOCAL out on all
	 * others.
	 */
	addr.ifindex = info.ifa_index;
	addr.gid = has_local ? local : address;
	addr.prefix = mv_gid_network(has_address ? &address : &local, addr.prefix_len);
	return mv_topo_add_addr(topo, &addr);
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* RTA_VIA: a gateway of another family than the route's. */
static int get_via(struct span value, union ibv_gid *ret)
{
	struct rtvia via;

	if (value.len < sizeof(via.rtvia_family))
		return -EBADMSG;
	memcpy(&via.rtvia_family, value.data, sizeof(via.rtvia_family));
	value.data += sizeof(via.rtvia_family);
	value.len -= sizeof(via.rtvia_family);
	return get_gid(value, (uint8_t)via.rtvia_family, ret);
}

/* Attributes that a route and each of its next hops may have. */
static int parse_hop_attr(const struct attr *attr, uint8_t family, struct mv_route *route)
{
	if (attr->type == RTA_GATEWAY)
		return get_gid(attr->value, family, &route->gateway);
	if (attr->type == RTA_VIA)
		return get_via(attr->value, &route->gateway);
	return 0;
}

static int parse_route_attr(const struct attr *attr, uint8_t family, struct mv_route *route,
			    struct span *hops)
{
	switch (attr->type) {
	case RTA_DST:
		return get_gid(attr->value, family, &route->dst);
	case RTA_OIF:
		return get_u32(attr->value, &route->ifindex);
	case RTA_PREFSRC:
		return get_gid(attr->value, family, &route->prefsrc);
	case RTA_TABLE:
		return get_u32(attr->value, &route->table);
	case RTA_PRIORITY:
		return get_u32(attr->value, &route->metric);
	case RTA_MULTIPATH:
		*hops = attr->value;
		return 0;
	default:
		return parse_hop_attr(attr, family, route);
	}
}

/* One route per next hop. */
static int parse_hops(struct mv_topo *topo, struct span hops, uint8_t family,
		      const struct mv_route *base)
{
	while (hops.len >= sizeof(struct rtnexthop)) {
		struct mv_route route = *base;
		struct rtnexthop hop;
		struct span attrs;
		struct attr attr;
		size_t step;
		int rc;

		memcpy(&hop, hops.data, sizeof(hop));
		if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > hops.len)
			return -EBADMSG;
		route.ifindex = (uint32_t)hop.rtnh_ifindex;
		attrs = (struct span){hops.data + sizeof(hop), hop.rtnh_len - sizeof(hop)};
		while ((rc = next_attr(&attrs, &attr)) > 0) {
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

static int parse_route(struct mv_topo *topo, struct span message)
{
	struct mv_route route = {0};
	struct span hops = {0};
	struct rtmsg info;
	struct attr attr;
	int rc;

	if (take_header(&message, &info, sizeof(info)))
		return -EBADMSG;
	if (info.rtm_family != AF_INET && info.rtm_family != AF_INET6)
		return 0;
	/* A cloned route is a cache entry, perhaps a guess, not what the tables say. */
	if (info.rtm_type != RTN_UNICAST || info.rtm_flags & RTM_F_CLONED)
		return 0;
	if (get_prefix_len(info.rtm_dst_len, info.rtm_family, &route.dst_len))
		return -EBADMSG;
	route.fib_len = route.dst_len;
	route.table = info.rtm_table;
	/* A default route has no RTA_DST. */
	if (info.rtm_family == AF_INET)
		route.dst = mv_gid_from_ipv4(0);

	while ((rc = next_attr(&message, &attr)) > 0) {
		rc = parse_route_attr(&attr, info.rtm_family, &route, &hops);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	if (hops.len)
		return parse_hops(topo, hops, info.rtm_family, &route);
	return route.ifindex ? mv_topo_add_route(topo, &route) : 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* NLMSG_ERROR always, NLMSG_DONE mostly begins with an errno, negative, or 0. */
static int parse_status(struct span message, bool *ret_done)
{
	int32_t err;

	if (message.len < sizeof(err))
		return -EBADMSG;
	memcpy(&err, message.data, sizeof(err));
	*ret_done = true;
	/* What is no errno must not become a success further up. */
	return err > 0 || err < -4095 ? -EBADMSG : err;
}

static int parse_message(struct mv_topo *topo, uint16_t type, struct span message, bool *ret_done)
{
	switch (type) {
	case NLMSG_ERROR:
		return parse_status(message, ret_done);
	case NLMSG_DONE:
		*ret_done = true;
		return message.len ? parse_status(message, ret_done) : 0;
	case NLMSG_OVERRUN:
		return -EBADMSG;
	case RTM_NEWLINK:
		return parse_link(topo, message);
	case RTM_NEWADDR:
		return parse_addr(topo, message);
	case RTM_NEWROUTE:
		return parse_route(topo, message);
	default:
		return 0;
	}
}

int mv_netlink_parse(struct mv_topo *topo, const void *buf, size_t len, bool *ret_done)
{
	struct span rest = {buf, len};

	while (rest.len) {
		struct nlmsghdr header;
		size_t step;
		int err;

		if (rest.len < sizeof(header))
			return -EBADMSG;
		memcpy(&header, rest.data, sizeof(header));
		if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > rest.len)
			return -EBADMSG;
		err = parse_message(topo, header.nlmsg_type,
				    (struct span){rest.data + sizeof(header),
						  header.nlmsg_len - sizeof(header)},
				    ret_done);
		if (err)
			return err;
		step = NLMSG_ALIGN((size_t)header.nlmsg_len);
		if (step > rest.len)
			step = rest.len;
		rest.data += step;
		rest.len -= step;
	}
	return 0;
}
