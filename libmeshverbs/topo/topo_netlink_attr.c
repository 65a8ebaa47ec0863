/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Attributes and other parts of rtnetlink messages. */
#include "topo_netlink_attr.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/netlink.h>

/* Bits of a mapped GID before the IPv4 address. */
#define IPV4_PREFIX_BITS 96

int mv_nl_next_attr(struct mv_nl_span *rest, struct mv_nl_attr *ret)
{
	struct nlattr header;
	size_t step;

	/* The kernel may pad the end of a message. */
	if (rest->len < sizeof(header))
		return 0;
	memcpy(&header, rest->data, sizeof(header));
	if (header.nla_len < sizeof(header) || header.nla_len > rest->len)
		return -EBADMSG;
	ret->type = header.nla_type & NLA_TYPE_MASK;
	ret->value = (struct mv_nl_span){rest->data + sizeof(header), header.nla_len - sizeof(header)};
	step = NLA_ALIGN(header.nla_len);
	if (step > rest->len)
		step = rest->len;
	rest->data += step;
	rest->len -= step;
	return 1;
}

int mv_nl_take_header(struct mv_nl_span *rest, void *ret, size_t size)
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

int mv_nl_get_u32(struct mv_nl_span value, uint32_t *ret)
{
	if (value.len != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, value.data, sizeof(*ret));
	return 0;
}

int mv_nl_get_gid(struct mv_nl_span value, uint8_t family, union ibv_gid *ret)
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

int mv_nl_get_prefix_len(uint8_t len, uint8_t family, uint8_t *ret)
{
	if (len > (family == AF_INET ? 32 : 128))
		return -EBADMSG;
	*ret = family == AF_INET ? IPV4_PREFIX_BITS + len : len;
	return 0;
}
