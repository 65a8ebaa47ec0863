// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Paths from a port of a device to itself: which are tried, in which order, and what is returned. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "mesh.h"
#include "ownpath.h"

#define N_PORTS 2u

static struct ibv_gid_entry table[8];
static ssize_t n_entries;
static enum ibv_port_state states[N_PORTS + 1];
static int results[8], n_tried;
static uint8_t tried[8]; /* index of the GID */

int __wrap_ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr);

int __wrap_ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	(void)context;
	assert_in_range(port_num, 1, N_PORTS);
	((struct ibv_port_attr *)attr)->state = states[port_num];
	return 0;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	(void)context;
	(void)flags;
	assert_true(max >= 8);
	assert_int_equal(size, sizeof(*entries));
	memcpy(entries, table, sizeof(table));
	return n_entries;
}

static int try(void *arg, const struct ibv_ah_attr *ah)
{
	(void)arg;
	assert_in_range(n_tried, 0, 7);
	tried[n_tried] = ah->grh.sgid_index;
	return results[n_tried++];
}

/* An IPv6 GID of the port, or, with @ipv4, one of an IPv4 address. */
static void add(uint32_t port, bool ipv4)
{
	struct ibv_gid_entry *entry = &table[n_entries];

	*entry = (struct ibv_gid_entry){.port_num = port, .gid_index = (uint32_t)n_entries, .gid_type = IBV_GID_TYPE_ROCE_V2};
	if (ipv4) {
		memset(&entry->gid.raw[10], 0xff, 2);
		entry->gid.raw[12] = 10;
	} else {
		entry->gid.raw[0] = 0xfd;
	}
	entry->gid.raw[15] = (uint8_t)(n_entries + 1);
	n_entries++;
}

static int run(void)
{
	struct ibv_context verbs;

	memset(&verbs, 0, sizeof(verbs));
	n_tried = 0;
	mesh_root.lib.query_gid_table = query_gid_table;
	return mesh_ownpath_try(&verbs, try, NULL);
}

static int setup(void **state)
{
	(void)state;
	memset(table, 0, sizeof(table));
	memset(results, 0, sizeof(results));
	n_entries = 0;
	states[1] = states[2] = IBV_PORT_ACTIVE;
	return 0;
}

/* GIDs of IPv4 addresses come first, and the first path that connects ends the search. */
static void test_order(void **state)
{
	(void)state;
	add(1, false);
	add(1, true);
	add(2, true);
	results[0] = -EIO;
	assert_int_equal(run(), 0);
	assert_int_equal(n_tried, 2);
	assert_int_equal(tried[0], 1);
	assert_int_equal(tried[1], 2);
}

/* A path that was tried says why there is none, whatever port comes behind it. */
static void test_later_port_down(void **state)
{
	(void)state;
	add(1, true);
	add(2, true);
	states[2] = IBV_PORT_DOWN;
	results[0] = -EOPNOTSUPP;
	assert_int_equal(run(), -EOPNOTSUPP);
	assert_int_equal(n_tried, 1);
	/* The other way round, too. */
	states[1] = IBV_PORT_DOWN;
	states[2] = IBV_PORT_ACTIVE;
	assert_int_equal(run(), -EOPNOTSUPP);
	assert_int_equal(tried[0], 1);
}

static void test_nothing_to_try(void **state)
{
	(void)state;
	assert_int_equal(run(), -EHOSTUNREACH);
	add(1, true);
	add(2, false);
	states[1] = states[2] = IBV_PORT_DOWN;
	assert_int_equal(run(), -EHOSTUNREACH);
	assert_int_equal(n_tried, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_order, setup),
		cmocka_unit_test_setup(test_later_port_down, setup),
		cmocka_unit_test_setup(test_nothing_to_try, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
