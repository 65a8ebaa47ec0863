/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of hosts: hosts are added, expire and are removed. */
#include "hostsint.h"

#include <errno.h>
#include <stdlib.h>

struct md_host *md_hosts_find(const struct md_hosts *hosts, const struct mv_host_id *id)
{
	struct md_host *host;

	HASH_FIND(hh, hosts->by_id, id->bytes, sizeof(id->bytes), host);
	return host;
}

void md_hosts_remove(struct md_hosts *hosts, struct md_host *host)
{
	HASH_DEL(hosts->by_id, host);
	hosts->n--;
	md_hosts_drop_partials(hosts, host);
	md_hosts_drop_desc(hosts, host);
	md_hosts_uncount(host);
	md_hosts_unwant(hosts, host);
	if (hosts->gone)
		hosts->gone(hosts->arg, host);
	md_vouch_unlist(host->vouch);
	free(host->vouch);
	md_hosts_drop_sightings(hosts, &host->sightings);
	free(host->met.nets);
	free(host);
}

void md_hosts_forget(struct md_hosts *hosts, const struct mv_host_id *id)
{
	struct md_host *host = md_hosts_find(hosts, id);

	if (host)
		md_hosts_remove(hosts, host);
}

int md_hosts_add(struct md_hosts *hosts, const struct md_heard *heard, uint64_t now_ns, struct md_host **ret)
{
	unsigned int share = md_heard_share(heard);
	struct md_host *host;

	if (!md_hosts_take_new(hosts, share, now_ns) || !md_hosts_make_room(hosts, share, heard->wanted)) {
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
	md_hosts_count(hosts, host, share);
	*ret = host;
	return 0;
}

bool md_hosts_expire(struct md_hosts *hosts, uint64_t now_ns)
{
	struct md_host *host, *next;
	bool changed = false;

	md_hosts_forget_wants(hosts, now_ns);
	HASH_ITER(hh, hosts->by_id, host, next)
	{
		changed |= md_hosts_sweep_sightings(hosts, &host->sightings, now_ns, 0);
		md_hosts_expire_partials(hosts, host, now_ns);
		if (host->sightings.n || host->told.expires_ns > now_ns)
			continue;
		changed |= host->desc != NULL;
		md_hosts_remove(hosts, host);
	}
	return changed;
}

/* Return: by how much the expiry of what was heard at @heard_ns is to be put off. */
static uint64_t excused(uint64_t heard_ns, uint64_t since_ns, uint64_t now_ns)
{
	/* A host that was heard after @since_ns already has its full lifetime. */
	return heard_ns <= since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
}

void md_hosts_excuse(struct md_hosts *hosts, uint64_t since_ns, uint64_t now_ns)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		for (size_t i = 0; i < host->sightings.n; i++)
			host->sightings.list[i].heard_ns += excused(host->sightings.list[i].heard_ns, since_ns, now_ns);
		if (host->told.expires_ns)
			host->told.expires_ns += excused(host->heard_ns, since_ns, now_ns);
		for (struct md_partial *partial = host->partials; partial; partial = partial->of_host)
			partial->begun_ns += excused(partial->begun_ns, since_ns, now_ns);
	}
}

/* Return: the part of @ns that @spare_ms covers, taken from there, in ms. */
static uint32_t take_spare(uint32_t *spare_ms, uint64_t ns)
{
	uint32_t ms = ns < *spare_ms * MD_MS ? (uint32_t)(ns / MD_MS) : *spare_ms;

	*spare_ms -= ms;
	return ms;
}

void md_hosts_excuse_loss(struct md_hosts *hosts, uint64_t since_ns, uint64_t now_ns)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		for (size_t i = 0; i < host->sightings.n; i++) {
			struct md_sighting *sighting = &host->sightings.list[i];

			sighting->life_ms += take_spare(&sighting->spare_ms, excused(sighting->heard_ns, since_ns, now_ns));
		}
		if (host->told.expires_ns)
			host->told.expires_ns += take_spare(&host->told.spare_ms, excused(host->heard_ns, since_ns, now_ns)) * MD_MS;
	}
}

void md_hosts_fini(struct md_hosts *hosts)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
	md_hosts_remove(hosts, host);
}
