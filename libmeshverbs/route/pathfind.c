/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pathint.h"

#include <endian.h>
#include <string.h>

#include "fnv.h"
#include "lidfind.h"

/* ---- other paths -------------------------------------------------------------------------------
 */

/* A path, and the criteria of its rank. */
struct ranked {
	struct mv_path path;
	uint8_t routed; /* through a router */
	uint8_t n_kept; /* number of the programs' own addresses in it */
	uint8_t family_rank; /* 0 is best */
	uint8_t near; /* its local rail is on the NUMA node of the program's device */
	uint64_t share; /* share_of() */
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

/* Return: negative: @a is preferred. The first difference counts. */
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
	/* RoCE v2 is larger than v1. */
	if ((order = compare_numbers(q->type, p->type)))
		return order;
	if ((order = compare_numbers(b->near, a->near)))
		return order;
	if ((order = compare_numbers(b->share, a->share)))
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
 * Two rails whose GIDs are all compared with each other. A port that serves pods has hundreds of GIDs, so this is
 * written for speed.
 */
struct rails {
	uint32_t local, remote;
	bool linked;
	bool apart; /* beacons say so, and count: GIDs that only a subnet joins do not reach each other */
	bool all; /* collect all pairs, not only the best one */
	bool has_dgid; /* the remote rail has the destination GID */
	bool found;
	struct ranked best; /* valid if @found */
	struct ranked like; /* upper bound of the rank of any pair of their GIDs */
};

/* A local GID, prepared for comparisons. */
struct local_end {
	const struct mv_dir_gid *gid;
	enum mv_gid_family family;
	__be64 mask[2]; /* bits that any GID which it can reach shares with it */
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
		n_bits = 64; /* as same_ib_subnet() */
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

/* With @down_too, a GID in grace counts: its path works again when port and address return. */
static bool types_fit(const struct search *s, const struct mv_dir_gid *a,
		      const struct mv_dir_gid *b)
{
	if (a->type == b->type && a->type != MV_GID_TYPE_UNKNOWN)
		return true;
	return s->request->down_too && (mv_dir_gid_in_grace(a) || mv_dir_gid_in_grace(b));
}

/* Cheap checks first, because few pairs pass them. */
static bool pair_is_near(const struct search *s, const struct rails *rails, const struct local_end *end,
			 const struct mv_dir_gid *b)
{
	const struct mv_dir_gid *a = end->gid;
	enum reach reach;

	if (!types_fit(s, a, b) || !begins_alike(end, &b->gid))
		return false;
	if (a->type == MV_GID_TYPE_IB)
		return true;
	if (end->family == MV_FAMILY_MULTICAST || end->family != mv_gid_family(&b->gid))
		return false;
	/* Beacons have no VLAN tag, so they do not show that the two ports share VLANs. The VLAN ids have to be equal. */
	if (end->family == MV_FAMILY_LINK_LOCAL)
		return rails->linked && a->vlan_id == b->vlan_id;
	reach = reach_of(a, b);
	if (rails->linked)
		return reach != REACH_APART;
	return reach == REACH_SUBNET && !(rails->apart && prefix_decides(a, b));
}

static bool pair_is_routed(const struct search *s, const struct local_end *end, const struct mv_dir_gid *b)
{
	return s->dir->rails[b->rail].host && b->routed_from && types_fit(s, end->gid, b) && mv_dir_gid_routed(end->gid, b);
}

/* Are the two entries one and the same, i.e. is the path a loopback? */
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
	return a < b ? a : b; /* 0 means unknown, and wins */
}

static bool has_gid(const struct mv_directory *dir, const struct mv_dir_rail *rail,
		    const union ibv_gid *gid)
{
	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++)
		if (mv_gid_equal(&dir->gids[g].gid, gid))
			return true;
	return false;
}

/* The same number at both ends of a connection, unlike the index of a rail. */
static uint64_t rail_number(const struct mv_directory *dir, const struct mv_dir_rail *rail)
{
	const struct mv_host_id *host = &dir->hosts[rail->host].id;
	uint64_t number = mv_fnv64(MV_FNV64_START, host->bytes, sizeof(host->bytes));

	number = mv_fnv64(number, rail->device, strnlen(rail->device, sizeof(rail->device)));
	return mv_mix64(mv_fnv64(number, &rail->port, sizeof(rail->port)));
}

/*
 * Rendezvous hashing: of paths that are equally good, a connection takes the path with the largest share. Both ends
 * compute the same shares. If a rail goes, only its connections choose anew. If a rail comes, some connections choose it.
 */
static uint64_t share_of(const struct search *s, const struct mv_dir_rail *local, const struct mv_dir_rail *remote)
{
	if (!s->request->spread)
		return 0;
	return mv_mix64(s->request->spread ^ mv_mix64(rail_number(s->dir, local) + rail_number(s->dir, remote)));
}

/* Rank of the rails alone, with the best possible values for whatever depends on GIDs. */
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
		.share = share_of(s, local, remote),
		.n_kept = (uint8_t)(has_gid(s->dir, local, &s->request->sgid) + rails->has_dgid),
	};

	ranked.near = s->own_rail >= 0 && local->numa_node >= 0 &&
		      local->numa_node == s->dir->rails[s->own_rail].numa_node;
	return ranked;
}

/* Inserts into the sorted list of the best s->max. */
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

/* Can a path of this rank, or lower, no longer get into the result? */
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

/* Tries all pairs with one local GID. */
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
		} else if (!pair_is_near(s, rails, &a, b)) {
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
 * Tries all pairs of GIDs of two rails. Of the rails that the programs use, several paths are kept, because which one
 * the programs meant is not known. Of other rails the best one is enough.
 */
static void search_rails(struct search *s, uint32_t local, uint32_t remote)
{
	const struct mv_dir_rail *a = &s->dir->rails[local], *b = &s->dir->rails[remote];
	struct rails rails = {.local = local,
			      .remote = remote,
			      .all = local == s->own_rail && remote == s->remote_rail};

	if (!eligible(s, a) || !eligible(s, b) || a->link_layer != b->link_layer)
		return;
	/* The programs' own path may work all the same. */
	if (!rails.all && is_other_fabric(s, local, remote))
		return;
	rails.linked = mv_directory_linked(s->dir, local, remote);
	rails.apart = s->request->by_links && mv_path_unheard(s->dir, local, remote);
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
			   .own_rail = mv_path_own_rail(dir, request),
			   .remote_rail = remote_rail};

	s.max = max < MV_PATH_FIND_MAX ? max : MV_PATH_FIND_MAX;
	/* First the pair of rails that the programs use, with at most half of the room. */
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
