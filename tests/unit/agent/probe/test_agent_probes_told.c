/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths that thousands of processes watch: who is told in which turn, and what else is done between turns. */
#include "probes_internal.h"

#include "probeworld.h"

/* @n watches of one account's @n_lists processes, which watch the same paths. The caller drops them by drop_many(). */
static struct md_probe_watch_list *watch_many(unsigned int n, unsigned int n_lists)
{
	struct md_probe_watch_list *lists = calloc(n_lists, sizeof(*lists));

	assert_non_null(lists);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(watch_one(i / n_lists, 1 + i % n_lists, 1000, &lists[i % n_lists]), 0);
	return lists;
}

static void drop_many(struct md_probe_watch_list *lists, unsigned int n_lists)
{
	for (unsigned int i = 0; i < n_lists; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
}

static unsigned int n_changes, n_warnings;

static bool count_changes(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	(void)arg;
	(void)client;
	(void)key;
	(void)state;
	n_changes++;
	return true;
}

static bool count_warnings(void *arg, uint64_t client, const struct md_probe_key *key)
{
	(void)arg;
	(void)client;
	(void)key;
	n_warnings++;
	return true;
}

/* Hundreds of paths fail together that thousands of processes watch: the event loop does other things in between. */
static void test_many_told(void **state)
{
	enum { N_LISTS = 20, N_EACH = MD_WATCHES_PER_CLIENT, N = N_LISTS * N_EACH };
	struct md_probe_watch_list *lists;
	struct md_probe_ops ops = *probes.ops;
	struct md_probe *p, *next;
	unsigned int before, turns;

	(void)state;
	ops.tell = count_changes;
	probes.ops = &ops;
	lists = watch_many(N, N_LISTS);
	n_changes = 0;
	HASH_ITER(hh, probes.by_key, p, next)
	md_probe_set_state(&probes, p, MV_PROBED_UP);
	assert_int_equal(n_changes, MD_TELLS_AT_ONCE);
	/* The others are told in turns that follow at once. */
	md_probes_tell_soon(&probes, now_ns);
	for (turns = 0; n_changes < N; turns++) {
		assert_true(md_probes_hurries(&probes));
		before = n_changes;
		md_probes_tell_the_rest(&probes);
		assert_in_range(n_changes - before, 1, MD_TELLS_AT_ONCE);
	}
	assert_in_range(turns, 1, N / MD_TELLS_AT_ONCE + 1);
	assert_null(probes.untold);
	assert_false(md_probes_hurries(&probes));
	HASH_ITER(hh, probes.by_key, p, next)
	for (struct md_probe_watch *w = LIST_FIRST(&p->watches); w; w = LIST_NEXT(w, of_path))
		assert_int_equal(w->told_probed, MV_PROBED_UP);
	drop_many(lists, N_LISTS);
	begin();
}

static bool host_of_named(void *arg, const struct md_probe_key *key, struct mv_host_id *ret)
{
	(void)arg;
	for (unsigned int i = 0; i < N_NAMED; i++)
		if (!memcmp(&wires[i].key, key, sizeof(*key))) {
			*ret = (struct mv_host_id){{wires[i].host}};
			return true;
		}
	return false;
}

/* Turns in which thousands are told make no rounds: a path that is silent for a moment does not fail. */
static void test_many_told_make_no_rounds(void **state)
{
	enum { N_LISTS = 250, N = N_LISTS * MD_WATCHES_PER_CLIENT };
	struct md_probe_watch_list *lists;
	struct md_probe_ops ops = *probes.ops;
	struct md_probe *p, *next;
	uint64_t until_ns;

	(void)state;
	ops.tell = count_changes;
	ops.host = host_of_named;
	probes.ops = &ops;
	lists = watch_many(N, N_LISTS);
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	while (!md_probes_find(&probes, &wires[0].key)->suspect)
		step(now_ns + MD_S);
	HASH_ITER(hh, probes.by_key, p, next)
	if (!p->n_scheduled)
		md_probe_set_state(&probes, p, MV_PROBED_UP);
	md_probes_tell_soon(&probes, now_ns);
	/* More turns than there are rounds until DOWN, in less than the time of these. */
	late_ns = INTERVAL / 200;
	until_ns = now_ns + INTERVAL;
	while (now_ns < until_ns)
		step(until_ns);
	assert_null(probes.untold);
	assert_int_not_equal(state_of(0), MV_PROBED_DOWN);
	late_ns = 0;
	assert_in_range(until_down(0, MD_S), INTERVAL / 2, 2 * INTERVAL);
	drop_many(lists, N_LISTS);
	watch(0, 0);
	watch(1, 0);
	begin();
}

/* A path comes and goes faster than all processes that watch the path can be told. All have their turn. */
static void test_changes_without_end(void **state)
{
	enum { N = MD_TELLS_AT_ONCE + 2 * MD_TELLS_PER_TURN };
	struct md_probe_watch_list *lists = calloc(N, sizeof(*lists));
	struct md_probe_ops ops = *probes.ops;
	struct md_probe *p;

	(void)state;
	ops.tell = count_changes;
	probes.ops = &ops;
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(watch_one(0, 1 + i, 0, &lists[i]), 0);
	p = probes.by_key;
	for (unsigned int i = 0; i < 2; i++) {
		md_probe_set_state(&probes, p, i % 2 ? MV_PROBED_SILENT : MV_PROBED_UP);
		md_probes_tell_the_rest(&probes);
	}
	for (struct md_probe_watch *w = LIST_FIRST(&p->watches); w; w = LIST_NEXT(w, of_path))
		assert_int_not_equal(w->told_probed, MV_PROBED_UNKNOWN);
	drop_many(lists, N);
	begin();
}

/* A warning is a packet for each process: of thousands that work on a path, some are warned. */
static void test_many_warned(void **state)
{
	const unsigned int most = MD_TELLS_AT_ONCE / MD_TELLS_OF_WARNING, n = 2 * most;
	struct md_probe_watch_list *lists = calloc(n, sizeof(*lists));
	struct md_probe_ops ops = *probes.ops;

	(void)state;
	ops.warn = count_warnings;
	probes.ops = &ops;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_WORK, 1 + i, 0, &lists[i], now_ns), 0);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	wires[0].there_lost = true;
	n_warnings = n_told[0] = 0;
	run(MD_S);
	assert_int_equal(n_warnings, most);
	assert_int_equal(n_told[0], n);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	drop_many(lists, n);
	watch(1, 0);
	begin();
}

/* Processes that read nothing do not keep the agent at work: all of them are tried, but a few at a time. */
static void test_many_untold(void **state)
{
	enum { N_LISTS = 3, N = N_LISTS * MD_WATCHES_PER_CLIENT };
	struct md_probe_watch_list *lists;

	(void)state;
	n_tried = 0;
	lists = watch_many(N, N_LISTS);
	/* Who watches a path has the others' processes told nothing. */
	assert_int_equal(n_tried, N);
	for (unsigned int turn = 0; turn < 2 * N / MD_TELLS_PER_TURN; turn++) {
		n_tried = 0;
		assert_true(probes.next_ns <= now_ns + INTERVAL);
		now_ns = probes.next_ns;
		md_probes_tick(&probes, true, 0, now_ns);
		assert_int_equal(n_tried, MD_TELLS_PER_TURN);
		/* Who begins later has a turn, too. */
		if (turn == 0)
			assert_int_equal(watch_one(0, 9, 1001, &watches), 0);
	}
	drop_many(lists, N_LISTS);
	n_tried = 0;
	now_ns = probes.next_ns;
	md_probes_tick(&probes, true, 0, now_ns);
	assert_int_equal(n_tried, 1);
	md_probes_drop(&probes, &watches);
	assert_null(probes.untold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_untold, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_told_make_no_rounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_warned, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
