/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Room for hosts and their descriptions, in a share for each link, and for each account that wants hosts. */
#include "hostsint.h"

#include <utlist.h>

/* Hosts that are forgotten to make room for one description. */
#define FORGOTTEN 64

static size_t charge_of(size_t bytes)
{
	return bytes > MD_WANTED_EACH ? bytes : MD_WANTED_EACH;
}

static size_t bytes_of(const struct md_host *host)
{
	return host->desc ? md_desc_bytes(host->desc) : 0;
}

/* Counts @bytes of a description more, @former bytes less. */
static void recount(struct md_hosts_list *list, size_t bytes, size_t former)
{
	list->bytes += bytes - former;
	list->charge += charge_of(bytes) - charge_of(former);
}

static struct md_hosts_list *list_of(struct md_hosts *hosts, const struct md_host *host)
{
	if (md_host_is_wanted(host))
		return &hosts->wanters[host->wanted.charged].list;
	return &hosts->shares[host->room.share].of[md_host_is_vouched(host)];
}

static void enter(struct md_hosts_list *list, struct md_host *host, bool first)
{
	host->room.in = list;
	list->n++;
	list->charge += charge_of(0);
	recount(list, bytes_of(host), 0);
	if (first)
		DL_PREPEND2(list->hosts, host, room.prev, room.next);
	else
		DL_APPEND2(list->hosts, host, room.prev, room.next);
	if (host->desc && first)
		DL_PREPEND2(list->described, host, room.desc_prev, room.desc_next);
	else if (host->desc)
		DL_APPEND2(list->described, host, room.desc_prev, room.desc_next);
}

static void leave_described(struct md_hosts_list *list, struct md_host *host)
{
	if (!host->room.desc_prev)
		return;
	DL_DELETE2(list->described, host, room.desc_prev, room.desc_next);
	host->room.desc_prev = host->room.desc_next = NULL;
}

void md_hosts_uncount(struct md_host *host)
{
	struct md_hosts_list *list = host->room.in;

	leave_described(list, host);
	DL_DELETE2(list->hosts, host, room.prev, room.next);
	recount(list, 0, bytes_of(host));
	list->charge -= charge_of(0);
	list->n--;
}

void md_hosts_count(struct md_hosts *hosts, struct md_host *host, unsigned int share)
{
	host->room.share = share;
	enter(list_of(hosts, host), host, false);
}

void md_hosts_place(struct md_hosts *hosts, struct md_host *host, bool first)
{
	md_hosts_uncount(host);
	enter(list_of(hosts, host), host, first);
}

void md_hosts_count_desc(struct md_hosts *hosts, struct md_host *host)
{
	hosts->bytes += bytes_of(host);
	recount(host->room.in, bytes_of(host), 0);
	if (!host->room.desc_prev)
		DL_APPEND2(host->room.in->described, host, room.desc_prev, room.desc_next);
	if (md_host_is_wanted(host))
		md_hosts_bound_wants(hosts, host);
}

void md_hosts_uncount_desc(struct md_hosts *hosts, struct md_host *host, bool for_good)
{
	hosts->bytes -= bytes_of(host);
	recount(host->room.in, 0, bytes_of(host));
	if (for_good)
		leave_described(host->room.in, host);
}

static size_t size_of(const struct md_hosts_list *list, bool by_bytes)
{
	return by_bytes ? list->bytes : list->n;
}

static size_t size_of_share(const struct md_hosts_share *share, bool by_bytes)
{
	return size_of(&share->of[0], by_bytes) + size_of(&share->of[1], by_bytes);
}

static const struct md_hosts_list *largest(const struct md_hosts *hosts, bool is_signed, bool by_bytes)
{
	const struct md_hosts_list *found = &hosts->shares[0].of[is_signed];

	for (unsigned int i = 1; i < MD_HOSTS_SHARES; i++)
		if (size_of(&hosts->shares[i].of[is_signed], by_bytes) > size_of(found, by_bytes))
			found = &hosts->shares[i].of[is_signed];
	return found;
}

/* Are all but the last eighth of the table, or of memory, hosts that sign or are wanted? */
static bool crowded(const struct md_hosts *hosts, bool by_bytes)
{
	const size_t most = by_bytes ? MD_HOSTS_BYTES_UNSIGNED : MD_HOSTS_MAX;
	size_t n = 0;

	for (unsigned int i = 0; i < MD_HOSTS_SHARES; i++)
		n += size_of(&hosts->shares[i].of[1], by_bytes);
	for (unsigned int w = 0; w < MD_WANTERS; w++)
		n += size_of(&hosts->wanters[w].list, by_bytes);
	return n > most / 8 * 7;
}

/* The newest host of a list (@by_bytes: with a description) that is not @keep. NULL: none. */
static struct md_host *newest(const struct md_hosts_list *list, bool by_bytes, const struct md_host *keep)
{
	struct md_host *first = by_bytes ? list->described : list->hosts, *host = first;

	/* Of the oldest host, the newest one is @prev. */
	do
		host = !host ? NULL : by_bytes ? host->room.desc_prev : host->room.prev;
	while (host && host == keep && host != first);
	return host == keep ? NULL : host;
}

/*
 * Forget a host for one that is @wanted, or whose share has @own hosts, or bytes of descriptions.
 *
 * Return: false: no host may be forgotten.
 */
static bool forget_one(struct md_hosts *hosts, bool by_bytes, const struct md_host *keep, bool wanted, size_t own)
{
	for (unsigned int is_signed = 0; is_signed < 2; is_signed++) {
		const struct md_hosts_list *from = largest(hosts, is_signed, by_bytes);
		struct md_host *host = newest(from, by_bytes, keep);

		if (!host || (!wanted && (size_of(from, by_bytes) <= own || (is_signed && !crowded(hosts, by_bytes)))))
			continue;
		hosts->n_forgotten++;
		md_hosts_remove(hosts, host);
		return true;
	}
	return false;
}

bool md_hosts_make_room(struct md_hosts *hosts, unsigned int share, bool wanted)
{
	return hosts->n < MD_HOSTS_MAX || forget_one(hosts, false, NULL, wanted, size_of_share(&hosts->shares[share], false) + 1);
}

/* Is there memory to replace the host's description by @desc? */
static bool has_memory(const struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc)
{
	size_t had = bytes_of(host), wants = md_desc_bytes(desc);
	size_t max = md_host_is_vouched(host) ? MD_HOSTS_BYTES_MAX : MD_HOSTS_BYTES_UNSIGNED;

	return wants <= had || hosts->bytes - had + wants <= max;
}

bool md_hosts_make_memory(struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc)
{
	const struct md_hosts_share *own = &hosts->shares[host->room.share];

	for (unsigned int n = 0; !has_memory(hosts, host, desc); n++)
		if (n == FORGOTTEN ||
		    !forget_one(hosts, true, host, md_host_is_wanted(host), size_of_share(own, true) + md_desc_bytes(desc)))
			return false;
	return true;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Token bucket: @burst tokens, refilled at @rate a second. May be overdrawn once. */
static bool take(uint64_t *at_ns, uint32_t n, uint64_t rate, uint64_t burst, uint64_t now_ns)
{
	const uint64_t each = MD_S / rate, most = burst * each;

	if (*at_ns < now_ns)
		*at_ns = now_ns;
	if (*at_ns - now_ns >= most)
		return false;
	*at_ns += n * each;
	return true;
}

bool md_hosts_take_new(struct md_hosts *hosts, unsigned int share, uint64_t now_ns)
{
	return take(&hosts->shares[share].room_at_ns, 1, MD_NEW_HOSTS_RATE, MD_NEW_HOSTS_BURST, now_ns);
}

bool md_hosts_take_gids(struct md_hosts *hosts, const struct md_host *host, unsigned int share, uint32_t n, uint64_t now_ns)
{
	static const struct md_rate rate = {.per_second = MD_NEW_GIDS_RATE, .burst = MD_NEW_GIDS_BURST};
	bool is_signed = md_host_is_vouched(host);

	if (is_signed && md_host_is_wanted(host))
		return md_host_take(host, &hosts->wanted_gids, &rate, n, now_ns);
	return take(&hosts->shares[share].gids_at_ns[is_signed], n, MD_NEW_GIDS_RATE, MD_NEW_GIDS_BURST, now_ns);
}

bool md_hosts_take_links(struct md_hosts *hosts, const struct md_host *host, unsigned int share, uint64_t now_ns)
{
	uint64_t *at_ns = &hosts->shares[share].gids_at_ns[md_host_is_vouched(host)];

	return take(at_ns, host->desc ? host->desc->n_gids : 0, MD_NEW_GIDS_RATE, MD_NEW_GIDS_BURST, now_ns);
}
