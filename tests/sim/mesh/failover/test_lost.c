// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An atomic whose result was lost at a move fails when all before it is done, in a host of the simulator: whatever the program looks at
 * meanwhile, and where what is before it will never be done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "connect.h"
#include "failover_exec.h"
#include "rails.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"
#include "negotiateint.h"

#define PSN    0x77u
#define FAILED 100 /* the number of the atomic */
#define READ   99 /* and of what is before it */

static struct end e;
static struct mesh_conn *conn;

/* There is no helper thread here. */
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_wake(bool urgent);

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	(void)msg;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

static const struct manner noted = {.how = MOVED};

/* The program's queue pair; its end is its own, too. */
static int setup(void **state)
{
	struct ibv_qp_attr rtr;

	world_setup(state);
	set_survive(true);
	memset(&e, 0, sizeof(e));
	end_open(&e, &world, &noted, &(struct shape){0});
	conn = mesh_conn_new(world.mc, e.qp);
	assert_non_null(conn);
	assert_null(mesh_conn_track(conn, TRACKED_MTU));
	conn->state = MESH_CONN_PASSTHROUGH;
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts_mask = RTS_MASK;
	conn->attr.rts.max_rd_atomic = 4;
	rtr = world_rtr(&world, false, e.qp->qp_num, PSN);
	assert_int_equal(mesh_vqp_modify_lower(conn->vqp, &rtr, RTR_MASK), 0);
	tracked_rts(&e, conn->vqp, world_rts(PSN));
	return 0;
}

static int teardown(void **state)
{
	mesh_conn_put(conn);
	end_close(&e);
	return world_teardown(state);
}

/* One of a single packet that was posted before the drain, and flushed. */
static void was_posted(struct ibv_send_wr wr)
{
	struct mesh_wr_tracker *tracker = conn->vqp->tracker;

	assert_int_equal(mesh_tracker_room(tracker, &conn->vqp->made.cap), 0);
	assert_int_equal(mesh_tracker_send(tracker, &wr), 0);
	tracker->n_undone++;
}

enum before { NOTHING, READ_OF_NOTHING, READ_WITH_A_KEY };

/* The peer has executed it, and what is before it, and none of their results has come. A key is nowhere known. */
static void moves(enum before before)
{
	const struct mesh_shadow_attr attr = {.port_num = 1, .qp_access_flags = ALL_REMOTE};
	struct mv_move_action activate = {.type = MV_DO_ACTIVATE, .replay = true};
	struct ibv_send_wr read = {.wr_id = READ,
				   .opcode = IBV_WR_RDMA_READ,
				   .sg_list = &(struct ibv_sge){(uintptr_t)e.buf, 8, e.mr->lkey},
				   .num_sge = before == READ_WITH_A_KEY,
				   .wr.rdma = {(uintptr_t)e.buf, 0xdead00}};
	struct mesh_vqp *h = conn->vqp;
	struct ibv_qp_attr rtr, rts = world_rts(PSN);
	struct mv_move_sync sync;
	uint32_t qpn;

	assert_int_equal(mesh_failover_prepare(h, world.spd, &attr, &qpn), 0);
	rtr = world_rtr(&world, true, qpn, PSN);
	assert_int_equal(mesh_failover_connect(h, &rtr, RTR_MASK, &rts, RTS_MASK), 0);
	tracked_drain(h, true, &sync);
	mesh_lock(&h->lock);
	if (before != NOTHING)
		was_posted(read);
	was_posted((struct ibv_send_wr){.wr_id = FAILED, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED});
	activate.next_psn = mv_psn_add(h->tracker->sends.first_psn, before == NOTHING ? 1 : 2);
	activate.n_received = sync.n_received;
	mesh_unlock(&h->lock);
	mesh_conn_carry_out(conn, &activate, mesh_now_ns());
	assert_int_equal(conn->state, MESH_CONN_MOVED);
	assert_non_null(mesh_failover_lost(h));
	assert_int_equal(h->queue.n, before);
}

/* What the helper thread does, until nothing waits any more. */
static void runs(void)
{
	uint64_t now_ns;
	unsigned int ms;

	for (ms = 0; ms < PATIENCE_MS && conn->vqp->queue.n; ms++) {
		now_ns = mesh_now_ns();
		mesh_conn_run(conn, now_ns, now_ns);
		usleep(1000);
	}
}

static void assert_fails(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = end_wait(&e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* A program that waits for nothing but errors and what its peer marks: that the READ is done wakes nobody. */
static void test_who_sleeps(void **state)
{
	(void)state;
	assert_int_equal(ibv_req_notify_cq(e.cq, 1), 0);
	moves(READ_OF_NOTHING);
	while (end_event(&e, 100))
		assert_int_equal(ibv_req_notify_cq(e.cq, 1), 0); /* it is told of the move, and looks for nothing */
	runs();
	assert_true(end_event(&e, PATIENCE_MS));
	assert_fails(FAILED, IBV_WC_RETRY_EXC_ERR);
	end_quiet(&e);
}

static void test_who_polls(void **state)
{
	(void)state;
	moves(READ_OF_NOTHING);
	assert_fails(FAILED, IBV_WC_RETRY_EXC_ERR);
	end_quiet(&e);
}

/* The NIC is reset, and says nothing any more of what is at it. */
static void test_lost_nic(void **state)
{
	(void)state;
	moves(READ_WITH_A_KEY); /* so it waits */
	conn->path.pd = world.spd;
	atomic_store(&world.rail->lost, true);
	runs();
	conn->path.pd = NULL;
	atomic_store(&world.rail->lost, false);
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	assert_fails(READ, IBV_WC_WR_FLUSH_ERR);
	assert_fails(FAILED, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
}

/* It has failed before, and nobody has seen that yet: each error comes once. */
static void test_lost_nic_behind_errors(void **state)
{
	uint64_t now_ns;
	unsigned int i, seen[3] = {0};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(end_recv(&e, FAILED + 1, 0, 64), 0);
	moves(NOTHING);
	assert_int_equal(end_send_empty(&e, FAILED + 2, IBV_SEND_SIGNALED), 0);
	for (i = 0, attr.qp_state = IBV_QPS_RTS; attr.qp_state != IBV_QPS_ERR && i < PATIENCE_MS; i++) {
		usleep(1000);
		assert_int_equal(mesh_root.lib.verbs.query_qp(conn->vqp->now.qp, &attr, IBV_QP_STATE, &init), 0);
	}
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	conn->path.pd = world.spd;
	atomic_store(&world.rail->lost, true);
	now_ns = mesh_now_ns();
	mesh_conn_run(conn, now_ns, now_ns);
	conn->path.pd = NULL;
	atomic_store(&world.rail->lost, false);
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	for (i = 0; i < 3; i++) {
		wc = end_wait(&e);
		assert_int_equal(wc.status, wc.wr_id == FAILED ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
		assert_in_range(wc.wr_id, FAILED, FAILED + 2);
		seen[wc.wr_id - FAILED]++;
	}
	assert_true(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
	end_quiet(&e);
}

/* A key is not waited for that only somebody could tell who has left. */
static void test_key_of_a_peer_that_left(void **state)
{
	(void)state;
	conn->ends.peer_gone = true;
	moves(READ_WITH_A_KEY);
	runs();
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	assert_fails(READ, IBV_WC_RETRY_EXC_ERR);
	assert_fails(FAILED, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_who_sleeps), T(test_who_polls), T(test_lost_nic), T(test_lost_nic_behind_errors), T(test_key_of_a_peer_that_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
