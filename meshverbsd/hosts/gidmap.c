/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "gidmap.h"

#include <stdlib.h>
#include <string.h>

#include "fnv.h"

/*
 * The unit has MemoryMax=1G; this is three quarters. Besides the map: the directory, the directory before, the image of
 * the next; pieces of descriptions; sightings, whose arrays are at most 15 too long, and links in the same files.
 */
#define OF_HOSTS ((uint64_t)MD_HOSTS_MAX * MD_SIGHTINGS_OF_HOST)
#define OF_LINKS ((uint64_t)MD_LINK_SHARES * MD_SIGHTINGS_OF_LINK)
#define SIGHTINGS_BYTES                                                  \
	((2 * OF_HOSTS + OF_LINKS) * sizeof(struct md_sighting) +        \
	 (OF_HOSTS + OF_LINKS) * 4 * sizeof(struct mv_dir_link))
_Static_assert(MD_HOSTS_BYTES_MAX / sizeof(struct mv_dir_gid) * (sizeof(struct md_holder) + 32) + 4 * (uint64_t)MD_HOSTS_BYTES_MAX +
			       MD_HOSTS_SHARES * (uint64_t)MD_PARTIAL_BYTES + MD_PARTIAL_BYTES_WANTED + SIGHTINGS_BYTES <
		       (uint64_t)3 << 28,
	       "hosts that a neighbour makes up leave the agent alive");

static bool id_is(const struct mv_host_id *a, const struct mv_host_id *b)
{
	return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

static struct md_holder *find(const struct md_gidmap *map, const union ibv_gid *gid)
{
	struct md_holder *holder;

	HASH_FIND(hh, map->by_gid, gid->raw, sizeof(gid->raw), holder);
	return holder;
}

const struct md_holder *md_gidmap_find(const struct md_gidmap *map, const union ibv_gid *gid)
{
	return find(map, gid);
}

static unsigned int place_of(const struct md_holder *holder, const struct mv_host_id *id)
{
	unsigned int i;

	for (i = 0; i < holder->n; i++)
		if (id_is(&holder->hosts[i], id))
			break;
	return i;
}

bool md_holder_has(const struct md_holder *holder, const struct mv_host_id *id)
{
	return holder && place_of(holder, id) < holder->n;
}

bool md_gidmap_holds(const struct md_gidmap *map, const struct mv_host_id *id,
		     const union ibv_gid *gid)
{
	return md_holder_has(find(map, gid), id);
}

/* Return: the nets of ours on which the host is heard. */
static struct md_netset heard_on(const struct md_host *host, const struct md_view *view)
{
	struct md_netset set = {0};

	for (size_t i = 0; i < host->sightings.n; i++) {
		const struct md_net *net = md_view_net(view, host->sightings.list[i].ifindex);

		if (net)
			md_netset_add(&set, (size_t)(net - view->nets));
	}
	return set;
}

/* A host's relation to our nets. */
struct place {
	struct md_netset heard; /* heard_on() */
	struct md_netset met, running; /* met: nets on which the host was ever heard. running: nets of ours whose link is up. */
};

static struct place place_among(const struct md_host *host, const struct md_netset *heard, const struct md_view *view)
{
	struct place place = {.heard = *heard};

	for (size_t n = 0; n < view->n_nets; n++) {
		if (md_host_has_met(host, view->nets[n].ifindex))
			md_netset_add(&place.met, n);
		if (view->nets[n].running)
			md_netset_add(&place.running, n);
	}
	return place;
}

/* @answered: the host has answered a query that was sent to the GID */
static enum md_evidence evidence_of(const struct md_host *host, const struct place *place, const struct md_netset *on_link, bool answered,
				    const struct md_target *target)
{
	if (answered)
		return target->name[0] ? MD_EVIDENCE_FILE : MD_EVIDENCE_ON_LINK;
	if (md_netset_meets(on_link, &place->heard) || (md_host_is_vouched(host) && md_netset_meets(on_link, &place->met)))
		return MD_EVIDENCE_ON_LINK;
	return host->sightings.n ? MD_EVIDENCE_HEARD : MD_EVIDENCE_TOLD;
}

/*
 * True: the GID is in a subnet of ours whose link is up, and the host was never heard on any such link. @ret_near: the
 * GID is in any subnet of ours, up or down
 */
static bool is_unmet(const struct place *place, struct md_netset on_link, bool *ret_near)
{
	bool all = true, any = false;

	*ret_near = false;
	for (size_t i = 0; i < sizeof(on_link.bits) / sizeof(on_link.bits[0]); i++) {
		*ret_near |= on_link.bits[i];
		on_link.bits[i] &= place->running.bits[i];
		any |= on_link.bits[i];
		all &= !(on_link.bits[i] & place->met.bits[i]);
	}
	return any && all;
}

/* Return: why a GID at which no host has answered may belong to a host without an agent. The code that connects checks this. */
static uint32_t doubts_of(const struct place *place, struct md_netset on_link)
{
	bool near;

	if (is_unmet(place, on_link, &near))
		return MV_DIR_INDEX_UNMET;
	return near ? 0 : MV_DIR_INDEX_UNANSWERED;
}

static struct md_holder *add(struct md_gidmap *map, const union ibv_gid *gid)
{
	struct md_holder *holder = calloc(1, sizeof(*holder));

	if (!holder)
		return NULL;
	holder->gid = *gid;
	HASH_ADD(hh, map->by_gid, gid.raw, sizeof(gid->raw), holder);
	if (!holder->hh.tbl) {
		free(holder);
		return NULL;
	}
	return holder;
}

static unsigned int n_on(const struct md_holder *holder, uint32_t link)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < holder->n; i++)
		n += holder->links[i] == link;
	return n;
}

/* Return: a link on which the host is heard, and no holder, if there is one. 0: it is not heard on any. */
static uint32_t link_of(const struct md_holder *holder, const struct md_host *host)
{
	for (size_t i = 0; i < host->sightings.n; i++)
		if (!n_on(holder, host->sightings.list[i].ifindex))
			return host->sightings.list[i].ifindex;
	return host->sightings.n ? host->sightings.list[0].ifindex : 0;
}

/* Return: the place in a full list that a host on @link may take; MD_GID_HOSTS_MAX: none. */
static unsigned int place_for(const struct md_holder *holder, uint32_t link)
{
	unsigned int i = holder->n;

	while (i-- && !n_on(holder, link))
		if (n_on(holder, holder->links[i]) > 1)
			return i;
	return MD_GID_HOSTS_MAX;
}

static void take_out(struct md_gidmap *map, struct md_holder *holder, unsigned int place)
{
	holder->hosts[place] = holder->hosts[--holder->n];
	holder->links[place] = holder->links[holder->n];
	map->unsettled = true;
}

/*
 * Several hosts may hold a link-local GID. A host that signs its description replaces those that do not. Somebody may
 * invent hosts that claim a GID of a host on another link.
 */
static void join(struct md_gidmap *map, struct md_holder *holder, const struct md_host *host, const struct md_gid_claim *claim)
{
	unsigned int place = place_of(holder, &claim->host);
	uint32_t link;

	if (place < holder->n && holder->vouched == claim->vouched)
		return;
	/* It signs now, or no more. */
	if (place < holder->n)
		take_out(map, holder, place);
	if (holder->n && holder->vouched != claim->vouched) {
		map->n_contested++;
		if (holder->vouched)
			return;
		holder->n = 0;
	}
	link = link_of(holder, host);
	if (holder->n < MD_GID_HOSTS_MAX) {
		place = holder->n++;
	} else {
		map->n_contested++; /* the host, or the one whose place it takes, claims again when there is room */
		place = place_for(holder, link);
	}
	if (place == MD_GID_HOSTS_MAX)
		return;
	holder->hosts[place] = claim->host;
	holder->links[place] = link;
	holder->vouched = claim->vouched;
}

/* True: the claim wins the GID. The holder is another host or nobody. */
static bool is_taken(const struct md_holder *holder, const struct md_gid_claim *claim, bool in_grace)
{
	const struct md_gid_claim held = {
		.host = holder->hosts[0], .evidence = holder->evidence, .vouched = holder->vouched, .live = true};

	if (!holder->n || id_is(&held.host, &claim->host))
		return true;
	if (holder->in_grace != in_grace)
		return holder->in_grace && claim->evidence >= held.evidence && (!held.vouched || (claim->vouched && claim->evidence >= MD_EVIDENCE_ON_LINK));
	return md_gid_claim_wins(&held, claim);
}

static void contest(struct md_gidmap *map, struct md_holder *holder, const struct md_gid_claim *claim,
		    bool in_grace, uint32_t doubts)
{
	/* The holder is alive: a host that fell silent has been released before. */
	if (!is_taken(holder, claim, in_grace)) {
		map->n_contested++;
		return;
	}
	if (holder->n && !id_is(&holder->hosts[0], &claim->host))
		map->n_contested++;
	holder->n = 1;
	holder->hosts[0] = claim->host;
	holder->evidence = claim->evidence;
	holder->vouched = claim->vouched;
	holder->in_grace = in_grace;
	holder->doubts = doubts;
}

/* The entry before has the same address: the table lists one address as RoCE v1 and as RoCE v2. */
static bool is_repeated(const struct md_desc *desc, uint32_t g)
{
	const struct mv_dir_gid *gid = &desc->gids[g];

	return g && gid[-1].rail == gid->rail && mv_gid_equal(&gid[-1].gid, &gid->gid) &&
	       mv_dir_gid_in_grace(&gid[-1]) == mv_dir_gid_in_grace(gid);
}

static bool is_infiniband(const struct md_desc *desc, uint32_t g)
{
	return desc->rails[desc->gids[g].rail].link_layer == IBV_LINK_LAYER_INFINIBAND;
}

/* Our own GIDs (MD_EVIDENCE_OWN) have no entries in the map. A GID that is in grace at both hosts stays ours. */
static bool is_ours(const struct md_view *view, const union ibv_gid *gid, bool in_grace)
{
	return mv_gid_family(gid) != MV_FAMILY_LINK_LOCAL && md_view_has_gid(view, gid) &&
	       (in_grace || !md_view_gid_in_grace(view, gid));
}

/* Return: false: out of memory for at least one GID, which was left out. */
static bool claim_all(struct md_gidmap *map, const struct md_host *host, const struct md_netset *heard, const struct md_view *view,
		      const struct md_targets *targets)
{
	const struct place place = place_among(host, heard, view);
	bool all = true;

	for (uint32_t g = 0; host->desc && g < host->desc->n_gids; g++) {
		const union ibv_gid *gid = &host->desc->gids[g].gid;
		bool in_grace = mv_dir_gid_in_grace(&host->desc->gids[g]);
		struct md_gid_claim claim = {.host = host->id, .vouched = md_host_is_vouched(host), .live = true};
		const struct md_target *target;
		struct md_netset on_link;
		struct md_holder *holder;
		bool answered;

		if (is_repeated(host->desc, g) || (!map->fleet_key && is_infiniband(host->desc, g)))
			continue;
		if (is_ours(view, gid, in_grace)) {
			map->n_contested++;
			continue;
		}
		holder = find(map, gid);
		if (!holder)
			holder = add(map, gid);
		if (!holder) {
			all = false;
			continue;
		}
		target = md_targets_find(targets, gid);
		answered = target && target->answered_ns && id_is(&target->host, &host->id);
		on_link = md_view_on_link(view, gid);
		claim.evidence = evidence_of(host, &place, &on_link, answered, target);
		if (mv_gid_family(gid) == MV_FAMILY_LINK_LOCAL)
			join(map, holder, host, &claim);
		else
			contest(map, holder, &claim, in_grace, map->fleet_key || answered ? 0 : doubts_of(&place, on_link));
	}
	return all;
}

void md_gidmap_claim(struct md_gidmap *map, struct md_host *host, const struct md_view *view,
		     const struct md_targets *targets)
{
	const struct md_netset heard = heard_on(host, view);

	/* View number 0 means "never claimed": see struct md_view. */
	if (host->claimed.view && host->claimed.view == view->number &&
	    !memcmp(&host->claimed.on, &heard, sizeof(heard)))
		return;
	host->claimed.late = false;
	host->claimed.on = heard;
	host->claimed.view = claim_all(map, host, &heard, view, targets) && host->desc ? view->number : 0;
}

bool md_gidmap_hear(struct md_gidmap *map, struct md_hosts *hosts, struct md_host *host, const struct md_view *view,
		    const struct md_targets *targets, unsigned int share, uint64_t now_ns)
{
	const struct md_netset heard = heard_on(host, view);
	bool same = !memcmp(&host->claimed.on, &heard, sizeof(heard));

	host->claimed.late = host->claimed.view && host->claimed.view == view->number && !same &&
			     !md_hosts_take_links(hosts, host, share, now_ns);
	if (!host->claimed.late)
		md_gidmap_claim(map, host, view, targets);
	return !host->claimed.late;
}

static void let_go(struct md_gidmap *map, struct md_holder *holder, const struct mv_host_id *id)
{
	unsigned int i = place_of(holder, id);

	if (i == holder->n)
		return;
	take_out(map, holder, i);
	if (!holder->n) {
		HASH_DEL(map->by_gid, holder);
		free(holder);
	}
}

void md_gidmap_release(struct md_gidmap *map, const struct mv_host_id *id,
		       const struct md_desc *desc)
{
	for (uint32_t g = 0; desc && g < desc->n_gids; g++) {
		struct md_holder *holder = find(map, &desc->gids[g].gid);

		if (holder)
			let_go(map, holder, id);
	}
}

/*
 * Claims have to be settled anew when a net of ours comes up or a subnet changes. A link that only goes down calls no
 * claim into question, and this must reach programs without delay.
 */
static void follow_ground(struct md_gidmap *map, const struct md_view *view)
{
	uint64_t hash = MV_FNV64_START;
	size_t n_running = 0;

	for (size_t n = 0; n < view->n_nets; n++) {
		if (!view->nets[n].running)
			continue;
		n_running++;
		hash = mv_fnv64(hash, &view->nets[n].ifindex, sizeof(view->nets[n].ifindex));
	}
	for (size_t i = 0; i < view->n_onlinks; i++) {
		const struct md_onlink *onlink = &view->onlinks[i];

		hash = mv_fnv64(hash, &onlink->ifindex, sizeof(onlink->ifindex));
		hash = mv_fnv64(hash, &onlink->prefix, sizeof(onlink->prefix));
		hash = mv_fnv64(hash, &onlink->prefix_len, sizeof(onlink->prefix_len));
	}
	if (hash != map->ground && n_running >= map->n_running)
		map->other_ground = true;
	map->ground = hash;
	map->n_running = n_running;
}

void md_gidmap_own(struct md_gidmap *map, const struct md_view *view)
{
	for (uint32_t g = 0; g < view->desc->n_gids; g++) {
		const union ibv_gid *gid = &view->desc->gids[g].gid;
		struct md_holder *holder = find(map, gid);

		if (!holder || !is_ours(view, gid, holder->in_grace))
			continue;
		map->n_contested++;
		HASH_DEL(map->by_gid, holder);
		free(holder);
	}
	follow_ground(map, view);
	map->unsettled = true;
}

void md_gidmap_settle(struct md_gidmap *map, const struct md_hosts *hosts,
		      const struct md_view *view, const struct md_targets *targets)
{
	struct md_host *host, *next;

	if (!map->unsettled)
		return;
	map->unsettled = false;
	if (!map->n_contested && !map->other_ground)
		return;
	map->n_contested = 0;
	map->other_ground = false;
	HASH_ITER(hh, hosts->by_id, host, next)
	{
		host->claimed.view = 0;
		md_gidmap_claim(map, host, view, targets);
	}
}

void md_gidmap_fini(struct md_gidmap *map)
{
	struct md_holder *holder, *next;

	HASH_ITER(hh, map->by_gid, holder, next)
	{
		HASH_DEL(map->by_gid, holder);
		free(holder);
	}
}
