/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_DECIDE_H
#define MV_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo.h"

/*
 * The path decision: which source GID table entry should serve a destination. A pure function of a
 * snapshot and a request; nothing is remembered between calls.
 */

/* How the peer takes a source address that it was not told of. */
enum mv_transport {
	MV_CONNECTED, /* RC, UC, XRC: the peer's QP holds our address: no silent change */
	MV_DATAGRAM, /* UD address handle: any source that reaches the destination will do */
};

/* What is to be said of one GID table entry towards one destination. */
enum mv_verdict {
	MV_VERDICT_OK,
	MV_VERDICT_EMPTY, /* zero GID, or an index beyond the table */
	MV_VERDICT_NO_NETDEV, /* its netdev is not in this network namespace */
	MV_VERDICT_FAMILY, /* IPv4 and IPv6 do not mix, nor link-local and beyond the link */
	MV_VERDICT_SUBNET, /* another address of its netdev is in the destination's subnet */
	MV_VERDICT_UNROUTABLE, /* no prefix and no route of its netdev covers the destination */
	MV_VERDICT_DOWN, /* would do, but its netdev is down or has no carrier */
};

enum mv_action {
	MV_KEEP, /* the program's entry can work */
	MV_REPAIR, /* same address at another index */
	MV_REPLACE, /* another address of the same port (datagrams only) */
	MV_PASS, /* cannot work as far as we can see, but nothing better can be done alone */
};

enum mv_reason {
	MV_REASON_FITS, /* KEEP: entry reaches the destination */
	MV_REASON_INFINIBAND, /* KEEP: not Ethernet, the subnet manager's business */
	MV_REASON_NO_DESTINATION, /* KEEP: destination GID is zero, or device or port unknown */
	MV_REASON_SELF, /* KEEP: the destination is an address of this host */
	MV_REASON_PORT_DOWN, /* KEEP: right entry, but no carrier now */
	MV_REASON_MOVED, /* REPAIR: the address the program saw under this index is elsewhere */
	MV_REASON_OTHER_NETDEV, /* REPAIR: the same address is on another netdev of the port, which reaches the destination */
	MV_REASON_BETTER_ENTRY, /* REPLACE */
	MV_REASON_NEEDS_PEER, /* PASS: another entry would do, but the peer has been given ours */
	MV_REASON_NO_PATH, /* PASS: no entry of this port reaches the destination */
};

/* An address that the program may have read under the index it uses. */
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
		*seen; /* n_seen addresses, newest first; NULL when nothing is remembered */
	size_t n_seen;
};

/* Verdict on one entry, for people who want to know why. */
struct mv_candidate {
	const struct mv_gid_entry *entry; /* points into the snapshot */
	const struct mv_netdev *netdev; /* NULL when not here */
	enum mv_verdict verdict;
	unsigned int prefix_len; /* bits of the GID covered by the best prefix or route; 0: none */
	bool other_scope; /* link-local and global IPv6: works on the link, second choice */
	bool prefsrc; /* the address that the best prefix belongs to or the best route names */
};

struct mv_decision {
	enum mv_action action;
	enum mv_reason reason;
	uint32_t sgid_index; /* what to use: the request's own unless REPAIR or REPLACE */
	enum mv_verdict own_verdict; /* on the request's entry */
	union ibv_gid gid; /* address used from now on; zero if unknown */
	const struct mv_gid_entry *alternative; /* NEEDS_PEER: the best entry; else NULL */
};

/**
 * mv_judge - verdict on one entry towards a destination
 * @entry: of a snapshot's GID table; NULL stands for an empty one
 * @dgid: a destination GID, not zero
 * @ret: filled in; points into @topo
 *
 * Pure, any thread.
 */
void mv_judge(const struct mv_topo *topo, const struct mv_gid_entry *entry,
	      const union ibv_gid *dgid, struct mv_candidate *ret);

/**
 * mv_decide - which entry should serve the request
 * @topo: snapshot with the device's GID table, the namespace's netdevs and addresses, and the
 *        routes towards the destination for the netdevs whose prefixes do not cover it
 *        (mv_decide_wants_route())
 * @request: see struct mv_request
 *
 * Rules, first that fits: a non-Ethernet port, an unknown port or a destination on this host is
 * left alone; an entry that can work is kept, also when another would be nicer; an address that the
 * program saw under its index and that stands at another index of the same RoCE version is used
 * there, also where it still stands under its own as well, on a netdev that does not reach the
 * destination (an address on a VLAN and on the netdev below); a datagram takes the best other entry of the port; anything else passes untouched. REPAIR
 * and REPLACE only ever name an entry that is MV_VERDICT_OK, and deciding again with that index
 * gives KEEP.
 *
 * Pure, any thread; never fails.
 */
struct mv_decision mv_decide(const struct mv_topo *topo, const struct mv_request *request);

/**
 * mv_decide_wants_route - must the collector look up a route before mv_decide()?
 * @netdev: a netdev that some entry of the port belongs to
 *
 * Return: true when no prefix on @netdev covers @dgid, so only a route can tell whether it is
 * reached, and none is in the snapshot yet. False for destinations that no route decides (zero,
 * link-local, multicast).
 */
bool mv_decide_wants_route(const struct mv_topo *topo, const struct mv_netdev *netdev,
			   const union ibv_gid *dgid);

/**
 * mv_decide_towards - which of several entries with one address leads to a destination?
 * @entries: @n of one port, at least one; the same GID and type
 *
 * One whose netdev reaches it as far as @topo tells, as mv_candidate_cmp() has it; else one whose
 * address lies in the widest subnet there, for an address alone (/32) reaches nobody, and a gateway
 * is in the subnet; else the first one.
 *
 * Pure, any thread.
 */
const struct mv_gid_entry *mv_decide_towards(const struct mv_topo *topo,
					     const struct mv_gid_entry *entries, size_t n,
					     const union ibv_gid *dgid);

/**
 * mv_candidate_cmp - order of preference among entries that are MV_VERDICT_OK
 * @own_ifindex: netdev of the program's own entry, 0 if it has none
 *
 * The destination's own scope first, then RoCE v2, longest prefix, preferred source of the route,
 * the program's own netdev, lowest index.
 *
 * Return: negative when @a is preferred, positive when @b is.
 */
int mv_candidate_cmp(const struct mv_candidate *a, const struct mv_candidate *b,
		     uint32_t own_ifindex);

/*
 * Names for JSON and tables, lower case without blanks: "ok", "empty", ..., "keep", "repair", ...
 */
const char *mv_verdict_name(enum mv_verdict verdict);
const char *mv_action_name(enum mv_action action);
const char *mv_reason_name(enum mv_reason reason);
const char *mv_reason_text(enum mv_reason reason); /* a sentence part for people */

#endif
