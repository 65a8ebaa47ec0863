// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A program that asks for RTR or INIT of a queue pair that is connected, in a host of the simulator: it is told what a kernel tells it,
 * and its connection goes on, logged, moved or held. One that was refused is connected when the program tries again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "conn.h"
#include "survive.h"
#include "vqp_failover.h"
#include "moved.h"
#include "said.h"
#include "vqp_int.h"

#define LENGTH 64u
#define PSN    0x123u

static struct end a, b; /* a is asked again */

static const struct manner noted = {.how = MOVED}, bare = {.how = BARE};
static const struct shape shape = {0};

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	set_survive(true);
	world.mc->sees_peers = true;
	memset(&said, 0, sizeof(said));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	end_close(&a);
	end_close(&b);
	world_close(&world);
	return 0;
}

static int to_rtr(struct end *e, const struct end *peer, int mask)
{
	struct ibv_qp_attr attr = world_rtr(&world, false, peer->qp->qp_num, PSN);

	return ibv_modify_qp(e->qp, &attr, mask);
}

static int try_rts(struct end *e, int mask)
{
	struct ibv_qp_attr attr = world_rts(PSN);

	return ibv_modify_qp(e->qp, &attr, mask);
}

static void to_rts(struct end *e)
{
	assert_int_equal(try_rts(e, RTS_MASK), 0);
}

/* Where there is an agent, which says @verdict of the path. Return: a's connection, with a reference. */
static struct mesh_conn *open_both(enum mv_path_verdict verdict)
{
	struct mesh_conn *conn;

	said.agent = true;
	said.decision = (struct mesh_path_decision){.verdict = verdict, .agent_version = MV_CTL_VERSION, .n_paths = 1};
	end_open(&a, &world, &bare, &shape);
	said.agent = false;
	end_open(&b, &world, &bare, &shape);
	conn = mesh_conn_get(a.qp);
	assert_non_null(conn);
	return conn;
}

static void one_message(struct end *from, struct end *to, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from->buf, .length = LENGTH, .lkey = from->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	memset(from->buf, (int)wr_id, LENGTH);
	assert_int_equal(end_recv(to, wr_id, 4096, LENGTH), 0);
	assert_int_equal(end_send(from, &wr), 0);
	wc = end_wait(to);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	wc = end_wait(from);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_memory_equal(to->buf + 4096, from->buf, LENGTH);
}

static void traffic(uint64_t first)
{
	uint64_t i;

	for (i = first; i < first + 20; i++) {
		one_message(&a, &b, i);
		one_message(&b, &a, i + 100);
	}
	end_quiet(&a);
	end_quiet(&b);
}

/* Each twice, for what is done wrongly may be seen at the second one only. */
static void ask_again(struct mesh_conn *conn)
{
	const enum mesh_conn_state was = conn->state;
	struct mesh_vqp *h = conn->vqp;
	const enum mesh_vqp_mode mode = mesh_vqp_mode(h);
	const unsigned int n_vqps = world.mc->data.n_vqps, n_noted = world.mc->data.n_noted, n_cq = h->send_cq->users.n_vqps;
	struct ibv_qp_attr again;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		again = world_rtr(&world, false, b.qp->qp_num, PSN);
		assert_int_equal(ibv_modify_qp(a.qp, &again, RTR_MASK), EINVAL);
		again = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
		assert_int_equal(ibv_modify_qp(a.qp, &again, INIT_MASK), EINVAL);
		again = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
		assert_int_equal(ibv_modify_qp(a.qp, &again, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), EINVAL);
	}
	assert_int_equal(a.qp->state, IBV_QPS_RTS);
	assert_int_equal(conn->state, was);
	assert_false(conn->gone);
	assert_ptr_equal(conn->vqp, h);
	assert_int_equal(mesh_vqp_mode(h), mode);
	assert_int_equal(world.mc->data.n_vqps, n_vqps);
	assert_int_equal(world.mc->data.n_noted, n_noted);
	assert_int_equal(h->send_cq->users.n_vqps, n_cq);
}

static void test_logged(void **state)
{
	struct mesh_conn *conn = open_both(MV_PATH_WORKS);

	(void)state;
	assert_int_equal(to_rtr(&a, &b, RTR_MASK), 0);
	to_rts(&a);
	assert_int_equal(to_rtr(&b, &a, RTR_MASK), 0);
	to_rts(&b);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	assert_non_null(conn->vqp);
	traffic(1);
	ask_again(conn);
	traffic(50);
	assert_null(mesh_failover_lost(conn->vqp));
	assert_int_equal(conn->vqp->early.log.n, 0); /* nothing is noted for ever */
	mesh_conn_put(conn);
}

static void test_moved(void **state)
{
	struct mesh_conn *conn;

	(void)state;
	end_open(&a, &world, &noted, &shape);
	end_open(&b, &world, &noted, &shape);
	ends_connect(&a, &b, &shape);
	/* As execute.c has it; ends with the queue pair. */
	conn = mesh_conn_new(world.mc, a.qp);
	assert_non_null(conn);
	conn->state = MESH_CONN_MOVED;
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts_mask = RTS_MASK;
	conn->vqp = a.vqp;
	a.vqp = NULL;
	traffic(1);
	ask_again(conn);
	traffic(50);
	assert_null(mesh_failover_lost(conn->vqp));
	mesh_conn_put(conn);
}

/* Its peer is being asked, and the lower provider's queue pair is in INIT. */
static void test_held(void **state)
{
	struct mesh_conn *conn = open_both(MV_PATH_ASK);

	(void)state;
	assert_int_equal(to_rtr(&a, &b, RTR_MASK), 0);
	to_rts(&a);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	ask_again(conn);
	mesh_conn_put(conn);
}

/* What the kernel takes besides. */
#define RTR_MORE (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define RTS_MORE (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)

/*
 * What is missing, or too much, is refused as by the lower provider, of which b is, also where that is not asked or is
 * not asked yet.
 */
static void test_refused_as_by_the_lower(void **state)
{
	struct mesh_conn *conn = open_both(MV_PATH_ASK);
	int bit, err;

	(void)state;
	for (bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (bit & (IBV_QP_STATE | RTR_MORE))
			continue;
		err = to_rtr(&b, &a, RTR_MASK ^ bit);
		assert_int_equal(err, EINVAL);
		assert_int_equal(to_rtr(&a, &b, RTR_MASK ^ bit), err);
		assert_int_equal(conn->state, MESH_CONN_INIT);
		assert_null(conn->vqp);
	}
	assert_int_equal(to_rtr(&a, &b, RTR_MASK), 0);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	assert_int_equal(to_rtr(&b, &a, RTR_MASK), 0);
	for (bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (bit & (IBV_QP_STATE | RTS_MORE))
			continue;
		err = try_rts(&b, RTS_MASK ^ bit);
		assert_int_equal(err, EINVAL);
		assert_int_equal(try_rts(&a, RTS_MASK ^ bit), err);
		assert_int_equal(conn->attr.rts_mask, 0);
	}
	to_rts(&a);
	to_rts(&b);
	mesh_conn_put(conn);
}

/* A program that was refused RTR tries again. @ret: the connection then, with a reference */
static void try_again(enum mv_path_verdict verdict, struct mesh_conn **ret)
{
	struct mesh_conn *conn = open_both(verdict);

	assert_int_equal(to_rtr(&a, &b, RTR_MASK & ~IBV_QP_MIN_RNR_TIMER), EINVAL);
	assert_int_equal(conn->state, MESH_CONN_INIT);
	assert_null(conn->vqp);
	assert_int_equal(to_rtr(&a, &b, RTR_MASK), 0);
	to_rts(&a);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(to_rtr(&b, &a, RTR_MASK), 0);
	to_rts(&b);
	traffic(1);
	*ret = conn;
}

static void test_tries_again(void **state)
{
	struct mesh_conn *conn;

	(void)state;
	try_again(MV_PATH_WORKS, &conn);
	assert_null(mesh_failover_lost(conn->vqp));
	mesh_conn_put(conn);
}

/* It is the lower provider's, whatever becomes of its path. */
static void test_tries_again_without_thread(void **state)
{
	struct mesh_conn *conn;

	(void)state;
	said.wake = ENOMEM;
	try_again(MV_PATH_ASK, &conn);
	assert_null(conn->vqp);
	assert_int_equal(to_rtr(&a, &b, RTR_MASK), EINVAL);
	traffic(50);
	mesh_conn_put(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_logged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_held, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_as_by_the_lower, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tries_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tries_again_without_thread, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
