/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is said of the path that a program asks for (pathfind.h). */
#include "unit.h"

#include "pathworlds.h"

/* Somebody else is on the link of rail 0. */
#define ELSEWHERE "host z; rail mlx5_0; gid 10.9.0.1/24 v2; link 0 2;"

/* Two subnets on one switch. Only a's rail 0 hears b's other one, rail 3. */
#define SUBNETS                                                                                    \
	"host a; rail mlx5_0; gid 10.1.0.1/24 v1; gid 10.1.0.1/24 v2; gid fd01::1/64 v2; rail "   \
	"mlx5_1; gid 10.2.0.1/24 v2; host b; rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid "   \
	"10.2.0.2/24 v2; gid fd02::2/64 v2; gid 10.7.0.2/24 v2 vlan 7; gid 10.8.0.2/24 v1; link "  \
	"0 2; link 1 3; link 0 3;"

/* A port has one link-local address in all of its VLANs. */
#define VLANS_A                                                                                    \
	"host a; rail d0; gid fe80::a v2; gid fe80::a v2 vlan 7; gid fd01::1/64 v2; gid "          \
	"fd07::1/64 v2 vlan 7;"
#define VLANS_B                                                                                    \
	"host b; rail d0; gid fe80::b v2; gid fe80::b v2 vlan 7; gid fd01::2/64 v2; gid "          \
	"fd07::2/64 v2 vlan 7;"
#define VLANS VLANS_A VLANS_B "link 0 1;"

/* Each host's first port has a subnet with a prefix of its own, their second ones are in one. */
#define IB_ROUTED_A                                                                                \
	"host a; rail mlx5_0 ib; gid fec0:0:0:1::1 ib; rail mlx5_1 ib; gid fec0:0:0:8::1 ib;"
#define IB_ROUTED_B                                                                                \
	"host b; rail mlx5_0 ib; gid fec0:0:0:2::2 ib; gid 2001:db8::2 ib; rail mlx5_1 ib; gid "   \
	"fec0:0:0:8::2 ib;"
#define IB_ROUTED IB_ROUTED_A IB_ROUTED_B

/* Two fabrics with one prefix: rails 0 and 2, rails 1 and 3. */
#define FABRICS_A "host a; rail d0 ib lid 3 dev ib0; gid fe80::a0 ib; rail d1 ib lid 4 dev ib1; gid fe80::a1 ib;"
#define FABRICS_B "host b; rail d0 ib lid 5 dev ib0; gid fe80::b0 ib; rail d1 ib lid 6 lmc 1 dev ib1; gid fe80::b1 ib;"
#define FABRICS	  FABRICS_A FABRICS_B "link 0 2; link 1 3;"

struct decide_case {
	const char *name, *world, *request;
	enum mv_path_verdict verdict;
	uint32_t host, rail;
};

/* clang-format off */
static const struct decide_case decide_cases[] = {
	{"one subnet", PAIR, "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_WORKS, 1, 1},
	{"one subnet, no beacon heard", PAIR_A PAIR_B, "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_WORKS, 1, 1},
	{"link-local", PAIR, "mlx5_0 fe80::a v2 fe80::b", MV_PATH_WORKS, 1, 1},
	{"RoCE v1: only the peer knows", PAIR, "mlx5_0 10.1.0.1 v1 10.1.0.2", MV_PATH_ASK, 1, 1},
	{"RoCE v1 at both ends", "host a; rail mlx5_0; gid 10.1.0.1/24 v1; host b; rail mlx5_0; gid 10.1.0.2/24 v1;",
	 "mlx5_0 10.1.0.1 v1 10.1.0.2", MV_PATH_WORKS, 1, 1},
	{"RoCE v1 towards one that is v2 only", PAIR_A "host b; rail mlx5_0; gid 10.1.0.2/24 v2;",
	 "mlx5_0 10.1.0.1 v1 10.1.0.2", MV_PATH_ASK, 1, 1},
	{"RoCE v2 towards one that is v1 only", PAIR_A "host b; rail mlx5_0; gid 10.1.0.2/24 v1;",
	 "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_APART, 1, 1},
	{"a version that is not known", PAIR_A "host b; rail mlx5_0; gid 10.1.0.2/24 v?;",
	 "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_WORKS, 1, 1},
	{"RoCE v1 in different subnets", TRIANGLE, "mlx5_0 10.0.1.1 v1 10.0.2.1", MV_PATH_APART, 1, 3},

	{"the peer's other rail", TRIANGLE, "mlx5_0 10.0.1.1 v2 10.0.2.1", MV_PATH_APART, 1, 3},
	{"own other rail", TRIANGLE, "mlx5_1 10.0.3.1 v2 10.0.1.2", MV_PATH_APART, 1, 2},
	{"the right rails", TRIANGLE, "mlx5_1 10.0.3.1 v2 10.0.3.2", MV_PATH_WORKS, 2, 5},
	{"different subnets, but a route", TRIANGLE, "mlx5_0 10.0.1.1 v2 10.0.2.1 routed", MV_PATH_WORKS, 1, 3},
	{"families", PAIR, "mlx5_0 fe80::a v2 10.1.0.2", MV_PATH_APART, 1, 1},
	{"families, the other way", PAIR, "mlx5_0 10.1.0.1 v2 fe80::b", MV_PATH_APART, 1, 1},
	{"families and a route", PAIR, "mlx5_0 fe80::a v2 10.1.0.2 routed", MV_PATH_APART, 1, 1},
	{"one subnet on several links: heard", FLAT, "mlx5_0 10.0.0.1 v2 10.0.0.3 links", MV_PATH_WORKS, 1, 2},
	{"one subnet on several links: the peer's other rail", FLAT, "mlx5_0 10.0.0.1 v2 10.0.0.4 links", MV_PATH_APART, 1, 3},
	{"one subnet on several links: own other rail", FLAT, "mlx5_0 10.0.0.1 v2 10.0.0.6 links", MV_PATH_APART, 2, 5},
	{"one subnet on several links: both wrong", FLAT, "mlx5_1 10.0.0.2 v2 10.0.0.4 links", MV_PATH_APART, 1, 3},
	{"one subnet on several links: the kernel's route is no proof", FLAT, "mlx5_0 10.0.0.1 v2 10.0.0.5 nobody", MV_PATH_APART, 2, 4},
	{"one subnet on several links: somebody without an agent may be there", FLAT, "mlx5_0 10.0.0.1 v2 10.0.0.5", MV_PATH_WORKS, 2, 4},
	{"one subnet: nobody is heard there", FLAT_HOSTS "link 1 5;", "mlx5_0 10.0.0.1 v2 10.0.0.5 links", MV_PATH_WORKS, 2, 4},
	{"one subnet: the peer is heard nowhere", FLAT_HOSTS "link 0 2;", "mlx5_0 10.0.0.1 v2 10.0.0.5 links", MV_PATH_WORKS, 2, 4},
	{"one subnet: excluded rails need not send beacons", "host a; rail d0; gid 10.0.0.1/24 v2;"
	 "host b; rail d0; gid 10.0.0.3/24 v2; rail d1 excluded; gid 10.0.0.4/24 v2; link 0 1;", "d0 10.0.0.1 v2 10.0.0.4 links", MV_PATH_WORKS, 1, 2},
	{"one subnet: beacons are in no VLAN", "host a; rail d0; gid 10.0.0.1/24 v2 vlan 7;"
	 "host b; rail d0; gid 10.0.0.3/24 v2; rail d1; gid 10.0.0.4/24 v2 vlan 7; link 0 1;", "d0 10.0.0.1 v2 10.0.0.4 links", MV_PATH_WORKS, 1, 2},
	{"link-local, not on the link", PAIR_A PAIR_B ELSEWHERE, "mlx5_0 fe80::a v2 fe80::b", MV_PATH_APART, 1, 1},
	{"link-local and a default route", PAIR_A PAIR_B ELSEWHERE, "mlx5_0 fe80::a v2 fe80::b routed", MV_PATH_APART, 1, 1},
	{"link-local, and nobody is heard", PAIR_A PAIR_B, "mlx5_0 fe80::a v2 fe80::b", MV_PATH_UNKNOWN, 77, 77},
	{"IPv6 of two scopes, and nobody is heard", PAIR_A "gid 2001:db8::1/64 v2;" PAIR_B, "mlx5_0 2001:db8::1 v2 fe80::b", MV_PATH_UNKNOWN, 77, 77},
	{"families, and nobody is heard", PAIR_A PAIR_B, "mlx5_0 fe80::a v2 10.1.0.2", MV_PATH_APART, 1, 1},
	{"IPv6 of two scopes on one link", PAIR_A "gid 2001:db8::1/64 v2;" PAIR_B "link 0 1;",
	 "mlx5_0 2001:db8::1 v2 fe80::b", MV_PATH_WORKS, 1, 1},
	{"IPv6 of two scopes, not on one link", PAIR_A "gid 2001:db8::1/64 v2;" PAIR_B ELSEWHERE,
	 "mlx5_0 2001:db8::1 v2 fe80::b", MV_PATH_APART, 1, 1},
	{"link-local, and its netdev does not lead there", VLANS, "d0 fe80::a v2 fd01::2", MV_PATH_APART, 1, 1},
	{"link-local, and its netdev does", VLANS, "d0 fe80::a v2 fd01::2 routed", MV_PATH_WORKS, 1, 1},
	{"global, link-local on several netdevs", VLANS, "d0 fd01::1 v2 fe80::b", MV_PATH_ASK, 1, 1},
	{"the same in a VLAN", VLANS, "d0 fd07::1 v2 fe80::b routed", MV_PATH_ASK, 1, 1},
	{"global, link-local on one netdev", VLANS_A "host b; rail d0; gid fe80::b v1; gid fe80::b v2; link 0 1;",
	 "d0 fd01::1 v2 fe80::b", MV_PATH_WORKS, 1, 1},
	{"link-local addresses on several netdevs", VLANS, "d0 fe80::a v2 fe80::b", MV_PATH_WORKS, 1, 1},
	{"the same, not on one link", VLANS_A VLANS_B ELSEWHERE, "d0 fe80::a v2 fd01::2 routed", MV_PATH_APART, 1, 1},
	{"only one prefix covers", "host a; rail mlx5_0; gid 10.1.0.1/16 v2; host b; rail mlx5_0; gid 10.1.1.2/24 v2;",
	 "mlx5_0 10.1.0.1 v2 10.1.1.2", MV_PATH_APART, 1, 1},
	{"no prefix known", "host a; rail mlx5_0; gid 10.1.0.1 v2; host b; rail mlx5_0; gid 10.2.0.2 v2;",
	 "mlx5_0 10.1.0.1 v2 10.2.0.2", MV_PATH_WORKS, 1, 1},
	{"own prefix not known, and the peer's is another", "host a; rail mlx5_0; gid 10.1.0.1 v2; host b; rail mlx5_0;"
	 "gid 10.2.0.2/24 v2;", "mlx5_0 10.1.0.1 v2 10.2.0.2", MV_PATH_APART, 1, 1},
	{"own prefix known, and the peer is outside", "host a; rail mlx5_0; gid 10.1.0.1/24 v2; host b; rail mlx5_0;"
	 "gid 10.2.0.2 v2;", "mlx5_0 10.1.0.1 v2 10.2.0.2", MV_PATH_APART, 1, 1},
	{"IPv6 to IPv4 and a route", "host a; rail mlx5_0; gid 2001:db8::1/64 v2;" PAIR_B,
	 "mlx5_0 2001:db8::1 v2 10.1.0.2 routed", MV_PATH_APART, 1, 1},
	{"an address newer than the directory", PAIR, "mlx5_0 10.1.0.77 v2 10.1.0.2", MV_PATH_WORKS, 1, 1},
	{"the same in another subnet", PAIR_A PAIR_B, "mlx5_0 10.7.0.77 v2 10.1.0.2", MV_PATH_APART, 1, 1},
	{"the same in another subnet of the link", PAIR, "mlx5_0 10.7.0.77 v2 10.1.0.2", MV_PATH_OTHER_SUBNET, 1, 1},

	{"another subnet of the link", SUBNETS, "mlx5_0 10.1.0.1 v2 10.2.0.2", MV_PATH_OTHER_SUBNET, 1, 3},
	{"another subnet of the link, and a route", SUBNETS, "mlx5_0 10.1.0.1 v2 10.2.0.2 routed", MV_PATH_WORKS, 1, 3},
	{"another subnet of the link, RoCE v1", SUBNETS, "mlx5_0 10.1.0.1 v1 10.2.0.2", MV_PATH_OTHER_SUBNET, 1, 3},
	{"another subnet of the link, IPv6: by another netdev's route", SUBNETS, "mlx5_0 fd01::1 v2 fd02::2", MV_PATH_OTHER_SUBNET, 1, 3},
	{"another subnet of the link, and families", SUBNETS, "mlx5_0 fd01::1 v2 10.2.0.2", MV_PATH_APART, 1, 3},
	{"another subnet, and another VLAN", SUBNETS, "mlx5_0 10.1.0.1 v2 10.7.0.2", MV_PATH_APART, 1, 3},
	{"another subnet of the link, as v1 only", SUBNETS, "mlx5_0 10.1.0.1 v2 10.8.0.2", MV_PATH_APART, 1, 3},
	{"another subnet of the link, and the same address on another link",
	 PAIR_A "host b; rail mlx5_0; gid 10.2.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 v2; link 0 2;",
	 "mlx5_0 10.1.0.1 v2 10.2.0.2", MV_PATH_OTHER_SUBNET, 1, 2},
	{"another subnet, and no beacon heard", SUBNETS, "mlx5_1 10.2.0.1 v2 10.1.0.2", MV_PATH_APART, 1, 2},

	{"own port down", "host a; rail mlx5_0 down; gid 10.1.0.1/24 v2;" PAIR_B, "mlx5_0 10.1.0.1 v2 10.1.0.2",
	 MV_PATH_LOCAL_DOWN, 1, 1},
	{"a pod's port, of which its host's agent sees no netdev", "host a; rail mlx5_0 down; rail mlx5_1; gid 10.8.0.1/24 v2;" PAIR_B,
	 "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_UNKNOWN, 77, 77},
	{"their port down", PAIR_A "host b; rail mlx5_0 down; gid 10.1.0.2/24 v2;", "mlx5_0 10.1.0.1 v2 10.1.0.2",
	 MV_PATH_REMOTE_DOWN, 1, 1},
	{"excluded: works all the same", "host a; rail mlx5_0 excluded; gid 10.1.0.1/24 v2;" PAIR_B,
	 "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_WORKS, 1, 1},
	{"an empty index", PAIR, "mlx5_0 :: v2 10.1.0.2", MV_PATH_NO_ENTRY, 1, 1},

	{"a host nobody knows", PAIR, "mlx5_0 10.1.0.1 v2 10.1.0.3", MV_PATH_UNKNOWN, 77, 77},
	{"no destination", PAIR, "mlx5_0 10.1.0.1 v2 ::", MV_PATH_UNKNOWN, 77, 77},
	{"a device nobody knows", PAIR, "mlx5_7 10.1.0.1 v2 10.1.0.2", MV_PATH_UNKNOWN, 77, 77},
	{"another port", PAIR, "mlx5_0 10.1.0.1 v2 10.1.0.2 port2", MV_PATH_UNKNOWN, 77, 77},
	{"oneself", PAIR, "mlx5_0 10.1.0.1 v2 10.1.0.1", MV_PATH_SELF, 77, 77},
	{"oneself, by the other rail", TRIANGLE, "mlx5_0 10.0.1.1 v2 10.0.3.1", MV_PATH_SELF, 77, 77},
	{"an address of this host and another", PAIR_A "host b; rail mlx5_0; gid fe80::a v2; link 0 1;",
	 "mlx5_0 fe80::a v2 fe80::a", MV_PATH_SELF, 77, 77},
	{"an address of two hosts, one on the link", "host a; rail mlx5_0; gid fe80::a v2; host b; rail mlx5_0; gid fe80::1 v2;"
	 "host c; rail mlx5_0; gid fe80::1 v2; link 0 2;", "mlx5_0 fe80::a v2 fe80::1", MV_PATH_WORKS, 2, 2},
	{"an address of two hosts on the link", PAIR "host c; rail mlx5_0; gid fe80::b v2; link 0 2;", "mlx5_0 fe80::a v2 fe80::b", MV_PATH_UNKNOWN, 77, 77},
	{"an address of two hosts on the link, PSNs tell", PAIR "host c; rail mlx5_0; gid fe80::b v2; link 0 2;",
	 "mlx5_0 fe80::a v2 fe80::b proved", MV_PATH_WORKS, 1, 1},
	{"an address of two hosts on the link, found out before", PAIR "host c; rail mlx5_0; gid fe80::b v2; link 0 2;",
	 "mlx5_0 fe80::a v2 fe80::b made", MV_PATH_WORKS, 1, 1},
	{"an address of two hosts, none on the link", "host a; rail mlx5_0; gid fe80::a v2; host b; rail mlx5_0;"
	 "gid fe80::1 v2; host c; rail mlx5_0; gid fe80::1 v2;", "mlx5_0 fe80::a v2 fe80::1", MV_PATH_UNKNOWN, 77, 77},
	{"an address of two rails of one host", "host a; rail mlx5_0; gid fe80::a v2; host b; rail mlx5_0 down; gid fe80::1 v2;"
	 "rail mlx5_1; gid fe80::1 v2; host z; rail mlx5_0; gid fe80::2 v2; link 0 3;", "mlx5_0 fe80::a v2 fe80::1", MV_PATH_APART, 1, 2},

	{"InfiniBand, one subnet", "host a; rail mlx5_0 ib; gid fe80::1:1 ib; host b; rail mlx5_0 ib; gid fe80::2:2 ib;",
	 "mlx5_0 fe80::1:1 ib fe80::2:2", MV_PATH_WORKS, 1, 1},
	{"InfiniBand, two subnets", "host a; rail mlx5_0 ib; gid fe80::1:1 ib; host b; rail mlx5_0 ib; gid fec0::2:2 ib;",
	 "mlx5_0 fe80::1:1 ib fec0::2:2", MV_PATH_APART, 1, 1},
	{"InfiniBand, two subnets, the other way", "host a; rail mlx5_0 ib; gid fec0::1:1 ib; host b; rail mlx5_0 ib; gid fe80::2:2 ib;",
	 "mlx5_0 fec0::1:1 ib fe80::2:2", MV_PATH_APART, 1, 1},
	{"InfiniBand, perhaps a router", IB_ROUTED, "mlx5_0 fec0:0:0:1::1 ib fec0:0:0:2::2", MV_PATH_UNKNOWN, 77, 77},
	{"InfiniBand, perhaps a router, global", IB_ROUTED, "mlx5_0 fec0:0:0:1::1 ib 2001:db8::2", MV_PATH_UNKNOWN, 77, 77},
	{"InfiniBand, the second rails", IB_ROUTED, "mlx5_1 fec0:0:0:8::1 ib fec0:0:0:8::2", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, perhaps a router, an empty index", IB_ROUTED, "mlx5_0 :: ib fec0:0:0:2::2", MV_PATH_NO_ENTRY, 1, 2},
	{"InfiniBand, perhaps a router, own port down", "host a; rail mlx5_0 ib down; gid fec0:0:0:1::1 ib;" IB_ROUTED_B,
	 "mlx5_0 fec0:0:0:1::1 ib fec0:0:0:2::2", MV_PATH_LOCAL_DOWN, 1, 1},
	{"InfiniBand, perhaps a router, their port down", IB_ROUTED_A "host b; rail mlx5_0 ib down; gid fec0:0:0:2::2 ib;",
	 "mlx5_0 fec0:0:0:1::1 ib fec0:0:0:2::2", MV_PATH_REMOTE_DOWN, 1, 2},
	{"InfiniBand, perhaps a router, the same GID on Ethernet", IB_ROUTED_A "host b; rail d0; gid fec0:0:0:2::2/64 v2; rail d1 ib;"
	 "gid fec0:0:0:2::2 ib;", "mlx5_0 fec0:0:0:1::1 ib fec0:0:0:2::2", MV_PATH_UNKNOWN, 77, 77},
	{"unmet: down", PAIR_A "host b; rail mlx5_0 down; gid 10.1.0.2/24 v2 unmet;", "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_UNKNOWN, 77, 77},
	{"unmet: up", PAIR_A "host b; rail mlx5_0; gid 10.1.0.2/24 v2 unmet;", "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_UNKNOWN, 77, 77},
	{"unmet: of another subnet", "host a; rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2; host b; rail d0; gid 10.2.0.2/24 v2 unmet;",
	 "mlx5_0 10.1.0.1 v2 10.2.0.2",
	 MV_PATH_UNKNOWN, 77, 77},
	{"unmet, of a connection that is there", PAIR_A "host b; rail mlx5_0 down; gid 10.1.0.2/24 v2 unmet;",
	 "mlx5_0 10.1.0.1 v2 10.1.0.2 made", MV_PATH_REMOTE_DOWN, 1, 1},
	{"unanswered, and a route", PAIR_A "host b; rail mlx5_0 down; gid 10.9.0.2/24 v2 unanswered;", "mlx5_0 10.1.0.1 v2 10.9.0.2 routed",
	 MV_PATH_UNKNOWN, 77, 77},
	{"unanswered, and no route", PAIR_A "host b; rail mlx5_0; gid 10.9.0.2/24 v2 unanswered;", "mlx5_0 10.1.0.1 v2 10.9.0.2", MV_PATH_APART, 1, 1},
	{"met, and down", PAIR_A "host b; rail mlx5_0 down; gid 10.1.0.2/24 v2;", "mlx5_0 10.1.0.1 v2 10.1.0.2", MV_PATH_REMOTE_DOWN, 1, 1},
	{"InfiniBand, two fabrics, the other one", FABRICS, "d0 fe80::a0 ib fe80::b1 links", MV_PATH_APART, 1, 3},
	{"InfiniBand, two fabrics, by its LID", FABRICS, "d0 fe80::a0 ib fe80::b1 lid6", MV_PATH_APART, 1, 3},
	{"InfiniBand, two fabrics, by another of its LIDs", FABRICS, "d0 fe80::a0 ib fe80::b1 lid7", MV_PATH_APART, 1, 3},
	{"InfiniBand, two fabrics, by a LID that is not its own", FABRICS, "d0 fe80::a0 ib fe80::b1 lid8", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, two fabrics, the own one", FABRICS, "d0 fe80::a0 ib fe80::b0 links", MV_PATH_WORKS, 1, 2},
	{"InfiniBand, two fabrics, of connections", FABRICS, "d0 fe80::a0 ib fe80::b1", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, two fabrics? the own port hears nobody", FABRICS_A FABRICS_B "link 1 3;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, two fabrics? nobody hears the peer's port", FABRICS_A FABRICS_B "link 0 2;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, two fabrics? one port hears both", FABRICS "link 1 2;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, one fabric, not all of whose links are noted", FABRICS "host c; rail d0 ib lid 9 dev ib0; gid fe80::c0 ib; link 0 4; link 1 4;",
	 "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, the same for one of two that hear the peer's", FABRICS_A "rail d2 ib lid 7 dev ib2; gid fe80::a2 ib;" FABRICS_B
	 "link 0 3; link 1 4; link 2 4; link 2 3;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 4},
	{"InfiniBand, the same for the first of the two", FABRICS_A "rail d2 ib lid 7 dev ib2; gid fe80::a2 ib;" FABRICS_B
	 "link 0 3; link 1 4; link 1 3; link 2 4;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 4},
	{"InfiniBand, three fabrics", FABRICS_A "rail d2 ib lid 7 dev ib2; gid fe80::a2 ib;" FABRICS_B
	 "host c; rail d0 ib lid 9 dev ib0; gid fe80::c0 ib; link 0 3; link 1 4; link 2 5;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_APART, 1, 4},
	{"InfiniBand, two fabrics? what the own port hears is down", FABRICS_A FABRICS_B "host c; rail d0 ib lid 9 dev ib0 down; gid fe80::c0 ib;"
	 "link 0 4; link 1 3;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, two fabrics? the own port has no IPoIB", "host a; rail d0 ib lid 3; gid fe80::a0 ib; rail d1 ib lid 4 dev ib1; gid fe80::a1 ib;"
	 FABRICS_B "link 1 3;", "d0 fe80::a0 ib fe80::b1 links", MV_PATH_WORKS, 1, 3},
	{"InfiniBand, two subnets, by a LID that is not its own", "host a; rail mlx5_0 ib; gid fe80::1:1 ib; host b; rail mlx5_0 ib lid 5;"
	 "gid fec0::2:2 ib;", "mlx5_0 fe80::1:1 ib fec0::2:2 lid6", MV_PATH_UNKNOWN, 77, 77},
	{"InfiniBand, two subnets, by its LID", "host a; rail mlx5_0 ib; gid fe80::1:1 ib; host b; rail mlx5_0 ib lid 5;"
	 "gid fec0::2:2 ib;", "mlx5_0 fe80::1:1 ib fec0::2:2 lid5", MV_PATH_APART, 1, 1},
	{"InfiniBand, two prefixes of ports that hear each other", "host a; rail mlx5_0 ib; gid fe80::1:1 ib; host b; rail mlx5_0 ib lid 5;"
	 "gid fec0::2:2 ib; link 0 1;", "mlx5_0 fe80::1:1 ib fec0::2:2 lid5", MV_PATH_UNKNOWN, 77, 77},
	{"InfiniBand, the same for connections", "host a; rail mlx5_0 ib; gid fe80::1:1 ib; host b; rail mlx5_0 ib lid 5;"
	 "gid fec0::2:2 ib; link 0 1;", "mlx5_0 fe80::1:1 ib fec0::2:2", MV_PATH_APART, 1, 1},
	{"InfiniBand, two prefixes, the own one a former one", "host a; rail mlx5_0 ib; gid fec0::1:1 ib; host b; rail mlx5_0 ib lid 5;"
	 "gid fec0::2:2 ib;", "mlx5_0 fe80::1:1 ib fec0::2:2 lid5", MV_PATH_UNKNOWN, 77, 77},
	{"InfiniBand to Ethernet", "host a; rail mlx5_0 ib; gid fe80::1:1 ib;" PAIR_B "link 0 1;",
	 "mlx5_0 fe80::1:1 ib fe80::b", MV_PATH_UNKNOWN, 77, 77},
	{"InfiniBand to Ethernet, found out before", "host a; rail mlx5_0 ib; gid fe80::1:1 ib;" PAIR_B "link 0 1;",
	 "mlx5_0 fe80::1:1 ib fe80::b made", MV_PATH_APART, 1, 1},
};
/* clang-format on */

static void check_decide(const struct decide_case *c)
{
	struct mv_path_request request;
	enum mv_path_verdict verdict;
	uint32_t host = 77, rail = 77;
	struct dirworld world;
	char device[64];

	dirworld_init(&world, c->world);
	request = request_of(c->request, device);
	verdict = mv_path_decide(&world.dir, &request, &host, &rail);
	if (verdict != c->verdict || host != c->host || rail != c->rail)
		fail_msg("%s: %s, host %u, rail %u; wanted %s, %u, %u", c->name,
			 mv_path_verdict_name(verdict), host, rail,
			 mv_path_verdict_name(c->verdict), c->host, c->rail);
	dirworld_fini(&world);
}

static void test_decide(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(decide_cases) / sizeof(decide_cases[0]); i++)
		check_decide(&decide_cases[i]);
}

static void test_words(void **state)
{
	(void)state;
	for (unsigned int v = MV_PATH_UNKNOWN; v <= MV_PATH_NO_ENTRY; v++) {
		assert_string_not_equal(mv_path_verdict_name(v), "invalid");
		assert_string_not_equal(mv_path_verdict_text(v), "invalid");
	}
	assert_string_equal(mv_path_verdict_name(MV_PATH_NO_ENTRY + 1), "invalid");
	assert_string_equal(mv_path_verdict_text(MV_PATH_NO_ENTRY + 1), "invalid");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decide),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
