/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The window that drops copies, against a set that remembers everything. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "window.h"

static struct md_window window;

static void test_copies(void **state)
{
	(void)state;
	memset(&window, 0, sizeof(window));
	assert_true(md_window_take(&window, 1, 1000));
	assert_false(md_window_take(&window, 1, 1000));
	/* Overtaken ones are taken once. */
	assert_true(md_window_take(&window, 1, 999));
	assert_false(md_window_take(&window, 1, 999));
	assert_true(md_window_take(&window, 1, 1001));
	assert_false(md_window_take(&window, 1, 1000));
	/* A jump: what is just inside, and just outside. */
	assert_true(md_window_take(&window, 1, 1001 + MD_SEEN_BITS));
	assert_true(md_window_take(&window, 1, 1002));
	assert_false(md_window_take(&window, 1, 1001));
	assert_false(md_window_take(&window, 1, 1000));
}

static void test_restart(void **state)
{
	(void)state;
	memset(&window, 0, sizeof(window));
	assert_true(md_window_take(&window, 5, 100));
	assert_true(md_window_take(&window, 6, 100));
	assert_false(md_window_take(&window, 6, 100));
	assert_true(md_window_take(&window, 6, 99));
	/* Of its former life. */
	assert_false(md_window_take(&window, 5, 101));
}

/* Ids around a moving point, as several paths and repetitions mix them. */
static void test_random(void **state)
{
	static uint8_t taken[400000];
	unsigned int seed = (unsigned int)time(NULL);
	uint64_t base = 1ull << 40, newest = 0;

	(void)state;
	print_message("seed %u\n", seed);
	memset(&window, 0, sizeof(window));
	for (int i = 0; i < 300000; i++) {
		uint64_t id = base + (uint64_t)i + (uint64_t)(rand_r(&seed) % 20000);
		bool old = newest && id <= newest && newest - id >= MD_SEEN_BITS;
		bool expected = !old && !taken[id - base];

		if (md_window_take(&window, 1, id) != expected)
			fail_msg("id %llu, newest %llu: expected %d",
				 (unsigned long long)(id - base),
				 (unsigned long long)(newest - base), expected);
		taken[id - base] = 1;
		if (id > newest)
			newest = id;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
