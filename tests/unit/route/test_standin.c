/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which rail serves the connections of a port that is down? */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "dirworld.h"
#include "standin.h"

#define A_DOWN "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2;"
#define B      "host b; rail d0; gid 10.1.0.2/24 v2; rail d1; gid 10.2.0.2/24 v2;"
#define IB_A   "host a; rail d0 ib lid 3 dev ib0 down; gid fe80::a0 ib; rail d1 ib lid 4 dev ib1; gid fe80::a1 ib;"
#define IB_B   "host b; rail d0 ib lid 5 dev ib0; gid fe80::b0 ib; rail d1 ib lid 6 dev ib1 down; gid fe80::b1 ib;"

static const struct stand_in_case {
	const char *name, *world;
	int err;
	uint32_t rail, host;
} cases[] = {
	{"one subnet for each rail", A_DOWN B, 0, 1, 1},
	{"the directory does not know yet that the port is down", "host a; rail d0; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2;" B "link 0 2;", 0, 1, 1},
	{"the same, drained", "host a; rail d0 drained; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2;" B, 0, 1, 1},
	{"by a link", "host a; rail d0 down; gid fe80::a v2; rail d1; gid fe80::a1 v2; host b; rail d0; gid fe80::b v2; link 1 2;", 0, 1, 1},
	{"by a route", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2; host b; rail d0; gid 10.9.0.1/24 v2 routed 1;", 0, 1, 1},
	{"the faster one", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2; rail d2 rate 200000; gid 10.3.0.1/24 v2;"
	 "host b; rail d0 rate 400000; gid 10.2.0.2/24 v2; rail d1 rate 400000; gid 10.3.0.2/24 v2;", 0, 2, 1},
	{"the second host only", A_DOWN "host b; rail d0; gid 10.1.0.2/24 v2; host c; rail d0; gid 10.2.0.3/24 v2;", 0, 1, 2},
	{"another port of the device", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d0 port 2; gid 10.2.0.1/24 v2;" B, 0, 1, 1},
	{"InfiniBand, one card cabled", IB_A IB_B "link 1 2;", 0, 1, 1},

	{"not in the directory", "host a; rail d7; gid 10.1.0.1/24 v2;" B, -ENODEV, 0, 0},
	{"another port", "host a; rail d0 port 2 down; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2;" B, -ENODEV, 0, 0},
	{"excluded", "host a; rail d0 down excluded; gid 10.1.0.1/24 v2; rail d1; gid 10.2.0.1/24 v2;" B, -EPERM, 0, 0},
	{"no GID", "host a; rail d0 down; rail d1; gid 10.2.0.1/24 v2;" B, -EADDRNOTAVAIL, 0, 0},
	{"its GID is gone", "host a; rail d0 down; gid 10.1.0.1/24 kept; rail d1; gid 10.2.0.1/24 v2;" B, -EADDRNOTAVAIL, 0, 0},
	{"no other rail", "host a; rail d0 down; gid 10.1.0.1/24 v2;" B, -ENETDOWN, 0, 0},
	{"all are down", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1 down; gid 10.2.0.1/24 v2;" B, -ENETDOWN, 0, 0},
	{"the other one is drained", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1 drained; gid 10.2.0.1/24 v2;" B, -ENETDOWN, 0, 0},
	{"the other one is excluded", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1 excluded; gid 10.2.0.1/24 v2;" B, -ENETDOWN, 0, 0},
	{"the other one is InfiniBand", "host a; rail d0 down; gid 10.1.0.1/24 v2; rail d1 ib lid 4 dev ib1; gid fe80::a1 ib;" IB_B, -ENETDOWN, 0, 0},
	{"nobody is there", A_DOWN, -EHOSTUNREACH, 0, 0},
	{"nobody who is reached", A_DOWN "host b; rail d0; gid 10.1.0.2/24 v2;", -EHOSTUNREACH, 0, 0},
	{"their port is down", A_DOWN "host b; rail d0; gid 10.1.0.2/24 v2; rail d1 down; gid 10.2.0.2/24 v2;", -EHOSTUNREACH, 0, 0},
};

static int find(const struct dirworld *world, const char *exclude, uint32_t agent_version, struct mv_stand_in *ret)
{
	struct mv_config_list list = {.n = exclude ? 1 : 0};
	const struct mv_stand_in_request request = {.device = "d0", .port_num = 1, .agent_version = agent_version, .exclude = &list};

	if (exclude)
		strcpy(list.names[0], exclude);
	return mv_stand_in_find(&world->dir, &request, ret);
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mv_stand_in found = {.rail = 77, .host = 77};
		struct dirworld world;
		int err;

		dirworld_init(&world, cases[i].world);
		err = find(&world, NULL, MV_CTL_VERSION, &found);
		if (err != cases[i].err || found.rail != (err ? 77 : cases[i].rail) || found.host != (err ? 77 : cases[i].host))
			fail_msg("%s: %d, rail %u, host %u", cases[i].name, err, found.rail, found.host);
		dirworld_fini(&world);
	}
}

static void test_excluded_in_this_process(void **state)
{
	struct mv_stand_in found;
	struct dirworld world;

	(void)state;
	dirworld_init(&world, A_DOWN B);
	assert_int_equal(find(&world, "d1", MV_CTL_VERSION, &found), -ENETDOWN);
	assert_int_equal(find(&world, "d*", MV_CTL_VERSION, &found), -EPERM);
	assert_int_equal(find(&world, "d7", MV_CTL_VERSION, &found), 0);
	dirworld_fini(&world);
}

/* Connections with such a host cannot be agreed on. */
static void test_other_agents(void **state)
{
	struct mv_stand_in found;
	struct dirworld world;

	(void)state;
	dirworld_init(&world, A_DOWN B);
	assert_int_equal(find(&world, NULL, MV_CTL_VERSION + 1, &found), -EHOSTUNREACH);
	dirworld_fini(&world);
}

static union ibv_gid ipv4(uint32_t address)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	for (int i = 0; i < 4; i++)
		gid.raw[12 + i] = (uint8_t)(address >> (24 - 8 * i));
	return gid;
}

#define N_INVENTED 9000
#define IP_DOWN	   0x0a010001u /* 10.1.0.1 */
#define IP_UP	   0x0a020001u
#define IP_OTHER   0x0a020002u /* the last host's: IP_UP's subnet */
#define IP_FAR	   0x0b000000u

/* The last host alone is reached. Before it are @n hosts that a neighbour has invented, with a GID each or with none. */
static int find_behind(uint32_t n, bool with_gids)
{
	static struct mv_dir_host hosts[N_INVENTED + 2];
	static struct mv_dir_rail rails[N_INVENTED + 3];
	static struct mv_dir_gid gids[N_INVENTED + 3];
	struct mv_dir_content content = {.n_hosts = n + 2, .hosts = hosts, .rails = rails, .gids = gids};
	struct mv_config_list none = {0};
	const struct mv_stand_in_request request = {.device = "d0", .port_num = 1, .agent_version = MV_CTL_VERSION, .exclude = &none};
	struct mv_dir_header *image;
	struct mv_directory dir;
	struct mv_stand_in found;
	int err;

	for (uint32_t h = 0; h < n + 2; h++) {
		hosts[h] = (struct mv_dir_host){.id.bytes = {(uint8_t)h, (uint8_t)(h >> 8), 1}, .first_rail = content.n_rails, .agent_version = MV_CTL_VERSION};
		hosts[h].n_rails = h ? 1 : 2;
		for (uint32_t i = 0; i < hosts[h].n_rails; i++) {
			bool has_gid = !h || h > n || with_gids;

			rails[content.n_rails] = (struct mv_dir_rail){.host = h, .first_gid = content.n_gids, .n_gids = has_gid, .port = 1,
								      .link_layer = IBV_LINK_LAYER_ETHERNET, .rate_mbps = 100000, .numa_node = -1,
								      .flags = h || i ? MV_RAIL_UP : 0, .device = {'d', (char)('0' + i)}};
			if (has_gid)
				gids[content.n_gids++] = (struct mv_dir_gid){
					.gid = ipv4(h > n ? IP_OTHER : h ? IP_FAR + (h << 8) : i ? IP_UP : IP_DOWN), .rail = content.n_rails,
					.vlan_id = MV_VLAN_NONE, .type = MV_GID_TYPE_ROCE_V2, .prefix_len = 96 + 24};
			content.n_rails++;
		}
	}
	assert_int_equal(mv_directory_build(&content, 1, 1, 1, &image), 0);
	assert_int_equal(mv_directory_check(image, image->size_bytes, &dir), 0);
	err = mv_stand_in_find(&dir, &request, &found);
	if (!err)
		assert_int_equal(found.host, n + 1);
	free(image);
	return err;
}

static void test_invented_hosts(void **state)
{
	(void)state;
	assert_int_equal(find_behind(0, true), 0);
	assert_int_equal(find_behind(MV_STAND_IN_RAILS - 1, true), 0);
	assert_int_equal(find_behind(MV_STAND_IN_RAILS, true), -EHOSTUNREACH);
	assert_int_equal(find_behind(N_INVENTED, false), 0);
}

static void test_speed(void **state)
{
	static const struct {
		uint32_t mbps;
		uint8_t width, speed;
	} rates[] = {{10000, 2, 1}, {25000, 1, 32}, {40000, 2, 4}, {50000, 1, 64}, {56000, 2, 16}, {100000, 2, 32}, {200000, 2, 64},
		     {400000, 2, 128}, {800000, 4, 128}};
	uint8_t width, speed;

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		assert_true(mv_port_speed(rates[i].mbps, &width, &speed));
		assert_int_equal(width, rates[i].width);
		assert_int_equal(speed, rates[i].speed);
	}
	width = speed = 7;
	assert_false(mv_port_speed(0, &width, &speed));
	assert_false(mv_port_speed(123, &width, &speed));
	assert_int_equal(width, 7);
	assert_int_equal(speed, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_excluded_in_this_process),
		cmocka_unit_test(test_other_agents),
		cmocka_unit_test(test_invented_hosts),
		cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
