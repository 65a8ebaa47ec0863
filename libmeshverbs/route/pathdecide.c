/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pathint.h"

#include <string.h>

#include "lidfind.h"

/* ---- one pair of GIDs --------------------------------------------------------------------------
 */

/* Has the host lost the address (GID in grace)? Then the port may be up, but does not serve the address. */
static bool is_gone(const struct mv_directory *dir, const struct mv_dir_rail *rail,
		    const union ibv_gid *gid)
{
	bool gone = false;

	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++) {
		if (!mv_gid_equal(&dir->gids[g].gid, gid))
			continue;
		if (!mv_dir_gid_in_grace(&dir->gids[g]))
			return false;
		gone = true;
	}
	return gone;
}

static bool carries(const struct mv_directory *dir, uint32_t rail, const union ibv_gid *gid)
{
	return is_up(&dir->rails[rail]) && !is_gone(dir, &dir->rails[rail], gid);
}

/* The prefix of subnets without a configured one. Routers do not forward it. */
static bool has_default_prefix(const union ibv_gid *gid)
{
	static const union ibv_gid prefix = {.raw = {0xfe, 0x80}};

	return mv_gid_in_prefix(gid, &prefix, 64);
}

/* ---- links before prefixes ---------------------------------------------------------------------
 */

/* Do beacons of any rail of @host arrive on any rail of this host? */
static bool is_heard(const struct mv_directory *dir, uint32_t host)
{
	const struct mv_dir_host *peer = &dir->hosts[host];

	for (uint32_t i = 0; i < dir->header->n_links; i++)
		if (dir->links[i].remote_rail - peer->first_rail < peer->n_rails)
			return true;
	return false;
}

bool mv_path_unheard(const struct mv_directory *dir, uint32_t local, uint32_t remote)
{
	const struct mv_dir_rail *a = &dir->rails[local], *b = &dir->rails[remote];

	return b->host && a->link_layer == IBV_LINK_LAYER_ETHERNET && is_up(a) && is_up(b) &&
	       !((a->flags | b->flags) & MV_RAIL_EXCLUDED) && !mv_directory_linked(dir, local, remote) &&
	       mv_directory_hears(dir, local) && is_heard(dir, b->host);
}

/* ---- the program's own path --------------------------------------------------------------------
 */

ssize_t mv_path_own_rail(const struct mv_directory *dir, const struct mv_path_request *request)
{
	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++)
		if (dir->rails[r].port == request->port_num &&
		    !strcmp(dir->rails[r].device, request->device))
			return r;
	return -1;
}

/*
 * The program's entry as in the directory. If the directory does not have it (a former address, or a container's), it
 * is made from the request: without a prefix, little speaks against it.
 */
static struct mv_dir_gid own_entry(const struct mv_directory *dir, uint32_t rail,
				   const struct mv_path_request *request)
{
	const struct mv_dir_rail *own = &dir->rails[rail];

	for (uint32_t g = own->first_gid; g < own->first_gid + own->n_gids; g++)
		if (dir->gids[g].type == request->sgid_type &&
		    mv_gid_equal(&dir->gids[g].gid, &request->sgid))
			return dir->gids[g];
	return (struct mv_dir_gid){.gid = request->sgid,
				   .rail = rail,
				   .vlan_id = MV_VLAN_NONE,
				   .type = request->sgid_type};
}

/* RoCE versions under which a rail has an address; 0: none is known. */
enum {
	HAS_V1 = 1,
	HAS_V2 = 2,
};

static unsigned int versions_of(const struct mv_directory *dir, const struct mv_dir_gid *gid)
{
	const struct mv_dir_rail *rail = &dir->rails[gid->rail];
	unsigned int versions = 0;

	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++) {
		if (!mv_gid_equal(&dir->gids[g].gid, &gid->gid))
			continue;
		if (dir->gids[g].type == MV_GID_TYPE_ROCE_V1)
			versions |= HAS_V1;
		else if (dir->gids[g].type == MV_GID_TYPE_ROCE_V2)
			versions |= HAS_V2;
	}
	return versions;
}

/* Do the RoCE versions fit? Only the peer knows which version its program uses. */
static enum mv_path_verdict check_version(const struct mv_directory *dir, const struct mv_dir_gid *own,
					  const struct mv_dir_gid *remote)
{
	unsigned int versions = versions_of(dir, remote);

	if (own->type == MV_GID_TYPE_ROCE_V1 && (versions & HAS_V2))
		return MV_PATH_ASK;
	if (own->type == MV_GID_TYPE_ROCE_V2 && versions == HAS_V1)
		return MV_PATH_APART;
	return MV_PATH_WORKS;
}

static bool addresses_fit(const struct mv_directory *dir, const struct mv_dir_gid *own,
			  const struct mv_dir_gid *remote, bool routed, bool by_links)
{
	enum mv_gid_family a = mv_gid_family(&own->gid), b = mv_gid_family(&remote->gid);

	/* IPv6 addresses of both scopes can communicate on one link. No route leads to or from a link-local address. */
	if (a == MV_FAMILY_LINK_LOCAL || b == MV_FAMILY_LINK_LOCAL)
		return a != MV_FAMILY_IPV4 && b != MV_FAMILY_IPV4 &&
		       mv_directory_linked(dir, own->rail, remote->rail) &&
		       (a != MV_FAMILY_LINK_LOCAL || a == b || routed);
	if (a != b)
		return false;
	/* The kernel's route to an address of the own subnet leads to the link as well. */
	if (by_links && prefix_decides(own, remote) && mv_path_unheard(dir, own->rail, remote->rail))
		return false;
	return routed || reach_of(own, remote) != REACH_APART;
}

/* Is the own address global, and is the remote link-local address on several netdevs? */
static bool netdev_ambiguous(const struct mv_directory *dir, const struct mv_dir_gid *own,
			     const struct mv_dir_gid *remote)
{
	const struct mv_dir_rail *rail = &dir->rails[remote->rail];
	unsigned int n = 0;

	if (mv_gid_family(&own->gid) == MV_FAMILY_LINK_LOCAL ||
	    mv_gid_family(&remote->gid) != MV_FAMILY_LINK_LOCAL)
		return false;
	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++)
		n += dir->gids[g].type == remote->type &&
		     mv_gid_equal(&dir->gids[g].gid, &remote->gid);
	return n > 1;
}

/*
 * No router leads from a default prefix to another one. A subnet manager may have changed the prefix just now, and the
 * program's table, or a directory entry, may be old. A connection then asks the peer; datagrams (@by_links) do not.
 */
static bool prefixes_apart(const struct mv_directory *dir, const struct mv_path_request *request,
			   const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	const struct mv_dir_rail *rail = &dir->rails[own->rail];

	if (!has_default_prefix(&own->gid) && !has_default_prefix(&remote->gid))
		return false;
	if (!request->by_links)
		return true;
	if (mv_directory_linked(dir, own->rail, remote->rail))
		return false;
	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++)
		if (mv_gid_equal(&dir->gids[g].gid, &own->gid))
			return true;
	return false;
}

/* Only subnet managers know routers between subnets. A program that asks for a path with a GRH usually has such a router. */
static enum mv_path_verdict check_ib(const struct mv_directory *dir, const struct mv_path_request *request,
				     const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	const struct mv_dir_rail *port = &dir->rails[remote->rail];
	bool one_subnet = same_ib_subnet(&own->gid, &remote->gid), apart;

	if (one_subnet)
		apart = request->by_links && mv_lid_proven_apart(dir, own->rail, remote->rail);
	else
		apart = prefixes_apart(dir, request, own, remote);
	if (apart && (!request->dlid || mv_lid_is_of(port->lid, port->lmc, request->dlid)))
		return MV_PATH_APART;
	return one_subnet ? MV_PATH_WORKS : MV_PATH_UNKNOWN;
}

/*
 * Without a route to a global address, the kernel may resolve the address on the link. Beacons have no VLAN tag, so
 * VLAN ids have to agree.
 */
static bool asks_on_link(const struct mv_directory *dir, const struct mv_dir_gid *own,
			 const struct mv_dir_gid *remote)
{
	enum mv_gid_family family = mv_gid_family(&own->gid);

	return family == mv_gid_family(&remote->gid) && family != MV_FAMILY_LINK_LOCAL &&
	       own->vlan_id == remote->vlan_id && mv_directory_linked(dir, own->rail, remote->rail) &&
	       check_version(dir, own, remote) != MV_PATH_APART;
}

static bool is_link_local(const union ibv_gid *gid)
{
	return mv_gid_family(gid) == MV_FAMILY_LINK_LOCAL;
}

/* If no beacons arrive, now or ever (filtered multicast), it is not known which hosts are on the link. */
static bool is_deaf(const struct mv_directory *dir, const struct mv_dir_gid *own,
		    const struct mv_dir_gid *remote)
{
	return (is_link_local(&own->gid) || is_link_local(&remote->gid)) &&
	       mv_gid_family(&own->gid) != MV_FAMILY_IPV4 &&
	       mv_gid_family(&remote->gid) != MV_FAMILY_IPV4 &&
	       !mv_directory_hears(dir, own->rail);
}

static enum mv_path_verdict check_misfit(const struct mv_directory *dir, const struct mv_dir_gid *own,
					 const struct mv_dir_gid *remote)
{
	if (asks_on_link(dir, own, remote))
		return MV_PATH_OTHER_SUBNET;
	return is_deaf(dir, own, remote) ? MV_PATH_UNKNOWN : MV_PATH_APART;
}

static enum mv_path_verdict check_pair(const struct mv_directory *dir, const struct mv_path_request *request,
				       const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	const struct mv_dir_rail *a = &dir->rails[own->rail], *b = &dir->rails[remote->rail];
	enum mv_path_verdict verdict;

	if (!carries(dir, own->rail, &own->gid))
		return MV_PATH_LOCAL_DOWN;
	if (!carries(dir, remote->rail, &remote->gid))
		return MV_PATH_REMOTE_DOWN;
	if (a->link_layer != b->link_layer)
		return MV_PATH_APART;
	if (a->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return check_ib(dir, request, own, remote);
	if (!addresses_fit(dir, own, remote, request->routed, request->by_links))
		return check_misfit(dir, own, remote);
	verdict = check_version(dir, own, remote);
	if (verdict == MV_PATH_WORKS && netdev_ambiguous(dir, own, remote))
		return MV_PATH_ASK;
	return verdict;
}

/* Several rails may have the destination: the program means one that works. */
static unsigned int preference(enum mv_path_verdict verdict)
{
	switch (verdict) {
	case MV_PATH_WORKS:
		return 5;
	case MV_PATH_ASK:
		return 4;
	case MV_PATH_UNKNOWN:
		return 3;
	case MV_PATH_OTHER_SUBNET:
		return 2;
	case MV_PATH_APART:
		return 1;
	default:
		return 0;
	}
}

struct decision {
	enum mv_path_verdict verdict;
	uint32_t host, rail;
	bool found, several_hosts, several_fit;
};

static bool fits(enum mv_path_verdict verdict)
{
	return verdict == MV_PATH_WORKS || verdict == MV_PATH_ASK;
}

static void take_better(struct decision *best, enum mv_path_verdict verdict, uint32_t host, uint32_t rail)
{
	if (best->found && best->host != host) {
		best->several_hosts = true;
		best->several_fit |= fits(verdict) && fits(best->verdict);
	}
	if (best->found && preference(verdict) <= preference(best->verdict))
		return;
	best->found = true;
	best->verdict = verdict;
	best->host = host;
	best->rail = rail;
}

static bool is_of(const struct mv_directory *dir, uint32_t host, const struct mv_path_request *request)
{
	return !request->host || !memcmp(&dir->hosts[host].id, request->host, sizeof(*request->host));
}

/* A host on Ethernet can announce the GID of an InfiniBand port. A connection from an InfiniBand port does not go there. */
static bool is_ib_gid_on_ethernet(const struct mv_directory *dir, const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	return dir->rails[own->rail].link_layer == IBV_LINK_LAYER_INFINIBAND && mv_gid_family(&remote->gid) != MV_FAMILY_IPV4 &&
	       dir->rails[remote->rail].link_layer != IBV_LINK_LAYER_INFINIBAND;
}

/* Is the host that announces the destination accepted as the peer? For an existing connection the peer's host is known. */
static bool is_believed(const struct mv_directory *dir, const struct mv_path_request *request, const struct mv_dir_gid *own,
			const struct mv_dir_gid *remote)
{
	if (request->made)
		return is_of(dir, dir->rails[remote->rail].host, request);
	return !mv_dir_gid_is_in_doubt(remote, request->routed) && !is_ib_gid_on_ethernet(dir, own, remote);
}

/* Return: false: the destination is on this host, or no host is accepted; verdict in *ret_verdict. */
static bool check_all(const struct mv_directory *dir, const struct mv_path_request *request,
		      const struct mv_dir_gid *own, struct decision *best, enum mv_path_verdict *ret_verdict)
{
	for (ssize_t at = -1;
	     (at = mv_directory_find_gid(dir, &request->dgid, (size_t)(at + 1))) >= 0;) {
		const struct mv_dir_gid *remote = &dir->gids[dir->order[at]];
		uint32_t host = dir->rails[remote->rail].host;

		if (!host) {
			*ret_verdict = MV_PATH_SELF;
			return false;
		}
		if (!is_believed(dir, request, own, remote))
			continue;
		take_better(best, check_pair(dir, request, own, remote), host, remote->rail);
	}
	*ret_verdict = MV_PATH_UNKNOWN;
	return best->found;
}

/*
 * If several ports have the address, the program's own port is preferred. A port that is down may have lost its
 * addresses; then the request tells whether the address was the own port's.
 */
static enum mv_path_verdict check_own_host(const struct mv_directory *dir, const struct mv_path_request *request,
					   uint32_t rail, uint32_t *ret_host, uint32_t *ret_remote_rail)
{
	uint32_t remote = mv_gid_equal(&request->dgid, &request->sgid) ? rail : UINT32_MAX, r;

	for (ssize_t at = -1;
	     (at = mv_directory_find_gid(dir, &request->dgid, (size_t)(at + 1))) >= 0;) {
		r = dir->gids[dir->order[at]].rail;
		if (!dir->rails[r].host && (remote == UINT32_MAX || r == rail))
			remote = r;
	}
	if (remote == UINT32_MAX)
		return MV_PATH_UNKNOWN;
	*ret_host = 0;
	*ret_remote_rail = remote;
	if (!carries(dir, rail, &request->sgid))
		return MV_PATH_LOCAL_DOWN;
	return carries(dir, remote, &request->dgid) ? MV_PATH_WORKS : MV_PATH_REMOTE_DOWN;
}

/*
 * Is the port's netdev in another network namespace, e.g. a pod's? An Ethernet port with a visible netdev has a GID.
 * Without one, the agent does not see the netdev, nor its carrier.
 */
static bool is_elsewhere(const struct mv_dir_rail *rail)
{
	return !rail->n_gids && rail->link_layer == IBV_LINK_LAYER_ETHERNET;
}

enum mv_path_verdict mv_path_decide(const struct mv_directory *dir, const struct mv_path_request *request,
				    uint32_t *ret_host, uint32_t *ret_remote_rail)
{
	ssize_t rail = mv_path_own_rail(dir, request);
	enum mv_path_verdict verdict;
	struct decision best = {0};
	struct mv_dir_gid own;

	if (rail < 0 || mv_gid_is_zero(&request->dgid) || is_elsewhere(&dir->rails[rail]))
		return MV_PATH_UNKNOWN;
	if (request->own_host)
		return check_own_host(dir, request, (uint32_t)rail, ret_host, ret_remote_rail);
	own = own_entry(dir, (uint32_t)rail, request);
	if (!check_all(dir, request, &own, &best, &verdict))
		return verdict;
	/* Several hosts have the address (link-local, set by hand), and none fits. */
	if (best.several_hosts && !fits(best.verdict))
		return MV_PATH_UNKNOWN;
	/* Several fit; one of them may have taken the address to pose as another host of the link. PSNs other than 0 will tell. */
	if (best.several_fit && !request->proved && !request->made)
		return MV_PATH_UNKNOWN;
	if (mv_gid_is_zero(&request->sgid))
		best.verdict = MV_PATH_NO_ENTRY;
	if (best.verdict == MV_PATH_UNKNOWN)
		return MV_PATH_UNKNOWN;
	*ret_host = best.host;
	*ret_remote_rail = best.rail;
	return best.verdict;
}

/* ---- can two addresses reach each other? ---- */

/* The two addresses share neither subnet nor link, and no route joins them. */
static bool nothing_joins(const struct mv_directory *dir, const struct mv_dir_gid *own, const struct mv_dir_gid *remote)
{
	return mv_dir_gid_may_be_routed(own) && mv_dir_gid_may_be_routed(remote) &&
	       mv_gid_family(&own->gid) == mv_gid_family(&remote->gid) && reach_of(own, remote) == REACH_APART &&
	       !mv_directory_linked(dir, own->rail, remote->rail) && !mv_dir_gid_routed(own, remote);
}

bool mv_path_may_join(const struct mv_directory *dir, const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mv_dir_gid *own = NULL;
	ssize_t at = -1;
	bool apart = false;

	while ((at = mv_directory_find_gid(dir, local, (size_t)(at + 1))) >= 0)
		if (!dir->rails[dir->gids[dir->order[at]].rail].host && mv_dir_gid_may_be_routed(&dir->gids[dir->order[at]]))
			own = &dir->gids[dir->order[at]];
	at = -1;
	while (own && (at = mv_directory_find_gid(dir, remote, (size_t)(at + 1))) >= 0) {
		const struct mv_dir_gid *there = &dir->gids[dir->order[at]];

		if (!dir->rails[there->rail].host || !mv_dir_gid_may_be_routed(there))
			continue;
		if (!nothing_joins(dir, own, there))
			return true;
		apart = true;
	}
	return !apart;
}

/* ---- names and texts ---- */

const char *mv_path_verdict_name(enum mv_path_verdict verdict)
{
	switch (verdict) {
	case MV_PATH_UNKNOWN:
		return "unknown";
	case MV_PATH_SELF:
		return "self";
	case MV_PATH_WORKS:
		return "works";
	case MV_PATH_ASK:
		return "ask";
	case MV_PATH_LOCAL_DOWN:
		return "local-down";
	case MV_PATH_REMOTE_DOWN:
		return "remote-down";
	case MV_PATH_APART:
		return "apart";
	case MV_PATH_OTHER_SUBNET:
		return "other-subnet";
	case MV_PATH_NO_ENTRY:
		return "no-entry";
	}
	return "invalid";
}

const char *mv_path_verdict_text(enum mv_path_verdict verdict)
{
	switch (verdict) {
	case MV_PATH_UNKNOWN:
		return "the destination's host is not in the directory, or only an InfiniBand "
		       "router can lead to it";
	case MV_PATH_SELF:
		return "the destination is this host";
	case MV_PATH_WORKS:
		return "both ends fit, nothing has to be agreed upon";
	case MV_PATH_ASK:
		return "the peer has to say which RoCE version or netdev its entry has";
	case MV_PATH_LOCAL_DOWN:
		return "the program's port is down";
	case MV_PATH_REMOTE_DOWN:
		return "the destination's port is down";
	case MV_PATH_APART:
		return "the two addresses are of different subnets, links, families or RoCE "
		       "versions";
	case MV_PATH_OTHER_SUBNET:
		return "the two addresses are of different subnets of one link, without a route";
	case MV_PATH_NO_ENTRY:
		return "the program's GID index is empty";
	}
	return "invalid";
}
