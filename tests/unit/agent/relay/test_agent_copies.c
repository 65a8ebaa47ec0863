/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Copies of messages are told from new ones. */
#include "unit.h"

#include <string.h>

#include "copies.h"

static struct md_copies copies;

static int setup(void **state)
{
	(void)state;
	memset(&copies, 0, sizeof(copies));
	return 0;
}

static void test_copies(void **state)
{
	(void)state;
	for (uint64_t hash = 0; hash < 100; hash += 2) {
		assert_true(md_copies_first(&copies, hash, 10 * MD_S));
		assert_false(md_copies_first(&copies, hash, 10 * MD_S));
	}
	for (uint64_t hash = 0; hash < 100; hash += 2)
		assert_false(md_copies_first(&copies, hash, 10 * MD_S + MD_COPIES_NS - 1));
}

/* Of one chain: all begin at the same slot. */
static void test_chain(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 1000; i++)
		assert_true(md_copies_first(&copies, i * MD_COPIES_SLOTS - 1, 10 * MD_S));
	for (uint64_t i = 1; i < 1000; i++)
		assert_false(md_copies_first(&copies, i * MD_COPIES_SLOTS - 1, 10 * MD_S));
}

/* Everything that a sender may still repeat is known, and nothing for ever. */
static void test_time(void **state)
{
	(void)state;
	assert_true(md_copies_first(&copies, 5, 10 * MD_S));
	for (uint64_t t = 10 * MD_S; t < 10 * MD_S + MD_COPIES_NS; t += 100 * MD_MS)
		assert_false(md_copies_first(&copies, 5, t));
	assert_true(md_copies_first(&copies, 6, 10 * MD_S + MD_COPIES_NS));
	assert_false(md_copies_first(&copies, 5, 10 * MD_S + MD_COPIES_NS));
	assert_true(md_copies_first(&copies, 5, 10 * MD_S + 2 * MD_COPIES_NS));
}

/* However many there are: the last ones are known. */
static void test_many(void **state)
{
	(void)state;
	for (uint64_t hash = 1; hash <= 1000000; hash++) {
		assert_true(md_copies_first(&copies, hash, 10 * MD_S));
		if (hash > 1000)
			assert_false(md_copies_first(&copies, hash - 1000, 10 * MD_S));
		if (hash > MD_COPIES_SLOTS / 2)
			assert_false(md_copies_first(&copies, hash - MD_COPIES_SLOTS / 2 + 1,
						     10 * MD_S));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_copies, setup),
		cmocka_unit_test_setup(test_chain, setup),
		cmocka_unit_test_setup(test_time, setup),
		cmocka_unit_test_setup(test_many, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
