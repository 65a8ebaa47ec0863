// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: other hosts, as in the directory. */
#include "ctl.h"
#include "doctor.h"
#include "shell_word.h"

#define NO_DIRECTORY "there is no directory of peers"

static const struct mv_directory *directory(struct doctor *d)
{
	if (!d->view_error && d->view.alive)
		return &d->view.dir;
	doctor_skip(d, NO_DIRECTORY);
	return NULL;
}

static void check_silent(struct doctor *d)
{
	const struct mv_directory *dir = directory(d);
	struct names names = {0};
	uint32_t h;

	for (h = 1; dir && h < dir->header->n_hosts; h++)
		if (!dir->hosts[h].agent_version)
			names_add(&names, dir->hosts[h].name);
	if (names.n)
		doctor_find(d, DOCTOR_ACTION, names_words(&names),
			    words("%zu hosts of the hosts file have not been heard", names.n),
			    words("start meshverbsd there, let UDP port %u pass, or take them out "
				  "of %s",
				  d->status.config.agent_port, d->status.config.agent_hosts));
}

static void check_versions(struct doctor *d)
{
	const struct mv_directory *dir = directory(d);
	struct names older = {0}, newer = {0};
	uint32_t h;

	for (h = 1; dir && h < dir->header->n_hosts; h++) {
		uint32_t version = dir->hosts[h].agent_version;

		if (version && version != MV_CTL_VERSION)
			names_add(version < MV_CTL_VERSION ? &older : &newer, dir->hosts[h].name);
	}
	if (older.n)
		doctor_find(d, DOCTOR_ACTION, names_words(&older),
			    words("%zu hosts have an agent of an older version", older.n),
			    words("upgrade meshverbs there"));
	if (newer.n)
		doctor_find(d, DOCTOR_ACTION, names_words(&newer),
			    words("%zu hosts have an agent of a newer version", newer.n),
			    words("upgrade meshverbs on this host"));
}

/* ---- MTU
 * -----------------------------------------------------------------------------------------------------
 */

/* Peers whose rails on the link of our rail have another path MTU. */
static void check_mtu_of(struct doctor *d, const struct mv_directory *dir, uint32_t local)
{
	const struct mv_dir_rail *ours = &dir->rails[local], *theirs, *first = NULL;
	struct names names = {0};
	uint32_t l, remote;

	for (l = 0; l < dir->header->n_links; l++) {
		remote = dir->links[l].remote_rail;
		theirs = &dir->rails[remote];
		if (dir->links[l].local_rail != local || !theirs->mtu_bytes ||
		    theirs->mtu_bytes == ours->mtu_bytes)
			continue;
		first = first ? first : theirs;
		names_add(&names, dir->hosts[theirs->host].name);
	}
	if (!first)
		return;
	doctor_find(d, DOCTOR_ACTION, words("%s (%s)", ours->device, ours->netdev),
		    words("its RoCE MTU is %u, that of %s on %s is %u; so it is on %zu rails of "
			  "that link",
			  ours->mtu_bytes, first->device, dir->hosts[first->host].name,
			  first->mtu_bytes, names.n),
		    words("give all netdevs of the link, and the switch, one MTU: ip link set %s "
			  "mtu 9000 (4200 is enough for RoCE "
			  "4096)",
			  MV_SHELL(ours->netdev)));
}

static void check_mtu(struct doctor *d)
{
	const struct mv_directory *dir = directory(d);
	uint32_t r;

	for (r = 0; dir && r < dir->hosts[0].n_rails; r++)
		if (dir->rails[r].mtu_bytes && doctor_serves(d, dir->rails[r].device))
			check_mtu_of(d, dir, r);
}

/* ---- addresses that two hosts have
 * ----------------------------------------------------------------------------------------- */

/* Reports each rail of another host that has this GID of ours. */
static void find_twins(struct doctor *d, const struct mv_directory *dir, const struct mv_dir_gid *ours)
{
	char gid[MV_GID_STRLEN];
	uint32_t g;

	for (g = 0; g < dir->header->n_gids; g++) {
		const struct mv_dir_rail *rail = &dir->rails[dir->gids[g].rail];

		if (!rail->host || dir->gids[g].type != ours->type || mv_dir_gid_in_grace(&dir->gids[g]) ||
		    !mv_gid_equal(&dir->gids[g].gid, &ours->gid))
			continue;
		doctor_find(d, DOCTOR_ACTION, words("%s (%s)", mv_gid_format(&ours->gid, gid), dir->rails[ours->rail].netdev),
			    words("%s of host %s has this address, too", rail->device, dir->hosts[rail->host].name),
			    words("give one of the two hosts another address; ip neigh on a third host shows which one it reaches"));
	}
}

static void check_addresses_twice(struct doctor *d)
{
	const struct mv_directory *dir = directory(d);
	const struct mv_dir_gid *gid;
	uint32_t g, before;

	for (g = 0; dir && g < dir->header->n_gids; g++) {
		gid = &dir->gids[g];
		if (dir->rails[gid->rail].host || mv_gid_family(&gid->gid) == MV_FAMILY_LINK_LOCAL || mv_dir_gid_in_grace(gid))
			continue;
		/* An address with RoCE v1 and v2 is reported once. */
		for (before = 0; before < g; before++)
			if (dir->gids[before].rail == gid->rail && mv_gid_equal(&dir->gids[before].gid, &gid->gid))
				break;
		if (before == g)
			find_twins(d, dir, gid);
	}
}

const struct doctor_check doctor_peer_checks[] = {
	{"peers-silent", "peers without an agent",
	 "Connections with these hosts stay as the programs make them.", check_silent},
	{"peers-version", "versions of the peers' agents",
	 "Connections with these hosts stay as the programs make them.", check_versions},
	{"addresses-twice", "addresses of this host that another host has, too",
	 "Packets for that address go to either host, and a connection to the other host is taken for one within this host.",
	 check_addresses_twice},
	{"mtu", "RoCE MTU of this host and its peers",
	 "A program that takes its own port's MTU sends packets that the other end drops: small "
	 "messages work, large ones fail.",
	 check_mtu},
	{0},
};
