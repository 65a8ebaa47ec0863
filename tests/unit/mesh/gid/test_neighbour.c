// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Is a link-local address on a link? Asked of a real kernel, over a veth pair in a network namespace of its own. Exits 77 where none can be
 * made.
 */
#include "unit.h"

#include <net/if.h>

#include "neighbour.h"
#include "netns.h"

#define PORT  1
#define INDEX 5

static uint32_t ifindex;

uint32_t __wrap_mesh_paths_netdev(struct mesh_context *mc, uint8_t port_num, uint8_t index);

uint32_t __wrap_mesh_paths_netdev(struct mesh_context *mc, uint8_t port_num, uint8_t index)
{
	assert_null(mc);
	assert_int_equal(port_num, PORT);
	assert_int_equal(index, INDEX);
	return ifindex;
}

static bool is_missing(const char *address)
{
	const union ibv_gid gid = unit_gid(address);

	return mesh_neighbour_is_missing(NULL, PORT, INDEX, &gid);
}

static void test_there(void **state)
{
	(void)state;
	errno = EPROTO;
	assert_false(is_missing("fe80::2"));
	assert_int_equal(errno, EPROTO);
}

static void test_missing(void **state)
{
	(void)state;
	errno = EPROTO;
	assert_true(is_missing("fe80::9"));
	assert_int_equal(errno, EPROTO);
}

/* A host that drops the datagram has the address all the same. */
static void test_silent(void **state)
{
	(void)state;
	/* A neighbour entry, and nobody behind it. */
	assert_int_equal(netns_ip("-6 neigh add fe80::8 lladdr 02:00:00:00:00:88 dev va"), 0);
	assert_false(is_missing("fe80::8"));
}

static void test_nothing_is_known(void **state)
{
	(void)state;
	ifindex = 0;
	assert_false(is_missing("fe80::9"));
	ifindex = 1 << 20;
	assert_false(is_missing("fe80::9"));
	ifindex = if_nametoindex("va");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_nothing_is_known),
	};

	if (!netns_enter())
		return 77;
	if (netns_ip("link set lo up") || netns_ip("link add va type veth peer name vb") || netns_ip("link set va addrgenmode none") ||
	    netns_ip("link set vb addrgenmode none") || netns_ip("link set va up") || netns_ip("link set vb up") ||
	    netns_ip("addr add fe80::1/64 dev va nodad") || netns_ip("addr add fe80::2/64 dev vb nodad"))
		return 77;
	ifindex = if_nametoindex("va");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
