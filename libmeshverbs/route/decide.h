/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_DECIDE_H
#define MV_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo.h"

/* Source GID decision: which GID table entry of a port should serve a destination? Pure function of a snapshot and a request. */

/* How the peer handles a source address that it was not told. */
enum mv_transport {
	MV_CONNECTED, /* RC, UC, XRC: the peer's QP has our address, so it cannot change silently */
	MV_DATAGRAM, /* UD address handle: any source address that reaches the destination works */
};

/* Verdict on one GID table entry for one destination. */
enum mv_verdict {
	MV_VERDICT_OK,
	MV_VERDICT_EMPTY, /* zero GID, or an index beyond the table */
	MV_VERDICT_NO_NETDEV, /* its netdev is not in this network namespace */
	MV_VERDICT_FAMILY, /* IPv4 cannot reach IPv6, nor can a link-local address leave the link */
	MV_VERDICT_SUBNET, /* another address of its netdev is in the destination's subnet, this one is not */
	MV_VERDICT_UNROUTABLE, /* no prefix and no route of its netdev covers the destination */
	MV_VERDICT_DOWN, /* would be OK, but its netdev is down or has no carrier */
};

enum mv_action {
	MV_KEEP, /* the program's entry can work */
	MV_REPAIR, /* use the same address at another index */
	MV_REPLACE, /* use another address of the port (datagrams only) */
	MV_PASS, /* cannot work as far as is known, and one end alone can do no better */
};

enum mv_reason {
	MV_REASON_FITS, /* KEEP: the entry reaches the destination */
	MV_REASON_INFINIBAND, /* KEEP: not Ethernet: the subnet manager decides */
	MV_REASON_NO_DESTINATION, /* KEEP: the destination GID is zero, or device or port is unknown */
	MV_REASON_SELF, /* KEEP: the destination is an address of this host */
	MV_REASON_PORT_DOWN, /* KEEP: the right entry, without carrier now */
	MV_REASON_MOVED, /* REPAIR: the address that the program saw at this index is at another index now */
	MV_REASON_OTHER_NETDEV, /* REPAIR: another netdev of the port has the same address, and reaches the destination */
	MV_REASON_BETTER_ENTRY, /* REPLACE: another entry reaches the destination */
	MV_REASON_NEEDS_PEER, /* PASS: another entry would work, but the peer has this address */
	MV_REASON_NO_PATH, /* PASS: no entry of this port reaches the destination */
};

/* An address that the program may have read at the index that it uses. */
struct mv_seen {
	union ibv_gid gid;
	enum mv_gid_type type;
};

struct mv_request {
	const char *device;
	uint8_t port_num;
	uint32_t sgid_index;
	union ibv_gid dgid;
	enum mv_transport transport;
	const struct mv_seen
		*seen; /* n_seen addresses, newest first; NULL: none is remembered */
	size_t n_seen;
};

/* Verdict on one entry, for display. */
struct mv_candidate {
	const struct mv_gid_entry *entry; /* points into the snapshot */
	const struct mv_netdev *netdev; /* NULL: not in this namespace */
	enum mv_verdict verdict;
	unsigned int prefix_len; /* bits of the GID covered by the longest prefix or best route; 0: none */
	bool other_scope; /* link-local to global IPv6, or the reverse: works on the link, second choice */
	bool prefsrc; /* the address of the longest prefix, or the source that the best route names */
};

struct mv_decision {
	enum mv_action action;
	enum mv_reason reason;
	uint32_t sgid_index; /* index to use: the request's own unless REPAIR or REPLACE */
	enum mv_verdict own_verdict; /* verdict on the request's entry */
	union ibv_gid gid; /* address in use; zero: not known */
	const struct mv_gid_entry *alternative; /* NEEDS_PEER: the best entry, points into the snapshot; else NULL */
};

/**
 * mv_check_entry - verdict on one entry for a destination
 * @entry: of a snapshot's GID table; NULL: an empty entry
 * @dgid: destination GID, not zero
 * @ret: filled in; points into @topo
 *
 * Pure, any thread.
 */
void mv_check_entry(const struct mv_topo *topo, const struct mv_gid_entry *entry, const union ibv_gid *dgid,
		    struct mv_candidate *ret);

/**
 * mv_decide - which entry should serve the request?
 * @topo: snapshot with the device's GID table, the namespace's netdevs and addresses, and routes to the destination for
 * netdevs whose prefixes do not cover it (mv_decide_wants_route())
 *
 * Rules, in this order:
 * - A non-Ethernet port, an unknown port, or a destination on this host: KEEP.
 * - The entry can work: KEEP, even if another entry is better.
 * - The address that the program saw at its index is at another index, with the same RoCE version: REPAIR. The address
 *   may also be still at its own index, on a netdev that does not reach the destination. Example: an address on a VLAN
 *   and on the netdev below.
 * - A datagram: REPLACE by the best other entry of the port.
 * - Otherwise PASS.
 *
 * REPAIR and REPLACE name only entries that are MV_VERDICT_OK, and a decision for that index is KEEP.
 *
 * Pure, any thread; never fails.
 */
struct mv_decision mv_decide(const struct mv_topo *topo, const struct mv_request *request);

/**
 * mv_decide_wants_route - does mv_decide() need a route that is not in the snapshot?
 * @netdev: a netdev of some entry of the port
 *
 * Return: true: no prefix on @netdev covers @dgid, and the snapshot has no route. False for destinations that no route
 * decides: zero, link-local, multicast.
 */
bool mv_decide_wants_route(const struct mv_topo *topo, const struct mv_netdev *netdev,
			   const union ibv_gid *dgid);

/**
 * mv_decide_towards - which of several entries with one address leads to the destination?
 * @entries: @n of one port, at least one, with the same GID and type
 *
 * An entry whose netdev reaches the destination, the best by mv_candidate_cmp(). Without one: the entry whose address
 * has the widest subnet on its netdev, because a gateway is in the subnet, and an address alone (/32) reaches nobody.
 * Else the first.
 *
 * Pure, any thread. Return: an element of @entries.
 */
const struct mv_gid_entry *mv_decide_towards(const struct mv_topo *topo,
					     const struct mv_gid_entry *entries, size_t n,
					     const union ibv_gid *dgid);

/**
 * mv_candidate_cmp - order of preference among entries that are MV_VERDICT_OK
 * @own_ifindex: netdev of the program's own entry, 0: none
 *
 * First the destination's scope, then RoCE v2, longest prefix, preferred source of the route, the program's own netdev,
 * lowest index.
 *
 * Return: negative: @a is preferred; positive: @b is preferred.
 */
int mv_candidate_cmp(const struct mv_candidate *a, const struct mv_candidate *b,
		     uint32_t own_ifindex);

/* Names for JSON and tables, lower case without blanks, e.g. "ok", "keep". Constant strings. */
const char *mv_verdict_name(enum mv_verdict verdict);
const char *mv_action_name(enum mv_action action);
const char *mv_reason_name(enum mv_reason reason);
const char *mv_reason_text(enum mv_reason reason); /* part of a sentence for people; constant string */

#endif
