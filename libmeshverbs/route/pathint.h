/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PATHINT_H
#define MV_PATHINT_H

#include "pathfind.h"
#include "topo.h"

/* Shared by pathdecide.c and pathfind.c only. */

/* Do two GIDs of one family reach each other, as far as prefixes tell? */
enum reach {
	REACH_APART, /* in different subnets */
	REACH_UNKNOWN, /* a prefix is not known, and the other one covers the address or is not known either */
	REACH_SUBNET, /* each one's prefix covers the other */
};

static inline bool covers(const struct mv_dir_gid *gid, const union ibv_gid *other)
{
	return mv_gid_in_prefix(other, &gid->gid, gid->prefix_len);
}

static inline enum reach reach_of(const struct mv_dir_gid *a, const struct mv_dir_gid *b)
{
	if ((a->prefix_len && !covers(a, &b->gid)) || (b->prefix_len && !covers(b, &a->gid)))
		return REACH_APART;
	return a->prefix_len && b->prefix_len ? REACH_SUBNET : REACH_UNKNOWN;
}

static inline bool is_up(const struct mv_dir_rail *rail)
{
	return rail->flags & MV_RAIL_UP;
}

/* The subnet prefix is the first half of an InfiniBand GID. */
static inline bool same_ib_subnet(const union ibv_gid *a, const union ibv_gid *b)
{
	return mv_gid_in_prefix(a, b, 64);
}

/**
 * mv_path_unheard - do beacons say that two rails are on two links?
 *
 * Example: a triangle without a switch has one subnet on all cables. Then prefixes say that each rail reaches all others.
 *
 * True if @local hears others and does not hear @remote, although this host hears the host of @remote. A beacon may be
 * late or lost. So the caller believes beacons only if the kernel has found nobody: @by_links of struct
 * mv_path_request. Beacons have no VLAN tag, so they say nothing of GIDs in VLANs: prefix_decides().
 */
bool mv_path_unheard(const struct mv_directory *dir, uint32_t local, uint32_t remote);

/* Is it the subnet alone that joins the two GIDs? */
static inline bool prefix_decides(const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	return reach_of(own, remote) == REACH_SUBNET && !mv_dir_gid_routed(own, remote) && own->vlan_id == MV_VLAN_NONE &&
	       remote->vlan_id == MV_VLAN_NONE;
}

/**
 * mv_path_own_rail - Return: rail of the program's device and port, an index in @dir->rails; -1: not in the directory
 */
ssize_t mv_path_own_rail(const struct mv_directory *dir, const struct mv_path_request *request);

#endif
