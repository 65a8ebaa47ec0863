/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_NETLINK_H
#define MV_TOPO_NETLINK_H

#include <stdbool.h>
#include <stddef.h>

#include "topo.h"

/*
 * Netdevs, addresses and routes of the calling thread's network namespace, from rtnetlink. Plain sockets and
 * linux/rtnetlink.h, because libnl's symbols are unversioned, and this code runs in programs that may have their own
 * libnl.
 */

/*
 * A connection: one socket for requests, one subscribed to changes. Not thread-safe, except that one thread may make
 * requests while another calls mv_netlink_changed().
 */
struct mv_netlink {
	int request_fd; /* -1: the next request opens it again, after a failed one */
	int event_fd;
	/* Inodes of the two sockets, unique among open sockets: see mv_netlink_requests_intact(). */
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
 * A descriptor that is no longer our socket is left open.
 */
void mv_netlink_close(struct mv_netlink *nl);

/**
 * mv_netlink_requests_intact - is the request descriptor still our socket?
 *
 * In another program it may not be: daemons close all descriptors and reuse the numbers. To be called before each use
 * there; costs one fstat(2). A request socket that will be opened again counts as intact.
 */
bool mv_netlink_requests_intact(const struct mv_netlink *nl);
/** mv_netlink_events_intact - the same for the event socket */
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
	MV_NETLINK_LOST = 4, /* the snapshot is out of date: call mv_netlink_fill() */
};

/**
 * mv_netlink_follow - update a snapshot by the kernel's notifications since the last call
 * @topo: unchanged since mv_netlink_fill() or this call, and no other call has read notifications since; its routes are
 * left alone. NULL: none
 *
 * Replaces mv_netlink_changed(); does not block either. A dump waits for the kernel's RTNL lock, which others may hold
 * for seconds; reading notifications takes no lock.
 *
 * The snapshot may differ from a dump. The kernel notifies an IPv6 address that was announced by a router, or
 * generated, after duplicate address detection, a second or two late; such addresses may be in another order; an
 * address that a router announces again while it is deleted may stay; @lower_ifindex of the first end of a veth pair is
 * not notified when it gets its peer. So a decision that changes something needs a dump.
 *
 * Return: mask of MV_NETLINK_...; 0: nothing has changed. MV_NETLINK_LOST comes with all others: notifications were
 * lost (ENOBUFS), one was malformed, memory was short, or there was one and @topo is NULL.
 */
unsigned int mv_netlink_follow(struct mv_netlink *nl, struct mv_topo *topo);

/**
 * mv_netlink_apply - parser of mv_netlink_follow()
 * @buf: @len bytes of netlink messages, any content
 * @ret_seen: MV_NETLINK_NET and MV_NETLINK_ROUTES are added
 *
 * Handles whatever mv_netlink_parse() handles, and deletions.
 *
 * Return: 0; -EBADMSG, -ENOMEM: @topo is partly updated.
 */
int mv_netlink_apply(struct mv_topo *topo, const void *buf, size_t len, unsigned int *ret_seen);

/**
 * mv_netlink_fill - replace the snapshot's netdevs and addresses by the kernel's
 * @topo: devices are left alone; routes are removed, because they may be out of date
 *
 * Return: 0; -errno of the socket calls or of the kernel's answer; -EBADMSG: malformed answer; -ETIMEDOUT: none within
 * 2 s; -ENOMEM; -EINTR: the kernel's dump was inconsistent several times. On error netdevs and addresses are empty.
 */
int mv_netlink_fill(struct mv_netlink *nl, struct mv_topo *topo);

/**
 * mv_netlink_add_route - look up the kernel's route to @dgid out of one netdev
 * @ifindex: of a netdev whose addresses are in the snapshot
 * @dgid: an IPv4, IPv6 or link-local address
 *
 * Adds a host route (dst_len 128, fib_len of the table entry) to the snapshot if a route in the kernel's tables covers
 * @dgid. Adds none if the kernel would only assume that the destination is on-link. If no route holds for all source
 * addresses, each address of the netdev is tried, and the route holds for that address (policy routing by source).
 * Replaces results of earlier calls for the same netdev and destination. Needs RTM_F_FIB_MATCH (Linux 4.13).
 *
 * Return: 1: added; 0: not reachable; -EINVAL: @dgid is zero or multicast; -EOPNOTSUPP: older kernel; -ENOMEM; -errno
 * of the socket calls. After an error, do not take the route for missing.
 */
int mv_netlink_add_route(struct mv_netlink *nl, struct mv_topo *topo, uint32_t ifindex,
			 const union ibv_gid *dgid);

/**
 * mv_netlink_leads - do the kernel's tables lead from an address out of one netdev to another address?
 * @src: an address of that netdev; policy rules apply to it
 *
 * An assumption that the destination is on-link does not count. Takes no kernel lock that others may hold for long.
 * @nl->event_fd may be -1.
 *
 * Return: 1; 0; -errno as mv_netlink_add_route().
 */
int mv_netlink_leads(struct mv_netlink *nl, uint32_t ifindex, const union ibv_gid *src, const union ibv_gid *dgid);

/**
 * mv_netlink_parse - parser of mv_netlink_fill() and mv_netlink_add_route()
 * @buf: @len bytes of netlink messages, any content
 * @ret_done: set to true at the end of an answer (NLMSG_DONE; NLMSG_ERROR as acknowledgement or error); else not
 * written
 *
 * Ignores neighbours, rules and other messages, addresses that failed duplicate address detection, routes that are not
 * unicast, and route cache entries. A route with several next hops becomes one route for each.
 *
 * Return: 0; -EBADMSG; -ENOMEM; the (negative) error of an NLMSG_ERROR or NLMSG_DONE.
 */
int mv_netlink_parse(struct mv_topo *topo, const void *buf, size_t len, bool *ret_done);

#endif
