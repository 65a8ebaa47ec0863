/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "dir_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "ctl.h"

struct maker {
	const struct md_dir_build_from *from;
	struct md_dir_build *content;
	uint64_t now_ns;
};

static bool in_directory(const struct md_host *host)
{
	return host->desc != NULL;
}

/* Is it an address of the hosts file for which no agent is known? */
static bool is_silent_entry(const struct maker *maker, const struct md_target *target)
{
	return target->name[0] && !md_gidmap_find(maker->from->map, &target->gid) &&
	       !md_view_has_gid(maker->from->view, &target->gid);
}

static int make_room(struct maker *maker)
{
	const struct md_desc *own = maker->from->view->desc;
	size_t n_hosts = 1, n_rails = own->n_rails, n_gids = own->n_gids, n_links = 0;
	struct md_dir_build *content = maker->content;
	struct md_target *target, *next_target;
	struct md_host *host, *next;

	HASH_ITER(hh, maker->from->hosts->by_id, host, next)
	{
		if (!in_directory(host))
			continue;
		n_hosts++;
		n_rails += host->desc->n_rails;
		n_gids += host->desc->n_gids;
		n_links += host->sightings.n;
	}
	HASH_ITER(hh, maker->from->targets->by_gid, target, next_target)
	n_hosts += is_silent_entry(maker, target);
	/* calloc() of 0 elements may return NULL. */
	content->hosts = calloc(n_hosts, sizeof(*content->hosts));
	content->rails = calloc(n_rails + 1, sizeof(*content->rails));
	content->gids = calloc(n_gids + 1, sizeof(*content->gids));
	content->links = calloc(n_links + 1, sizeof(*content->links));
	content->dir.hosts = content->hosts;
	content->dir.rails = content->rails;
	content->dir.gids = content->gids;
	content->dir.links = content->links;
	return content->hosts && content->rails && content->gids && content->links ? 0 : -ENOMEM;
}

static struct mv_dir_host *add_host(struct maker *maker, const struct mv_host_id *id,
				    const char *name)
{
	struct mv_dir_content *dir = &maker->content->dir;
	struct mv_dir_host *host = &maker->content->hosts[dir->n_hosts++];

	host->id = *id;
	snprintf(host->name, sizeof(host->name), "%s", name);
	host->first_rail = (uint32_t)dir->n_rails;
	return host;
}

static struct mv_dir_rail *add_rail(struct maker *maker, struct mv_dir_host *host)
{
	struct mv_dir_content *dir = &maker->content->dir;
	struct mv_dir_rail *rail = &maker->content->rails[dir->n_rails++];

	host->n_rails++;
	rail->host = (uint32_t)(host - maker->content->hosts);
	rail->first_gid = (uint32_t)dir->n_gids;
	return rail;
}

static struct mv_dir_gid *add_gid(struct maker *maker, struct mv_dir_rail *rail)
{
	struct mv_dir_gid *gid = &maker->content->gids[maker->content->dir.n_gids++];

	rail->n_gids++;
	gid->rail = (uint32_t)(rail - maker->content->rails);
	return gid;
}

/*
 * A GID of another host: does the host hold the GID, and are programs told so?
 * @ret_index: index for the directory, with flags
 */
static bool is_told(const struct maker *maker, const struct md_host *other, const struct mv_dir_gid *gid, uint32_t *ret_index)
{
	const struct md_holder *holder = md_gidmap_find(maker->from->map, &gid->gid);

	*ret_index = gid->index;
	if (!md_holder_has(holder, &other->id))
		return false;
	if (!holder->doubts)
		return true;
	*ret_index |= holder->doubts;
	return !mv_dir_gid_in_grace(gid); /* a GID in grace has no index, so it cannot have flags */
}

/* @other: NULL: this host, all of whose GIDs are added. Of other hosts only those that is_told(). */
static void add_desc(struct maker *maker, struct mv_dir_host *host, const struct md_desc *desc,
		     const struct md_host *other)
{
	for (uint32_t r = 0; r < desc->n_rails; r++) {
		const struct mv_dir_rail *from = &desc->rails[r];
		struct mv_dir_rail *rail = add_rail(maker, host);
		struct mv_dir_rail place = *rail;
		uint32_t library;

		*rail = *from;
		rail->host = place.host;
		rail->first_gid = place.first_gid;
		rail->n_gids = 0;
		library = !other && maker->from->library ? maker->from->library(maker->from->arg, rail->device) : 0;
		if (library)
			rail->flags |= MV_RAIL_QUALIFIED;
		for (uint32_t g = from->first_gid; g < from->first_gid + from->n_gids; g++) {
			uint32_t at, index = desc->gids[g].index;
			struct mv_dir_gid *gid;

			if (other && !is_told(maker, other, &desc->gids[g], &index))
				continue;
			gid = add_gid(maker, rail);
			at = gid->rail;
			*gid = desc->gids[g];
			gid->rail = at;
			gid->index = index;
			if (other)
				gid->routed_from = other->routes.from ? other->routes.from[g] : 0;
			else
				gid->library = library;
		}
	}
}

static void add_links(struct maker *maker, const struct mv_dir_host *dir_host,
		      const struct md_host *host)
{
	struct md_dir_build *content = maker->content;
	size_t first = content->dir.n_links;

	for (size_t i = 0; i < host->sightings.n; i++) {
		const struct md_sighting *sighting = &host->sightings.list[i];
		const struct md_net *net = md_view_net(maker->from->view, sighting->ifindex);
		struct mv_dir_link link;
		size_t l;

		if (!net || !sighting->has_rail)
			continue;
		link.local_rail = net->rail;
		link.remote_rail = dir_host->first_rail + sighting->rail;
		/* The rail may also be heard on a VLAN. */
		for (l = first; l < content->dir.n_links; l++)
			if (!memcmp(&content->links[l], &link, sizeof(link)))
				break;
		if (l == content->dir.n_links)
			content->links[content->dir.n_links++] = link;
	}
}

static void add_others(struct maker *maker)
{
	struct md_host *host, *next;

	HASH_ITER(hh, maker->from->hosts->by_id, host, next)
	{
		struct mv_dir_host *dir_host;

		if (!in_directory(host))
			continue;
		dir_host = add_host(maker, &host->id, host->name);
		dir_host->agent_version = host->agent_version;
		dir_host->heard_ns = host->heard_ns;
		if (maker->from->is_authenticated && maker->from->is_authenticated(maker->from->arg, host))
			dir_host->flags |= MV_PEER_AUTHENTICATED;
		if (!host->neighbour)
			dir_host->flags |= MV_PEER_ROUTED;
		add_desc(maker, dir_host, host->desc, host);
		add_links(maker, dir_host, host);
	}
}

/*
 * Only a name: its address must not be found in the directory, so that programs' connections there are left alone. The
 * id is a hash of name and address.
 */
static void add_silent(struct maker *maker, const struct md_target *target)
{
	struct mv_host_id id;

	crypto_generichash(id.bytes, sizeof(id.bytes), target->gid.raw, sizeof(target->gid.raw),
			   (const unsigned char *)target->name, strlen(target->name));
	add_host(maker, &id, target->name);
}

int md_dir_build_make(const struct md_dir_build_from *from, uint64_t now_ns, struct md_dir_build *ret)
{
	struct md_dir_build content = {0};
	struct maker maker = {.from = from, .content = &content, .now_ns = now_ns};
	struct md_target *target, *next;
	struct mv_dir_host *self;

	if (make_room(&maker)) {
		md_dir_build_free(&content);
		return -ENOMEM;
	}
	self = add_host(&maker, from->self, from->name);
	self->agent_version = MV_CTL_VERSION;
	self->heard_ns = now_ns;
	self->flags = MV_PEER_AUTHENTICATED;
	add_desc(&maker, self, from->view->desc, NULL);
	add_others(&maker);
	HASH_ITER(hh, from->targets->by_gid, target, next)
	if (is_silent_entry(&maker, target))
		add_silent(&maker, target);
	*ret = content;
	return 0;
}

void md_dir_build_free(struct md_dir_build *content)
{
	free(content->hosts);
	free(content->rails);
	free(content->gids);
	free(content->links);
}
