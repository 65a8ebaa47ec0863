/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PATHS_H
#define MD_PATHS_H

#include "gidmap.h"
#include "msg_relay.h"
#include "probes.h"

/**
 * md_paths_find - address pairs by which the agents of the hosts that have @gid can be reached
 * @ret: gets the pairs; room for @max
 * @max: MD_PATHS_MAX at most
 *
 * If there are more than @max, each holder of a link-local GID has a part of @ret, and so has each netdev on which a
 * host is heard.
 *
 * In this order, each pair once: source addresses of their beacons; their addresses in a subnet of one of our netdevs;
 * their addresses to which routes lead from our rails; addresses at which they answered a query, by the kernel's
 * routes. Netdevs without carrier are left out. Pure, except for two caches in md_host: pairs of the second kind, and
 * the netdevs by which probes fail.
 *
 * Return: number of pairs written.
 */
size_t md_paths_find(const struct md_view *view, const struct md_hosts *hosts, const struct md_gidmap *map,
		     const struct md_targets *targets, const struct md_probes *probes, const union ibv_gid *gid,
		     struct md_endpoint *ret, size_t max);

/** md_paths_is_of - is the address one on which the host is heard, or one of its GIDs? Pure. */
bool md_paths_is_of(const struct md_host *host, const struct md_endpoint *at);

struct md_paths_ops {
	bool (*runs)(void *arg, const struct md_net *net); /* does this net of ours have carrier now? */
	/* ifindex of the netdev to which the kernel routes the address; 0: not known */
	uint32_t (*route)(void *arg, const struct in6_addr *to);
};

/**
 * md_paths_leave - choose the netdev by which a datagram to @to leaves, or drop the datagram
 * @ifindex: in: the netdev wanted, 0: as routes say. Out: if the subnet's netdev has no carrier, another netdev of ours
 * in that subnet
 *
 * A datagram sent by a netdev without carrier is lost, but leaves an unresolved entry in the kernel's neighbour table,
 * for up to three seconds. If the carrier returns meanwhile, a connecting queue pair waits for that entry; without the
 * entry the kernel would resolve the neighbour at once. The same holds for the entry of a router.
 *
 * Return: true: send; false: no usable netdev, drop. Pure.
 */
bool md_paths_leave(const struct md_view *view, const struct md_paths_ops *ops, void *arg, const struct in6_addr *to,
		    uint32_t *ifindex);

/**
 * md_paths_said_down - does every host that has @gid say that the GID's port is down?
 *
 * A drained port does not count as down. False if no host has the GID. Pure.
 */
bool md_paths_said_down(const struct md_hosts *hosts, const struct md_gidmap *map, const union ibv_gid *gid);

/** md_paths_ip - Return: the IP address of a RoCE GID; IPv4 in mapped form */
struct in6_addr md_paths_ip(const union ibv_gid *gid);
union ibv_gid md_paths_gid(const struct in6_addr *ip);

#endif
