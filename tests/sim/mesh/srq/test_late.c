// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A receive that was acknowledged completes when its queue pair is in ERR already, and IBV_EVENT_QP_LAST_WQE_REACHED comes after
 * that. Whoever takes such a queue pair out of work waits for it: no receive of an SRQ gets lost, or is there twice.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "hub.h"
#include "simhost.h"
#include "srq.h"
#include "vqp_int.h"

#define LATE_US	    5000
#define VERY_LATE_US 400000 /* a drain that nobody tells of the end gives up before that */

static const struct manner bare = {.how = BARE}, moved = {.how = MOVED};

/* What a program's thread for asynchronous events does. */
static struct {
	pthread_t thread;
	_Atomic bool stop;
	_Atomic unsigned int n_last_wqe; /* that it was given */
} reader;

static void *read_events(void *arg)
{
	struct ibv_async_event event;

	(void)arg;
	while (!atomic_load(&reader.stop))
		if (world_event(&world, &event, 1) && event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			atomic_fetch_add(&reader.n_last_wqe, 1);
	return NULL;
}

static void start_reader(void)
{
	atomic_store(&reader.stop, false);
	atomic_store(&reader.n_last_wqe, 0);
	/* It is known to be one that reads. */
	atomic_store(&world.mc->data.last_wqe.program_reads, true);
	assert_int_equal(pthread_create(&reader.thread, NULL, read_events, NULL), 0);
}

static void stop_reader(void)
{
	atomic_store(&reader.stop, true);
	pthread_join(reader.thread, NULL);
}

/* It is acknowledged, and its receive completes later. */
static void send_one(struct at_work *l, struct end *e)
{
	struct ibv_wc wc;

	assert_int_equal(end_send_empty(e, 7, IBV_SEND_SIGNALED), 0);
	wc = end_wait(&l->hub.end);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 7);
}

static void take_one_of(struct at_work *l, const struct end *e)
{
	struct ibv_wc wc = end_wait(&l->hub.end);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, e->qp->qp_num);
	take_slot(&l->hub, &wc);
}

/* ---- drains ------------------------------------------------------------------------------------------------------ */

/* @e goes elsewhere while a receive of it is on its way. */
static void move_with_one(struct at_work *l, struct end *e)
{
	struct mv_move_sync sync;

	send_one(l, e);
	failover_drain(e, &sync);
	assert_int_equal(sync.n_received, 1);
	assert_int_equal(mesh_failover_replay(e->vqp, sync.next_psn, sync.n_received, 4, NULL), 0);
	take_one_of(l, e);
}

static void use_all(struct at_work *l, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		at_work_works(l, &l->ends[i % l->n]);
	for (i = 0; i < SLOTS; i++)
		assert_false(l->hub.posted[i]);
}

/* From where it was made, and once more from where it went. */
static void test_drain(void **state)
{
	struct at_work *l = at_work_open(1);

	(void)state;
	start_reader();
	simhost_late(LATE_US);
	move_with_one(l, &l->ends[0]);
	move_with_one(l, &l->ends[0]);
	simhost_late(0);
	stop_reader();
	assert_null(mesh_failover_lost(l->ends[0].vqp));
	use_all(l, 18);
	at_work_close(l);
}

/* Nobody reads events, and the last receive comes long after the drain. The program gets it once, and nothing else breaks. */
static void test_given_up(void **state)
{
	struct at_work *l = at_work_open(2);
	struct end *e = &l->ends[0];
	struct mv_move_sync sync;

	(void)state;
	tracked_prepare_loop(e->vqp, PSN);
	simhost_late(VERY_LATE_US);
	send_one(l, e);
	tracked_drain(e->vqp, true, &sync);
	assert_int_equal(mesh_failover_replay(e->vqp, sync.next_psn, 1, 4, NULL), 0);
	simhost_late(0);
	take_one_of(l, e);
	assert_null(mesh_failover_lost(e->vqp));
	assert_int_equal(n_counted(mesh_srq_find(world.mc, l->hub.end.srq)), 19);
	use_all(l, 19);
	at_work_close(l);
}

/* ---- a message that ends in its middle --------------------------------------------------------------------------- */

/*
 * A begun receive is flushed later. @read: somebody reads events; @noted: its log is not read; @alone: at the lower
 * provider
 */
static void begun(uint32_t late_us, bool read, bool noted, bool alone)
{
	const struct manner manner = {.how = MOVED};
	struct at_work *l = at_work_open(alone ? 1 : 2);
	unsigned int known = world.mc->data.mlx5.state, i;
	struct mv_move_sync sync;
	struct end from, to;
	struct ibv_qp_attr rtr;
	struct mesh_srq *srq;

	failover_move(&l->ends[0]);
	end_open(&from, &world, &bare, &(struct shape){.cqe = 64});
	if (noted)
		world.mc->data.mlx5.state = MESH_MLX5_NO;
	end_open(&to, &world, &manner, &(struct shape){.hub = &l->hub.end});
	to.manner = &moved;
	rtr = world_rtr(&world, false, from.qp->qp_num, PSN);
	rtr.path_mtu = IBV_MTU_256;
	tracked_rtr(&to, &tracked_ops, rtr, &to.vqp);
	tracked_rts(&to, to.vqp, world_rts(PSN));
	world.mc->data.mlx5.state = known;
	half_open(&from, &to);
	if (read)
		start_reader();
	simhost_late(late_us);
	failover_drain(&to, &sync);
	assert_int_equal(sync.n_received, 0);
	assert_int_equal(to.vqp->tracker->n_undone, 0); /* sends */
	assert_int_equal(mesh_failover_replay(to.vqp, PSN, 0, 4, NULL), 0); /* its peer has got nothing */
	simhost_late(0);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	for (i = 0; i < 2 * late_us / 1000; i++) {
		assert_int_equal(end_poll(&l->hub.end, &(struct ibv_wc){0}), 0);
		usleep(1000);
	}
	if (read)
		stop_reader();
	assert_null(mesh_failover_lost(to.vqp));
	assert_int_equal(n_counted(srq), 20);
	use_all(l, 20);
	end_close(&to);
	end_close(&from);
	at_work_close(l);
}

static void test_begun(void **state)
{
	(void)state;
	begun(LATE_US, true, false, false);
	begun(LATE_US, true, true, false);
	begun(LATE_US, true, false, true);
}

static void test_begun_given_up(void **state)
{
	(void)state;
	begun(VERY_LATE_US / 4, false, false, false);
	begun(VERY_LATE_US / 4, false, true, false);
}

/* ---- receives that are collected --------------------------------------------------------------------------------- */

/*
 * One stays at the lower provider, so all receives are taken out there and redistributed. All of them complete late, at
 * once.
 */
static void test_collected(void **state)
{
	struct at_work *l = at_work_open(2);
	struct mesh_srq *srq = mesh_srq_find(world.mc, l->hub.end.srq);

	(void)state;
	post_missing(&l->hub, SLOTS - 20);
	simhost_late(LATE_US);
	failover_move(&l->ends[0]);
	simhost_late(0);
	assert_int_equal(n_counted(srq), SLOTS);
	assert_true(srq->lower.log.n_left > SLOTS / 3 && srq->lower.log.n_left < SLOTS);
	use_all(l, SLOTS);
	at_work_close(l);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* The program ends one that has moved: when it is told that the last receive is there, it is. */
static void test_ended(void **state)
{
	struct at_work *l = at_work_open(1);
	struct end *e = &l->ends[0];
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	failover_move(e);
	start_reader();
	simhost_late(4 * LATE_US);
	send_one(l, e);
	end_err(e);
	for (i = 0; i < PATIENCE_MS && !atomic_load(&reader.n_last_wqe); i++)
		usleep(1000);
	assert_int_equal(atomic_load(&reader.n_last_wqe), 1);
	assert_int_equal(end_poll(&l->hub.end, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	take_slot(&l->hub, &wc);
	simhost_late(0);
	stop_reader();
	at_work_close(l);
}

/* The next one has received before the move came to nothing: that is the program's. */
static void test_failed(void **state)
{
	struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_SEND}, *bad;
	struct at_work *l = at_work_open(1);
	struct end *e = &l->ends[0];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.rq_psn = PSN};
	struct mv_move_sync sync;
	struct ibv_wc wc;

	(void)state;
	failover_drain(e, &sync);
	simhost_late(4 * LATE_US);
	assert_int_equal(ibv_post_send(e->vqp->next.shadow.qp, &wr, &bad), 0);
	while (attr.rq_psn == PSN)
		assert_int_equal(ibv_query_qp(e->vqp->next.shadow.qp, &attr, IBV_QP_RQ_PSN, &init), 0);
	mesh_failover_flush_errors(e->vqp);
	assert_int_equal(end_poll(&l->hub.end, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	take_slot(&l->hub, &wc);
	simhost_late(0);
	at_work_close(l);
}

/* The peer has used the other rail, and its message is on its way to the CQ, when the connection is to be made at home. */
static void unprepared(bool srq)
{
	const struct shape shape = {.srq = srq};
	struct end a, b;

	end_open(&a, &world, &moved, &shape);
	end_open(&b, &world, &moved, &(struct shape){0});
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(end_recv(&a, 101, 64, 64), 0);
	end_rtr(&a, &b, &shape);
	end_rtr(&b, &a, &shape);
	end_prepare(&a);
	end_prepare(&b);
	end_connect(&a, &b, &shape);
	end_connect(&b, &a, &shape);
	mesh_vqp_activate(b.vqp);
	end_rts(&b, &shape);
	simhost_late(LATE_US);
	assert_int_equal(end_send_empty(&b, 7, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
	assert_int_equal(mesh_vqp_unprepare(a.vqp), -EBUSY);
	assert_int_equal(end_wait(&a).wr_id, 100);
	simhost_late(0);
	end_close(&a);
	end_close(&b);
}

static void test_unprepared(void **state)
{
	(void)state;
	unprepared(false);
	unprepared(true);
}

static int setup(void **state)
{
	simhost_open();
	return world_setup(state);
}

static int teardown(void **state)
{
	simhost_late(0);
	return world_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_drain),     T(test_given_up), T(test_begun),  T(test_begun_given_up),
		T(test_collected), T(test_ended),    T(test_failed), T(test_unprepared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
