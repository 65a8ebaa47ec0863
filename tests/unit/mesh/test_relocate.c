// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs that have failed wait for a path for a while, for whatever reason there is none, before the program gets their errors. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conn.h"
#include "heldint.h"
#include "probed.h"
#include "relocate.h"

#define MS 1000000ull

uint64_t __wrap_mesh_now_ns(void);
int __wrap_mesh_thread_wake(bool urgent);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);

static uint64_t now_ns;

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

static void no_path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_held_ops ops = {.path_failed = no_path_failed};
static struct mesh_process process;
static struct mesh_context context;
static struct ibv_cq ibv_cq;
static struct ibv_qp qp = {.qp_num = 7};
static struct mesh_cq cq;
static struct mesh_held held;
static struct mesh_conn conn;

/* The path of a connection at work is gone: a send has used up its retries. */
static int setup(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_send_wr wr = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	struct mesh_completion c = {.wr_id = 1, .cq = &cq, .status = IBV_WC_RETRY_EXC_ERR};

	(void)state;
	memset(&process, 0, sizeof(process));
	mesh_root.process = &process;
	mesh_root.config.move_timeout_ms = 2000;
	cq = (struct mesh_cq){.cq = &ibv_cq};
	held = (struct mesh_held){.qp = &qp,
				  .mode = MESH_HELD_GUARDED,
				  .ops = &ops,
				  .cap = cap,
				  .send_cq = &cq,
				  .recv_cq = &cq,
				  .guard = mesh_guard_new(&cap, false, false)};
	conn = (struct mesh_conn){.qp = &qp, .mc = &context, .qpn = 7, .state = MESH_CONN_NATIVE, .held = &held};
	assert_int_equal(mesh_guard_room(held.guard, &cap), 0);
	mesh_guard_rtr(held.guard, 1024);
	mesh_guard_rts(held.guard, 0);
	assert_int_equal(mesh_guard_send(held.guard, &wr), 0);
	assert_false(mesh_guard_completed(&held, &c));
	now_ns = 1000 * MS;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mesh_guard_free(held.guard);
	free(cq.stash);
	return 0;
}

static void stay(enum mv_ctl_reason reason)
{
	const struct mv_move_action action = {.type = MV_DO_STAY, .reason = (uint8_t)reason};

	assert_true(mesh_conn_live(&conn, &action, now_ns));
}

static void waits_for(enum mv_ctl_reason reason)
{
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	now_ns += 400 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(cq.n_stash, 0);
	now_ns += 101 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
	assert_int_equal(cq.stash[0].status, IBV_WC_RETRY_EXC_ERR);
}

static void test_no_path(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_PATH);
}

/* There seemed to be one, but its port went down, too, before anyone was told: nothing can be connected there. */
static void test_path_that_does_not_work(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_RESOURCES);
}

static void test_will_never_be(void **state)
{
	(void)state;
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
}

/* Nobody needs to know any more whether the path of one that has failed works. */
static void test_failed_one_is_not_watched(void **state)
{
	const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};
	uint64_t deadline;

	(void)state;
	pthread_mutex_init(&conn.lock, NULL);
	mesh_probed_use(&conn.probed.work, MV_WATCH_WORK, &local, &remote);
	assert_non_null(conn.probed.work);
	conn.state = MESH_CONN_FAILED;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_null(conn.probed.work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_no_path),
		T(test_path_that_does_not_work),
		T(test_will_never_be),
		T(test_failed_one_is_not_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
