/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_NETLINK_ATTR_H
#define MV_TOPO_NETLINK_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "topo.h"

/* For parsers of netlink messages. No length in a message is trusted. */

struct mv_nl_span {
	const uint8_t *data;
	size_t len;
};

struct mv_nl_attr {
	uint16_t type; /* without the nested and byte order flags */
	struct mv_nl_span value;
};

/**
 * mv_nl_next_attr - take the next attribute from the front of @rest
 *
 * Return: 1; 0: end; -EBADMSG: no valid attribute.
 */
int mv_nl_next_attr(struct mv_nl_span *rest, struct mv_nl_attr *ret);
/** mv_nl_take_header - take a fixed header from the front of a message. Return: 0 or -EBADMSG */
int mv_nl_take_header(struct mv_nl_span *rest, void *ret, size_t size);
/** mv_nl_get_u32 - Return: 0; -EBADMSG: wrong length */
int mv_nl_get_u32(struct mv_nl_span value, uint32_t *ret);
/** mv_nl_get_gid - convert an address (AF_INET, AF_INET6) to a GID. Return: 0 or -EBADMSG */
int mv_nl_get_gid(struct mv_nl_span value, uint8_t family, union ibv_gid *ret);
/** mv_nl_get_prefix_len - convert a prefix length to bits of the GID. Return: 0 or -EBADMSG */
int mv_nl_get_prefix_len(uint8_t len, uint8_t family, uint8_t *ret);

/**
 * mv_nl_parse_route - add the route of an RTM_NEWROUTE, without its netlink header, to the snapshot
 *
 * Return: 0; -EBADMSG; -ENOMEM.
 */
int mv_nl_parse_route(struct mv_topo *topo, struct mv_nl_span message);

#endif
