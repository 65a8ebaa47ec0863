/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Room for hosts and their descriptions, in a share for each link. */
#include "hostsint.h"

#include <utlist.h>

/* Hosts that are looked at, and that are forgotten, to make room for one. */
#define LOOKED_AT 64

void md_hosts_count(struct md_hosts *hosts, struct md_host *host, unsigned int share)
{
	host->room.share = share;
	DL_APPEND2(hosts->shares[share].hosts, host, room.prev, room.next);
	hosts->shares[share].n++;
}

void md_hosts_uncount(struct md_hosts *hosts, struct md_host *host)
{
	if (!host->room.prev)
		return;
	DL_DELETE2(hosts->shares[host->room.share].hosts, host, room.prev, room.next);
	hosts->shares[host->room.share].n--;
}

void md_hosts_count_desc(struct md_hosts *hosts, struct md_host *host)
{
	struct md_hosts_share *share = &hosts->shares[host->room.share];

	hosts->bytes += md_desc_bytes(host->desc);
	share->bytes += md_desc_bytes(host->desc);
	if (!host->room.desc_prev)
		DL_APPEND2(share->described, host, room.desc_prev, room.desc_next);
}

void md_hosts_uncount_desc(struct md_hosts *hosts, struct md_host *host, bool for_good)
{
	struct md_hosts_share *share = &hosts->shares[host->room.share];

	hosts->bytes -= md_desc_bytes(host->desc);
	share->bytes -= md_desc_bytes(host->desc);
	if (!for_good || !host->room.desc_prev)
		return;
	DL_DELETE2(share->described, host, room.desc_prev, room.desc_next);
	host->room.desc_prev = host->room.desc_next = NULL;
}

/*
 * The newest of the hosts (@described: with a description) of a share that is not wanted, does not sign, and is not @keep. With
 * @for_wanted, room is made for a wanted host: if there is none, the newest that signs. NULL: none of the newest ones.
 */
static struct md_host *newest(const struct md_hosts_share *share, bool described, const struct md_host *keep, bool for_wanted,
			      uint64_t now_ns)
{
	struct md_host *first = described ? share->described : share->hosts, *host = first, *found = NULL;

	for (unsigned int i = 0; first && i < LOOKED_AT; i++) {
		host = described ? host->room.desc_prev : host->room.prev; /* of the oldest: the newest */
		if (host != keep && !md_host_is_wanted(host, now_ns)) {
			if (!md_host_is_vouched(host))
				return host;
			if (for_wanted && !found)
				found = host;
		}
		if (host == first)
			break;
	}
	return found;
}

static struct md_hosts_share *largest(struct md_hosts *hosts, bool by_bytes)
{
	struct md_hosts_share *found = &hosts->shares[0];

	for (struct md_hosts_share *share = found; share < hosts->shares + MD_HOSTS_SHARES; share++)
		if (by_bytes ? share->bytes > found->bytes : share->n > found->n)
			found = share;
	return found;
}

/* Return: false: no host may be forgotten. */
static bool forget_one(struct md_hosts *hosts, const struct md_hosts_share *from, bool described, const struct md_host *keep,
		       bool for_wanted, uint64_t now_ns)
{
	struct md_host *host = newest(from, described, keep, for_wanted, now_ns);

	if (!host)
		return false;
	hosts->n_forgotten++;
	md_hosts_remove(hosts, host);
	return true;
}

bool md_hosts_make_room(struct md_hosts *hosts, unsigned int share, bool wanted, uint64_t now_ns)
{
	const struct md_hosts_share *most;

	if (hosts->n < MD_HOSTS_MAX)
		return true;
	most = largest(hosts, false);
	return (wanted || most->n > hosts->shares[share].n + 1) && forget_one(hosts, most, false, NULL, wanted, now_ns);
}

/* Is there memory to replace the host's description by @desc? */
static bool has_memory(const struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc)
{
	size_t had = host->desc ? md_desc_bytes(host->desc) : 0, wants = md_desc_bytes(desc);
	size_t max = md_host_is_vouched(host) ? MD_HOSTS_BYTES_MAX : MD_HOSTS_BYTES_UNSIGNED;

	return wants <= had || hosts->bytes - had + wants <= max;
}

bool md_hosts_make_memory(struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc, uint64_t now_ns)
{
	const struct md_hosts_share *own = &hosts->shares[host->room.share], *most;
	bool wanted = md_host_is_wanted(host, now_ns);
	unsigned int n = 0;

	while (!has_memory(hosts, host, desc)) {
		most = largest(hosts, true);
		if (n++ == LOOKED_AT || (!wanted && most->bytes <= own->bytes + md_desc_bytes(desc)) ||
		    !forget_one(hosts, most, true, host, wanted, now_ns))
			return false;
	}
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
	bool is_signed = md_host_is_vouched(host);
	uint64_t *at_ns = is_signed && md_host_is_wanted(host, now_ns) ? &hosts->wanted_gids_at_ns : &hosts->shares[share].gids_at_ns[is_signed];

	return take(at_ns, n, MD_NEW_GIDS_RATE, MD_NEW_GIDS_BURST, now_ns);
}

bool md_hosts_take_links(struct md_hosts *hosts, const struct md_host *host, unsigned int share, uint64_t now_ns)
{
	uint64_t *at_ns = &hosts->shares[share].gids_at_ns[md_host_is_vouched(host)];

	return take(at_ns, host->desc ? host->desc->n_gids : 0, MD_NEW_GIDS_RATE, MD_NEW_GIDS_BURST, now_ns);
}
