/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_ENTRY_H
#define TOOL_ENTRY_H

#include "out.h"
#include "topo.h"

/* What can be said of a GID table entry without a destination. */
enum entry_state {
	ENTRY_USABLE,
	ENTRY_LINK_LOCAL, /* works, but only towards neighbours on the link */
	ENTRY_NO_NETDEV,
	ENTRY_DOWN,
	ENTRY_NO_CARRIER,
	ENTRY_PORT_DOWN, /* InfiniBand: no netdev tells */
};

/**
 * entry_judge - state of an entry, in a word and a sentence
 * @netdev_name: netdev that sysfs names, for an entry without one here; "" when none
 * @text: filled in
 */
enum entry_state entry_judge(const struct mv_topo *topo, const struct mv_port *port,
			     const struct mv_gid_entry *entry, const char *netdev_name, char *text,
			     size_t size);

const char *entry_state_name(enum entry_state state); /* for JSON */
enum out_tone entry_state_tone(enum entry_state state);

/**
 * entry_addr - the address that made an entry
 *
 * Return: the netdev's address with the entry's GID, or NULL.
 */
const struct mv_addr *entry_addr(const struct mv_topo *topo, const struct mv_gid_entry *entry);

/**
 * gid_text - a GID as an IPv6 address, also when it holds an IPv4 one
 * @buf: MV_GID_STRLEN bytes
 */
const char *gid_text(const union ibv_gid *gid, char buf[static MV_GID_STRLEN]);

/**
 * prefix_text - "10.1.0.0/24" or "2001:db8::/64"
 * @len: in bits of the GID
 */
const char *prefix_text(const union ibv_gid *prefix, unsigned int len, char *buf, size_t size);

/**
 * out_gid - fields "gid" and "ipv4"
 */
void out_gid(struct out *out, const union ibv_gid *gid);

/**
 * out_netdev - fields "netdev" and "vlan"
 * @netdev: may be NULL
 */
void out_netdev(struct out *out, const struct mv_netdev *netdev);

#endif
