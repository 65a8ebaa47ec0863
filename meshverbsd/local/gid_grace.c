/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "gid_grace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"

#define NO_RAIL UINT32_MAX

struct keeper {
	struct md_view *view;
	const struct md_view *old;
	const struct mv_topo *topo;
	uint64_t now_ns;
	bool (*taken)(void *arg, const union ibv_gid *gid);
	void *arg;
	/* Becomes part of the view. */
	struct md_desc *desc;
	uint32_t *ifindexes;
	uint64_t *until_ns;
};

static uint32_t same_rail(const struct md_desc *desc, const struct mv_dir_rail *rail)
{
	for (uint32_t r = 0; r < desc->n_rails; r++)
		if (desc->rails[r].port == rail->port &&
		    !strcmp(desc->rails[r].device, rail->device))
			return r;
	return NO_RAIL;
}

/* Several rails may have the same link-local GID; these are different GIDs. */
static bool has(const struct md_desc *desc, uint32_t n_gids, uint32_t r, const union ibv_gid *gid)
{
	bool link_local = mv_gid_family(gid) == MV_FAMILY_LINK_LOCAL;

	for (uint32_t g = 0; g < n_gids; g++)
		if ((!link_local || desc->gids[g].rail == r) &&
		    mv_gid_equal(&desc->gids[g].gid, gid))
			return true;
	return false;
}

/*
 * Return: time until which GID @g of the old view is in grace, on rail @r of the new view; UINT64_MAX: while the port is
 * down; 0: not in grace.
 */
static uint64_t until(const struct keeper *k, uint32_t g, uint32_t r)
{
	const union ibv_gid *gid = &k->old->desc->gids[g].gid;
	uint64_t before_ns = k->old->grace_until_ns ? k->old->grace_until_ns[g] : 0;

	if (k->view->desc->rails[r].link_layer != IBV_LINK_LAYER_ETHERNET ||
	    has(k->view->desc, k->view->desc->n_gids, r, gid))
		return 0;
	if (mv_gid_family(gid) != MV_FAMILY_LINK_LOCAL && k->taken && k->taken(k->arg, gid))
		return 0;
	/* A netdev that has gone, e.g. to another network namespace, may never return. */
	if (!(k->view->running & (1ull << r)) &&
	    mv_topo_netdev(k->topo, k->view->rail_ifindexes[r]))
		return UINT64_MAX;
	if (!before_ns || before_ns == UINT64_MAX)
		return k->now_ns + MD_GID_GRACE_NS;
	return before_ns > k->now_ns ? before_ns : 0;
}

static void put(struct keeper *k, const struct mv_dir_gid *gid, uint32_t r, uint32_t ifindex,
		uint64_t until_ns)
{
	struct md_desc *desc = k->desc;
	struct mv_dir_gid *at = &desc->gids[desc->n_gids];

	*at = *gid;
	at->rail = r;
	if (until_ns) {
		at->type = MV_GID_TYPE_UNKNOWN;
		at->index = MV_DIR_INDEX_NONE;
	}
	k->ifindexes[desc->n_gids] = ifindex;
	k->until_ns[desc->n_gids++] = until_ns;
	desc->rails[r].n_gids++;
}

/* A GID with entries for both RoCE versions is in grace once, because GIDs in grace have no version. */
static void put_in_grace(struct keeper *k, uint32_t r, uint32_t max)
{
	const struct md_desc *old = k->old->desc;

	for (uint32_t g = 0; g < old->n_gids; g++) {
		uint64_t until_ns;

		if (same_rail(k->desc, &old->rails[old->gids[g].rail]) != r)
			continue;
		until_ns = until(k, g, r);
		if (until_ns && k->desc->n_gids < max &&
		    !has(k->desc, k->desc->n_gids, r, &old->gids[g].gid))
			put(k, &old->gids[g], r, 0, until_ns);
	}
}

/* GIDs are ordered by rail. */
static void put_all(struct keeper *k)
{
	const struct md_desc *now = k->view->desc;
	uint32_t left = now->n_gids;

	for (uint32_t r = 0; r < now->n_rails; r++) {
		const struct mv_dir_rail *rail = &now->rails[r];

		k->desc->rails[r] = *rail;
		k->desc->rails[r].first_gid = k->desc->n_gids;
		k->desc->rails[r].n_gids = 0;
		for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++, left--)
			put(k, &now->gids[g], r, k->view->gid_ifindexes[g], 0);
		/* Present GIDs have precedence over those in grace. */
		put_in_grace(k, r, MD_GIDS_MAX - left);
	}
}

static bool any_gone(const struct keeper *k)
{
	const struct md_desc *old = k->old->desc;

	for (uint32_t g = 0; g < old->n_gids; g++) {
		uint32_t r = same_rail(k->view->desc, &old->rails[old->gids[g].rail]);

		if (r != NO_RAIL && until(k, g, r))
			return true;
	}
	return false;
}

/* The netdev of a rail is found by its GIDs, which may all have gone. Use the former one. */
static void remember_netdevs(struct md_view *view, const struct md_view *old)
{
	for (uint32_t r = 0; r < old->desc->n_rails; r++) {
		uint32_t at = same_rail(view->desc, &old->desc->rails[r]);

		if (at != NO_RAIL && !view->rail_ifindexes[at])
			view->rail_ifindexes[at] = old->rail_ifindexes[r];
	}
}

int md_gid_grace_add(struct md_view *view, const struct md_view *old, const struct mv_topo *topo,
		uint64_t now_ns, bool (*taken)(void *arg, const union ibv_gid *gid), void *arg)
{
	struct keeper k = {.view = view,
			   .old = old,
			   .topo = topo,
			   .now_ns = now_ns,
			   .taken = taken,
			   .arg = arg};
	uint32_t max = view->desc->n_gids + old->desc->n_gids;

	remember_netdevs(view, old);
	if (!any_gone(&k))
		return 0;
	k.desc = md_desc_new(view->desc->n_rails, max);
	k.ifindexes = calloc(max, sizeof(*k.ifindexes));
	k.until_ns = calloc(max, sizeof(*k.until_ns));
	if (!k.desc || !k.ifindexes || !k.until_ns) {
		free(k.desc);
		free(k.ifindexes);
		free(k.until_ns);
		return -ENOMEM;
	}
	k.desc->n_gids = 0;
	put_all(&k);
	free(view->desc);
	free(view->gid_ifindexes);
	view->desc = k.desc;
	view->gid_ifindexes = k.ifindexes;
	view->grace_until_ns = k.until_ns;
	return 0;
}
