/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

/* One port, one subnet, as the kernel fills a table: each address as RoCE v1 and v2. */
#define ETH0_NET        "dev 1 lo; addr 1 127.0.0.1/8; dev 2 eth0; addr 2 10.1.0.1/24; "
#define ETH0_LINK_LOCAL "gid 0 fe80::ff:fe00:2 2 v1; gid 1 fe80::ff:fe00:2 2 v2; "
#define ETH0            ETH0_NET ETH0_LINK_LOCAL "gid 2 10.1.0.1 2 v1; gid 3 10.1.0.1 2 v2; "

/* The same after the address went and came back while a QP held the old entries. */
#define ETH0_MOVED ETH0_NET ETH0_LINK_LOCAL "gid 4 10.1.0.1 2 v1; gid 5 10.1.0.1 2 v2; "

/* A VLAN on top, with its own subnet. */
#define VLAN "dev 7 eth0.100; addr 7 10.100.0.1/24; gid 4 10.100.0.1 7 v1; gid 5 10.100.0.1 7 v2; "

/* Another network namespace's netdev 9; here 9 is no device, or another one. */
#define FOREIGN "gid 6 10.1.0.77 9 v2; "

/* One address on the netdev and, without its subnet, on a VLAN, which got it first. */
#define TWO_NETDEVS                                                                                \
	"dev 7 eth0.100; addr 7 10.1.0.1/32; gid 2 10.1.0.1 7 v1; gid 3 10.1.0.1 7 v2;"            \
	"dev 2 eth0; addr 2 10.1.0.1/24; gid 4 10.1.0.1 2 v1; gid 5 10.1.0.1 2 v2;"

struct decide_case {
	const char *name;
	const char *world;
	uint32_t index;
	const char *dgid;
	enum mv_transport transport;
	const char *seen; /* newest first, see world_seen() */
	enum mv_action action;
	enum mv_reason reason;
	uint32_t ret_index;
	enum mv_verdict own;
};

#define RC MV_CONNECTED
#define UD MV_DATAGRAM

/* One case in two or three lines, as they are read. */
/* clang-format off */

/* What is fit to work must stay as it is. */
static const struct decide_case keep_cases[] = {
	{"right entry", ETH0, 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_KEEP, MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"right entry, nothing remembered", ETH0, 3, "10.1.0.2", RC, NULL, MV_KEEP, MV_REASON_FITS, 3,
	 MV_VERDICT_OK},
	{"right entry, UD", ETH0, 3, "10.1.0.2", UD, "10.1.0.1 v2", MV_KEEP, MV_REASON_FITS, 3,
	 MV_VERDICT_OK},
	{"RoCE v1, though v2 would be nicer", ETH0, 2, "10.1.0.2", UD, NULL, MV_KEEP, MV_REASON_FITS, 2,
	 MV_VERDICT_OK},
	{"link-local to link-local", ETH0, 1, "fe80::5", RC, NULL, MV_KEEP, MV_REASON_FITS, 1,
	 MV_VERDICT_OK},
	{"link-local to link-local, UD", ETH0, 0, "fe80::5", UD, NULL, MV_KEEP, MV_REASON_FITS, 0,
	 MV_VERDICT_OK},
	{"second address of the netdev", ETH0 "addr 2 10.2.0.1/24; gid 5 10.2.0.1 2 v2;", 5, "10.2.0.2", UD,
	 NULL, MV_KEEP, MV_REASON_FITS, 5, MV_VERDICT_OK},
	{"host address inside another address's subnet", ETH0 "addr 2 10.1.0.99/32; gid 5 10.1.0.99 2 v2;", 5,
	 "10.1.0.2", UD, NULL, MV_KEEP, MV_REASON_FITS, 5, MV_VERDICT_OK},
	{"an address on two netdevs, the right one", TWO_NETDEVS, 5, "10.1.0.2", RC, "10.1.0.1 v2", MV_KEEP, MV_REASON_FITS, 5,
	 MV_VERDICT_OK},
	{"several addresses in one subnet", ETH0 "addr 2 10.1.0.5/24; gid 5 10.1.0.5 2 v2;", 5, "10.1.0.2",
	 UD, NULL, MV_KEEP, MV_REASON_FITS, 5, MV_VERDICT_OK},
	{"by gateway", ETH0 "route 2 10.0.0.0/8 10.1.0.254;", 3, "10.7.0.2", UD, NULL, MV_KEEP,
	 MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"by default route", ETH0 "route 2 0.0.0.0/0 10.1.0.254;", 3, "192.0.2.9", RC, NULL, MV_KEEP,
	 MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"by host route of a look-up", ETH0 "host 2 192.0.2.9 0;", 3, "192.0.2.9", RC, NULL, MV_KEEP,
	 MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"by policy route of its own address", ETH0 "route 2 0.0.0.0/0 10.1.0.254 :: 10.1.0.1;", 3,
	 "192.0.2.9", UD, NULL, MV_KEEP, MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"IPv6 by default route", "dev 2 eth0; addr 2 2001:db8::1/64; gid 3 2001:db8::1 2 v2;"
	 "route 2 ::/0 fe80::9;", 3, "2001:db8:9::2", RC, NULL, MV_KEEP, MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"point-to-point", "dev 2 eth0; peer 2 10.9.0.1 10.8.0.1/32; gid 0 10.9.0.1 2 v2;", 0, "10.8.0.1", RC,
	 NULL, MV_KEEP, MV_REASON_FITS, 0, MV_VERDICT_OK},
	{"a wide prefix beside a VLAN's narrow one", "dev 2 eth0; addr 2 10.0.0.1/8; gid 3 10.0.0.1 2 v2;"
	 VLAN, 3, "10.100.0.2", UD, NULL, MV_KEEP, MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"VLAN entry to VLAN destination", ETH0 VLAN, 5, "10.100.0.2", RC, NULL, MV_KEEP, MV_REASON_FITS, 5,
	 MV_VERDICT_OK},
	/* A program that read the table again holds the new address; see mv_decide(). */
	{"slot reused by an address that fits", "dev 2 eth0; addr 2 10.1.0.1/24; addr 2 10.1.0.9/24;"
	 "gid 3 10.1.0.9 2 v2; gid 5 10.1.0.1 2 v2;", 3, "10.1.0.2", RC, "10.1.0.9 v2, 10.1.0.1 v2", MV_KEEP,
	 MV_REASON_FITS, 3, MV_VERDICT_OK},
	/* The packets get there; whether answers come back is for the peer's routes, a VIP's owner knows. */
	{"other subnet of the same netdev, UD", ETH0 "addr 2 10.6.0.1/24; gid 4 10.6.0.1 2 v2;", 4, "10.1.0.2",
	 UD, NULL, MV_KEEP, MV_REASON_FITS, 4, MV_VERDICT_SUBNET},
	{"virtual address of no subnet", ETH0 "addr 2 192.0.2.5/32; gid 4 192.0.2.5 2 v2;", 4, "10.1.0.2", RC, NULL,
	 MV_KEEP, MV_REASON_FITS, 4, MV_VERDICT_SUBNET},
	{"slot reused by an address of the netdev in another subnet", ETH0_NET "addr 2 10.6.0.1/24;"
	 "gid 3 10.6.0.1 2 v2; gid 5 10.1.0.1 2 v2;", 3, "10.1.0.2", RC, "10.6.0.1 v2, 10.1.0.1 v2", MV_KEEP,
	 MV_REASON_FITS, 3, MV_VERDICT_SUBNET},
	{"no carrier", "dev 2 eth0 nocarrier; addr 2 10.1.0.1/24; gid 3 10.1.0.1 2 v2;", 3, "10.1.0.2", RC,
	 NULL, MV_KEEP, MV_REASON_PORT_DOWN, 3, MV_VERDICT_DOWN},
	{"netdev down, UD, VLAN beside it up", "dev 2 eth0 down; addr 2 10.1.0.1/24; gid 3 10.1.0.1 2 v2;"
	 "dev 7 m0; addr 7 10.1.0.8/24; gid 5 10.1.0.8 7 v2;", 3, "10.1.0.2", UD, NULL, MV_KEEP,
	 MV_REASON_PORT_DOWN, 3, MV_VERDICT_DOWN},
	{"to an address of this host", ETH0 "addr 1 10.3.0.1/32;", 3, "10.3.0.1", RC, NULL, MV_KEEP,
	 MV_REASON_SELF, 3, MV_VERDICT_UNROUTABLE},
	{"to itself", ETH0, 3, "10.1.0.1", RC, NULL, MV_KEEP, MV_REASON_SELF, 3, MV_VERDICT_OK},
	{"another subnet's entry to itself", ETH0 VLAN, 5, "10.1.0.1", UD, NULL, MV_KEEP, MV_REASON_SELF, 5,
	 MV_VERDICT_UNROUTABLE},
	{"to another device's default GID", ETH0 "dev 3 eth1; gid2 0 fe80::ff:fe00:3 3 v2;", 3,
	 "fe80::ff:fe00:3", UD, NULL, MV_KEEP, MV_REASON_SELF, 3, MV_VERDICT_FAMILY},
	{"IPv4 multicast from IPv4", ETH0, 3, "224.1.2.3", UD, NULL, MV_KEEP, MV_REASON_FITS, 3,
	 MV_VERDICT_OK},
	{"IPv6 multicast from IPv4", ETH0, 3, "ff0e::1", UD, NULL, MV_KEEP, MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"no destination", ETH0, 3, "::", UD, NULL, MV_KEEP, MV_REASON_NO_DESTINATION, 3, MV_VERDICT_EMPTY},
	{"no destination, empty entry", ETH0, 200, "::", RC, "10.1.0.1 v2", MV_KEEP, MV_REASON_NO_DESTINATION,
	 200, MV_VERDICT_EMPTY},
	/* IPv6 scopes do mix on one link. */
	{"link-local to global on the link", "dev 2 eth0; addr 2 2001:db8::1/64; gid 1 fe80::ff:fe00:2 2 v2;"
	 "gid 3 2001:db8::1 2 v2;", 1, "2001:db8::2", UD, NULL, MV_KEEP, MV_REASON_FITS, 1, MV_VERDICT_OK},
	{"global to link-local", "dev 2 eth0; addr 2 2001:db8::1/64; gid 1 fe80::ff:fe00:2 2 v2;"
	 "gid 3 2001:db8::1 2 v2;", 3, "fe80::7", UD, NULL, MV_KEEP, MV_REASON_FITS, 3, MV_VERDICT_OK},
	{"default GID with a device number in it", "dev 2 eth0; gid 1 fe80::200:0:100:2 2 v2;", 1, "fe80::7", RC,
	 NULL, MV_KEEP, MV_REASON_FITS, 1, MV_VERDICT_OK},
	{"link-local address that is not the default GID", "dev 2 eth0; addr 2 fe80::1234/64;"
	 "gid 1 fe80::1234 2 v2;", 1, "fe80::7", RC, NULL, MV_KEEP, MV_REASON_FITS, 1, MV_VERDICT_OK},
};

/* The same address at another index: safe without the peer. */
static const struct decide_case repair_cases[] = {
	{"moved after a flap", ETH0_MOVED, 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 5,
	 MV_VERDICT_EMPTY},
	{"moved after a flap, UD", ETH0_MOVED, 3, "10.1.0.2", UD, "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 5,
	 MV_VERDICT_EMPTY},
	{"moved, to itself", ETH0_MOVED, 3, "10.1.0.1", RC, "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 5,
	 MV_VERDICT_EMPTY},
	{"RoCE v1 stays v1", ETH0_MOVED, 2, "10.1.0.2", RC, "10.1.0.1 v1", MV_REPAIR, MV_REASON_MOVED, 4,
	 MV_VERDICT_EMPTY},
	{"slot reused by an address that does not fit", "dev 2 eth0; addr 2 10.1.0.1/24; addr 2 2001:db8::1/64;"
	 "gid 3 2001:db8::1 2 v2; gid 5 10.1.0.1 2 v2;", 3, "10.1.0.2", RC, "2001:db8::1 v2, 10.1.0.1 v2",
	 MV_REPAIR, MV_REASON_MOVED, 5, MV_VERDICT_FAMILY},
	{"slot reused by another subnet's address", ETH0_NET VLAN "gid 3 10.100.0.1 7 v2; gid 8 10.1.0.1 2 v2;",
	 3, "10.1.0.2", RC, "10.100.0.1 v2, 10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 8,
	 MV_VERDICT_UNROUTABLE},
	{"slot reused by another namespace's address", ETH0_NET "gid 3 10.1.0.77 9 v2; gid 5 10.1.0.1 2 v2;", 3,
	 "10.1.0.2", RC, "10.1.0.77 v2, 10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 5, MV_VERDICT_NO_NETDEV},
	{"the same address in another namespace", ETH0_NET "gid 3 10.1.0.1 9 v2; gid 5 10.1.0.1 2 v2;", 3,
	 "10.1.0.2", RC, "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 5, MV_VERDICT_NO_NETDEV},
	{"the same, and its interface number is another device here", ETH0_NET "dev 9 other; addr 9 10.55.0.1/24;"
	 "gid 3 10.1.0.1 9 v2; gid 5 10.1.0.1 2 v2;", 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_REPAIR,
	 MV_REASON_MOVED, 5, MV_VERDICT_NO_NETDEV},
	{"the newest address that fits wins", ETH0_NET "addr 2 10.1.0.9/24; gid 5 10.1.0.1 2 v2;"
	 "gid 6 10.1.0.9 2 v2;", 3, "10.1.0.2", RC, "10.1.0.9 v2, 10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 6,
	 MV_VERDICT_EMPTY},
	{"newer addresses that are gone or do not fit are passed over", ETH0_NET VLAN "gid 9 10.1.0.1 2 v2;", 3,
	 "10.1.0.2", RC, "10.66.0.1 v2, 10.100.0.1 v2, 10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 9,
	 MV_VERDICT_EMPTY},
	{"sparse table, far index", ETH0_NET "gid 12 fe80::ff:fe00:2 2 v2; gid 200 10.1.0.1 2 v2;", 3, "10.1.0.2",
	 RC, "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 200, MV_VERDICT_EMPTY},
	{"moved link-local", "dev 2 eth0; gid 4 fe80::ff:fe00:2 2 v2;", 0, "fe80::5", RC, "fe80::ff:fe00:2 v2",
	 MV_REPAIR, MV_REASON_MOVED, 4, MV_VERDICT_EMPTY},
	{"moved IPv6", "dev 2 eth0; addr 2 2001:db8::1/64; gid 1 fe80::ff:fe00:2 2 v2; gid 6 2001:db8::1 2 v2;",
	 3, "2001:db8::2", RC, "2001:db8::1 v2", MV_REPAIR, MV_REASON_MOVED, 6, MV_VERDICT_EMPTY},
	{"moved, reached through a gateway", ETH0_MOVED "route 2 10.0.0.0/8 10.1.0.254;", 3, "10.7.0.2", RC,
	 "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 5, MV_VERDICT_EMPTY},
	{"moved VLAN entry", ETH0 "dev 7 eth0.100; addr 7 10.100.0.1/24; gid 9 10.100.0.1 7 v2;", 5, "10.100.0.2",
	 RC, "10.100.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 9, MV_VERDICT_EMPTY},
	/* As keepalived and container runtimes have it. */
	{"an address on two netdevs", TWO_NETDEVS, 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_REPAIR, MV_REASON_OTHER_NETDEV, 5,
	 MV_VERDICT_UNROUTABLE},
	{"an address on two netdevs, RoCE v1", TWO_NETDEVS, 2, "10.1.0.2", RC, "10.1.0.1 v1", MV_REPAIR,
	 MV_REASON_OTHER_NETDEV, 4, MV_VERDICT_UNROUTABLE},
	{"an address on two netdevs, UD", TWO_NETDEVS, 3, "10.1.0.2", UD, "10.1.0.1 v2", MV_REPAIR, MV_REASON_OTHER_NETDEV,
	 5, MV_VERDICT_UNROUTABLE},
	{"an address on two netdevs, nothing remembered", TWO_NETDEVS, 3, "10.1.0.2", RC, NULL, MV_REPAIR,
	 MV_REASON_OTHER_NETDEV, 5, MV_VERDICT_UNROUTABLE},
	{"an address on two netdevs, one has the route", TWO_NETDEVS "route 2 10.7.0.0/16 10.1.0.254;", 3, "10.7.0.2", RC,
	 "10.1.0.1 v2", MV_REPAIR, MV_REASON_OTHER_NETDEV, 5, MV_VERDICT_UNROUTABLE},
	{"the longer prefix of the wrong netdev", "dev 2 eth0; addr 2 10.1.0.1/24; gid 3 10.1.0.1 2 v2;"
	 "dev 7 eth0.7; addr 7 10.1.0.1/16; gid 5 10.1.0.1 7 v2;", 3, "10.1.9.2", RC, "10.1.0.1 v2", MV_REPAIR,
	 MV_REASON_OTHER_NETDEV, 5, MV_VERDICT_UNROUTABLE},
	{"an IPv6 address on two netdevs", "dev 7 eth0.7; addr 7 2001:db8::1/128; gid 3 2001:db8::1 7 v2;"
	 "dev 2 eth0; addr 2 2001:db8::1/64; gid 5 2001:db8::1 2 v2;", 3, "2001:db8::2", RC, "2001:db8::1 v2", MV_REPAIR,
	 MV_REASON_OTHER_NETDEV, 5, MV_VERDICT_UNROUTABLE},
	{"an address on two netdevs, one is down", "dev 7 eth0.7 down; addr 7 10.1.0.1/24; gid 3 10.1.0.1 7 v2;"
	 "dev 2 eth0; addr 2 10.1.0.1/24; gid 5 10.1.0.1 2 v2;", 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_REPAIR,
	 MV_REASON_OTHER_NETDEV, 5, MV_VERDICT_DOWN},
	{"what the program saw there comes before", "dev 7 eth0.7; addr 7 10.1.0.9/32; gid 3 10.1.0.9 7 v2;"
	 "dev 2 eth0; addr 2 10.1.0.9/24; addr 2 10.1.0.1/24; gid 5 10.1.0.9 2 v2; gid 6 10.1.0.1 2 v2;", 3, "10.1.0.2", RC,
	 "10.1.0.1 v2", MV_REPAIR, MV_REASON_MOVED, 6, MV_VERDICT_UNROUTABLE},
};

/* Another address of the port: for datagrams only. */
static const struct decide_case replace_cases[] = {
	{"other subnet", ETH0 VLAN, 3, "10.100.0.2", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 5,
	 MV_VERDICT_UNROUTABLE},
	{"link-local to IPv4", ETH0, 1, "10.1.0.2", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 3,
	 MV_VERDICT_FAMILY},
	{"IPv4 to link-local", ETH0, 3, "fe80::5", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 1,
	 MV_VERDICT_FAMILY},
	{"IPv4 to IPv6", ETH0 "addr 2 2001:db8::1/64; gid 7 2001:db8::1 2 v2;", 3, "2001:db8::2", UD, NULL,
	 MV_REPLACE, MV_REASON_BETTER_ENTRY, 7, MV_VERDICT_FAMILY},
	{"empty entry", ETH0, 77, "10.1.0.2", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 3,
	 MV_VERDICT_EMPTY},
	{"entry of another namespace", ETH0 FOREIGN, 6, "10.1.0.2", UD, NULL, MV_REPLACE,
	 MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_NO_NETDEV},
	{"multicast from an empty entry", ETH0, 77, "ff0e::1", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 1,
	 MV_VERDICT_EMPTY},
	{"v2 before v1, whatever the index", ETH0, 77, "fe80::5", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY,
	 1, MV_VERDICT_EMPTY},
	{"longest prefix", "dev 2 eth0; addr 2 10.0.0.1/8; gid 1 10.0.0.1 2 v2;" VLAN, 77, "10.100.0.2", UD,
	 NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 5, MV_VERDICT_EMPTY},
	{"a prefix before a default route found by look-up", ETH0 VLAN "host 2 10.100.0.2 0;", 77,
	 "10.100.0.2", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 5, MV_VERDICT_EMPTY},
	{"the address of the subnet before others of the netdev", "dev 2 eth0; addr 2 10.2.0.1/24;"
	 "addr 2 10.1.0.1/24; gid 2 10.2.0.1 2 v2; gid 3 10.1.0.1 2 v2;", 77, "10.1.0.2", UD, NULL, MV_REPLACE,
	 MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_EMPTY},
	{"the primary address of a subnet", "dev 2 eth0; addr 2 10.1.0.9/24; addr 2 10.1.0.1/24;"
	 "gid 2 10.1.0.1 2 v2; gid 3 10.1.0.9 2 v2;", 77, "10.1.0.2", UD, NULL, MV_REPLACE,
	 MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_EMPTY},
	{"the route's preferred source", "dev 2 eth0; addr 2 10.2.0.1/24; addr 2 10.1.0.1/24;"
	 "gid 2 10.2.0.1 2 v2; gid 3 10.1.0.1 2 v2; route 2 10.0.0.0/8 10.1.0.254 10.1.0.1;", 77, "10.7.0.2", UD,
	 NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_EMPTY},
	{"the address that policy routing wants", "dev 2 eth0; addr 2 10.2.0.1/24; addr 2 10.1.0.1/24;"
	 "gid 2 10.2.0.1 2 v2; gid 3 10.1.0.1 2 v2; route 2 0.0.0.0/0 10.1.0.254 :: 10.1.0.1;", 2, "192.0.2.9",
	 UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_UNROUTABLE},
	{"the program's own link for a link-local destination", "dev 2 eth0; dev 7 eth0.7;"
	 "addr 7 10.100.0.1/24; gid 1 fe80::ff:fe00:2 2 v2; gid 4 fe80::ff:fe00:7 7 v2; gid 5 10.100.0.1 7 v2;",
	 5, "fe80::5", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 4, MV_VERDICT_FAMILY},
	{"global before link-local source", "dev 2 eth0; addr 2 2001:db8::1/64; gid 1 fe80::ff:fe00:2 2 v2;"
	 "gid 3 2001:db8::1 2 v2;", 77, "2001:db8::2", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 3,
	 MV_VERDICT_EMPTY},
	{"RoCE v1 beyond a router", ETH0 "route 2 10.0.0.0/8 10.1.0.254;", 2, "10.7.0.2", UD, NULL, MV_REPLACE,
	 MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_UNROUTABLE},
	{"link-local beyond a router", "dev 2 eth0; addr 2 2001:db8::1/64; gid 1 fe80::ff:fe00:2 2 v2;"
	 "gid 3 2001:db8::1 2 v2; route 2 ::/0 fe80::9;", 1, "2001:db8:9::2", UD, NULL, MV_REPLACE,
	 MV_REASON_BETTER_ENTRY, 3, MV_VERDICT_FAMILY},
	{"a netdev with carrier before one without", "dev 2 eth0 nocarrier; addr 2 10.1.0.1/24;"
	 "gid 2 10.1.0.1 2 v2; dev 7 m0; addr 7 10.1.0.8/24; gid 5 10.1.0.8 7 v2;", 77, "10.1.0.2", UD, NULL,
	 MV_REPLACE, MV_REASON_BETTER_ENTRY, 5, MV_VERDICT_EMPTY},
	{"seen address gone", ETH0, 77, "10.1.0.2", UD, "10.66.0.1 v2", MV_REPLACE, MV_REASON_BETTER_ENTRY, 3,
	 MV_VERDICT_EMPTY},
	{"default GID of an interface number that is another device here", ETH0 "dev 9 other;"
	 "gid 6 fe80::ff:fe00:8 9 v2;", 6, "fe80::5", UD, NULL, MV_REPLACE, MV_REASON_BETTER_ENTRY, 1,
	 MV_VERDICT_NO_NETDEV},
};

/* Nothing can be done alone: untouched. */
static const struct decide_case pass_cases[] = {
	{"other subnet, connected", ETH0 VLAN, 3, "10.100.0.2", RC, "10.1.0.1 v2", MV_PASS,
	 MV_REASON_NEEDS_PEER, 3, MV_VERDICT_UNROUTABLE},
	{"RoCE v1 beyond a router, connected", ETH0 "route 2 10.0.0.0/8 10.1.0.254;", 2, "10.7.0.2", RC, NULL,
	 MV_PASS, MV_REASON_NEEDS_PEER, 2, MV_VERDICT_UNROUTABLE},
	{"link-local to IPv4, connected", ETH0, 1, "10.1.0.2", RC, NULL, MV_PASS, MV_REASON_NEEDS_PEER, 1,
	 MV_VERDICT_FAMILY},
	{"empty entry, nothing remembered", ETH0, 77, "10.1.0.2", RC, NULL, MV_PASS, MV_REASON_NEEDS_PEER, 77,
	 MV_VERDICT_EMPTY},
	{"seen as v2, exists as v1 only", ETH0_NET "gid 4 10.1.0.1 2 v1;", 3, "10.1.0.2", RC, "10.1.0.1 v2",
	 MV_PASS, MV_REASON_NEEDS_PEER, 3, MV_VERDICT_EMPTY},
	{"moved, but cannot reach the destination either", ETH0_MOVED VLAN, 3, "10.100.0.2", RC, "10.1.0.1 v2",
	 MV_PASS, MV_REASON_NEEDS_PEER, 3, MV_VERDICT_EMPTY},
	{"unroutable, connected", ETH0, 3, "10.7.0.2", RC, "10.1.0.1 v2", MV_PASS, MV_REASON_NO_PATH, 3,
	 MV_VERDICT_UNROUTABLE},
	{"unroutable, UD", ETH0, 3, "10.7.0.2", UD, "10.1.0.1 v2", MV_PASS, MV_REASON_NO_PATH, 3,
	 MV_VERDICT_UNROUTABLE},
	/* The same address twice in one namespace's table does not make it fit. */
	{"unroutable twice", ETH0 "gid 8 10.1.0.1 2 v2;", 3, "10.7.0.2", RC, "10.1.0.1 v2", MV_PASS,
	 MV_REASON_NO_PATH, 3, MV_VERDICT_UNROUTABLE},
	{"the same address on another netdev as another RoCE version", "dev 2 eth0; addr 2 10.1.0.1/32; gid 3 10.1.0.1 2 v2;"
	 "dev 7 eth0.7; addr 7 10.1.0.1/24; gid 5 10.1.0.1 7 v1;", 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_PASS,
	 MV_REASON_NEEDS_PEER, 3, MV_VERDICT_UNROUTABLE},
	{"the same address on another netdev without carrier", "dev 2 eth0; addr 2 10.1.0.1/32; gid 3 10.1.0.1 2 v2;"
	 "dev 7 m0 nocarrier; addr 7 10.1.0.1/24; gid 5 10.1.0.1 7 v2;", 3, "10.1.0.2", RC, "10.1.0.1 v2", MV_PASS,
	 MV_REASON_NO_PATH, 3, MV_VERDICT_UNROUTABLE},
	{"link-local only port, IPv4 destination", "dev 2 eth0;" ETH0_LINK_LOCAL, 1, "10.1.0.2", UD, NULL,
	 MV_PASS, MV_REASON_NO_PATH, 1, MV_VERDICT_FAMILY},
	{"link-local only port, global destination", "dev 2 eth0;" ETH0_LINK_LOCAL, 1, "2001:db8::2", UD, NULL,
	 MV_PASS, MV_REASON_NO_PATH, 1, MV_VERDICT_UNROUTABLE},
	{"an IPv6 default route is none for IPv4", ETH0 "route 2 ::/0 fe80::9;", 3, "192.0.2.9", UD, NULL,
	 MV_PASS, MV_REASON_NO_PATH, 3, MV_VERDICT_UNROUTABLE},
	{"another netdev's route", ETH0 "dev 3 eth1; route 3 10.7.0.0/16 10.9.0.254;", 3, "10.7.0.2", UD, NULL,
	 MV_PASS, MV_REASON_NO_PATH, 3, MV_VERDICT_UNROUTABLE},
	{"another device's entry would do", ETH0 "dev 3 eth1; addr 3 10.7.0.1/24; gid2 3 10.7.0.1 3 v2;", 3,
	 "10.7.0.2", UD, NULL, MV_PASS, MV_REASON_NO_PATH, 3, MV_VERDICT_UNROUTABLE},
	{"moved to a netdev without carrier", "dev 2 eth0 nocarrier; addr 2 10.1.0.1/24; gid 5 10.1.0.1 2 v2;", 3,
	 "10.1.0.2", RC, "10.1.0.1 v2", MV_PASS, MV_REASON_NO_PATH, 3, MV_VERDICT_EMPTY},
	{"everything in another namespace", "gid 2 10.1.0.1 2 v1; gid 3 10.1.0.1 2 v2;", 3, "10.1.0.2", UD,
	 "10.1.0.1 v2", MV_PASS, MV_REASON_NO_PATH, 3, MV_VERDICT_NO_NETDEV},
	{"an entry without interface index", "dev 2 eth0; addr 2 10.1.0.1/24; gid 3 10.1.0.1 0 v2;", 3,
	 "10.1.0.2", RC, NULL, MV_PASS, MV_REASON_NO_PATH, 3, MV_VERDICT_NO_NETDEV},
	{"an empty table", "dev 2 eth0; addr 2 10.1.0.1/24;", 0, "10.1.0.2", UD, "10.1.0.1 v2", MV_PASS,
	 MV_REASON_NO_PATH, 0, MV_VERDICT_EMPTY},
};

/* clang-format on */

static struct mv_decision decide_case(const struct decide_case *c, struct mv_topo *topo)
{
	struct mv_seen seen[8];
	struct mv_request request = {.device = "mlx5_0",
				     .port_num = 1,
				     .sgid_index = c->index,
				     .dgid = unit_gid(c->dgid),
				     .transport = c->transport,
				     .seen = seen};

	request.n_seen = world_seen(c->seen, seen, 8);
	if (!request.n_seen)
		request.seen = NULL;
	return mv_decide(topo, &request);
}

static void check_case(const struct decide_case *c)
{
	struct mv_decision got;
	const struct mv_gid_entry *entry;
	struct mv_topo topo;

	world_init(&topo, c->world);
	got = decide_case(c, &topo);
	if (got.action != c->action || got.reason != c->reason || got.sgid_index != c->ret_index ||
	    got.own_verdict != c->own)
		fail_msg("%s: %s, %s, index %u, own entry %s; wanted %s, %s, %u, %s", c->name,
			 mv_action_name(got.action), mv_reason_name(got.reason), got.sgid_index,
			 mv_verdict_name(got.own_verdict), mv_action_name(c->action),
			 mv_reason_name(c->reason), c->ret_index, mv_verdict_name(c->own));

	/* The address is always that of the index named. */
	entry = mv_port_gid(&topo.devices[0].ports[0], got.sgid_index);
	if (entry ? !mv_gid_equal(&entry->gid, &got.gid) : !mv_gid_is_zero(&got.gid))
		fail_msg("%s: wrong address", c->name);
	if ((got.reason == MV_REASON_NEEDS_PEER) != (got.alternative != NULL))
		fail_msg("%s: alternative", c->name);
	mv_topo_fini(&topo);
}

#define CHECK_ALL(cases)                                                                           \
	do {                                                                                       \
		for (size_t i = 0; i < sizeof(cases) / sizeof((cases)[0]); i++)                    \
			check_case(&(cases)[i]);                                                   \
	} while (0)

static void test_keep(void **state)
{
	(void)state;
	CHECK_ALL(keep_cases);
}

static void test_repair(void **state)
{
	(void)state;
	CHECK_ALL(repair_cases);
}

static void test_replace(void **state)
{
	(void)state;
	CHECK_ALL(replace_cases);
}

static void test_pass(void **state)
{
	(void)state;
	CHECK_ALL(pass_cases);
}

/* What a connected QP gets is named, so that people and later the peer's agreement can act on it. */
static void test_alternative(void **state)
{
	static const struct decide_case c = {.world = ETH0 VLAN, .index = 3, .dgid = "10.100.0.2"};
	struct mv_decision got;
	struct mv_topo topo;

	(void)state;
	world_init(&topo, c.world);
	got = decide_case(&c, &topo);
	assert_non_null(got.alternative);
	assert_int_equal(got.alternative->index, 5);
	assert_gid(got.gid, "10.1.0.1");
	mv_topo_fini(&topo);
}

static uint32_t towards(const char *text, const char *destination)
{
	const union ibv_gid dgid = unit_gid(destination), gid = unit_gid("10.1.0.1");
	struct mv_gid_entry entries[4];
	const struct mv_port *port;
	struct mv_topo topo;
	uint32_t index;
	size_t n = 0;

	world_init(&topo, text);
	port = &topo.devices[0].ports[0];
	for (size_t i = 0; i < port->n_gids; i++)
		if (port->gids[i].type == MV_GID_TYPE_ROCE_V2 && mv_gid_equal(&port->gids[i].gid, &gid))
			entries[n++] = port->gids[i];
	assert_int_equal(n, 2);
	index = mv_decide_towards(&topo, entries, n, &dgid)->index;
	mv_topo_fini(&topo);
	return index;
}

/* An address that a rail has on several netdevs. */
static void test_towards(void **state)
{
	static const char turned[] = "dev 7 eth0.7; addr 7 10.1.0.1/24; gid 3 10.1.0.1 7 v2;"
				     "dev 2 eth0; addr 2 10.1.0.1/32; gid 5 10.1.0.1 2 v2;";

	(void)state;
	assert_int_equal(towards(TWO_NETDEVS, "10.1.0.2"), 5);
	assert_int_equal(towards(turned, "10.1.0.2"), 3);
	/* Behind a gateway, of which nothing is asked. */
	assert_int_equal(towards(TWO_NETDEVS, "10.7.0.2"), 5);
	assert_int_equal(towards(turned, "10.7.0.2"), 3);
	/* One of them is another namespace's, or both are. */
	assert_int_equal(towards("dev 2 eth0; addr 2 10.1.0.1/24; gid 3 10.1.0.1 9 v2; gid 5 10.1.0.1 2 v2;", "10.7.0.2"), 5);
	assert_int_equal(towards("gid 3 10.1.0.1 9 v2; gid 5 10.1.0.1 8 v2;", "10.1.0.2"), 3);
	assert_int_equal(towards("dev 7 m0 down; addr 7 10.1.0.1/24; gid 3 10.1.0.1 7 v2;"
				 "dev 2 eth0; addr 2 10.1.0.1/24; gid 5 10.1.0.1 2 v2;",
				 "10.1.0.2"),
			 5);
}

static void test_unknown_place(void **state)
{
	struct mv_request request = {.device = "mlx5_7",
				     .port_num = 1,
				     .sgid_index = 9,
				     .dgid = unit_gid("10.1.0.2"),
				     .transport = MV_DATAGRAM};
	struct mv_decision got;
	struct mv_topo topo;

	(void)state;
	world_init(&topo, ETH0);
	got = mv_decide(&topo, &request);
	assert_int_equal(got.action, MV_KEEP);
	assert_int_equal(got.reason, MV_REASON_NO_DESTINATION);
	assert_int_equal(got.sgid_index, 9);
	request.device = "mlx5_0";
	request.port_num = 2;
	got = mv_decide(&topo, &request);
	assert_int_equal(got.action, MV_KEEP);
	assert_int_equal(got.reason, MV_REASON_NO_DESTINATION);
	mv_topo_fini(&topo);
}

static void test_infiniband(void **state)
{
	struct mv_request request = {.device = "mlx5_0",
				     .port_num = 1,
				     .sgid_index = 1,
				     .dgid = unit_gid("10.1.0.2"),
				     .transport = MV_DATAGRAM};
	struct mv_decision got;
	struct mv_topo topo;

	(void)state;
	world_init(&topo, ETH0);
	topo.devices[0].ports[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
	got = mv_decide(&topo, &request);
	assert_int_equal(got.action, MV_KEEP);
	assert_int_equal(got.reason, MV_REASON_INFINIBAND);
	topo.devices[0].ports[0].link_layer = IBV_LINK_LAYER_UNSPECIFIED;
	got = mv_decide(&topo, &request);
	assert_int_equal(got.reason, MV_REASON_INFINIBAND);
	mv_topo_fini(&topo);
}

static void test_wants_route(void **state)
{
	static const struct {
		uint32_t ifindex;
		const char *dgid;
		bool wanted;
	} cases[] = {
		{2, "10.1.0.2", false},   {2, "10.7.0.2", true},    {7, "10.1.0.2", true},
		{7, "10.100.0.2", false}, {2, "2001:db8::2", true}, {2, "fe80::2", false},
		{2, "224.0.0.1", false},  {2, "ff0e::1", false},    {2, "::", false},
		{2, "192.0.2.9", false},  {7, "192.0.2.9", true},   {2, "192.0.2.10", true},
	};
	struct mv_topo topo;

	(void)state;
	/* A default route says nothing final: another look-up might find a better one, or a blackhole. */
	world_init(&topo, ETH0 VLAN "host 2 192.0.2.9 0; route 2 0.0.0.0/0 10.1.0.254;");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		union ibv_gid dgid = unit_gid(cases[i].dgid);
		const struct mv_netdev *netdev = mv_topo_netdev(&topo, cases[i].ifindex);

		if (mv_decide_wants_route(&topo, netdev, &dgid) != cases[i].wanted)
			fail_msg("%s out of %s", cases[i].dgid, netdev->name);
	}
	mv_topo_fini(&topo);
}

static void test_decide(void **state)
{
	union ibv_gid dgid = unit_gid("10.7.0.2");
	struct mv_candidate got;
	struct mv_topo topo;

	(void)state;
	world_init(&topo,
		   ETH0 "route 2 10.0.0.0/8 10.1.0.254; route 2 10.7.0.0/16 10.1.0.253 10.1.0.1;");
	mv_check_entry(&topo, NULL, &dgid, &got);
	assert_int_equal(got.verdict, MV_VERDICT_EMPTY);
	mv_check_entry(&topo, mv_port_gid(&topo.devices[0].ports[0], 3), &dgid, &got);
	assert_int_equal(got.verdict, MV_VERDICT_OK);
	assert_int_equal(got.prefix_len, 96 + 16);
	assert_true(got.prefsrc);
	assert_string_equal(got.netdev->name, "eth0");
	/* The smaller metric of two equal routes counts. */
	topo.routes[0] = topo.routes[1];
	topo.routes[0].metric = 7;
	topo.routes[0].prefsrc = unit_gid("::");
	mv_check_entry(&topo, mv_port_gid(&topo.devices[0].ports[0], 3), &dgid, &got);
	assert_true(got.prefsrc);
	topo.routes[0].metric = 0;
	topo.routes[1].metric = 7;
	mv_check_entry(&topo, mv_port_gid(&topo.devices[0].ports[0], 3), &dgid, &got);
	assert_false(got.prefsrc);
	mv_topo_fini(&topo);
}

/* Of several prefixes the longest counts, in whatever order the kernel lists them. */
static void test_decide_nested_prefixes(void **state)
{
	static const char *const worlds[] = {
		"dev 2 eth0; addr 2 10.0.0.1/8; addr 2 10.1.0.1/24; gid 3 10.1.0.1 2 v2; gid 4 "
		"10.0.0.1 2 v2;",
		"dev 2 eth0; addr 2 10.1.0.1/24; addr 2 10.0.0.1/8; gid 3 10.1.0.1 2 v2; gid 4 "
		"10.0.0.1 2 v2;",
	};
	union ibv_gid dgid = unit_gid("10.1.0.2");

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct mv_candidate got;
		struct mv_topo topo;

		world_init(&topo, worlds[i]);
		mv_check_entry(&topo, mv_port_gid(&topo.devices[0].ports[0], 3), &dgid, &got);
		assert_int_equal(got.verdict, MV_VERDICT_OK);
		assert_int_equal(got.prefix_len, 96 + 24);
		assert_true(got.prefsrc);
		mv_check_entry(&topo, mv_port_gid(&topo.devices[0].ports[0], 4), &dgid, &got);
		assert_int_equal(got.verdict, MV_VERDICT_OK);
		assert_false(got.prefsrc);
		mv_topo_fini(&topo);
	}
}

/* Every name is given, and no two are the same. */
static void test_names(void **state)
{
	const char *names[64];
	size_t n = 0;

	(void)state;
	for (int i = MV_VERDICT_OK; i <= MV_VERDICT_DOWN + 1; i++)
		names[n++] = mv_verdict_name((enum mv_verdict)i);
	for (int i = MV_KEEP; i <= MV_PASS; i++)
		names[n++] = mv_action_name((enum mv_action)i);
	for (int i = MV_REASON_FITS; i <= MV_REASON_NO_PATH; i++) {
		names[n++] = mv_reason_text((enum mv_reason)i);

		assert_non_null(strchr(names[n - 1], ' '));
	}
	for (int i = MV_REASON_FITS; i <= MV_REASON_NO_PATH; i++)
		assert_null(strchr(mv_reason_name((enum mv_reason)i), ' '));
	assert_string_equal(mv_action_name((enum mv_action)99), "unknown");
	assert_string_equal(mv_reason_name((enum mv_reason)99), "unknown");
	assert_string_equal(mv_reason_text((enum mv_reason)99), "unknown");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keep),        cmocka_unit_test(test_repair),
		cmocka_unit_test(test_replace),     cmocka_unit_test(test_pass),
		cmocka_unit_test(test_alternative), cmocka_unit_test(test_unknown_place),
		cmocka_unit_test(test_infiniband),  cmocka_unit_test(test_wants_route),
		cmocka_unit_test(test_decide),      cmocka_unit_test(test_decide_nested_prefixes),
		cmocka_unit_test(test_names),       cmocka_unit_test(test_towards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
