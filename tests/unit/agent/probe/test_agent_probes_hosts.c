/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: which of them lead to the same host, and what those of a host have to do with each other. */
#include "probeworld.h"

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
		cmocka_unit_test_setup_teardown(test_answer_one_by_one, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
