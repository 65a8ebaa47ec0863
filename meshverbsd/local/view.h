/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_VIEW_H
#define MD_VIEW_H

#include "bounds.h"
#include "config.h"
#include "desc.h"
#include "drained.h"
#include "topo.h"

/*
 * What this host has to tell and where: its own description, the netdevs that beacons go out of, and the networks
 * that are on their links. Made from a topology snapshot; pure, immutable.
 */

/* A netdev of a RoCE port, or a VLAN of one; a netdev of IP over InfiniBand. */
struct md_net {
	uint32_t ifindex;
	uint32_t rail; /* in the description */
	char name[IF_NAMESIZE];
	bool running; /* up, with carrier */
	bool has_ipv6; /* a link-local address, without which no IPv6 beacon can be sent */
	bool has_ipv4;
};

/* Some of a view's nets: bit n of them is nets[n]. */
struct md_netset {
	uint64_t bits[MD_NETS_MAX / 64];
};

static inline void md_netset_add(struct md_netset *set, size_t n)
{
	set->bits[n / 64] |= 1ull << n % 64;
}

static inline bool md_netset_has(const struct md_netset *set, size_t n)
{
	return set->bits[n / 64] >> n % 64 & 1;
}

static inline bool md_netset_meets(const struct md_netset *a, const struct md_netset *b)
{
	uint64_t both = 0;

	for (size_t i = 0; i < sizeof(a->bits) / sizeof(a->bits[0]); i++)
		both |= a->bits[i] & b->bits[i];
	return both;
}

/* An address of one of these netdevs with its network. */
struct md_onlink {
	uint32_t ifindex;
	union ibv_gid prefix;
	uint8_t prefix_len; /* bits of the GID */
};

struct md_view {
	uint64_t number; /* watch.c's, of all that there have been: what follows from a view may be kept with it. 0: none */
	struct md_desc *desc;
	size_t n_nets, n_onlinks;
	struct md_net nets[MD_NETS_MAX];
	struct md_onlink *onlinks;
	uint32_t *gid_ifindexes; /* netdev of each GID of @desc; 0: none */
	uint64_t running; /* bit per rail: its port is active, its netdev runs; also of one that is drained */
	uint32_t rail_ifindexes[MD_RAILS_MAX]; /* netdev of each rail, or that it had when that could be told; 0: not known */
	uint64_t *kept_until_ns; /* of each GID of @desc: how long it is kept though it has gone (kept.h), 0: it is there; NULL: all are */
};

/**
 * md_view_make - describe this host
 * @topo: with devices, netdevs and addresses
 * @drained: devices that are announced as down, with MV_RAIL_DRAINED, whatever they are; NULL: none
 * @default_ifindex: the one netdev that holds the default route, 0: none, or several
 * @ret: to be released with md_view_free()
 *
 * GIDs whose netdev is of another network namespace are left out (InfiniBand's have no netdev and stay); so is what
 * exceeds the limits. config->exclude sets MV_RAIL_EXCLUDED and takes the port's netdevs out of the nets; the rail
 * of @default_ifindex gets the flag if config->exclude_default_route and some other rail is left, but keeps its
 * netdevs.
 *
 * Return: 0 or -ENOMEM.
 */
int md_view_make(const struct mv_topo *topo, const struct mv_config *config, const struct md_drained *drained,
		 uint32_t default_ifindex, struct md_view **ret);
void md_view_free(struct md_view *view); /* NULL is fine */

/** md_view_same - do both say the same? How long GIDs are kept does not count. */
bool md_view_same(const struct md_view *a, const struct md_view *b);

/** md_view_net - the net of an interface, NULL: none */
const struct md_net *md_view_net(const struct md_view *view, uint32_t ifindex);

/**
 * md_view_gid_ifindex - the netdev that an address of ours is on
 *
 * Return: 0 when it is not ours, has none, or is on several.
 */
uint32_t md_view_gid_ifindex(const struct md_view *view, const union ibv_gid *gid);

/** md_view_has_gid - is it in our own table, or kept? */
bool md_view_has_gid(const struct md_view *view, const union ibv_gid *gid);

/** md_view_keeps_gid - has it gone from our table, and is kept? Then it is another host's as soon as one has it. */
bool md_view_keeps_gid(const struct md_view *view, const union ibv_gid *gid);

/**
 * md_view_devices - devices of ours that have a GID, each once
 * @ret: names, valid as long as the view
 *
 * Return: how many were written, at most @max.
 */
size_t md_view_devices(const struct md_view *view, const union ibv_gid *gid, const char **ret, size_t max);

/**
 * md_view_on_link - nets that have an address with @gid in its network; none for link-local ones
 *
 * All at once: there are hundreds of addresses where there are pods, and they are walked but once.
 */
struct md_netset md_view_on_link(const struct md_view *view, const union ibv_gid *gid);

/** md_view_is_rail_netdev - is it a netdev that GIDs belong to? */
bool md_view_is_rail_netdev(const struct mv_topo *topo, uint32_t ifindex);

#endif
