/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "routes.h"

#include <stdlib.h>
#include <string.h>

/* True: packets from our address may be routed to @to. */
static bool is_source(const struct mv_dir_gid *own, const union ibv_gid *to)
{
	return !mv_dir_gid_is_kept(own) && mv_dir_gid_may_be_routed(own) && mv_gid_family(&own->gid) == mv_gid_family(to);
}

const union ibv_gid *md_routes_source(const struct md_desc *own, uint32_t rail, const union ibv_gid *gid)
{
	for (uint32_t g = own->rails[rail].first_gid; g < own->rails[rail].first_gid + own->rails[rail].n_gids; g++)
		if (is_source(&own->gids[g], gid))
			return &own->gids[g].gid;
	return NULL;
}

struct look {
	struct md_routes *routes;
	const struct md_view *view;
	unsigned int left; /* look-ups that are left */
};

static bool rail_leads(struct look *look, uint32_t rail, const union ibv_gid *to)
{
	const struct md_desc *own = look->view->desc;
	const struct mv_dir_rail *from = &own->rails[rail];
	unsigned int tries = 0;

	for (uint32_t g = from->first_gid; g < from->first_gid + from->n_gids && tries < MD_ROUTES_TRIES && look->left; g++) {
		const struct mv_dir_gid *gid = &own->gids[g];

		if (!is_source(gid, to) || !look->view->gid_ifindexes[g])
			continue;
		if (gid->prefix_len && mv_gid_in_prefix(to, &gid->gid, gid->prefix_len))
			continue;
		tries++;
		look->left--;
		look->routes->n_looked++;
		if (look->routes->leads(look->routes->arg, look->view->gid_ifindexes[g], &gid->gid, to) > 0)
			return true;
	}
	return false;
}

/* Return: mask of our rails from which a route leads to @to. */
static uint32_t rails_to(struct look *look, const union ibv_gid *to)
{
	uint32_t n = look->view->desc->n_rails, rails = 0;

	for (uint32_t r = 0; r < n && r < MV_DIR_ROUTED_RAILS; r++)
		if (look->view->desc->rails[r].link_layer == IBV_LINK_LAYER_ETHERNET && rail_leads(look, r, to))
			rails |= 1u << r;
	return rails;
}

static bool beyond_routers(const struct md_host *host)
{
	return host->told.expires_ns;
}

static bool is_due(const struct md_routes *routes, const struct md_host *host)
{
	return beyond_routers(host) && host->desc && host->routes.number != routes->number;
}

static bool look_at(struct md_routes *routes, const struct md_view *view, struct md_host *host)
{
	struct look look = {.routes = routes, .view = view, .left = MD_ROUTES_MAX};
	uint32_t *routed, *former = host->routes.from;
	bool changed = false;

	routed = calloc(host->desc->n_gids + 1, sizeof(*routed));
	if (!routed)
		return false;
	for (uint32_t g = 0; g < host->desc->n_gids; g++) {
		if (mv_dir_gid_may_be_routed(&host->desc->gids[g]))
			routed[g] = rails_to(&look, &host->desc->gids[g].gid);
		changed |= routed[g] != (former ? former[g] : 0);
	}
	free(former);
	host->routes.from = routed;
	host->routes.number = routes->number;
	return changed;
}

/* The bucket may be overdrawn by one host, since the number of look-ups is known only afterwards. */
static bool has_room(uint64_t *room_at_ns, uint64_t now_ns)
{
	if (*room_at_ns < now_ns)
		*room_at_ns = now_ns;
	return *room_at_ns - now_ns < MD_ROUTES_BURST * (MD_S / MD_ROUTES_RATE);
}

bool md_routes_of(struct md_routes *routes, const struct md_view *view, struct md_host *host, uint64_t now_ns)
{
	uint64_t *room_at_ns = &routes->room_at_ns[md_host_is_wanted(host, now_ns)], before = routes->n_looked;
	bool changed;

	if (!is_due(routes, host))
		return false;
	if (!has_room(room_at_ns, now_ns)) {
		if (now_ns + MD_ROUTES_TURN_NS < routes->next_ns)
			routes->next_ns = now_ns + MD_ROUTES_TURN_NS;
		return false;
	}
	changed = look_at(routes, view, host);
	*room_at_ns += (routes->n_looked - before) * (MD_S / MD_ROUTES_RATE);
	return changed;
}

void md_routes_changed(struct md_routes *routes, uint64_t at_ns)
{
	routes->number++;
	if (at_ns < routes->next_ns)
		routes->next_ns = at_ns;
}

/* Return: true: no host waits for a further turn. */
static bool look_at_some(struct md_routes *routes, const struct md_view *view, struct md_hosts *hosts, bool wanted, uint64_t most,
			 uint64_t now_ns, bool *changed)
{
	struct md_host *host, *next;
	bool again = false;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		if (!is_due(routes, host) || md_host_is_wanted(host, now_ns) != wanted)
			continue;
		if (host->routes.round == routes->round[wanted] + 1) {
			again = true;
			continue;
		}
		if (routes->n_looked >= most)
			return false;
		host->routes.round = routes->round[wanted] + 1;
		*changed |= look_at(routes, view, host);
	}
	routes->round[wanted]++;
	return !again;
}

bool md_routes_again(struct md_routes *routes, const struct md_view *view, struct md_hosts *hosts, uint64_t now_ns)
{
	uint64_t before = routes->n_looked, most = before + MD_ROUTES_PER_TURN;
	bool changed = false, all;

	routes->next_ns = UINT64_MAX;
	all = look_at_some(routes, view, hosts, true, most, now_ns, &changed);
	all &= look_at_some(routes, view, hosts, false, most, now_ns, &changed);
	/* The last host may have used the share of several turns. */
	if (!all)
		routes->next_ns = now_ns + MD_ROUTES_TURN_NS * (1 + (routes->n_looked - before) / MD_ROUTES_PER_TURN);
	return changed;
}

void md_routes_forget(struct md_routes *routes, struct md_hosts *hosts)
{
	struct md_host *host, *next;

	routes->number++;
	HASH_ITER(hh, hosts->by_id, host, next)
	{
		free(host->routes.from);
		host->routes.from = NULL;
	}
}
