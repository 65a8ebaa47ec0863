/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "decide.h"

#include <string.h>

/* Bits of a mapped GID before the IPv4 address. */
#define IPV4_PREFIX_BITS 96

/* How a netdev reaches a destination. */
struct reach {
	bool reached;
	bool on_link; /* without gateway */
	bool own; /* the entry's address has such a prefix, or is in it */
	unsigned int prefix_len;
	uint32_t metric;
	union ibv_gid source; /* zero: no source named */
};

/* ::/0 and other short IPv6 prefixes cover the range of mapped IPv4 addresses, but are not for IPv4. */
static bool covers(const union ibv_gid *prefix, unsigned int prefix_len, const union ibv_gid *dgid)
{
	if (mv_gid_family(dgid) == MV_FAMILY_IPV4 && prefix_len < IPV4_PREFIX_BITS)
		return false;
	return mv_gid_in_prefix(dgid, prefix, prefix_len);
}

/*
 * Longest prefix of an address of @ifindex that covers @dgid. Of equal ones the first: the kernel lists the primary
 * address first, which is the source of the prefix's route.
 * @sgid: sets @best->own if this address has such a prefix, or is in it; NULL: not checked
 */
static void reach_by_prefix(const struct mv_topo *topo, uint32_t ifindex, const union ibv_gid *sgid,
			    const union ibv_gid *dgid, struct reach *best)
{
	for (size_t i = 0; i < topo->n_addrs; i++) {
		const struct mv_addr *addr = &topo->addrs[i];
		bool own = best->own;

		if (addr->ifindex != ifindex || !covers(&addr->prefix, addr->prefix_len, dgid))
			continue;
		if (sgid && (mv_gid_equal(&addr->gid, sgid) ||
			     covers(&addr->prefix, addr->prefix_len, sgid)))
			own = true;
		if (!best->reached || best->prefix_len < addr->prefix_len)
			*best = (struct reach){.reached = true,
					       .on_link = true,
					       .prefix_len = addr->prefix_len,
					       .source = addr->gid};
		best->own = own;
	}
}

static void reach_by_route(const struct mv_topo *topo, uint32_t ifindex, const union ibv_gid *sgid,
			   const union ibv_gid *dgid, struct reach *best)
{
	for (size_t i = 0; i < topo->n_routes; i++) {
		const struct mv_route *route = &topo->routes[i];

		if (route->ifindex != ifindex || !covers(&route->dst, route->dst_len, dgid))
			continue;
		if (!mv_gid_is_zero(&route->src) && !mv_gid_equal(&route->src, sgid))
			continue;
		if (best->reached &&
		    (best->prefix_len > route->fib_len ||
		     (best->prefix_len == route->fib_len && best->metric <= route->metric)))
			continue;
		*best = (struct reach){.reached = true,
				       .on_link = mv_gid_is_zero(&route->gateway),
				       .prefix_len = route->fib_len,
				       .metric = route->metric,
				       .source = route->prefsrc};
	}
}

/* Verdict for destinations that need a prefix or a route. */
static enum mv_verdict check_reach(const struct mv_topo *topo, const union ibv_gid *dgid, struct mv_candidate *ret)
{
	struct reach reach = {0};

	reach_by_prefix(topo, ret->netdev->ifindex, &ret->entry->gid, dgid, &reach);
	/*
	 * Packets would arrive, but whether replies to this address return depends on the peer's routes, which are not
	 * known here. A link-local source is handled below.
	 */
	if (reach.reached && !reach.own && !ret->other_scope)
		return MV_VERDICT_SUBNET;
	reach_by_route(topo, ret->netdev->ifindex, &ret->entry->gid, dgid, &reach);
	if (!reach.reached)
		return MV_VERDICT_UNROUTABLE;
	/* RoCE v1 is a link-layer protocol (ethertype 0x8915) that routers do not forward. */
	if (ret->entry->type == MV_GID_TYPE_ROCE_V1 && !reach.on_link)
		return MV_VERDICT_UNROUTABLE;
	/* Routers do not forward packets from a link-local source (RFC 4291 section 2.5.6). */
	if (ret->other_scope && !reach.on_link)
		return MV_VERDICT_FAMILY;
	ret->prefix_len = reach.prefix_len;
	ret->prefsrc = mv_gid_equal(&reach.source, &ret->entry->gid);
	return MV_VERDICT_OK;
}

static enum mv_verdict check_address(const struct mv_topo *topo, const union ibv_gid *dgid, struct mv_candidate *ret)
{
	enum mv_gid_family from = mv_gid_family(&ret->entry->gid), to = mv_gid_family(dgid);

	/* Any source works: the subnet manager or the kernel joins multicast groups. */
	if (to == MV_FAMILY_MULTICAST)
		return MV_VERDICT_OK;
	/*
	 * A link-local and a global IPv6 address can communicate on one link. This is unusual, but works without
	 * meshverbs.
	 */
	if (from != to) {
		if ((from != MV_FAMILY_LINK_LOCAL && from != MV_FAMILY_IPV6) ||
		    (to != MV_FAMILY_LINK_LOCAL && to != MV_FAMILY_IPV6))
			return MV_VERDICT_FAMILY;
		ret->other_scope = true;
	}
	if (to == MV_FAMILY_LINK_LOCAL) {
		/* Only the program knows which link is meant: all are equal. */
		ret->prefix_len = 64;
		return MV_VERDICT_OK;
	}
	return check_reach(topo, dgid, ret);
}

void mv_check_entry(const struct mv_topo *topo, const struct mv_gid_entry *entry, const union ibv_gid *dgid,
		    struct mv_candidate *ret)
{
	*ret = (struct mv_candidate){.entry = entry};

	if (!entry || mv_gid_is_zero(&entry->gid)) {
		ret->verdict = MV_VERDICT_EMPTY;
		return;
	}
	ret->netdev = mv_topo_gid_netdev(topo, entry);
	if (!ret->netdev) {
		ret->verdict = MV_VERDICT_NO_NETDEV;
		return;
	}
	ret->verdict = check_address(topo, dgid, ret);
	if (ret->verdict == MV_VERDICT_OK && !(ret->netdev->up && ret->netdev->running))
		ret->verdict = MV_VERDICT_DOWN;
}

int mv_candidate_cmp(const struct mv_candidate *a, const struct mv_candidate *b,
		     uint32_t own_ifindex)
{
	bool a_v2 = a->entry->type == MV_GID_TYPE_ROCE_V2,
	     b_v2 = b->entry->type == MV_GID_TYPE_ROCE_V2;
	bool a_own = own_ifindex && a->netdev && a->netdev->ifindex == own_ifindex;
	bool b_own = own_ifindex && b->netdev && b->netdev->ifindex == own_ifindex;

	if (a->other_scope != b->other_scope)
		return a->other_scope ? 1 : -1;
	if (a_v2 != b_v2)
		return a_v2 ? -1 : 1;
	if (a->prefix_len != b->prefix_len)
		return a->prefix_len > b->prefix_len ? -1 : 1;
	if (a->prefsrc != b->prefsrc)
		return a->prefsrc ? -1 : 1;
	if (a_own != b_own)
		return a_own ? -1 : 1;
	if (a->entry->index != b->entry->index)
		return a->entry->index < b->entry->index ? -1 : 1;
	return 0;
}

/*
 * Best entry of a port that is MV_VERDICT_OK; NULL: none.
 * @wanted: only entries with this address and type; NULL: all
 */
static const struct mv_gid_entry *best_entry(const struct mv_topo *topo, const struct mv_port *port,
					     const union ibv_gid *dgid, uint32_t own_ifindex,
					     const struct mv_seen *wanted)
{
	struct mv_candidate best = {0};

	for (size_t i = 0; i < port->n_gids; i++) {
		const struct mv_gid_entry *entry = &port->gids[i];
		struct mv_candidate candidate;

		if (wanted &&
		    (entry->type != wanted->type || !mv_gid_equal(&entry->gid, &wanted->gid)))
			continue;
		mv_check_entry(topo, entry, dgid, &candidate);
		if (candidate.verdict != MV_VERDICT_OK)
			continue;
		if (!best.entry || mv_candidate_cmp(&candidate, &best, own_ifindex) < 0)
			best = candidate;
	}
	return best.entry;
}

/* Prefix length of the entry's address on its netdev; UINT32_MAX: none. */
static unsigned int own_prefix_len(const struct mv_topo *topo, const struct mv_candidate *candidate)
{
	for (size_t i = 0; candidate->netdev && i < topo->n_addrs; i++)
		if (topo->addrs[i].ifindex == candidate->netdev->ifindex &&
		    mv_gid_equal(&topo->addrs[i].gid, &candidate->entry->gid))
			return topo->addrs[i].prefix_len;
	return UINT32_MAX;
}

static bool leads_better(const struct mv_topo *topo, const struct mv_candidate *a,
			 const struct mv_candidate *b)
{
	bool a_ok = a->verdict == MV_VERDICT_OK, b_ok = b->verdict == MV_VERDICT_OK;

	if (a_ok && b_ok)
		return mv_candidate_cmp(a, b, 0) < 0;
	if (a_ok || b_ok)
		return a_ok;
	return own_prefix_len(topo, a) < own_prefix_len(topo, b);
}

const struct mv_gid_entry *mv_decide_towards(const struct mv_topo *topo,
					     const struct mv_gid_entry *entries, size_t n,
					     const union ibv_gid *dgid)
{
	struct mv_candidate best, candidate;

	mv_check_entry(topo, &entries[0], dgid, &best);
	for (size_t i = 1; i < n; i++) {
		mv_check_entry(topo, &entries[i], dgid, &candidate);
		if (leads_better(topo, &candidate, &best))
			best = candidate;
	}
	return best.entry;
}

static bool is_entry(const struct mv_gid_entry *entry, const struct mv_seen *seen)
{
	return entry && entry->type == seen->type && mv_gid_equal(&entry->gid, &seen->gid);
}

/* Best entry with the same address as the program's own. It is on another netdev, because the own entry is not OK. */
static const struct mv_gid_entry *twin_of(const struct mv_topo *topo, const struct mv_port *port,
					  const union ibv_gid *dgid, const struct mv_candidate *own,
					  uint32_t own_ifindex)
{
	struct mv_seen seen;

	if (own->verdict == MV_VERDICT_EMPTY)
		return NULL;
	seen = (struct mv_seen){.gid = own->entry->gid, .type = own->entry->type};
	return best_entry(topo, port, dgid, own_ifindex, &seen);
}

/*
 * The entry that has an address which the program saw at its index, the newest such address. The present content of the
 * index, which the program may not have read, comes last.
 */
static const struct mv_gid_entry *moved_to(const struct mv_topo *topo, const struct mv_port *port,
					   const struct mv_request *request,
					   const struct mv_candidate *own, uint32_t own_ifindex)
{
	for (size_t i = 0; i < request->n_seen; i++) {
		const struct mv_gid_entry *entry =
			best_entry(topo, port, &request->dgid, own_ifindex, &request->seen[i]);

		if (entry)
			return entry;
	}
	return twin_of(topo, port, &request->dgid, own, own_ifindex);
}

static bool is_own_address(const struct mv_topo *topo, const union ibv_gid *dgid)
{
	for (size_t i = 0; i < topo->n_addrs; i++)
		if (mv_gid_equal(&topo->addrs[i].gid, dgid))
			return true;
	/* A default GID need not be an address of its netdev. Entries of other namespaces do not count. */
	for (size_t d = 0; d < topo->n_devices; d++)
		for (size_t p = 0; p < topo->devices[d].n_ports; p++) {
			const struct mv_port *port = &topo->devices[d].ports[p];

			for (size_t g = 0; g < port->n_gids; g++)
				if (mv_gid_equal(&port->gids[g].gid, dgid) &&
				    mv_topo_gid_netdev(topo, &port->gids[g]))
					return true;
		}
	return false;
}

static struct mv_decision stay(enum mv_action action, enum mv_reason reason,
			       const struct mv_request *request, const struct mv_candidate *own)
{
	struct mv_decision decision = {.action = action,
				       .reason = reason,
				       .sgid_index = request->sgid_index,
				       .own_verdict = own->verdict};

	if (own->entry)
		decision.gid = own->entry->gid;
	return decision;
}

static struct mv_decision move(enum mv_action action, enum mv_reason reason,
			       const struct mv_gid_entry *entry, const struct mv_candidate *own)
{
	return (struct mv_decision){.action = action,
				    .reason = reason,
				    .sgid_index = entry->index,
				    .own_verdict = own->verdict,
				    .gid = entry->gid};
}

static struct mv_decision repair(const struct mv_gid_entry *entry, const struct mv_candidate *own)
{
	const struct mv_seen used = {.gid = entry->gid, .type = entry->type};
	bool here = own->verdict != MV_VERDICT_NO_NETDEV && is_entry(own->entry, &used);

	return move(MV_REPAIR, here ? MV_REASON_OTHER_NETDEV : MV_REASON_MOVED, entry, own);
}

/* Decides when the program's entry is unfit. */
static struct mv_decision decide_unfit(const struct mv_topo *topo, const struct mv_port *port,
				       const struct mv_request *request,
				       const struct mv_candidate *own)
{
	uint32_t own_ifindex = own->netdev ? own->netdev->ifindex : 0;
	const struct mv_gid_entry *entry;
	struct mv_decision decision;

	entry = moved_to(topo, port, request, own, own_ifindex);
	if (entry)
		return repair(entry, own);

	entry = best_entry(topo, port, &request->dgid, own_ifindex, NULL);
	if (!entry)
		return stay(MV_PASS, MV_REASON_NO_PATH, request, own);
	if (request->transport == MV_DATAGRAM)
		return move(MV_REPLACE, MV_REASON_BETTER_ENTRY, entry, own);
	decision = stay(MV_PASS, MV_REASON_NEEDS_PEER, request, own);
	decision.alternative = entry;
	return decision;
}

/*
 * Decides when the entry's netdev is down. All netdevs of a port share its carrier, so another one that is up reaches
 * the destination.
 */
static struct mv_decision decide_down(const struct mv_topo *topo, const struct mv_port *port,
				      const struct mv_request *request,
				      const struct mv_candidate *own)
{
	const struct mv_gid_entry *entry =
		twin_of(topo, port, &request->dgid, own, own->netdev->ifindex);

	return entry ? repair(entry, own) : stay(MV_KEEP, MV_REASON_PORT_DOWN, request, own);
}

struct mv_decision mv_decide(const struct mv_topo *topo, const struct mv_request *request)
{
	const struct mv_device *device = mv_topo_device(topo, request->device);
	const struct mv_port *port = device ? mv_device_port(device, request->port_num) : NULL;
	struct mv_candidate own = {.verdict = MV_VERDICT_EMPTY};

	if (!port)
		return stay(MV_KEEP, MV_REASON_NO_DESTINATION, request, &own);
	own.entry = mv_port_gid(port, request->sgid_index);
	if (port->link_layer != IBV_LINK_LAYER_ETHERNET)
		return stay(MV_KEEP, MV_REASON_INFINIBAND, request, &own);
	if (mv_gid_is_zero(&request->dgid))
		return stay(MV_KEEP, MV_REASON_NO_DESTINATION, request, &own);

	mv_check_entry(topo, own.entry, &request->dgid, &own);
	/* Any present entry works for an own address. */
	if (own.verdict != MV_VERDICT_EMPTY && own.verdict != MV_VERDICT_NO_NETDEV &&
	    is_own_address(topo, &request->dgid))
		return stay(MV_KEEP, MV_REASON_SELF, request, &own);
	/*
	 * A fitting entry is kept, even if the program may have read another address at this index before. A program
	 * that has read the present address works as it is, and cannot be told from a program that has not. Not to
	 * break working programs comes first.
	 */
	if (own.verdict == MV_VERDICT_OK || own.verdict == MV_VERDICT_SUBNET)
		return stay(MV_KEEP, MV_REASON_FITS, request, &own);
	if (own.verdict == MV_VERDICT_DOWN)
		return decide_down(topo, port, request, &own);
	return decide_unfit(topo, port, request, &own);
}

bool mv_decide_wants_route(const struct mv_topo *topo, const struct mv_netdev *netdev,
			   const union ibv_gid *dgid)
{
	enum mv_gid_family family = mv_gid_family(dgid);
	struct reach reach = {0};

	if (family != MV_FAMILY_IPV4 && family != MV_FAMILY_IPV6)
		return false;
	reach_by_prefix(topo, netdev->ifindex, NULL, dgid, &reach);
	if (reach.reached)
		return false;
	for (size_t i = 0; i < topo->n_routes; i++)
		if (topo->routes[i].ifindex == netdev->ifindex && topo->routes[i].dst_len == 128 &&
		    mv_gid_equal(&topo->routes[i].dst, dgid))
			return false;
	return true;
}
