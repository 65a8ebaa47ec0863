/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_UDP_H
#define MD_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "secure.h"

/*
 * The agent's two sockets, one for each family, both on the agents' port. Needs no privilege: the netdev of each
 * datagram is chosen and learnt by IPV6_PKTINFO and IP_PKTINFO.
 *
 * Beacons go to ff12::6d65:7368 (link-local scope, not assigned by anybody: RFC 4291) and 224.0.0.254 (link-local, for
 * experiments: RFC 3692, IANA), with hop limit 255, which only a datagram that no router has forwarded can have.
 */
struct md_udp {
	int fd6, fd4; /* -1: the host has no such family */
	uint16_t port;
};

struct md_received {
	struct in6_addr ip, to; /* IPv4 in mapped form */
	uint16_t port;
	uint32_t ifindex; /* it came in by */
	int hop_limit; /* -1: unknown */
	size_t len;
	uint8_t bytes[MD_DATAGRAM_MAX_BYTES + 1]; /* one more than may be, so that longer ones show */
};

/**
 * md_udp_open - open the sockets and bind them
 * @kept6, @kept4: of an agent before, see stored.h; -1: none. Taken over, or closed
 *
 * Return: 0; -EADDRINUSE when another agent runs in this network namespace; -errno when neither family works.
 */
int md_udp_open(struct md_udp *udp, uint16_t port, int kept6, int kept4);
void md_udp_close(struct md_udp *udp);

/**
 * md_udp_join - receive beacons on a netdev
 *
 * Return: 0, also when it had been joined already; -errno. -ENOBUFS: net.ipv4.igmp_max_memberships.
 */
int md_udp_join(struct md_udp *udp, uint32_t ifindex, bool ipv6);
void md_udp_leave(struct md_udp *udp, uint32_t ifindex, bool ipv6);

/**
 * md_udp_send - send a datagram
 * @ifindex: to leave by; 0: as routes say, not for link-local addresses
 * @from: own address to send from; NULL: the kernel's choice
 *
 * Return: 0 or -errno; nothing blocks.
 */
int md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port, uint32_t ifindex,
		const struct in6_addr *from, const void *bytes, size_t len);

/**
 * md_udp_runs - is a netdev up, with carrier, at this very moment?
 *
 * Return: 1, 0, or -errno: -ENODEV when there is none of that name.
 */
int md_udp_runs(const struct md_udp *udp, const char *netdev);

/** md_udp_group - where beacons go */
struct in6_addr md_udp_group(bool ipv6);

/**
 * md_udp_receive - take the next datagram of one socket
 *
 * Return: 0; -EAGAIN: none; another -errno.
 */
int md_udp_receive(int fd, struct md_received *ret);

/** md_udp_dropped - datagrams that the kernel has dropped for want of room in the sockets, modulo 2^32 */
uint32_t md_udp_dropped(const struct md_udp *udp);

/** md_udp_waiting - how much of a socket's room for sending is taken by what netdevs have not sent yet, in percent */
unsigned int md_udp_waiting(const struct md_udp *udp, bool ipv6);

/** md_udp_is_ipv4 - is it an IPv4 address in mapped form? */
static inline bool md_udp_is_ipv4(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip);
}

/** md_udp_is_multicast - was it sent to a group? Then no reply can leave from that address. */
static inline bool md_udp_is_multicast(const struct in6_addr *to)
{
	return IN6_IS_ADDR_MULTICAST(to) || (md_udp_is_ipv4(to) && to->s6_addr[12] >= 224);
}

#endif
