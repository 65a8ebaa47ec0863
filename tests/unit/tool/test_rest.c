// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Rests between the rounds of a trial: only beside a program, and only while the trial has time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "bench.h"

#define MS 1000000ull

static uint64_t now_ns, slept_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	(void)clock;
	*ret = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000ull), .tv_nsec = (long)(now_ns % 1000000000ull)};
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	uint64_t ns = (uint64_t)time->tv_sec * 1000000000ull + (uint64_t)time->tv_nsec;

	(void)left;
	now_ns += ns;
	slept_ns += ns;
	return 0;
}

/* A round that takes @busy_ns. Return: how long the next round rests. */
static uint64_t rest_after(struct q_bench *b, uint64_t busy_ns)
{
	now_ns += busy_ns;
	slept_ns = 0;
	q_rest(b);
	return slept_ns;
}

static void test_rest(void **state)
{
	struct q_bench b = {.rests = true};

	(void)state;
	now_ns = 1000 * MS;
	b.rest_until_ns = now_ns + 1000 * MS;
	assert_int_equal(rest_after(&b, 5 * MS), 0); /* the first round follows none */
	assert_int_equal(rest_after(&b, 5 * MS), 10 * MS);
	assert_int_equal(rest_after(&b, 3 * MS), 6 * MS); /* the rest itself does not count */
	assert_int_equal(rest_after(&b, 100 * MS), 40 * MS);
	now_ns = b.rest_until_ns - MS;
	assert_int_equal(rest_after(&b, 2 * MS), 0);
}

/* Rests leave half of a trial's time, and half of the time of all trials, to work. */
static void test_half_of_the_time(void **state)
{
	struct q_bench b = {.rests = true};

	(void)state;
	now_ns = 1000 * MS;
	q_begin(&b, 100 * MS, 2000 * MS, 1000 * MS);
	assert_int_equal(b.until_ns, 1100 * MS);
	assert_int_equal(b.rest_until_ns, 1050 * MS);
	now_ns = 1480 * MS;
	q_begin(&b, 100 * MS, 2000 * MS, 1000 * MS);
	assert_int_equal(b.until_ns, 1580 * MS);
	assert_int_equal(b.rest_until_ns, 1500 * MS);
	now_ns = 1950 * MS;
	q_begin(&b, 100 * MS, 2000 * MS, 1000 * MS);
	assert_int_equal(b.until_ns, 2000 * MS);
	assert_int_equal(rest_after(&b, 5 * MS), 0);
	assert_int_equal(rest_after(&b, 5 * MS), 0);
}

static void test_idle_device(void **state)
{
	struct q_bench b = {.rest_until_ns = UINT64_MAX};

	(void)state;
	assert_int_equal(rest_after(&b, 5 * MS), 0);
	assert_int_equal(rest_after(&b, 5 * MS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_half_of_the_time),
		cmocka_unit_test(test_idle_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
