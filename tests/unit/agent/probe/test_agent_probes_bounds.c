/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: how many a process, an account and all together can have watched. */
#include "probeworld.h"

#include "fault.h"

static void test_bounds(void **state)
{
	struct md_probe_key key = wires[0].key;
	unsigned int n = 0;
	int err;

	(void)state;
	while (!(err = md_probes_watch(&probes, &key, MV_WATCH_ALTERNATE, 1, 0, &watches, now_ns)) && n < 100000) {
		key.remote.raw[13] = 77;
		key.remote.raw[14] = (uint8_t)(++n >> 8);
		key.remote.raw[15] = (uint8_t)n;
		/* Whose sockets are full, so that nobody looks for these paths in the model. */
		socket_full = true;
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(probes.n, MD_WATCHES_PER_CLIENT);
	assert_int_equal(n, MD_WATCHES_PER_CLIENT);
	/* One goes, one comes. */
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, 0, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_ALTERNATE, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_WORK, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_ALTERNATE, 1, 0, &watches, now_ns), -ENOSPC);
	/* Switched off. */
	md_probes_drop(&probes, &watches);
	probes.interval_ns = 0;
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_WORK, 1, 0, &watches, now_ns), -EOPNOTSUPP);
	assert_int_equal(probes.n, 0);
}

/* An account with many processes leaves paths to others, and has none of theirs counted. */
static void test_bounds_of_users(void **state)
{
	struct md_probe_watch_list lists[MD_PATHS_PER_ACCOUNT / MD_WATCHES_PER_CLIENT] = {0}, more = {0};
	const unsigned int n = MD_PATHS_PER_ACCOUNT, n_lists = sizeof(lists) / sizeof(lists[0]);

	(void)state;
	for (unsigned int path = 0; path < n; path++)
		assert_int_equal(watch_one(path, 1 + path % n_lists, 1000, &lists[path % n_lists]), 0);
	assert_int_equal(watch_one(n, 9, 1000, &more), -EDQUOT);
	/* What is his already costs nothing more, nor does what ends while another process of his has it. */
	for (unsigned int path = 0; path < 3; path++)
		assert_int_equal(watch_one(path, 9, 1000, &more), 0);
	md_probes_drop(&probes, &more);
	assert_int_equal(watch_one(n, 9, 1000, &more), -EDQUOT);
	/* Others, the same paths and new ones; root, until there are no more. */
	assert_int_equal(watch_one(0, 10, 1001, &watches), 0);
	assert_int_equal(watch_one(n, 10, 1001, &watches), 0);
	assert_int_equal(watch_one(n + 1, 11, 0, &others_watches), 0);
	/* Also the others' paths count. */
	assert_int_equal(watch_one(n + 1, 9, 1000, &more), -EDQUOT);
	assert_int_equal(probes.n, n + 2);
	/* One goes, one comes. */
	md_probes_drop(&probes, &lists[0]);
	assert_int_equal(watch_one(n + 1, 9, 1000, &more), 0);
	assert_int_equal(probes.n, n + 3 - MD_WATCHES_PER_CLIENT); /* the first is the other user's, too */
	for (unsigned int i = 1; i < n_lists; i++)
		md_probes_drop(&probes, &lists[i]);
	md_probes_drop(&probes, &more);
	md_probes_drop(&probes, &watches);
	assert_null(probes.users);
	for (unsigned int path = 0; path < MD_WATCHES_PER_CLIENT - 1; path++)
		assert_int_equal(watch_one(path, 11, 0, &others_watches), 0);
	assert_null(probes.users);
}

/* So many processes each watch all of so many paths of their account. */
static void watch_all(unsigned int n_accounts, unsigned int n_clients, unsigned int n_paths)
{
	struct md_probe_watch_list *lists = calloc(n_accounts * n_clients, sizeof(*lists));

	for (unsigned int i = 0; i < n_accounts * n_clients; i++)
		for (unsigned int path = 0; path < n_paths; path++)
			assert_int_equal(watch_one(i / n_clients * n_paths + path, 1 + i, 1000 + i / n_clients,
						   &lists[i]), 0);
	for (unsigned int i = 0; i < n_accounts * n_clients; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
	assert_int_equal(probes.n_watches, 0);
}

/* Hosts full of ranks: all of them are told of their paths, not only those that have come first. */
static void test_hosts_full_of_ranks(void **state)
{
	const unsigned int n_paths = MD_PROBES_MAX - MD_PROBES_MAX / MD_ROOT_SHARE;

	(void)state;
	watch_all(1, 256, MD_WATCHES_PER_CLIENT); /* of one user */
	watch_all(8, 128, n_paths / 8); /* of containers */
}

/* However many processes an account has: the paths are few, but each process watches all. */
static void test_bounds_of_watches(void **state)
{
	const size_t most = MD_WATCHES_MAX - MD_WATCHES_MAX / MD_ROOT_SHARE;
	struct md_probe_watch_list lists[3] = {0};

	(void)state;
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(watch_one(0, 1 + i, 1000, &lists[i]), 0);
	assert_int_equal(probes.users->n_watches, 2);
	assert_int_equal(probes.users->n_paths, 1);
	/* As if there were more, which takes long. */
	probes.users->n_watches += MD_WATCHES_PER_ACCOUNT - 3;
	assert_int_equal(watch_one(1, 1, 1000, &lists[0]), 0);
	assert_int_equal(watch_one(1, 2, 1000, &lists[1]), -EDQUOT);
	assert_int_equal(watch_one(1, 3, 1001, &lists[2]), 0);
	md_probes_drop(&probes, &lists[0]);
	assert_int_equal(watch_one(1, 2, 1000, &lists[1]), 0);
	probes.users->n_watches -= MD_WATCHES_PER_ACCOUNT - 3;
	/* All together leave some to root. */
	probes.n_watches += most - 3;
	assert_int_equal(watch_one(2, 2, 1000, &lists[1]), -ENOSPC);
	assert_int_equal(watch_one(2, 9, 0, &others_watches), 0);
	probes.n_watches -= most - 3;
	assert_int_equal(watch_one(2, 2, 1000, &lists[1]), 0);
	for (unsigned int i = 0; i < 3; i++)
		md_probes_drop(&probes, &lists[i]);
	assert_null(probes.users);
}

/* Without memory there is no watch, no path, and nothing is counted. */
static void test_no_memory(void **state)
{
	struct md_probe_watch_list list = {0};
	unsigned int nth = 0;
	int err;

	(void)state;
	do {
		fault_arm(FAULT_ALLOC, ++nth, ENOMEM);
		err = watch_one(0, 1, 1000, &list);
		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		fault_disarm();
		assert_int_equal(probes.n, !err);
		assert_int_equal(probes.n_watches, !err);
		assert_int_equal(list.n, !err);
		assert_int_equal(HASH_COUNT(list.by_path), !err);
	} while (err);
	assert_true(nth > 4);
	md_probes_drop(&probes, &list);
	assert_int_equal(probes.n, 0);
	assert_null(probes.users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds_of_users, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hosts_full_of_ranks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds_of_watches, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
