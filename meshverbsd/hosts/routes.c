/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "routes.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

/* True: packets from our address may be routed to @to. */
static bool is_source(const struct mv_dir_gid *own, const union ibv_gid *to)
{
	return !mv_dir_gid_in_grace(own) && mv_dir_gid_may_be_routed(own) && mv_gid_family(&own->gid) == mv_gid_family(to);
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

/*
 * The bucket may be overdrawn by one host, since the number of look-ups is known only afterwards.
 *
 * Return: the bucket, of one of the accounts that want the host; NULL: all are empty.
 */
static uint64_t *find_room(struct md_routes *routes, const struct md_host *host, uint64_t now_ns)
{
	uint64_t by = md_host_is_wanted(host) ? md_host_wanters(host) : 1ull << MD_WANTERS;

	for (unsigned int w = 0; w <= MD_WANTERS; w++) {
		uint64_t *room_at_ns = &routes->room_at_ns[w];

		if (*room_at_ns < now_ns)
			*room_at_ns = now_ns;
		if (by & 1ull << w && *room_at_ns - now_ns < MD_ROUTES_BURST * (MD_S / MD_ROUTES_RATE))
			return room_at_ns;
	}
	return NULL;
}

bool md_routes_of(struct md_routes *routes, const struct md_view *view, struct md_host *host, uint64_t now_ns)
{
	uint64_t *room_at_ns, before = routes->n_looked;
	bool changed;

	if (!is_due(routes, host))
		return false;
	room_at_ns = find_room(routes, host, now_ns);
	if (!room_at_ns) {
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

/* A turn: looks at hosts that wait until @n_looked is @most. */
struct turn {
	struct md_routes *routes;
	const struct md_view *view;
	uint64_t most;
	bool changed; /* md_host.routes of any host */
	bool again; /* hosts wait for a further turn */
	bool over; /* some account has hosts that wait, and md_routes.first is set */
};

/* Return: false: the turn is over. @w: as in md_routes.round. */
static bool look_at_one(struct turn *turn, struct md_host *host, unsigned int w)
{
	struct md_routes *routes = turn->routes;

	if (!is_due(routes, host))
		return true;
	if (host->routes.round == routes->round[w] + 1) {
		turn->again = true;
		return true;
	}
	if (routes->n_looked >= turn->most) {
		turn->again = true;
		return false;
	}
	host->routes.round = routes->round[w] + 1;
	turn->changed |= look_at(routes, turn->view, host);
	return true;
}

static void look_at_wanted(struct turn *turn, const struct md_hosts *hosts, unsigned int w)
{
	bool had_part = turn->routes->n_looked < turn->most;
	struct md_host *host;

	DL_FOREACH2(hosts->wanters[w].list.hosts, host, room.next)
	{
		if (look_at_one(turn, host, w))
			continue;
		/* The next turn begins with the first account that had no part in this one, or not with this one again. */
		if (!turn->over)
			turn->routes->first = (w + had_part) % MD_WANTERS;
		turn->over = true;
		return;
	}
	turn->routes->round[w]++;
}

static void look_at_others(struct turn *turn, const struct md_hosts *hosts)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
		if (!md_host_is_wanted(host) && !look_at_one(turn, host, MD_WANTERS))
			return;
	turn->routes->round[MD_WANTERS]++;
}

bool md_routes_again(struct md_routes *routes, const struct md_view *view, struct md_hosts *hosts, uint64_t now_ns)
{
	uint64_t before = routes->n_looked;
	struct turn turn = {.routes = routes, .view = view, .most = before + MD_ROUTES_PER_TURN};
	unsigned int first = routes->first;

	routes->next_ns = UINT64_MAX;
	for (unsigned int i = 0; i < MD_WANTERS; i++)
		look_at_wanted(&turn, hosts, (first + i) % MD_WANTERS);
	look_at_others(&turn, hosts);
	/* The last host may have used the share of several turns. */
	if (turn.again)
		routes->next_ns = now_ns + MD_ROUTES_TURN_NS * (1 + (routes->n_looked - before) / MD_ROUTES_PER_TURN);
	return turn.changed;
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
