/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ROUTES_H
#define MD_ROUTES_H

#include "hosts.h"

/*
 * Rails that are routed: out of which netdevs of ours do the kernel's routes lead to the addresses of hosts beyond routers? Of hosts
 * that have answered a query; those that beacons reach are known by links and subnets. No clock.
 */
struct md_routes {
	/* Do the kernel's tables lead from an address of ours out of its netdev to another one? 1, 0, -errno. */
	int (*leads)(void *arg, uint32_t ifindex, const union ibv_gid *from, const union ibv_gid *to);
	void *arg;
	uint64_t number; /* of what routes depend on, from 1: grows with each change */
	uint64_t next_ns; /* when hosts are to be looked at again; UINT64_MAX: not at all */
	uint64_t n_looked; /* look-ups */
	/* Of hosts that md_host_is_wanted(), and of others: */
	uint64_t room_at_ns[2]; /* MD_ROUTES_RATE */
	uint64_t round[2]; /* in which each host has one turn: who changes all the time keeps nobody waiting */
};

/**
 * md_routes_of - look up the routes to a host, unless that has been done since anything changed, or when md_routes_again() comes to it
 *
 * From each rail the first MD_ROUTES_TRIES addresses that routers forward for (mv_dir_gid_may_be_routed()), to each of the host's;
 * MD_ROUTES_MAX look-ups for a host at most. What is in a network of the rail's is no matter of routes. Beyond MD_ROUTES_BURST and
 * MD_ROUTES_RATE it is left to md_routes_again(): @next_ns says when.
 *
 * Return: whether @host->routed has changed.
 */
bool md_routes_of(struct md_routes *routes, const struct md_view *view, struct md_host *host, uint64_t now_ns);

/**
 * md_routes_changed - routes, or addresses of ours, may be others now: to be looked at at @at_ns
 */
void md_routes_changed(struct md_routes *routes, uint64_t at_ns);

/**
 * md_routes_again - look at hosts again, at MD_ROUTES_PER_TURN look-ups in a turn, those that are wanted first
 *
 * Return: whether anything has changed.
 */
bool md_routes_again(struct md_routes *routes, const struct md_view *view, struct md_hosts *hosts, uint64_t now_ns);

/** md_routes_forget - our rails have other numbers: what is known of routes means others */
void md_routes_forget(struct md_routes *routes, struct md_hosts *hosts);

/**
 * md_routes_source - the address of a rail of ours that routes to @gid are looked up from
 *
 * Return: NULL: there is none.
 */
const union ibv_gid *md_routes_source(const struct md_desc *own, uint32_t rail, const union ibv_gid *gid);

#endif
