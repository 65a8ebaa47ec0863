/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Copies of messages are told from new ones. */
#include "unit.h"

#include <string.h>

#include "msg_dedup.h"

static struct md_msg_dedup dedup;

static int setup(void **state)
{
	(void)state;
	memset(&dedup, 0, sizeof(dedup));
	return 0;
}

static void test_copies(void **state)
{
	(void)state;
	for (uint64_t hash = 0; hash < 100; hash += 2) {
		assert_true(md_msg_dedup_first(&dedup, hash, 10 * MD_S));
		assert_false(md_msg_dedup_first(&dedup, hash, 10 * MD_S));
	}
	for (uint64_t hash = 0; hash < 100; hash += 2)
		assert_false(md_msg_dedup_first(&dedup, hash, 10 * MD_S + MD_DEDUP_NS - 1));
}

/* Of one chain: all begin at the same slot. */
static void test_chain(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 1000; i++)
		assert_true(md_msg_dedup_first(&dedup, i * MD_DEDUP_SLOTS - 1, 10 * MD_S));
	for (uint64_t i = 1; i < 1000; i++)
		assert_false(md_msg_dedup_first(&dedup, i * MD_DEDUP_SLOTS - 1, 10 * MD_S));
}

/* Everything that a sender may still repeat is known, and nothing for ever. */
static void test_time(void **state)
{
	(void)state;
	assert_true(md_msg_dedup_first(&dedup, 5, 10 * MD_S));
	for (uint64_t t = 10 * MD_S; t < 10 * MD_S + MD_DEDUP_NS; t += 100 * MD_MS)
		assert_false(md_msg_dedup_first(&dedup, 5, t));
	assert_true(md_msg_dedup_first(&dedup, 6, 10 * MD_S + MD_DEDUP_NS));
	assert_false(md_msg_dedup_first(&dedup, 5, 10 * MD_S + MD_DEDUP_NS));
	assert_true(md_msg_dedup_first(&dedup, 5, 10 * MD_S + 2 * MD_DEDUP_NS));
}

/* However many there are: the last ones are known. */
static void test_many(void **state)
{
	(void)state;
	for (uint64_t hash = 1; hash <= 1000000; hash++) {
		assert_true(md_msg_dedup_first(&dedup, hash, 10 * MD_S));
		if (hash > 1000)
			assert_false(md_msg_dedup_first(&dedup, hash - 1000, 10 * MD_S));
		if (hash > MD_DEDUP_SLOTS / 2)
			assert_false(md_msg_dedup_first(&dedup, hash - MD_DEDUP_SLOTS / 2 + 1,
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
