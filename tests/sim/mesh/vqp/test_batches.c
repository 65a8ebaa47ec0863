// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Batches that a program has begun with libmlx5's own ibv_wr_start(), before anything of ours was in between: libmlx5 has the lock of
 * the queue pair's sends until they end. Who moves that queue pair, or others, does not wait for them, nor who is in one for himself.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

#define PSN	 0x123u

static struct end first, second; /* each connected to itself; what is posted is libmlx5's until they are prepared */

static const struct manner builders = {.how = MOVED, .builders = true};

static int setup(void **state)
{
	set_survive(true);
	return world_setup(state);
}

static void close_end(struct end *e)
{
	if (e->mr)
		end_close(e);
	memset(e, 0, sizeof(*e));
}

static int teardown(void **state)
{
	(void)state;
	alarm(0);
	close_end(&first);
	close_end(&second);
	set_survive(false);
	world_close(&world);
	return 0;
}

static void open_end(struct end *e)
{
	end_open(e, &world, &builders, &(struct shape){0});
	tracked_rtr(e, &tracked_ops, world_rtr(&world, false, e->qp->qp_num, PSN), &e->vqp);
	assert_int_equal(e->vqp->tracker->walker != NULL, world.mc->data.mlx5.lock == MESH_MLX5_LOCK_FOUND);
	tracked_rts(e, e->vqp, world_rts(PSN));
}

static void open_ends(void)
{
	open_end(&first);
	open_end(&second);
	alarm(PATIENCE_S);
}

/* ---- steps of the helper thread's; each in another thread ------------------------------------------------------------- */

struct step {
	int (*what)(struct end *e, struct mv_move_sync *sync);
	struct end *e;
	struct mv_move_sync *sync;
};

static void *step(void *arg)
{
	const struct step *s = arg;

	return (void *)(intptr_t)s->what(s->e, s->sync);
}

static int elsewhere(int (*what)(struct end *e, struct mv_move_sync *sync), struct end *e, struct mv_move_sync *sync)
{
	struct step s = {what, e, sync};
	pthread_t thread;
	void *ret;

	assert_int_equal(pthread_create(&thread, NULL, step, &s), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	return (int)(intptr_t)ret;
}

static int prepare(struct end *e, struct mv_move_sync *sync)
{
	struct ibv_qp_attr rtr, rts = world_rts(PSN);
	uint32_t qpn;
	int err = mesh_failover_prepare(e->vqp, world.spd, &shadow_attr, &qpn);

	(void)sync;
	if (err)
		return err;
	rtr = world_rtr(&world, true, qpn, PSN);
	return mesh_failover_connect(e->vqp, &rtr, RTR_MASK, &rts, RTS_MASK);
}

static int drain(struct end *e, struct mv_move_sync *sync)
{
	return mesh_failover_drain(e->vqp, true, sync);
}

static int drain_on(struct end *e, struct mv_move_sync *sync)
{
	return mesh_failover_drain(e->vqp, false, sync);
}

static int replay(struct end *e, struct mv_move_sync *sync)
{
	return mesh_failover_replay(e->vqp, sync->next_psn, sync->n_received, 4, NULL);
}

static int drained(struct end *e, struct mv_move_sync *sync)
{
	unsigned int i;
	int err = -EAGAIN;

	for (i = 0; err == -EAGAIN && i < PATIENCE_S * 100; i++) {
		usleep(1000);
		err = elsewhere(drain_on, e, sync);
	}
	return err;
}

static void move(struct end *e)
{
	struct mv_move_sync sync;
	int err;

	assert_int_equal(elsewhere(prepare, e, &sync), 0);
	err = elsewhere(drain, e, &sync);
	assert_int_equal(err == -EAGAIN ? drained(e, &sync) : err, 0);
	assert_int_equal(elsewhere(replay, e, &sync), 0);
}

/* ---- the program's ------------------------------------------------------------------------------------------------------ */

static void build_write(struct end *e, uint64_t wr_id, uint64_t what)
{
	struct ibv_qp_ex *qp = e->qp_ex;

	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, e->mr->rkey, (uintptr_t)&e->buf[8 * wr_id]);
	ibv_wr_set_inline_data(qp, &what, sizeof(what));
}

static void assert_written(struct end *e, uint64_t wr_id, uint64_t what)
{
	struct ibv_wc wc = end_wait(e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)&e->buf[8 * wr_id], what);
}

static void write_one(struct end *e, uint64_t wr_id, uint64_t what)
{
	ibv_wr_start(e->qp_ex);
	build_write(e, wr_id, what);
	assert_int_equal(ibv_wr_complete(e->qp_ex), 0);
	assert_written(e, wr_id, what);
}

static void query(struct end *e, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, state);
}

/* It is not moved until that ends, and another one is; nothing of the batch is lost. */
static void test_begun_before(void **state)
{
	struct mv_move_sync sync;
	struct ibv_wc wc;

	(void)state;
	open_ends();
	write_one(&first, 1, 0x1111);
	ibv_wr_start(first.qp_ex);
	build_write(&first, 2, 0x2222);
	assert_int_equal(elsewhere(prepare, &first, &sync), -EBUSY);
	query(&first, IBV_QPS_RTS);
	assert_int_equal(end_poll(&first, &wc), 0);
	move(&second);
	write_one(&second, 1, 0x1111);
	assert_int_equal(elsewhere(prepare, &first, &sync), -EBUSY);
	build_write(&first, 3, 0x3333);
	assert_int_equal(ibv_wr_complete(first.qp_ex), 0);
	assert_written(&first, 2, 0x2222);
	assert_written(&first, 3, 0x3333);
	move(&first);
	write_one(&first, 4, 0x4444);
}

/* One that comes to nothing is over as well. */
static void test_aborted(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	open_ends();
	ibv_wr_start(first.qp_ex);
	build_write(&first, 1, 0x1111);
	assert_int_equal(elsewhere(prepare, &first, &sync), -EBUSY);
	ibv_wr_abort(first.qp_ex);
	move(&first);
	write_one(&first, 2, 0x2222);
}

static int post_write(struct end *e, struct mv_move_sync *sync)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = 8, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 9,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)&e->buf[8 * 9], .rkey = e->mr->rkey}},
			   *bad;

	(void)sync;
	return ibv_post_send(e->qp, &wr, &bad);
}

/* Another thread waits for the end of the batch before it posts, as it would without us; who is in the batch polls meanwhile. */
static void test_poster_waits(void **state)
{
	struct step post = {post_write, &first, NULL};
	struct mv_move_sync sync;
	pthread_t thread;
	void *ret;

	(void)state;
	open_ends();
	move(&second); /* now ibv_post_send() of all of them is ours */
	write_one(&first, 1, 0x1111);
	ibv_wr_start(first.qp_ex);
	build_write(&first, 2, 0x2222);
	assert_int_equal(pthread_create(&thread, NULL, step, &post), 0);
	usleep(10000); /* it waits */
	end_quiet(&first);
	query(&first, IBV_QPS_RTS);
	assert_int_equal(elsewhere(prepare, &first, &sync), -EBUSY);
	assert_int_equal(ibv_wr_complete(first.qp_ex), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_null(ret);
	assert_written(&first, 2, 0x2222);
	assert_int_equal(end_wait(&first).wr_id, 9);
	move(&first);
	write_one(&first, 3, 0x3333);
}

/*
 * A thread was about to begin one when our functions came in. What others post meanwhile comes behind it, and so does
 * the drain.
 */
static void test_begun_late(void **state)
{
	struct mv_move_sync sync;
	void (*start)(struct ibv_qp_ex *qp);

	(void)state;
	open_ends();
	start = first.qp_ex->wr_start;
	assert_int_equal(elsewhere(prepare, &first, &sync), 0);
	start(first.qp_ex);
	build_write(&first, 4, 0x4444);
	assert_int_equal(elsewhere(post_write, &first, NULL), 0);
	end_quiet(&first);
	assert_int_equal(ibv_wr_complete(first.qp_ex), 0);
	assert_written(&first, 4, 0x4444);
	assert_int_equal(end_wait(&first).wr_id, 9);
	start(first.qp_ex);
	assert_int_equal(elsewhere(post_write, &first, NULL), 0);
	ibv_wr_abort(first.qp_ex);
	assert_int_equal(end_wait(&first).wr_id, 9);
	start(first.qp_ex);
	build_write(&first, 1, 0x1111);
	assert_int_equal(elsewhere(drain, &first, &sync), -EAGAIN);
	assert_int_equal(elsewhere(drain_on, &first, &sync), -EAGAIN);
	query(&first, IBV_QPS_ERR); /* nothing here hides it */
	move(&second);
	build_write(&first, 2, 0x2222);
	assert_int_equal(ibv_wr_complete(first.qp_ex), 0);
	assert_int_equal(drained(&first, &sync), 0);
	assert_int_equal(elsewhere(replay, &first, &sync), 0);
	assert_written(&first, 1, 0x1111);
	assert_written(&first, 2, 0x2222);
	write_one(&first, 3, 0x3333);
}

/* Where it cannot be told who is in a batch, all are ours from the beginning. */
static void test_cannot_be_told(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	world.mc->data.mlx5.lock = MESH_MLX5_LOCK_NOWHERE;
	open_ends();
	ibv_wr_start(first.qp_ex);
	build_write(&first, 1, 0x1111);
	assert_int_equal(elsewhere(prepare, &first, &sync), 0);
	assert_int_equal(elsewhere(drain, &first, &sync), -EAGAIN);
	move(&second);
	assert_int_equal(ibv_wr_complete(first.qp_ex), 0);
	assert_int_equal(drained(&first, &sync), 0);
	assert_int_equal(elsewhere(replay, &first, &sync), 0);
	assert_written(&first, 1, 0x1111);
}

/* Somebody just posts in the moment in which it is prepared, and is not heard of again. */
static void waits_for_a_post(bool called_off)
{
	struct ibv_sge sge = {.addr = (uintptr_t)first.buf, .length = 8, .lkey = first.mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)first.buf + 64, .rkey = first.mr->rkey},
	}, *bad;
	const struct mesh_mlx5_lock *lock = &first.vqp->tracker->walker->lock;
	uint32_t *word = (uint32_t *)(uintptr_t)lock->word;
	struct mv_move_sync sync;

	assert_int_equal(elsewhere(prepare, &first, &sync), 0);
	*word = !lock->free;
	assert_int_equal(ibv_post_send(first.qp, &wr, &bad), 0);
	assert_true(mesh_failover_waits(first.vqp));
	end_quiet(&first);
	*word = lock->free;
	if (called_off)
		mesh_failover_release(first.vqp);
	else
		assert_false(mesh_failover_waits(first.vqp));
	assert_int_equal(end_wait(&first).wr_id, 1);
}

static void test_waits_for_a_post(void **state)
{
	(void)state;
	open_ends();
	waits_for_a_post(false);
}

static void test_waits_and_is_called_off(void **state)
{
	(void)state;
	open_ends();
	waits_for_a_post(true);
}

/* It is found, or most of what is here says nothing. */
static void test_is_told(void **state)
{
	struct mesh_mlx5_lock lock;

	(void)state;
	open_ends();
	assert_int_equal(world.mc->data.mlx5.lock, MESH_MLX5_LOCK_FOUND);
	lock = first.vqp->tracker->walker->lock;
	assert_false(mesh_mlx5_is_locked(&lock));
	ibv_wr_start(first.qp_ex);
	assert_true(mesh_mlx5_is_locked(&lock));
	assert_false(mesh_mlx5_is_locked(&second.vqp->tracker->walker->lock));
	ibv_wr_abort(first.qp_ex);
	assert_false(mesh_mlx5_is_locked(&lock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_waits_for_a_post), T(test_waits_and_is_called_off),
		T(test_is_told), T(test_begun_before), T(test_aborted), T(test_poster_waits), T(test_begun_late), T(test_cannot_be_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
