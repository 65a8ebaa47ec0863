// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <arpa/inet.h>
#include <string.h>

#include "entry.h"
#include "shell_word.h"

static const struct {
	const char *name;
	enum out_tone tone;
} states[] = {
	[ENTRY_USABLE] = {"usable", OUT_GOOD},
	[ENTRY_LINK_LOCAL] = {"link-local", OUT_PLAIN},
	[ENTRY_NO_NETDEV] = {"no-netdev", OUT_WARN},
	[ENTRY_DOWN] = {"down", OUT_BAD},
	[ENTRY_NO_CARRIER] = {"no-carrier", OUT_BAD},
	[ENTRY_PORT_DOWN] = {"port-down", OUT_BAD},
};

const char *entry_state_name(enum entry_state state)
{
	return states[state].name;
}

enum out_tone entry_state_tone(enum entry_state state)
{
	return states[state].tone;
}

const char *gid_text(const union ibv_gid *gid, char buf[static MV_GID_STRLEN])
{
	return inet_ntop(AF_INET6, gid->raw, buf, MV_GID_STRLEN);
}

const char *prefix_text(const union ibv_gid *prefix, unsigned int len, char *buf, size_t size)
{
	union ibv_gid network = mv_gid_network(prefix, len);
	char text[MV_GID_STRLEN];

	/* A prefix shorter than the mapping's 96 bits is no IPv4 prefix. */
	if (mv_gid_family(prefix) == MV_FAMILY_IPV4 && len >= 96)
		snprintf(buf, size, "%s/%u",
			 inet_ntop(AF_INET, network.raw + 12, text, sizeof(text)), len - 96);
	else
		snprintf(buf, size, "%s/%u", gid_text(&network, text), len);
	return buf;
}

const struct mv_addr *entry_addr(const struct mv_topo *topo, const struct mv_gid_entry *entry)
{
	size_t i;

	for (i = 0; i < topo->n_addrs; i++)
		if (topo->addrs[i].ifindex == entry->ifindex &&
		    mv_gid_equal(&topo->addrs[i].gid, &entry->gid))
			return &topo->addrs[i];
	return NULL;
}

static enum entry_state check_infiniband(const struct mv_port *port, char *text, size_t size)
{
	if (port->state == IBV_PORT_ACTIVE) {
		snprintf(text, size, "usable: InfiniBand, LID %u", port->lid);
		return ENTRY_USABLE;
	}
	snprintf(text, size, "port is not active: check the cable and the subnet manager");
	return ENTRY_PORT_DOWN;
}

static enum entry_state check_missing(const char *netdev_name, char *text, size_t size)
{
	if (*netdev_name)
		snprintf(text, size, "its netdev (%s) is not in this network namespace",
			 netdev_name);
	else
		snprintf(text, size, "its netdev is not in this network namespace");
	return ENTRY_NO_NETDEV;
}

enum entry_state entry_check(const struct mv_topo *topo, const struct mv_port *port, const struct mv_gid_entry *entry,
			     const char *netdev_name, char *text, size_t size)
{
	const struct mv_netdev *netdev;
	const struct mv_addr *addr;
	char prefix[64];

	if (port->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return check_infiniband(port, text, size);
	netdev = mv_topo_gid_netdev(topo, entry);
	if (!netdev)
		return check_missing(netdev_name, text, size);
	if (!netdev->up) {
		snprintf(text, size, "%s is down: ip link set %s up", netdev->name, MV_SHELL(netdev->name));
		return ENTRY_DOWN;
	}
	if (!netdev->running) {
		snprintf(text, size, "no carrier on %s: check cable and switch port", netdev->name);
		return ENTRY_NO_CARRIER;
	}
	if (mv_gid_family(&entry->gid) == MV_FAMILY_LINK_LOCAL) {
		snprintf(text, size, "link-local only: neighbours on %s", netdev->name);
		return ENTRY_LINK_LOCAL;
	}
	addr = entry_addr(topo, entry);
	snprintf(text, size, "usable: %s on %s%s",
		 addr ? prefix_text(&addr->prefix, addr->prefix_len, prefix, sizeof(prefix))
		      : "no prefix",
		 netdev->name,
		 entry->type == MV_GID_TYPE_ROCE_V1 ? ", not through routers (RoCE v1)" : "");
	return ENTRY_USABLE;
}

void out_gid(struct out *out, const union ibv_gid *gid)
{
	char text[MV_GID_STRLEN];

	out_text(out, "gid", "GID", OUT_PLAIN, gid_text(gid, text));
	out_text(out, "ipv4", "IPV4", OUT_PLAIN,
		 mv_gid_family(gid) == MV_FAMILY_IPV4 ? mv_gid_format(gid, text) : NULL);
}

void out_netdev(struct out *out, const struct mv_netdev *netdev)
{
	out_text(out, "netdev", "NETDEV", OUT_PLAIN, netdev ? netdev->name : NULL);
	if (netdev && netdev->vlan_id != MV_VLAN_NONE)
		out_uint(out, "vlan", "VLAN", netdev->vlan_id);
	else
		out_text(out, "vlan", "VLAN", OUT_PLAIN, NULL);
}
