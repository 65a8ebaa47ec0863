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

static void remove_host(struct md_hosts *hosts, struct md_host *host)
{
	HASH_DEL(hosts->by_id, host);
	hosts->n--;
	md_hosts_drop_partials(hosts, host);
	md_hosts_drop_desc(hosts, host);
	if (hosts->gone)
		hosts->gone(hosts->arg, host);
	free(host->vouch);
	free(host->sightings);
	free(host->met);
	free(host);
}

/* Token bucket: MD_NEW_HOSTS_BURST tokens, refilled at MD_NEW_HOSTS_RATE. */
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

int md_hosts_add(struct md_hosts *hosts, const struct md_heard *heard, uint64_t now_ns, struct md_host **ret)
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

bool md_hosts_expire(struct md_hosts *hosts, uint64_t now_ns)
{
	struct md_host *host, *next;
	bool changed = false;

	HASH_ITER(hh, hosts->by_id, host, next)
	{
		changed |= md_host_sweep_sightings(host, now_ns, 0);
		md_hosts_expire_partials(hosts, host, now_ns);
		if (host->n_sightings || host->told_expires_ns > now_ns)
			continue;
		changed |= host->desc != NULL;
		remove_host(hosts, host);
	}
	return changed;
}

static void put_off(uint64_t *time_ns, uint64_t heard_ns, uint64_t since_ns, uint64_t now_ns)
{
	/* A host that was heard after @since_ns already has its full lifetime. */
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
		for (struct md_partial *partial = host->partials; partial; partial = partial->of_host)
			put_off(&partial->begun_ns, partial->begun_ns, since_ns, now_ns);
	}
}

void md_hosts_fini(struct md_hosts *hosts)
{
	struct md_host *host, *next;

	HASH_ITER(hh, hosts->by_id, host, next)
	remove_host(hosts, host);
}
