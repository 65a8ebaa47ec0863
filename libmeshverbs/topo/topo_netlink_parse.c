/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Parses rtnetlink messages into the snapshot; topo_netlink.c receives them. No length in a message is trusted. */
#include "topo_netlink.h"

#include <errno.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "topo_netlink_attr.h"

/* <linux/if.h> clashes with <net/if.h>; IFF_UP and IFF_RUNNING are the same in both. */

/* Compares a string attribute, which may lack its terminating NUL. */
static bool is_string(struct mv_nl_span value, const char *text)
{
	size_t len = strlen(text);

	return value.len >= len && !memcmp(value.data, text, len) &&
	       (value.len == len || !value.data[len]);
}

/* ---- links ----------------------------------------------------------------------------------- */

static int parse_vlan_data(struct mv_nl_span data, struct mv_netdev *netdev)
{
	struct mv_nl_attr attr;
	uint16_t id;
	int rc;

	while ((rc = mv_nl_next_attr(&data, &attr)) > 0) {
		if (attr.type != IFLA_VLAN_ID)
			continue;
		if (attr.value.len != sizeof(id))
			return -EBADMSG;
		memcpy(&id, attr.value.data, sizeof(id));
		netdev->vlan_id = id;
	}
	return rc;
}

static int parse_link_info(struct mv_nl_span info, struct mv_netdev *netdev)
{
	struct mv_nl_span data = {0};
	struct mv_nl_attr attr;
	bool vlan = false;
	int rc;

	while ((rc = mv_nl_next_attr(&info, &attr)) > 0) {
		if (attr.type == IFLA_INFO_KIND)
			vlan = is_string(attr.value, "vlan");
		else if (attr.type == IFLA_INFO_DATA)
			data = attr.value;
	}
	/* Numbers in IFLA_INFO_DATA mean something else for every other kind. */
	return rc || !vlan ? rc : parse_vlan_data(data, netdev);
}

static int parse_link_attr(const struct mv_nl_attr *attr, uint16_t arp_type, struct mv_netdev *netdev,
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
		return mv_nl_get_u32(attr->value, &netdev->lower_ifindex);
	case IFLA_LINK_NETNSID:
		*foreign_lower = true;
		return 0;
	case IFLA_MTU:
		return mv_nl_get_u32(attr->value, &netdev->mtu_bytes);
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

/* Return: 1; 0: not a message about a link's state; -EBADMSG. */
static int parse_link(struct mv_nl_span message, struct mv_netdev *ret)
{
	bool foreign_lower = false;
	struct ifinfomsg info;
	struct mv_nl_attr attr;
	int rc;

	*ret = (struct mv_netdev){.vlan_id = MV_VLAN_NONE};
	if (mv_nl_take_header(&message, &info, sizeof(info)))
		return -EBADMSG;
	/* Bridges and IPv6 repeat the links in messages of their own families. */
	if (info.ifi_family != AF_UNSPEC)
		return 0;
	if (info.ifi_index <= 0)
		return -EBADMSG;
	ret->ifindex = (uint32_t)info.ifi_index;
	ret->up = info.ifi_flags & IFF_UP;
	ret->running = info.ifi_flags & IFF_RUNNING;

	while ((rc = mv_nl_next_attr(&message, &attr)) > 0) {
		/* An event of a wireless card, without the link's attributes. */
		if (attr.type == IFLA_WIRELESS)
			return 0;
		rc = parse_link_attr(&attr, info.ifi_type, ret, &foreign_lower);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	/* Then a VLAN's IFLA_LINK is an index in the other namespace. */
	if (foreign_lower)
		ret->lower_ifindex = 0;
	return 1;
}

/* ---- addresses ------------------------------------------------------------------------------- */

struct parsed_addr {
	struct mv_addr addr;
	uint8_t family;
	bool failed; /* duplicate address detection: another host has the address */
};

/* Return: 1; 0: another family; -EBADMSG. */
static int parse_addr(struct mv_nl_span message, struct parsed_addr *ret)
{
	bool has_local = false, has_address = false;
	union ibv_gid local, address;
	struct ifaddrmsg info;
	struct mv_nl_attr attr;
	uint32_t flags;
	int rc;

	*ret = (struct parsed_addr){0};
	if (mv_nl_take_header(&message, &info, sizeof(info)))
		return -EBADMSG;
	if (info.ifa_family != AF_INET && info.ifa_family != AF_INET6)
		return 0;
	if (mv_nl_get_prefix_len(info.ifa_prefixlen, info.ifa_family, &ret->addr.prefix_len))
		return -EBADMSG;
	flags = info.ifa_flags;

	while ((rc = mv_nl_next_attr(&message, &attr)) > 0) {
		if (attr.type == IFA_LOCAL) {
			has_local = true;
			rc = mv_nl_get_gid(attr.value, info.ifa_family, &local);
		} else if (attr.type == IFA_ADDRESS) {
			has_address = true;
			rc = mv_nl_get_gid(attr.value, info.ifa_family, &address);
		} else if (attr.type == IFA_FLAGS) {
			rc = mv_nl_get_u32(attr.value, &flags);
		}
		if (rc < 0)
			return rc;
	}
	if (rc)
		return rc;
	if (!has_local && !has_address)
		return -EBADMSG;
	/* A tentative address counts: it is ours unless detection fails. */
	ret->failed = flags & IFA_F_DADFAILED;
	ret->family = info.ifa_family;
	/*
	 * On point-to-point links IFA_ADDRESS is the peer's; IPv6 leaves IFA_LOCAL out on all
	 * others.
	 */
	ret->addr.ifindex = info.ifa_index;
	ret->addr.gid = has_local ? local : address;
	ret->addr.prefix = mv_gid_network(has_address ? &address : &local, ret->addr.prefix_len);
	return 1;
}

/*
 * On one netdev, the kernel accepts an IPv6 address once, and an IPv4 address once for each subnet (inet_insert_ifa(),
 * ipv6_add_addr()).
 *
 * Return: its index; n_addrs: not found.
 */
static size_t find_addr(const struct mv_topo *topo, const struct parsed_addr *parsed)
{
	const struct mv_addr *addr = &parsed->addr;
	size_t i;

	for (i = 0; i < topo->n_addrs; i++)
		if (topo->addrs[i].ifindex == addr->ifindex && mv_gid_equal(&topo->addrs[i].gid, &addr->gid) &&
		    (parsed->family == AF_INET6 || (topo->addrs[i].prefix_len == addr->prefix_len &&
						    mv_gid_equal(&topo->addrs[i].prefix, &addr->prefix))))
			break;
	return i;
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/*
 * Index at which the kernel lists a new address. A primary IPv4 address comes before the others of its subnet, which is
 * equivalent to the end of the list. An IPv6 address comes before those of its netdev with the same or a narrower scope
 * (ipv6_link_dev_addr()).
 */
static size_t place_for(const struct mv_topo *topo, const struct parsed_addr *parsed)
{
	const struct mv_addr *addr = &parsed->addr;
	size_t i;

	for (i = 0; i < topo->n_addrs; i++)
		if (parsed->family == AF_INET6 && topo->addrs[i].ifindex == addr->ifindex &&
		    mv_gid_family(&topo->addrs[i].gid) != MV_FAMILY_IPV4 &&
		    (is_link_local(&topo->addrs[i].gid) || !is_link_local(&addr->gid)))
			break;
	return i;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* NLMSG_ERROR always, NLMSG_DONE mostly begins with an errno: negative, or 0. */
static int parse_status(struct mv_nl_span message, bool *ret_done)
{
	int32_t err;

	if (message.len < sizeof(err))
		return -EBADMSG;
	memcpy(&err, message.data, sizeof(err));
	*ret_done = true;
	/* Invalid values must not be taken for success. */
	return err > 0 || err < -4095 ? -EBADMSG : err;
}

/* Handles one message of an answer. */
static int take_answer(struct mv_topo *topo, uint16_t type, struct mv_nl_span message, bool *ret_done)
{
	struct parsed_addr parsed;
	struct mv_netdev netdev;
	int rc;

	switch (type) {
	case NLMSG_ERROR:
		return parse_status(message, ret_done);
	case NLMSG_DONE:
		*ret_done = true;
		return message.len ? parse_status(message, ret_done) : 0;
	case NLMSG_OVERRUN:
		return -EBADMSG;
	case RTM_NEWLINK:
		rc = parse_link(message, &netdev);
		return rc > 0 ? mv_topo_add_netdev(topo, &netdev) : rc;
	case RTM_NEWADDR:
		rc = parse_addr(message, &parsed);
		return rc > 0 && !parsed.failed ? mv_topo_add_addr(topo, &parsed.addr) : rc < 0 ? rc : 0;
	case RTM_NEWROUTE:
		return mv_nl_parse_route(topo, message);
	default:
		return 0;
	}
}

static int take_link_notice(struct mv_topo *topo, bool gone, struct mv_nl_span message)
{
	struct mv_netdev netdev;
	int rc = parse_link(message, &netdev);

	if (rc <= 0)
		return rc;
	if (!gone)
		return mv_topo_add_netdev(topo, &netdev);
	mv_topo_remove_netdev(topo, netdev.ifindex);
	return 0;
}

static int take_addr_notice(struct mv_topo *topo, bool gone, struct mv_nl_span message)
{
	struct parsed_addr parsed;
	int rc = parse_addr(message, &parsed);
	size_t at;

	if (rc <= 0)
		return rc;
	at = find_addr(topo, &parsed);
	if (gone || parsed.failed) {
		if (at < topo->n_addrs)
			mv_topo_remove_addr(topo, at);
		return 0;
	}
	/* An address that is announced again (each router advertisement renews the lifetime) keeps its index. */
	if (at < topo->n_addrs) {
		topo->addrs[at] = parsed.addr;
		return 0;
	}
	return mv_topo_insert_addr(topo, place_for(topo, &parsed), &parsed.addr);
}

/* Handles one notification. */
static int take_notice(struct mv_topo *topo, uint16_t type, struct mv_nl_span message, unsigned int *seen)
{
	switch (type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		*seen |= MV_NETLINK_NET;
		return take_link_notice(topo, type == RTM_DELLINK, message);
	case RTM_NEWADDR:
	case RTM_DELADDR:
		*seen |= MV_NETLINK_NET;
		return take_addr_notice(topo, type == RTM_DELADDR, message);
	case NLMSG_OVERRUN:
		return -EBADMSG;
	default: /* routes and rules, which the snapshot does not keep up to date */
		*seen |= MV_NETLINK_ROUTES;
		return 0;
	}
}

/* Takes the next message from the front of @rest. Return: 0 or -EBADMSG. */
static int next_message(struct mv_nl_span *rest, uint16_t *ret_type, struct mv_nl_span *ret)
{
	struct nlmsghdr header;
	size_t step;

	if (rest->len < sizeof(header))
		return -EBADMSG;
	memcpy(&header, rest->data, sizeof(header));
	if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > rest->len)
		return -EBADMSG;
	*ret_type = header.nlmsg_type;
	*ret = (struct mv_nl_span){rest->data + sizeof(header), header.nlmsg_len - sizeof(header)};
	step = NLMSG_ALIGN((size_t)header.nlmsg_len);
	if (step > rest->len)
		step = rest->len;
	rest->data += step;
	rest->len -= step;
	return 0;
}

int mv_netlink_parse(struct mv_topo *topo, const void *buf, size_t len, bool *ret_done)
{
	struct mv_nl_span rest = {buf, len}, message;
	uint16_t type;
	int err = 0;

	while (!err && rest.len) {
		err = next_message(&rest, &type, &message);
		if (!err)
			err = take_answer(topo, type, message, ret_done);
	}
	return err;
}

int mv_netlink_apply(struct mv_topo *topo, const void *buf, size_t len, unsigned int *ret_seen)
{
	struct mv_nl_span rest = {buf, len}, message;
	uint16_t type;
	int err = 0;

	while (!err && rest.len) {
		err = next_message(&rest, &type, &message);
		if (!err)
			err = take_notice(topo, type, message, ret_seen);
	}
	return err;
}
