/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: which of them lead to the same host, and what those of a host have to do with each other. */
#include "probeworld.h"

enum { LATER_HOST = 9 };

/* A path that was never probed leads to whoever has its address when a witness is needed, not when it was watched. */
static void test_id_changes(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	watch(3, MV_WATCH_ALTERNATE); /* of another host */
	run(MD_S);
	assert_int_equal(n_sent[1], 0);
	wires[0].host = wires[1].host = LATER_HOST;
	run(MD_S);
	wires[0].there_lost = true;
	assert_in_range(until_down(0, MD_S), 0, 36 * MD_MS);
	assert_int_equal(n_sent[3], 0);
}

/* The same for a path that was asked before, and did not answer. */
static void test_id_changes_after_silence(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = wires[1].there_lost = true;
	run(100 * MD_MS);
	assert_true(n_sent[1] > 0);
	wires[0].there_lost = false;
	run(MD_S);
	wires[1].there_lost = false;
	wires[0].host = wires[1].host = LATER_HOST;
	run(MD_S);
	wires[0].there_lost = true;
	assert_in_range(until_down(0, MD_S), 0, 36 * MD_MS);
}

/* Paths of a host answer again, one after the other: each time, none of the other suspects waits for long. */
static void test_answer_one_by_one(void **state)
{
	const uint64_t part_ns = INTERVAL / MD_PROBE_PARTS;
	const unsigned int n = 16;
	unsigned int n_woken = 0;
	uint64_t until_ns;

	(void)state;
	for (unsigned int i = N_NAMED; i < N_NAMED + n; i++) {
		watch(i, MV_WATCH_WORK);
		wires[i].delay_ns = 20000 + 250000 * i;
	}
	run(MD_S);
	peer_runs_ns = now_ns + 300 * MD_MS;
	run(300 * MD_MS);
	assert_int_equal(probes.n_suspect, n);
	until_ns = now_ns + 100 * MD_MS;
	while (now_ns < until_ns && probes.n_suspect) {
		size_t before = probes.n_suspect;

		step(until_ns);
		if (probes.n_suspect >= before)
			continue;
		n_woken++;
		for (unsigned int i = N_NAMED; i < N_NAMED + n; i++) {
			const struct md_probe *p = md_probes_find(&probes, &wires[i].key);

			assert_true(!p->suspect || p->sent_ns == now_ns || p->next_ns <= now_ns + part_ns);
		}
	}
	assert_true(n_woken > n / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_id_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_id_changes_after_silence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_one_by_one, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
