/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "route.h"

#include <string.h>
#include <sys/socket.h>
#include <linux/rtnetlink.h>

#include "topo_netlink_attr.h"
#include "topo_netlink_exchange.h"
#include "udp.h"

struct query {
	struct nlmsghdr header;
	struct rtmsg info;
	char attrs[2 * RTA_SPACE(sizeof(struct in6_addr))];
};

static void add_address(struct query *query, uint16_t type, const struct in6_addr *ip)
{
	size_t len = query->info.rtm_family == AF_INET ? 4 : sizeof(*ip);
	struct rtattr attr = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = type};
	char *end = (char *)query + query->header.nlmsg_len;

	memcpy(end, &attr, sizeof(attr));
	memcpy(end + RTA_LENGTH(0), &ip->s6_addr[sizeof(*ip) - len], len);
	query->header.nlmsg_len += (uint32_t)RTA_SPACE(len);
}

/* One message of @len bytes. */
static uint32_t read_answer(const struct nlmsghdr *header, size_t len)
{
	struct mv_nl_span rest;
	struct mv_nl_attr attr;
	uint32_t ifindex = 0;

	if (!NLMSG_OK(header, len) || header->nlmsg_type != RTM_NEWROUTE || header->nlmsg_len < NLMSG_SPACE(sizeof(struct rtmsg)))
		return 0;
	rest = (struct mv_nl_span){(const uint8_t *)header + NLMSG_SPACE(sizeof(struct rtmsg)),
				   header->nlmsg_len - NLMSG_SPACE(sizeof(struct rtmsg))};
	while (mv_nl_next_attr(&rest, &attr) > 0)
		if (attr.type == RTA_OIF && mv_nl_get_u32(attr.value, &ifindex))
			return 0;
	return ifindex;
}

static uint32_t ask(int fd, const struct query *query)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct sockaddr_nl from = {0};
	socklen_t from_len = sizeof(from);
	union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	ssize_t n;

	if (sendto(fd, query, query->header.nlmsg_len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return 0;
	n = recvfrom(fd, &answer, sizeof(answer), 0, (struct sockaddr *)&from, &from_len);
	return n > 0 && !from.nl_pid ? read_answer(&answer.header, (size_t)n) : 0;
}

uint32_t md_route_ifindex(const struct in6_addr *to, const struct in6_addr *from)
{
	bool ipv4 = md_udp_is_ipv4(to);
	struct query query = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			   .nlmsg_type = RTM_GETROUTE,
			   .nlmsg_flags = NLM_F_REQUEST},
		.info = {.rtm_family = ipv4 ? AF_INET : AF_INET6, .rtm_dst_len = ipv4 ? 32 : 128},
	};
	uint32_t ifindex;
	uint64_t ino;
	int fd;

	add_address(&query, RTA_DST, to);
	if (from) {
		query.info.rtm_src_len = query.info.rtm_dst_len;
		add_address(&query, RTA_SRC, from);
	}
	fd = mv_netlink_socket(0, &ino);
	if (fd < 0)
		return 0;
	ifindex = ask(fd, &query);
	mv_netlink_socket_close(&fd, ino);
	return ifindex;
}
