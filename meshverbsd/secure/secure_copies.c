/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "secure_copies.h"

#include <stddef.h>

/* Return: NULL: beacons arrive on too many netdevs. A netdev without recent beacons gives up its place. */
static uint64_t *seen_on(struct md_copies *copies, uint32_t netdev)
{
	size_t i, empty = MD_COPY_NETDEVS;

	for (i = 0; i < MD_COPY_NETDEVS && copies->netdevs[i] != netdev; i++)
		if (!copies->seen[i])
			empty = i;
	if (i == MD_COPY_NETDEVS)
		i = empty;
	if (i == MD_COPY_NETDEVS)
		return NULL;
	copies->netdevs[i] = netdev;
	return &copies->seen[i];
}

static void advance(struct md_copies *copies, uint64_t counter)
{
	uint64_t by = counter - copies->newest;

	for (size_t i = 0; i < MD_COPY_NETDEVS; i++)
		copies->seen[i] = by < MD_COPY_BEACONS ? copies->seen[i] << by : 0;
	copies->newest = counter;
}

/* At least MD_COPY_NS lie between two marks, so a beacon up to the mark before the last one is older than that. */
static void set_mark(struct md_copies *copies, uint64_t now_ns)
{
	if (now_ns - copies->mark_ns < MD_COPY_NS)
		return;
	copies->floor = now_ns - copies->newest_ns < MD_COPY_NS ? copies->mark : copies->newest;
	copies->mark = copies->newest;
	copies->mark_ns = now_ns;
}

void md_copies_first(struct md_copies *copies, uint64_t counter, uint32_t netdev, uint64_t now_ns)
{
	uint64_t *seen;

	set_mark(copies, now_ns);
	if (counter > copies->newest)
		advance(copies, counter);
	copies->newest_ns = now_ns;
	seen = seen_on(copies, netdev);
	if (seen && copies->newest - counter < MD_COPY_BEACONS)
		*seen |= 1ull << (copies->newest - counter);
}

bool md_copies_take(struct md_copies *copies, uint64_t counter, uint32_t netdev, uint64_t now_ns)
{
	uint64_t bit, any = 0, *seen;

	if (counter <= copies->floor || counter > copies->newest || copies->newest - counter >= MD_COPY_BEACONS ||
	    now_ns - copies->newest_ns >= MD_COPY_NS)
		return false;
	bit = 1ull << (copies->newest - counter);
	for (size_t i = 0; i < MD_COPY_NETDEVS; i++)
		any |= copies->seen[i];
	if (!(any & bit)) /* no beacon */
		return false;
	seen = seen_on(copies, netdev);
	if (!seen || *seen & bit)
		return false;
	*seen |= bit;
	return true;
}
