/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "bundles.h"

#include <string.h>

static bool is_to(const struct md_bundle_to *a, const struct md_bundle_to *b)
{
	return a->op == b->op && a->start == b->start && a->port == b->port && a->ifindex == b->ifindex &&
	       !memcmp(&a->host, &b->host, sizeof(a->host)) &&
	       IN6_ARE_ADDR_EQUAL(&a->ip, &b->ip) && IN6_ARE_ADDR_EQUAL(&a->from, &b->from);
}

static void send_one(struct md_bundles *bundles, struct md_bundle *bundle)
{
	size_t len;

	if (!bundle->n)
		return;
	len = md_bundle_end(&bundle->w, bundle->n);
	bundle->n = 0;
	bundles->send(bundles->arg, &bundle->to, bundle->payload, len);
}

/* The bundle for a destination, perhaps empty; sends another one if no slot is free. */
static struct md_bundle *bundle_for(struct md_bundles *bundles, const struct md_bundle_to *to)
{
	struct md_bundle *bundle = NULL;

	for (unsigned int i = 0; i < MD_BUNDLES; i++) {
		if (bundles->bundles[i].n && is_to(&bundles->bundles[i].to, to))
			return &bundles->bundles[i];
		if (!bundles->bundles[i].n && !bundle)
			bundle = &bundles->bundles[i];
	}
	if (!bundle) {
		bundle = &bundles->bundles[bundles->next++ % MD_BUNDLES];
		send_one(bundles, bundle);
	}
	bundle->to = *to;
	md_bundle_begin(&bundle->w, bundle->payload, to->op, to->start);
	return bundle;
}

void md_bundles_add(struct md_bundles *bundles, const struct md_bundle_to *to, const struct md_envelope *envelope,
		    uint64_t now_ns)
{
	struct md_bundle *bundle = bundle_for(bundles, to);

	if (!md_bundle_add(&bundle->w, envelope)) {
		send_one(bundles, bundle);
		md_bundle_begin(&bundle->w, bundle->payload, to->op, to->start);
		md_bundle_add(&bundle->w, envelope);
	}
	bundle->n++;
	if (to->op == MD_MSG_ACK && !bundles->due_ns)
		bundles->due_ns = now_ns + MD_ACKS_NS;
}

void md_bundles_flush(struct md_bundles *bundles, uint64_t now_ns)
{
	bool due = bundles->due_ns && now_ns >= bundles->due_ns;

	for (unsigned int i = 0; i < MD_BUNDLES; i++)
		if (due || bundles->bundles[i].to.op == MD_MSG_DATA)
			send_one(bundles, &bundles->bundles[i]);
	if (due)
		bundles->due_ns = 0;
}
