/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Descriptions of hosts: a complete description replaces the former one. */
#include "hostsint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* @for_good: no other one follows */
static void free_desc(struct md_hosts *hosts, struct md_host *host, bool for_good)
{
	md_hosts_uncount_desc(hosts, host, for_good);
	free(host->desc);
	host->desc = NULL;
	free(host->near.pairs);
	host->near.pairs = NULL;
	host->near.view = 0;
	free(host->routes.from);
	host->routes.from = NULL;
	host->routes.number = 0;
	host->cut.changes = 0;
}

static void drop_desc(struct md_hosts *hosts, struct md_host *host, bool for_good)
{
	if (!host->desc)
		return;
	if (hosts->leaving)
		hosts->leaving(hosts->arg, host);
	host->claimed.view = 0;
	free_desc(hosts, host, for_good);
}

/* Sightings have no rail until the next description names one: follow_numbers() compares with a former description. */
void md_hosts_drop_desc(struct md_hosts *hosts, struct md_host *host)
{
	drop_desc(hosts, host, true);
	for (size_t i = 0; i < host->sightings.n; i++)
		host->sightings.list[i].has_rail = false;
}

/* The next description has the same GIDs, so the routes to them stay as they are. */
static void replace_desc(struct md_hosts *hosts, struct md_host *host)
{
	const struct md_host_routes kept = host->routes;

	host->routes.from = NULL;
	free_desc(hosts, host, false);
	host->routes = kept;
}

static bool same_rail(const struct md_desc *a, const struct md_desc *b, uint16_t r)
{
	return r < a->n_rails && r < b->n_rails && a->rails[r].port == b->rails[r].port &&
	       !strcmp(a->rails[r].device, b->rails[r].device);
}

/*
 * A new or removed device may have changed the numbers of the host's rails. A sighting whose number now means another
 * rail says nothing of links until that rail is heard again. That is soon, because a host that has changed sends
 * beacons on all links. A beacon may arrive before its description. Its sighting has the same generation and uses the
 * numbers of the new description.
 */
static void follow_numbers(struct md_host *host, const struct md_desc *desc, uint64_t generation)
{
	for (size_t i = 0; i < host->sightings.n; i++) {
		struct md_sighting *sighting = &host->sightings.list[i];

		if (sighting->generation == generation)
			sighting->has_rail = sighting->rail < desc->n_rails;
		else if (sighting->has_rail)
			sighting->has_rail = same_rail(host->desc, desc, sighting->rail);
	}
}

static bool same_gid(const struct md_desc *a, const struct md_desc *b, uint32_t g)
{
	const struct mv_dir_gid *one = &a->gids[g], *other = &b->gids[g];

	return mv_gid_equal(&one->gid, &other->gid) && mv_dir_gid_in_grace(one) == mv_dir_gid_in_grace(other) &&
	       mv_dir_gid_may_be_routed(one) == mv_dir_gid_may_be_routed(other) &&
	       a->rails[one->rail].link_layer == b->rails[other->rail].link_layer;
}

/* Compares what gidmap.c and routes.c use. Most changes are ports that go down or up, of which neither knows. */
static bool same_gids(const struct md_desc *a, const struct md_desc *b)
{
	if (a->n_gids != b->n_gids)
		return false;
	for (uint32_t g = 0; g < a->n_gids; g++)
		if (!same_gid(a, b, g))
			return false;
	return true;
}

static int take_desc(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon,
		     const uint8_t *bytes, size_t len, uint64_t now_ns)
{
	uint8_t content[MD_CONTENT_BYTES];
	struct md_desc *desc;
	bool same;
	int err;

	md_statement_content(beacon->name, beacon->agent_version, bytes, len, content);
	if (md_host_is_vouched(host) && memcmp(content, host->vouch->said.content, sizeof(content)))
		return -EPERM;
	err = md_desc_decode(bytes, len, &desc);
	if (err)
		return err;
	if (!md_hosts_make_memory(hosts, host, desc)) {
		free(desc);
		hosts->n_refused++;
		return -ENOSPC;
	}
	same = host->desc && same_gids(host->desc, desc);
	if (!heard->proven && !same && !md_hosts_take_gids(hosts, host, md_heard_share(heard), desc->n_gids, now_ns)) {
		free(desc);
		return -EAGAIN;
	}
	follow_numbers(host, desc, beacon->generation);
	if (same)
		replace_desc(hosts, host);
	else
		drop_desc(hosts, host, false);
	host->desc = desc;
	md_hosts_count_desc(hosts, host);
	host->generation = beacon->generation;
	memcpy(host->content.hash, content, sizeof(content));
	host->content.version = host->agent_version = beacon->agent_version;
	return 0;
}

/* Return: 1 when the description is complete, 0 when pieces are missing, -errno. */
static int add_piece(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon,
		     uint64_t now_ns)
{
	struct md_partial *partial = md_host_partial(host, heard);
	int rc;

	if (md_beacon_pieces(beacon->desc_bytes) == 1) {
		if (partial)
			md_hosts_drop_partial(hosts, partial);
		rc = take_desc(hosts, host, heard, beacon, beacon->data, beacon->desc_bytes, now_ns);
		return rc ? rc : 1;
	}
	rc = md_hosts_add_piece(hosts, host, heard, beacon, now_ns, &partial);
	if (rc <= 0)
		return rc;
	rc = take_desc(hosts, host, heard, beacon, partial->bytes, partial->desc_bytes, now_ns);
	md_hosts_drop_partial(hosts, partial);
	return rc ? rc : 1;
}

static const struct md_rate changes_rate = {.per_second = MD_CHANGES_RATE, .burst = MD_CHANGES_BURST};

int md_hosts_hear_desc(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon,
		       uint64_t now_ns, unsigned int *changed)
{
	uint32_t n_up = host->desc ? md_desc_n_up(host->desc) : 0;
	/* Not rationed: proven ones, and signed ones, which take_desc() compares with the statement. */
	bool rationed = !heard->proven && !md_host_is_vouched(host);
	int rc;

	if (host->desc && host->generation == beacon->generation)
		return 0;
	/* The beacon is late. An unproven generation is not compared: anybody may send any number. */
	if (host->desc && heard->proven && beacon->generation < host->generation)
		return 0;
	if (md_host_is_vouched(host) && beacon->generation < host->vouch->said.generation)
		return 0;
	/* The beacon has no description, or one that differs from the statement's generation. The caller asks for both. */
	if (beacon->piece == MD_NO_PIECE || (md_host_is_vouched(host) && beacon->generation != host->vouch->said.generation)) {
		*changed |= MD_CHANGED_WANTED;
		return 0;
	}
	if (host->desc && rationed && !md_limit_has(&host->changes, &changes_rate, now_ns)) {
		hosts->n_held_back++;
		return 0;
	}
	rc = add_piece(hosts, host, heard, beacon, now_ns);
	if (rc == -EAGAIN) {
		hosts->n_held_back++;
		return 0;
	}
	if (rc < 0)
		return rc;
	if (rc && rationed)
		md_limit_take(&host->changes, &changes_rate, now_ns);
	if (rc)
		*changed |= md_desc_n_up(host->desc) < n_up ? MD_CHANGED_DESC | MD_CHANGED_DOWN : MD_CHANGED_DESC;
	return 0;
}
