// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the helper thread sleeps on, beside a program that closes and opens descriptors as it likes. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fault.h"
#include "waker.h"

static struct mesh_waker waker;

static int setup(void **state)
{
	(void)state;
	return mesh_waker_init(&waker);
}

static int teardown(void **state)
{
	(void)state;
	mesh_waker_fini(&waker);
	return 0;
}

static bool is_awake(void)
{
	struct pollfd fd = {.fd = waker.fd[0], .events = POLLIN};

	return poll(&fd, 1, 0) == 1 && fd.revents & POLLIN;
}

/* However often: what is there to be read stays one byte, and nobody waits for room. */
static void test_once(void **state)
{
	char bytes[64];

	(void)state;
	assert_false(is_awake());
	for (int i = 0; i < 100000; i++)
		mesh_waker_wake(&waker);
	assert_true(is_awake());
	assert_int_equal(recv(waker.fd[0], bytes, sizeof(bytes), MSG_DONTWAIT), 1);
	assert_int_equal(recv(waker.fd[0], bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	mesh_waker_heard(&waker);
	assert_false(is_awake());
	mesh_waker_wake(&waker);
	assert_true(is_awake());
}

/* The kernel has no memory for it: the next one tries again. */
static void test_no_room(void **state)
{
	char byte;

	(void)state;
	while (send(waker.fd[1], "", 1, MSG_DONTWAIT) == 1)
		;
	mesh_waker_wake(&waker);
	while (recv(waker.fd[0], &byte, 1, MSG_DONTWAIT) == 1)
		;
	assert_false(is_awake());
	mesh_waker_wake(&waker);
	assert_true(is_awake());
}

/* In place of ours the program has sockets of its own, under the same numbers. */
static void take_their_place(int theirs[2])
{
	int ours[2] = {waker.fd[0], waker.fd[1]}, pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(dup2(pair[i], ours[i]), ours[i]);
		close(pair[i]);
		theirs[i] = ours[i];
	}
}

static void assert_nothing_read_or_written(const int theirs[2])
{
	char byte;

	/* [0] has what the program wrote to [1], and nothing more. */
	assert_int_equal(send(theirs[1], "p", 1, 0), 1);
	mesh_waker_heard(&waker);
	assert_int_equal(recv(theirs[0], &byte, 1, MSG_DONTWAIT), 1);
	assert_int_equal(byte, 'p');
	assert_int_equal(recv(theirs[0], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void test_numbers_are_the_programs(void **state)
{
	int theirs[2];

	(void)state;
	take_their_place(theirs);
	mesh_waker_wake(&waker);
	assert_nothing_read_or_written(theirs);
	/* Nor are they closed when there are new ones. */
	mesh_waker_check(&waker);
	assert_int_not_equal(waker.fd[0], theirs[0]);
	assert_int_not_equal(waker.fd[1], theirs[1]);
	assert_nothing_read_or_written(theirs);
	mesh_waker_wake(&waker);
	assert_true(is_awake());
	close(theirs[0]);
	close(theirs[1]);
}

/* One of the two is enough: it goes with the other, and the number is free. */
static void test_one_is_closed(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		unsigned int n = fault_open_fds();

		close(waker.fd[i]);
		mesh_waker_wake(&waker); /* in vain, and not for ever */
		mesh_waker_check(&waker);
		assert_int_equal(fault_open_fds(), n);
		assert_false(is_awake());
		mesh_waker_wake(&waker);
		assert_true(is_awake());
		/* What was on its way is lost with them. */
		close(waker.fd[i]);
		mesh_waker_check(&waker);
		assert_false(is_awake());
		mesh_waker_wake(&waker);
		assert_true(is_awake());
		mesh_waker_heard(&waker);
	}
}

static void test_intact_stay(void **state)
{
	int fd[2] = {waker.fd[0], waker.fd[1]};

	(void)state;
	mesh_waker_wake(&waker);
	mesh_waker_check(&waker);
	assert_memory_equal(fd, waker.fd, sizeof(fd));
	assert_true(is_awake());
}

/* The next look has them again. */
static void test_cannot_be_had(void **state)
{
	unsigned int n = fault_open_fds();

	(void)state;
	close(waker.fd[0]);
	fault_arm(FAULT_FSTAT, 4, ENOMEM); /* the first of the new ones: of the old ones one is looked at twice, the other once */
	mesh_waker_check(&waker);
	assert_true(fault_fired());
	fault_disarm();
	assert_int_equal(waker.fd[0], -1);
	assert_int_equal(waker.fd[1], -1);
	assert_int_equal(fault_open_fds(), n - 2);
	mesh_waker_wake(&waker);
	mesh_waker_check(&waker);
	assert_int_equal(fault_open_fds(), n);
	mesh_waker_wake(&waker);
	assert_true(is_awake());
}

static void test_init_fails(void **state)
{
	unsigned int n = fault_open_fds(), n_failed = 0;
	bool fired = true;

	(void)state;
	while (fired) {
		struct mesh_waker other;
		int err;

		fault_arm(FAULT_FSTAT, n_failed + 1, EIO);
		err = mesh_waker_init(&other);
		fired = fault_fired();
		fault_disarm();
		assert_int_equal(err, fired ? -EIO : 0);
		if (!err)
			mesh_waker_fini(&other);
		n_failed += fired;
		assert_int_equal(fault_open_fds(), n);
	}
	assert_int_equal(n_failed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers_are_the_programs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_is_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_intact_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cannot_be_had, setup, teardown),
		cmocka_unit_test_setup_teardown(test_init_fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
