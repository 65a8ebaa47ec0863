/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which accounts want which hosts. */
#include "hostsint.h"

#include <utlist.h>

_Static_assert(MD_WANTERS <= 32, "a bit of md_host_wanted.by for each");

/* Return: index in @hosts->wanters. Without a free place the last one, which several accounts share. */
static unsigned int place_of(struct md_hosts *hosts, uint64_t account)
{
	unsigned int unused = MD_WANTERS - 1;

	if (!account)
		return 0;
	for (unsigned int w = MD_WANTERS - 1; w > 0; w--) {
		if (!hosts->wanters[w].n)
			unused = w;
		else if (hosts->wanters[w].account == account)
			return w;
	}
	if (!hosts->wanters[unused].n)
		hosts->wanters[unused].account = account;
	return unused;
}

/* Charge the host to the account with the least charge of those that want it. */
static void charge(struct md_hosts *hosts, struct md_host *host)
{
	uint32_t by = md_host_wanters(host);
	unsigned int best = MD_WANTERS;

	for (unsigned int w = 0; w < MD_WANTERS; w++)
		if (by & 1u << w && (best == MD_WANTERS || hosts->wanters[w].list.charge < hosts->wanters[best].list.charge))
			best = w;
	host->wanted.charged = best;
	md_hosts_place(hosts, host);
}

/* Accounts in the mask @these do not want the host any more. */
static void drop(struct md_hosts *hosts, struct md_host *host, uint32_t these)
{
	for (unsigned int w = 0; w < MD_WANTERS; w++)
		hosts->wanters[w].n -= these >> w & 1;
	host->wanted.by[0] &= ~these;
	host->wanted.by[1] &= ~these;
}

void md_hosts_unwant(struct md_hosts *hosts, struct md_host *host)
{
	drop(hosts, host, md_host_wanters(host));
}

/* Which account is to want fewer hosts, so that @w has room? Root and the hosts file keep theirs. */
static unsigned int largest(const struct md_hosts *hosts, unsigned int w)
{
	unsigned int found = w;

	for (unsigned int i = 1; i < MD_WANTERS; i++)
		if (hosts->wanters[i].list.charge > hosts->wanters[found].list.charge || (!found && hosts->wanters[i].list.n))
			found = i;
	return found;
}

void md_hosts_bound_wants(struct md_hosts *hosts, const struct md_host *host)
{
	size_t total = 0;

	for (unsigned int w = 0; w < MD_WANTERS; w++)
		total += hosts->wanters[w].list.charge;
	while (total > MD_WANTED_BYTES) {
		unsigned int w = largest(hosts, host->wanted.charged);
		struct md_hosts_list *list = &hosts->wanters[w].list;
		struct md_host *oldest = list->hosts == host ? host->room.next : list->hosts;
		size_t before = list->charge;

		if (!oldest)
			return;
		drop(hosts, oldest, 1u << w);
		charge(hosts, oldest);
		total -= md_host_is_wanted(oldest) ? 0 : before - list->charge;
	}
}

void md_hosts_want(struct md_hosts *hosts, struct md_host *host, uint64_t account)
{
	unsigned int w = place_of(hosts, account);

	if (host->wanted.by[0] & 1u << w)
		return;
	if (!(host->wanted.by[1] & 1u << w))
		hosts->wanters[w].n++;
	host->wanted.by[0] |= 1u << w;
	charge(hosts, host);
	md_hosts_bound_wants(hosts, host);
}

void md_hosts_forget_wants(struct md_hosts *hosts, uint64_t now_ns)
{
	struct md_host *host, *next;

	if (now_ns < hosts->forget_wants_ns)
		return;
	hosts->forget_wants_ns = now_ns + MD_TARGET_IDLE_NS;
	HASH_ITER(hh, hosts->by_id, host, next)
	{
		drop(hosts, host, host->wanted.by[1] & ~host->wanted.by[0]);
		host->wanted.by[1] = host->wanted.by[0];
		host->wanted.by[0] = 0;
		/* In order of arrival: else a host that nobody wants any more is the newest, which makes room first. */
		if (!md_host_is_wanted(host))
			md_hosts_place(hosts, host);
		else if (!(md_host_wanters(host) & 1u << host->wanted.charged))
			charge(hosts, host);
	}
}

bool md_host_take(const struct md_host *host, struct md_wanted_limits *limits, const struct md_rate *rate, uint32_t n, uint64_t now_ns)
{
	const struct md_rate together = {.per_second = MD_LINKS_TOGETHER * rate->per_second, .burst = MD_LINKS_TOGETHER * rate->burst};
	uint32_t by = md_host_wanters(host);

	for (unsigned int w = 0; w < MD_WANTERS; w++) {
		const struct md_limit former = limits->of[w];

		if (!(by & 1u << w) || !md_limit_take_some(&limits->of[w], rate, n, now_ns))
			continue;
		/* Users leave root and the hosts file theirs. */
		if (!w || md_limit_take_some(&limits->all, &together, n, now_ns))
			return true;
		limits->of[w] = former;
	}
	return false;
}
