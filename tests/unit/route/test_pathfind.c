/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which other paths are found, and in which order (pathfind.h). */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "pathworlds.h"

struct find_case {
	const char *name, *world, *request;
	uint32_t host, rail;
	const char *expected; /* "LOCAL_RAIL>REMOTE_RAIL LOCAL_GID>REMOTE_GID TYPE", one after
				 another */
};

/* clang-format off */
#define MANY_A "host a; rail mlx5_0 numa 0; gid 10.1.0.1/24 v2; rail mlx5_1 numa 1; gid 10.2.0.1/24 v2;"
#define MANY_B "host b; rail mlx5_0 numa 0; gid 10.1.0.2/24 v2; rail mlx5_1 numa 1; gid 10.2.0.2/24 v2;"

/* Two planes, each routed: rails 0 and 2, rails 1 and 3. */
#define ROUTED_A "host a; rail d0; gid fe80::a v2; gid 10.1.0.1/28 v1; gid 10.1.0.1/28 v2; rail d1; gid 10.2.0.1/28 v2;"
#define ROUTED_B "host b; rail d0; gid fe80::b v2; gid 10.3.0.1/28 v1; gid 10.3.0.1/28 v2 routed 0; rail d1; gid 10.4.0.1/28 v2 routed 1;"

static const struct find_case find_cases[] = {
	{"routes, the peer's wrong rail", ROUTED_A ROUTED_B, "d0 10.1.0.1 v2 10.4.0.1", 1, 3,
	 "0>2 10.1.0.1>10.3.0.1 v2; 1>3 10.2.0.1>10.4.0.1 v2; "},
	{"routes, the right rails", ROUTED_A ROUTED_B, "d1 10.2.0.1 v2 10.4.0.1", 1, 3,
	 "1>3 10.2.0.1>10.4.0.1 v2; 0>2 10.1.0.1>10.3.0.1 v2; "},
	{"subnets before routes", ROUTED_A "host b; rail d0; gid 10.3.0.1/28 v2 routed 0 routed 1; rail d1; gid 10.2.0.2/28 v2;",
	 "d0 10.1.0.1 v2 10.3.0.1", 1, 2, "1>3 10.2.0.1>10.2.0.2 v2; 0>2 10.1.0.1>10.3.0.1 v2; 1>2 10.2.0.1>10.3.0.1 v2; "},
	{"nothing else is routed: RoCE v1, VLANs, other families, ports that are down",
	 "host a; rail d0; gid 10.1.0.1/28 v1; gid 10.1.0.2/28 v2 vlan 7; gid fd01::1/64 v2; rail d1 down; gid 10.2.0.1/28 v2;"
	 "host b; rail d0; gid 10.3.0.1/28 v1 routed 0; gid 10.3.0.1/28 v2 routed 0 routed 1; gid fd02::1/64 v2 vlan 7 routed 0;",
	 "d0 10.1.0.1 v1 10.3.0.1", 1, 2, ""},
	{"triangle, peer's wrong rail", TRIANGLE, "mlx5_0 10.0.1.1 v2 10.0.2.1", 1, 3, "0>2 10.0.1.1>10.0.1.2 v2; "},
	{"triangle, own wrong rail", TRIANGLE, "mlx5_0 10.0.1.1 v2 10.0.3.2", 2, 5, "1>5 10.0.3.1>10.0.3.2 v2; "},
	{"triangle, both wrong", TRIANGLE, "mlx5_0 10.0.1.1 v2 10.0.2.2", 2, 4, "1>5 10.0.3.1>10.0.3.2 v2; "},
	{"one subnet on several links: own wrong rail", FLAT, "mlx5_0 10.0.0.1 v2 10.0.0.6 links", 2, 5, "1>5 10.0.0.2>10.0.0.6 v2; "},
	{"one subnet on several links: both wrong", FLAT, "mlx5_1 10.0.0.2 v2 10.0.0.4 links", 1, 3, "0>2 10.0.0.1>10.0.0.3 v2; "},
	{"a host that cannot be reached", "host a; rail mlx5_0; gid 10.0.1.1/30 v2; host b; rail mlx5_0; gid 10.0.2.1/30 v2;",
	 "mlx5_0 10.0.1.1 v2 10.0.2.1", 1, 1, ""},
	{"own device not in the directory", TRIANGLE, "mlx5_7 10.0.1.1 v2 10.0.2.1", 1, 3, "0>2 10.0.1.1>10.0.1.2 v2; "},

	{"heard links before equal subnets", MANY_A MANY_B "link 1 3;", "mlx5_0 10.1.0.1 v2 10.1.0.2", 1, 2,
	 "1>3 10.2.0.1>10.2.0.2 v2; 0>2 10.1.0.1>10.1.0.2 v2; "},
	{"who stays goes first", MANY_A MANY_B, "mlx5_1 10.2.0.1 v2 10.2.0.2", 1, 3,
	 "1>3 10.2.0.1>10.2.0.2 v2; 0>2 10.1.0.1>10.1.0.2 v2; "},
	{"one end stays", "host a; rail mlx5_0; gid 10.1.0.1/16 v2; rail mlx5_1; gid 10.1.0.2/16 v2;"
	 "host b; rail mlx5_0; gid 10.1.0.3/16 v2; rail mlx5_1 down; gid 10.1.0.4/16 v2;", "mlx5_1 10.1.0.2 v2 10.1.0.4", 1, 3,
	 "1>2 10.1.0.2>10.1.0.3 v2; 0>2 10.1.0.1>10.1.0.3 v2; "},
	{"an own rail by another address before a faster one", "host a; rail d0; gid 10.9.0.1/24 v2; gid 10.1.0.1/24 v2;"
	 "rail d1 rate 200000; gid 10.2.0.1/24 v2; host b; rail d0; gid 10.8.0.2/24 v2; rail d1; gid 10.1.0.2/24 v2;"
	 "rail d2 rate 400000; gid 10.2.0.2/24 v2;", "d0 10.9.0.1 v2 10.8.0.2", 1, 2,
	 "0>3 10.1.0.1>10.1.0.2 v2; 1>4 10.2.0.1>10.2.0.2 v2; "},
	{"an unknown NUMA node is near nothing", "host a; rail d0 numa -1; gid 10.9.0.1/24 v2; rail d1 numa 0; gid 10.1.0.1/24 v2;"
	 "rail d2 numa -1; gid 10.2.0.1/24 v2; host b; rail d0; gid 10.8.0.2/24 v2; rail d1; gid 10.1.0.2/24 v2;"
	 "rail d2; gid 10.2.0.2/24 v2;", "d0 10.9.0.1 v2 10.8.0.2", 1, 3,
	 "1>4 10.1.0.1>10.1.0.2 v2; 2>5 10.2.0.1>10.2.0.2 v2; "},
	{"lower GIDs, in whatever order they are", "host a; rail d0; gid 10.9.0.1/24 v2; rail d1; gid 10.1.0.9/24 v2;"
	 "gid 10.1.0.3/24 v2; host b; rail d0; gid 10.8.0.2/24 v2; rail d1; gid 10.1.0.8/24 v2; gid 10.1.0.4/24 v2;",
	 "d0 10.9.0.1 v2 10.8.0.2", 1, 2, "1>3 10.1.0.3>10.1.0.4 v2; "},
	{"faster first", "host a; rail d0; gid 10.9.0.1/24 v2; rail d1; gid 10.1.0.1/24 v2; rail d2 rate 200000; gid 10.2.0.1/24 v2;"
	 "host b; rail d0; gid 10.8.0.2/24 v2; rail d1; gid 10.1.0.2/24 v2; rail d2 rate 400000; gid 10.2.0.2/24 v2;",
	 "d0 10.9.0.1 v2 10.8.0.2", 1, 3, "2>5 10.2.0.1>10.2.0.2 v2; 1>4 10.1.0.1>10.1.0.2 v2; "},
	{"a rate that is not known comes last", "host a; rail d0; gid 10.9.0.1/24 v2; rail d1 rate 0; gid 10.1.0.1/24 v2;"
	 "rail d2 rate 1000; gid 10.2.0.1/24 v2; host b; rail d0; gid 10.8.0.2/24 v2; rail d1; gid 10.1.0.2/24 v2;"
	 "rail d2; gid 10.2.0.2/24 v2;", "d0 10.9.0.1 v2 10.8.0.2", 1, 3,
	 "2>5 10.2.0.1>10.2.0.2 v2; 1>4 10.1.0.1>10.1.0.2 v2; "},
	{"NUMA node of the program's device", "host a; rail d0 numa 1; gid 10.9.0.1/24 v2; rail d1 numa 0; gid 10.1.0.1/24 v2;"
	 "rail d2 numa 1; gid 10.2.0.1/24 v2; host b; rail d0; gid 10.8.0.2/24 v2; rail d1; gid 10.1.0.2/24 v2;"
	 "rail d2; gid 10.2.0.2/24 v2;", "d0 10.9.0.1 v2 10.8.0.2", 1, 3,
	 "2>5 10.2.0.1>10.2.0.2 v2; 1>4 10.1.0.1>10.1.0.2 v2; "},
	{"lower rail", MANY_A "rail d2; gid 10.9.0.1/24 v2;" MANY_B "rail d2; gid 10.8.0.1/24 v2;", "d2 10.9.0.1 v2 10.8.0.1", 1, 5,
	 "0>3 10.1.0.1>10.1.0.2 v2; 1>4 10.2.0.1>10.2.0.2 v2; "},
	{"excluded or down", "host a; rail d0 excluded; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2; rail d2 down;"
	 "gid 10.3.0.1/24 v2; rail d3; gid 10.4.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2; rail d1 excluded;"
	 "gid 10.2.0.2/24 v2; rail d2; gid 10.3.0.2/24 v2; rail d3; gid 10.4.0.2/24 v2;", "d0 10.1.0.1 v2 10.2.0.2", 1, 5,
	 "3>7 10.4.0.1>10.4.0.2 v2; "},

	{"one pair of GIDs for other rails: IPv4 before IPv6, v2 before v1", "host a; rail d0; gid 10.9.0.1/24 v2; rail d1;"
	 "gid fe80::a v2; gid 2001:db8::1/64 v2; gid 10.1.0.1/24 v1; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.8.0.1/24 v2;"
	 "rail d1; gid fe80::b v2; gid 2001:db8::2/64 v2; gid 10.1.0.2/24 v1; gid 10.1.0.2/24 v2; link 1 3;",
	 "d0 10.9.0.1 v2 10.8.0.1", 1, 2, "1>3 10.1.0.1>10.1.0.2 v2; "},
	{"link-local on a link whose subnets differ", "host a; rail d0; gid 10.9.0.1/24 v2; rail d1; gid fe80::a v2;"
	 "gid 10.1.0.1/24 v2; host b; rail d0; gid 10.8.0.1/24 v2; rail d1; gid fe80::b v2; gid 10.2.0.2/24 v2; link 1 3;",
	 "d0 10.9.0.1 v2 10.8.0.1", 1, 2, "1>3 fe80::a>fe80::b v2; "},
	{"link-local without a link", "host a; rail d0; gid fe80::a v2; host b; rail d0; gid fe80::b v2;",
	 "d0 fe80::a v2 fe80::b", 1, 1, ""},
	{"link-local of two VLANs", "host a; rail d0; gid fe80::a v2; host b; rail d0; gid fe80::b v2 vlan 5; link 0 1;",
	 "d0 fe80::a v2 fe80::b", 1, 1, ""},
	{"unknown prefixes on a heard link", "host a; rail d0; gid 10.1.0.1 v2; host b; rail d0; gid 10.2.0.2 v2; link 0 1;",
	 "d0 10.1.0.1 v2 10.2.0.2", 1, 1, "0>1 10.1.0.1>10.2.0.2 v2; "},
	{"unknown prefixes elsewhere", "host a; rail d0; gid 10.1.0.1 v2; host b; rail d0; gid 10.2.0.2 v2;",
	 "d0 10.1.0.1 v2 10.2.0.2", 1, 1, ""},
	{"unknown versions", "host a; rail d0; gid 10.1.0.1/24 v?; host b; rail d0; gid 10.1.0.2/24 v?;",
	 "d0 10.1.0.1 v2 10.1.0.2", 1, 1, ""},

	{"the programs' own rails: all pairs, theirs first", PAIR, "mlx5_0 10.1.0.1 v1 10.1.0.2", 1, 1,
	 "0>1 10.1.0.1>10.1.0.2 v2; 0>1 10.1.0.1>10.1.0.2 v1; 0>1 fe80::a>fe80::b v2; 0>1 fe80::a>fe80::b v1; "},
	{"link-local index towards an IPv4 peer", PAIR, "mlx5_0 fe80::a v2 10.1.0.2", 1, 1,
	 "0>1 10.1.0.1>10.1.0.2 v2; 0>1 10.1.0.1>10.1.0.2 v1; 0>1 fe80::a>fe80::b v2; 0>1 fe80::a>fe80::b v1; "},
	{"InfiniBand", "host a; rail d0 ib; gid fe80::1 ib; rail d1 ib; gid fec0::1 ib; host b; rail d0 ib down; gid fe80::2 ib;"
	 "rail d1 ib; gid fec0::2 ib; rail d2; gid fec0::3 v2;", "d0 fe80::1 ib fe80::2", 1, 2, "1>3 fec0::1>fec0::2 ib; "},
};
/* clang-format on */

static const char *type_name(uint8_t type)
{
	switch (type) {
	case MV_GID_TYPE_ROCE_V1:
		return "v1";
	case MV_GID_TYPE_ROCE_V2:
		return "v2";
	default:
		return "ib";
	}
}

static void format_paths(const struct mv_path *paths, size_t n, char text[2048])
{
	char local[MV_GID_STRLEN], remote[MV_GID_STRLEN];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(
			text + len, 2048 - len, "%u>%u %s>%s %s; ", paths[i].local_rail,
			paths[i].remote_rail, mv_gid_format(&paths[i].local_gid, local),
			mv_gid_format(&paths[i].remote_gid, remote), type_name(paths[i].type));
}

static void check_path(const struct dirworld *world, const struct find_case *c,
		       const struct mv_path *path, const char *device)
{
	const struct mv_dir_rail *rail = &world->rails[path->local_rail];
	bool own = !strcmp(rail->device, device);

	if (path->stays != (own | (path->remote_rail == c->rail) << 1))
		fail_msg("%s: stays %u", c->name, path->stays);
	assert_int_equal(path->linked,
			 mv_directory_linked(&world->dir, path->local_rail, path->remote_rail));
	assert_int_equal(path->mtu_bytes, 4096);
}

static void check_find(const struct find_case *c)
{
	struct mv_path paths[MV_PATH_FIND_MAX];
	struct mv_path_request request;
	struct dirworld world;
	char device[64], text[2048];
	size_t n;

	dirworld_init(&world, c->world);
	request = request_of(c->request, device);
	n = mv_path_find(&world.dir, &request, c->host, c->rail, paths, MV_PATH_FIND_MAX);
	format_paths(paths, n, text);
	if (strcmp(text, c->expected))
		fail_msg("%s:\n  %s\n  %s", c->name, text, c->expected);
	for (size_t i = 0; i < n; i++)
		check_path(&world, c, &paths[i], device);
	dirworld_fini(&world);
}

static void test_find(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(find_cases) / sizeof(find_cases[0]); i++)
		check_find(&find_cases[i]);
}

/* Is there an own address, and one of the peer's, that nothing joins? */
static void test_may_join(void **state)
{
	static const struct {
		const char *local, *remote;
		bool may;
	} cases[] = {
		{"10.1.0.1", "10.3.0.1", true}, {"10.1.0.1", "10.4.0.1", false}, {"10.2.0.1", "10.4.0.1", true},
		{"10.2.0.1", "10.3.0.1", false}, {"fe80::a", "10.3.0.1", true},	 {"10.2.0.1", "10.9.0.1", true},
		{"10.9.0.1", "10.3.0.1", true}, {"10.1.0.1", "10.5.0.1", true},
	};
	struct dirworld world;

	(void)state;
	dirworld_init(&world, ROUTED_A ROUTED_B "rail d2; gid 10.5.0.1/28 v2; link 0 4;");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		union ibv_gid local = unit_gid(cases[i].local), remote = unit_gid(cases[i].remote);

		if (mv_path_may_join(&world.dir, &local, &remote) != cases[i].may)
			fail_msg("%s to %s", cases[i].local, cases[i].remote);
	}
	dirworld_fini(&world);
}

static void test_find_figures(void **state)
{
	struct mv_path_request request;
	struct dirworld world;
	struct mv_path path;
	char device[64];

	(void)state;
	dirworld_init(&world, "host a; rail d0 mtu 1024 rate 25000; gid 10.1.0.1/24 v2;"
			      "host b; rail d0 mtu 4096 rate 100000; gid 10.1.0.2/24 v2;");
	request = request_of("d0 10.1.0.1 v2 10.1.0.2", device);
	assert_int_equal(mv_path_find(&world.dir, &request, 1, 1, &path, 1), 1);
	assert_int_equal(path.mtu_bytes, 1024);
	assert_int_equal(path.rate_mbps, 25000);
	assert_int_equal(path.stays, 3);
	assert_int_equal(mv_path_find(&world.dir, &request, 1, 1, &path, 0), 0);
	dirworld_fini(&world);
}

/* Whoever asks for what may be there later finds rails that are down, and excluded ones never. */
static void test_find_down(void **state)
{
	struct mv_path_request request;
	struct mv_path paths[4];
	struct dirworld world;
	char device[64], text[2048];

	(void)state;
	dirworld_init(&world, "host a; rail d0; gid 10.1.0.1/24 v2; rail d1 down; gid 10.2.0.1/24 v2; rail d2 down excluded; gid "
			      "10.3.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2; rail d1; gid 10.2.0.2/24 v2; rail d2 down; "
			      "gid 10.3.0.2/24 v2;");
	request = request_of("d0 10.1.0.1 v2 10.1.0.2", device);
	format_paths(paths, mv_path_find(&world.dir, &request, 1, 3, paths, 4), text);
	assert_string_equal(text, "0>3 10.1.0.1>10.1.0.2 v2; ");
	assert_int_equal(paths[0].stays, 3);
	request.down_too = 1;
	format_paths(paths, mv_path_find(&world.dir, &request, 1, 3, paths, 4), text);
	assert_string_equal(text, "0>3 10.1.0.1>10.1.0.2 v2; 1>4 10.2.0.1>10.2.0.2 v2; ");
	assert_int_equal(paths[1].stays, 0);
	dirworld_fini(&world);
}

/* An address that went with the carrier of its port: the port is known by it, no path is made of it, but may be later. */
static void test_address_gone(void **state)
{
	struct mv_path_request request;
	uint32_t host = 0, rail = 0;
	struct mv_path paths[4];
	struct dirworld world;
	char device[64], text[2048];

	(void)state;
	dirworld_init(&world, "host a; rail d0; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2; "
			      "host b; rail d0 down; gid 10.1.0.2/24 kept; rail d1; gid 10.2.0.2/24 v2;");
	request = request_of("d0 10.1.0.1 v2 10.1.0.2", device);
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_REMOTE_DOWN);
	assert_int_equal(host, 1);
	assert_int_equal(rail, 2);
	format_paths(paths, mv_path_find(&world.dir, &request, host, rail, paths, 4), text);
	assert_string_equal(text, "1>3 10.2.0.1>10.2.0.2 v2; ");
	request.down_too = 1;
	assert_int_equal(mv_path_find(&world.dir, &request, host, rail, paths, 4), 2);
	dirworld_fini(&world);
	/* The port is back before the address. */
	dirworld_init(&world, "host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 kept;");
	request.down_too = 0;
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_REMOTE_DOWN);
	assert_int_equal(mv_path_find(&world.dir, &request, 1, 1, paths, 4), 0);
	dirworld_fini(&world);
	dirworld_init(&world, "host a; rail d0; gid 10.1.0.1/24 kept; host b; rail d0; gid 10.1.0.2/24 v2;");
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_LOCAL_DOWN);
	dirworld_fini(&world);
	/* To itself. */
	request = request_of("d0 10.1.0.1 v2 10.1.0.1", device);
	request.own_host = 1;
	dirworld_init(&world, "host a; rail d0; gid 10.1.0.1/24 kept;");
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_LOCAL_DOWN);
	dirworld_fini(&world);
}

/* A peer on this host: each rail's way to itself, as long as its port is up, and that between the two that are used. */
static void test_own_host(void **state)
{
	uint32_t host = 9, rail = 9;
	struct mv_path_request request;
	struct mv_path paths[8];
	struct dirworld world;
	char device[64], text[2048];

	(void)state;
	dirworld_init(&world, "host a; rail d0; gid fe80::a v2; gid 10.1.0.1/24 v1; gid 10.1.0.1/24 v2; rail d1; gid fe80::b v2; gid "
			      "10.2.0.1 v2; rail d2 down; gid 10.3.0.1/24 v2; rail d3 excluded; gid 10.4.0.1/24 v2; "
			      "host b; rail d0; gid 10.1.0.2/24 v2; rail d1; gid 10.2.0.2/24 v2; link 0 4; link 1 5;");
	request = request_of("d0 10.1.0.1 v2 10.1.0.1", device);
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_SELF);
	request.own_host = 1;
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_WORKS);
	assert_int_equal(host, 0);
	assert_int_equal(rail, 0);
	format_paths(paths, mv_path_find(&world.dir, &request, host, rail, paths, 8), text);
	assert_string_equal(text, "0>0 10.1.0.1>10.1.0.1 v2; 0>0 10.1.0.1>10.1.0.1 v1; 0>0 fe80::a>fe80::a v2; 1>1 10.2.0.1>10.2.0.1 v2; ");
	assert_int_equal(paths[0].stays, 3);
	assert_int_equal(paths[3].stays, 0);
	request.down_too = 1;
	assert_int_equal(mv_path_find(&world.dir, &request, host, rail, paths, 8), 5);
	request = request_of("d2 10.3.0.1 v2 10.3.0.1", device);
	request.own_host = 1;
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_LOCAL_DOWN);
	assert_int_equal(rail, 2);
	format_paths(paths, mv_path_find(&world.dir, &request, host, rail, paths, 8), text);
	assert_string_equal(text, "0>0 10.1.0.1>10.1.0.1 v2; 1>1 10.2.0.1>10.2.0.1 v2; ");
	request = request_of("d2 10.3.0.9 v2 10.3.0.9", device); /* an address that it has lost with its port */
	request.own_host = 1;
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_LOCAL_DOWN);
	request.dgid = unit_gid("10.1.0.2");
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_UNKNOWN);
	dirworld_fini(&world);

	dirworld_init(&world, "host a; rail d0; gid 10.1.0.1/24 v2; rail d1; gid 10.1.0.2/24 v2; rail d2 down; gid 10.1.0.3/24 v2;");
	request = request_of("d0 10.1.0.1 v2 10.1.0.2", device);
	request.own_host = 1;
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_WORKS);
	assert_int_equal(rail, 1);
	format_paths(paths, mv_path_find(&world.dir, &request, host, rail, paths, 8), text);
	assert_string_equal(text, "0>1 10.1.0.1>10.1.0.2 v2; 0>0 10.1.0.1>10.1.0.1 v2; 1>1 10.1.0.2>10.1.0.2 v2; ");
	request.dgid = unit_gid("10.1.0.3");
	assert_int_equal(mv_path_decide(&world.dir, &request, &host, &rail), MV_PATH_REMOTE_DOWN);
	assert_int_equal(rail, 2);
	dirworld_fini(&world);
}

/* Many addresses on the programs' own rails leave room for other rails. */
static void test_find_room(void **state)
{
	struct mv_path all[MV_PATH_FIND_MAX], few[MV_PATH_FIND_MAX];
	struct mv_path_request request;
	char device[64], text[2048] = "";
	struct dirworld world;
	size_t n, n_few;

	(void)state;
	for (int host = 0; host < 2; host++) {
		strcat(text, host ? "host b; rail d0;" : "host a; rail d0;");
		for (int i = 0; i < 12; i++)
			sprintf(text + strlen(text), "gid 10.1.0.%d/24 v2;", 1 + i + 100 * host);
		sprintf(text + strlen(text), "rail d1; gid 10.2.0.%d/24 v2;", 1 + host);
	}
	dirworld_init(&world, text);
	request = request_of("d0 10.1.0.3 v2 10.1.0.105", device);
	n = mv_path_find(&world.dir, &request, 1, 2, all, MV_PATH_FIND_MAX);
	assert_int_equal(n, MV_PATH_FIND_MAX / 2 + 1);
	assert_gid(all[0].local_gid, "10.1.0.3");
	assert_gid(all[0].remote_gid, "10.1.0.105");
	assert_int_equal(all[n - 1].local_rail, 1);
	n_few = mv_path_find(&world.dir, &request, 1, 2, few, 16);
	assert_int_equal(n_few, 9);
	assert_int_equal(few[8].local_rail, 1);
	for (size_t i = 0; i < 8; i++)
		assert_memory_equal(&few[i].local_gid, &all[i].local_gid, sizeof(few[i].local_gid));
	dirworld_fini(&world);
}

/* What is found, works; and both ends find the same. */
static void test_find_and_decide(void **state)
{
	static const char *const worlds[] = {PAIR, TRIANGLE, MANY_A MANY_B "link 0 2;"};

	(void)state;
	for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
		struct mv_path_request any = {.device = "mlx5_1", .port_num = 1};
		struct mv_path paths[MV_PATH_FIND_MAX];
		struct dirworld world;
		uint32_t host, rail;
		size_t n;

		dirworld_init(&world, worlds[w]);
		n = mv_path_find(&world.dir, &any, 1, world.hosts[1].first_rail, paths,
				 MV_PATH_FIND_MAX);
		assert_true(n > 0);
		for (size_t i = 0; i < n; i++) {
			struct mv_path_request request = {
				.device = world.rails[paths[i].local_rail].device,
				.port_num = 1,
				.sgid = paths[i].local_gid,
				.sgid_type = paths[i].type,
				.dgid = paths[i].remote_gid};
			enum mv_path_verdict verdict = mv_path_decide(&world.dir, &request, &host, &rail);

			assert_true(
				verdict == MV_PATH_WORKS ||
				(verdict == MV_PATH_ASK && paths[i].type == MV_GID_TYPE_ROCE_V1));
			assert_int_equal(host, 1);
			assert_int_equal(rail, paths[i].remote_rail);
		}
		dirworld_fini(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_may_join),        cmocka_unit_test(test_find_figures),
		cmocka_unit_test(test_find_room),       cmocka_unit_test(test_find_down),
		cmocka_unit_test(test_address_gone),    cmocka_unit_test(test_own_host),
		cmocka_unit_test(test_find_and_decide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
