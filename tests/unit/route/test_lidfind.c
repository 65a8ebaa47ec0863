/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whose is a LID? */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dirworld.h"
#include "lidfind.h"
#include "pathfind.h"

/* One card of two is cabled: a's rails 0 and 1, b's 2 and 3. */
#define CARDS_A "host a; rail d0 ib lid 3 dev ib0; gid fe80::a0 ib; rail d1 ib lid 4 dev ib1 down; gid fe80::a1 ib;"
#define CARDS_B "host b; rail d0 ib lid 5 dev ib0 down; gid fe80::b0 ib; rail d1 ib lid 6 dev ib1; gid fe80::b1 ib;"
#define CARDS	CARDS_A CARDS_B "link 0 3;"

/* Two fabrics with one prefix: rails 0 and 2, rails 1 and 3; they have given out the same LIDs. */
#define TWO_A	"host a; rail d0 ib lid 3 dev ib0; gid fe80::a0 ib; rail d1 ib lid 4 dev ib1; gid fe80::a1 ib;"
#define TWO_B	"host b; rail d0 ib lid 5 dev ib0; gid fe80::b0 ib; rail d1 ib lid 5 dev ib1; gid fe80::b1 ib;"
#define FABRICS TWO_A TWO_B "link 0 2; link 1 3;"
/* The same; b's port on the first is down, and c shows that they are two. */
#define TWO_B_DOWN "host b; rail d0 ib lid 5 dev ib0 down; gid fe80::b0 ib;"
#define HOST_C	   "host c; rail d0 ib lid 9 dev ib0; gid fe80::c0 ib;"

static const struct lid_case {
	const char *name, *world, *device;
	uint16_t dlid;
	int err;
	const char *local, *remote;
} cases[] = {
	{"both up, heard", CARDS, "d0", 6, 0, "fe80::a0", "fe80::b1"},
	{"the peer's port is down", CARDS, "d0", 5, 0, "fe80::a0", "fe80::b0"},
	{"the own port is down", CARDS, "d1", 6, 0, "fe80::a1", "fe80::b1"},
	{"both are down", CARDS, "d1", 5, 0, "fe80::a1", "fe80::b0"},
	{"nobody's", CARDS, "d0", 7, -ENOENT, "", ""},
	{"without a fleet key", CARDS_A "host b; rail d1 ib lid 6 dev ib1; link 0 2;", "d0", 6, -EACCES, "", ""},
	{"our own", CARDS, "d0", 4, -EALREADY, "", ""},
	{"itself", CARDS, "d0", 3, 0, "fe80::a0", "fe80::a0"},
	{"itself, down", CARDS, "d1", 4, 0, "fe80::a1", "fe80::a1"},
	{"our own, and of one that is heard", TWO_A "host b; rail d0 ib lid 4 dev ib0; gid fe80::b0 ib; link 0 2;", "d0", 4, 0, "fe80::a0", "fe80::b0"},
	{"our own, and of one that is down", TWO_A "host b; rail d0 ib lid 4 dev ib0 down; gid fe80::b0 ib;", "d0", 4, -EALREADY, "", ""},
	{"itself, and of one that is heard", TWO_A "host b; rail d0 ib lid 3 dev ib0; gid fe80::b0 ib; link 0 2;", "d0", 3, 0, "fe80::a0", "fe80::a0"},
	{"none", CARDS, "d0", 0, -EINVAL, "", ""},
	{"multicast", CARDS, "d0", 0xc000, -EINVAL, "", ""},
	{"permissive", CARDS, "d0", 0xffff, -EINVAL, "", ""},
	{"one of several (LMC)", CARDS_A "host b; rail d0 ib lid 8 lmc 2 dev ib0; gid fe80::b0 ib; link 0 2;", "d0", 11, 0, "fe80::a0", "fe80::b0"},
	{"the next after several", CARDS_A "host b; rail d0 ib lid 8 lmc 2 dev ib0; gid fe80::b0 ib; link 0 2;", "d0", 12, -ENOENT, "", ""},
	{"itself, one of several", "host a; rail d0 ib lid 4 lmc 1 dev ib0; gid fe80::a0 ib;" CARDS_B, "d0", 5, 0, "fe80::a0", "fe80::a0"},
	{"another device", CARDS, "d7", 6, -ENODEV, "", ""},
	{"Ethernet", "host a; rail d0; gid fe80::a0 v2;" CARDS_B, "d0", 6, -ENODEV, "", ""},
	{"a port without GID", "host a; rail d0 ib lid 3 dev ib0;" CARDS_B, "d0", 6, -ENODEV, "", ""},
	{"a peer on Ethernet", CARDS_A "host b; rail d0 lid 6; gid fe80::b1 ib;", "d0", 6, -ENOENT, "", ""},
	{"another prefix", CARDS_A "host b; rail d0 ib lid 6 dev ib0; gid fec0::b1 ib; link 0 2;", "d0", 6, -ENOENT, "", ""},
	{"no IPoIB", "host a; rail d0 ib lid 3; gid fe80::a0 ib; host b; rail d0 ib lid 6 dev ib0; gid fe80::b0 ib;", "d0", 6, -ENOENT, "", ""},
	{"no IPoIB at the peer", CARDS_A "host b; rail d0 ib lid 6; gid fe80::b1 ib;", "d0", 6, -ENOENT, "", ""},
	{"an agent that does not know IPoIB", CARDS_A "host b; rail d0 ib lid 5 down; gid fe80::b0 ib;", "d0", 5, -ENOENT, "", ""},
	{"the peer's port is down, and excluded", CARDS_A "host b; rail d0 ib lid 5 dev ib0 down excluded; gid fe80::b0 ib;", "d0", 5, -ENOENT, "", ""},
	{"the own port is excluded", "host a; rail d0 ib lid 3 dev ib0 excluded; gid fe80::a0 ib;" CARDS_B, "d0", 5, -ENOENT, "", ""},
	{"IPoIB, and not heard", CARDS_A "host b; rail d0 ib lid 6 dev ib0; gid fe80::b1 ib;", "d0", 6, -ENOENT, "", ""},
	{"drained, and heard", CARDS_A "host b; rail d0 ib lid 6 dev ib0 drained; gid fe80::b0 ib; link 0 2;", "d0", 6, 0, "fe80::a0", "fe80::b0"},
	{"drained, and not heard", CARDS_A "host b; rail d0 ib lid 6 dev ib0 drained; gid fe80::b0 ib;", "d0", 6, -ENOENT, "", ""},

	{"two fabrics: by who is heard, the first", FABRICS, "d0", 5, 0, "fe80::a0", "fe80::b0"},
	{"two fabrics: the second", FABRICS, "d1", 5, 0, "fe80::a1", "fe80::b1"},
	{"two fabrics: of the other one only", TWO_A "host b; rail d0 ib lid 5 dev ib0; gid fe80::b0 ib; link 0 2;", "d1", 5, -ENOENT, "", ""},
	{"two fabrics: of which is one that is down?", TWO_A TWO_B_DOWN HOST_C "link 0 3;", "d1", 5, -ENOTUNIQ, "", ""},
	{"two fabrics: of which? the first is silent", TWO_A TWO_B_DOWN HOST_C "link 1 3;", "d1", 5, -ENOTUNIQ, "", ""},
	{"one fabric: it can only be that", TWO_A TWO_B_DOWN HOST_C "link 0 3; link 1 3;", "d1", 5, 0, "fe80::a1", "fe80::b0"},
	{"one fabric: another prefix says nothing", "host a; rail d0 ib lid 3 dev ib0; gid fec0::a0 ib; rail d1 ib lid 4 dev ib1; gid fe80::a1 ib;"
	 TWO_B_DOWN HOST_C "link 1 3;", "d1", 5, 0, "fe80::a1", "fe80::b0"},
	{"two that are down have it", TWO_A "host b; rail d0 ib lid 5 dev ib0 down; gid fe80::b0 ib; rail d1 ib lid 5 dev ib1 down; gid fe80::b1 ib;",
	 "d0", 5, -ENOTUNIQ, "", ""},
	{"two hosts that are heard say so", TWO_A "host b; rail d0 ib lid 5 dev ib0; gid fe80::b0 ib; host c; rail d0 ib lid 5 dev ib0; gid fe80::c0 ib;"
	 "link 0 2; link 0 3;", "d0", 5, -ENOTUNIQ, "", ""},
};

static void check(const struct lid_case *c)
{
	struct mv_lid_ends ends = {.local = unit_gid("::9"), .remote = unit_gid("::9")};
	struct dirworld world;
	int err;

	dirworld_init(&world, c->world);
	err = mv_lid_find(&world.dir, c->device, 1, c->dlid, &ends);
	if (err != c->err)
		fail_msg("%s: %d (%s) instead of %d", c->name, err, mv_lid_error_text(err), c->err);
	assert_true(strlen(mv_lid_error_text(err)) > 10);
	if (err) {
		assert_gid(ends.local, "::9");
		assert_gid(ends.remote, "::9");
	} else {
		assert_gid(ends.local, c->local);
		assert_gid(ends.remote, c->remote);
	}
	assert_int_equal(mv_lid_find(&world.dir, c->device, 2, c->dlid, &ends), -ENODEV);
	dirworld_fini(&world);
}

static void test_lids(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(&cases[i]);
}

/* Return: how many paths there are from a's device to the GID of b's rail. */
static size_t n_paths(const char *text, const char *device, const char *from, const char *to, uint32_t remote_rail)
{
	struct mv_path_request request = {
		.device = device, .port_num = 1, .sgid = unit_gid(from), .sgid_type = MV_GID_TYPE_IB, .dgid = unit_gid(to)};
	struct mv_path paths[MV_PATH_FIND_MAX];
	struct dirworld world;
	size_t n;

	dirworld_init(&world, text);
	n = mv_path_find(&world.dir, &request, 1, remote_rail, paths, MV_PATH_FIND_MAX);
	dirworld_fini(&world);
	return n;
}

/* Between two fabrics there is no path, though their prefixes are equal; but what the programs use stays one. */
static void test_paths_of_two_fabrics(void **state)
{
	(void)state;
	assert_int_equal(n_paths(FABRICS, "d0", "fe80::a0", "fe80::b0", 2), 2);
	assert_int_equal(n_paths(FABRICS, "d0", "fe80::a0", "fe80::b1", 3), 3);
	assert_int_equal(n_paths(TWO_A TWO_B, "d0", "fe80::a0", "fe80::b0", 2), 1);
	/* Where nothing would be heard, nothing is known. */
	assert_int_equal(n_paths("host a; rail d0 ib; gid fe80::a0 ib; rail d1 ib; gid fe80::a1 ib;" TWO_B, "d0", "fe80::a0", "fe80::b0", 2), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lids),
		cmocka_unit_test(test_paths_of_two_fabrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
