/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The list of drained devices and its file. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drained.h"
#include "tmpdir.h"

static void test_list(void **state)
{
	static const char *const no_names[] = {"",  "a b", "a/b",  "../a",
					       ".", "a\n", "\x7f", "m\xc3"};
	char name[IBV_SYSFS_NAME_MAX + 1];
	struct md_drained list = {0};

	(void)state;
	assert_false(md_drained_has(NULL, "mlx5_0"));
	assert_int_equal(md_drained_remove(&list, "mlx5_0"), -ENOENT);
	assert_int_equal(md_drained_add(&list, "mlx5_0"), 0);
	assert_int_equal(md_drained_add(&list, "mlx5_1"), 0);
	assert_int_equal(md_drained_add(&list, "mlx5_0"), 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(md_drained_remove(&list, "mlx5_0"), 0);
	assert_false(md_drained_has(&list, "mlx5_0"));
	assert_true(md_drained_has(&list, "mlx5_1"));
	for (size_t i = 0; i < sizeof(no_names) / sizeof(no_names[0]); i++)
		assert_int_equal(md_drained_add(&list, no_names[i]), -EINVAL);
	memset(name, 'a', IBV_SYSFS_NAME_MAX);
	name[IBV_SYSFS_NAME_MAX] = '\0';
	assert_int_equal(md_drained_add(&list, name), -EINVAL);
	name[IBV_SYSFS_NAME_MAX - 1] = '\0';
	assert_int_equal(md_drained_add(&list, name), 0);
	while (list.n < MD_RAILS_MAX) {
		snprintf(name, sizeof(name), "dev%zu", list.n);
		assert_int_equal(md_drained_add(&list, name), 0);
	}
	assert_int_equal(md_drained_add(&list, "one_more"), -ENOSPC);
}

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		size_t len, n;
		int err;
	} cases[] = {
		{"", 0, 0, 0},
		{"mlx5_0\n", 7, 1, 0},
		{"mlx5_0\nmlx5_1\nmlx5_0\n", 21, 2, 0},
		{"mlx5_0", 6, 0, -EBADMSG},
		{"mlx5_0\nmlx5_", 12, 1, -EBADMSG},
		{"\nmlx5_0\n", 8, 1, -EBADMSG},
		{"ml\0x\nmlx5_0\n", 12, 1, -EBADMSG},
		{"/etc\nmlx5_0\n", 12, 1, -EBADMSG},
	};
	char many[(MD_RAILS_MAX + 1) * 8 + 1];
	struct md_drained list;
	size_t len = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(md_drained_parse(cases[i].text, cases[i].len, &list),
				 cases[i].err);
		assert_int_equal(list.n, cases[i].n);
	}
	for (size_t i = 0; i <= MD_RAILS_MAX; i++)
		len += (size_t)snprintf(many + len, sizeof(many) - len, "dev%03zu\n", i);
	assert_int_equal(md_drained_parse(many, len, &list), -ENOSPC);
	assert_int_equal(list.n, MD_RAILS_MAX);
}

static void test_file(void **state)
{
	struct md_drained list = {0}, again;
	struct tmpdir dir;
	int fd;

	(void)state;
	tmpdir_make(&dir);
	fd = open(dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	again.n = 7;
	assert_int_equal(md_drained_load(fd, &again), 0);
	assert_int_equal(again.n, 0);
	assert_int_equal(md_drained_add(&list, "mlx5_0"), 0);
	assert_int_equal(md_drained_add(&list, "mlx5_3"), 0);
	tmpdir_write(&dir, "drained.new", "left by a crash");
	assert_int_equal(md_drained_save(fd, &list), 0);
	assert_int_equal(md_drained_load(fd, &again), 0);
	assert_int_equal(again.n, 2);
	assert_true(md_drained_has(&again, "mlx5_0") && md_drained_has(&again, "mlx5_3"));
	assert_int_equal(access(tmpdir_at(&dir, "drained.new"), F_OK), -1);
	/* What has no end was not written by us. */
	tmpdir_write(&dir, "drained", "mlx5_1\nmlx5_");
	assert_int_equal(md_drained_load(fd, &again), -EBADMSG);
	assert_true(again.n == 1 && md_drained_has(&again, "mlx5_1"));
	/* Links are not followed. */
	assert_int_equal(unlink(tmpdir_at(&dir, "drained")), 0);
	tmpdir_link(&dir, "drained", "/dev/zero");
	assert_int_equal(md_drained_load(fd, &again), -ELOOP);
	assert_int_equal(md_drained_save(fd, &list), 0);
	assert_int_equal(md_drained_load(fd, &again), 0);
	close(fd);
	assert_int_equal(md_drained_save(-1, &list), -EBADF);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
