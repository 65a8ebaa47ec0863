// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Errors that are withheld from the program until it is known how a move ends, in a host of the simulator, where
 * nothing was made in advance: who sleeps until there is a completion event is woken when they are given.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "failover_exec.h"
#include "vqp_int.h"
#include "withheld_fixture.h"

/* Its queue pair fails, it is woken by that and looks, and there is nothing. */
static void break_it(void)
{
	struct ibv_wc wc;
	unsigned int ms;

	arm();
	send_one(1);
	send_one(2);
	assert_true(end_event(&e, PATIENCE_MS));
	for (ms = 0; h->tracker->n_withheld < 2 && ms < PATIENCE_MS; ms++) {
		assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
		usleep(1000);
	}
	assert_int_equal(h->tracker->n_withheld, 2);
	assert_int_equal(n_failed, 1);
	assert_null(h->send_cq->notify.qp); /* nothing was made in advance */
}

/* Arming makes an event if completions are left, so events may come for a while. */
static void sleep_now(void)
{
	do
		arm();
	while (end_event(&e, QUIET));
}

static void fail_and_sleep(void)
{
	break_it();
	sleep_now();
}

static void wakes(const struct shape *shape)
{
	begin(shape);
	fail_and_sleep();
	mesh_failover_flush_errors(h);
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
}

static void test_wakes(void **state)
{
	(void)state;
	wakes(&(struct shape){0});
}

/* Where nothing is ever made in advance. */
static void test_wakes_srq(void **state)
{
	(void)state;
	wakes(&(struct shape){.srq = true});
}

static void test_wakes_who_ends_it(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	begin(&(struct shape){0});
	fail_and_sleep();
	assert_int_equal(mesh_vqp_modify(h, &attr, IBV_QP_STATE), 0);
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
}

/* By then the errors are where no event comes from. */
static void test_wakes_who_arms_late(void **state)
{
	(void)state;
	begin(&(struct shape){.srq = true});
	break_it();
	mesh_failover_flush_errors(h);
	assert_false(end_event(&e, QUIET));
	arm();
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
}

/* What wakes is never seen, also when nothing of ours is left. */
static void test_nothing_is_left(void **state)
{
	(void)state;
	begin(&(struct shape){0});
	fail_and_sleep();
	mesh_failover_flush_errors(h);
	assert_true(end_event(&e, PATIENCE_MS));
	mesh_vqp_destroy(h);
	h = NULL;
	end_quiet(&e);
}

/* A program that brings what is well to its end costs nothing more. */
static void test_no_more_than_needed(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	begin(&(struct shape){0});
	assert_int_equal(mesh_vqp_modify(h, &attr, IBV_QP_STATE), 0);
	assert_null(h->send_cq->notify.qp);
	assert_true(mesh_failover_wake(h));
	assert_null(h->send_cq->notify.qp);
}

static struct ibv_qp *no_memory(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	(void)pd;
	(void)init;
	errno = ENOMEM;
	return NULL;
}

static void test_woken_later(void **state)
{
	struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *) = mesh_root.lib.verbs.create_qp;
	bool woken;

	(void)state;
	begin(&(struct shape){.srq = true});
	fail_and_sleep();
	mesh_root.lib.verbs.create_qp = no_memory;
	mesh_failover_flush_errors(h);
	woken = mesh_failover_wake(h);
	mesh_root.lib.verbs.create_qp = real;
	assert_false(woken);
	assert_false(end_event(&e, QUIET));
	assert_true(mesh_failover_wake(h));
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
	sleep_now();
	assert_true(mesh_failover_wake(h));
	assert_false(end_event(&e, QUIET));
}

static _Atomic unsigned int n_posted;

static void *post_until_full(void *arg)
{
	int err;

	(void)arg;
	while (!(err = end_send_empty(&e, 3, IBV_SEND_SIGNALED)))
		atomic_fetch_add(&n_posted, 1);
	return (void *)(intptr_t)err;
}

/*
 * libmlx5 looks at the CQ when the queue is full, and waits for who polls an extended one; he is not to wait for the one who posts, also
 * where what is posted is not noted any more.
 */
static void test_full_behind_an_open_poll(void **state)
{
	const struct shape large = {.cqe = 1024};
	struct ibv_poll_cq_attr attr = {0};
	unsigned int ms, before;
	pthread_t thread;
	void *result;

	(void)state;
	begin_as(&extended, &large);
	mesh_lock(&h->lock);
	h->tracker->lost = "this test says so";
	mesh_unlock(&h->lock);
	send_one(1);
	send_one(2);
	for (ms = 0; ibv_start_poll(e.cq_ex, &attr) == ENOENT && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(e.cq_ex->wr_id, 1);
	assert_int_equal(e.cq_ex->status, IBV_WC_RETRY_EXC_ERR);
	n_posted = 0;
	assert_int_equal(pthread_create(&thread, NULL, post_until_full, NULL), 0);
	do {
		before = n_posted;
		usleep(QUIET * 1000);
	} while (!before || before != n_posted);
	alarm(PATIENCE_S);
	while (ibv_next_poll(e.cq_ex) == ENOENT) /* the rest is flushed by and by */
		;
	assert_int_equal(e.cq_ex->wr_id, 2);
	ibv_end_poll(e.cq_ex);
	assert_int_equal(pthread_join(thread, &result), 0);
	alarm(0);
	assert_int_equal((intptr_t)result, ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, withheld_setup, withheld_teardown)
		T(test_wakes),
		T(test_wakes_srq),
		T(test_wakes_who_ends_it),
		T(test_wakes_who_arms_late),
		T(test_nothing_is_left),
		T(test_no_more_than_needed),
		T(test_woken_later),
		T(test_full_behind_an_open_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
