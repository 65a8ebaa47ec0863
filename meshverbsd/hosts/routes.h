/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ROUTES_H
#define MD_ROUTES_H

#include "hosts.h"

/*
 * Routed rails: from which netdevs of ours do the kernel's routes lead to the addresses of hosts beyond routers? Only
 * hosts that have answered a query are looked up; for hosts whose beacons arrive, links and subnets tell. No clock, no
 * locks: one thread.
 */
struct md_routes {
	/* Asks the kernel: does a route lead from address @from out of netdev @ifindex to @to? Return: 1; 0; -errno. */
	int (*leads)(void *arg, uint32_t ifindex, const union ibv_gid *from, const union ibv_gid *to);
	void *arg;
	uint64_t number; /* from 1; grows whenever routes or our addresses change */
	uint64_t next_ns; /* next call of md_routes_again(); UINT64_MAX: none */
	uint64_t n_looked; /* look-ups so far */
	/* Index MD_WANTERS: for hosts that nobody wants. Else: for those that an account wants, as in md_hosts.wanters. */
	uint64_t room_at_ns[MD_WANTERS + 1]; /* token buckets: MD_ROUTES_RATE */
	uint64_t round[MD_WANTERS + 1]; /* each host has one turn in a round: a host that changes all the time does not delay the others */
	unsigned int first; /* the account whose hosts are first in the next turn */
};

/**
 * md_routes_of - look up the routes to a host, if something has changed since they were last looked up
 *
 * From each rail at most MD_ROUTES_TRIES of our addresses are tried (those that mv_dir_gid_may_be_routed()), for each
 * address of the host; at most MD_ROUTES_MAX look-ups for one host. Addresses in a subnet of the rail need no route and
 * are skipped. Beyond MD_ROUTES_BURST and MD_ROUTES_RATE the host waits for md_routes_again(), whose time is @next_ns.
 *
 * Return: true: @host->routes.from has changed.
 */
bool md_routes_of(struct md_routes *routes, const struct md_view *view, struct md_host *host, uint64_t now_ns);

/** md_routes_changed - routes, or addresses of ours, may have changed: md_routes_again() is due at @at_ns at the latest */
void md_routes_changed(struct md_routes *routes, uint64_t at_ns);

/**
 * md_routes_again - look up routes of hosts that wait, MD_ROUTES_PER_TURN look-ups in a turn, wanted hosts first
 *
 * If hosts of one account need all of a turn, hosts of other accounts are first in the next one.
 *
 * Return: true: md_host.routes of any host has changed.
 */
bool md_routes_again(struct md_routes *routes, const struct md_view *view, struct md_hosts *hosts, uint64_t now_ns);

/** md_routes_forget - our rails have new numbers: forget all routes, whose masks use the old numbers */
void md_routes_forget(struct md_routes *routes, struct md_hosts *hosts);

/**
 * md_routes_source - the address of our rail from which routes to @gid are looked up
 *
 * Return: a GID in @own; NULL: the rail has none that fits.
 */
const union ibv_gid *md_routes_source(const struct md_desc *own, uint32_t rail, const union ibv_gid *gid);

#endif
