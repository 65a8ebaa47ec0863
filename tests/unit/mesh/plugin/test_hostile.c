// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Programs that do to the plugin what programs do: close descriptors that are not theirs, fork and become
 * daemons, cancel threads, change namespaces, close devices while events come in.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "paths.h"
#include "program.h"

#define FDS 8

/* Every descriptor from 3 on becomes an end of a socket pair with five bytes to be read at either. */
static void take_all_descriptors(int first[FDS], int second[FDS])
{
	int i;

	closefrom(3);
	for (i = 0; i < FDS; i++) {
		int fds[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		first[i] = fds[0];
		second[i] = fds[1];
		assert_int_equal(send(second[i], "hello", 5, 0), 5);
		assert_int_equal(send(first[i], "hello", 5, 0), 5);
	}
}

static void assert_untouched(const int first[FDS], const int second[FDS])
{
	char buf[16];
	int i;

	for (i = 0; i < FDS; i++) {
		assert_int_equal(recv(first[i], buf, sizeof(buf), MSG_DONTWAIT), 5);
		assert_int_equal(recv(second[i], buf, sizeof(buf), MSG_DONTWAIT), 5);
	}
}

static void descriptors_taken_over(void)
{
	struct ibv_context *context;
	int first[FDS], second[FDS];

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	take_all_descriptors(first, second);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	assert_untouched(first, second);
	fake.close_device(context);
}

static void daemon_after_a_decision(void)
{
	struct ibv_context *context;
	int status;
	pid_t pid;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	pid = fork();
	if (!pid) {
		int first[FDS], second[FDS];

		take_all_descriptors(first, second);
		context = fake.open_device("mlx5", &device);
		flap();
		assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
		assert_untouched(first, second);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* What the child did with its copies is nothing to the parent. */
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	fake.close_device(context);
}

static void *connect_for_ever(void *arg)
{
	for (;;) {
		connect_from(arg, 1, "10.1.0.2");
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled_threads_hold_nothing(void)
{
	struct ibv_context *context;
	pthread_t thread;
	int i;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	flap();
	for (i = 0; i < 50; i++) {
		assert_int_equal(pthread_create(&thread, NULL, connect_for_ever, context), 0);
		usleep(200);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	alarm(300); /* a lock that was left taken would keep us here */
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	fake.close_device(context);
}

static void library_without_a_table_query(void)
{
	struct mesh_library lib;
	char why[256] = "";

	fake = fake_open(FAKEVERBS_22);
	assert_int_equal(mesh_library_resolve(&lib, fake.handle, fake.anchor, why, sizeof(why)), -ENOTSUP);
	assert_non_null(strstr(why, "older than rdma-core 32"));
}

static void missing_routes_decide_nothing(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	/* 10.5.0.2 would be replaced; a look-up for the program's own netdev that failed forbids it. */
	route_error = -ETIMEDOUT;
	assert_int_equal(address_from(context, 1, "10.5.0.2"), 1);
	route_error = 0;
	assert_int_equal(address_from(context, 1, "10.5.0.2"), 2);
	fake.close_device(context);
}

static void stale_table_decides_nothing(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	flap();
	fake.state->query_error = -EIO;
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	fake.state->query_error = 0;
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	fake.close_device(context);
}

static void failed_refresh_keeps_errno(void)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	errno = EXDEV;
	fake.async_event(context, &event);
	assert_int_equal(errno, EXDEV);
	assert_true(fault_fired());
	fault_disarm();
	fake.close_device(context);
}

static void infiniband_opens_nothing(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	fake.state->gids[0].type = fake.state->gids[1].type = IBV_GID_TYPE_IB;
	context = fake.open_device("mlx5", &device);
	assert_int_equal(connect_from(context, 1, "10.5.0.2"), 1);
	assert_null(mesh_root.paths);
	fake.close_device(context);
}

static void late_event_finds_a_closed_device(void)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
	struct ibv_context *context;
	struct mesh_context *mc;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	mc = mesh_context_get(context);
	mesh_paths_close(mc); /* the other thread got this far in ibv_close_device() */
	fake.async_event(context, &event);
	assert_null(mc->seen);
	fake.close_device(context);
}

static void other_network_namespace(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		print_message("no other namespace to be had: %s\n", strerror(errno));
		fake.close_device(context);
		return;
	}
	flap();
	/* What the sockets tell is of the namespace they were opened in. */
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	fake.close_device(context);
}

TEST(descriptors_taken_over)
TEST(daemon_after_a_decision)
TEST(cancelled_threads_hold_nothing)
TEST(library_without_a_table_query)
TEST(missing_routes_decide_nothing)
TEST(stale_table_decides_nothing)
TEST(failed_refresh_keeps_errno)
TEST(infiniband_opens_nothing)
TEST(late_event_finds_a_closed_device)
TEST(other_network_namespace)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors_taken_over),
		cmocka_unit_test(test_daemon_after_a_decision),
		cmocka_unit_test(test_cancelled_threads_hold_nothing),
		cmocka_unit_test(test_library_without_a_table_query),
		cmocka_unit_test(test_missing_routes_decide_nothing),
		cmocka_unit_test(test_stale_table_decides_nothing),
		cmocka_unit_test(test_failed_refresh_keeps_errno),
		cmocka_unit_test(test_infiniband_opens_nothing),
		cmocka_unit_test(test_late_event_finds_a_closed_device),
		cmocka_unit_test(test_other_network_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
