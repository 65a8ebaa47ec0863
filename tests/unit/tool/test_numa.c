// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* NUMA nodes of the trials of meshverbs qualify: which node is chosen, and that memory comes from it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "numa.h"
#include "tmpdir.h"

#define BYTES (256u << 10)

/* @memory, @nic: contents of files; NULL: no such file */
static int choose(const char *memory, const char *nic, int own)
{
	struct tmpdir dir;
	int node;

	tmpdir_make(&dir);
	if (memory)
		tmpdir_write(&dir, "devices/system/node/has_memory", memory);
	if (nic)
		tmpdir_write(&dir, "class/infiniband/mlx5_0/device/numa_node", nic);
	node = numa_other_node(dir.path, "mlx5_0", own);
	tmpdir_remove(&dir);
	return node;
}

static void chooses(void **state)
{
	(void)state;
	/* One node, no NUMA, and a process that does not know where its memory is. */
	assert_int_equal(choose("0\n", "0\n", 0), -1);
	assert_int_equal(choose(NULL, "0\n", 0), -1);
	assert_int_equal(choose("0-1\n", "0\n", -1), -1);
	/* The process is near the NIC: the other one. The NIC's node is unknown: not the process's. */
	assert_int_equal(choose("0-1\n", "0\n", 0), 1);
	assert_int_equal(choose("0-1\n", "1\n", 1), 0);
	assert_int_equal(choose("0-1\n", "-1\n", 0), 1);
	assert_int_equal(choose("0-1\n", NULL, 1), 0);
	/* The process is far from the NIC: the NIC's. */
	assert_int_equal(choose("0-3\n", "2\n", 0), 2);
	assert_int_equal(choose("0-3\n", "0\n", 3), 0);
	/* Nodes without memory, as that of a NIC, and as those of processors alone. */
	assert_int_equal(choose("0,3-4,9\n", "1\n", 0), 3);
	assert_int_equal(choose("0,9\n", "0\n", 0), 9);
	assert_int_equal(choose("4,9\n", "4\n", 4), 9);
	assert_int_equal(choose("0-1023\n", "1023\n", 0), 1023);
	/* Files that no kernel writes. */
	assert_int_equal(choose("", "0\n", 0), -1);
	assert_int_equal(choose("0-\n", "0\n", 0), -1);
	assert_int_equal(choose("0,x\n", "0\n", 0), -1);
	assert_int_equal(choose("0,2000\n", "0\n", 0), -1);
	assert_int_equal(choose("0-1\n", "4096\n", 0), 1);
	assert_int_equal(choose("0-1\n", "x\n", 0), 1);
}

/* On the node of this process, which every host has. */
static void places(void **state)
{
	int here = 1, own = numa_node_of(&here), err;
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	err = numa_place(at, BYTES, own);
	if (own < 0 || err == -EPERM || err == -ENOSYS) {
		printf("this host or container has no NUMA calls\n");
		munmap(at, BYTES);
		skip();
	}
	assert_int_equal(err, 0);
	assert_int_equal(numa_node_of(at), -1); /* not touched */
	assert_false(numa_is_on(at, BYTES, own));
	memset(at, 1, BYTES);
	assert_int_equal(numa_node_of(at + 100), own);
	assert_true(numa_is_on(at, BYTES, own));
	assert_false(numa_is_on(at, BYTES, own + 1));
	munmap(at, BYTES);
}

static void places_nowhere(void **state)
{
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_true(numa_place(at, BYTES, 1023) < 0); /* a node that no host of tests has */
	assert_int_equal(numa_place(at, BYTES, -1), -EINVAL);
	assert_int_equal(numa_place(at, BYTES, 1024), -EINVAL);
	munmap(at, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chooses),
		cmocka_unit_test(places),
		cmocka_unit_test(places_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
