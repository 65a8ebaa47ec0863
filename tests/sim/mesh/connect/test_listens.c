// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A connection that is held while its peer is asked, in a host of the simulator: the lower provider's queue pair
 * receives meanwhile what the peer may send at once. It stops that when the peer has the other RoCE version, also if
 * the program polls an extended CQ, and nothing is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <unistd.h>
#include <cmocka.h>

#include "held.h"
#include "move_internal.h"
#include "passthrough.h"
#include "vqp_int.h"

static int setup_listening(void **state)
{
	listens = true;
	setup_rtr(state);
	assert_int_equal(n_rtr, 1);
	assert_true(conn->own_qp.listens);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	return 0;
}

static int setup_extended(void **state)
{
	manner = &extended;
	return setup_listening(state);
}

static int setup_init(void **state)
{
	(void)state;
	manner = &extended;
	listens = true;
	open_in_init(MV_PATH_ASK, false);
	return 0;
}

/* Nothing has to be connected any more when it stays. Sends have waited, and what comes meanwhile is received. */
static void test_listens(void **state)
{
	(void)state;
	assert_int_equal(to_rts(), 0);
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	end_quiet(&e);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	assert_written(1, 0x1111);
}

/* The peer says that it has the other version: back to INIT, with what was posted to be received, in order. */
static void test_listens_no_more(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint64_t i;

	(void)state;
	assert_int_equal(to_rts(), 0);
	for (i = 1; i <= 3; i++)
		assert_int_equal(end_recv(&e, i, (uint32_t)i * 64, 64), 0);
	mesh_lock(&conn->lock);
	assert_true(mesh_vqp_stop_posting(conn->vqp));
	assert_int_equal(mesh_conn_listen_no_more(conn), 0);
	mesh_vqp_resume_posting(conn->vqp);
	assert_false(conn->own_qp.listens);
	mesh_unlock(&conn->lock);
	assert_int_equal(world.mc->lower.qp.query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(end_recv(&e, 4, 4 * 64, 64), 0);
	ibv_wr_start(e.qp_ex);
	build_write(9, 0x9999);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0); /* these functions are ours again */
	n_rtr = 0;
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	assert_written(9, 0x9999);
	for (i = 1; i <= 4; i++) {
		struct ibv_wc wc;

		assert_int_equal(end_send_empty(&e, 10, 0), 0);
		wc = end_wait(&e);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wr_id, i);
	}
}

/* What has been received cannot be taken back: the peer has that version. */
static void test_has_received(void **state)
{
	(void)state;
	assert_int_equal(end_recv(&e, 1, 64, 64), 0);
	assert_int_equal(end_recv(&e, 2, 128, 64), 0);
	assert_int_equal(to_rts(), 0);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	assert_int_equal(end_send_empty(&e, 10, 0), 0);
	assert_int_equal(end_wait(&e).wr_id, 1);
	conn->own_qp.listens = true;
	assert_int_equal(mesh_conn_listen_no_more(conn), -EBUSY);
	conn->own_qp.listens = false;
}

/* A completion of another queue pair, which is polled until end_poll(). */
static void start_poll(void)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_poll_cq_attr none = {0};

	end_open(&flushed, &world, manner, &(struct shape){.hub = &e});
	assert_int_equal(end_recv(&flushed, 77, 0, 64), 0);
	assert_int_equal(ibv_modify_qp(flushed.qp, &err, IBV_QP_STATE), 0);
	while (ibv_start_poll(e.cq_ex, &none))
		usleep(1000);
	assert_int_equal(e.cq_ex->wr_id, 77);
}

/* The peer has another version than that for which the lower provider's listens. */
static void listens_for_another(void)
{
	conn->own_qp.listen_type = conn->ends.local_type == MV_GID_TYPE_ROCE_V1 ? MV_GID_TYPE_ROCE_V2 : MV_GID_TYPE_ROCE_V1;
	conn->own_qp.listen_index++;
}

static enum ibv_qp_state lower_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(world.mc->lower.qp.query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/*
 * Who polls an extended CQ may take his time, and ask: libmlx5 would wait for the end of that to bring the lower
 * provider's to RESET. It listens on meanwhile, without anybody trying all the time.
 */
static void listens_while_polled(enum mv_move_state state)
{
	start_poll();
	listens_for_another();
	mesh_lock(&conn->lock);
	assert_true(mesh_vqp_stop_posting(conn->vqp));
	assert_int_equal(mesh_conn_listen_no_more(conn), -EAGAIN);
	mesh_vqp_resume_posting(conn->vqp);
	mesh_unlock(&conn->lock);
	n_submitted = 0;
	begin_helping();
	assert_looks_seldom();
	assert_int_equal(n_submitted, 0); /* a worker could only give it back */
	assert_rts();
	assert_int_equal(lower_state(), IBV_QPS_RTR);
	mesh_lock(&conn->lock);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	assert_int_equal(conn->move.state, state);
	mesh_unlock(&conn->lock);
	n_rtr = 0;
	ibv_end_poll(e.cq_ex);
	assert_goes_passthrough();
	end_helping();
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_written(1, 0x1111);
}

static void test_polled(void **state)
{
	(void)state;
	assert_int_equal(to_rts(), 0);
	listens_while_polled(MV_MOVE_PASSTHROUGH);
}

/* Likewise when a path is agreed upon. There is none here, so the connection stays in the end. */
static void test_polled_and_prepared(void **state)
{
	(void)state;
	assert_int_equal(to_rts(), 0);
	mv_move_prepare(&conn->move, &conn->ends.local.gid, &conn->ends.peer.gid, conn->ends.local_type);
	listens_while_polled(MV_MOVE_PREPARING);
}

/*
 * Who may poll since before our functions came in is not seen by them: then the lower provider's does not listen, for
 * that could not be taken back.
 */
static void test_polled_before(void **state)
{
	(void)state;
	start_poll();
	to_rtr();
	assert_int_equal(to_rts(), 0);
	assert_false(conn->own_qp.listens);
	assert_int_equal(lower_state(), IBV_QPS_INIT);
	ibv_end_poll(e.cq_ex);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_listens, setup_listening, teardown),
		cmocka_unit_test_setup_teardown(test_listens_no_more, setup_listening, teardown),
		cmocka_unit_test_setup_teardown(test_has_received, setup_listening, teardown),
		cmocka_unit_test_setup_teardown(test_listens, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_listens_no_more, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_has_received, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_polled, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_polled_and_prepared, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_polled_before, setup_init, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
