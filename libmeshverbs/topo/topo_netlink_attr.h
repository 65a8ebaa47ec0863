/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_NETLINK_ATTR_H
#define MV_TOPO_NETLINK_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "topo.h"

/* Shared by the files that read rtnetlink messages. No length in a message is trusted. */

struct mv_nl_span {
	const uint8_t *data;
	size_t len;
};

struct mv_nl_attr {
	uint16_t type; /* without the nested and byte order flags */
	struct mv_nl_span value;
};

/**
 * mv_nl_next_attr - take the next attribute off the front of @rest
 *
 * Return: 1, 0 at the end, -EBADMSG when what is left is no attribute.
 */
int mv_nl_next_attr(struct mv_nl_span *rest, struct mv_nl_attr *ret);
/** mv_nl_take_header - take a fixed header off the front of a message. Return: 0 or -EBADMSG. */
int mv_nl_take_header(struct mv_nl_span *rest, void *ret, size_t size);
/** mv_nl_get_u32 - Return: 0, -EBADMSG for another length. */
int mv_nl_get_u32(struct mv_nl_span value, uint32_t *ret);
/** mv_nl_get_gid - an address of a family (AF_INET, AF_INET6) as a GID. Return: 0 or -EBADMSG. */
int mv_nl_get_gid(struct mv_nl_span value, uint8_t family, union ibv_gid *ret);
/** mv_nl_get_prefix_len - a prefix length of a family in bits of the GID. Return: 0 or -EBADMSG. */
int mv_nl_get_prefix_len(uint8_t len, uint8_t family, uint8_t *ret);

/**
 * mv_nl_parse_route - what follows the header of an RTM_NEWROUTE, into the snapshot
 *
 * Return: 0, -EBADMSG, -ENOMEM.
 */
int mv_nl_parse_route(struct mv_topo *topo, struct mv_nl_span message);

#endif
