// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Atomics before a path that works is left, where work is read (mlx5_wr_walker.h): they are waited for without posting
 * anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "reading.h"

#define RESULTS  2048 /* where those of atomics go, in a's buffer */
#define BEFORE   5 /* what the remote word is at first */

static volatile uint64_t *result(unsigned int i)
{
	return (volatile uint64_t *)(void *)(a.buf + RESULTS) + i;
}

static void add_one(unsigned int i, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)result(i), 8, a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = flags,
				 .wr.atomic = {.remote_addr = (uintptr_t)b.buf, .compare_add = 1, .rkey = b.mr->rkey}}, *bad;

	*result(i) = UINT64_MAX;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void send_one(uint64_t wr_id)
{
	assert_int_equal(end_send_empty(&a, wr_id, IBV_SEND_SIGNALED), 0);
}

static void connect_for_atomics(void)
{
	connect_a();
	connect_b();
	feed_b();
	memcpy(b.buf, &(uint64_t){BEFORE}, 8);
}

static void assert_done(uint64_t wr_id)
{
	struct ibv_wc wc = end_wait(&a);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
}

/* The peer may have taken its memory away since the last atomic was done, which nobody tells us. Nothing of ours touches it. */
static void test_atomic_of_the_past(void **state)
{
	unsigned int i;
	bool none;

	(void)state;
	connect_for_atomics();
	add_one(0, 0);
	for (i = 0; *result(0) != BEFORE && i < PATIENCE_MS; i++)
		usleep(1000);
	assert_int_equal(*result(0), BEFORE);
	assert_int_equal(ibv_dereg_mr(b.mr), 0);
	b.mr = ibv_reg_mr(world.pd, b.buf + 65536, 4096, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(b.mr);
	for (i = 0; i < 20; i++) {
		none = mesh_failover_quiesce(h);
		usleep(2000);
		end_quiet(&a);
		assert_null(mesh_failover_lost(h));
		assert_false(none); /* it could be on its way, for all that is known here */
	}
	mesh_failover_release(h);
	assert_false(mesh_failover_broken(h));
	send_one(7);
	assert_done(7);
	assert_true(mesh_failover_quiesce(h));
}

/* Atomics go on until a completion will tell that they are done. Else those before would never be known to be. */
static void test_atomics_until_one_tells(void **state)
{
	unsigned int i;

	(void)state;
	connect_for_atomics();
	add_one(0, 0);
	assert_false(mesh_failover_quiesce(h));
	add_one(1, 0);
	assert_int_equal(h->queue.n, 0);
	assert_false(mesh_failover_quiesce(h));
	send_one(2); /* tells */
	assert_int_equal(h->queue.n, 0);
	add_one(3, 0);
	assert_int_equal(h->queue.n, 1);
	send_one(4);
	assert_int_equal(h->queue.n, 2);
	assert_done(2);
	assert_int_equal(*result(1), BEFORE + 1);
	for (i = 0; !mesh_failover_quiesce(h) && i < PATIENCE_MS; i++)
		usleep(1000);
	assert_true(mesh_failover_quiesce(h));
	assert_int_equal(h->queue.n, 2);
	mesh_failover_release(h);
	assert_int_equal(h->queue.n, 0);
	assert_done(4);
	assert_int_equal(*result(3), BEFORE + 2);
	/* With nothing outstanding none begins, signaled or not. */
	assert_true(mesh_failover_quiesce(h));
	add_one(5, IBV_SEND_SIGNALED);
	assert_int_equal(h->queue.n, 1);
	mesh_failover_release(h);
	assert_done(5);
	assert_null(mesh_failover_lost(h));
}

/*
 * Atomics have waited for a move that was called off, and the lower provider's queue is full: they are posted as it
 * empties, also when the program posts something in between.
 */
static void test_what_waited_is_posted(void **state)
{
	uint32_t n_posted = 0, n_done;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	connect_a();
	connect_b();
	assert_true(mesh_failover_quiesce(h));
	while (!end_send_empty(&a, n_posted, IBV_SEND_SIGNALED))
		n_posted++; /* the peer has no receive */
	for (i = 0; i < 4; i++)
		add_one(i, IBV_SEND_SIGNALED);
	assert_int_equal(h->queue.n, 4);
	mesh_failover_release(h);
	assert_int_equal(h->queue.n, 4);
	for (n_done = 0; n_done < n_posted + 5; n_done++) {
		while (end_poll(&b, &wc))
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		while (fed < n_posted + 1 && !end_recv(&b, fed, 8192, 16))
			fed++;
		assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
		if (!n_done)
			assert_int_equal(end_send_empty(&a, n_posted, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(h->queue.n, 0);
	assert_null(mesh_failover_lost(h));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, reading_setup, reading_teardown)
		T(test_atomic_of_the_past), T(test_atomics_until_one_tells), T(test_what_waited_is_posted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
