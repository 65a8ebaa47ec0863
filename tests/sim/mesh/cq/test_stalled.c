// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * No thread of ours ever runs, as on a single CPU where a real-time thread of the program spins: polling itself gives the program what is
 * withheld from it, in a host of the simulator.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "survive.h"
#include "vqp_failover.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

#define NOBODY	 0xfffff0u /* no queue pair has this number */

static struct end e;
static struct mesh_conn *conn;
static unsigned int n_sent;
static struct mv_ctl_msg sent;

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_wake(bool urgent);

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	sent = *msg;
	n_sent++;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

static void path_failed(void *arg)
{
	(void)arg;
}

static int no_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	(void)rkey;
	(void)ret;
	return -EAGAIN;
}

static const struct mesh_vqp_ops ops = {.path_failed = path_failed, .want_key = no_key};
static const struct manner plain = {.how = MOVED}, extended = {.how = MOVED, .extended = true};
static const struct shape shape = {0};

static int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	mesh_root.config.move_timeout_ms = 2000;
	n_sent = 0;
	conn = NULL;
	memset(&e, 0, sizeof(e));
	return 0;
}

static int teardown(void **state)
{
	if (conn) {
		mesh_vqp_destroy(conn->vqp);
		conn->vqp = NULL;
		mesh_conn_unlink(conn);
		mesh_conn_put(conn);
	}
	end_close(&e);
	return world_teardown(state);
}

/* As connect.c has it; a queue pair of the lower provider that has a log, to a peer that never answers. */
static void tracked(const struct manner *manner)
{
	struct ibv_qp_attr rts = world_rts(0);
	struct mesh_vqp *h;

	rts.timeout = 8;
	rts.retry_cnt = 1;
	end_open(&e, &world, manner, &shape);
	tracked_rtr(&e, &ops, world_rtr(&world, false, NOBODY, 0), &h);
	tracked_rts(&e, h, rts);
	conn = mesh_conn_new(world.mc, e.qp);
	assert_non_null(conn);
	conn->state = MESH_CONN_PASSTHROUGH;
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts_mask = RTS_MASK;
	conn->vqp = h;
}

/* One that has not agreed on a path yet; its end and the peer's are its own, and its peer has answered once. */
static void held(void)
{
	struct mv_move_begin begin;

	end_open(&e, &world, &plain, &shape);
	conn = mesh_conn_new(world.mc, e.qp);
	assert_non_null(conn);
	assert_int_equal(mesh_vqp_new(world.mc, e.qp, &ops, conn, &conn->vqp), 0);
	e.qp->state = IBV_QPS_RTS;
	conn->state = MESH_CONN_HELD;
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts_mask = RTS_MASK;
	begin = (struct mv_move_begin){.local.qpn = e.qp->qp_num, .peer.qpn = e.qp->qp_num, .attempt = 1};
	mv_move_begin(&conn->move, &begin, &mv_move_default_times, mesh_now_ns());
	conn->move.attempts.peer = 1;
}

static void send_two(void)
{
	assert_int_equal(end_send_empty(&e, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_send_empty(&e, 2, IBV_SEND_SIGNALED), 0);
}

/*
 * A pause from one poll to the next, in us: far below what the plugin takes for sleep (POLLED_NS of stalled.c), and it
 * leaves the processor to other tests.
 */
#define PAUSE 1000

/* By a thread that polls all the time. @runs: the helper thread does. Return: when the first one came, 0: it did not in @ms; both are errors. */
static uint64_t spin(unsigned int ms, bool runs)
{
	static const enum ibv_wc_status status[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR};
	uint64_t begun_ns = mesh_now_ns(), until_ns = begun_ns + ms * 1000000ull, first_ns = 0;
	struct ibv_wc wc;
	unsigned int n = 0;

	while (n < 2 && mesh_now_ns() < until_ns) {
		if (runs)
			atomic_fetch_add(&mesh_root.process->turns, 1);
		if (!end_poll(&e, &wc)) {
			usleep(PAUSE);
			continue;
		}
		first_ns = first_ns ? first_ns : mesh_now_ns();
		assert_int_equal(wc.wr_id, n + 1);
		assert_int_equal(wc.status, status[n]);
		n++;
	}
	assert_true(!n || n == 2);
	return first_ns ? first_ns - begun_ns : 0;
}

/* Not before a move could have come to an end, had there been somebody to bring it there. */
static void gives(void)
{
	assert_true(spin(PATIENCE_MS, false) >= 1500000000ull);
	end_quiet(&e);
	assert_int_equal(conn->state, MESH_CONN_FAILED);
}

static void test_errors(void **state)
{
	(void)state;
	tracked(&plain);
	send_two();
	gives();
}

static void test_errors_extended(void **state)
{
	(void)state;
	tracked(&extended);
	send_two();
	gives();
}

/* It began to move, and its threads were kept from running then. */
static void test_drained(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	tracked(&plain);
	send_two();
	tracked_prepare(conn->vqp);
	tracked_drain(conn->vqp, true, &sync);
	gives();
}

/* It was not connected yet; and the peer, which may wait for it, is told. */
static void test_held(void **state)
{
	(void)state;
	held();
	send_two();
	gives();
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent.type, MV_CTL_BYE);
}

/* What only receives has no error on a bare adapter either. */
static void test_held_without_sends(void **state)
{
	(void)state;
	held();
	assert_int_equal(spin(2500, false), 0);
	assert_int_equal(conn->state, MESH_CONN_HELD);
}

/* A move waits for atomics, and what is behind them with it: it is called off, and they go on. */
static void test_quiesce(void **state)
{
	uint64_t until_ns;
	struct ibv_wc wc;

	(void)state;
	tracked(&plain);
	tracked_prepare(conn->vqp);
	mesh_failover_quiesce(conn->vqp);
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	mesh_lock(&conn->vqp->lock);
	conn->vqp->paused.quiet = MESH_QUIET_YES;
	mesh_unlock(&conn->vqp->lock);
	assert_int_equal(end_send(&e, &(struct ibv_send_wr){.wr_id = 1,
							    .sg_list = &(struct ibv_sge){.addr = (uintptr_t)e.buf,
											 .length = 8,
											 .lkey = e.mr->lkey},
							    .num_sge = 1,
							    .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
							    .send_flags = IBV_SEND_SIGNALED,
							    .wr.atomic = {.remote_addr = (uintptr_t)e.buf, .rkey = e.mr->rkey}}),
			 0);
	assert_int_equal(conn->vqp->queue.n, 1);
	/* The atomic may complete before the empty queue is seen. */
	for (until_ns = mesh_now_ns() + PATIENCE_MS * 1000000ull; conn->vqp->queue.n &&
	     mesh_now_ns() < until_ns; usleep(PAUSE))
		assert_true(!end_poll(&e, &wc) || (wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS));
	assert_int_equal(conn->vqp->queue.n, 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
}

/* As long as the helper thread runs, how this ends is for it to say. */
static void test_not_stalled(void **state)
{
	(void)state;
	tracked(&plain);
	send_two();
	assert_int_equal(spin(2500, true), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
}

/* Who is stopped, or sleeps, keeps nobody from running. */
static void test_sleeps(void **state)
{
	struct ibv_wc wc;
	int i;

	(void)state;
	tracked(&plain);
	send_two();
	for (i = 0; i < 10; i++) {
		usleep(300000);
		assert_int_equal(end_poll(&e, &wc), 0);
	}
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_errors),  T(test_errors_extended), T(test_drained), T(test_held), T(test_held_without_sends),
		T(test_quiesce), T(test_not_stalled),     T(test_sleeps),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
