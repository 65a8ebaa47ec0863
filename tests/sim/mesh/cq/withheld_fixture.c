// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "withheld_fixture.h"
#include "survive.h"

#define NOBODY 0xfffff0u /* no queue pair has this number */

struct end e;
struct mesh_vqp *h;
_Atomic unsigned int n_failed;

static void path_failed(void *arg)
{
	(void)arg;
	atomic_fetch_add(&n_failed, 1);
}

/* There is no helper thread here. */
struct mv_ctl_msg sent[4];
unsigned int n_sent;

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_wake(bool urgent);

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	assert_true(n_sent < sizeof(sent) / sizeof(*sent));
	sent[n_sent++] = *msg;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

const struct manner noted = {.how = MOVED}, extended = {.how = MOVED, .extended = true};
static const struct mesh_vqp_ops ops = {.path_failed = path_failed};

void begin_as(const struct manner *manner, const struct shape *shape)
{
	struct ibv_qp_attr rts = world_rts(0);

	rts.timeout = 8;
	rts.retry_cnt = 1;
	end_open(&e, &world, manner, shape);
	tracked_rtr(&e, &ops, world_rtr(&world, false, NOBODY, 0), &h);
	tracked_rts(&e, h, rts);
}

void begin(const struct shape *shape)
{
	begin_as(&noted, shape);
}

/* Connected to itself, so that what it does shows. */
void begin_looped(const struct manner *manner)
{
	end_open(&e, &world, manner, &(struct shape){0});
	tracked_rtr(&e, &ops, world_rtr(&world, false, e.qp->qp_num, 0x77), &h);
	tracked_rts(&e, h, world_rts(0x77));
}

int withheld_setup(void **state)
{
	world_setup(state);
	set_survive(true);
	n_failed = n_sent = 0;
	h = NULL;
	memset(&e, 0, sizeof(e));
	return 0;
}

int withheld_teardown(void **state)
{
	if (h)
		mesh_vqp_destroy(h);
	if (e.mr)
		end_close(&e);
	return world_teardown(state);
}

void send_one(uint64_t wr_id)
{
	assert_int_equal(end_send_empty(&e, wr_id, IBV_SEND_SIGNALED), 0);
}

void arm(void)
{
	assert_int_equal(ibv_req_notify_cq(e.cq, 0), 0);
}

void assert_given(void)
{
	struct ibv_wc wc;

	arm();
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
}

struct mesh_conn *connection(void)
{
	struct mesh_conn *conn = mesh_conn_new(world.mc, e.qp);

	assert_non_null(conn);
	conn->state = MESH_CONN_PASSTHROUGH;
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts_mask = RTS_MASK;
	conn->vqp = h;
	h = NULL;
	return conn;
}

enum ibv_qp_state state_of(bool device)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (device) {
		assert_int_equal(world.mc->lower.qp.query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
		return attr.qp_state;
	}
	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, attr.cur_qp_state);
	assert_int_equal(attr.qp_state, e.qp->state);
	return attr.qp_state;
}
