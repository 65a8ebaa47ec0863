/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rtnetlink sockets: requests, dumps and change notices. The messages are read in topo_netlink_parse.c. */
#include "topo_netlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

/* Room for the largest part of a dump that kernels send (32 KiB); longer answers make it grow. */
#define BUF_BYTES     (32 * 1024)
#define BUF_MAX_BYTES (1024 * 1024)

/* Tries for a dump that changed while it was taken, or whose messages were lost. */
#define MAX_TRIES 5

/* The kernel answers at once; this only keeps a program alive should it ever not. */
static const struct timeval answer_timeout = {.tv_sec = 2};

#define CHANGE_GROUPS                                                                                    \
	(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | \
	 1u << (RTNLGRP_IPV4_RULE - 1) | 1u << (RTNLGRP_IPV6_RULE - 1))

/* ---- sockets ------------------------------------------------------------------------------------ */

/* Return: a descriptor or -errno. */
static int open_socket(uint32_t groups)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int on = 1, err;

	if (fd < 0)
		return -errno;
	/* Old kernels lack it and then ignore what they do not know in a request, which is fine as well. */
	setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &answer_timeout, sizeof(answer_timeout));
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int mv_netlink_open(struct mv_netlink *nl)
{
	*nl = (struct mv_netlink){.request_fd = -1, .event_fd = -1};
	nl->request_fd = open_socket(0);
	if (nl->request_fd < 0)
		return nl->request_fd;
	nl->event_fd = open_socket(CHANGE_GROUPS);
	if (nl->event_fd < 0) {
		int err = nl->event_fd;

		mv_netlink_close(nl);
		return err;
	}
	return 0;
}

void mv_netlink_close(struct mv_netlink *nl)
{
	if (nl->request_fd >= 0)
		close(nl->request_fd);
	if (nl->event_fd >= 0)
		close(nl->event_fd);
	nl->request_fd = -1;
	nl->event_fd = -1;
}

bool mv_netlink_changed(struct mv_netlink *nl)
{
	bool changed = false;
	char byte;

	/* The content does not matter; MSG_TRUNC is implied, the rest of each message is dropped. */
	for (;;) {
		if (recv(nl->event_fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0) {
			changed = true;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return changed;
		/* ENOBUFS: notices were lost, and the socket is clean again. Else it is of no use: be safe. */
		if (errno != ENOBUFS)
			return true;
		changed = true;
	}
}

/* ---- one request and its answer ----------------------------------------------------------------- */

/* A request and what has become of it. */
struct exchange {
	struct mv_topo *topo;
	uint32_t seq, port_id;
	bool done;
	bool interrupted; /* NLM_F_DUMP_INTR: the dump mixes old and new */
	bool cloned;	  /* a route cache entry came: the kernel does not know RTM_F_FIB_MATCH */
	char *buf;
	size_t buf_size;
};

static int send_request(int fd, const struct nlmsghdr *request)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t n;

	do
		n = sendto(fd, request, request->nlmsg_len, 0, (const struct sockaddr *)&kernel,
			   sizeof(kernel));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int grow_buf(struct exchange *exchange, size_t size)
{
	char *grown;

	if (size <= exchange->buf_size)
		return 0;
	if (size > BUF_MAX_BYTES)
		return -EBADMSG;
	grown = realloc(exchange->buf, size);
	if (!grown)
		return -ENOMEM;
	exchange->buf = grown;
	exchange->buf_size = size;
	return 0;
}

/* Return: length of a datagram from the kernel, 0 for one from somebody else, or -errno. */
static ssize_t receive(int fd, struct exchange *exchange)
{
	struct sockaddr_nl from = {0};
	struct iovec iov;
	struct msghdr msg = {.msg_name = &from,
			     .msg_namelen = sizeof(from),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	ssize_t n;
	int err;

	do
		n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	err = grow_buf(exchange, (size_t)n);
	if (err)
		return err;

	iov = (struct iovec){exchange->buf, exchange->buf_size};
	do
		n = recvmsg(fd, &msg, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (msg.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	/* Any process may send to a netlink socket whose port id it guesses; only 0 is the kernel. */
	return msg.msg_namelen == sizeof(from) && !from.nl_pid ? n : 0;
}

/* One message of a datagram, if it belongs to the request. */
static int take_message(struct exchange *exchange, const struct nlmsghdr *header, const char *message)
{
	struct rtmsg route;

	/* Left over from a request that was given up. */
	if (header->nlmsg_seq != exchange->seq || header->nlmsg_pid != exchange->port_id)
		return 0;
	if (header->nlmsg_flags & NLM_F_DUMP_INTR)
		exchange->interrupted = true;
	if (header->nlmsg_type == RTM_NEWROUTE && header->nlmsg_len >= NLMSG_LENGTH(sizeof(route))) {
		memcpy(&route, message + NLMSG_HDRLEN, sizeof(route));
		if (route.rtm_flags & RTM_F_CLONED)
			exchange->cloned = true;
	}
	return mv_netlink_parse(exchange->topo, message, header->nlmsg_len, &exchange->done);
}

static int take_datagram(struct exchange *exchange, size_t len)
{
	size_t pos = 0;

	while (pos < len && !exchange->done) {
		struct nlmsghdr header;
		int err;

		if (len - pos < sizeof(header))
			return -EBADMSG;
		memcpy(&header, exchange->buf + pos, sizeof(header));
		if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > len - pos)
			return -EBADMSG;
		err = take_message(exchange, &header, exchange->buf + pos);
		if (err)
			return err;
		pos += NLMSG_ALIGN((size_t)header.nlmsg_len);
	}
	return 0;
}

static int receive_answer(int fd, struct exchange *exchange)
{
	while (!exchange->done) {
		ssize_t n = receive(fd, exchange);
		int err;

		if (n < 0)
			return (int)n;
		err = take_datagram(exchange, (size_t)n);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Sends a request and parses the whole answer into @topo.
 * @ret_answered: whether the kernel's answer was read to its end, so that an error is its own
 * Return: 0, an errno of the kernel's answer or of the transport (negative); -EINTR when the dump was
 * inconsistent, -EOPNOTSUPP when the kernel does not know RTM_F_FIB_MATCH.
 */
static int exchange_once(struct mv_netlink *nl, struct mv_topo *topo, struct nlmsghdr *request,
			 bool *ret_answered)
{
	struct exchange exchange = {.topo = topo};
	struct sockaddr_nl self;
	socklen_t self_len = sizeof(self);
	int err;

	*ret_answered = false;
	if (nl->request_fd < 0)
		nl->request_fd = open_socket(0);
	if (nl->request_fd < 0)
		return nl->request_fd;
	if (getsockname(nl->request_fd, (struct sockaddr *)&self, &self_len))
		return -errno;
	exchange.seq = ++nl->seq;
	exchange.port_id = self.nl_pid;
	request->nlmsg_seq = exchange.seq;

	err = grow_buf(&exchange, BUF_BYTES);
	if (err)
		return err;
	err = send_request(nl->request_fd, request);
	if (!err)
		err = receive_answer(nl->request_fd, &exchange);
	free(exchange.buf);
	/* An answer that was not read to its end would block the next dump (EBUSY): start afresh. */
	if (!exchange.done) {
		close(nl->request_fd);
		nl->request_fd = -1;
	}
	*ret_answered = exchange.done;
	if (!err && exchange.interrupted)
		return -EINTR;
	if (!err && exchange.cloned)
		return -EOPNOTSUPP;
	return err;
}

/* ---- netdevs and addresses ---------------------------------------------------------------------- */

struct link_dump {
	struct nlmsghdr header;
	struct ifinfomsg info;
	struct rtattr mask_attr;
	uint32_t mask;
};

struct addr_dump {
	struct nlmsghdr header;
	struct ifaddrmsg info;
};

static int dump_once(struct mv_netlink *nl, struct mv_topo *topo)
{
	struct link_dump links = {
		.header = {.nlmsg_len = sizeof(links),
			   .nlmsg_type = RTM_GETLINK,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		/* Counters are most of a link's message, and nobody here wants them. */
		.mask_attr = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = IFLA_EXT_MASK},
		.mask = RTEXT_FILTER_SKIP_STATS,
	};
	struct addr_dump addrs = {
		.header = {.nlmsg_len = sizeof(addrs),
			   .nlmsg_type = RTM_GETADDR,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	};
	bool answered;
	int err;

	mv_topo_clear_net(topo);
	err = exchange_once(nl, topo, &links.header, &answered);
	return err ? err : exchange_once(nl, topo, &addrs.header, &answered);
}

int mv_netlink_fill(struct mv_netlink *nl, struct mv_topo *topo)
{
	int err = 0;

	for (int i = 0; i < MAX_TRIES; i++) {
		err = dump_once(nl, topo);
		if (err != -EINTR && err != -ENOBUFS)
			break;
	}
	if (err)
		mv_topo_clear_net(topo);
	return err;
}

/* ---- routes ------------------------------------------------------------------------------------- */

struct route_query {
	struct nlmsghdr header;
	struct rtmsg info;
	char attrs[64]; /* oif and two addresses: 8 + 20 + 20 */
};

static void add_attr(struct route_query *query, uint16_t type, const void *value, size_t len)
{
	struct rtattr attr = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = type};
	char *end = (char *)query + query->header.nlmsg_len;

	memcpy(end, &attr, sizeof(attr));
	memcpy(end + sizeof(attr), value, len);
	query->header.nlmsg_len += RTA_SPACE(len);
}

static void add_gid_attr(struct route_query *query, uint16_t type, const union ibv_gid *gid)
{
	size_t len = query->info.rtm_family == AF_INET ? 4 : 16;

	add_attr(query, type, gid->raw + sizeof(gid->raw) - len, len);
}

/* What the kernel says when no route leads there, or one that says no (blackhole, prohibit, throw). */
static bool is_unreachable(int err)
{
	return err == -ENETUNREACH || err == -EHOSTUNREACH || err == -EACCES || err == -EINVAL ||
	       err == -EAGAIN || err == -ESRCH || err == -ENODEV || err == -ENETDOWN;
}

/*
 * Adds the answer's route out of @ifindex, if there is one, as a host route to @dgid: for other
 * destinations it says nothing.
 * Return: 1 added, 0 none, or -errno.
 */
static int add_host_route(struct mv_topo *topo, const struct mv_topo *answer, uint32_t ifindex,
			  const union ibv_gid *dgid, const union ibv_gid *src)
{
	/* With several next hops, or a source given, the kernel may name other netdevs too. */
	for (size_t i = 0; i < answer->n_routes; i++) {
		struct mv_route route = answer->routes[i];
		int err;

		if (route.ifindex != ifindex)
			continue;
		route.dst = *dgid;
		route.dst_len = 128;
		if (src)
			route.src = *src;
		err = mv_topo_add_route(topo, &route);
		return err ? err : 1;
	}
	return 0;
}

/*
 * Asks for the table entry that leads to @dgid out of @ifindex, and adds what it says as a host route.
 * @src: source address that the policy rules see; NULL: none
 * Return: 1 added, 0 not reachable, or -errno.
 */
static int query_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
		       const union ibv_gid *dgid, const union ibv_gid *src)
{
	bool ipv4 = mv_gid_family(dgid) == MV_FAMILY_IPV4;
	struct route_query query = {
		.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			   .nlmsg_type = RTM_GETROUTE,
			   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.info = {.rtm_family = ipv4 ? AF_INET : AF_INET6,
			 .rtm_dst_len = ipv4 ? 32 : 128,
			 .rtm_src_len = !src ? 0 : ipv4 ? 32 : 128,
			 .rtm_flags = RTM_F_FIB_MATCH},
	};
	struct mv_topo answer;
	bool answered;
	int rc;

	add_gid_attr(&query, RTA_DST, dgid);
	if (src)
		add_gid_attr(&query, RTA_SRC, src);
	add_attr(&query, RTA_OIF, &ifindex, sizeof(ifindex));

	mv_topo_init(&answer);
	rc = exchange_once(nl, &answer, &query.header, &answered);
	if (!rc)
		rc = add_host_route(topo, &answer, ifindex, dgid, src);
	else if (answered && is_unreachable(rc))
		rc = 0;
	mv_topo_fini(&answer);
	return rc;
}

/* Forgets what an earlier look-up said. */
static void drop_routes(struct mv_topo *topo, uint32_t ifindex, const union ibv_gid *dgid)
{
	size_t kept = 0;

	for (size_t i = 0; i < topo->n_routes; i++) {
		const struct mv_route *route = &topo->routes[i];

		if (route->ifindex != ifindex || route->dst_len != 128 || !mv_gid_equal(&route->dst, dgid))
			topo->routes[kept++] = *route;
	}
	topo->n_routes = kept;
}

int mv_netlink_add_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
			 const union ibv_gid *dgid)
{
	enum mv_gid_family family = mv_gid_family(dgid);
	bool added = false;
	int rc;

	if (family == MV_FAMILY_NONE || family == MV_FAMILY_MULTICAST)
		return -EINVAL;
	drop_routes(topo, ifindex, dgid);
	rc = query_route(nl, topo, ifindex, dgid, NULL);
	if (rc)
		return rc;

	/* Hosts with several rails often have one routing table per source address. */
	for (size_t i = 0; i < topo->n_addrs; i++) {
		const struct mv_addr *addr = &topo->addrs[i];

		if (addr->ifindex != ifindex || mv_gid_family(&addr->gid) != family)
			continue;
		rc = query_route(nl, topo, ifindex, dgid, &addr->gid);
		if (rc < 0)
			return rc;
		added |= rc > 0;
	}
	return added;
}
