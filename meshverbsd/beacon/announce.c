/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "announce.h"

#include <string.h>

static struct md_outlet *find(struct md_announce *announce, uint32_t ifindex)
{
	for (size_t i = 0; i < announce->n; i++)
		if (announce->outlets[i].ifindex == ifindex)
			return &announce->outlets[i];
	return NULL;
}

/* All hosts of a link together send at most MD_BEACON_RATE beacons a second. */
static uint32_t interval_for(uint32_t wanted_ms, size_t n_heard)
{
	uint64_t by_rate_ms = (n_heard + 1) * 1000 / MD_BEACON_RATE;

	if (by_rate_ms > MD_INTERVAL_MAX_MS)
		by_rate_ms = MD_INTERVAL_MAX_MS;
	return by_rate_ms > wanted_ms ? (uint32_t)by_rate_ms : wanted_ms;
}

static uint64_t jitter(const struct md_announce *announce, uint64_t below_ns)
{
	/* In microseconds, because the generator has 32 bits. */
	return announce->random((uint32_t)(below_ns / 1000) + 1) * 1000ull;
}

/* Random delay, so that hosts that see the same change do not send at the same moment. */
static void begin_burst(struct md_announce *announce, struct md_outlet *outlet, uint64_t now_ns)
{
	uint64_t all_ns = outlet->n_heard * MD_SPEAK_EACH_NS;
	uint64_t next_ns = now_ns + jitter(announce, all_ns < MD_SPEAK_NS ? all_ns : MD_SPEAK_NS);

	outlet->burst = MD_BURST;
	outlet->whole = true;
	if (!outlet->next_ns || next_ns < outlet->next_ns)
		outlet->next_ns = next_ns;
}

void md_announce_nets(struct md_announce *announce, const struct md_view *view, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < announce->n; i++)
		if (md_view_net(view, announce->outlets[i].ifindex))
			announce->outlets[kept++] = announce->outlets[i];
	announce->n = kept;
	for (size_t i = 0; i < view->n_nets; i++) {
		uint32_t ifindex = view->nets[i].ifindex;
		struct md_outlet *outlet = find(announce, ifindex);

		if (!outlet) {
			outlet = &announce->outlets[announce->n++];
			memset(outlet, 0, sizeof(*outlet));
			outlet->ifindex = ifindex;
			outlet->interval_ms = interval_for(announce->interval_ms, 0);
		}
		begin_burst(announce, outlet, now_ns);
	}
}

void md_announce_heard(struct md_announce *announce, uint32_t ifindex, size_t n_heard)
{
	struct md_outlet *outlet = find(announce, ifindex);

	if (!outlet)
		return;
	outlet->n_heard = n_heard;
	outlet->interval_ms = interval_for(announce->interval_ms, n_heard);
}

uint64_t md_announce_greet(struct md_announce *announce, uint32_t ifindex, uint64_t now_ns)
{
	struct md_outlet *outlet = find(announce, ifindex);
	uint64_t next_ns;

	if (!outlet)
		return 0;
	if (outlet->n_heard > MD_ANSWER_ALL_MAX)
		return 1 + jitter(announce, outlet->n_heard * MD_ANSWER_EACH_NS);
	/* The delay grows with the number of hosts, because the newcomer's socket buffer holds some hundred beacons. */
	next_ns = now_ns +
		  jitter(announce, MD_ANSWER_JITTER_NS + outlet->n_heard * MD_ANSWER_EACH_NS);
	if (outlet->last_ns && next_ns < outlet->last_ns + MD_ANSWER_SPACING_NS)
		next_ns = outlet->last_ns + MD_ANSWER_SPACING_NS;
	outlet->whole = true;
	if (next_ns < outlet->next_ns)
		outlet->next_ns = next_ns;
	return 0;
}

static void schedule(struct md_announce *announce, struct md_outlet *outlet, uint64_t now_ns)
{
	uint64_t interval_ns = outlet->interval_ms * MD_MS;

	outlet->last_ns = now_ns;
	outlet->whole = false;
	if (outlet->burst)
		outlet->burst--;
	if (outlet->burst) {
		outlet->whole = true;
		outlet->next_ns = now_ns + (MD_BURST_NS << (MD_BURST - 1 - outlet->burst)) +
				  jitter(announce, MD_ANSWER_JITTER_NS);
		return;
	}
	/* Up to a tenth early, never late: receivers rely on the interval. */
	outlet->next_ns = now_ns + interval_ns - jitter(announce, interval_ns / 10);
}

const struct md_outlet *md_announce_due(struct md_announce *announce, uint64_t now_ns,
					bool *ret_whole)
{
	for (size_t i = 0; i < announce->n; i++) {
		struct md_outlet *outlet = &announce->outlets[i];

		if (outlet->next_ns > now_ns)
			continue;
		*ret_whole = outlet->whole;
		schedule(announce, outlet, now_ns);
		return outlet;
	}
	return NULL;
}

uint64_t md_announce_next(const struct md_announce *announce)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < announce->n; i++)
		if (announce->outlets[i].next_ns < next_ns)
			next_ns = announce->outlets[i].next_ns;
	return next_ns;
}
