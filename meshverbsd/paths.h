/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PATHS_H
#define MD_PATHS_H

#include "carry.h"
#include "gidmap.h"

/**
 * md_paths_find - address pairs by which agents may reach the hosts that have a GID
 *
 * First where their beacons come from; then their addresses that are in a network of one of our netdevs; then the
 * address that answered a query, as routes say. Netdevs without carrier are left out. Each pair once. Pure.
 *
 * Return: how many were written, at most @max.
 */
size_t md_paths_find(const struct md_view *view, const struct md_hosts *hosts, const struct md_gidmap *map,
		     const struct md_targets *targets, const union ibv_gid *gid, struct md_endpoint *ret,
		     size_t max);

/** md_paths_is_of - is that one of the addresses by which we reach, or hear, this host? Pure. */
bool md_paths_is_of(const struct md_host *host, const struct md_endpoint *at);

/** md_paths_ip - the address of a RoCE GID */
struct in6_addr md_paths_ip(const union ibv_gid *gid);
union ibv_gid md_paths_gid(const struct in6_addr *ip);

#endif
