/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Reads and writes that go on until all is done. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fault.h"
#include "fd_all.h"
#include "tmpdir.h"

static int ends[2]; /* of a pipe */
static struct tmpdir tmp;

static int setup(void **state)
{
	(void)state;
	tmpdir_make(&tmp);
	return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
}

static int teardown(void **state)
{
	(void)state;
	fault_disarm();
	close(ends[0]);
	close(ends[1]);
	tmpdir_remove(&tmp);
	return 0;
}

/* Of what came in pieces it takes as much as there is room for, or all to the end; a signal changes nothing. */
static void test_read(void **state)
{
	char buf[16];

	(void)state;
	assert_int_equal(mv_write_all(ends[1], "abc", 3), 0);
	assert_int_equal(mv_write_all(ends[1], "defg", 4), 0);
	assert_int_equal(mv_read_all(ends[0], buf, 4), 4);
	assert_memory_equal(buf, "abcd", 4);
	assert_int_equal(mv_read_all(ends[0], buf, sizeof(buf)), -EAGAIN);
	assert_int_equal(mv_write_all(ends[1], "hij", 3), 0);
	close(ends[1]);
	fault_arm(FAULT_READ, 2, EINTR);
	assert_int_equal(mv_read_all(ends[0], buf, sizeof(buf)), 3);
	assert_true(fault_fired());
	assert_memory_equal(buf, "hij", 3);
	assert_int_equal(mv_read_all(ends[0], buf, sizeof(buf)), 0);
	fault_arm(FAULT_READ, 1, EIO);
	assert_int_equal(mv_read_all(ends[0], buf, sizeof(buf)), -EIO);
	ends[1] = dup(ends[0]); /* for the end of the test */
}

static void test_read_regular(void **state)
{
	int fd = open(tmpdir_at(&tmp, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char buf[16];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(mv_write_lasting(fd, "abcdef", 6), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(mv_read_regular(fd, buf, 4), 4);
	assert_int_equal(mv_read_regular(fd, buf, sizeof(buf)), 2);
	assert_memory_equal(buf, "ef", 2);
	fault_arm(FAULT_FSTAT, 1, EIO);
	assert_int_equal(mv_read_regular(fd, buf, sizeof(buf)), -EIO);
	fault_disarm();
	assert_int_equal(mv_read_regular(ends[0], buf, sizeof(buf)), -EMEDIUMTYPE);
	close(fd);
}

/* A pipe takes a part of what is too long for it. */
static void test_write(void **state)
{
	static char much[1 << 20], got[sizeof(much)];
	ssize_t n;
	int full;

	(void)state;
	for (size_t i = 0; i < sizeof(much); i++)
		much[i] = (char)(i % 251);
	fault_arm(FAULT_WRITE, 1, EINTR);
	assert_int_equal(mv_write_all(ends[1], much, sizeof(much)), -EAGAIN);
	assert_true(fault_fired());
	n = read(ends[0], got, sizeof(got));
	assert_in_range(n, 4096, sizeof(much) - 1);
	assert_memory_equal(got, much, n);
	assert_int_equal(mv_write_all(ends[1], much, 0), 0);
	assert_int_equal(mv_write_lasting(ends[1], much, 1), -EINVAL); /* a pipe has no medium */
	full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (full < 0)
		skip();
	assert_int_equal(mv_write_all(full, much, 1), -ENOSPC);
	close(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_read_regular, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
