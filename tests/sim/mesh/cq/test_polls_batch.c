// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A queue pair moves between ibv_wr_start() and ibv_wr_complete(). */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "pollends.h"

static const struct manner moved_builders = {.how = MOVED, .builders = true};

static void *drain_on_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_failover_drain(tracked.vqp, false, &sync_of_drain);
}

static void *replay_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_failover_replay(tracked.vqp, sync_of_drain.next_psn, sync_of_drain.n_received, 4,
						      NULL);
}

/* @err: what the drain said when it was begun. */
static void drain_is_done_elsewhere(int err)
{
	unsigned int i;

	for (i = 0; err == -EAGAIN && i < PATIENCE_S * 100; i++) {
		usleep(1000);
		err = in_a_thread(drain_on_elsewhere);
	}
	assert_int_equal(err, 0);
}

/* From now on the batches are ours. */
static void open_builders(void)
{
	open_hub(&bare_plain, &(struct shape){.cqe = 1000});
	open_tracked(&moved_builders, 0);
	tracked_prepare_loop(tracked.vqp, PSN);
	alarm(PATIENCE_S);
}

static void build_write(uint64_t wr_id, uint64_t what)
{
	struct ibv_qp_ex *qp = tracked.qp_ex;

	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, tracked.mr->rkey, (uintptr_t)&tracked.buf[8 * wr_id]);
	ibv_wr_set_inline_data(qp, &what, sizeof(what));
}

static void assert_written(uint64_t wr_id, uint64_t what)
{
	struct ibv_wc wc = end_wait(&tracked);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)&tracked.buf[8 * wr_id], what);
}

/*
 * Whoever drains, or puts another queue in the place of the one in which the batch is being built, does not wait for
 * its end.
 */
static void test_batch_through_a_move(void **state)
{
	unsigned int i;

	(void)state;
	open_builders();
	ibv_wr_start(tracked.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(in_a_thread(drain_elsewhere), -EAGAIN);
	assert_int_equal(in_a_thread(drain_on_elsewhere), -EAGAIN);
	build_write(2, 0x2222);
	assert_int_equal(ibv_wr_complete(tracked.qp_ex), 0);
	drain_is_done_elsewhere(-EAGAIN);
	ibv_wr_start(tracked.qp_ex);
	build_write(3, 0x3333);
	assert_int_equal(in_a_thread(replay_elsewhere), 0);
	build_write(4, 0x4444);
	assert_int_equal(ibv_wr_complete(tracked.qp_ex), 0);
	for (i = 1; i <= 4; i++)
		assert_written(i, i * 0x1111);
	/* And so does one that comes to nothing, or is all in the new one. */
	ibv_wr_start(tracked.qp_ex);
	build_write(5, 0);
	ibv_wr_abort(tracked.qp_ex);
	ibv_wr_start(tracked.qp_ex);
	build_write(6, 0x6666);
	assert_int_equal(ibv_wr_complete(tracked.qp_ex), 0);
	assert_written(6, 0x6666);
}

/* What the batch was built in is not needed any more. */
static void test_batch_aborted(void **state)
{
	(void)state;
	open_builders();
	drain_is_done_elsewhere(in_a_thread(drain_elsewhere));
	ibv_wr_start(tracked.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(in_a_thread(replay_elsewhere), 0);
	ibv_wr_abort(tracked.qp_ex);
	ibv_wr_start(tracked.qp_ex);
	build_write(2, 0x2222);
	assert_int_equal(ibv_wr_complete(tracked.qp_ex), 0);
	assert_written(2, 0x2222);
}

static void *begins_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	ibv_wr_start(tracked.qp_ex);
	ibv_wr_abort(tracked.qp_ex);
	return arg;
}

/* Nor is beginning a batch a place where threads are cancelled, also where somebody wants to stop posting. */
static void test_begins_cancelled(void **state)
{
	(void)state;
	open_builders();
	mesh_vqp_want_stop(tracked.vqp);
	assert_int_equal(in_a_thread(begins_cancelled), 0);
	assert_false(atomic_load(&tracked.vqp->posting.stop_wanted));
}

/* Who is in the batch may do that. */
static void test_ends_in_own_batch(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_builders();
	ibv_wr_start(tracked.qp_ex);
	build_write(1, 0x1111);
	end_err(&tracked);
	assert_int_equal(ibv_wr_complete(tracked.qp_ex), 0);
	wc = end_wait(&tracked);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_begins_cancelled),
		T(test_batch_through_a_move),
		T(test_batch_aborted),
		T(test_ends_in_own_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
