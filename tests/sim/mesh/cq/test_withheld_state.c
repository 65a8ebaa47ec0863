// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the program is told of the state of a queue pair whose errors are withheld from it, in a host of the simulator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "failover_exec.h"
#include "withheld_fixture.h"

static void wait_until_it_failed(void)
{
	unsigned int ms;

	for (ms = 0; state_of(true) != IBV_QPS_ERR && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(state_of(true), IBV_QPS_ERR);
}

static void test_state_of_withheld(void **state)
{
	struct mesh_conn *conn;
	struct ibv_wc wc;

	(void)state;
	begin(&(struct shape){0});
	conn = connection();
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	send_one(1);
	send_one(2);
	wait_until_it_failed();
	/* Before anybody polls, and afterwards. */
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	assert_int_equal(n_failed, 1);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	conn->attr.rts_mask = 0;
	assert_int_equal(state_of(false), IBV_QPS_RTR);
	conn->attr.rts_mask = RTS_MASK;
	mesh_failover_flush_errors(conn->vqp);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	assert_given();
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

static void test_state_while_drained(void **state)
{
	struct mv_move_sync sync;
	struct mesh_conn *conn;
	unsigned int ms;
	int err;

	(void)state;
	begin(&(struct shape){0});
	conn = connection();
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	tracked_prepare(conn->vqp);
	err = mesh_failover_drain(conn->vqp, true, &sync);
	for (ms = 0; err == -EAGAIN && ms < PATIENCE_MS; ms++) {
		assert_int_equal(state_of(true), IBV_QPS_ERR);
		assert_int_equal(state_of(false), IBV_QPS_RTS);
		usleep(1000);
		err = mesh_failover_drain(conn->vqp, false, &sync);
	}
	assert_int_equal(err, 0);
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	mesh_failover_flush_errors(conn->vqp);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

/* The program's own wish, and what no path would help against. */
static void test_state_of_the_programs(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct mesh_conn *conn;

	(void)state;
	begin(&(struct shape){0});
	conn = connection();
	assert_int_equal(world.mc->lower.qp.modify_qp(e.qp, &attr, IBV_QP_STATE), 0); /* as a device does by itself */
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	e.qp->state = IBV_QPS_RTS;
	assert_int_equal(mesh_vqp_modify(conn->vqp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, withheld_setup, withheld_teardown)
		T(test_state_of_withheld),
		T(test_state_while_drained),
		T(test_state_of_the_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
