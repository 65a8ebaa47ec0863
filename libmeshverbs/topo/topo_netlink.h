/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_NETLINK_H
#define MV_TOPO_NETLINK_H

#include <stdbool.h>
#include <stddef.h>

#include "topo.h"

/*
 * Netdevs, addresses and routes of the calling thread's network namespace, from rtnetlink. Plain
 * sockets and linux/rtnetlink.h: libnl's symbols are unversioned and this code runs inside programs
 * that may carry their own.
 */

/*
 * A long-lived connection: one socket for requests, one subscribed to changes. Not thread-safe, but one thread may make requests while
 * another calls mv_netlink_changed().
 */
struct mv_netlink {
	int request_fd; /* -1: opened again by the next request, after a failed one */
	int event_fd;
	/* Inodes of the two sockets, which no other open socket has: see mv_netlink_requests_intact(). */
	uint64_t request_ino, event_ino;
	unsigned int seq;
};

/**
 * mv_netlink_open - open both sockets (CLOEXEC)
 *
 * Return: 0 or -errno of socket(2), bind(2).
 */
int mv_netlink_open(struct mv_netlink *nl);
/**
 * mv_netlink_close - close both sockets, also after a failed open
 *
 * A descriptor that has become something else's meanwhile is left open.
 */
void mv_netlink_close(struct mv_netlink *nl);

/**
 * mv_netlink_requests_intact - does the descriptor for requests still lead to our socket?
 *
 * Inside somebody else's program it may not: daemons close every descriptor and use the numbers
 * again. To be asked before each use there; costs one fstat(2). A request socket that is to be opened
 * again counts as intact.
 */
bool mv_netlink_requests_intact(const struct mv_netlink *nl);
/** mv_netlink_events_intact - the same for the one that is subscribed to changes */
bool mv_netlink_events_intact(const struct mv_netlink *nl);

/**
 * mv_netlink_changed - has a link, an address or a route changed since the last call?
 *
 * Drains the event socket without blocking. Lost events (ENOBUFS) count as a change.
 */
bool mv_netlink_changed(struct mv_netlink *nl);

enum mv_netlink_seen {
	MV_NETLINK_NET = 1, /* a link or an address */
	MV_NETLINK_ROUTES = 2, /* a route or a rule */
	MV_NETLINK_LOST = 4, /* the snapshot is not up to date any more: mv_netlink_fill() */
};

/**
 * mv_netlink_follow - bring a snapshot up to date by what the kernel has told since the last call
 * @topo: as mv_netlink_fill() and this left it, and nobody else has read notices since; its routes are left alone. NULL: there is none
 *
 * Instead of mv_netlink_changed(), does not block either. A dump waits for the kernel's RTNL lock, which others may have for
 * seconds; to read notices takes no lock.
 *
 * A dump may know more. The kernel tells of an IPv6 address that a router has announced, or that it has made itself, when duplicate address detection
 * is through with it, a second or two after it is there; such ones may come in another order; one that a router announces again in just the moment in
 * which it is deleted may stay; and of @lower_ifindex the end of a veth pair that is made first is not told when it has its peer. So
 * a decision that changes something needs a dump.
 *
 * Return: MV_NETLINK_... of what was met; 0: nothing has changed. MV_NETLINK_LOST comes with all others: notices
 * were lost (ENOBUFS), one was malformed, memory was short, or there was one and no @topo.
 */
unsigned int mv_netlink_follow(struct mv_netlink *nl, struct mv_topo *topo);

/**
 * mv_netlink_apply - the parser behind mv_netlink_follow()
 * @buf: @len bytes of netlink messages, any content
 * @ret_seen: MV_NETLINK_NET and MV_NETLINK_ROUTES are added
 *
 * Reads what mv_netlink_parse() does, and besides that what is gone.
 *
 * Return: 0, -EBADMSG, -ENOMEM: @topo is as far as it came.
 */
int mv_netlink_apply(struct mv_topo *topo, const void *buf, size_t len, unsigned int *ret_seen);

/**
 * mv_netlink_fill - replace the snapshot's netdevs and addresses by the kernel's
 * @topo: devices are left alone; routes are dropped, for they may be stale
 *
 * Return: 0; -errno of the socket calls or of the kernel's answer, -EBADMSG for a malformed answer,
 * -ETIMEDOUT when none came within 2 s, -ENOMEM, -EINTR when the kernel's dump stayed inconsistent
 * after several tries. On error netdevs and addresses are empty.
 */
int mv_netlink_fill(struct mv_netlink *nl, struct mv_topo *topo);

/**
 * mv_netlink_add_route - ask the kernel how it would send to @dgid out of one netdev
 * @ifindex: of a netdev whose addresses are in the snapshot
 * @dgid: an IPv4, IPv6 or link-local address
 *
 * Adds a host route (dst_len 128, fib_len that of the table entry) to the snapshot when a route of
 * the kernel's tables covers it; none is added otherwise, also when the kernel would guess that the
 * destination is on the link. Where no route holds for every source address, each of the netdev's
 * own addresses is tried, and the route holds for that one (policy routing by source). What an
 * earlier call said of the same netdev and destination is forgotten. Needs RTM_F_FIB_MATCH (Linux
 * 4.13).
 *
 * Return: 1 added, 0 not reachable, -EINVAL for a zero or multicast @dgid, -EOPNOTSUPP on older
 * kernels, -ENOMEM or -errno of the socket calls; on error no decision should be based on the
 * missing route.
 */
int mv_netlink_add_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
			 const union ibv_gid *dgid);

/**
 * mv_netlink_leads - do the kernel's tables lead from an address out of one netdev to another address?
 * @src: an address of that netdev, which policy rules see
 *
 * Never by a guess that the destination is on the link. Takes none of the kernel's locks that others may have for long. With
 * @nl->event_fd -1 there need be no subscription.
 *
 * Return: 1, 0, or -errno as mv_netlink_add_route().
 */
int mv_netlink_leads(struct mv_netlink *nl, uint32_t ifindex, const union ibv_gid *src, const union ibv_gid *dgid);

/**
 * mv_netlink_parse - the parser behind mv_netlink_fill() and mv_netlink_add_route()
 * @buf: @len bytes of netlink messages, any content
 * @ret_done: set when the end of an answer was met (NLMSG_DONE, or NLMSG_ERROR as an
 *            acknowledgement or with an error); otherwise left alone
 *
 * Neighbours, rules and other messages are ignored, and so are addresses that failed duplicate
 * address detection, routes that are not unicast, and route cache entries. A route with several
 * next hops becomes one per next hop.
 *
 * Return: 0, -EBADMSG, -ENOMEM, or the (negative) error of an NLMSG_ERROR or NLMSG_DONE.
 */
int mv_netlink_parse(struct mv_topo *topo, const void *buf, size_t len, bool *ret_done);

#endif
