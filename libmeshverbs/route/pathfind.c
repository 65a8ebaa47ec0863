/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pathfind.h"

#include <endian.h>
#include <string.h>

#include "lidfind.h"
#include "topo.h"

/* ---- one pair of GIDs --------------------------------------------------------------------------
 */

/* What the directory knows of the way between two GIDs, given that both are of one address family.
 */
enum reach {
	REACH_APART, /* in different subnets */
	REACH_UNKNOWN, /* a prefix is not known, the other one has nothing against it */
	REACH_SUBNET, /* each one's prefix covers the other */
};

static bool covers(const struct mv_dir_gid *gid, const union ibv_gid *other)
{
	return mv_gid_in_prefix(other, &gid->gid, gid->prefix_len);
}

static enum reach reach_of(const struct mv_dir_gid *a, const struct mv_dir_gid *b)
{
	if ((a->prefix_len && !covers(a, &b->gid)) || (b->prefix_len && !covers(b, &a->gid)))
		return REACH_APART;
	return a->prefix_len && b->prefix_len ? REACH_SUBNET : REACH_UNKNOWN;
}

static bool is_up(const struct mv_dir_rail *rail)
{
	return rail->flags & MV_RAIL_UP;
}

/* Has the address left its host's table, which only keeps it? Then its port may be up, but is of no
 * use to it. */
static bool is_gone(const struct mv_directory *dir, const struct mv_dir_rail *rail,
		    const union ibv_gid *gid)
{
	bool gone = false;

	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++) {
		if (!mv_gid_equal(&dir->gids[g].gid, gid))
			continue;
		if (!mv_dir_gid_is_kept(&dir->gids[g]))
			return false;
		gone = true;
	}
	return gone;
}

static bool carries(const struct mv_directory *dir, uint32_t rail, const union ibv_gid *gid)
{
	return is_up(&dir->rails[rail]) && !is_gone(dir, &dir->rails[rail], gid);
}

/* InfiniBand's subnet prefix is the first half of a GID. */
static bool same_ib_subnet(const union ibv_gid *a, const union ibv_gid *b)
{
	return mv_gid_in_prefix(a, b, 64);
}

/* Subnets without a prefix of their own have this one, and routers forward nothing from or to it. */
static bool has_default_prefix(const union ibv_gid *gid)
{
	static const union ibv_gid prefix = {.raw = {0xfe, 0x80}};

	return mv_gid_in_prefix(gid, &prefix, 64);
}

/* ---- the program's own path --------------------------------------------------------------------
 */

/* Which host's rail is that: an index into dir->rails, or -1. */
static ssize_t own_rail(const struct mv_directory *dir, const struct mv_path_request *request)
{
	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++)
		if (dir->rails[r].port == request->port_num &&
		    !strcmp(dir->rails[r].device, request->device))
			return r;
	return -1;
}

/*
 * The program's entry as the directory has it. One that it does not have (an address of a moment
 * ago, or of a container) is judged by what the request says: without a prefix there is little
 * against it.
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

/* The versions under which a rail has an address; 0 when the directory does not know any. */
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

/* Addresses fit; do the RoCE versions? Which one the peer's program took, only the peer knows. */
static enum mv_path_verdict judge_version(const struct mv_directory *dir,
					  const struct mv_dir_gid *own,
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
			  const struct mv_dir_gid *remote, bool routed)
{
	enum mv_gid_family a = mv_gid_family(&own->gid), b = mv_gid_family(&remote->gid);

	/* IPv6 of both scopes mixes on a link; no route leads to or from a link-local address. */
	if (a == MV_FAMILY_LINK_LOCAL || b == MV_FAMILY_LINK_LOCAL)
		return a != MV_FAMILY_IPV4 && b != MV_FAMILY_IPV4 &&
		       mv_directory_linked(dir, own->rail, remote->rail) &&
		       (a != MV_FAMILY_LINK_LOCAL || a == b || routed);
	return a == b && (routed || reach_of(own, remote) != REACH_APART);
}

/* A global own address; is the remote link-local one on several netdevs? */
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
 * Only the subnet managers know whether there is a router between two subnets. A program that asks
 * for a path with a GRH mostly does so because there is one.
 */
static enum mv_path_verdict judge_ib(const union ibv_gid *own, const union ibv_gid *remote)
{
	if (same_ib_subnet(own, remote))
		return MV_PATH_WORKS;
	return has_default_prefix(own) || has_default_prefix(remote) ? MV_PATH_APART :
								       MV_PATH_UNKNOWN;
}

/* Without a route of its own to a global address the kernel may find it on the link all the same. Beacons go without a tag. */
static bool asks_on_link(const struct mv_directory *dir, const struct mv_dir_gid *own,
			 const struct mv_dir_gid *remote)
{
	enum mv_gid_family family = mv_gid_family(&own->gid);

	return family == mv_gid_family(&remote->gid) && family != MV_FAMILY_LINK_LOCAL &&
	       own->vlan_id == remote->vlan_id &&
	       mv_directory_linked(dir, own->rail, remote->rail) &&
	       judge_version(dir, own, remote) != MV_PATH_APART;
}

static bool is_link_local(const union ibv_gid *gid)
{
	return mv_gid_family(gid) == MV_FAMILY_LINK_LOCAL;
}

/* Where beacons do not come through (filtered multicast), or not yet, nothing is known of who is on the link. */
static bool is_deaf(const struct mv_directory *dir, const struct mv_dir_gid *own,
		    const struct mv_dir_gid *remote)
{
	return (is_link_local(&own->gid) || is_link_local(&remote->gid)) &&
	       mv_gid_family(&own->gid) != MV_FAMILY_IPV4 &&
	       mv_gid_family(&remote->gid) != MV_FAMILY_IPV4 &&
	       !mv_directory_hears(dir, own->rail);
}

static enum mv_path_verdict judge_misfit(const struct mv_directory *dir,
					 const struct mv_dir_gid *own,
					 const struct mv_dir_gid *remote)
{
	if (asks_on_link(dir, own, remote))
		return MV_PATH_OTHER_SUBNET;
	return is_deaf(dir, own, remote) ? MV_PATH_UNKNOWN : MV_PATH_APART;
}

static enum mv_path_verdict judge_pair(const struct mv_directory *dir, const struct mv_dir_gid *own,
				       const struct mv_dir_gid *remote, bool routed)
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
		return judge_ib(&own->gid, &remote->gid);
	if (!addresses_fit(dir, own, remote, routed))
		return judge_misfit(dir, own, remote);
	verdict = judge_version(dir, own, remote);
	if (verdict == MV_PATH_WORKS && netdev_ambiguous(dir, own, remote))
		return MV_PATH_ASK;
	return verdict;
}

/* When several rails have the destination: the one that the program can mean is the one that works.
 */
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

struct judgement {
	enum mv_path_verdict verdict;
	uint32_t host, rail;
	bool found, several_hosts;
};

static void take_better(struct judgement *best, enum mv_path_verdict verdict, uint32_t host,
			uint32_t rail)
{
	if (best->found && best->host != host)
		best->several_hosts = true;
	if (best->found && preference(verdict) <= preference(best->verdict))
		return;
	best->found = true;
	best->verdict = verdict;
	best->host = host;
	best->rail = rail;
}

/* Return: false when the destination is on this host or nowhere: then *ret_verdict says so. */
static bool judge_all(const struct mv_directory *dir, const struct mv_path_request *request,
		      const struct mv_dir_gid *own, struct judgement *best,
		      enum mv_path_verdict *ret_verdict)
{
	for (ssize_t at = -1;
	     (at = mv_directory_find_gid(dir, &request->dgid, (size_t)(at + 1))) >= 0;) {
		const struct mv_dir_gid *remote = &dir->gids[dir->order[at]];
		uint32_t host = dir->rails[remote->rail].host;

		if (!host) {
			*ret_verdict = MV_PATH_SELF;
			return false;
		}
		take_better(best, judge_pair(dir, own, remote, request->routed), host,
			    remote->rail);
	}
	*ret_verdict = MV_PATH_UNKNOWN;
	return best->found;
}

/*
 * An address that several ports have is taken for that of the program's own. Of a port that is shut
 * down there may be none any more; that of the program's own is known all the same.
 */
static enum mv_path_verdict judge_own_host(const struct mv_directory *dir,
					   const struct mv_path_request *request, uint32_t rail,
					   uint32_t *ret_host, uint32_t *ret_remote_rail)
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
 * Every netdev with a port of Ethernet has a GID there. An agent that knows none does not see the netdev, which is in another network
 * namespace (a pod's), nor whether it has carrier.
 */
static bool is_elsewhere(const struct mv_dir_rail *rail)
{
	return !rail->n_gids && rail->link_layer == IBV_LINK_LAYER_ETHERNET;
}

enum mv_path_verdict mv_path_judge(const struct mv_directory *dir,
				   const struct mv_path_request *request, uint32_t *ret_host,
				   uint32_t *ret_remote_rail)
{
	ssize_t rail = own_rail(dir, request);
	enum mv_path_verdict verdict;
	struct judgement best = {0};
	struct mv_dir_gid own;

	if (rail < 0 || mv_gid_is_zero(&request->dgid) || is_elsewhere(&dir->rails[rail]))
		return MV_PATH_UNKNOWN;
	if (request->own_host)
		return judge_own_host(dir, request, (uint32_t)rail, ret_host, ret_remote_rail);
	own = own_entry(dir, (uint32_t)rail, request);
	if (!judge_all(dir, request, &own, &best, &verdict))
		return verdict;
	/* An address of several hosts (a link-local one chosen by hand): which one is meant is not
	 * known. */
	if (best.several_hosts && best.verdict != MV_PATH_WORKS && best.verdict != MV_PATH_ASK)
		return MV_PATH_UNKNOWN;
	if (mv_gid_is_zero(&request->sgid))
		best.verdict = MV_PATH_NO_ENTRY;
	if (best.verdict == MV_PATH_UNKNOWN)
		return MV_PATH_UNKNOWN;
	*ret_host = best.host;
	*ret_remote_rail = best.rail;
	return best.verdict;
}

/* ---- other paths -------------------------------------------------------------------------------
 */

/* A path with what its rank depends on. */
struct ranked {
	struct mv_path path;
	uint8_t routed; /* by a router, not on a link or in a subnet */
	uint8_t n_kept; /* how many of the programs' own addresses it has */
	uint8_t family_rank; /* 0 is best */
	uint8_t near; /* on the NUMA node of the program's own device */
};

struct search {
	const struct mv_directory *dir;
	const struct mv_path_request *request;
	ssize_t own_rail; /* -1: not in the directory */
	uint32_t remote_rail;
	struct ranked best[MV_PATH_FIND_MAX];
	size_t n, max;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Negative: @a is to be preferred. The first difference counts. */
static int ranked_cmp(const struct ranked *a, const struct ranked *b)
{
	const struct mv_path *p = &a->path, *q = &b->path;
	int order;

	if ((order = compare_numbers(q->linked, p->linked)))
		return order;
	if ((order = compare_numbers(a->routed, b->routed)))
		return order;
	if ((order = __builtin_popcount(q->stays) - __builtin_popcount(p->stays)))
		return order;
	if ((order = compare_numbers(b->n_kept, a->n_kept)))
		return order;
	if ((order = compare_numbers(q->rate_mbps, p->rate_mbps)))
		return order;
	if ((order = compare_numbers(a->family_rank, b->family_rank)))
		return order;
	/* The enumeration ascends from v1 to v2. */
	if ((order = compare_numbers(q->type, p->type)))
		return order;
	if ((order = compare_numbers(b->near, a->near)))
		return order;
	if ((order = compare_numbers(p->local_rail, q->local_rail)))
		return order;
	if ((order = compare_numbers(p->remote_rail, q->remote_rail)))
		return order;
	order = memcmp(p->local_gid.raw, q->local_gid.raw, sizeof(p->local_gid.raw));
	if (order)
		return order;
	return memcmp(p->remote_gid.raw, q->remote_gid.raw, sizeof(p->remote_gid.raw));
}

static bool eligible(const struct search *s, const struct mv_dir_rail *rail)
{
	return (is_up(rail) || s->request->down_too) && !(rail->flags & MV_RAIL_EXCLUDED);
}

/*
 * Two rails, the GIDs of which are all compared with each other: a port that serves pods has a
 * hundred and more.
 */
struct rails {
	uint32_t local, remote;
	bool linked;
	bool all; /* all pairs are wanted, not the best one */
	bool has_dgid; /* the remote one */
	bool found;
	struct ranked best; /* if found */
	struct ranked like; /* no pair of GIDs of theirs ranks higher */
};

/* A local GID, with what each comparison takes of it. */
struct local_end {
	const struct mv_dir_gid *gid;
	enum mv_gid_family family;
	__be64 mask[2]; /* the bits that a GID it can talk to has in common with it */
};

static __be64 first_bits(unsigned int n)
{
	if (!n)
		return 0;
	return htobe64(n < 64 ? UINT64_MAX << (64 - n) : UINT64_MAX);
}

static struct local_end local_end(const struct mv_dir_gid *gid)
{
	struct local_end end = {.gid = gid, .family = mv_gid_family(&gid->gid)};
	unsigned int n_bits = gid->prefix_len;

	if (gid->type == MV_GID_TYPE_IB)
		n_bits = 64; /* same_ib_subnet() */
	else if (end.family == MV_FAMILY_LINK_LOCAL)
		n_bits = 0; /* the link decides */
	end.mask[0] = first_bits(n_bits);
	end.mask[1] = first_bits(n_bits > 64 ? n_bits - 64 : 0);
	return end;
}

static bool begins_alike(const struct local_end *end, const union ibv_gid *gid)
{
	const union ibv_gid *own = &end->gid->gid;

	return !(((own->global.subnet_prefix ^ gid->global.subnet_prefix) & end->mask[0]) |
		 ((own->global.interface_id ^ gid->global.interface_id) & end->mask[1]));
}

/* One whose address is gone while its port is down is a way again when both are back, like the port
 * itself. */
static bool types_fit(const struct search *s, const struct mv_dir_gid *a,
		      const struct mv_dir_gid *b)
{
	if (a->type == b->type && a->type != MV_GID_TYPE_UNKNOWN)
		return true;
	return s->request->down_too && (mv_dir_gid_is_kept(a) || mv_dir_gid_is_kept(b));
}

/* What is cheap goes first, for few pairs get any further. */
static bool pair_is_near(const struct search *s, const struct local_end *end,
			  const struct mv_dir_gid *b, bool linked)
{
	const struct mv_dir_gid *a = end->gid;
	enum reach reach;

	if (!types_fit(s, a, b) || !begins_alike(end, &b->gid))
		return false;
	if (a->type == MV_GID_TYPE_IB)
		return true;
	if (end->family == MV_FAMILY_MULTICAST || end->family != mv_gid_family(&b->gid))
		return false;
	/* Beacons go without a tag: they prove nothing of the link's VLANs beyond that both have
	 * them. */
	if (end->family == MV_FAMILY_LINK_LOCAL)
		return linked && a->vlan_id == b->vlan_id;
	reach = reach_of(a, b);
	return reach == REACH_SUBNET || (linked && reach == REACH_UNKNOWN);
}

static bool pair_is_routed(const struct search *s, const struct local_end *end, const struct mv_dir_gid *b)
{
	return s->dir->rails[b->rail].host && b->routed_from && types_fit(s, end->gid, b) && mv_dir_gid_routed(end->gid, b);
}

/* Two entries of one rail: the way of an address to itself? */
static bool is_loop(const struct local_end *end, const struct mv_dir_gid *b)
{
	return end->gid == b && b->type != MV_GID_TYPE_UNKNOWN &&
	       end->family != MV_FAMILY_MULTICAST;
}

static uint8_t family_rank(enum mv_gid_family family)
{
	switch (family) {
	case MV_FAMILY_IPV4:
		return 0;
	case MV_FAMILY_IPV6:
		return 1;
	default:
		return 2;
	}
}

static uint32_t smaller_known(uint32_t a, uint32_t b)
{
	return a < b ? a : b; /* 0, unknown, stays 0 */
}

static bool has_gid(const struct mv_directory *dir, const struct mv_dir_rail *rail,
		    const union ibv_gid *gid)
{
	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++)
		if (mv_gid_equal(&dir->gids[g].gid, gid))
			return true;
	return false;
}

/* As all of their pairs rank; what the GIDs decide is as good as it can be. */
static struct ranked rank_rails(const struct search *s, const struct rails *rails)
{
	const struct mv_dir_rail *local = &s->dir->rails[rails->local];
	const struct mv_dir_rail *remote = &s->dir->rails[rails->remote];
	struct ranked ranked = {
		.path = {.local_rail = rails->local,
			 .remote_rail = rails->remote,
			 .type = MV_GID_TYPE_ROCE_V2,
			 .stays = (uint8_t)((rails->local == s->own_rail) |
					    (rails->remote == s->remote_rail) << 1),
			 .linked = rails->linked,
			 .mtu_bytes = (uint16_t)smaller_known(local->mtu_bytes, remote->mtu_bytes),
			 .rate_mbps = smaller_known(local->rate_mbps, remote->rate_mbps)},
		.n_kept = (uint8_t)(has_gid(s->dir, local, &s->request->sgid) + rails->has_dgid),
	};

	ranked.near = s->own_rail >= 0 && local->numa_node >= 0 &&
		      local->numa_node == s->dir->rails[s->own_rail].numa_node;
	return ranked;
}

/* Keeps the best s->max in order. */
static void insert(struct search *s, const struct ranked *ranked)
{
	size_t at = s->n;

	while (at && ranked_cmp(ranked, &s->best[at - 1]) < 0)
		at--;
	if (at == s->max)
		return;
	if (s->n < s->max)
		s->n++;
	memmove(&s->best[at + 1], &s->best[at], (s->n - 1 - at) * sizeof(s->best[0]));
	s->best[at] = *ranked;
}

/* Would one that ranks like that, or lower, be left out in the end? */
static bool is_out(const struct search *s, const struct rails *rails, const struct ranked *ranked)
{
	if (rails->found)
		return ranked_cmp(ranked, &rails->best) >= 0;
	return s->n == s->max && (!s->max || ranked_cmp(ranked, &s->best[s->max - 1]) >= 0);
}

static void take(struct search *s, struct rails *rails, const struct ranked *ranked)
{
	if (is_out(s, rails, ranked))
		return;
	if (rails->all) {
		insert(s, ranked);
		return;
	}
	rails->best = *ranked;
	rails->found = true;
}

/* All pairs that a local GID is in. */
static void search_gid(struct search *s, struct rails *rails, const struct mv_dir_gid *gid)
{
	const struct mv_dir_rail *remote = &s->dir->rails[rails->remote];
	const struct mv_dir_gid *b = &s->dir->gids[remote->first_gid], *end = b + remote->n_gids;
	const uint8_t n_kept = mv_gid_equal(&gid->gid, &s->request->sgid);
	const struct local_end a = local_end(gid);
	struct ranked ranked = rails->like;

	ranked.path.local_gid = gid->gid;
	ranked.path.type = gid->type;
	ranked.family_rank = family_rank(a.family);
	ranked.n_kept = (uint8_t)(n_kept + rails->has_dgid);
	if (is_out(s, rails, &ranked))
		return;
	for (; b < end; b++) {
		ranked.routed = 0;
		if (rails->local == rails->remote) {
			if (!is_loop(&a, b))
				continue;
		} else if (!pair_is_near(s, &a, b, rails->linked)) {
			if (!pair_is_routed(s, &a, b))
				continue;
			ranked.routed = 1;
		}
		ranked.path.routed = ranked.routed;
		ranked.path.remote_gid = b->gid;
		ranked.n_kept = (uint8_t)(n_kept + mv_gid_equal(&b->gid, &s->request->dgid));
		take(s, rails, &ranked);
	}
}

static bool is_other_fabric(const struct search *s, uint32_t local, uint32_t remote)
{
	return s->dir->rails[remote].host && mv_lid_other_fabric(s->dir, local, remote);
}

/*
 * All pairs of GIDs of two rails. Of the rails that the programs use, several: which ones the
 * programs meant is the question there. Of others the best one is enough.
 */
static void search_rails(struct search *s, uint32_t local, uint32_t remote)
{
	const struct mv_dir_rail *a = &s->dir->rails[local], *b = &s->dir->rails[remote];
	struct rails rails = {.local = local,
			      .remote = remote,
			      .all = local == s->own_rail && remote == s->remote_rail};

	if (!eligible(s, a) || !eligible(s, b) || a->link_layer != b->link_layer)
		return;
	/* What the programs use may work all the same. */
	if (!rails.all && is_other_fabric(s, local, remote))
		return;
	rails.linked = mv_directory_linked(s->dir, local, remote);
	rails.has_dgid = has_gid(s->dir, b, &s->request->dgid);
	rails.like = rank_rails(s, &rails);
	if (is_out(s, &rails, &rails.like))
		return;
	for (uint32_t g = a->first_gid; g < a->first_gid + a->n_gids; g++)
		search_gid(s, &rails, &s->dir->gids[g]);
	if (rails.found)
		insert(s, &rails.best);
}

size_t mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request,
		    uint32_t remote_host, uint32_t remote_rail, struct mv_path *ret, size_t max)
{
	const struct mv_dir_host *host = &dir->hosts[remote_host];
	struct search s = {.dir = dir,
			   .request = request,
			   .own_rail = own_rail(dir, request),
			   .remote_rail = remote_rail};

	s.max = max < MV_PATH_FIND_MAX ? max : MV_PATH_FIND_MAX;
	/* The programs' own pair first, and it may take half of the room. */
	if (s.own_rail >= 0 && remote_rail >= host->first_rail &&
	    remote_rail - host->first_rail < host->n_rails) {
		s.max = (s.max + 1) / 2;
		search_rails(&s, (uint32_t)s.own_rail, remote_rail);
		s.max = max < MV_PATH_FIND_MAX ? max : MV_PATH_FIND_MAX;
	}
	for (uint32_t l = 0; l < dir->hosts[0].n_rails; l++)
		for (uint32_t r = host->first_rail; r < host->first_rail + host->n_rails; r++)
			if ((l != s.own_rail || r != remote_rail) && (!request->own_host || l == r))
				search_rails(&s, l, r);
	for (size_t i = 0; i < s.n; i++)
		ret[i] = s.best[i].path;
	return s.n;
}

/* Neither subnet, nor link, nor route. */
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

/* ---- words -------------------------------------------------------------------------------------
 */

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
