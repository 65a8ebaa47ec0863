// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Quirks as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quirk_names.h"

static int set(struct sim_dev *d, const char *text, char *why, size_t size)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	why[0] = '\0';
	return quirk_set(d, copy, why, size);
}

static void test_each(void **state)
{
	struct sim_dev *d = calloc(1, sizeof(*d));
	char text[512], why[512], all[512] = "";

	(void)state;
	assert_non_null(d);
	for (int q = 0; q < SIM_N_QUIRKS; q++) {
		atomic_store(&d->quirks, 1u << q);
		assert_true(quirk_format(d, text, sizeof(text)) > 0);
		assert_int_equal(set(d, "none", why, sizeof(why)), 0);
		assert_int_equal(d->quirks, 0);
		assert_int_equal(set(d, text, why, sizeof(why)), 0);
		assert_int_equal(d->quirks, 1u << q);
		strcat(all, text);
		strcat(all, " ");
	}
	assert_int_equal(set(d, all, why, sizeof(why)), 0);
	assert_int_equal(d->quirks, (1u << SIM_N_QUIRKS) - 1);
	assert_true(quirk_format(d, text, sizeof(text)) < sizeof(text));
	free(d);
}

static void test_refused(void **state)
{
	struct sim_dev *d = calloc(1, sizeof(*d));
	char why[512];

	(void)state;
	assert_non_null(d);
	atomic_store(&d->quirks, 2);
	assert_int_equal(set(d, "late-dma frob", why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "'frob'"));
	assert_non_null(strstr(why, "psn-highest"));
	assert_int_equal(set(d, "", why, sizeof(why)), -EINVAL);
	assert_int_equal(quirk_set(d, NULL, why, sizeof(why)), -EINVAL);
	assert_int_equal(d->quirks, 2);
	free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_each), cmocka_unit_test(test_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
