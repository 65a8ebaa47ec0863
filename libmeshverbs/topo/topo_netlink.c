/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The rtnetlink connection: netdevs, addresses and notifications. */
#include "topo_netlink.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <linux/rtnetlink.h>

#include "topo_netlink_exchange.h"

/* Tries for a dump that changed meanwhile, or that lost messages. */
#define MAX_TRIES 5

/* Notifications read in one call, at most. */
#define MAX_NOTICES 10000

/* A link's notification has some 2 KiB; longer ones count as lost. */
#define NOTICE_BYTES (32 * 1024)

/* Receive buffer for notifications, as far as the host allows (net.core.rmem_max). */
#define NOTICES_BYTES (1 << 20)

#define CHANGE_GROUPS                                                                              \
	(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |               \
	 RTMGRP_IPV6_ROUTE | 1u << (RTNLGRP_IPV4_RULE - 1) | 1u << (RTNLGRP_IPV6_RULE - 1))

/* Never shrinks: the default size may be larger than what setsockopt() allows. */
static void grow_buffer(int fd)
{
	static const int wanted = NOTICES_BYTES;
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (!getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) && bytes < wanted)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted));
}

int mv_netlink_open(struct mv_netlink *nl)
{
	*nl = (struct mv_netlink){.request_fd = -1, .event_fd = -1};
	nl->request_fd = mv_netlink_socket(0, &nl->request_ino);
	if (nl->request_fd < 0)
		return nl->request_fd;
	nl->event_fd = mv_netlink_socket(CHANGE_GROUPS, &nl->event_ino);
	if (nl->event_fd < 0) {
		int err = nl->event_fd;

		mv_netlink_close(nl);
		return err;
	}
	grow_buffer(nl->event_fd);
	return 0;
}

void mv_netlink_close(struct mv_netlink *nl)
{
	mv_netlink_socket_close(&nl->request_fd, nl->request_ino);
	mv_netlink_socket_close(&nl->event_fd, nl->event_ino);
}

bool mv_netlink_requests_intact(const struct mv_netlink *nl)
{
	return nl->request_fd < 0 || mv_netlink_socket_is(nl->request_fd, nl->request_ino);
}

bool mv_netlink_events_intact(const struct mv_netlink *nl)
{
	return mv_netlink_socket_is(nl->event_fd, nl->event_ino);
}

bool mv_netlink_changed(struct mv_netlink *nl)
{
	bool changed = false;
	char byte;

	/*
	 * The content does not matter, so one byte of each message is read. If notifications come faster than they are
	 * read, the rest counts as a change at the next call.
	 */
	for (int i = 0; i < MAX_NOTICES; i++) {
		if (recv(nl->event_fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0) {
			changed = true;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return changed;
		/*
		 * ENOBUFS: notifications were lost, and the socket is usable again. Any other error: assume a change.
		 */
		if (errno != ENOBUFS)
			return true;
		changed = true;
	}
	return true;
}

/* Return: length of a notification; 0: not from the kernel; -errno. */
static ssize_t receive_notice(int fd, char *buf, size_t size)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {buf, size};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (msg.msg_flags & MSG_TRUNC)
		return -EMSGSIZE;
	return msg.msg_namelen == sizeof(from) && !from.nl_pid ? n : 0;
}

/* Return: 0: all were read; -errno: the snapshot is out of date. */
static int take_notices(struct mv_netlink *nl, struct mv_topo *topo, char *buf, unsigned int *seen)
{
	ssize_t n;
	int err;

	for (int i = 0; i < MAX_NOTICES; i++) {
		n = receive_notice(nl->event_fd, buf, NOTICE_BYTES);
		if (n == -EAGAIN)
			return 0;
		err = n < 0 ? (int)n : mv_netlink_apply(topo, buf, (size_t)n, seen);
		if (err)
			return err;
	}
	return 0; /* the rest is read at the next call, in order */
}

unsigned int mv_netlink_follow(struct mv_netlink *nl, struct mv_topo *topo)
{
	static const unsigned int all = MV_NETLINK_NET | MV_NETLINK_ROUTES | MV_NETLINK_LOST;
	unsigned int seen = 0;
	char byte, *buf = NULL;
	int err = 0;

	/* Usually there is none. The kernel reports lost notifications once. */
	if (recv(nl->event_fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) < 0 && errno != EINTR)
		err = -errno;
	if (err == -EAGAIN)
		return 0;
	if (!err && topo)
		buf = malloc(NOTICE_BYTES);
	if (!err)
		err = buf ? take_notices(nl, topo, buf, &seen) : -ENOMEM;
	free(buf);
	if (!err)
		return seen;
	/* The notifications that are discarded here are older than the dump that follows. */
	mv_netlink_changed(nl);
	return all;
}

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
		/* Leave out counters, which are most of a link's message. */
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
	err = mv_netlink_exchange(nl, topo, &links.header, &answered);
	return err ? err : mv_netlink_exchange(nl, topo, &addrs.header, &answered);
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
