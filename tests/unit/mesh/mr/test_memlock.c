// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Is what a process may pin bounded? Each answer in a child of its own, which gives away what it needs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "memlock.h"

enum { UNBOUNDED, BOUNDED, CANNOT };

static int in_child(int (*what)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(what());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT)
		skip();
	return WEXITSTATUS(status);
}

static int with(rlim_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return CANNOT;
	limit.rlim_cur = bytes;
	if (limit.rlim_max < bytes)
		limit.rlim_max = bytes;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return CANNOT;
	return mesh_memlock_bounded() ? BOUNDED : UNBOUNDED;
}

static int no_limit(void)
{
	return with(RLIM_INFINITY);
}

static int capable(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, caps) || !(caps[0].effective & 1u << CAP_IPC_LOCK))
		return CANNOT;
	return with((rlim_t)1 << 23);
}

static int not_capable(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, caps))
		return CANNOT;
	caps[0].effective &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &header, caps))
		return CANNOT;
	return with((rlim_t)1 << 23);
}

/* Root of a container's own users has that right as well, and the kernel does not ask for that one. */
static int root_of_a_container(void)
{
	if (unshare(CLONE_NEWUSER))
		return CANNOT;
	return with((rlim_t)1 << 23);
}

static void test_no_limit(void **state)
{
	(void)state;
	assert_int_equal(in_child(no_limit), UNBOUNDED);
}

static void test_capable(void **state)
{
	(void)state;
	assert_int_equal(in_child(capable), UNBOUNDED);
}

static void test_not_capable(void **state)
{
	(void)state;
	assert_int_equal(in_child(not_capable), BOUNDED);
}

static void test_root_of_a_container(void **state)
{
	(void)state;
	assert_int_equal(in_child(root_of_a_container), BOUNDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_capable),
		cmocka_unit_test(test_not_capable),
		cmocka_unit_test(test_root_of_a_container),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
