/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Renews cookies of agents that may be needed without delay. A cookie lives for one or two minutes (secure.h). Only
 * messages and acks renew it: beacons have the cookie of their link, probes that of their path. Two agents whose
 * processes only exchange data have no messages for long. Then the first message of a move would be refused for want of
 * a cookie, while a program waits; on a host where the agent gets a processor once a second, that costs two seconds.
 */
#include "agent.h"

#include <assert.h>

/* A cookie lives for one epoch at least. The rest of the epoch allows for late agents. */
#define RENEW_NS (MD_COOKIE_EPOCH_NS / 3 * 2)

static_assert(RENEW_NS + 2 * MD_COOKIE_REFRESH_NS < MD_COOKIE_EPOCH_NS, "renewed while it is valid");

/* Agents that take no bundles are not asked. Agents that may take bundles are asked MD_BUNDLES_ASK_MAX times. */
static bool is_to_be_asked(struct md_host *host)
{
	if (md_host_takes_bundles(host))
		return true;
	if (host->bundles.n_asked >= MD_BUNDLES_ASK_MAX)
		return false;
	host->bundles.n_asked++;
	return true;
}

/*
 * At an address where no host is heard the kernel would try to resolve the neighbour, and a connecting queue pair would
 * wait for that: see md_paths_leave().
 */
static bool is_heard(const struct md_host *host, const struct md_endpoint *at)
{
	for (size_t i = 0; i < host->sightings.n; i++)
		if (host->sightings.list[i].ifindex == at->ifindex &&
		    IN6_ARE_ADDR_EQUAL(&host->sightings.list[i].ip, &at->ip))
			return true;
	return host->told.expires_ns && IN6_ARE_ADDR_EQUAL(&host->told.by, &at->ip);
}

static void renew(struct md_agent *agent, const struct md_host *host, const union ibv_gid *gid)
{
	struct md_endpoint to[MD_PATHS_AT_ONCE];
	size_t n = md_msg_relay_first_ways(&agent->msg_router.relay, gid, to, MD_PATHS_AT_ONCE);

	for (size_t i = 0; i < n; i++)
		if (is_heard(host, &to[i]))
			md_msg_router_ask(agent, &to[i]);
}

/* Return: the host at the remote end of a watched path that works; else NULL. */
static struct md_host *host_of(struct md_agent *agent, const struct md_probe *probe)
{
	if (!probe->n_scheduled || probe->state != MV_PROBED_UP || !probe->host)
		return NULL;
	return md_hosts_find(&agent->hosts, &probe->host->id);
}

/*
 * For each path: accounts that watch different paths to a host all want the host. There may be thousands of accounts, so
 * they are not looked at each time.
 */
static void want(struct md_agent *agent, struct md_host *host, struct md_probe *probe, uint64_t now_ns)
{
	const struct md_probe_share *share;

	if (now_ns < probe->want_ns && md_host_is_wanted(host))
		return;
	probe->want_ns = now_ns + RENEW_NS;
	LIST_FOREACH(share, &probe->shares, of_path)
		md_hosts_want(&agent->hosts, host, share->user->account);
}

void md_cookie_refresh_look(struct md_agent *agent, uint64_t now_ns)
{
	unsigned int n = 0;
	struct md_probe *probe, *next;

	agent->due.renew_ns = now_ns + MD_COOKIE_REFRESH_NS;
	HASH_ITER(hh, agent->prober.probes.by_key, probe, next)
	{
		struct md_host *host = host_of(agent, probe);

		if (!host)
			continue;
		want(agent, host, probe, now_ns);
		if (now_ns < host->renew_ns)
			continue;
		host->renew_ns = now_ns + RENEW_NS;
		if (!is_to_be_asked(host))
			continue;
		renew(agent, host, &probe->key.remote);
		if (++n == MD_COOKIE_REFRESH_HOSTS)
			return;
	}
}

uint64_t md_cookie_refresh_next(const struct md_agent *agent)
{
	return agent->prober.probes.n_scheduled ? agent->due.renew_ns : UINT64_MAX;
}
