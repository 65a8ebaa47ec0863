/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PATHFIND_H
#define MV_PATHFIND_H

#include "directory.h"

/*
 * The decision that needs to know the peer: can the path the program chose work, as far as the directory
 * knows, and which paths lead to that host otherwise? Pure functions of a directory.
 */

#define MV_PATH_FIND_MAX 64 /* paths that one search finds at most */

/* What the directory says of the path the program asks for. */
enum mv_path_verdict {
	MV_PATH_UNKNOWN, /* the destination's host, or whether the path works, is not in the directory: decide alone (decide.h) */
	MV_PATH_SELF, /* the destination is this host */
	MV_PATH_WORKS, /* both ends fit; nothing to agree upon */
	MV_PATH_ASK, /* may work, but only the peer knows: which RoCE version or netdev its entry has */
	MV_PATH_LOCAL_DOWN, /* own port is down, or its address is gone: mv_dir_gid_is_kept() */
	MV_PATH_REMOTE_DOWN, /* the same of the destination's */
	MV_PATH_APART, /* families, subnets, links or RoCE versions differ: packets would not arrive */
	MV_PATH_OTHER_SUBNET, /* and there is no route, but both are on one link: the kernel may find the address there */
	MV_PATH_NO_ENTRY, /* own index is empty */
};

struct mv_path_request {
	const char *device; /* the program's; NUL-terminated */
	uint8_t port_num;
	union ibv_gid sgid; /* what stands under the program's index; zero: nothing, or nothing of this namespace */
	uint8_t sgid_type; /* enum mv_gid_type */
	union ibv_gid dgid; /* what the program gave as destination */
	uint8_t routed; /* not 0: mv_decide() found a way from the program's entry to @dgid */
	uint8_t own_host; /* not 0: @dgid is this host's, too, and the way from a port to itself is its own loop */
	uint8_t down_too; /* mv_path_find(): not 0: ports need not be up */
	uint8_t made; /* not 0: the connection exists, and the host at @dgid is known: mv_dir_gid_is_in_doubt() does not count */
	uint8_t proved; /* not 0: only the peer can speak for itself, whoever has @dgid as well: the initial PSNs are not 0 */
	const struct mv_host_id *host; /* with @made: only this host's GIDs count; NULL: any host's */
};

/* A way to the peer: a pair of rails and a pair of GIDs that can talk. */
struct mv_path {
	uint32_t local_rail, remote_rail; /* of the directory */
	union ibv_gid local_gid, remote_gid;
	uint8_t type; /* enum mv_gid_type, the same at both ends */
	uint8_t stays; /* bit 0: local rail is the program's own; bit 1: remote rail is the one the peer's program uses */
	uint8_t linked; /* beacons heard: known to be on one link */
	uint8_t routed; /* in different subnets; a route of this host leads there */
	uint16_t mtu_bytes; /* the smaller of both; 0: unknown */
	uint32_t rate_mbps; /* the smaller of both; 0: unknown */
};

/**
 * mv_path_judge - can the program's own path work?
 * @ret_host: index of the destination's host when the verdict is neither UNKNOWN nor SELF
 * @ret_remote_rail: likewise, the rail that has the destination GID
 *
 * A pair of addresses works when both rails are up, families agree, and either the prefix of each covers the
 * other, or @routed is set, or (one or both are link-local) beacons of the remote rail are heard on the local one. Where the
 * directory has nothing against a pair it says WORKS: promise one is that a working path stays. So an address whose
 * prefix it does not know, or an own one that it does not have at all (of a moment ago, of a container), covers all.
 * Where no route of IPv4 leads out of the netdev that a source GID is bound to, the kernel takes the destination for on-link
 * (net/ipv4/route.c, ip_route_output_key_hash_rcu()), and for IPv6 it may take another netdev's route and neighbour: subnets
 * that differ are OTHER_SUBNET, not APART, if beacons of the remote rail are heard on the local one, both addresses are in the
 * same VLAN, and RoCE versions may agree. Where a link-local address is not known to be on the link, and no beacons are heard
 * there at all, the verdict is UNKNOWN.
 * From a link-local address to a global one, @routed has to be set as well: a port has the same link-local address on all
 * of its netdevs (VLANs), and not every one leads to the destination.
 *
 * An own entry of RoCE v1 is to ASK if the remote rail has the destination as v2, too; one of v2 is APART from a
 * destination that exists as v1 only. A global one is to ASK if the destination is a link-local address that the remote
 * rail has on several netdevs: which one the peer's program took, the address does not tell.
 * An own device that is not in the directory, or without any GID there, a zero destination, and a
 * destination that several hosts have and none of which works are UNKNOWN; an address that this host has as well is
 * SELF.
 *
 * On InfiniBand: works when both are up and the subnet prefixes agree. Between two prefixes there may be a router, of which ports know
 * nothing: UNKNOWN, but APART if one of them is the default one (fe80::/64), which is not routed.
 *
 * Of one whose peer is on this host (@own_host) all there is to know is whether the ports are up: WORKS, LOCAL_DOWN or REMOTE_DOWN. It is
 * host 0.
 */
enum mv_path_verdict mv_path_judge(const struct mv_directory *dir, const struct mv_path_request *request,
				   uint32_t *ret_host, uint32_t *ret_remote_rail);

/**
 * mv_path_is_hearsay - does only a host on another link say that the destination is that host?
 * @remote_rail: from mv_path_judge()
 *
 * A link-local address belongs to a host on the link of the program's own port. So a host that is not heard there may be another one than
 * the program means: a host without an agent may have the address. Nothing is hearsay where PSNs prove the peer (@proved), nor with a
 * fleet key.
 */
bool mv_path_is_hearsay(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_rail);

/**
 * mv_path_find - paths between this host and another, best first
 * @remote_host: from mv_path_judge()
 * @remote_rail: the rail the peer's program uses
 * @ret: array of @max
 *
 * Only pairs that are up (but see @down_too), not excluded, of the same link layer, address family and RoCE version, and either on
 * one link (beacons heard and, unless link-local, not in different subnets) or in one subnet (each one's prefix
 * covers the other; where the link is heard, an unknown prefix covers all), link-local ones of the same VLAN; or joined by a
 * route of this host (mv_dir_gid_routed(); the other end sees to its own). Order:
 * heard links before merely equal subnets; these before routes; both ends stay, one stays, none; the programs' own addresses at both
 * ends, at one, at none; higher rate; IPv4, then global IPv6, then link-local; RoCE v2 before v1; NUMA node of the
 * program's own device; then lower rail and GID bytes, so that the result is a function of the directory alone. At
 * most one path per pair of rails, except that the pair the programs use may appear with several GID pairs, which
 * take half of the room at most.
 *
 * Two ports of InfiniBand that could hear each other's beacons and do not are on two fabrics, whatever their prefixes say: no path,
 * unless the programs use them.
 *
 * With a peer on this host: besides those between the two rails that the programs use, from each rail to itself, from an address to
 * the same. What goes from one port to another goes through the network, and with either it ends.
 *
 * Return: how many were written, at most MV_PATH_FIND_MAX.
 */
size_t mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
		    uint32_t remote_rail, struct mv_path *ret, size_t max);

/**
 * mv_path_may_join - may this host send from one of its addresses to another host's, as far as the directory knows?
 *
 * What is not known may. False for global addresses of one family in different subnets, whose rails are not on one link and which no
 * route joins.
 */
bool mv_path_may_join(const struct mv_directory *dir, const union ibv_gid *local, const union ibv_gid *remote);

/* Lower case without blanks, for JSON and tables; and a sentence part for people. */
const char *mv_path_verdict_name(enum mv_path_verdict verdict);
const char *mv_path_verdict_text(enum mv_path_verdict verdict);

#endif
