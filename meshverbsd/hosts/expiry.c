/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "expiry.h"

#include "bounds.h"

void md_expiry_begin(struct md_expiry *expiry, uint32_t dropped, uint64_t now_ns)
{
	*expiry = (struct md_expiry){.due_ns = now_ns, .looked_ns = now_ns, .dropped = dropped};
}

/*
 * Silence does not count in two cases. First: this timer is late, so the machine was suspended or had no processor for
 * the agent. Then the kernel's threads may not have had a processor either, and beacons may not have got from the NIC to
 * the socket. Second: a beacon may still be in a socket, or the socket had no room for the beacon. Others can bring the
 * second case about, by a flood, so that one is bounded.
 */
static void excuse(const struct md_expiry *expiry, struct md_hosts *hosts, bool heard_all, uint64_t now_ns)
{
	uint64_t ran_until_ns = now_ns;

	if (now_ns - expiry->due_ns >= MD_LATE_NS) {
		md_hosts_excuse(hosts, expiry->due_ns, now_ns);
		ran_until_ns = expiry->due_ns;
	}
	if (!heard_all)
		md_hosts_excuse_loss(hosts, expiry->looked_ns, ran_until_ns);
}

bool md_expiry_look(struct md_expiry *expiry, struct md_hosts *hosts, bool drained, uint32_t dropped, uint64_t now_ns)
{
	bool changed;

	excuse(expiry, hosts, drained && dropped == expiry->dropped, now_ns);
	changed = md_hosts_expire(hosts, now_ns);
	expiry->looked_ns = now_ns;
	expiry->dropped = dropped;
	/* 10 us for each host: with 10,000 hosts the table is searched five times a second. */
	expiry->due_ns = now_ns + 100 * MD_MS + hosts->n * 10000;
	return changed;
}
