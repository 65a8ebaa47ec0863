/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sockets on the netdevs, and frames from them. Per netdev one packet socket for each of IPv4, IPv6 and RoCE v1,
 * filtered in the kernel to the queue pair numbers of this process; frames to a port of this host's
 * own addresses go over the loopback netdev, with their real Ethernet addresses, where the IP stack
 * ignores them.
 */
#include "net_int.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define SEND_BUFFER (16 << 20)
/* In place of flow control. The kernel doubles it, and counts twice the bytes of a frame. */
#define RECEIVE_BUFFER (64 << 20)

/* Offsets are from the Ethernet header; the destination QPN is in the lower 24 bits of the second
 * word of the BTH. */
#define ACCEPT_OWN_QPN(slot)                                                                       \
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),                                             \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_MCAST_QPN, 2, 0),                         \
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, SIM_SLOT_QPN_BITS),                            \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1),                                   \
		BPF_STMT(BPF_RET | BPF_K, 0xffff), BPF_STMT(BPF_RET | BPF_K, 0)

static int attach_filter(int fd, uint16_t proto, uint32_t slot)
{
	struct sock_filter v4[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 11),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 6),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 9, 0),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_UDP_PORT, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_IND, 14 + 8 + 4),
		ACCEPT_OWN_QPN(slot),
	};
	struct sock_filter v6[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 8),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_UDP_PORT, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 14 + 40 + 8 + 4),
		ACCEPT_OWN_QPN(slot),
	};
	struct sock_filter v1[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 14 + 40 + 4),
		ACCEPT_OWN_QPN(slot),
	};
	struct sock_fprog prog = {.len = sizeof(v4) / sizeof(v4[0]), .filter = v4};

	if (proto == ETH_P_IPV6)
		prog = (struct sock_fprog){.len = sizeof(v6) / sizeof(v6[0]), .filter = v6};
	else if (proto == WIRE_ETHERTYPE_V1)
		prog = (struct sock_fprog){.len = sizeof(v1) / sizeof(v1[0]), .filter = v1};
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static int open_socket(struct hca *h, uint32_t ifindex, uint16_t proto)
{
	struct sockaddr_ll ll = {
		.sll_family = AF_PACKET, .sll_protocol = htons(proto), .sll_ifindex = (int)ifindex};
	struct epoll_event ev = {.events = EPOLLIN};
	/* Protocol 0: nothing is received before the filter is there and bind() names the protocol.
	 */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), send = SEND_BUFFER,
	    receive = RECEIVE_BUFFER;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive, sizeof(receive));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send, sizeof(send));
	ev.data.fd = fd;
	if (attach_filter(fd, proto, h->slot) || bind(fd, (struct sockaddr *)&ll, sizeof(ll)) ||
	    epoll_ctl(h->net->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

struct ndev *ndev_find(struct net *n, uint32_t ifindex)
{
	for (uint32_t i = 0; i < n->n_ndevs; i++)
		if (n->ndevs[i].ifindex == ifindex)
			return &n->ndevs[i];
	return NULL;
}

static void ndev_add(struct hca *h, uint32_t ifindex)
{
	struct net *n = h->net;
	struct ndev *d;

	if (!ifindex || ndev_find(n, ifindex) || n->n_ndevs == MAX_NETDEVS)
		return;
	d = &n->ndevs[n->n_ndevs];
	d->ifindex = ifindex;
	for (int k = 0; k < N_PROTO; k++)
		d->fds[k] = -1;
	for (int k = 0; k < N_PROTO; k++) {
		d->fds[k] = open_socket(h, ifindex, protos[k]);
		if (d->fds[k] < 0 && k == 0)
			return; /* no such netdev in this namespace, or no right to: the port stays
				   mute */
	}
	n->n_ndevs++;
}

/**
 * net_update() - have sockets on every netdev that a GID table names; cheap when nothing changed.
 *
 * Not before there is a queue pair: closing a packet socket takes the kernel tens of milliseconds,
 * and many programs only look at the device.
 */
void net_update(struct hca *h)
{
	struct ucontext *uc;

	if (!h->n_qps)
		return;
	ndev_add(h, h->net->lo);
	LIST_FOREACH(uc, &h->contexts, link) {
		for (uint32_t p = 0; p < uc->dev->n_ports && p < SIM_MAX_PORTS; p++) {
			struct sim_port *port = &uc->dev->ports[p];
			uint32_t gen = *(volatile uint32_t *)&port->gid_generation;

			if (uc->port_gid_gen[p] == gen + 1)
				continue;
			uc->port_gid_gen[p] = gen + 1;
			ndev_add(h, port->ifindex);
			for (uint32_t g = 0; g < SIM_MAX_GIDS; g++)
				if (port->gids[g].type != SIM_GID_NONE)
					ndev_add(h, port->gids[g].ifindex);
		}
	}
}

/*
 * Nobody in the kernel listens on the RoCE port, so every packet would be answered with an ICMP
 * error. A socket whose filter takes nothing stops that. SO_REUSEPORT, as each process has one.
 */
static int quiet_socket(int family)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = {.len = 1, .filter = &none};
	struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT)};
	struct sockaddr_in sa4 = {.sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT)};
	int one = 1, fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
	if (family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		(void)!bind(fd, (struct sockaddr *)&sa, sizeof(sa));
	} else {
		(void)!bind(fd, (struct sockaddr *)&sa4, sizeof(sa4));
	}
	return fd;
}

struct net *net_new(struct hca *h)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = h->engine.wake_fd};
	struct net *n = aligned_alloc(64, (sizeof(*n) + 63) & ~(size_t)63);

	if (!n)
		return NULL;
	memset(n, 0, sizeof(*n));
	n->epoll = epoll_create1(EPOLL_CLOEXEC);
	n->quiet[0] = quiet_socket(AF_INET);
	n->quiet[1] = quiet_socket(AF_INET6);
	n->lo = if_nametoindex("lo");
	if (n->epoll < 0 || epoll_ctl(n->epoll, EPOLL_CTL_ADD, h->engine.wake_fd, &ev)) {
		net_free(n);
		return NULL;
	}
	return n;
}

void net_free(struct net *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->n_ndevs; i++)
		for (int k = 0; k < N_PROTO; k++)
			if (n->ndevs[i].fds[k] >= 0)
				close(n->ndevs[i].fds[k]);
	for (int k = 0; k < 2; k++)
		if (n->quiet[k] >= 0)
			close(n->quiet[k]);
	if (n->epoll >= 0)
		close(n->epoll);
	free(n);
}

static void deliver_burst(struct hca *h, struct burst *b)
{
	size_t len, next_len;
	uint8_t *frame = burst_next(b, &len), *next;

	for (; frame; frame = next, len = next_len) {
		next = burst_next(b, &next_len);
		if (next)
			qp_fetch(qp_find(h, wire_peek_qpn(next, next_len)));
		net_deliver(h, frame, len, 0);
	}
}

static int receive_from(struct hca *h, int fd)
{
	struct net *n = h->net;
	struct mmsghdr msgs[NET_RX_BATCH];
	struct iovec iov[NET_RX_BATCH];
	struct burst b;
	int got;

	for (int i = 0; i < NET_RX_BATCH; i++) {
		iov[i] = (struct iovec){.iov_base = n->in[i], .iov_len = sizeof(n->in[i])};
		msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov[i], .msg_iovlen = 1}};
	}
	got = recvmmsg(fd, msgs, NET_RX_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++) {
		if (i + 1 < got)
			qp_fetch(qp_find(h, wire_peek_qpn(n->in[i + 1], msgs[i + 1].msg_len)));
		if (burst_open(&b, n->in[i], msgs[i].msg_len))
			deliver_burst(h, &b);
		else
			net_deliver(h, n->in[i], msgs[i].msg_len, 0);
	}
	return got > 0 ? got : 0;
}

/** net_receive() - take in what has arrived, NET_RX_BATCH frames of each socket. Return: frames. */
int net_receive(struct hca *h)
{
	struct epoll_event ev[16];
	int n, got = 0;

	n = epoll_wait(h->net->epoll, ev, 16, 0);
	for (int i = 0; i < n; i++) {
		uint64_t v;

		if (ev[i].data.fd == h->engine.wake_fd)
			(void)!read(h->engine.wake_fd, &v, sizeof(v));
		else
			got += receive_from(h, ev[i].data.fd);
	}
	return got;
}

/** net_wait() - sleep until a frame (unless @deaf) or a command comes, @timeout_ns at most. Called
 * without the lock. */
int net_wait(struct hca *h, uint64_t timeout_ns, bool deaf)
{
	struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000),
			      .tv_nsec = (long)(timeout_ns % 1000000000)};
	struct pollfd fd = {.fd = deaf ? h->engine.wake_fd : h->net->epoll, .events = POLLIN};

	/* Not epoll_pwait2(), which has nanoseconds too, but which valgrind does not know. */
	return ppoll(&fd, 1, &ts, NULL);
}
