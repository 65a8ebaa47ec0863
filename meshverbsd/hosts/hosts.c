/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long what is announced every @interval_ms counts. */
static uint64_t lifetime_ns(uint32_t interval_ms)
{
	return (uint64_t)interval_ms * MD_EXPIRY_TENTHS / 10 * MD_MS;
}

static bool id_is(const struct mv_host_id *a, const struct mv_host_id *b)
{
	return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

struct md_host *md_hosts_find(const struct md_hosts *hosts, const struct mv_host_id *id)
{
	struct md_host *host;

	HASH_FIND(hh, hosts->by_id, id->bytes, sizeof(id->bytes), host);
	return host;
}

static void drop_partial(struct md_hosts *hosts, struct md_host *host)
{
	if (!host->partial)
		return;
	free(host->partial);
	host->partial = NULL;
	hosts->n_partial--;
}

static void free_desc(struct md_hosts *hosts, struct md_host *host)
{
	hosts->bytes -= md_desc_bytes(host->desc);
	free(host->desc);
	host->desc = NULL;
	free(host->near);
	host->near = NULL;
	host->near_view = 0;
	free(host->routed);
	host->routed = NULL;
	host->routes_number = 0;
	host->cut_changes = 0;
}

static void drop_desc(struct md_hosts *hosts, struct md_host *host)
{
	if (!host->desc)
		return;
	if (hosts->leaving)
		hosts->leaving(hosts->arg, host);
	host->claimed_view = 0;
	free_desc(hosts, host);
}

/* The next one has the same GIDs: routes to them are what they were. */
static void replace_desc(struct md_hosts *hosts, struct md_host *host)
{
	uint64_t routes_number = host->routes_number;
	uint32_t *routed = host->routed;

	host->routed = NULL;
	free_desc(hosts, host);
	host->routed = routed;
	host->routes_number = routes_number;
}

static void remove_host(struct md_hosts *hosts, struct md_host *host)
{
	HASH_DEL(hosts->by_id, host);
	hosts->n--;
	drop_partial(hosts, host);
	drop_desc(hosts, host);
	if (hosts->gone)
		hosts->gone(hosts->arg, host);
	free(host->vouch);
	free(host->sightings);
	free(host->met);
	free(host);
}

/* A bucket that holds MD_NEW_HOSTS_BURST and fills at MD_NEW_HOSTS_RATE. */
static bool take_room(struct md_hosts *hosts, uint64_t now_ns)
{
	const uint64_t each = MD_S / MD_NEW_HOSTS_RATE, most = MD_NEW_HOSTS_BURST * each;

	if (hosts->n >= MD_HOSTS_MAX)
		return false;
	if (hosts->room_at_ns < now_ns)
		hosts->room_at_ns = now_ns;
	if (hosts->room_at_ns - now_ns >= most)
		return false;
	hosts->room_at_ns += each;
	return true;
}

/* What is signed has a share of its own, for whoever makes up a host can make up its key; so have hosts that this one has to do with. */
static bool take_gids(struct md_hosts *hosts, const struct md_host *host, uint32_t n, uint64_t now_ns)
{
	const uint64_t each = MD_S / MD_NEW_GIDS_RATE, most = MD_NEW_GIDS_BURST * each;
	bool is_signed = md_host_is_vouched(host);
	uint64_t *at_ns = &hosts->gids_at_ns[!is_signed ? 0 : md_host_is_wanted(host, now_ns) ? 2 : 1];

	if (*at_ns < now_ns)
		*at_ns = now_ns;
	if (*at_ns - now_ns >= most)
		return false;
	*at_ns += n * each;
	return true;
}

static int add_host(struct md_hosts *hosts, const struct md_heard *heard, uint64_t now_ns,
		    struct md_host **ret)
{
	struct md_host *host;

	if (!take_room(hosts, now_ns)) {
		hosts->n_refused++;
		return -ENOSPC;
	}
	host = calloc(1, sizeof(*host));
	if (!host)
		return -ENOMEM;
	host->id = heard->sender;
	HASH_ADD(hh, hosts->by_id, id.bytes, sizeof(host->id.bytes), host);
	if (!host->hh.tbl) {
		free(host);
		return -ENOMEM;
	}
	hosts->n++;
	*ret = host;
	return 0;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static bool same_rail(const struct md_desc *a, const struct md_desc *b, uint16_t r)
{
	return r < a->n_rails && r < b->n_rails && a->rails[r].port == b->rails[r].port &&
	       !strcmp(a->rails[r].device, b->rails[r].device);
}

/*
 * A device that has come or gone may have given the others new numbers. What was heard with a number that means another rail now
 * says nothing of links until its rail is heard again, which it will be at once: who changes sends beacons everywhere. Beacons
 * may be ahead of their description; these counted as it does.
 */
static void follow_numbers(struct md_host *host, const struct md_desc *desc, uint64_t generation)
{
	for (size_t i = 0; i < host->n_sightings; i++) {
		struct md_sighting *sighting = &host->sightings[i];

		if (sighting->generation == generation)
			sighting->has_rail = sighting->rail < desc->n_rails;
		else if (sighting->has_rail)
			sighting->has_rail = same_rail(host->desc, desc, sighting->rail);
	}
}

/* Is there memory for that description, instead of the one that it has? */
static bool has_memory(const struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc)
{
	size_t had = host->desc ? md_desc_bytes(host->desc) : 0, wants = md_desc_bytes(desc);
	size_t max = md_host_is_vouched(host) ? MD_HOSTS_BYTES_MAX : MD_HOSTS_BYTES_UNSIGNED;

	return wants <= had || hosts->bytes - had + wants <= max;
}

/* As far as who holds them depends on it: most changes are of a port that goes or comes. */
static bool same_gids(const struct md_desc *a, const struct md_desc *b)
{
	if (a->n_gids != b->n_gids)
		return false;
	for (uint32_t g = 0; g < a->n_gids; g++)
		if (!mv_gid_equal(&a->gids[g].gid, &b->gids[g].gid) || mv_dir_gid_is_kept(&a->gids[g]) != mv_dir_gid_is_kept(&b->gids[g]) ||
		    mv_dir_gid_may_be_routed(&a->gids[g]) != mv_dir_gid_may_be_routed(&b->gids[g]))
			return false;
	return true;
}

static int take_desc(struct md_hosts *hosts, struct md_host *host, const struct md_beacon *beacon,
		     const uint8_t *bytes, size_t len, bool proven, uint64_t now_ns)
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
	if (!has_memory(hosts, host, desc)) {
		free(desc);
		hosts->n_refused++;
		return -ENOSPC;
	}
	same = host->desc && same_gids(host->desc, desc);
	if (!proven && !same && !take_gids(hosts, host, desc->n_gids, now_ns)) {
		free(desc);
		return -EAGAIN;
	}
	follow_numbers(host, desc, beacon->generation);
	if (same)
		replace_desc(hosts, host);
	else
		drop_desc(hosts, host);
	hosts->bytes += md_desc_bytes(desc);
	host->desc = desc;
	host->generation = beacon->generation;
	memcpy(host->content, content, sizeof(content));
	host->content_version = host->agent_version = beacon->agent_version;
	return 0;
}

static int begin_partial(struct md_hosts *hosts, struct md_host *host,
			 const struct md_beacon *beacon, uint64_t now_ns)
{
	drop_partial(hosts, host);
	if (hosts->n_partial >= MD_PARTIAL_MAX)
		return -ENOSPC;
	host->partial = malloc(sizeof(*host->partial) + beacon->desc_bytes);
	if (!host->partial)
		return -ENOMEM;
	hosts->n_partial++;
	*host->partial = (struct md_partial){.generation = beacon->generation,
					     .begun_ns = now_ns,
					     .desc_bytes = beacon->desc_bytes};
	return 0;
}

/* Return: 1 when the description is complete, 0 when pieces are missing, -errno. */
static int add_piece(struct md_hosts *hosts, struct md_host *host, const struct md_beacon *beacon,
		     bool proven, uint64_t now_ns)
{
	unsigned int n_pieces = md_beacon_pieces(beacon->desc_bytes);
	struct md_partial *partial = host->partial;
	int err;

	if (n_pieces == 1) {
		drop_partial(hosts, host);
		err = take_desc(hosts, host, beacon, beacon->data, beacon->desc_bytes, proven, now_ns);
		return err ? err : 1;
	}
	if (!partial || partial->generation != beacon->generation ||
	    partial->desc_bytes != beacon->desc_bytes) {
		err = begin_partial(hosts, host, beacon, now_ns);
		if (err)
			return err;
		partial = host->partial;
	}
	memcpy(partial->bytes + (size_t)beacon->piece * MD_PIECE_BYTES, beacon->data,
	       beacon->piece_bytes);
	partial->have |= 1ull << beacon->piece;
	if (partial->have != (1ull << n_pieces) - 1)
		return 0;
	err = take_desc(hosts, host, beacon, partial->bytes, partial->desc_bytes, proven, now_ns);
	drop_partial(hosts, host);
	return err ? err : 1;
}

_Static_assert(MD_PIECES_MAX < 64, "a bit per piece");

static const struct md_rate changes_rate = {.per_second = MD_CHANGES_RATE, .burst = MD_CHANGES_BURST};

static int hear_desc(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard,
		     const struct md_beacon *beacon, uint64_t now_ns, unsigned int *news)
{
	uint32_t n_up = host->desc ? md_desc_n_up(host->desc) : 0;
	/* take_desc() compares with what is signed */
	bool rationed = !heard->proven && !md_host_is_vouched(host);
	int rc;

	if (host->desc && host->generation == beacon->generation)
		return 0;
	/* Overtaken on its way. Without proof a generation is what anybody says, as a start number is. */
	if (host->desc && heard->proven && beacon->generation < host->generation)
		return 0;
	if (md_host_is_vouched(host) && beacon->generation < host->vouch->said.generation)
		return 0;
	/* Ahead of its statement: both are asked for. */
	if (beacon->piece == MD_NO_PIECE || (md_host_is_vouched(host) && beacon->generation != host->vouch->said.generation)) {
		*news |= MD_NEWS_WANTED;
		return 0;
	}
	if (host->desc && rationed && !md_limit_has(&host->changes, &changes_rate, now_ns)) {
		hosts->n_held_back++;
		return 0;
	}
	rc = add_piece(hosts, host, beacon, heard->proven, now_ns);
	if (rc == -EAGAIN) {
		hosts->n_held_back++;
		return 0;
	}
	if (rc < 0)
		return rc;
	if (rc && rationed)
		md_limit_take(&host->changes, &changes_rate, now_ns);
	if (rc)
		*news |= md_desc_n_up(host->desc) < n_up ? MD_NEWS_DESC | MD_NEWS_DOWN : MD_NEWS_DESC;
	return 0;
}

/* ---- sightings ------------------------------------------------------------------------------- */

static struct md_sighting *find_sighting(struct md_host *host, uint32_t ifindex, uint16_t rail)
{
	for (size_t i = 0; i < host->n_sightings; i++)
		if (host->sightings[i].ifindex == ifindex && host->sightings[i].rail == rail)
			return &host->sightings[i];
	return NULL;
}

static int add_sighting(struct md_host *host, struct md_sighting **ret)
{
	if (host->n_sightings == MD_SIGHTINGS_MAX)
		return -ENOSPC;
	if (host->n_sightings == host->cap_sightings) {
		size_t cap = host->cap_sightings ? 2 * host->cap_sightings : 2;
		struct md_sighting *grown =
			reallocarray(host->sightings, cap, sizeof(*host->sightings));

		if (!grown)
			return -ENOMEM;
		host->sightings = grown;
		host->cap_sightings = cap;
	}
	*ret = &host->sightings[host->n_sightings++];
	return 0;
}

bool md_host_has_met(const struct md_host *host, uint32_t ifindex)
{
	for (size_t i = 0; i < host->n_met; i++)
		if (host->met[i] == ifindex)
			return true;
	return false;
}

/* Sightings expire, and this does not. */
static int meet(struct md_host *host, uint32_t ifindex)
{
	uint32_t *grown;

	if (md_host_has_met(host, ifindex))
		return 0;
	/* Netdevs that were made again have other numbers: the oldest one goes. */
	if (host->n_met == MD_NETS_MAX)
		memmove(host->met, host->met + 1, --host->n_met * sizeof(*host->met));
	grown = reallocarray(host->met, host->n_met + 1, sizeof(*host->met));
	if (!grown)
		return -ENOMEM;
	host->met = grown;
	host->met[host->n_met++] = ifindex;
	return 0;
}

/* A rail that sends over IPv6 and IPv4 is one sighting, with the address heard last. */
static int hear_sighting(struct md_host *host, const struct md_heard *heard,
			 const struct md_beacon *beacon, uint64_t now_ns, unsigned int *news)
{
	struct md_sighting *sighting = find_sighting(host, heard->ifindex, beacon->rail);
	bool known = sighting && sighting->start == heard->start;
	/* Until the next description is there, the number means what it did. */
	bool had_rail = sighting && sighting->has_rail;
	bool has_rail = had_rail || (host->desc && beacon->generation == host->generation &&
				     beacon->rail < host->desc->n_rails);
	/* Whoever forges the beacons of a host that is vouched for shall not have it forgotten soon. */
	uint64_t least_ns = sighting && md_host_is_vouched(host) ? sighting->expires_ns : 0;
	uint64_t expires_ns = now_ns + lifetime_ns(beacon->interval_ms);
	int err = meet(host, heard->ifindex);

	if (!err && !sighting)
		err = add_sighting(host, &sighting);
	if (err)
		return err;
	if (!known || has_rail != had_rail)
		*news |= MD_NEWS_SIGHTING;
	*sighting = (struct md_sighting){
		.ip = heard->ip,
		.start = heard->start,
		.generation = beacon->generation,
		.ifindex = heard->ifindex,
		.rail = beacon->rail,
		.has_rail = has_rail,
		.heard_ns = now_ns,
		.expires_ns = expires_ns > least_ns ? expires_ns : least_ns,
	};
	return 0;
}

/* ---- beacons --------------------------------------------------------------------------------- */

/* An answer from wherever shall not speak for a host that can be heard, or that has answered from
 * elsewhere. */
static bool is_overruled(const struct md_host *host, const struct md_heard *heard, uint64_t now_ns)
{
	if (!heard->answer)
		return false;
	for (size_t i = 0; i < host->n_sightings; i++)
		if (host->sightings[i].ifindex == heard->ifindex &&
		    IN6_ARE_ADDR_EQUAL(&host->sightings[i].ip, &heard->ip))
			return false;
	if (host->n_sightings)
		return true;
	return !heard->proven && host->told_expires_ns > now_ns &&
	       !IN6_ARE_ADDR_EQUAL(&host->told_by, &heard->ip);
}

static void hear_restart(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard)
{
	host->start = heard->start;
	host->counter = 0;
	/* Generations begin anew: what is known stays valid until the new description is there. */
	host->generation = 0;
	for (size_t i = 0; i < host->n_sightings; i++)
		host->sightings[i].generation = 0;
	drop_partial(hosts, host);
}

static int hear_known(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard,
		      const struct md_beacon *beacon, uint64_t now_ns, unsigned int *news)
{
	int err;

	if (is_overruled(host, heard, now_ns))
		return 0;
	if (md_host_is_vouched(host) &&
	    (heard->start != host->vouch->said.start || strcmp(beacon->name, host->vouch->said.name)))
		return -EPERM;
	if (heard->start != host->start) {
		hear_restart(hosts, host, heard);
		*news |= MD_NEWS_HOST;
	}
	if (heard->counter > host->counter)
		host->counter = heard->counter;
	host->heard_ns = now_ns;
	if (!md_host_is_vouched(host))
		host->agent_version = beacon->agent_version;
	if (strcmp(host->name, beacon->name)) {
		memcpy(host->name, beacon->name, sizeof(host->name));
		*news |= MD_NEWS_NAME;
	}
	if (heard->answer) {
		host->told_by = heard->ip;
		host->told_expires_ns = now_ns + lifetime_ns(beacon->interval_ms);
	} else {
		err = hear_sighting(host, heard, beacon, now_ns, news);
		if (err)
			return err;
		host->neighbour = true;
	}
	return hear_desc(hosts, host, heard, beacon, now_ns, news);
}

int md_hosts_hear(struct md_hosts *hosts, const struct md_heard *heard,
		  const struct md_beacon *beacon, uint64_t now_ns, unsigned int *ret_news)
{
	struct md_host *host = md_hosts_find(hosts, &heard->sender);
	unsigned int news = 0;
	int err;

	if (id_is(&heard->sender, &hosts->self))
		return -EALREADY;
	/*
	 * Copies of one beacon overtake each other on several links, and each of them tells of its
	 * own link; only a former life is old. Without proof a start number is what anybody says,
	 * and must not shut out the true one.
	 */
	if (host && heard->proven && heard->start < host->start)
		return -ESTALE;
	if (!host) {
		err = add_host(hosts, heard, now_ns, &host);
		if (err)
			return err;
		host->start = heard->start;
		news |= MD_NEWS_HOST;
	}
	err = hear_known(hosts, host, heard, beacon, now_ns, &news);
	*ret_news = news;
	return err;
}

/* ---- statements ------------------------------------------------------------------------------ */

static bool is_as_said(const struct md_host *host, const struct md_statement *said)
{
	return host->start == said->start && host->generation == said->generation &&
	       !memcmp(host->content, said->content, sizeof(host->content));
}

int md_hosts_vouch(struct md_hosts *hosts, struct md_host *host, const struct md_statement *said,
		   const uint8_t digest[MD_CONTENT_BYTES], enum md_trust_in trust, unsigned int *ret_news)
{
	bool was_vouched = md_host_is_vouched(host);

	*ret_news = 0;
	if (!host->vouch)
		host->vouch = calloc(1, sizeof(*host->vouch));
	if (!host->vouch)
		return -ENOMEM;
	host->vouch->trust = trust;
	host->vouch->said = *said;
	memcpy(host->vouch->digest, digest, sizeof(host->vouch->digest));
	if (was_vouched != md_host_is_vouched(host))
		host->claimed_view = 0;
	if (trust != MD_TRUST_PINNED || was_vouched)
		return 0;
	drop_partial(hosts, host);
	if (host->desc && is_as_said(host, said)) {
		host->agent_version = host->content_version;
		memcpy(host->name, said->name, sizeof(host->name));
		return 0;
	}
	*ret_news = host->desc ? MD_NEWS_WANTED | MD_NEWS_DESC : MD_NEWS_WANTED;
	drop_desc(hosts, host);
	host->generation = 0;
	return 0;
}

void md_hosts_unvouch(struct md_host *host)
{
	free(host->vouch);
	host->vouch = NULL;
	host->claimed_view = 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Removes what has expired, and what was heard on that netdev. Return: whether there was any. */
static bool sweep_sightings(struct md_host *host, uint64_t now_ns, uint32_t ifindex)
{
	size_t kept = 0, before = host->n_sightings;

	for (size_t i = 0; i < before; i++) {
		const struct md_sighting *sighting = &host->sightings[i];

		if (sighting->expires_ns > now_ns && sighting->ifindex != ifindex)
			host->sightings[kept++] = *sighting;
	}
	host->n_sightings = kept;
	return kept != before;
}

bool md_hosts_expire(struct md_hosts *hosts, uint64_t now_ns)
{
	struct md_host *host, *next;
	bool changed = false;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		changed |= sweep_sightings(host, now_ns, 0);
		if (host->partial && now_ns - host->partial->begun_ns > MD_PARTIAL_NS)
			drop_partial(hosts, host);
		if (host->n_sightings || host->told_expires_ns > now_ns)
			continue;
		changed |= host->desc != NULL;
		remove_host(hosts, host);
	}
	return changed;
}

static void put_off(uint64_t *time_ns, uint64_t heard_ns, uint64_t since_ns, uint64_t now_ns)
{
	/* What has been heard after it has its full time already. */
	if (heard_ns <= since_ns && now_ns > since_ns)
		*time_ns += now_ns - since_ns;
}

void md_hosts_excuse(struct md_hosts *hosts, uint64_t since_ns, uint64_t now_ns)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		for (size_t i = 0; i < host->n_sightings; i++)
			put_off(&host->sightings[i].expires_ns, host->sightings[i].heard_ns, since_ns, now_ns);
		if (host->told_expires_ns)
			put_off(&host->told_expires_ns, host->heard_ns, since_ns, now_ns);
		if (host->partial)
			put_off(&host->partial->begun_ns, host->partial->begun_ns, since_ns, now_ns);
	}
}

bool md_hosts_forget_net(struct md_hosts *hosts, uint32_t ifindex)
{
	struct md_host *host, *next;
	bool changed = false;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		uint64_t last_ns = 0;

		for (size_t i = 0; i < host->n_sightings; i++)
			if (host->sightings[i].expires_ns > last_ns)
				last_ns = host->sightings[i].expires_ns;
		if (!sweep_sightings(host, 0, ifindex))
			continue;
		changed = true;
		if (host->told_expires_ns < last_ns)
			host->told_expires_ns = last_ns;
	}
	return changed;
}

size_t md_hosts_on_net(const struct md_hosts *hosts, uint32_t ifindex)
{
	struct md_host *host, *next;
	size_t n = 0;

	HASH_ITER(hh, hosts->by_id, host, next)
	for (size_t i = 0; i < host->n_sightings; i++)
		n += host->sightings[i].ifindex == ifindex;
	return n;
}

void md_hosts_fini(struct md_hosts *hosts)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
	remove_host(hosts, host);
}
