/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_ENTRY_H
#define TOOL_ENTRY_H

#include "out.h"
#include "topo.h"

/* State of a GID table entry, independent of a destination. */
enum entry_state {
	ENTRY_USABLE,
	ENTRY_LINK_LOCAL, /* usable on its link only */
	ENTRY_NO_NETDEV,
	ENTRY_DOWN,
	ENTRY_NO_CARRIER,
	ENTRY_PORT_DOWN, /* InfiniBand, which has no netdev to tell */
};

/**
 * entry_check - state of an entry, and a sentence about it
 * @netdev_name: netdev in sysfs, for an entry without a netdev here; "": none
 * @text: filled in
 */
enum entry_state entry_check(const struct mv_topo *topo, const struct mv_port *port, const struct mv_gid_entry *entry,
			     const char *netdev_name, char *text, size_t size);

const char *entry_state_name(enum entry_state state); /* for JSON */
enum out_tone entry_state_tone(enum entry_state state);

/**
 * entry_addr - the address from which the kernel made the entry
 *
 * Return: the address with the entry's GID on its netdev, in @topo; NULL: none.
 */
const struct mv_addr *entry_addr(const struct mv_topo *topo, const struct mv_gid_entry *entry);

/**
 * gid_text - a GID as IPv6 address, also if it is a mapped IPv4 address
 * @buf: MV_GID_STRLEN bytes
 */
const char *gid_text(const union ibv_gid *gid, char buf[static MV_GID_STRLEN]);

/**
 * prefix_text - e.g. "10.1.0.0/24" or "2001:db8::/64"
 * @len: in bits of the GID
 */
const char *prefix_text(const union ibv_gid *prefix, unsigned int len, char *buf, size_t size);

/** out_gid - print fields "gid" and "ipv4" */
void out_gid(struct out *out, const union ibv_gid *gid);

/**
 * out_netdev - print fields "netdev" and "vlan"
 * @netdev: may be NULL
 */
void out_netdev(struct out *out, const struct mv_netdev *netdev);

#endif
