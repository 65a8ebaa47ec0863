/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_VIEW_H
#define MD_VIEW_H

#include "bounds.h"
#include "config.h"
#include "desc.h"
#include "drained.h"
#include "topo.h"

/*
 * View of this host, for other hosts: its description, the netdevs on which beacons are sent, and the subnets on their
 * links. Made from a topology snapshot. Pure; immutable once made.
 */

/* The netdev of a RoCE port, or a VLAN of it; or a netdev of IP over InfiniBand. */
struct md_net {
	uint32_t ifindex;
	uint32_t rail; /* index in the description */
	char name[IF_NAMESIZE];
	bool running; /* IFF_UP and IFF_RUNNING */
	bool has_ipv6; /* has a link-local address, without which no IPv6 beacon can be sent */
	bool has_ipv4;
};

/* A subset of a view's nets: bit n stands for nets[n]. */
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

/* The subnet of an address of one of the nets. */
struct md_onlink {
	uint32_t ifindex;
	union ibv_gid prefix;
	uint8_t prefix_len; /* bits of the GID */
};

struct md_view {
	uint64_t number; /* serial number given by watch.c, from 1; caches that depend on a view store it. 0: not numbered */
	struct md_desc *desc;
	size_t n_nets, n_onlinks;
	struct md_net nets[MD_NETS_MAX];
	struct md_onlink *onlinks;
	uint32_t *gid_ifindexes; /* netdev of each GID of @desc; 0: none */
	uint64_t running; /* bit per rail: the port is active and its netdev runs. Also for drained rails */
	uint32_t rail_ifindexes[MD_RAILS_MAX]; /* netdev of each rail; the former one if it has no GIDs now; 0: not known */
	uint64_t *grace_until_ns; /* for each GID of @desc: until when it is in grace (gid_grace.h), 0: it is present; NULL: all are present */
};

/**
 * md_view_make - describe this host
 * @topo: with devices, netdevs and addresses
 * @drained: devices that are announced as down, with MV_RAIL_DRAINED, whatever their state; NULL: none
 * @default_ifindex: the only netdev with a default route; 0: none, or several
 * @ret: release with md_view_free()
 *
 * GIDs whose netdev is in another network namespace are left out (InfiniBand GIDs have no netdev and stay), and
 * whatever exceeds the limits. config->exclude sets MV_RAIL_EXCLUDED, and leaves out the port's netdevs.
 * config->exclude_default_route sets the flag for the rail of @default_ifindex if another rail is left; that rail keeps
 * its netdevs.
 *
 * Return: 0 or -ENOMEM.
 */
int md_view_make(const struct mv_topo *topo, const struct mv_config *config, const struct md_drained *drained,
		 uint32_t default_ifindex, struct md_view **ret);
void md_view_free(struct md_view *view); /* NULL is allowed */

/** md_view_same - do both views have the same content? The times of GIDs in grace do not count. */
bool md_view_same(const struct md_view *a, const struct md_view *b);

/** md_view_net - Return: the net of an interface, owned by @view; NULL: none */
const struct md_net *md_view_net(const struct md_view *view, uint32_t ifindex);

/**
 * md_view_gid_ifindex - the netdev of a GID of ours
 *
 * Return: ifindex; 0: the GID is not ours, has no netdev, or is on several.
 */
uint32_t md_view_gid_ifindex(const struct md_view *view, const union ibv_gid *gid);

/** md_view_has_gid - is the GID ours, present or in grace? */
bool md_view_has_gid(const struct md_view *view, const union ibv_gid *gid);

/** md_view_gid_in_grace - is the GID ours, and in grace? Then another host that has it takes it. */
bool md_view_gid_in_grace(const struct md_view *view, const union ibv_gid *gid);

/**
 * md_view_devices - devices of ours that have a GID, each once
 * @ret: gets device names, valid as long as @view
 *
 * Return: number of names, at most @max.
 */
size_t md_view_devices(const struct md_view *view, const union ibv_gid *gid, const char **ret, size_t max);

/**
 * md_view_on_link - nets with a subnet that contains @gid; none for link-local GIDs
 *
 * One call returns all nets, because a host with pods has hundreds of addresses, and each call searches all of them.
 */
struct md_netset md_view_on_link(const struct md_view *view, const union ibv_gid *gid);

/** md_view_is_rail_netdev - does any GID belong to the netdev? */
bool md_view_is_rail_netdev(const struct mv_topo *topo, uint32_t ifindex);

#endif
