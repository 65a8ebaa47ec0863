/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "nlbuild.h"

#include <arpa/inet.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/rtnetlink.h>

#include "unit.h"

static void put(struct nlbuild *nl, const void *data, size_t len)
{
	static const uint8_t padding[4];
	size_t pad = -len % 4;

	assert_true(nl->len + len + pad <= sizeof(nl->data));
	if (len)
		memcpy(nl->data + nl->len, data, len);
	memcpy(nl->data + nl->len + len, padding, pad);
	nl->len += len + pad;
}

struct nlmsghdr *nl_header(struct nlbuild *nl)
{
	return (struct nlmsghdr *)(void *)(nl->data + nl->message);
}

static void update_length(struct nlbuild *nl)
{
	nl_header(nl)->nlmsg_len = (uint32_t)(nl->len - nl->message);
}

void nl_message(struct nlbuild *nl, uint16_t type, const void *header, size_t len)
{
	struct nlmsghdr message = {.nlmsg_type = type};

	nl->message = nl->len;
	put(nl, &message, sizeof(message));
	put(nl, header, len);
	update_length(nl);
}

void nl_attr(struct nlbuild *nl, uint16_t type, const void *value, size_t len)
{
	struct nlattr attr = {.nla_len = (uint16_t)(sizeof(attr) + len), .nla_type = type};

	put(nl, &attr, sizeof(attr));
	put(nl, value, len);
	update_length(nl);
}

void nl_attr_u32(struct nlbuild *nl, uint16_t type, uint32_t value)
{
	nl_attr(nl, type, &value, sizeof(value));
}

void nl_attr_text(struct nlbuild *nl, uint16_t type, const char *value)
{
	nl_attr(nl, type, value, strlen(value) + 1);
}

void nl_attr_addr(struct nlbuild *nl, uint16_t type, const char *address)
{
	union ibv_gid gid = unit_gid(address);

	if (strchr(address, ':'))
		nl_attr(nl, type, gid.raw, 16);
	else
		nl_attr(nl, type, gid.raw + 12, 4);
}

size_t nl_nest_begin(struct nlbuild *nl, uint16_t type)
{
	size_t nest = nl->len;

	nl_attr(nl, type | NLA_F_NESTED, NULL, 0);
	return nest;
}

void nl_nest_end(struct nlbuild *nl, size_t nest)
{
	struct nlattr *attr = (struct nlattr *)(void *)(nl->data + nest);

	attr->nla_len = (uint16_t)(nl->len - nest);
	update_length(nl);
}

void nl_link(struct nlbuild *nl, int ifindex, const char *name, unsigned int flags)
{
	struct ifinfomsg info = {
		.ifi_type = ARPHRD_ETHER, .ifi_index = ifindex, .ifi_flags = flags};

	nl_message(nl, RTM_NEWLINK, &info, sizeof(info));
	if (name)
		nl_attr_text(nl, IFLA_IFNAME, name);
}

void nl_addr(struct nlbuild *nl, uint32_t ifindex, const char *address, uint8_t prefix_len)
{
	struct ifaddrmsg info = {.ifa_family = strchr(address, ':') ? AF_INET6 : AF_INET,
				 .ifa_prefixlen = prefix_len,
				 .ifa_index = ifindex};

	nl_message(nl, RTM_NEWADDR, &info, sizeof(info));
	nl_attr_addr(nl, IFA_ADDRESS, address);
}

void nl_done(struct nlbuild *nl)
{
	int32_t status = 0;

	nl_message(nl, NLMSG_DONE, &status, sizeof(status));
}

void nl_error(struct nlbuild *nl, int32_t err)
{
	struct nlmsgerr error = {.error = err};

	nl_message(nl, NLMSG_ERROR, &error, sizeof(error));
}
