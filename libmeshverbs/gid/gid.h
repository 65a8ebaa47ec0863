/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_GID_H
#define MV_GID_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#define MV_VLAN_NONE                                                                               \
	0xffffu /* 802.1Q leaves 0xfff reserved; 0xffff is how ib_core says "no VLAN" */

/*
 * On Ethernet a GID is an IPv6 address, or an IPv4 address in mapped form (::ffff:a.b.c.d). On InfiniBand it is a
 * subnet prefix and a GUID. All functions here are pure, any thread.
 */

/* Type of a GID table entry, from the kernel's gid_attrs/types. */
enum mv_gid_type {
	MV_GID_TYPE_UNKNOWN,
	MV_GID_TYPE_IB,
	MV_GID_TYPE_ROCE_V1,
	MV_GID_TYPE_ROCE_V2,
};

/* Address families: source and destination must be of the same one. */
enum mv_gid_family {
	MV_FAMILY_NONE, /* the zero GID */
	MV_FAMILY_IPV4, /* ::ffff:0:0/96 */
	MV_FAMILY_IPV6, /* all others */
	MV_FAMILY_LINK_LOCAL, /* fe80::/64 .. fe80::/10 */
	MV_FAMILY_MULTICAST, /* ff00::/8, or an IPv4-mapped 224.0.0.0/4 */
};

/* Bytes for the text of any GID or address, with NUL. */
#define MV_GID_STRLEN INET6_ADDRSTRLEN

/**
 * mv_gid_family - classify a GID by the address it holds
 */
enum mv_gid_family mv_gid_family(const union ibv_gid *gid);

/**
 * mv_gid_equal - compare two GIDs
 */
static inline bool mv_gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a->raw, b->raw, sizeof(a->raw));
}

/** mv_gid_is_zero - is it the zero GID, i.e. an unused table entry? */
bool mv_gid_is_zero(const union ibv_gid *gid);

/**
 * mv_gid_from_ipv4 - the IPv4-mapped GID of an address in network byte order
 */
union ibv_gid mv_gid_from_ipv4(in_addr_t addr);

/**
 * mv_gid_from_mac - the default link-local GID (fe80::/64, EUI-64) of an Ethernet address
 * @mac: 6 bytes
 */
union ibv_gid mv_gid_from_mac(const uint8_t mac[6]);

/**
 * mv_gid_in_prefix - does @gid lie in @prefix/@prefix_len?
 * @prefix_len: in bits of the GID, 0..128; for an IPv4 prefix that is 96 + its own length. Longer is treated as 128.
 */
bool mv_gid_in_prefix(const union ibv_gid *gid, const union ibv_gid *prefix,
		      unsigned int prefix_len);

/**
 * mv_gid_network - the first @prefix_len bits of @gid, the rest zero
 * @prefix_len: as for mv_gid_in_prefix()
 */
union ibv_gid mv_gid_network(const union ibv_gid *gid, unsigned int prefix_len);

/**
 * mv_gid_format - text of a GID: dotted quad for IPv4, RFC 5952 for the rest
 * @buf: MV_GID_STRLEN bytes, filled by the call
 *
 * Return: @buf.
 */
const char *mv_gid_format(const union ibv_gid *gid, char buf[static MV_GID_STRLEN]);

/**
 * mv_gid_parse - read a GID or an IP address
 * @text: dotted quad, any IPv6 form, or the kernel's eight full groups
 * @ret_gid: written on success only
 *
 * Return: 0, or -EINVAL when @text is none of these.
 */
int mv_gid_parse(const char *text, union ibv_gid *ret_gid);

/**
 * mv_gid_type_name - "RoCE v2", "RoCE v1", "IB" or "unknown"
 *
 * Return: a constant string.
 */
const char *mv_gid_type_name(enum mv_gid_type type);

#endif
