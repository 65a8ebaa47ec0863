/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>

/* Beacons of 200 hosts that start together; the kernel may limit it. */
#define RECEIVE_BUFFER_BYTES (4 << 20)
/* Unsent datagrams stay in the buffer: probes and answers of some hundred paths that fail together. The kernel may limit it. */
#define SEND_BUFFER_BYTES (4 << 20)

/* Datagrams from one look at the kernel's count of drops to the next: a full socket is still more than half full then. */
#define LOOK_EACH 16

/* More datagrams than such a buffer can have. */
#define DISCARDED_MAX 65536

#define GROUP4 "224.0.0.254"
#define GROUP6 "ff12::6d65:7368"

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? -errno : 0;
}

/* Is a kept socket bound to that port, with that family? */
static bool is_bound(int fd, int family, uint16_t port)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr), type_len = sizeof(int);
	const struct sockaddr_in6 *in6 = (const void *)&addr;
	const struct sockaddr_in *in4 = (const void *)&addr;
	int type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) || type != SOCK_DGRAM || getsockname(fd, (struct sockaddr *)&addr, &len) ||
	    addr.ss_family != family)
		return false;
	if (family == AF_INET6)
		return in6->sin6_port == htons(port) && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
	return in4->sin_port == htons(port) && in4->sin_addr.s_addr == INADDR_ANY;
}

/* Discards datagrams from the time without agent. */
static void discard(int fd)
{
	char byte;

	for (int i = 0; i < DISCARDED_MAX && recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0; i++)
		;
}

/* Return: @kept; -1: unusable, and closed. */
static int take_kept(int kept, int family, uint16_t port)
{
	if (kept < 0)
		return -1;
	if (is_bound(kept, family, port) && !fcntl(kept, F_SETFD, FD_CLOEXEC) && !fcntl(kept, F_SETFL, O_NONBLOCK)) {
		discard(kept);
		return kept;
	}
	close(kept);
	return -1;
}

/*
 * The kernel drops what no agent sends, before that takes room: datagrams over loopback, multicast of this host, and long
 * ones. Because there is a filter, the kernel also verifies checksums before. A kernel that refuses the filter is no error:
 * only floods cost more.
 */
static void attach_filter(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_LOOPBACK, 5, 0), /* multicast of this host: its device is the netdev that it leaves by */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_HATYPE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_LOOPBACK, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, sizeof(struct udphdr) + MD_DATAGRAM_MAX_BYTES, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* all of it */
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int open_socket(int family, int kept)
{
	int fd = kept >= 0 ? kept : socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);

	if (fd < 0)
		return -errno;
	set(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
	set(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER_BYTES);
	attach_filter(fd);
	return fd;
}

/* Binds, unless @kept. Closes @fd after an error. */
static int finish(int fd, bool kept, int err, const struct sockaddr *addr, socklen_t len)
{
	if (!err && !kept && bind(fd, addr, len))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int open6(uint16_t port, int kept)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = open_socket(AF_INET6, kept), err;

	if (fd < 0)
		return fd;
	err = kept >= 0 ? 0 : set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1); /* only possible before bind(2) */
	if (!err)
		err = set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	if (!err)
		err = set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	if (!err)
		err = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 255);
	if (!err)
		err = set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 255);
	if (!err)
		err = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	/* Receive only groups that this socket has joined. */
	if (!err)
		err = set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	return finish(fd, kept >= 0, err, (const struct sockaddr *)&any, sizeof(any));
}

static int open4(uint16_t port, int kept)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = open_socket(AF_INET, kept), err;

	if (fd < 0)
		return fd;
	err = set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (!err)
		err = set(fd, IPPROTO_IP, IP_RECVTTL, 1);
	if (!err)
		err = set(fd, IPPROTO_IP, IP_MULTICAST_TTL, 255);
	if (!err)
		err = set(fd, IPPROTO_IP, IP_TTL, 255);
	if (!err)
		err = set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	if (!err)
		err = set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	return finish(fd, kept >= 0, err, (const struct sockaddr *)&any, sizeof(any));
}

int md_udp_open(struct md_udp *udp, uint16_t port, int kept6, int kept4)
{
	kept6 = take_kept(kept6, AF_INET6, port);
	kept4 = take_kept(kept4, AF_INET, port);
	*udp = (struct md_udp){.fd6 = open6(port, kept6), .fd4 = -1, .port = port};
	if (udp->fd6 != -EADDRINUSE)
		udp->fd4 = open4(port, kept4);
	else if (kept4 >= 0)
		close(kept4);
	if (udp->fd6 == -EADDRINUSE || udp->fd4 == -EADDRINUSE || (udp->fd6 < 0 && udp->fd4 < 0)) {
		int err = udp->fd6 < 0 ? udp->fd6 : udp->fd4;

		md_udp_close(udp);
		return err;
	}
	return 0;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void md_udp_close(struct md_udp *udp)
{
	close_one(&udp->fd6);
	close_one(&udp->fd4);
}

static int membership(struct md_udp *udp, uint32_t ifindex, bool ipv6, bool join)
{
	struct ipv6_mreq mreq6 = {.ipv6mr_interface = ifindex};
	struct ip_mreqn mreq4 = {.imr_ifindex = (int)ifindex};
	int rc;

	inet_pton(AF_INET6, GROUP6, &mreq6.ipv6mr_multiaddr);
	inet_pton(AF_INET, GROUP4, &mreq4.imr_multiaddr);
	if ((ipv6 ? udp->fd6 : udp->fd4) < 0)
		return -EAFNOSUPPORT;
	if (ipv6)
		rc = setsockopt(udp->fd6, IPPROTO_IPV6,
				join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &mreq6,
				sizeof(mreq6));
	else
		rc = setsockopt(udp->fd4, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
				&mreq4, sizeof(mreq4));
	return rc ? -errno : 0;
}

int md_udp_join(struct md_udp *udp, uint32_t ifindex, bool ipv6)
{
	int err = membership(udp, ifindex, ipv6, true);

	return err == -EADDRINUSE ? 0 : err;
}

void md_udp_leave(struct md_udp *udp, uint32_t ifindex, bool ipv6)
{
	membership(udp, ifindex, ipv6, false);
}

struct in6_addr md_udp_group(bool ipv6)
{
	struct in6_addr group;

	inet_pton(AF_INET6, ipv6 ? GROUP6 : "::ffff:" GROUP4, &group);
	return group;
}

/* Room for control messages, with alignment. */
union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int)) + 64];
};

static void put_control(struct msghdr *msg, union control *control, int level, int type,
			const void *data, size_t len)
{
	struct cmsghdr *head = &control->align;

	memset(control, 0, sizeof(*control));
	head->cmsg_level = level;
	head->cmsg_type = type;
	head->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(head), data, len);
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(len);
}

static int send_msg(int fd, const struct msghdr *msg)
{
	ssize_t n;

	if (fd < 0)
		return -EAFNOSUPPORT;
	do
		n = sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static in_addr_t ipv4_of(const struct in6_addr *mapped)
{
	in_addr_t ip;

	memcpy(&ip, &mapped->s6_addr[12], sizeof(ip));
	return ip;
}

static int send4(const struct md_udp *udp, const struct in6_addr *to, uint16_t port,
		 uint32_t ifindex, const struct in6_addr *from, struct msghdr *msg)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct in_pktinfo info = {.ipi_ifindex = (int)ifindex};
	union control control;

	addr.sin_addr.s_addr = ipv4_of(to);
	if (from)
		info.ipi_spec_dst.s_addr = ipv4_of(from);
	msg->msg_name = &addr;
	msg->msg_namelen = sizeof(addr);
	if (ifindex || from)
		put_control(msg, &control, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	return send_msg(udp->fd4, msg);
}

static int send6(const struct md_udp *udp, const struct in6_addr *to, uint16_t port,
		 uint32_t ifindex, const struct in6_addr *from, struct msghdr *msg)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct in6_pktinfo info = {.ipi6_ifindex = ifindex};
	union control control;

	addr.sin6_addr = *to;
	if (IN6_IS_ADDR_LINKLOCAL(to) || IN6_IS_ADDR_MC_LINKLOCAL(to))
		addr.sin6_scope_id = ifindex;
	if (from)
		info.ipi6_addr = *from;
	msg->msg_name = &addr;
	msg->msg_namelen = sizeof(addr);
	if (ifindex || from)
		put_control(msg, &control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	return send_msg(udp->fd6, msg);
}

int md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port,
		uint32_t ifindex, const struct in6_addr *from, const void *bytes, size_t len)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return md_udp_is_ipv4(to) ? send4(udp, to, port, ifindex, from, &msg)
				  : send6(udp, to, port, ifindex, from, &msg);
}

int md_udp_runs(const struct md_udp *udp, const char *netdev)
{
	struct ifreq request = {0};

	memcpy(request.ifr_name, netdev, strnlen(netdev, sizeof(request.ifr_name) - 1));
	if (ioctl(udp->fd4 >= 0 ? udp->fd4 : udp->fd6, SIOCGIFFLAGS, &request))
		return -errno;
	return (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

static struct in6_addr mapped(struct in_addr ip)
{
	struct in6_addr ret = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	memcpy(&ret.s6_addr[12], &ip, sizeof(ip));
	return ret;
}

static void read_control(struct msghdr *msg, struct md_received *ret)
{
	for (struct cmsghdr *head = CMSG_FIRSTHDR(msg); head; head = CMSG_NXTHDR(msg, head)) {
		struct in6_pktinfo info6;
		struct in_pktinfo info4;

		if (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_PKTINFO) {
			memcpy(&info6, CMSG_DATA(head), sizeof(info6));
			ret->to = info6.ipi6_addr;
			ret->ifindex = info6.ipi6_ifindex;
		} else if (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO) {
			memcpy(&info4, CMSG_DATA(head), sizeof(info4));
			ret->to = mapped(info4.ipi_addr);
			ret->ifindex = (uint32_t)info4.ipi_ifindex;
		} else if ((head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_HOPLIMIT) ||
			   (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_TTL)) {
			memcpy(&ret->hop_limit, CMSG_DATA(head), sizeof(ret->hop_limit));
		}
	}
}

static void read_source(const struct sockaddr_storage *addr, struct md_received *ret)
{
	if (addr->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)addr;

		ret->ip = in6->sin6_addr;
		ret->port = ntohs(in6->sin6_port);
	} else {
		const struct sockaddr_in *in4 = (const void *)addr;

		ret->ip = mapped(in4->sin_addr);
		ret->port = ntohs(in4->sin_port);
	}
}

struct meminfo {
	uint32_t of[SK_MEMINFO_VARS]; /* zero if not available */
};

static struct meminfo meminfo(int fd)
{
	struct meminfo info = {{0}};
	socklen_t len = sizeof(info.of);

	if (fd >= 0)
		getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info.of, &len);
	return info;
}

/* Counts what was dropped since the last look as lost for want of room, if the socket is half full. */
static void look(struct md_udp *udp, int fd, uint32_t *seen)
{
	struct meminfo info = meminfo(fd);

	if (!info.of[SK_MEMINFO_RCVBUF])
		return;
	if (info.of[SK_MEMINFO_RMEM_ALLOC] >= info.of[SK_MEMINFO_RCVBUF] / 2)
		udp->lost += info.of[SK_MEMINFO_DROPS] - *seen;
	*seen = info.of[SK_MEMINFO_DROPS];
}

uint32_t md_udp_dropped(struct md_udp *udp)
{
	look(udp, udp->fd6, &udp->drops6);
	look(udp, udp->fd4, &udp->drops4);
	return udp->lost;
}

int md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret)
{
	struct sockaddr_storage addr = {0};
	union control control;
	struct iovec iov = {.iov_base = ret->bytes, .iov_len = sizeof(ret->bytes)};
	struct msghdr msg = {.msg_name = &addr,
			     .msg_namelen = sizeof(addr),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n;

	if (udp->n_received++ % LOOK_EACH == 0)
		md_udp_dropped(udp);
	do
		n = recvmsg(fd, &msg, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	ret->len = (size_t)n;
	ret->hop_limit = -1;
	ret->ifindex = 0;
	ret->to = in6addr_any;
	read_source(&addr, ret);
	read_control(&msg, ret);
	return 0;
}

unsigned int md_udp_waiting(const struct md_udp *udp, bool ipv6)
{
	struct meminfo info = meminfo(ipv6 ? udp->fd6 : udp->fd4);
	uint64_t room = info.of[SK_MEMINFO_SNDBUF], taken = info.of[SK_MEMINFO_WMEM_ALLOC];

	return room ? (unsigned int)(100 * taken / room) : 0;
}
