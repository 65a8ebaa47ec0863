/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tmpdir.h"
#include "verdicts.h"

static const struct mv_qualified_key key = {
	.board_id = "MT_0000000223", .firmware = "20.35.1012", .kernel = "6.1.0-18-amd64", .libmlx5 = "00ff2a"};

static struct tmpdir tmp;
static char folder[300], file[600];
static int dir_fd;
static struct mv_qualified *example, *got;
static char why[MV_VERDICTS_WHY];

static int setup(void **state)
{
	char name[256];

	(void)state;
	tmpdir_make(&tmp);
	snprintf(folder, sizeof(folder), "%s/qualified", tmp.path);
	dir_fd = mv_verdicts_open(folder, 1, why);
	assert_true(dir_fd >= 0);
	example = calloc(1, sizeof(*example));
	got = calloc(1, sizeof(*got));
	assert_non_null(example);
	assert_non_null(got);
	*example = (struct mv_qualified){.device = "mlx5_0", .key = key, .verdict = MV_VERDICT_QUALIFIED, .time_s = 1764381600, .n_trials = 1};
	example->trials[0] = (struct mv_qualified_trial){.name = "flush", .verdict = MV_TRIAL_PASS, .assumption = "a", .source = "b"};
	assert_int_equal(mv_qualified_file_name(&key, name, sizeof(name)), 0);
	snprintf(file, sizeof(file), "%s/%s", folder, name);
	assert_int_equal(mv_verdicts_store(dir_fd, example), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(dir_fd);
	free(example);
	free(got);
	tmpdir_remove(&tmp);
	return 0;
}

static int load(void)
{
	why[0] = '\0';
	return mv_verdicts_load(dir_fd, &key, got, why);
}

static void test_store_and_load(void **state)
{
	struct mv_qualified_key other = key;
	struct stat st;

	(void)state;
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(load(), 0);
	assert_string_equal(got->device, "mlx5_0");
	assert_int_equal(got->verdict, MV_VERDICT_QUALIFIED);
	/* Another one takes its place. */
	example->trials[0].verdict = MV_TRIAL_FAIL;
	example->verdict = MV_VERDICT_FAILED;
	assert_int_equal(mv_verdicts_store(dir_fd, example), 0);
	assert_int_equal(load(), 0);
	assert_int_equal(got->verdict, MV_VERDICT_FAILED);
	strcpy(other.libmlx5, "00ff2b");
	assert_int_equal(mv_verdicts_load(dir_fd, &other, got, why), -ENOENT);
	other.libmlx5[0] = '\0';
	assert_int_equal(mv_verdicts_load(dir_fd, &other, got, why), -ENOENT);
	assert_int_equal(mv_verdicts_read(dir_fd, "../x", got, why), -EINVAL);
	assert_int_equal(mv_verdicts_read(dir_fd, ".new", got, why), -EINVAL);
}

static void refused(int err, const char *what)
{
	assert_int_equal(load(), err);
	if (!strstr(why, what) || strchr(why, '\n'))
		fail_msg("'%s' does not say '%s' in a line", why, what);
}

static void test_unsafe(void **state)
{
	char other[700];

	(void)state;
	assert_int_equal(chmod(file, 0664), 0);
	refused(-EPERM, "others may write it");
	assert_int_equal(chmod(file, 0646), 0);
	refused(-EPERM, "others may write it");
	assert_int_equal(chmod(file, 0644), 0);
	snprintf(other, sizeof(other), "%s/other", folder);
	assert_int_equal(link(file, other), 0);
	refused(-EPERM, "another name");
	assert_int_equal(rename(file, other), 0); /* one file: nothing happens */
	assert_int_equal(unlink(file), 0);
	assert_int_equal(symlink("other", file), 0);
	refused(-EPERM, "symbolic link");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0);
	refused(-EPERM, "no regular file");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rename(other, file), 0);
	assert_int_equal(load(), 0);
	assert_int_equal(truncate(file, 2 << 20), 0);
	refused(-EPERM, "too large");
	assert_int_equal(truncate(file, 10), 0);
	refused(-EBADMSG, "no verdict");
	if (!geteuid()) {
		assert_int_equal(mv_verdicts_store(dir_fd, example), 0);
		assert_int_equal(chown(file, 12345, 0), 0);
		refused(-EPERM, "owns it");
	}
}

/* A verdict under another one's name is nobody's. */
static void test_other_inside(void **state)
{
	char other[700];

	(void)state;
	strcpy(example->key.firmware, "20.36.0");
	assert_int_equal(mv_verdicts_store(dir_fd, example), 0);
	snprintf(other, sizeof(other), "%s/MT_0000000223_20.36.0_6.1.0-18-amd64_00ff2a.json", folder);
	assert_int_equal(rename(other, file), 0);
	refused(-EBADMSG, "another combination");
	/* Two combinations of one name. */
	strcpy(example->key.firmware, key.firmware);
	strcpy(example->key.kernel, "6.1 x");
	assert_int_equal(mv_verdicts_store(dir_fd, example), 0);
	assert_int_equal(mv_verdicts_load(dir_fd, &example->key, got, why), 0);
	strcpy(example->key.kernel, "6.1_x");
	assert_int_equal(mv_verdicts_load(dir_fd, &example->key, got, why), -EBADMSG);
}

static void test_folder(void **state)
{
	char text[MV_VERDICTS_WHY];
	int fd;

	(void)state;
	assert_int_equal(chmod(folder, 0775), 0);
	assert_int_equal(mv_verdicts_open(folder, 0, text), -EPERM);
	assert_non_null(strstr(text, "others may write"));
	assert_int_equal(chmod(folder, 0755), 0);
	fd = mv_verdicts_open(folder, 1, text);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(mv_verdicts_open("/nonexistent/qualified", 0, text), -ENOENT);
	assert_int_equal(mv_verdicts_open("/nonexistent/qualified", 1, text), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_store_and_load, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unsafe, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_inside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folder, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
