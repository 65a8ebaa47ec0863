// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Polling while something else happens: work that is moved, and what a program or another thread does between start_poll and end_poll
 * of an extended CQ, of which libmlx5 has the lock then.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "heldint.h"
#include "live.h"
#include "moved.h"

#define PSN	 0x123u
#define PATIENCE 10 /* seconds, then something waits for ever */

#define RTR_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                      \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |               \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static struct world world;
static struct end hub; /* has the CQ; its own QP is not used */
static struct end guarded; /* connected to itself, may be moved */
static struct end bare; /* connected to itself, not ours */
static struct end from, to; /* moved; @from on the hub's CQ */

static const struct manner bare_ex = {.how = BARE, .extended = true}, moved_ex = {.how = MOVED, .extended = true};
static const struct manner moved_plain = {.how = MOVED};
static const struct mesh_shadow_attr shadow_attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

static void path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_held_ops ops = {.path_failed = path_failed};

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	mesh_root.config.survive = true;
	return 0;
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
	close_end(&guarded);
	close_end(&bare);
	close_end(&from);
	close_end(&to);
	close_end(&hub);
	mesh_root.config.survive = false;
	world_close(&world);
	return 0;
}

static struct mesh_cq *cq_of_hub(void)
{
	struct mesh_cq *cq = mesh_map_get(&world.mc->data.cqs, hub.cq);

	assert_non_null(cq);
	return cq;
}

static struct ibv_qp_attr rtr_of(uint32_t qpn)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.rq_psn = PSN,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = world.gid, .sgid_index = world.gid_index, .hop_limit = 4}},
	};
}

static struct ibv_qp_attr rts_of(void)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
}

static void open_hub(const struct manner *manner, const struct shape *shape)
{
	end_open(&hub, &world, manner, shape);
}

static void open_guarded(const struct manner *manner, uint32_t max_wr)
{
	struct ibv_qp_attr rtr, rts = rts_of();

	end_open(&guarded, &world, manner, &(struct shape){.hub = &hub, .max_wr = max_wr});
	assert_int_equal(mesh_live_guard(world.mc, guarded.qp, &ops, NULL, 1024, &guarded.held), 0);
	rtr = rtr_of(guarded.qp->qp_num);
	assert_int_equal(mesh_held_modify_base(guarded.held, &rtr, RTR_MASK), 0);
	assert_int_equal(mesh_live_base_rts(guarded.held, &rts, RTS_MASK), 0);
	guarded.qp->state = IBV_QPS_RTS;
}

static void open_bare(const struct manner *manner)
{
	const struct shape shape = {.hub = &hub};

	end_open(&bare, &world, manner, &shape);
	end_rtr(&bare, &bare, &shape);
	end_rts(&bare, &shape);
}

static void open_moved(void)
{
	end_open(&from, &world, &moved_ex, &(struct shape){.hub = &hub});
	end_open(&to, &world, &moved_plain, &(struct shape){0});
	ends_connect(&from, &to, &(struct shape){0});
}

static void write_nothing(struct end *e, const struct end *peer, uint64_t wr_id)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)peer->buf, .rkey = peer->mr->rkey}};

	assert_int_equal(end_send(e, &wr), 0);
}

/* The session stays open. */
static void start_poll(uint64_t wr_id)
{
	struct ibv_poll_cq_attr attr = {0};
	unsigned int i;
	int err = ENOENT;

	for (i = 0; err == ENOENT && i < PATIENCE * 1000; i++) {
		err = ibv_start_poll(hub.cq_ex, &attr);
		if (err)
			usleep(1000);
	}
	assert_int_equal(err, 0);
	assert_int_equal(hub.cq_ex->wr_id, wr_id);
}

/* The session stays open at the shadow CQ. */
static void start_poll_shadow(void)
{
	write_nothing(&from, &to, 1);
	start_poll(1);
	assert_int_equal(cq_of_hub()->open, MESH_FROM_SHADOW);
	alarm(PATIENCE);
}

static void end_poll_ex(void)
{
	assert_int_equal(ibv_next_poll(hub.cq_ex), ENOENT);
	ibv_end_poll(hub.cq_ex);
	alarm(0);
}

static void prepare(void)
{
	uint32_t qpn;

	assert_int_equal(mesh_live_prepare(guarded.held, world.spd, &shadow_attr, &qpn), 0);
}

static void *prepare_elsewhere(void *arg)
{
	uint32_t qpn;

	(void)arg;
	return (void *)(intptr_t)mesh_live_prepare(guarded.held, world.spd, &shadow_attr, &qpn);
}

static void *release_elsewhere(void *arg)
{
	mesh_live_release(guarded.held);
	return arg;
}

static int in_a_thread(void *(*fn)(void *arg))
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

/* ---- whose it is ------------------------------------------------------------------------------------------------- */

/* Not to be told from others' completions, nor from our marks: such a queue pair is left alone. */
static void test_nameless(void **state)
{
	struct mesh_held *h;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.wc_flags = IBV_WC_EX_WITH_BYTE_LEN});
	assert_null(hub.cq_ex->read_qp_num);
	end_open(&guarded, &world, &moved_ex, &(struct shape){.hub = &hub});
	assert_false(mesh_cq_names_qps(world.mc, hub.cq));
	assert_int_equal(mesh_live_guard(world.mc, guarded.qp, &ops, NULL, 1024, &h), -EOPNOTSUPP);
}

/* ---- between start_poll and end_poll ----------------------------------------------------------------------------- */

/* Who polls brings a queue pair to its end that was about to move to where he polls. */
static void test_ends_one_that_moves(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_moved();
	open_guarded(&moved_ex, 0);
	prepare();
	start_poll_shadow();
	alarm(2);
	assert_int_equal(mesh_held_modify(guarded.held, &attr, IBV_QP_STATE), 0);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	end_poll_ex();
	assert_int_equal(world.mc->data.n_leftovers, 0);
}

/* The helper thread may have the lock that the program's thread is going to wait for: it must not wait for the poll to be over. */
static void test_released_elsewhere(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_moved();
	open_guarded(&moved_ex, 0);
	prepare();
	start_poll_shadow();
	in_a_thread(release_elsewhere);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	end_poll_ex();
	assert_int_equal(world.mc->data.n_leftovers, 0);
	prepare();
}

/* What is left of it goes before the program can destroy what it uses. */
static void test_left_until_destroyed(void **state)
{
	struct mesh_cq *cq;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	prepare();
	cq = cq_of_hub();
	pthread_mutex_lock(&cq->poll_lock);
	mesh_live_release(guarded.held);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	pthread_mutex_unlock(&cq->poll_lock);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	close_end(&guarded);
	assert_int_equal(world.mc->data.n_leftovers, 0);
}

static void grows(bool shadow)
{
	/* Of a size that takes either, but not both, or not one. */
	open_hub(&bare_ex, &(struct shape){.cqe = shadow ? 200 : 63});
	open_moved();
	open_guarded(&moved_ex, 64);
	if (shadow) {
		start_poll_shadow();
	} else {
		write_nothing(&guarded, &guarded, 2);
		start_poll(2);
		assert_int_equal(cq_of_hub()->open, MESH_FROM_BASE);
		alarm(PATIENCE);
	}
	assert_int_equal(in_a_thread(prepare_elsewhere), -EBUSY);
	end_poll_ex();
	prepare();
}

static void test_grows(void **state)
{
	(void)state;
	grows(false);
}

static void test_grows_shadow(void **state)
{
	(void)state;
	grows(true);
}

static void *fence_elsewhere(void *arg)
{
	struct mv_move_sync sync;

	(void)arg;
	return (void *)(intptr_t)mesh_live_fence(guarded.held, true, &sync);
}

/* libmlx5 looks at the CQ when it is to take a mark in a queue that is full. */
static void test_fence_of_a_full_one(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct mv_move_sync sync;
	unsigned int i;
	int err;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	open_bare(&bare_ex);
	prepare();
	while (!end_send(&guarded, &wr)) /* nobody has posted a receive: it is not taken, and will be tried again for ever */
		;
	write_nothing(&bare, &bare, 2);
	start_poll(2);
	alarm(PATIENCE);
	assert_int_equal(in_a_thread(fence_elsewhere), -EAGAIN);
	ibv_end_poll(hub.cq_ex);
	for (i = 0, err = -EAGAIN; err == -EAGAIN && i < PATIENCE * 100; i++) {
		usleep(1000);
		err = mesh_live_fence(guarded.held, false, &sync);
	}
	assert_int_equal(err, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_nameless), T(test_ends_one_that_moves), T(test_released_elsewhere), T(test_left_until_destroyed),
		T(test_grows), T(test_grows_shadow), T(test_fence_of_a_full_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
