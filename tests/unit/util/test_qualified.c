/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qualified.h"
#include "tmpdir.h"

static const struct mv_qualified_key key = {
	.board_id = "MT_0000000223", .firmware = "20.35.1012", .kernel = "6.1.0-18-amd64", .libmlx5 = "00ff2a"};

/* On the heap: it is large. */
static struct mv_qualified *example(void)
{
	struct mv_qualified *q = calloc(1, sizeof(*q));

	assert_non_null(q);
	*q = (struct mv_qualified){.device = "mlx5_0", .key = key, .verdict = MV_VERDICT_FAILED, .time_s = 1764381600, .seconds = 12.5, .n_trials = 2};
	q->trials[0] = (struct mv_qualified_trial){.name = "prefix",
						   .verdict = MV_TRIAL_FAIL,
						   .assumption = "rq_psn is \"it\"",
						   .source = "IBTA 9.7.4",
						   .reason = "slot 3\n",
						   .figures = {{"rounds", 200}, {"ms", 0.25}},
						   .n_figures = 2};
	q->trials[1] = (struct mv_qualified_trial){.name = "flush", .verdict = MV_TRIAL_PASS, .assumption = "a", .source = "b"};
	return q;
}

static void test_file_name(void **state)
{
	struct mv_qualified_key k = key;
	char name[256] = "as it was";

	(void)state;
	assert_int_equal(mv_qualified_file_name(&k, name, sizeof(name)), 0);
	assert_string_equal(name, "MT_0000000223_20.35.1012_6.1.0-18-amd64_00ff2a.json");
	strcpy(k.board_id, "../a b/");
	strcpy(k.kernel, "6.1+x~\xc3");
	assert_int_equal(mv_qualified_file_name(&k, name, sizeof(name)), 0);
	assert_string_equal(name, "_._a_b__20.35.1012_6.1+x___00ff2a.json");
	assert_int_equal(mv_qualified_file_name(&k, name, 20), -ENAMETOOLONG);
	k.firmware[0] = '\0';
	assert_int_equal(mv_qualified_file_name(&k, name, sizeof(name)), -EINVAL);
	assert_string_equal(name, "_._a_b__20.35.1012_6.1+x___00ff2a.json");
	k = key;
	assert_true(mv_qualified_same_key(&k, &key));
	k.libmlx5[0] = '1';
	assert_false(mv_qualified_same_key(&k, &key));
}

static void test_decide(void **state)
{
	struct mv_qualified_trial *t = calloc(3, sizeof(*t));

	(void)state;
	t[0].verdict = t[1].verdict = t[2].verdict = MV_TRIAL_PASS;
	assert_int_equal(mv_qualified_decide(t, 0), MV_VERDICT_UNSURE);
	assert_int_equal(mv_qualified_decide(t, 3), MV_VERDICT_QUALIFIED);
	t[1].verdict = MV_TRIAL_SKIPPED;
	assert_int_equal(mv_qualified_decide(t, 3), MV_VERDICT_QUALIFIED);
	assert_int_equal(mv_qualified_decide(&t[1], 1), MV_VERDICT_UNSURE);
	t[0].verdict = MV_TRIAL_UNSURE;
	assert_int_equal(mv_qualified_decide(t, 3), MV_VERDICT_UNSURE);
	t[2].verdict = MV_TRIAL_FAIL;
	assert_int_equal(mv_qualified_decide(t, 3), MV_VERDICT_FAILED);
	free(t);
}

static void test_there_and_back(void **state)
{
	struct mv_qualified *q = example(), *got = calloc(1, sizeof(*got));
	char *text = mv_qualified_text(q);

	(void)state;
	assert_non_null(text);
	assert_int_equal(mv_qualified_parse(text, strlen(text), got), 0);
	assert_memory_equal(got, q, sizeof(*q));
	assert_true(mv_qualified_figure(mv_qualified_trial(got, "prefix"), "ms", 0) == 0.25);
	assert_true(mv_qualified_figure(mv_qualified_trial(got, "flush"), "ms", 7) == 7);
	assert_null(mv_qualified_trial(got, "other"));
	free(text);
	free(got);
	free(q);
}

/* What is not as it was written is refused, and nothing is given back. */
static void test_damaged(void **state)
{
	static const char *const changes[][2] = {
		{"\"version\"", "\"vers\""},	  {"\"failed\"", "\"qualified\""}, {"\"fail\"", "\"fine\""},   {"\"reason\"", "\"r\""},
		{"[\n", "[1,\n"}, {"\"rounds\": 200", "\"rounds\": \"2\""}, {"\"mlx5_0\"", "7"}, {"12.5", "\"12.5\""},
		{"\"MT_0000000223\"", "\"a\\u0000b\""},
	};
	struct mv_qualified *q = example(), *got = calloc(1, sizeof(*got)), *none = calloc(1, sizeof(*none));
	char *text = mv_qualified_text(q), *bad = NULL, *at;

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		at = strstr(text, changes[i][0]);
		assert_non_null(at);
		assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - text), text, changes[i][1], at + strlen(changes[i][0])) > 0);
		assert_int_equal(mv_qualified_parse(bad, strlen(bad), got), -EBADMSG);
		free(bad);
	}
	for (size_t n = 0; n < strlen(text) - 1; n++)
		assert_int_equal(mv_qualified_parse(text, n, got), -EBADMSG);
	assert_true(asprintf(&bad, "%s{}", text) > 0);
	assert_int_equal(mv_qualified_parse(bad, strlen(bad), got), -EBADMSG);
	free(bad);
	at = strstr(text, "\"version\": 1");
	assert_non_null(at);
	at[strlen("\"version\": ")] = '2';
	assert_int_equal(mv_qualified_parse(text, strlen(text), got), -EPROTONOSUPPORT);
	assert_memory_equal(got, none, sizeof(*none));
	free(text);
	free(none);
	free(got);
	free(q);
}

static void test_file(void **state)
{
	struct mv_qualified *q = example(), *got = calloc(1, sizeof(*got));
	struct tmpdir dir;
	struct stat sb;

	(void)state;
	tmpdir_make(&dir);
	assert_int_equal(mv_qualified_read(tmpdir_at(&dir, "q"), got), -ENOENT);
	assert_int_equal(mv_qualified_write(tmpdir_at(&dir, "q"), q), 0);
	assert_int_equal(stat(tmpdir_at(&dir, "q"), &sb), 0);
	assert_int_equal(sb.st_mode & 07777, 0644);
	assert_int_equal(mv_qualified_read(tmpdir_at(&dir, "q"), got), 0);
	assert_memory_equal(got, q, sizeof(*q));
	assert_int_equal(mv_qualified_read(dir.path, got), -EBADMSG);
	assert_int_equal(mv_qualified_write(tmpdir_at(&dir, "no/q"), q), -ENOENT);
	tmpdir_write(&dir, "d/there", "");
	assert_int_equal(mv_qualified_write(tmpdir_at(&dir, "d"), q), -EISDIR); /* and nothing is left beside it: */
	assert_int_equal(unlink(tmpdir_at(&dir, "q")), 0);
	assert_int_equal(unlink(tmpdir_at(&dir, "d/there")), 0);
	assert_int_equal(rmdir(tmpdir_at(&dir, "d")), 0);
	assert_int_equal(rmdir(dir.path), 0);
	free(got);
	free(q);
}

/* The C library has one in every distribution. */
static void test_build_id(void **state)
{
	char id[MV_BUILD_ID_TEXT] = "", again[MV_BUILD_ID_TEXT] = "";

	(void)state;
	assert_int_equal(mv_build_id((const void *)getenv("PATH"), id), -ENOENT);
	assert_string_equal(id, "");
	if (mv_build_id((const void *)(uintptr_t)strtod, id))
		skip();
	assert_true(strlen(id) >= 16 && strspn(id, "0123456789abcdef") == strlen(id));
	assert_int_equal(mv_build_id((const void *)(uintptr_t)strtod, again), 0);
	assert_string_equal(id, again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_name), cmocka_unit_test(test_decide), cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_damaged),   cmocka_unit_test(test_file),   cmocka_unit_test(test_build_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
