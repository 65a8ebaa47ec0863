/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hosts at the remote ends of watched paths: paths to one host are compared with each other. */
#include "probes_internal.h"

#include <stdlib.h>

static struct md_probe_host *find(const struct md_probes *probes, const struct mv_host_id *id)
{
	struct md_probe_host *host;

	HASH_FIND(hh, probes->hosts, id, sizeof(*id), host);
	return host;
}

/* Return: NULL: no memory. */
static struct md_probe_host *find_or_make(struct md_probes *probes, const struct mv_host_id *id)
{
	struct md_probe_host *host = find(probes, id);

	if (host)
		return host;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->id = *id;
	TAILQ_INIT(&host->paths);
	HASH_ADD(hh, probes->hosts, id, sizeof(host->id), host);
	if (host->hh.tbl)
		return host;
	free(host);
	return NULL;
}

void md_probe_leave_host(struct md_probes *probes, struct md_probe *p)
{
	struct md_probe_host *host = p->host;

	p->host = NULL;
	if (!host)
		return;
	TAILQ_REMOVE(&host->paths, p, of_host);
	host->turn = 0;
	if (!TAILQ_EMPTY(&host->paths))
		return;
	HASH_DEL(probes->hosts, host);
	free(host);
}

void md_probe_set_host(struct md_probes *probes, struct md_probe *p, const struct mv_host_id *id)
{
	struct md_probe_host *host;

	if (md_probe_leads_to(p, id))
		return;
	md_probe_leave_host(probes, p);
	host = find_or_make(probes, id);
	p->host = host;
	if (host)
		TAILQ_INSERT_TAIL(&host->paths, p, of_host);
	probes->n_changes++;
}

bool md_probes_has_host(const struct md_probes *probes, const struct mv_host_id *id)
{
	return find(probes, id);
}

void md_probe_look_for_host(struct md_probes *probes, struct md_probe *p)
{
	struct mv_host_id id;

	if (probes->ops->host(probes->arg, &p->key, &id))
		md_probe_set_host(probes, p, &id);
}

/*
 * Hosts of paths that may be witnesses, once in a turn. An echo tells the host. Until then the map of GIDs does, which
 * may know more since: a host that has lost its identity has another id.
 */
static void look_for_hosts(struct md_probes *probes)
{
	struct md_probe *p, *next;

	if (probes->hosts_turn == probes->turn)
		return;
	probes->hosts_turn = probes->turn;
	HASH_ITER(hh, probes->by_key, p, next)
	if (!p->suspect && !(p->host && p->host_told))
		md_probe_look_for_host(probes, p);
}

/* Thousands of paths may lead to a host, and hundreds of these be suspect in one turn: all are looked at once. */
static void begin_turn(struct md_probes *probes, struct md_probe_host *host)
{
	struct md_probe *p;

	if (host->turn == probes->turn)
		return;
	host->turn = probes->turn;
	host->newest = host->next[false] = host->next[true] = TAILQ_FIRST(&host->paths);
	TAILQ_FOREACH(p, &host->paths, of_host) {
		probes->count.compared++;
		if (p->turn_answered > host->newest->turn_answered)
			host->newest = p;
	}
}

struct md_probe *md_probe_newest_of_host(struct md_probes *probes, const struct md_probe *of)
{
	if (!of->host)
		return NULL;
	begin_turn(probes, of->host);
	return of->host->newest;
}

struct md_probe *md_probe_next_of_host(struct md_probes *probes, const struct md_probe *of, bool answer)
{
	struct md_probe *p;

	look_for_hosts(probes);
	if (!of->host)
		return NULL;
	begin_turn(probes, of->host);
	p = of->host->next[answer];
	if (p) {
		probes->count.compared++;
		of->host->next[answer] = TAILQ_NEXT(p, of_host);
	}
	return p;
}
