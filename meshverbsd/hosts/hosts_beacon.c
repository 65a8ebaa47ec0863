/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A beacon, or an answer to a query, has come. */
#include "hostsint.h"

#include <errno.h>
#include <string.h>

static bool id_is(const struct mv_host_id *a, const struct mv_host_id *b)
{
	return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/* Does the host say that it has the address? False for link-local addresses, which others may have, too. */
static bool is_own(const struct md_host *host, const struct in6_addr *ip)
{
	if (IN6_IS_ADDR_LINKLOCAL(ip))
		return false;
	for (uint32_t g = 0; host->desc && g < host->desc->n_gids; g++)
		if (!memcmp(host->desc->gids[g].gid.raw, ip, sizeof(*ip)) && !mv_dir_gid_in_grace(&host->desc->gids[g]))
			return true;
	return false;
}

/*
 * Beacons from another address overrule an answer. An earlier answer from another address overrules one that is not
 * proven. Nothing overrules an answer from an address that the host has: otherwise a host would be forgotten when its
 * first rail fails though the second one answers, or after somebody forged a beacon of the host.
 */
static bool is_overruled(const struct md_host *host, const struct md_heard *heard, uint64_t now_ns)
{
	if (!heard->answer || is_own(host, &heard->ip))
		return false;
	for (size_t i = 0; i < host->sightings.n; i++)
		if (host->sightings.list[i].ifindex == heard->ifindex &&
		    IN6_ARE_ADDR_EQUAL(&host->sightings.list[i].ip, &heard->ip))
			return false;
	if (host->sightings.n)
		return true;
	return !heard->proven && host->told.expires_ns > now_ns &&
	       !IN6_ARE_ADDR_EQUAL(&host->told.by, &heard->ip);
}

static void hear_restart(struct md_host *host, const struct md_heard *heard)
{
	host->start = heard->start;
	host->counter = 0;
	/* Generations begin anew. The old description stays valid until the new one is there. */
	host->generation = 0;
	for (size_t i = 0; i < host->sightings.n; i++)
		host->sightings.list[i].generation = 0;
}

static void hear_answer(struct md_host_told *told, const struct md_heard *heard, uint32_t life_ms, uint64_t now_ns)
{
	told->spare_ms = life_ms;
	told->expires_ns = now_ns + life_ms * MD_MS;
	if (told->by_until_ns > now_ns && !IN6_ARE_ADDR_EQUAL(&told->by, &heard->ip))
		return;
	told->by = heard->ip;
	told->by_until_ns = heard->near ? 0 : told->expires_ns;
}

static int hear_known(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard,
		      const struct md_beacon *beacon, uint64_t now_ns, unsigned int *changed)
{
	bool overruled = is_overruled(host, heard, now_ns);
	int err;

	if (!overruled && md_host_is_vouched(host) &&
	    (heard->start != host->vouch->said.start || strcmp(beacon->name, host->vouch->said.name)))
		return -EPERM;
	if (heard->wanted)
		md_hosts_want(hosts, host, heard->account);
	if (overruled)
		return 0;
	if (heard->start != host->start) {
		hear_restart(host, heard);
		*changed |= MD_CHANGED_HOST;
	}
	if (heard->counter > host->counter)
		host->counter = heard->counter;
	host->heard_ns = now_ns;
	if (!md_host_is_vouched(host))
		host->agent_version = beacon->agent_version;
	if (strcmp(host->name, beacon->name)) {
		memcpy(host->name, beacon->name, sizeof(host->name));
		*changed |= MD_CHANGED_NAME;
	}
	if (heard->answer) {
		hear_answer(&host->told, heard, md_host_lifetime_ms(beacon->interval_ms), now_ns);
	} else {
		err = md_hosts_hear_sighting(hosts, host, heard, beacon, now_ns, changed);
		if (err)
			return err;
		host->neighbour = true;
	}
	return md_hosts_hear_desc(hosts, host, heard, beacon, now_ns, changed);
}

int md_hosts_hear(struct md_hosts *hosts, const struct md_heard *heard,
		  const struct md_beacon *beacon, uint64_t now_ns, unsigned int *ret_changed)
{
	struct md_host *host = md_hosts_find(hosts, &heard->sender);
	unsigned int changed = 0;
	int err;

	if (id_is(&heard->sender, &hosts->self))
		return -EALREADY;
	if (mv_host_id_is_zero(&heard->sender))
		return -EINVAL;
	/*
	 * A lower start number means a former life of the agent. An unproven start number is not compared: a forged one
	 * must not shut out the true one. Counters are not compared either: a host sends one beacon on several links,
	 * the copies overtake each other, and each copy shows which link works.
	 */
	if (host && heard->proven && heard->start < host->start)
		return -ESTALE;
	if (!host) {
		err = md_hosts_add(hosts, heard, now_ns, &host);
		if (err)
			return err;
		host->start = heard->start;
		changed |= MD_CHANGED_HOST;
	}
	err = hear_known(hosts, host, heard, beacon, now_ns, &changed);
	*ret_changed = changed;
	return err;
}
