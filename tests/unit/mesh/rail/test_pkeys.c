// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The same P_Key on another port. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "rails.h"

uint64_t __wrap_mesh_now_ns(void);
int __wrap_ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

#define N_PKEYS 128

static uint64_t clock_ns = 1000000000ull;
static struct ibv_context own, other;
static uint16_t own_table[N_PKEYS], other_table[N_PKEYS];
static unsigned int n_queries;
static bool unreadable;

uint64_t __wrap_mesh_now_ns(void)
{
	return clock_ns;
}

int __wrap_ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	const uint16_t *table = context == &own ? own_table : other_table;

	n_queries++;
	if (unreadable || port_num != 1 || index < 0 || index >= N_PKEYS)
		return -1;
	*pkey = htobe16(table[index]);
	return 0;
}

static struct mesh_rail rail = {.context = &other};

static int find(uint16_t index)
{
	uint16_t found = 999;
	int err;

	clock_ns += 1000000000ull;
	err = mesh_rail_find_pkey(&rail, 1, &own, 1, index, &found);
	if (err)
		assert_int_equal(found, 999);
	return err ? err : found;
}

static int setup(void **state)
{
	(void)state;
	memset(own_table, 0, sizeof(own_table));
	memset(other_table, 0, sizeof(other_table));
	own_table[0] = other_table[0] = 0xffff;
	unreadable = false;
	return 0;
}

static void test_found(void **state)
{
	(void)state;
	own_table[1] = 0x8001;
	own_table[2] = 0x8002;
	own_table[127] = 0x8127;
	other_table[1] = 0x8002;
	other_table[127] = 0x8001;
	other_table[5] = 0x8127;
	assert_int_equal(find(0), 0);
	assert_int_equal(find(1), 127);
	assert_int_equal(find(2), 1);
	assert_int_equal(find(127), 5);
}

static void test_not_found(void **state)
{
	(void)state;
	own_table[1] = 0x8001;
	own_table[2] = 0x8002;
	other_table[1] = 0x0001; /* a limited member */
	assert_int_equal(find(1), -ENOENT);
	assert_int_equal(find(2), -ENOENT);
	/* Empty places are no partition, though they are equal. */
	assert_int_equal(find(3), -ENOENT);
	own_table[3] = other_table[3] = 0x8000;
	assert_int_equal(find(3), -ENOENT);
	assert_int_equal(find(200), -ENOENT);
	unreadable = true;
	assert_int_equal(find(0), -ENOENT);
}

/* Hundreds of queue pairs move at once. */
static void test_recalled(void **state)
{
	uint16_t found = 0;
	unsigned int n;

	(void)state;
	own_table[1] = 0x8001;
	other_table[7] = 0x8001;
	assert_int_equal(find(1), 7);
	n = n_queries;
	assert_int_equal(mesh_rail_find_pkey(&rail, 1, &own, 1, 1, &found), 0);
	assert_int_equal(found, 7);
	assert_int_equal(n_queries, n);
	assert_int_equal(mesh_rail_find_pkey(&rail, 1, &own, 1, 0, &found), 0);
	assert_int_equal(found, 0);
	assert_int_equal(mesh_rail_find_pkey(&rail, 2, &own, 1, 0, &found), -ENOENT);
	assert_int_equal(mesh_rail_find_pkey(&rail, 1, &own, 2, 0, &found), -ENOENT);
	/* What could not be found is looked for again. */
	n = n_queries;
	assert_int_equal(mesh_rail_find_pkey(&rail, 1, &own, 2, 0, &found), -ENOENT);
	assert_true(n_queries > n);
}

/* One partition, where each port has but one P_Key. */
static void test_one_partition(void **state)
{
	(void)state;
	assert_true(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	own_table[0] = 0;
	own_table[127] = 0xffff;
	assert_true(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	other_table[9] = 0x8001;
	assert_false(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	own_table[5] = 0x8001; /* which of the two their IPoIB netdevs have is not known */
	assert_false(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	other_table[9] = 0;
	assert_false(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	own_table[5] = 0;
	own_table[127] = 0x7fff; /* a limited member */
	assert_false(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	own_table[127] = other_table[0] = 0;
	assert_false(mesh_rail_has_one_partition(&rail, 1, &own, 1));
	unreadable = true;
	assert_false(mesh_rail_has_one_partition(&rail, 1, &own, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_found, setup),
		cmocka_unit_test_setup(test_not_found, setup),
		cmocka_unit_test_setup(test_recalled, setup),
		cmocka_unit_test_setup(test_one_partition, setup),
	};

	mesh_lock_init(&rail.gid_lock);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
