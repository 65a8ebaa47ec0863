/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "fault.h"
#include "seen.h"

/* A port table as "INDEX GID" pairs, all RoCE v2, on the caller's stack. */
struct table {
	struct mv_port port;
	struct mv_gid_entry gids[16];
};

static void table_add(struct table *table, uint32_t index, const char *gid)
{
	table->port.num = 1;
	table->port.gids = table->gids;
	table->gids[table->port.n_gids++] = (struct mv_gid_entry){
		.index = index, .gid = unit_gid(gid), .type = MV_GID_TYPE_ROCE_V2};
}

static void update_one(struct mv_seen_log *log, uint32_t index, const char *gid)
{
	struct table table = {0};

	table_add(&table, index, gid);
	assert_int_equal(mv_seen_update(log, &table.port), 0);
}

/* Everything seen under port 1's @index, newest first, as "a b c". */
static void assert_seen(const struct mv_seen_log *log, uint32_t index, const char *expected)
{
	char text[512] = "", gid[MV_GID_STRLEN];
	struct mv_seen seen[8];
	size_t n = mv_seen_get(log, 1, index, seen, 8);

	for (size_t i = 0; i < n; i++) {
		if (i)
			strcat(text, " ");
		strcat(text, mv_gid_format(&seen[i].gid, gid));
	}
	assert_string_equal(text, expected);
}

static void test_history(void **state)
{
	struct mv_seen_log *log = mv_seen_new();

	(void)state;
	assert_seen(log, 3, "");
	update_one(log, 3, "10.1.0.1");
	assert_seen(log, 3, "10.1.0.1");
	update_one(log, 3, "10.1.0.1");
	assert_seen(log, 3, "10.1.0.1");
	update_one(log, 3, "10.1.0.2");
	assert_seen(log, 3, "10.1.0.2 10.1.0.1");
	/* A value that comes back is the newest again, and there once. */
	update_one(log, 3, "10.1.0.1");
	assert_seen(log, 3, "10.1.0.1 10.1.0.2");
	assert_seen(log, 4, "");
	/* An index that is no longer in the table keeps what was seen. */
	update_one(log, 4, "10.1.0.9");
	assert_seen(log, 3, "10.1.0.1 10.1.0.2");
	assert_seen(log, 4, "10.1.0.9");
	mv_seen_free(log);
	mv_seen_free(NULL);
}

static void test_whole_table(void **state)
{
	struct mv_seen_log *log = mv_seen_new();
	struct table table = {0};

	(void)state;
	table_add(&table, 0, "fe80::1");
	table_add(&table, 3, "10.1.0.1");
	table_add(&table, 200, "10.1.0.2");
	assert_int_equal(mv_seen_update(log, &table.port), 0);
	assert_seen(log, 0, "fe80::1");
	assert_seen(log, 3, "10.1.0.1");
	assert_seen(log, 200, "10.1.0.2");
	table.port.n_gids = 0;
	assert_int_equal(mv_seen_update(log, &table.port), 0);
	assert_seen(log, 3, "10.1.0.1");
	mv_seen_free(log);
}

static void test_type_and_port_tell_apart(void **state)
{
	struct mv_seen_log *log = mv_seen_new();
	struct table table = {0};
	struct mv_seen seen[4];

	(void)state;
	table_add(&table, 3, "10.1.0.1");
	assert_int_equal(mv_seen_update(log, &table.port), 0);
	table.gids[0].type = MV_GID_TYPE_ROCE_V1;
	assert_int_equal(mv_seen_update(log, &table.port), 0);
	assert_int_equal(mv_seen_get(log, 1, 3, seen, 4), 2);
	assert_int_equal(seen[0].type, MV_GID_TYPE_ROCE_V1);
	assert_int_equal(seen[1].type, MV_GID_TYPE_ROCE_V2);
	table.port.num = 2;
	table.gids[0].gid = unit_gid("10.2.0.1");
	assert_int_equal(mv_seen_update(log, &table.port), 0);
	assert_int_equal(mv_seen_get(log, 1, 3, seen, 4), 2);
	assert_int_equal(mv_seen_get(log, 2, 3, seen, 4), 1);
	assert_gid(seen[0].gid, "10.2.0.1");
	/* No more than asked for: the newest. */
	assert_int_equal(mv_seen_get(log, 1, 3, seen, 1), 1);
	assert_int_equal(seen[0].type, MV_GID_TYPE_ROCE_V1);
	assert_int_equal(mv_seen_get(log, 1, 3, seen, 0), 0);
	mv_seen_free(log);
}

static void test_limit(void **state)
{
	struct mv_seen_log *log = mv_seen_new();
	struct mv_seen *seen = calloc(MV_SEEN_MAX + 1, sizeof(*seen));
	struct table table = {0};
	size_t n = MV_SEEN_MAX + 10;

	(void)state;
	table_add(&table, 1, "fe80::1");
	table_add(&table, 3, "10.0.0.0");
	for (size_t i = 0; i < n; i++) {
		table.gids[1].gid.raw[14] = (uint8_t)(i >> 8);
		table.gids[1].gid.raw[15] = (uint8_t)i;
		assert_int_equal(mv_seen_update(log, &table.port), 0);
	}
	/*
	 * fe80::1, still in the table, was recorded again when it had been forgotten as the oldest.
	 */
	assert_seen(log, 1, "fe80::1");
	assert_int_equal(mv_seen_get(log, 1, 3, seen, MV_SEEN_MAX + 1), MV_SEEN_MAX - 1);
	assert_int_equal(seen[0].gid.raw[15], (uint8_t)(n - 1));
	assert_int_equal(seen[0].gid.raw[14], (uint8_t)((n - 1) >> 8));
	assert_int_equal(seen[MV_SEEN_MAX - 2].gid.raw[15], (uint8_t)(n - (MV_SEEN_MAX - 1)));
	free(seen);
	mv_seen_free(log);
}

static void check_no_memory(void)
{
	struct mv_seen_log *log = mv_seen_new();
	struct table table = {0};
	int err;

	if (!log) {
		assert_true(fault_fired());
		return;
	}
	table_add(&table, 3, "10.1.0.1");
	err = mv_seen_update(log, &table.port);
	assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
	assert_seen(log, 3, err ? "" : "10.1.0.1");
	table_add(&table, 5, "10.1.0.5");
	table.gids[0].gid = unit_gid("10.1.0.7");
	err = mv_seen_update(log, &table.port);
	if (err) {
		/* All or nothing: the log is as before. */
		assert_int_equal(err, -ENOMEM);
		assert_seen(log, 3, "10.1.0.1");
		assert_seen(log, 5, "");
	} else {
		assert_seen(log, 5, "10.1.0.5");
	}
	mv_seen_free(log);
}

static void test_no_memory(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_no_memory());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_history),
		cmocka_unit_test(test_whole_table),
		cmocka_unit_test(test_type_and_port_tell_apart),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
