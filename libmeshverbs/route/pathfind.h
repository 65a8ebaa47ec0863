/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PATHFIND_H
#define MV_PATHFIND_H

#include "directory.h"

/*
 * Path decision, which needs facts about the peer: can the program's path work, as far as the directory knows, and
 * which other paths lead to the peer's host? Pure functions of a directory, any thread.
 */

#define MV_PATH_FIND_MAX 64 /* most paths that a search returns */

/* Verdict of the directory on the program's path. */
enum mv_path_verdict {
	MV_PATH_UNKNOWN, /* the directory does not know the destination's host, or whether the path works: use mv_decide() alone */
	MV_PATH_SELF, /* the destination is this host */
	MV_PATH_WORKS, /* both ends fit; no agreement needed */
	MV_PATH_ASK, /* may work, but only the peer knows the RoCE version or netdev of its entry */
	MV_PATH_LOCAL_DOWN, /* the own port is down, or its address is gone: mv_dir_gid_in_grace() */
	MV_PATH_REMOTE_DOWN, /* the destination's port is down, or its address is gone */
	MV_PATH_APART, /* families, subnets, links or RoCE versions differ: packets would not arrive */
	MV_PATH_OTHER_SUBNET, /* different subnets without route, but on one link: the kernel may resolve the address there */
	MV_PATH_NO_ENTRY, /* the own index is empty */
};

struct mv_path_request {
	const char *device; /* the program's device; NUL-terminated */
	uint8_t port_num;
	union ibv_gid sgid; /* GID at the program's index; zero: empty, or of another namespace */
	uint8_t sgid_type; /* enum mv_gid_type */
	union ibv_gid dgid; /* destination GID from the program */
	uint8_t routed; /* not 0: mv_decide() has found that the program's entry reaches @dgid */
	uint8_t own_host; /* not 0: @dgid is also of this host; a port reaches itself by loopback */
	uint8_t down_too; /* mv_path_find(): not 0: include ports that are down */
	uint8_t made; /* not 0: the connection exists, so the peer's host is known, and mv_dir_gid_is_in_doubt() does not count */
	/* not 0: the kernel has found nobody at @dgid, or (InfiniBand) cannot know: links count for more than prefixes */
	uint8_t by_links;
	uint16_t dlid; /* InfiniBand: destination LID from the program; 0: not known, or the destination is given by LID only */
	uint8_t proved; /* not 0: the initial PSNs are not 0, so no other host with @dgid can pose as the peer */
	uint64_t spread; /* mv_path_find(): number of a group of connections, the same at both ends; 0: do not spread */
	const struct mv_host_id *host; /* with @made: only GIDs of this host count; NULL: of any host */
};

/* A path: a pair of rails, and a pair of GIDs that can communicate. */
struct mv_path {
	uint32_t local_rail, remote_rail; /* indexes in the directory */
	union ibv_gid local_gid, remote_gid;
	uint8_t type; /* enum mv_gid_type, the same at both ends */
	uint8_t stays; /* bit 0: the local rail is the program's; bit 1: the remote rail is the peer program's */
	uint8_t linked; /* beacons are heard: known to be on one link */
	uint8_t routed; /* in different subnets, with a route from this host */
	uint16_t mtu_bytes; /* the smaller one of both ends; 0: not known */
	uint32_t rate_mbps; /* the smaller one of both ends; 0: not known */
};

/**
 * mv_path_decide - can the program's path work?
 * @ret_host: index of the destination's host; written unless the verdict is UNKNOWN or SELF
 * @ret_remote_rail: the rail with the destination GID; written likewise
 *
 * A pair of addresses WORKS if both rails are up, the families agree, and one of these holds: the prefix of each covers
 * the other; @routed is set; or, if an address is link-local, beacons of the remote rail are heard on the local one. A
 * working path must not be touched, so the verdict is WORKS unless the directory has evidence against it: an address
 * without known prefix, or an own address that is not in the directory (a former one, or a container's), covers all
 * addresses.
 *
 * With @by_links, links count for more than prefixes: within one subnet, two rails are apart if the local rail hears
 * other rails, and not the remote one, although this host hears the remote host. Without @by_links a host without an
 * agent may have the address, on the link of the program's port, and a host on another link may announce it: only the
 * kernel can tell that nobody is there.
 *
 * OTHER_SUBNET instead of APART: the subnets differ, but beacons of the remote rail are heard on the local one, both
 * addresses are in the same VLAN, and RoCE versions may agree. Without a route from the netdev of the source GID, the
 * kernel takes an IPv4 destination for on-link (net/ipv4/route.c, ip_route_output_key_hash_rcu()); for IPv6 it may use
 * another netdev's route and neighbour.
 *
 * UNKNOWN for link-local addresses: the address is not known to be on the link, and no beacons at all are heard there.
 * From a link-local to a global address @routed is needed as well: a port has the same link-local address on all its
 * netdevs (VLANs), and not all of them lead to the destination.
 *
 * RoCE versions: from an own v1 entry, ASK if the remote rail has the destination as v2 too. From an own v2 entry,
 * APART if the destination is v1 only. From a global address, ASK if the destination is a link-local address that the
 * remote rail has on several netdevs: the address does not tell which one the peer's program uses.
 *
 * UNKNOWN also: the own device is not in the directory, or without GIDs there; the destination is zero; several hosts
 * have the destination, and none of their paths works. SELF: this host has the destination too.
 *
 * InfiniBand: WORKS if both ports are up and the subnet prefixes agree. Routers between subnets are not visible to
 * ports, so different prefixes are UNKNOWN; but APART if one is the default prefix (fe80::/64), which is not routed. With
 * @by_links, that is not so if the two ports hear each other, or the own GID is not in the directory; and equal prefixes
 * are APART if beacons prove two fabrics (mv_lid_proven_apart()). Never APART if @dlid is no LID
 * of the destination's port: the program may know a router.
 *
 * With @own_host, only the states of the ports count: WORKS, LOCAL_DOWN or REMOTE_DOWN, and *@ret_host is 0.
 */
enum mv_path_verdict mv_path_decide(const struct mv_directory *dir, const struct mv_path_request *request,
				    uint32_t *ret_host, uint32_t *ret_remote_rail);

/**
 * mv_path_find - paths between this host and another one, best first
 * @remote_host: from mv_path_decide()
 * @remote_rail: the rail that the peer's program uses
 * @ret: array of @max
 *
 * Both rails are up (see @down_too), not excluded, and of the same link layer; both GIDs are of the same family and
 * RoCE version. Besides, one of these holds:
 * - One link: beacons are heard, and, unless link-local, the subnets do not differ.
 * - One subnet: the prefix of each covers the other; and, with @by_links, beacons do not say that the two are apart. On
 *   a heard link an unknown prefix covers all addresses.
 * - Link-local: one link, and the same VLAN.
 * - A route of this host leads there: mv_dir_gid_routed(). The other end checks its own.
 *
 * Order of preference: heard links; equal subnets before routes; number of ends that stay; number of the programs' own
 * addresses; higher rate; IPv4, then global IPv6, then link-local; RoCE v2 before v1; NUMA node of the program's
 * device; with @spread, a hash of @spread and the pair of rails; lower rail and GID bytes. So the result depends on the
 * directory and the request only. There is one path for each pair of rails. The pair that the programs use may have
 * several, in half of the room at most.
 *
 * @spread: connections that leave a dead rail spread over all paths that are equally good. Otherwise all of them take
 * the path with the lowest rail. Connections with one number take one path.
 *
 * Two InfiniBand ports that could hear each other's beacons and do not are on two fabrics, whatever their prefixes: no
 * path, unless the programs use them.
 *
 * With a peer on this host: paths between the two rails that the programs use, and from each rail to itself with equal
 * addresses. A path from one port to another would go through the network, and fail with either port.
 *
 * Return: number of paths written, at most MV_PATH_FIND_MAX.
 */
size_t mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
		    uint32_t remote_rail, struct mv_path *ret, size_t max);

/**
 * mv_path_may_join - may this host reach one address from another, as far as the directory knows?
 *
 * True unless known: false for global addresses of one family in different subnets, on rails that are not on one link,
 * without a route.
 */
bool mv_path_may_join(const struct mv_directory *dir, const union ibv_gid *local, const union ibv_gid *remote);

/* Names for JSON and tables, lower case without blanks; and parts of sentences for people. Constant strings. */
const char *mv_path_verdict_name(enum mv_path_verdict verdict);
const char *mv_path_verdict_text(enum mv_path_verdict verdict);

#endif
