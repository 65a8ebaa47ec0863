/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PATHS_H
#define MD_PATHS_H

#include "carry.h"
#include "gidmap.h"
#include "probes.h"

/**
 * md_paths_find - address pairs by which agents may reach the hosts that have a GID
 *
 * First where their beacons come from; then their addresses that are in a network of one of our netdevs; then those
 * to which routes lead out of our rails; then the address that answered a query, as routes say. Netdevs without carrier are left out. Each pair once. Pure, but that a
 * host keeps those of the second kind until its description, or our view, is another one, and which netdevs probes do not get through by.
 * @max: MD_PATHS_MAX at most
 *
 * Return: how many were written, at most @max.
 */
size_t md_paths_find(const struct md_view *view, const struct md_hosts *hosts, const struct md_gidmap *map,
		     const struct md_targets *targets, const struct md_probes *probes, const union ibv_gid *gid,
		     struct md_endpoint *ret, size_t max);

/** md_paths_is_of - is that one of the addresses by which we reach, or hear, this host? Pure. */
bool md_paths_is_of(const struct md_host *host, const struct md_endpoint *at);

struct md_paths_ops {
	bool (*runs)(void *arg, const struct md_net *net); /* has that one of ours carrier now? */
	uint32_t (*route)(void *arg, const struct in6_addr *to); /* by which netdev do routes lead there? 0: not known */
};

/**
 * md_paths_leave - by which netdev may a datagram leave?
 * @ifindex: it is meant to leave by; 0: as routes say. Where a link that it is for is one of a netdev without carrier, that of
 *           another netdev of ours on which the address is, too
 *
 * What is sent by a netdev without carrier arrives nowhere, but leaves an entry in the kernel's table of neighbours that waits for an
 * answer. It is still there for up to three seconds when the carrier is back, and whoever connects a queue pair then waits for it, where
 * a new entry would be asked for at once. The same goes for a router's.
 *
 * Return: false: by none. Pure.
 */
bool md_paths_leave(const struct md_view *view, const struct md_paths_ops *ops, void *arg, const struct in6_addr *to,
		    uint32_t *ifindex);

/**
 * md_paths_said_down - does the host that has a GID say that its port is down?
 *
 * Not of one that is drained. False where nobody, or not everybody who has it, says so. Pure.
 */
bool md_paths_said_down(const struct md_hosts *hosts, const struct md_gidmap *map, const union ibv_gid *gid);

/** md_paths_ip - the address of a RoCE GID */
struct in6_addr md_paths_ip(const union ibv_gid *gid);
union ibv_gid md_paths_gid(const struct in6_addr *ip);

#endif
