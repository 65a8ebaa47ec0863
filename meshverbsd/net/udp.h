/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_UDP_H
#define MD_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure.h"

/*
 * The agent's two sockets, one for each family, both on the agents' port. They need no privilege: IPV6_PKTINFO and
 * IP_PKTINFO select and tell the netdev of each datagram.
 *
 * Beacons go to ff12::6d65:7368 (link-local scope, transient: RFC 4291) and 224.0.0.254 (link-local, for experiments:
 * RFC 3692, IANA), with hop limit 255, which no forwarded datagram has.
 *
 * The kernel takes no room in the sockets for datagrams that come over loopback, that have a wrong checksum, or that are
 * longer than MD_DATAGRAM_MAX_BYTES. No agent sends such datagrams, and users without privilege can.
 */
struct md_udp {
	int fd6, fd4; /* -1: the host does not have that family */
	uint16_t port;
	unsigned int n_received; /* calls of md_udp_receive() */
	uint32_t drops6, drops4; /* what the kernel has dropped of each socket, for whatever reason, when we last looked */
	uint32_t lost; /* md_udp_dropped() */
};

struct md_received {
	struct in6_addr ip, to; /* IPv4 in mapped form */
	uint16_t port;
	uint32_t ifindex; /* netdev of arrival */
	int hop_limit; /* -1: not known */
	size_t len;
	uint8_t bytes[MD_DATAGRAM_MAX_BYTES + 1]; /* one byte more, to detect longer datagrams where the kernel has no filter */
};

/**
 * md_udp_open - open and bind the sockets
 * @kept6, @kept4: sockets of a former agent, see stored.h; -1: none. Used, or closed
 *
 * Return: 0; -EADDRINUSE: another agent runs in this network namespace; -errno: neither family works.
 */
int md_udp_open(struct md_udp *udp, uint16_t port, int kept6, int kept4);
void md_udp_close(struct md_udp *udp);

/**
 * md_udp_join - receive beacons on a netdev
 *
 * Return: 0, also if joined already; -ENOBUFS: net.ipv4.igmp_max_memberships; another -errno.
 */
int md_udp_join(struct md_udp *udp, uint32_t ifindex, bool ipv6);
void md_udp_leave(struct md_udp *udp, uint32_t ifindex, bool ipv6);

/**
 * md_udp_send - send a datagram; does not block
 * @ifindex: netdev to leave by; 0: as routes say, not for link-local addresses
 * @from: source address; NULL: the kernel chooses
 *
 * Return: 0 or -errno.
 */
int md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port, uint32_t ifindex,
		const struct in6_addr *from, const void *bytes, size_t len);

/**
 * md_udp_runs - is a netdev up, with carrier, now?
 *
 * Return: 1; 0; -ENODEV: no netdev of that name; another -errno.
 */
int md_udp_runs(const struct md_udp *udp, const char *netdev);

/** md_udp_group - multicast group of beacons */
struct in6_addr md_udp_group(bool ipv6);

/**
 * md_udp_receive - read the next datagram of a socket
 * @fd: @udp->fd6 or @udp->fd4
 *
 * Return: 0; -EAGAIN: none; another -errno.
 */
int md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret);

/**
 * md_udp_dropped - datagrams that the kernel dropped because the sockets were full, modulo 2^32
 *
 * The kernel has one count for all reasons. One of them is a wrong checksum, which anybody can send. So drops count here
 * only if the socket is at least half full when md_udp_receive() or this function looks next.
 */
uint32_t md_udp_dropped(struct md_udp *udp);

/** md_udp_waiting - part of the send buffer that is in use, in percent */
unsigned int md_udp_waiting(const struct md_udp *udp, bool ipv6);

/** md_udp_is_ipv4 - is it an IPv4 address in mapped form? */
static inline bool md_udp_is_ipv4(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip);
}

/** md_udp_is_multicast - was the datagram sent to a group? Then a reply cannot leave from that address. */
static inline bool md_udp_is_multicast(const struct in6_addr *to)
{
	return IN6_IS_ADDR_MULTICAST(to) || (md_udp_is_ipv4(to) && to->s6_addr[12] >= 224);
}

#endif
