/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When beacons go out. The clock is ours. */
#include "unit.h"

#include <string.h>

#include "announce.h"
#include "peers.h"

static struct md_announce announce;
static struct md_view *view;
static uint64_t now;

static uint32_t no_jitter(uint32_t below)
{
	assert_true(below > 0);
	return 0;
}

static uint32_t most_jitter(uint32_t below)
{
	return below - 1;
}

static int setup(void **state)
{
	(void)state;
	memset(&announce, 0, sizeof(announce));
	announce.interval_ms = 1000;
	announce.random = no_jitter;
	view = peers_view("rail mlx5_0; rail mlx5_1;");
	now = 100 * MD_S;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_view_free(view);
	return 0;
}

/* Lets time pass; returns how many beacons went out on a netdev, and of these how many with the
 * whole description. */
static unsigned int run(uint64_t for_ns, uint32_t ifindex, unsigned int *ret_whole)
{
	uint64_t until = now + for_ns;
	unsigned int n = 0;

	*ret_whole = 0;
	while (md_announce_next(&announce) <= until) {
		const struct md_outlet *outlet;
		bool whole;

		now = md_announce_next(&announce);
		while ((outlet = md_announce_due(&announce, now, &whole))) {
			n += outlet->ifindex == ifindex;
			*ret_whole += outlet->ifindex == ifindex && whole;
		}
	}
	now = until;
	return n;
}

static void test_burst_then_interval(void **state)
{
	unsigned int whole;

	(void)state;
	assert_true(md_announce_next(&announce) == UINT64_MAX);
	md_announce_nets(&announce, view, now);
	/* At once, after 100 ms, after another 200. */
	assert_int_equal(run(99 * MD_MS, 1, &whole), 1);
	assert_int_equal(run(2 * MD_MS, 1, &whole), 1);
	assert_int_equal(run(201 * MD_MS, 1, &whole), 1);
	assert_int_equal(whole, 1);
	/* Then one a second, without the description. */
	assert_int_equal(run(10 * MD_S, 2, &whole), 10);
	assert_int_equal(whole, 0);
	/* Jitter makes it more often, by a tenth at most. */
	announce.random = most_jitter;
	assert_in_range(run(100 * MD_S, 1, &whole), 108, 112);
}

static void test_change_is_told_at_once(void **state)
{
	unsigned int whole;

	(void)state;
	md_announce_nets(&announce, view, now);
	run(10 * MD_S, 1, &whole);
	md_announce_nets(&announce, view, now);
	assert_int_equal(run(MD_MS, 1, &whole), 1);
	assert_int_equal(whole, 1);
	/* A netdev goes. */
	view->n_nets = 1;
	md_announce_nets(&announce, view, now);
	assert_int_equal(announce.n, 1);
	assert_int_equal(run(10 * MD_S, 2, &whole), 0);
}

/* How long after a change it is told at the latest, where so many others may have seen the same. */
static uint64_t told_after(size_t n_heard)
{
	md_announce_heard(&announce, 1, n_heard);
	announce.outlets[0].next_ns = 0;
	md_announce_nets(&announce, view, now);
	return announce.outlets[0].next_ns - now;
}

static void test_few_speak_sooner(void **state)
{
	(void)state;
	md_announce_nets(&announce, view, now);
	announce.random = most_jitter;
	assert_int_equal(announce.outlets[0].ifindex, 1);
	assert_int_equal(told_after(0), 0);
	assert_int_equal(told_after(2), 2 * MD_SPEAK_EACH_NS);
	assert_int_equal(told_after(MD_SPEAK_NS / MD_SPEAK_EACH_NS - 1), MD_SPEAK_NS - MD_SPEAK_EACH_NS);
	assert_int_equal(told_after(10000), MD_SPEAK_NS);
}

static void test_greeting(void **state)
{
	unsigned int whole;

	(void)state;
	md_announce_nets(&announce, view, now);
	run(10 * MD_S, 1, &whole);
	now += 150 * MD_MS;
	assert_int_equal(md_announce_greet(&announce, 1, now), 0);
	assert_int_equal(run(MD_MS, 1, &whole), 1);
	assert_int_equal(whole, 1);
	/* Two hundred newcomers within 10 ms are greeted together, and not before the spacing is
	 * over. */
	for (int i = 0; i < 200; i++)
		assert_int_equal(md_announce_greet(&announce, 1, now + (uint64_t)i * 50000), 0);
	assert_int_equal(run(90 * MD_MS, 1, &whole), 0);
	assert_int_equal(run(20 * MD_MS, 1, &whole), 1);
	/* With many on the link, the newcomer alone. */
	md_announce_heard(&announce, 1, MD_ANSWER_ALL_MAX + 1);
	assert_true(md_announce_greet(&announce, 1, now) > 0);
	announce.random = most_jitter;
	assert_in_range(md_announce_greet(&announce, 1, now), 40 * MD_MS, 60 * MD_MS);
	md_announce_heard(&announce, 1, 10000);
	assert_in_range(md_announce_greet(&announce, 1, now), 1990 * MD_MS, 2010 * MD_MS);
	assert_int_equal(md_announce_greet(&announce, 99, now), 0);
}

/* All beacons of a link together stay below the rate, whatever the number of hosts. */
static void test_interval_grows(void **state)
{
	static const struct {
		size_t n;
		uint32_t interval_ms;
	} cases[] = {{0, 1000},   {200, 1000},   {249, 1000},
		     {499, 2000}, {9999, 40000}, {1000000, 60000}};

	(void)state;
	md_announce_nets(&announce, view, now);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		md_announce_heard(&announce, 1, cases[i].n);
		assert_int_equal(announce.outlets[0].interval_ms, cases[i].interval_ms);
	}
	assert_int_equal(announce.outlets[1].interval_ms, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_burst_then_interval, setup, teardown),
		cmocka_unit_test_setup_teardown(test_change_is_told_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_speak_sooner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_greeting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interval_grows, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
