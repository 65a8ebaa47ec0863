/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two agents that probe the same paths, each from its end, with a clock of their own: the probes of one do for both, and what dies is
 * found out at both ends, about as soon as by probes of their own.
 */
#include "twoends.h"

/* ---- as long as all is well ------------------------------------------------------------------ */

static void expect_one_to_probe(void)
{
	count_anew();
	run(10 * MD_S);
	/* Which of them it is, nobody cares. */
	const unsigned int does = ends[A].n_sent[0] > ends[B].n_sent[0] ? A : B, rests = does == A ? B : A;

	assert_in_range(ends[does].n_sent[0], 985, 1001);
	assert_in_range(ends[rests].n_sent[0], 9, 12);
	assert_true(ends[rests].n_ticks < 40);
	assert_true(ends[rests].probes.count.spared > 900);
	for (unsigned int i = 0; i < N_ENDS; i++) {
		assert_int_equal(probe(i, 0)->state, MV_PROBED_UP);
		assert_int_equal(ends[i].probes.count.rounds + ends[i].probes.count.void_rounds, 0);
		assert_true(now_ns - probe(i, 0)->answered_ns < 3 * INTERVAL);
	}
}

static void test_one_probes_for_both(void **state)
{
	(void)state;
	expect_one_to_probe();
	jitter_ns = MD_MS;
	expect_one_to_probe();
}

/* Their probes cross: somebody has to be who rests. */
static void test_in_step(void **state)
{
	(void)state;
	apart_ns = 0;
	put_back();
	apart_ns = 3700000;
	assert_int_equal(probe(A, 0)->begun_ns, probe(B, 0)->begun_ns);
	expect_one_to_probe();
}

static void test_both_probe_where_one_is_old(void **state)
{
	(void)state;
	for (unsigned int old = A; old < N_ENDS; old++) {
		ends[old].is_old = true;
		run(MD_S);
		count_anew();
		run(10 * MD_S);
		/* An old one does not rely on anybody, either. */
		assert_in_range(ends[old == A ? B : A].n_sent[0], 985, 1001);
		put_back();
	}
}

/* Who has no work there says nothing of his own. */
static void test_alone(void **state)
{
	(void)state;
	watch(B, 0, MV_WATCH_ALTERNATE);
	run(MD_S / 2);
	count_anew();
	run(10 * MD_S);
	assert_in_range(ends[A].n_sent[0], 985, 1001);
	assert_int_equal(ends[B].n_sent[0], 0);
	watch(B, 0, 0);
	run(MD_S);
	assert_int_equal(probe(A, 0)->state, MV_PROBED_UP);
}

/* With so many that nobody looks which is due next, ticks come in vain, and probes go as before. */
static void test_many_paths(void **state)
{
	static struct md_probe_key others[100];

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int end = 0; end < N_ENDS; end++) {
			others[i] = ends[end].keys[1];
			others[i].remote.raw[14] = (uint8_t)(100 + i);
			assert_int_equal(md_probes_watch(&ends[end].probes, &others[i], MV_WATCH_ALTERNATE, 1, 0,
							 &ends[end].watches, now_ns),
					 0);
		}
	}
	run(MD_S);
	count_anew();
	run(10 * MD_S);
	assert_in_range(ends[A].n_sent[0] + ends[B].n_sent[0], 985, 1015);
}

/* ---- what dies ------------------------------------------------------------------------------- */

/* From when it happens until both ends know, at any moment of an interval. */
static void dies(bool to_a, bool to_b)
{
	uint64_t longest_ns = 0;

	for (unsigned int i = 0; i < 60; i++) {
		uint64_t took_ns;

		run(MD_S / 10 + rnd(INTERVAL));
		lost[A][0] = to_a;
		lost[B][0] = to_b;
		took_ns = until_both_down(MD_S);
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
		assert_true(ends[A].n_warned && ends[B].n_warned);
		put_back();
	}
	/*
	 * Of an end that probes itself: an interval until its next probe, a part of one for the answer, eight rounds. The other end misses that
	 * probe half a part later; and each may be a part late, by the grid.
	 */
	assert_true(longest_ns <= INTERVAL + PART / 2 + PART + 8 * PART + PART);
}

static void test_both_ways(void **state)
{
	(void)state;
	dies(true, true);
}

static void test_one_way(void **state)
{
	(void)state;
	dies(true, false);
	dies(false, true);
}

/* Echoes were slow for a time: an end that rests has forgotten it a second later, too. */
static void test_slow_echoes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		jitter_ns = 4 * MD_MS;
		run(2 * MD_S);
		jitter_ns = 0;
		run(MD_S + MD_S / 5 + rnd(INTERVAL));
		lost[A][0] = lost[B][0] = true;
		assert_true(until_both_down(MD_S) <= INTERVAL + PART / 2 + PART + 8 * PART + PART);
		put_back();
	}
}

/* Who rests hears nothing more of an agent that is stopped, asks itself, and finds nothing dead. */
static void test_the_other_stops(void **state)
{
	unsigned int does;

	(void)state;
	count_anew();
	run(MD_S / 2);
	does = ends[A].n_sent[0] > ends[B].n_sent[0] ? A : B;
	ends[does].stopped = true;
	count_anew();
	run(MD_S / 4);
	assert_true(ends[does == A ? B : A].n_sent[0] > 20);
	ends[does].stopped = false;
	run(MD_S);
	assert_int_equal(ends[A].probes.count.down + ends[B].probes.count.down, 0);
	assert_int_equal(probe(A, 0)->state, MV_PROBED_UP);
	assert_int_equal(probe(B, 0)->state, MV_PROBED_UP);
}

static void test_loss_is_no_death(void **state)
{
	(void)state;
	loss_ppm = 100000;
	run(20 * MD_S);
	assert_int_equal(ends[A].probes.count.down + ends[B].probes.count.down, 0);
	loss_ppm = 0;
	count_anew();
	run(MD_S);
	assert_in_range(ends[A].n_sent[0] + ends[B].n_sent[0], 97, 106);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_probes_for_both, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_in_step, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_both_probe_where_one_is_old, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_alone, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_many_paths, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_both_ways, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_one_way, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_slow_echoes, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_the_other_stops, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_loss_is_no_death, two_setup, two_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
