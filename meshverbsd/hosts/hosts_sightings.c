/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sightings: which rail of another host is heard on which netdev. */
#include "hostsint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct md_sighting *find_sighting(const struct md_sightings *of, uint32_t ifindex, uint16_t rail)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->list[i].ifindex == ifindex && of->list[i].rail == rail)
			return &of->list[i];
	return NULL;
}

/* A sighting beyond MD_SIGHTINGS_OF_HOST takes room of its link. */
static bool take_room(struct md_hosts *hosts, const struct md_sightings *of, unsigned int share, uint8_t *ret_share)
{
	size_t n_own = 0;

	if (of->n == MD_SIGHTINGS_MAX)
		return false;
	for (size_t i = 0; i < of->n; i++)
		n_own += !of->list[i].share;
	*ret_share = n_own < MD_SIGHTINGS_OF_HOST ? 0 : (uint8_t)share;
	if (*ret_share && hosts->shares[share].n_sightings == MD_SIGHTINGS_OF_LINK)
		return false;
	hosts->shares[share].n_sightings += *ret_share != 0;
	return true;
}

static void give_room_back(struct md_hosts *hosts, const struct md_sighting *sighting)
{
	if (sighting->share)
		hosts->shares[sighting->share].n_sightings--;
}

/*
 * Makes the array as long as @n sightings need. The array shrinks, too. Otherwise hosts that are heard from many rails
 * one after the other would all have long arrays.
 */
static int fit(struct md_sightings *of, size_t n)
{
	size_t cap = 2;
	struct md_sighting *fitting;

	while (cap < n)
		cap += cap < MD_SIGHTINGS_OF_HOST ? cap : MD_SIGHTINGS_OF_HOST;
	if (cap == of->cap)
		return 0;
	fitting = reallocarray(of->list, cap, sizeof(*fitting));
	if (!fitting)
		return n <= of->cap ? 0 : -ENOMEM;
	of->list = fitting;
	of->cap = cap;
	return 0;
}

static int add_sighting(struct md_sightings *of, uint8_t share, struct md_sighting **ret)
{
	int err = fit(of, of->n + 1);

	if (err)
		return err;
	*ret = &of->list[of->n++];
	(*ret)->share = share;
	return 0;
}

static unsigned int link_of(const struct md_sighting *sighting)
{
	return md_link_share(sighting->ifindex);
}

/*
 * Without room, a sighting on a link takes the place of one of the same host on the link with most of them, if that
 * link has more. The one that was not heard for the longest goes. The place stays in the share that it is in.
 * Return: NULL: no link has more.
 */
static struct md_sighting *place_for(const struct md_sightings *of, unsigned int link)
{
	size_t n[MD_HOSTS_SHARES] = {0};
	struct md_sighting *found = NULL;
	unsigned int most = link;

	for (size_t i = 0; i < of->n; i++)
		n[link_of(&of->list[i])]++;
	for (unsigned int i = 0; i < MD_HOSTS_SHARES; i++)
		if (n[i] > n[most])
			most = i;
	if (n[most] <= n[link] + 1)
		return NULL;
	for (size_t i = 0; i < of->n; i++)
		if (link_of(&of->list[i]) == most && (!found || of->list[i].heard_ns < found->heard_ns))
			found = &of->list[i];
	return found;
}

static int new_sighting(struct md_hosts *hosts, struct md_sightings *of, uint32_t ifindex, struct md_sighting **ret)
{
	unsigned int link = md_link_share(ifindex);
	uint8_t share;
	int err;

	if (!take_room(hosts, of, link, &share)) {
		*ret = place_for(of, link);
		return *ret ? 0 : -ENOSPC;
	}
	err = add_sighting(of, share, ret);
	if (err)
		hosts->shares[link].n_sightings -= share != 0;
	return err;
}

static bool has_met(const struct md_host_met *met, uint32_t ifindex)
{
	for (size_t i = 0; i < met->n; i++)
		if (met->nets[i] == ifindex)
			return true;
	return false;
}

bool md_host_has_met(const struct md_host *host, uint32_t ifindex)
{
	return has_met(&host->met, ifindex);
}

/* The list of netdevs on which the host was met does not expire, unlike sightings. */
static int meet(struct md_host_met *met, uint32_t ifindex)
{
	uint32_t *grown;

	if (has_met(met, ifindex))
		return 0;
	/* Drop the oldest entry. A netdev that was created again has a new ifindex, so old entries may be useless. */
	if (met->n == MD_NETS_MAX)
		memmove(met->nets, met->nets + 1, --met->n * sizeof(*met->nets));
	grown = reallocarray(met->nets, met->n + 1, sizeof(*met->nets));
	if (!grown)
		return -ENOMEM;
	met->nets = grown;
	met->nets[met->n++] = ifindex;
	return 0;
}

/* Return: time until the sighting expires, rounded up; 0: it has expired. */
static uint32_t rest_ms(const struct md_sighting *sighting, uint64_t now_ns)
{
	uint64_t expires_ns = md_sighting_expires_ns(sighting);

	return expires_ns > now_ns ? (uint32_t)((expires_ns - now_ns + MD_MS - 1) / MD_MS) : 0;
}

/* A rail that sends over IPv6 and IPv4 has one sighting, with the address heard last. */
int md_hosts_hear_sighting(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard,
			   const struct md_beacon *beacon, uint64_t now_ns, unsigned int *changed)
{
	struct md_sighting *sighting = find_sighting(&host->sightings, heard->ifindex, beacon->rail);
	bool known = sighting && sighting->start == heard->start;
	/* A host tells each change on all its links. If it did not tell one here, it was down here, and hears us no more. */
	bool back = known && beacon->generation > sighting->generation + 1;
	/* The rail number keeps its meaning until the next description is there. */
	bool had_rail = sighting && sighting->has_rail;
	bool has_rail = had_rail || (host->desc && beacon->generation == host->generation &&
				     beacon->rail < host->desc->n_rails);
	/* Forged beacons must not shorten the lifetime of a host that is vouched for. */
	uint32_t least_ms = sighting && md_host_is_vouched(host) ? rest_ms(sighting, now_ns) : 0;
	uint32_t life_ms = md_host_lifetime_ms(beacon->interval_ms);
	int err = meet(&host->met, heard->ifindex);

	if (!err && !sighting)
		err = new_sighting(hosts, &host->sightings, heard->ifindex, &sighting);
	if (err)
		return err;
	life_ms = life_ms > least_ms ? life_ms : least_ms;
	if (!known || has_rail != had_rail)
		*changed |= MD_CHANGED_SIGHTING;
	if (back)
		*changed |= MD_CHANGED_BACK;
	*sighting = (struct md_sighting){
		.ip = heard->ip,
		.start = heard->start,
		.generation = beacon->generation,
		.ifindex = heard->ifindex,
		.rail = beacon->rail,
		.has_rail = has_rail,
		.share = sighting->share,
		.heard_ns = now_ns,
		.life_ms = life_ms,
		.spare_ms = life_ms,
	};
	return 0;
}

bool md_hosts_sweep_sightings(struct md_hosts *hosts, struct md_sightings *of, uint64_t now_ns, uint32_t ifindex)
{
	size_t kept = 0, before = of->n;

	for (size_t i = 0; i < before; i++) {
		const struct md_sighting *sighting = &of->list[i];

		if (md_sighting_expires_ns(sighting) > now_ns && sighting->ifindex != ifindex)
			of->list[kept++] = *sighting;
		else
			give_room_back(hosts, sighting);
	}
	of->n = kept;
	if (kept != before)
		fit(of, kept);
	return kept != before;
}

void md_hosts_drop_sightings(struct md_hosts *hosts, struct md_sightings *of)
{
	for (size_t i = 0; i < of->n; i++)
		give_room_back(hosts, &of->list[i]);
	free(of->list);
	*of = (struct md_sightings){0};
}

bool md_hosts_forget_net(struct md_hosts *hosts, uint32_t ifindex)
{
	struct md_host *host, *next;
	bool changed = false;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		struct md_host_told last = {.expires_ns = 0};

		for (size_t i = 0; i < host->sightings.n; i++) {
			const struct md_sighting *sighting = &host->sightings.list[i];

			if (md_sighting_expires_ns(sighting) > last.expires_ns)
				last = (struct md_host_told){
					.expires_ns = md_sighting_expires_ns(sighting), .spare_ms = sighting->spare_ms};
		}
		if (!md_hosts_sweep_sightings(hosts, &host->sightings, 0, ifindex))
			continue;
		changed = true;
		if (host->told.expires_ns < last.expires_ns) {
			last.by = host->told.by;
			host->told = last;
		}
	}
	return changed;
}

void md_hosts_on_nets(const struct md_hosts *hosts, struct md_net_heard *nets, size_t n_nets)
{
	struct md_host *host, *next;
	size_t at = 0;

	for (size_t n = 0; n < n_nets; n++)
		nets[n].n = 0;
	HASH_ITER(hh, hosts->by_id, host, next)
	for (size_t i = 0; i < host->sightings.n; i++) {
		/* Usually on the same netdev as the sighting before, or on the next one. */
		for (size_t tries = 0; tries < n_nets; tries++, at = at + 1 < n_nets ? at + 1 : 0) {
			if (nets[at].ifindex != host->sightings.list[i].ifindex)
				continue;
			nets[at].n++;
			break;
		}
	}
}
