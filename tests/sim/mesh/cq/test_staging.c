// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Errors of one queue pair that two CQs have, which two threads may poll: all of them are kept, in the order of either queue. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "reading.h"

static struct {
	int (*real)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	bool inside;
} between;

/* As if another thread polled the other CQ while libmlx5 polls this one, of which the next completion has been looked at. */
static int poll_other_between(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct ibv_wc other;

	if (!between.inside) {
		between.inside = true;
		mv_locks_forget(); /* those of the thread that polls this one */
		assert_int_equal(ibv_poll_cq(cq == a.cq ? a.recv_cq : a.cq, 1, &other), 0);
	}
	return between.real(cq, n, wc);
}

/* Sends 0 to @n - 1 and receives from 1000 on, all of them flushed: the path has failed. */
static void flush_two_cqs(uint32_t n)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint32_t i;

	end_close(&a);
	end_open(&a, &world, &noted, &two_cqs);
	connect_a();
	for (i = 0; i < n; i++) {
		assert_int_equal(end_recv(&a, 1000 + i, 16 * i, 16), 0);
		assert_int_equal(end_send_empty(&a, i, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(world.mc->lower.qp.modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	cq_wait_arrived(a.cq, n);
	cq_wait_arrived(a.recv_cq, n);
}

static void check_two_cqs(uint32_t n)
{
	struct mv_move_sync sync;
	struct ibv_sge sges[8];
	char data[256];
	struct mv_wr wr;
	uint32_t i;

	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	assert_null(mesh_failover_lost(h));
	assert_int_equal(mv_wrlog_count(&h->tracker->sends.log), n);
	assert_int_equal(h->tracker->receives.n_left, n);
	for (i = 0; i < n; i++) {
		const struct mesh_srq_recv *recv = mesh_srqlog_at(&h->tracker->receives, i);

		assert_int_equal(mv_wrlog_get(&h->tracker->sends.log, i, sges, data, &wr), 0);
		assert_int_equal(wr.wr.wr_id, i);
		assert_int_equal(recv->wr_id, 1000 + i);
		assert_int_equal(recv->num_sge, 1);
		assert_true(recv->sges[0].addr == (uintptr_t)a.buf + 16ull * i);
	}
}

static void one_between_the_other(bool send_first)
{
	struct ibv_wc wc;

	flush_two_cqs(5);
	between.real = world.mc->lower.io.poll_cq;
	between.inside = false;
	world.mc->lower.io.poll_cq = poll_other_between;
	assert_int_equal(ibv_poll_cq(send_first ? a.cq : a.recv_cq, 1, &wc), 0);
	world.mc->lower.io.poll_cq = between.real;
	assert_true(between.inside);
	assert_int_equal(h->tracker->n_withheld, 10);
	check_two_cqs(5);
}

static void test_receives_between_sends(void **state)
{
	(void)state;
	one_between_the_other(true);
}

static void test_sends_between_receives(void **state)
{
	(void)state;
	one_between_the_other(false);
}

static _Atomic bool stop_polling;

static void *poll_until_stopped(void *arg)
{
	struct ibv_wc wc[4];

	while (!atomic_load(&stop_polling))
		assert_int_equal(ibv_poll_cq(arg, 4, wc), 0);
	return NULL;
}

/* A thread polls each. */
static void test_two_pollers(void **state)
{
	pthread_t threads[2];
	int i;

	(void)state;
	atomic_store(&stop_polling, false);
	flush_two_cqs(TWO_CQS_DEPTH);
	assert_int_equal(pthread_create(&threads[0], NULL, poll_until_stopped, a.cq), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, poll_until_stopped, a.recv_cq), 0);
	usleep(50000);
	atomic_store(&stop_polling, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	check_two_cqs(TWO_CQS_DEPTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, reading_setup, reading_teardown)
		T(test_receives_between_sends), T(test_sends_between_receives), T(test_two_pollers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
