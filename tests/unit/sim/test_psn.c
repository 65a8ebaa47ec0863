/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "psn.h"

static void add_wraps(void **state)
{
	(void)state;
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0, -1), 0xffffff);
	assert_int_equal(psn_add(0xfffff0, 0x20), 0x10);
	assert_int_equal(psn_add(5, 7), 12);
}

static void diff_is_signed_across_the_wrap(void **state)
{
	(void)state;
	assert_int_equal(psn_diff(0, 0xffffff), 1);
	assert_int_equal(psn_diff(0xffffff, 0), -1);
	assert_int_equal(psn_diff(0x10, 0xfffff0), 0x20);
	assert_int_equal(psn_diff(7, 7), 0);
	/* Half of the circle is the border between before and after. */
	assert_int_equal(psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(psn_diff(0x800000, 0), -0x800000);
}

static void diff_undoes_add(void **state)
{
	(void)state;
	for (uint32_t psn = 0; psn <= PSN_MASK; psn += 65521)
		for (int32_t n = -300; n <= 300; n += 37)
			assert_int_equal(psn_diff(psn_add(psn, n), psn), n);
}

static void count_rounds_up_and_is_never_zero(void **state)
{
	(void)state;
	assert_int_equal(psn_count(0, 1024), 1);
	assert_int_equal(psn_count(1, 1024), 1);
	assert_int_equal(psn_count(1024, 1024), 1);
	assert_int_equal(psn_count(1025, 1024), 2);
	assert_int_equal(psn_count(0x80000000u, 4096), 0x80000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_wraps),
		cmocka_unit_test(diff_is_signed_across_the_wrap),
		cmocka_unit_test(diff_undoes_add),
		cmocka_unit_test(count_rounds_up_and_is_never_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
