// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Workers: one connection that takes long must not keep others waiting, nor many to one destination those to another. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "negotiateint.h"

#define MS 1000000ull
#define N_CONNS 32
#define LIMIT_MS 100000 /* generous: nothing here depends on time */

void __wrap_mesh_conn_work(struct mesh_conn *conn);
void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool changed);
int __wrap_mesh_thread_wake(bool urgent);
uint64_t __wrap_mesh_now_ns(void);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

static struct mesh_conn conns[N_CONNS];
static _Atomic bool blocked[N_CONNS]; /* its work does not end */
static _Atomic unsigned int started[N_CONNS], ended[N_CONNS], queued[N_CONNS], n_wakes;
static _Atomic uint64_t now_ns;

static unsigned int number(const struct mesh_conn *conn)
{
	return (unsigned int)(conn - conns);
}

void __wrap_mesh_conn_work(struct mesh_conn *conn)
{
	unsigned int n = number(conn);

	started[n]++;
	while (blocked[n])
		usleep(1000);
	ended[n]++;
}

void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool changed)
{
	assert_true(changed);
	queued[number(conn)]++;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	n_wakes++;
	return 0;
}

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

/* A worker that has nothing to do never looks by itself: it works because it was called. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	(void)until;
	return pthread_cond_wait(cond, mutex);
}

static void wait_for(const _Atomic unsigned int *counter, unsigned int value)
{
	int i;

	for (i = 0; i < LIMIT_MS && *counter < value; i++)
		usleep(1000);
	assert_int_equal(*counter, value);
}

/* The worker lets go of it after all else. */
static void wait_released(unsigned int n)
{
	int i;

	for (i = 0; i < LIMIT_MS && conns[n].refs != 1; i++)
		usleep(1000);
	assert_int_equal(conns[n].refs, 1);
}

static unsigned int sum(const _Atomic unsigned int *counters, unsigned int first, unsigned int n)
{
	unsigned int i, all = 0;

	for (i = first; i < first + n; i++)
		all += counters[i];
	return all;
}

/* As the helper thread does when work has waited: until no more workers come of it. */
static void let_wait(void)
{
	int i;

	for (i = 0; i < 40; i++) {
		now_ns += 11 * MS;
		mesh_work_run(now_ns);
		usleep(2000);
	}
}

/* @want of them are worked on, however late their workers' threads run, and no more of them a while later. */
static void wait_started(unsigned int first, unsigned int n, unsigned int want)
{
	int i;

	for (i = 0; i < LIMIT_MS / 80 && sum(started, first, n) < want; i++)
		let_wait();
	let_wait();
	assert_int_equal(sum(started, first, n), want);
}

static void submit(unsigned int n, uint8_t destination)
{
	union ibv_gid to = {.raw = {[15] = destination}};

	assert_true(mesh_work_submit(&conns[n], &to, false));
}

/* Workers of an earlier test may still be waiting for work: theirs stays. */
static struct mesh_process processes[8];
static unsigned int n_processes;

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	assert_true(n_processes < sizeof(processes) / sizeof(processes[0]));
	mesh_root.process = &processes[n_processes++];
	now_ns = 1000 * MS;
	for (i = 0; i < N_CONNS; i++) {
		conns[i] = (struct mesh_conn){0};
		conns[i].refs = 1;
		blocked[i] = false;
		started[i] = ended[i] = queued[i] = 0;
	}
	return 0;
}

static int release(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < N_CONNS; i++)
		blocked[i] = false;
	for (i = 0; i < N_CONNS; i++) {
		wait_for(&ended[i], started[i]);
		wait_for(&queued[i], started[i]); /* the helper thread hears of it */
		wait_released(i);
	}
	return 0;
}

static void test_others_go_on(void **state)
{
	(void)state;
	blocked[0] = true;
	submit(0, 1);
	wait_for(&started[0], 1);
	assert_true(conns[0].flags.at_work);
	submit(1, 2);
	assert_true(mesh_work_run(now_ns) <= now_ns + 10 * MS); /* is to be asked again */
	assert_int_equal(started[1], 0);
	let_wait();
	wait_for(&ended[1], 1);
	assert_int_equal(ended[0], 0);
	submit(1, 2); /* there are enough now */
	wait_for(&ended[1], 2);
}

/* Two at once, and one worker that has nothing to do: it is called twice, and takes one. */
static void test_two_for_one_worker(void **state)
{
	uint64_t again;

	(void)state;
	submit(0, 1);
	wait_for(&ended[0], 1);
	usleep(20000);
	blocked[1] = true;
	submit(1, 2);
	submit(2, 3);
	again = mesh_work_run(now_ns);
	assert_true(started[2] || again <= now_ns + 10 * MS);
	let_wait();
	wait_for(&ended[2], 1);
}

static void test_one_destination_does_not_take_all(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 10; i++) {
		blocked[i] = true;
		submit(i, 1);
	}
	wait_started(0, 10, 4);
	for (i = 10; i < 20; i++)
		submit(i, (uint8_t)(2 + i % 2));
	let_wait();
	for (i = 10; i < 20; i++)
		wait_for(&ended[i], 1);
	assert_int_equal(sum(started, 0, 10), 4);
	for (i = 0; i < 10; i++)
		blocked[i] = false;
	for (i = 0; i < 10; i++)
		wait_for(&ended[i], 1);
}

static void submit_try(unsigned int n, uint8_t destination)
{
	union ibv_gid to = {.raw = {[15] = destination}};

	assert_true(mesh_work_submit(&conns[n], &to, true));
}

/* What is only tried does not keep workers from what somebody waits for; all of it is done in the end. */
static void test_tries_keep_nobody_waiting(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 10; i++) {
		blocked[i] = true;
		submit_try(i, (uint8_t)(1 + i));
	}
	wait_started(0, 10, 2);
	for (i = 10; i < 20; i++)
		submit(i, (uint8_t)(100 + i));
	for (i = 10; i < 20; i++) {
		let_wait();
		wait_for(&ended[i], 1);
	}
	assert_int_equal(sum(started, 0, 10), 2);
	/* There is something else to do for one that waits: those who have nothing to do are called, and need not find it by themselves. */
	submit(9, 10);
	wait_for(&started[9], 1);
	submit_try(8, 9); /* still a try */
	wait_started(0, 10, 3);
	/* And what somebody waits for is that also if it is to be tried besides. */
	for (i = 20; i < 25; i++) {
		blocked[i] = i < 24;
		submit(i, 200);
	}
	wait_started(20, 5, 4);
	submit_try(24, 200);
	for (i = 20; i < 24; i++)
		blocked[i] = false;
	wait_for(&ended[24], 1);
	assert_int_equal(sum(started, 0, 10), 3);
	for (i = 0; i < 10; i++)
		blocked[i] = false;
	for (i = 0; i < 10; i++)
		wait_for(&ended[i], 1);
}

/* With one worker: it takes what somebody waits for first. And of those to one destination one is tried at a time. */
static void test_tries_come_last(void **state)
{
	(void)state;
	blocked[0] = blocked[2] = true;
	submit(0, 1);
	wait_for(&started[0], 1);
	submit_try(1, 2);
	submit(2, 3);
	blocked[0] = false;
	wait_for(&started[2], 1);
	assert_int_equal(started[1], 0);
	blocked[1] = true;
	blocked[2] = false;
	wait_for(&started[1], 1);
	submit_try(3, 2);
	submit_try(4, 4);
	let_wait();
	wait_for(&ended[4], 1);
	assert_int_equal(started[3], 0);
	blocked[1] = false;
	wait_for(&ended[3], 1);
}

static void test_more_to_do_meanwhile(void **state)
{
	(void)state;
	blocked[0] = true;
	submit(0, 1);
	wait_for(&started[0], 1);
	submit(0, 1);
	submit(0, 1);
	blocked[0] = false;
	wait_for(&ended[0], 2);
	wait_for(&queued[0], 2);
	wait_released(0);
	assert_int_equal(started[0], 2);
}

static void test_many_are_all_done(void **state)
{
	unsigned int round, i;

	(void)state;
	for (round = 0; round < 200; round++) {
		for (i = 0; i < N_CONNS; i++)
			submit(i, (uint8_t)(i % 5));
		for (i = 0; i < N_CONNS; i++) {
			wait_for(&queued[i], round + 1);
			assert_int_equal(started[i], round + 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_others_go_on, setup, release),
		cmocka_unit_test_setup_teardown(test_two_for_one_worker, setup, release),
		cmocka_unit_test_setup_teardown(test_one_destination_does_not_take_all, setup, release),
		cmocka_unit_test_setup_teardown(test_tries_keep_nobody_waiting, setup, release),
		cmocka_unit_test_setup_teardown(test_tries_come_last, setup, release),
		cmocka_unit_test_setup_teardown(test_more_to_do_meanwhile, setup, release),
		cmocka_unit_test_setup_teardown(test_many_are_all_done, setup, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
