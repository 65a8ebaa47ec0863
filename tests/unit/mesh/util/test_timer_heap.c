// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What is due first, against a search through all that waits. */
#include "unit.h"

#include "random.h"
#include "timer_heap.h"

#define N     200
#define STEPS 200000

static struct mesh_timer things[N], *first;

static uint64_t soonest(void)
{
	uint64_t at = UINT64_MAX;

	for (unsigned int i = 0; i < N; i++)
		if (mesh_timer_is_set(&things[i]) && things[i].at_ns < at)
			at = things[i].at_ns;
	return at;
}

static void test_against_search(void **state)
{
	unsigned int i, n = 0, most = 0, step;

	(void)state;
	rng = 1;
	for (step = 0; step < STEPS; step++) {
		i = rnd(N);
		if (!mesh_timer_is_set(&things[i])) {
			mesh_timer_add(&first, &things[i], rnd(50)); /* many at the same time */
			n++;
		} else if (chance(50)) {
			mesh_timer_remove(&first, &things[i]);
			assert_false(mesh_timer_is_set(&things[i]));
			n--;
		} else {
			mesh_timer_remove(&first, first);
			n--;
		}
		most = n > most ? n : most;
		assert_int_equal(first ? first->at_ns : UINT64_MAX, soonest());
	}
	assert_true(most > N / 3);
	for (; first; n--)
		mesh_timer_remove(&first, first);
	assert_int_equal(n, 0);
}

static void test_order(void **state)
{
	uint64_t last = 0;

	(void)state;
	rng = 2;
	for (unsigned int i = 0; i < N; i++)
		mesh_timer_add(&first, &things[i], ((uint64_t)rnd(1000000) << 40) + i);
	for (unsigned int i = 0; i < N; i++) {
		assert_non_null(first);
		assert_true(first->at_ns >= last);
		last = first->at_ns;
		mesh_timer_remove(&first, first);
	}
	assert_null(first);
	mesh_timer_remove(&first, &things[0]); /* does not wait */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_search), cmocka_unit_test(test_order)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
