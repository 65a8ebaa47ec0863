/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: paths that work, what processes are told of them, and what others send. */
#include "probeworld.h"

static void test_nothing_to_do(void **state)
{
	(void)state;
	assert_true(probes.next_ns == UINT64_MAX);
	watch(1, MV_WATCH_ALTERNATE);
	assert_true(probes.next_ns == UINT64_MAX);
	watch(0, MV_WATCH_WORK);
	run(MD_S);
	watch(0, 0);
	assert_true(probes.next_ns == UINT64_MAX);
	assert_int_equal(n_sent[1], 0);
	assert_null(md_probes_find(&probes, &wires[0].key));
}

static void test_alive(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	assert_int_equal(told[0], MV_PROBED_UNKNOWN);
	assert_int_equal(n_told[0], 1);
	run(10 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(n_told[0], 2);
	assert_in_range(n_sent[0], 990, 1010);
	assert_int_equal(n_sent[1], 0);
	/* Nobody wakes up to see whether there is an answer that has come. */
	assert_in_range(n_ticks, 990, 1010);
}

/* Answers that begin to take longer are seen for what they are. */
static void test_slow(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].delay_ns = 3 * MD_MS;
	run(10 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(n_told[0], 2);
	assert_int_equal(n_warned[0], 0);
	assert_in_range(n_sent[1], 1, 5);
	assert_in_range(n_sent[0], 1090, 1120);
	/* Now and then. */
	n_sent[1] = 0;
	for (int i = 0; i < 200; i++) {
		wires[0].delay_ns = (i % 4 ? 1 : 3) * MD_MS;
		run(INTERVAL);
	}
	assert_in_range(n_sent[1], 0, 5);
}

/* A path that fails with it is known to be no better before anybody is warned. */
static void test_warned_of_all(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	watch(2, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = true;
	until_down(0, MD_S);
	wires[0].there_lost = false;
	run(5 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(told[2], MV_PROBED_UP);
	n_warned[0] = 0;
	wires[0].there_lost = wires[2].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	assert_int_equal(told[2], MV_PROBED_SILENT);
	assert_int_equal(told[1], MV_PROBED_UP);
}

/* Two paths that queue pairs are at work on; the second to be found dead is not said to be well because of the first. */
static void test_both_die(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	run(3 * MD_MS);
	watch(2, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	for (int i = 0; i < 20; i++) {
		run(12 * MD_S + rnd(INTERVAL));
		assert_int_equal(told[0], MV_PROBED_UP);
		assert_int_equal(told[2], MV_PROBED_UP);
		n_told[0] = n_told[2] = n_warned[0] = n_warned[2] = 0;
		wires[0].there_lost = true;
		run(rnd(INTERVAL));
		wires[2].there_lost = true;
		run(60 * MD_MS);
		assert_int_equal(told[0], MV_PROBED_DOWN);
		assert_int_equal(told[2], MV_PROBED_DOWN);
		assert_int_equal(n_warned[0], 1);
		assert_int_equal(n_warned[2], 1);
		assert_int_equal(n_told[0], 1);
		assert_int_equal(n_told[2], 1);
		wires[0].there_lost = wires[2].there_lost = false;
	}
}

/* So many suspects that each is asked seldom: the warning comes when there is not much more to ask. */
static void test_warned_late(void **state)
{
	uint64_t warned_ns;

	(void)state;
	probes.interval_ns = 100 * MD_MS;
	for (unsigned int i = 0; i < 2; i++) {
		watch(0, MV_WATCH_WORK);
		watch(1, MV_WATCH_ALTERNATE);
		run(2 * MD_S);
		wires[0].there_lost = true;
		while (!n_warned[0])
			step(now_ns + MD_S);
		warned_ns = now_ns;
		until_down(0, MD_S);
		assert_in_range(now_ns - warned_ns, 50 * MD_MS, 100 * MD_MS);
		wires[0].there_lost = false;
		run(30 * MD_S);
		n_warned[0] = 0;
	}
}

/* An agent from before there were probes, or a firewall. */
static void test_never_answered(void **state)
{
	(void)state;
	wires[0].mute = true;
	watch(0, MV_WATCH_WORK | MV_WATCH_PRIMARY);
	watch(1, MV_WATCH_WORK);
	run(60 * MD_S);
	assert_int_equal(state_of(0), MV_PROBED_UNKNOWN);
	assert_int_equal(n_told[0], 1);
	assert_int_equal(state_of(1), MV_PROBED_UP);
	/* Soon it is hardly asked any more; but it may have been upgraded. */
	assert_true(n_sent[0] < 250);
	wires[0].mute = false;
	run(2 * MD_S);
	assert_int_equal(state_of(0), MV_PROBED_UP);
}

/* It has been silent for long, and then it is the only one and answers: it is brisk at once. */
static void test_brisk_again(void **state)
{
	uint64_t before;

	(void)state;
	wires[0].mute = true;
	watch(0, MV_WATCH_WORK);
	run(60 * MD_S);
	/* Its host knows us now. */
	before = n_sent[0];
	assert_true(probes.next_ns > now_ns);
	md_probes_challenged(&probes, &wires[0].key, now_ns);
	assert_true(probes.next_ns == now_ns);
	run(INTERVAL);
	assert_int_equal(n_sent[0], before + 1);
	run(60 * MD_S);
	wires[0].mute = false;
	while (state_of(0) != MV_PROBED_UP)
		step(now_ns + MD_S);
	before = n_sent[0];
	run(10 * INTERVAL);
	assert_in_range(n_sent[0] - before, 9, 11);
}

/* ---- what others send ------------------------------------------------------------------------ */

static void test_stray(void **state)
{
	const struct mv_host_id host = {{HOST}};
	struct md_probe_wire echo = {0};
	struct md_probe *p;

	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	p = md_probes_find(&probes, &wires[0].key);
	assert_true(p->nonce != md_probes_find(&probes, &wires[1].key)->nonce);
	wires[0].there_lost = true;
	run(20 * MD_MS);
	for (int i = 0; i < 100; i++) {
		run(2 * MD_MS);
		echo = (struct md_probe_wire){.nonce = p->nonce + 1, .number = p->number};
		md_probes_echo(&probes, &wires[0].key, &echo, &host, now_ns);
		echo = (struct md_probe_wire){.nonce = p->nonce, .number = p->number + 1};
		md_probes_echo(&probes, &wires[0].key, &echo, &host, now_ns);
		echo = (struct md_probe_wire){.nonce = p->nonce, .number = p->answered}; /* once more */
		md_probes_echo(&probes, &wires[0].key, &echo, &host, now_ns);
		md_probes_echo(&probes, &wires[3].key, &echo, &host, now_ns);
	}
	assert_int_equal(state_of(0), MV_PROBED_DOWN);
	assert_int_equal(probes.count.stray, 300);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void test_told_later(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	socket_full = true;
	wires[0].there_lost = true;
	until_down(0, MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	socket_full = false;
	run(50 * MD_MS);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	assert_int_equal(n_told[0], 3);
}

/* Who watches more and more meanwhile does not put it off; and nothing is left to do afterwards. */
static void test_told_soon(void **state)
{
	uint64_t due_ns;

	(void)state;
	socket_full = true;
	watch(0, MV_WATCH_ALTERNATE);
	due_ns = probes.next_ns;
	assert_true(due_ns == now_ns + INTERVAL);
	now_ns += INTERVAL / 2;
	watch(1, MV_WATCH_ALTERNATE);
	assert_true(probes.next_ns == due_ns);
	/* Nor does the last one that was probed. */
	watch(2, MV_WATCH_WORK);
	watch(2, 0);
	assert_true(probes.next_ns <= due_ns);
	socket_full = false;
	run(INTERVAL);
	assert_int_equal(n_told[0], 1);
	assert_int_equal(n_told[1], 1);
	assert_true(probes.next_ns == UINT64_MAX);
}

/* The echo of one that is an alternate path by now. */
static void test_told_of_alternate(void **state)
{
	(void)state;
	wires[0].delay_ns = INTERVAL;
	watch(0, MV_WATCH_WORK);
	run(INTERVAL);
	watch(0, MV_WATCH_ALTERNATE);
	assert_true(probes.next_ns == UINT64_MAX);
	socket_full = true;
	run(3 * INTERVAL);
	assert_int_equal(state_of(0), MV_PROBED_UP);
	assert_int_equal(told[0], MV_PROBED_UNKNOWN);
	socket_full = false;
	run(2 * INTERVAL);
	assert_int_equal(told[0], MV_PROBED_UP);
}

/* Who is told one nonce cannot compute the next one: no counter, and no linear congruence. */
static void test_nonces_cannot_be_computed(void **state)
{
	uint64_t first, second, third;

	(void)state;
	for (unsigned int path = 0; path < 3; path++)
		watch(path, MV_WATCH_WORK);
	first = md_probes_find(&probes, &wires[0].key)->nonce;
	second = md_probes_find(&probes, &wires[1].key)->nonce;
	third = md_probes_find(&probes, &wires[2].key)->nonce;
	assert_true(second - first != third - second);
	/* Constants of the generator that Knuth and others publish. */
	assert_true(second != first * 6364136223846793005ull + 1442695040888963407ull);
	assert_true(third != second * 6364136223846793005ull + 1442695040888963407ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_to_do, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_brisk_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_of_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stray, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_soon, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_of_alternate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonces_cannot_be_computed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
