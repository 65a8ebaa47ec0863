/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* RFC 4291 section 2.5.5.2: ten zero bytes and two 0xff in front of an IPv4 address. */
#define MAPPED_BYTES 12
static const uint8_t mapped_prefix[MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};

enum mv_gid_family mv_gid_family(const union ibv_gid *gid)
{
	const uint8_t *raw = gid->raw;

	if (mv_gid_is_zero(gid))
		return MV_FAMILY_NONE;
	if (!memcmp(raw, mapped_prefix, MAPPED_BYTES))
		return (raw[MAPPED_BYTES] & 0xf0) == 0xe0 ? MV_FAMILY_MULTICAST : MV_FAMILY_IPV4;
	if (raw[0] == 0xff)
		return MV_FAMILY_MULTICAST;
	if (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80)
		return MV_FAMILY_LINK_LOCAL;
	return MV_FAMILY_IPV6;
}

bool mv_gid_is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return mv_gid_equal(gid, &zero);
}

union ibv_gid mv_gid_from_ipv4(in_addr_t addr)
{
	union ibv_gid gid;

	memcpy(gid.raw, mapped_prefix, MAPPED_BYTES);
	memcpy(gid.raw + MAPPED_BYTES, &addr, sizeof(addr));
	return gid;
}

union ibv_gid mv_gid_from_mac(const uint8_t mac[6])
{
	/* RFC 4291 appendix A: ff:fe in the middle, universal/local bit inverted. */
	union ibv_gid gid = {.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff,
				     0xfe, mac[3], mac[4], mac[5]}};

	return gid;
}

bool mv_gid_in_prefix(const union ibv_gid *gid, const union ibv_gid *prefix,
		      unsigned int prefix_len)
{
	unsigned int bytes, bits;

	if (prefix_len > 128)
		prefix_len = 128;
	bytes = prefix_len / 8;
	bits = prefix_len % 8;
	if (memcmp(gid->raw, prefix->raw, bytes))
		return false;
	return !bits || !((gid->raw[bytes] ^ prefix->raw[bytes]) >> (8 - bits));
}

union ibv_gid mv_gid_network(const union ibv_gid *gid, unsigned int prefix_len)
{
	union ibv_gid network = {0};
	unsigned int bytes, bits;

	if (prefix_len > 128)
		prefix_len = 128;
	bytes = prefix_len / 8;
	bits = prefix_len % 8;
	memcpy(network.raw, gid->raw, bytes);
	if (bits)
		network.raw[bytes] = gid->raw[bytes] & (0xff << (8 - bits));
	return network;
}

const char *mv_gid_format(const union ibv_gid *gid, char buf[static MV_GID_STRLEN])
{
	/* Neither call can fail: both families are known and the buffer is large enough. */
	if (!memcmp(gid->raw, mapped_prefix, MAPPED_BYTES))
		inet_ntop(AF_INET, gid->raw + MAPPED_BYTES, buf, MV_GID_STRLEN);
	else
		inet_ntop(AF_INET6, gid->raw, buf, MV_GID_STRLEN);
	return buf;
}

int mv_gid_parse(const char *text, union ibv_gid *ret_gid)
{
	union ibv_gid gid;
	struct in_addr ipv4;

	if (inet_pton(AF_INET, text, &ipv4) == 1)
		gid = mv_gid_from_ipv4(ipv4.s_addr);
	else if (inet_pton(AF_INET6, text, gid.raw) != 1)
		return -EINVAL;
	*ret_gid = gid;
	return 0;
}

const char *mv_gid_type_name(enum mv_gid_type type)
{
	switch (type) {
	case MV_GID_TYPE_IB:
		return "IB";
	case MV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case MV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	case MV_GID_TYPE_UNKNOWN:
		break;
	}
	return "unknown";
}
