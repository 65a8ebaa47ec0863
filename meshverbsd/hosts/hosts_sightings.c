/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Sightings: which rail of another host is heard on which netdev. */
#include "hostsint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* The list of netdevs on which the host was met does not expire, unlike sightings. */
static int meet(struct md_host *host, uint32_t ifindex)
{
	uint32_t *grown;

	if (md_host_has_met(host, ifindex))
		return 0;
	/* Drop the oldest entry. A netdev that was created again has a new ifindex, so old entries may be useless. */
	if (host->n_met == MD_NETS_MAX)
		memmove(host->met, host->met + 1, --host->n_met * sizeof(*host->met));
	grown = reallocarray(host->met, host->n_met + 1, sizeof(*host->met));
	if (!grown)
		return -ENOMEM;
	host->met = grown;
	host->met[host->n_met++] = ifindex;
	return 0;
}

/* A rail that sends over IPv6 and IPv4 has one sighting, with the address heard last. */
int md_host_hear_sighting(struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon, uint64_t now_ns,
			  unsigned int *news)
{
	struct md_sighting *sighting = find_sighting(host, heard->ifindex, beacon->rail);
	bool known = sighting && sighting->start == heard->start;
	/* The rail number keeps its meaning until the next description is there. */
	bool had_rail = sighting && sighting->has_rail;
	bool has_rail = had_rail || (host->desc && beacon->generation == host->generation &&
				     beacon->rail < host->desc->n_rails);
	/* Forged beacons must not shorten the lifetime of a host that is vouched for. */
	uint64_t least_ns = sighting && md_host_is_vouched(host) ? sighting->expires_ns : 0;
	uint64_t expires_ns = now_ns + md_host_lifetime_ns(beacon->interval_ms);
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

bool md_host_sweep_sightings(struct md_host *host, uint64_t now_ns, uint32_t ifindex)
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
		if (!md_host_sweep_sightings(host, 0, ifindex))
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
