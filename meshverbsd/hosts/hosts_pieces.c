/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Pieces of descriptions are collected, in a share for each link. */
#include "hostsint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

_Static_assert(MD_PARTIAL_BYTES >= sizeof(struct md_partial) + MD_DESC_BYTES_MAX, "a share holds the longest description");

static size_t bytes_of(const struct md_partial *partial)
{
	return sizeof(*partial) + partial->desc_bytes;
}

void md_hosts_drop_partial(struct md_hosts *hosts, struct md_partial *partial)
{
	DL_DELETE(partial->of->oldest, partial);
	partial->of->bytes -= bytes_of(partial);
	LL_DELETE2(partial->host->partials, partial, of_host);
	hosts->n_partial--;
	free(partial);
}

void md_hosts_drop_partials(struct md_hosts *hosts, struct md_host *host)
{
	while (host->partials)
		md_hosts_drop_partial(hosts, host->partials);
}

void md_hosts_expire_partials(struct md_hosts *hosts, struct md_host *host, uint64_t now_ns)
{
	struct md_partial *partial, *next;

	for (partial = host->partials; partial; partial = next) {
		next = partial->of_host;
		if (now_ns - partial->begun_ns > MD_PARTIAL_NS)
			md_hosts_drop_partial(hosts, partial);
	}
}

struct md_partial *md_host_partial(const struct md_host *host, const struct md_heard *heard)
{
	struct md_partial *partial;

	LL_SEARCH_SCALAR2(host->partials, partial, share, md_heard_share(heard), of_host);
	return partial;
}

static bool is_of(const struct md_partial *partial, const struct md_heard *heard, const struct md_beacon *beacon)
{
	return partial->start == heard->start && partial->generation == beacon->generation &&
	       partial->desc_bytes == beacon->desc_bytes;
}

static size_t bytes_for(const struct md_wanter *wanter)
{
	size_t sum = 0;

	for (unsigned int share = 0; share < MD_HOSTS_SHARES; share++)
		sum += wanter->partials[share].bytes;
	return sum;
}

/* Of the accounts that want the host: the one that has the least. NULL: none wants it. */
static struct md_wanter *wanter_of(struct md_hosts *hosts, const struct md_host *host)
{
	uint32_t by = md_host_wanters(host);
	struct md_wanter *best = NULL;

	for (struct md_wanter *w = hosts->wanters; w < hosts->wanters + MD_WANTERS; w++)
		if (by >> (w - hosts->wanters) & 1 && (!best || bytes_for(w) < bytes_for(best)))
			best = w;
	return best;
}

/* Anybody may send pieces in the name of a wanted host. So of an account's descriptions the link with most of them makes room. */
static void drop_one(struct md_hosts *hosts, const struct md_wanter *wanter)
{
	const struct md_partials *most = wanter->partials;

	for (unsigned int share = 1; share < MD_HOSTS_SHARES; share++)
		if (wanter->partials[share].bytes > most->bytes)
			most = &wanter->partials[share];
	md_hosts_drop_partial(hosts, most->oldest);
}

/* An account has MD_PARTIAL_BYTES, all together MD_PARTIAL_BYTES_WANTED. The account with most makes room. */
static void bound_wanted(struct md_hosts *hosts, const struct md_wanter *wanter, size_t bytes)
{
	const struct md_wanter *most;
	size_t sum;

	while (bytes_for(wanter) + bytes > MD_PARTIAL_BYTES)
		drop_one(hosts, wanter);
	do {
		most = hosts->wanters;
		sum = bytes;
		for (const struct md_wanter *w = hosts->wanters; w < hosts->wanters + MD_WANTERS; w++) {
			sum += bytes_for(w);
			if (bytes_for(w) > bytes_for(most))
				most = w;
		}
		if (sum > MD_PARTIAL_BYTES_WANTED)
			drop_one(hosts, most);
	} while (sum > MD_PARTIAL_BYTES_WANTED);
}

/* Pieces of a description come one right after the other. So in a full share the oldest description is one that will not be complete. */
static struct md_partial *begin(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard,
				const struct md_beacon *beacon, uint64_t now_ns)
{
	unsigned int share = md_heard_share(heard);
	struct md_wanter *wanter = wanter_of(hosts, host);
	struct md_partials *of = wanter ? &wanter->partials[share] : &hosts->partials[share];
	struct md_partial *partial = malloc(sizeof(*partial) + beacon->desc_bytes);

	if (!partial)
		return NULL;
	*partial = (struct md_partial){.host = host,
				       .of = of,
				       .share = share,
				       .start = heard->start,
				       .generation = beacon->generation,
				       .begun_ns = now_ns,
				       .desc_bytes = beacon->desc_bytes};
	if (wanter)
		bound_wanted(hosts, wanter, bytes_of(partial));
	else
		while (of->bytes + bytes_of(partial) > MD_PARTIAL_BYTES)
			md_hosts_drop_partial(hosts, of->oldest);
	DL_APPEND(of->oldest, partial);
	of->bytes += bytes_of(partial);
	LL_PREPEND2(host->partials, partial, of_host);
	hosts->n_partial++;
	return partial;
}

int md_hosts_add_piece(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon,
		       uint64_t now_ns, struct md_partial **ret)
{
	struct md_partial *partial = md_host_partial(host, heard);

	if (partial && !is_of(partial, heard, beacon)) {
		md_hosts_drop_partial(hosts, partial);
		partial = NULL;
	}
	if (!partial)
		partial = begin(hosts, host, heard, beacon, now_ns);
	if (!partial)
		return -ENOMEM;
	memcpy(partial->bytes + (size_t)beacon->piece * MD_PIECE_BYTES, beacon->data, beacon->piece_bytes);
	partial->have |= 1ull << beacon->piece;
	*ret = partial;
	return partial->have == (1ull << md_beacon_pieces(beacon->desc_bytes)) - 1;
}

_Static_assert(MD_PIECES_MAX < 64, "a bit per piece");
