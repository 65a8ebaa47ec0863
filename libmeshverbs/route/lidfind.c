/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "lidfind.h"

#include <errno.h>
#include <string.h>

#define NO_RAIL UINT32_MAX

static bool is_infiniband(const struct mv_dir_rail *rail)
{
	return rail->link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static bool has_lid(const struct mv_dir_rail *rail, uint16_t lid)
{
	return mv_lid_is_of(rail->lid, rail->lmc, lid);
}

/* The GID of the port itself (index 0); its first half is the subnet prefix. NULL: not known. */
static const union ibv_gid *port_gid(const struct mv_directory *dir, const struct mv_dir_rail *rail)
{
	for (uint32_t g = rail->first_gid; is_infiniband(rail) && g < rail->first_gid + rail->n_gids; g++)
		if (dir->gids[g].type == MV_GID_TYPE_IB && !dir->gids[g].index)
			return &dir->gids[g].gid;
	return NULL;
}

static bool same_prefix(const union ibv_gid *a, const union ibv_gid *b)
{
	return a->global.subnet_prefix == b->global.subnet_prefix;
}

/* Does the agent send beacons on a netdev of the port while the port is up? Older agents, without IPoIB, name no netdev. */
static bool may_speak(const struct mv_dir_rail *rail)
{
	return rail->netdev[0] && !(rail->flags & MV_RAIL_EXCLUDED);
}

/* Beacons are also sent on a drained port. */
static bool speaks(const struct mv_dir_rail *rail)
{
	return may_speak(rail) && (rail->flags & (MV_RAIL_UP | MV_RAIL_DRAINED));
}

bool mv_lid_other_fabric(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail)
{
	const struct mv_dir_rail *local = &dir->rails[local_rail], *remote = &dir->rails[remote_rail];

	return is_infiniband(local) && is_infiniband(remote) && speaks(local) && speaks(remote) &&
	       !mv_directory_linked(dir, local_rail, remote_rail);
}

/* Does @local_rail hear ports, of which @other, a port of this host, hears none? */
static bool hears_others(const struct mv_directory *dir, uint32_t local_rail, uint32_t other)
{
	bool hears = false;

	for (uint32_t l = 0; l < dir->header->n_links; l++) {
		uint32_t heard = dir->links[l].remote_rail;

		if (dir->links[l].local_rail != local_rail)
			continue;
		if (mv_directory_linked(dir, other, heard))
			return false;
		hears |= speaks(&dir->rails[heard]);
	}
	return hears;
}

bool mv_lid_proven_apart(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail)
{
	bool proven = false;

	if (!mv_lid_other_fabric(dir, local_rail, remote_rail))
		return false;
	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++) {
		if (!mv_directory_linked(dir, r, remote_rail))
			continue;
		proven = speaks(&dir->rails[r]) && hears_others(dir, local_rail, r);
		if (!proven)
			return false;
	}
	return proven;
}

/* Return: a rail that @local_rail hears, and that other ports of its fabric could hear; NO_RAIL: none. */
static uint32_t any_heard(const struct mv_directory *dir, uint32_t local_rail)
{
	for (uint32_t l = 0; l < dir->header->n_links; l++)
		if (dir->links[l].local_rail == local_rail && speaks(&dir->rails[dir->links[l].remote_rail]))
			return dir->links[l].remote_rail;
	return NO_RAIL;
}

/*
 * Do all own ports with that prefix hear the same port? Two fabrics have no port in common, so a port that one hears
 * and another does not shows that there are two.
 */
static bool is_one_fabric(const struct mv_directory *dir, const union ibv_gid *like)
{
	uint32_t first = NO_RAIL, heard = NO_RAIL;

	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++) {
		const union ibv_gid *gid = port_gid(dir, &dir->rails[r]);

		if (!gid || !same_prefix(gid, like) || !speaks(&dir->rails[r]))
			continue;
		if (first == NO_RAIL) {
			first = r;
			heard = any_heard(dir, r);
		} else if (heard == NO_RAIL ? any_heard(dir, r) != NO_RAIL : !mv_directory_linked(dir, r, heard)) {
			return false;
		}
	}
	return true;
}

static uint32_t find_own(const struct mv_directory *dir, const char *device, uint8_t port_num)
{
	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++)
		if (dir->rails[r].port == port_num && !strcmp(dir->rails[r].device, device))
			return r;
	return NO_RAIL;
}

/* Ports with that LID and prefix: those heard (so counts the program's port itself), and those that may be on its fabric. */
struct found {
	uint32_t n_heard, n_possible, heard, possible;
	bool ours; /* another port of this host has the LID, of which no beacon tells the fabric */
	bool untold; /* a port of another host has the LID, and the directory has no GID of that port */
};

static struct found find_all(const struct mv_directory *dir, uint32_t own, const union ibv_gid *own_gid, uint16_t dlid)
{
	struct found ret = {.heard = NO_RAIL, .possible = NO_RAIL};

	if (has_lid(&dir->rails[own], dlid))
		return (struct found){.n_heard = 1, .heard = own};
	for (uint32_t r = 0; r < dir->header->n_rails; r++) {
		const union ibv_gid *gid;

		if (!has_lid(&dir->rails[r], dlid))
			continue;
		gid = port_gid(dir, &dir->rails[r]);
		ret.untold |= is_infiniband(&dir->rails[r]) && dir->rails[r].host && !dir->rails[r].n_gids;
		if (!gid || !same_prefix(gid, own_gid))
			continue;
		if (!dir->rails[r].host) {
			ret.ours = true;
		} else if (mv_directory_linked(dir, own, r)) {
			ret.n_heard++;
			ret.heard = r;
		} else if (may_speak(&dir->rails[own]) && may_speak(&dir->rails[r]) && !mv_lid_other_fabric(dir, own, r)) {
			ret.n_possible++;
			ret.possible = r;
		}
	}
	return ret;
}

int mv_lid_find(const struct mv_directory *dir, const char *device, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret)
{
	uint32_t own = find_own(dir, device, port_num), remote;
	const union ibv_gid *own_gid = own == NO_RAIL ? NULL : port_gid(dir, &dir->rails[own]);
	struct found found;

	if (!own_gid)
		return -ENODEV;
	if (!mv_lid_is_unicast(dlid))
		return -EINVAL;
	found = find_all(dir, own, own_gid, dlid);
	if (!found.n_heard && found.ours)
		return -EALREADY;
	if (!found.n_heard && !found.n_possible)
		return found.untold ? -EACCES : -ENOENT;
	if (found.n_heard > 1 || (!found.n_heard && (found.n_possible > 1 || !is_one_fabric(dir, own_gid))))
		return -ENOTUNIQ;
	remote = found.n_heard ? found.heard : found.possible;
	ret->local = *own_gid;
	ret->remote = *port_gid(dir, &dir->rails[remote]);
	return 0;
}

const char *mv_lid_error_text(int err)
{
	switch (err) {
	case 0:
		return "its port is known";
	case -ENODEV:
		return "the port is not of InfiniBand, or the agent does not know it";
	case -EINVAL:
		return "it is no LID of one port";
	case -EALREADY:
		return "another port of this host has it";
	case -ENOENT:
		return "no host with an agent is known to have it in this subnet";
	case -EACCES:
		return "a port of another host has it, and without a fleet key nothing is believed of that (meshverbsd --make-key)";
	case -ENOTUNIQ:
		return "several fabrics with this subnet prefix may have it";
	default:
		return "it cannot be looked up";
	}
}
