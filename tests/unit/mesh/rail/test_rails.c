// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* NICs that the plugin opens: lost and opened again, file numbers that the program takes over, the last user. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "onedevice.h"

static struct mesh_pd *get_pd(struct mesh_rail *rail)
{
	char why[256] = "";

	return mesh_pd_get(&mc, &program_pd, rail, why, sizeof(why));
}

/*
 * The device is there again under the same name, and what was made before goes in its own time; of what belongs to numbers that have been
 * taken over nothing goes.
 */
static void opened_anew(struct mesh_rail *rail, struct mesh_pd *spd)
{
	unsigned int n_left = !mesh_rail_intact(rail);
	struct mesh_rail *again = get_rail();
	struct mesh_pd *spd_again;

	assert_non_null(again);
	assert_ptr_not_equal(again, rail);
	assert_int_equal(n_opened, 2);
	assert_null(get_pd(rail));
	spd_again = get_pd(again);
	assert_non_null(spd_again);
	assert_ptr_not_equal(spd_again, spd);
	assert_ptr_equal(spd_again->pd->context, &opened[1].context);
	assert_int_equal(n_pds, 2);
	assert_false(opened[0].closed);
	put_rail(rail);
	put_pd(spd);
	assert_int_equal(n_pds, 1 + n_left);
	put_pd(spd_again);
	mesh_pds_close(&program);
	assert_int_equal(n_pds, n_left);
	put_rail(again);
	assert_null(mesh_root.rails);
	assert_true(opened[1].closed);
}

static void use(struct mesh_rail **ret, struct mesh_pd **ret_spd)
{
	*ret = get_rail();
	assert_non_null(*ret);
	*ret_spd = get_pd(*ret);
	assert_non_null(*ret_spd);
	mesh_thread_rail(*ret);
	sleeps();
	assert_false(mesh_rail_lost(*ret));
}

/* What a kernel does that closes all event files. */
static void test_hung_up(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		n_opened = 0;
		use(&rail, &spd);
		shutdown(i ? opened[0].async[1] : opened[0].events[1], SHUT_RDWR);
		assert_true(gets_lost(rail));
		sleeps();
		opened_anew(rail, spd);
		assert_true(opened[0].closed);
	}
}

/* The event alone: the device is in a state from which nothing but a reset helps. */
static void test_fatal(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;

	(void)state;
	use(&rail, &spd);
	opened[0].n_fatal = 1;
	assert_int_equal(write(opened[0].async[1], "", 1), 1);
	assert_true(gets_lost(rail));
	sleeps();
	opened_anew(rail, spd);
	assert_true(opened[0].closed);
}

/* The program has closed all descriptors, as daemons do, and opens its own: they are not ours to read from, or to close. */
static void test_numbers_of_others(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int fds[2];

	(void)state;
	use(&rail, &spd);
	fds[0] = opened[0].events[0];
	fds[1] = opened[0].async[0];
	close(fds[1]);
	close(fds[0]);
	assert_true(gets_lost(rail));
	sleeps();
	assert_int_equal(dup2(STDERR_FILENO, fds[0]), fds[0]);
	assert_int_equal(dup2(STDERR_FILENO, fds[1]), fds[1]);
	opened_anew(rail, spd);
	assert_false(opened[0].closed);
	assert_true(fcntl(fds[0], F_GETFD) >= 0 && fcntl(fds[1], F_GETFD) >= 0);
	close(fds[0]);
	close(fds[1]);
}

/* Neither read by the helper thread, nor used for a command, nor closed. */
static void test_number_taken_over(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int which, number, ends[2];

	(void)state;
	for (which = 0; which < MESH_RAIL_FILES; which++) {
		n_opened = 0;
		n_pds = 0;
		use(&rail, &spd);
		number = number_of(&opened[0], which);
		/* Of event files it hears before it looks by itself again, which it does after 50 ms. */
		assert_int_equal(mesh_thread_wake(true), 0);
		usleep(2000);
		take_number(number, ends);
		if (which == MESH_RAIL_CMD)
			usleep(60000);
		assert_int_equal(mesh_thread_wake(true), 0);
		assert_true(gets_lost(rail));
		sleeps();
		assert_int_equal(opened[0].context.cmd_fd, -1);
		assert_int_equal(opened[0].context.async_fd, -1);
		assert_int_equal(opened[0].channel.fd, -1);
		opened_anew(rail, spd);
		assert_false(opened[0].closed);
		assert_untouched(number, ends);
		close(number);
		close(ends[0]);
		close(ends[1]);
	}
}

/* A program that becomes a daemon. The helper thread, too, has lost all it waits for. */
static void test_all_taken_over(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int ends[8][2], i;

	(void)state;
	use(&rail, &spd);
	closefrom(3);
	n_opened = 0; /* nothing for teardown to close */
	for (i = 0; i < 8; i++) {
		/* ThreadSanitizer takes it for a race that another thread looks at a number that is given out anew. That is what is tested. */
		assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
		assert_int_equal(send(ends[i][0], "hello", 5, 0), 5);
		assert_int_equal(send(ends[i][1], "hello", 5, 0), 5);
	}
	assert_int_equal(mesh_thread_wake(true), 0);
	assert_true(gets_lost(rail));
	sleeps();
	put_pd(spd);
	mesh_pds_close(&program);
	put_rail(rail);
	assert_false(opened[0].closed);
	for (i = 0; i < 16; i++) {
		char buf[16];

		assert_int_equal(recv(ends[i / 2][i % 2], buf, sizeof(buf), MSG_DONTWAIT), 5);
	}
	for (i = 0; i < 16; i++)
		close(ends[i / 2][i % 2]);
}

/* The last one who has it does not need the helper thread to see that. */
static void test_put_after_taken_over(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int which, number, ends[2];

	(void)state;
	for (which = 0; which < MESH_RAIL_FILES; which++) {
		n_opened = 0;
		n_pds = 0;
		rail = get_rail();
		spd = get_pd(rail);
		assert_non_null(spd);
		number = number_of(&opened[0], which);
		take_number(number, ends);
		put_pd(spd);
		mesh_pds_close(&program);
		assert_int_equal(n_pds, 1);
		put_rail(rail);
		assert_null(mesh_root.rails);
		assert_false(opened[0].closed);
		assert_untouched(number, ends);
		close(number);
		close(ends[0]);
		close(ends[1]);
	}
}

/* Of the same device: not told from ours by its inode. And who wants the rail before anybody has noticed gets a new one. */
static void test_device_taken_over(void **state)
{
	struct mesh_rail *rail = get_rail(), *again;
	int number = opened[0].context.cmd_fd, own = open("/dev/null", O_RDWR);

	(void)state;
	assert_true(own >= 0);
	assert_int_equal(dup2(own, number), number);
	again = get_rail();
	assert_non_null(again);
	assert_ptr_not_equal(again, rail);
	put_rail(rail);
	assert_false(opened[0].closed);
	assert_true(fcntl(number, F_GETFD) >= 0);
	put_rail(again);
	assert_true(opened[1].closed);
	close(number);
	close(own);
}

/* Nobody has it but the helper thread. */
static void test_last_user(void **state)
{
	struct mesh_rail *rail = get_rail();

	(void)state;
	mesh_thread_rail(rail);
	put_rail(rail);
	gets_closed(&opened[0]);
	sleeps();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hung_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fatal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_number_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_put_after_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_device_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_last_user, setup, teardown),
	};

	return cmocka_run_group_tests(tests, setup_all, NULL);
}
