// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A connection that is held while its peer is asked, and then left as the program made it, in a host of the simulator:
 * the program is in a batch (ibv_wr_start()) meanwhile, and asks for the state of its queue pair. Nobody waits for
 * ever, and nothing is lost. Nor where another thread of the program modifies it.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "failover_exec.h"
#include "held.h"
#include "mlx5_wr_walker.h"
#include "vqp_int.h"

static int setup_logged(void **state)
{
	(void)state;
	open_with(MV_PATH_WORKS, false);
	assert_int_equal(to_rts(), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	return 0;
}

static int setup_read(void **state)
{
	(void)state;
	open_with(MV_PATH_WORKS, true);
	assert_int_equal(to_rts(), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	return 0;
}

/* Who is in a batch may take his time, and ask. The connection stays held meanwhile, without anybody trying all the time. */
static void test_asks_in_batch(void **state)
{
	(void)state;
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	begin_helping();
	assert_looks_seldom();
	assert_rts();
	assert_int_equal(n_rtr, 0);
	build_write(2, 0x2222);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_goes_passthrough();
	end_helping();
	assert_rts();
	assert_written(1, 0x1111);
	assert_written(2, 0x2222);
	ibv_wr_start(e.qp_ex);
	build_write(3, 0x3333);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_written(3, 0x3333);
}

static enum ibv_qp_state state_of(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void assert_flushed(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = end_wait(&e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* The program's own path does not work, either. Who only receives has no send that would tell: its receives do. */
static void test_refused_receives(void **state)
{
	(void)state;
	refuses = ETIMEDOUT;
	assert_int_equal(end_recv(&e, 1, 0, 64), 0);
	begin_helping();
	assert_int_equal(wait_for_outcome(), MESH_CONN_FAILED);
	assert_flushed(1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_recv(&e, 2, 0, 64), 0);
	assert_flushed(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(), IBV_QPS_ERR);
	/* And a send has the status that it has of a peer that is not there. */
	ibv_wr_start(e.qp_ex);
	build_write(3, 0x3333);
	build_write(4, 0x4444);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_flushed(3, IBV_WC_RETRY_EXC_ERR);
	assert_flushed(4, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
	end_helping();
}

/* Who asks for RTS later is told then, as bare at RTR. */
static void test_refused_before_rts(void **state)
{
	(void)state;
	refuses = ETIMEDOUT;
	begin_helping();
	assert_int_equal(wait_for_outcome(), MESH_CONN_FAILED);
	assert_int_equal(to_rts(), ETIMEDOUT);
	end_helping();
}

/* He may end the connection there, which is then not made any more. */
static void test_ends_in_batch(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	(void)state;
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	begin_helping();
	usleep(BATCH_US);
	assert_int_equal(ibv_modify_qp(e.qp, &err, IBV_QP_STATE), 0);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_int_equal(end_wait(&e).status, IBV_WC_WR_FLUSH_ERR);
	end_helping();
	assert_int_equal(n_rtr, 0);
}

static _Atomic bool posts;

/* One batch after the other, asking in each of them. */
static void *post_batches(void *arg)
{
	(void)arg;
	while (posts) {
		ibv_wr_start(e.qp_ex);
		assert_rts();
		ibv_wr_abort(e.qp_ex);
	}
	return NULL;
}

/* Batches that begin when the lower provider's is being connected wait for that, with nothing that it waits for. */
static void test_batches_meanwhile(void **state)
{
	pthread_t poster;

	(void)state;
	resolves_us = 100000;
	posts = true;
	assert_int_equal(pthread_create(&poster, NULL, post_batches, NULL), 0);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	posts = false;
	assert_int_equal(pthread_join(poster, NULL), 0);
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_written(1, 0x1111);
}

static void *forbid_reads(void *arg)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	(void)arg;
	return (void *)(intptr_t)ibv_modify_qp(e.qp, &attr, IBV_QP_ACCESS_FLAGS);
}

static void *end_it(void *arg)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)arg;
	return (void *)(intptr_t)ibv_modify_qp(e.qp, &attr, IBV_QP_STATE);
}

/* It waits for the end of the batch, with nothing that who is in that asks for. */
static void modified_elsewhere(void *(*modify)(void *))
{
	pthread_t other;
	void *ret;

	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(pthread_create(&other, NULL, modify, NULL), 0);
	usleep(BATCH_US);
	assert_rts();
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_int_equal(pthread_join(other, &ret), 0);
	assert_null(ret);
}

static void test_modified_held(void **state)
{
	(void)state;
	modified_elsewhere(forbid_reads);
}

static void test_modified(void **state)
{
	(void)state;
	modified_elsewhere(forbid_reads);
	assert_written(1, 0x1111);
}

static void test_ended_elsewhere(void **state)
{
	(void)state;
	modified_elsewhere(end_it);
	assert_int_equal(end_wait(&e).wr_id, 1); /* done, or flushed */
}

/* A first move that came to nothing: the lower provider's queue pair goes on, with our functions before it. */
static void test_ended_after_failure(void **state)
{
	(void)state;
	if (!conn->vqp->tracker->walker)
		skip(); /* it is not known where libmlx5 has its lock */
	assert_int_equal(mesh_walker_engage(conn->vqp), 0);
	mesh_lock(&conn->lock);
	mesh_conn_fail(conn, "of a test");
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	assert_int_equal(mesh_vqp_mode(conn->vqp), MESH_VQP_TRACKED);
	mesh_unlock(&conn->lock);
	modified_elsewhere(end_it);
	assert_int_equal(end_wait(&e).wr_id, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_asks_in_batch, setup_held, teardown),
		cmocka_unit_test_setup_teardown(test_refused_receives, setup_held, teardown),
		cmocka_unit_test_setup_teardown(test_refused_before_rts, setup_rtr, teardown),
		cmocka_unit_test_setup_teardown(test_ends_in_batch, setup_held, teardown),
		cmocka_unit_test_setup_teardown(test_batches_meanwhile, setup_held, teardown),
		cmocka_unit_test_setup_teardown(test_modified_held, setup_held, teardown),
		cmocka_unit_test_setup_teardown(test_modified, setup_logged, teardown),
		cmocka_unit_test_setup_teardown(test_ended_elsewhere, setup_logged, teardown),
		cmocka_unit_test_setup_teardown(test_ended_after_failure, setup_read, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
