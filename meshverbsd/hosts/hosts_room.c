/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Room for hosts and their descriptions, in a share for each link, and for each account that wants hosts. */
#include "hostsint.h"

#include <utlist.h>

static size_t charge_of(size_t bytes)
{
	return bytes > MD_WANTED_EACH ? bytes : MD_WANTED_EACH;
}

static size_t bytes_of(const struct md_host *host)
{
	return host->desc ? md_desc_bytes(host->desc) : 0;
}

/* Counts @bytes of a description more, @former bytes less. */
static void recount(struct md_host *host, size_t bytes, size_t former)
{
	host->room.in->bytes += bytes - former;
	host->room.in->charge += charge_of(bytes) - charge_of(former);
	host->room.counted->bytes += bytes - former;
}

static struct md_hosts_list *list_of(struct md_hosts *hosts, const struct md_host *host)
{
	if (md_host_is_wanted(host))
		return &hosts->wanters[host->wanted.charged].list;
	return &hosts->shares[host->room.share].of[md_host_is_vouched(host)];
}

static void enter(struct md_hosts *hosts, struct md_host *host)
{
	struct md_hosts_list *list = list_of(hosts, host);

	host->room.in = list;
	host->room.counted = &hosts->shares[host->room.share].all[md_host_is_vouched(host)];
	list->n++;
	list->charge += charge_of(0);
	host->room.counted->n++;
	recount(host, bytes_of(host), 0);
	DL_APPEND2(list->hosts, host, room.prev, room.next);
	if (host->desc)
		DL_APPEND2(list->described, host, room.desc_prev, room.desc_next);
}

static void leave_described(struct md_host *host)
{
	if (!host->room.desc_prev)
		return;
	DL_DELETE2(host->room.in->described, host, room.desc_prev, room.desc_next);
	host->room.desc_prev = host->room.desc_next = NULL;
}

void md_hosts_uncount(struct md_host *host)
{
	struct md_hosts_list *list = host->room.in;

	leave_described(host);
	DL_DELETE2(list->hosts, host, room.prev, room.next);
	recount(host, 0, bytes_of(host));
	list->charge -= charge_of(0);
	list->n--;
	host->room.counted->n--;
}

void md_hosts_count(struct md_hosts *hosts, struct md_host *host, unsigned int share)
{
	host->room.share = share;
	enter(hosts, host);
}

void md_hosts_place(struct md_hosts *hosts, struct md_host *host)
{
	md_hosts_uncount(host);
	enter(hosts, host);
}

void md_hosts_count_desc(struct md_hosts *hosts, struct md_host *host)
{
	hosts->bytes += bytes_of(host);
	recount(host, bytes_of(host), 0);
	if (!host->room.desc_prev)
		DL_APPEND2(host->room.in->described, host, room.desc_prev, room.desc_next);
	if (md_host_is_wanted(host))
		md_hosts_bound_wants(hosts, host);
}

void md_hosts_uncount_desc(struct md_hosts *hosts, struct md_host *host, bool for_good)
{
	hosts->bytes -= bytes_of(host);
	recount(host, 0, bytes_of(host));
	if (for_good)
		leave_described(host);
}

static size_t size_of(const struct md_hosts_list *list, bool by_bytes)
{
	return by_bytes ? list->bytes : list->n;
}

/* Wanted hosts count as well: accomplices on this host make a link with many hosts no smaller. */
static size_t size_of_share(const struct md_hosts_share *share, bool by_bytes)
{
	return by_bytes ? share->all[0].bytes + share->all[1].bytes : share->all[0].n + share->all[1].n;
}

static size_t bytes_unsigned(const struct md_hosts *hosts)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < MD_HOSTS_SHARES; i++)
		bytes += hosts->shares[i].all[0].bytes;
	return bytes;
}

/* Are all but the last eighth of the table, or of memory, hosts that sign or are wanted? */
static bool crowded(const struct md_hosts *hosts, bool by_bytes)
{
	const size_t most = by_bytes ? MD_HOSTS_BYTES_MAX : MD_HOSTS_MAX;
	size_t n = 0;

	for (unsigned int i = 0; i < MD_HOSTS_SHARES; i++)
		n += size_of(&hosts->shares[i].of[1], by_bytes);
	for (unsigned int w = 0; w < MD_WANTERS; w++)
		n += size_of(&hosts->wanters[w].list, by_bytes);
	return n > most / 8 * 7;
}

/* What room is made for. */
struct newcomer {
	bool by_bytes; /* a description, else a host */
	size_t size; /* bytes that are to be freed, else hosts */
	size_t own; /* size of the newcomer's share with the newcomer */
	bool wanted; /* shares that are smaller give room, too */
	bool only_unsigned; /* only unsigned hosts give room */
};

/* The next older host of a list than @host (NULL: the newest one), with a description if @new is one. NULL: none. */
static struct md_host *older(const struct md_hosts_list *list, const struct newcomer *new, struct md_host *host)
{
	struct md_host *oldest = new->by_bytes ? list->described : list->hosts;

	if (!oldest || host == oldest)
		return NULL;
	if (!host)
		host = oldest; /* of which the newest one is @prev */
	return new->by_bytes ? host->room.desc_prev : host->room.prev;
}

/*
 * Return: do the newest hosts of the share give enough room? If @forget they are forgotten. The newcomer is none of them: its
 * own share gives room to wanted hosts only, and a wanted host is in no share.
 */
static bool give(struct md_hosts *hosts, const struct md_hosts_share *share, bool is_signed, const struct newcomer *new,
		 bool forget)
{
	const size_t had = size_of_share(share, new->by_bytes);
	const struct md_hosts_list *list = &share->of[is_signed];
	struct md_host *host, *next;
	size_t given = 0;

	for (host = older(list, new, NULL); host && given < new->size && (new->wanted || had - given > new->own); host = next) {
		next = older(list, new, host);
		given += new->by_bytes ? bytes_of(host) : 1;
		if (!forget)
			continue;
		hosts->n_forgotten++;
		md_hosts_remove(hosts, host);
	}
	return given >= new->size;
}

/* Return: false: no share gives enough room, and no host is forgotten. */
static bool make_way(struct md_hosts *hosts, const struct newcomer *new)
{
	for (unsigned int is_signed = 0; is_signed < 2; is_signed++) {
		const struct md_hosts_share *from = NULL;

		if (is_signed && (new->only_unsigned || (!new->wanted && !crowded(hosts, new->by_bytes))))
			return false;
		for (unsigned int i = 0; i < MD_HOSTS_SHARES; i++)
			if ((!from || size_of_share(&hosts->shares[i], new->by_bytes) > size_of_share(from, new->by_bytes)) &&
			    give(hosts, &hosts->shares[i], is_signed, new, false))
				from = &hosts->shares[i];
		if (from)
			return give(hosts, from, is_signed, new, true);
	}
	return false;
}

bool md_hosts_make_room(struct md_hosts *hosts, unsigned int share, bool wanted)
{
	const struct newcomer new = {.size = 1, .wanted = wanted, .own = size_of_share(&hosts->shares[share], false) + 1};

	return hosts->n < MD_HOSTS_MAX || make_way(hosts, &new);
}

static size_t beyond(size_t max, size_t bytes)
{
	return bytes > max ? bytes - max : 0;
}

bool md_hosts_make_memory(struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc)
{
	struct newcomer new = {.by_bytes = true, .wanted = md_host_is_wanted(host)};
	size_t more = beyond(bytes_of(host), md_desc_bytes(desc)), too_many_unsigned = 0;

	if (!md_host_is_vouched(host))
		too_many_unsigned = beyond(MD_HOSTS_BYTES_UNSIGNED, bytes_unsigned(hosts) + more);
	new.size = beyond(MD_HOSTS_BYTES_MAX, hosts->bytes + more);
	new.only_unsigned = too_many_unsigned > 0;
	if (new.size < too_many_unsigned)
		new.size = too_many_unsigned;
	/* Hosts that sign no more have made far too many unsigned: a newcomer is to add none. */
	if (new.size > more)
		new.size = more;
	new.own = size_of_share(&hosts->shares[host->room.share], true) + more;
	return !more || !new.size || make_way(hosts, &new);
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
