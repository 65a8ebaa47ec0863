/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "expiry.h"

#include "bounds.h"

void md_expiry_begin(struct md_expiry *expiry, uint32_t dropped, uint64_t now_ns)
{
	*expiry = (struct md_expiry){.due_ns = now_ns, .looked_ns = now_ns, .dropped = dropped};
}

/*
 * Beacons may have been among what is still in the sockets, or had no room there. And what came to a machine without a processor for
 * us, or that was suspended, may not have got as far: the kernel's threads that take it from the NICs had none either.
 */
static void excuse(const struct md_expiry *expiry, struct md_hosts *hosts, bool heard_all, uint64_t now_ns)
{
	if (!heard_all)
		md_hosts_excuse(hosts, expiry->looked_ns, now_ns);
	else if (now_ns - expiry->due_ns >= MD_LATE_NS)
		md_hosts_excuse(hosts, expiry->due_ns, now_ns);
}

bool md_expiry_look(struct md_expiry *expiry, struct md_hosts *hosts, bool drained, uint32_t dropped, uint64_t now_ns)
{
	bool changed;

	excuse(expiry, hosts, drained && dropped == expiry->dropped, now_ns);
	changed = md_hosts_expire(hosts, now_ns);
	expiry->looked_ns = now_ns;
	expiry->dropped = dropped;
	/* Ten thousand hosts are looked through five times a second. */
	expiry->due_ns = now_ns + 100 * MD_MS + hosts->n * 10000;
	return changed;
}
