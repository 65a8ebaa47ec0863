// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A tool in the same process (a tracer, a fault injector) that puts its own functions into struct ibv_context_ops, in a host of the
 * simulator: they stay and are called, whatever the queue pairs do, and what would need ours there is not done. Put over ours they stay,
 * too, when ours are not needed any more.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "conn.h"
#include "reading.h"
#include "run.h"
#include "said.h"
#include "srq.h"
#include "survive.h"
#include "ud.h"

static const struct shape plain = {0};
static const struct manner moved = {.how = MOVED};

/* ---- the tool ------------------------------------------------------------------------------------------------- */

static struct ibv_context_ops saved; /* what it found */
static struct {
	unsigned int post_send, post_recv, poll_cq, req_notify_cq, post_srq_recv;
} called;

static int tool_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	called.post_send++;
	return saved.post_send(qp, wr, bad);
}

static int tool_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	called.post_recv++;
	return saved.post_recv(qp, wr, bad);
}

static int tool_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	called.poll_cq++;
	return saved.poll_cq(cq, n, wc);
}

static int tool_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	called.req_notify_cq++;
	return saved.req_notify_cq(cq, solicited_only);
}

static int tool_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	called.post_srq_recv++;
	return saved.post_srq_recv(srq, wr, bad);
}

/* @places: MESH_AT_*. */
static struct ibv_context_ops hook(unsigned int places)
{
	struct ibv_context_ops *ops = &world.context->ops;

	saved = *ops;
	memset(&called, 0, sizeof(called));
	if (places & MESH_AT_post_send)
		ops->post_send = tool_post_send;
	if (places & MESH_AT_post_recv)
		ops->post_recv = tool_post_recv;
	if (places & MESH_AT_poll_cq)
		ops->poll_cq = tool_poll_cq;
	if (places & MESH_AT_req_notify_cq)
		ops->req_notify_cq = tool_req_notify_cq;
	if (places & MESH_AT_post_srq_recv)
		ops->post_srq_recv = tool_post_srq_recv;
	return *ops;
}

#define ALL MESH_FOR_SRQS

static void assert_is(const struct ibv_context_ops *ops)
{
	assert_memory_equal(ops, &world.context->ops, sizeof(*ops));
}

/* ---- put in first ---------------------------------------------------------------------------------------------- */

static void connect_by_verbs(struct end *e, const struct end *peer)
{
	struct ibv_qp_attr rtr = world_rtr(&world, false, peer->qp->qp_num, RQ_PSN), rts = world_rts(RQ_PSN);

	assert_int_equal(ibv_modify_qp(e->qp, &rtr, RTR_MASK), 0);
	assert_int_equal(ibv_modify_qp(e->qp, &rts, RTS_MASK), 0);
}

static void one_write(struct run *r)
{
	must_send(r, 7, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED);
	assert_int_equal(end_wait(&r->a).wr_id, 7);
}

/* From INIT to the end, with an agent that says that of the path. */
static void stays(unsigned int places, enum mv_path_verdict verdict)
{
	struct ibv_context_ops before = world.context->ops, hooked = hook(places);
	struct run r;

	said.agent = true;
	said.decision = (struct mesh_path_decision){.verdict = verdict, .agent_version = MV_CTL_VERSION, .n_paths = 1};
	run_open(&r, &bare, &plain);
	assert_is(&hooked);
	assert_null(mesh_vqp_find(world.mc, r.a.qp));
	assert_int_equal(mesh_recvlog_begin(world.mc, r.a.qp), -EBUSY);
	assert_null(mesh_vqp_find(world.mc, r.a.qp));
	assert_int_equal(ibv_req_notify_cq(r.a.cq, 0), 0);
	assert_int_equal(end_recv(&r.b, 1, 0, 64), 0);
	connect_by_verbs(&r.a, &r.b);
	connect_by_verbs(&r.b, &r.a);
	assert_int_equal(r.a.qp->state, IBV_QPS_RTS);
	assert_is(&hooked);
	one_write(&r);
	must_come(&r.a);
	assert_is(&hooked);
	assert_int_equal(!called.post_send, !(places & MESH_AT_post_send));
	assert_int_equal(!called.post_recv, !(places & MESH_AT_post_recv));
	assert_int_equal(!called.poll_cq, !(places & MESH_AT_poll_cq));
	assert_int_equal(!called.req_notify_cq, !(places & MESH_AT_req_notify_cq));
	run_close(&r);
	assert_is(&hooked);
	world.context->ops = before;
	said.agent = false;
}

static void test_stay(void **state)
{
	static const enum mv_path_verdict verdicts[] = {MV_PATH_WORKS, MV_PATH_APART};
	unsigned int place, i;

	(void)state;
	for (i = 0; i < 2; i++) {
		stays(MESH_AT_post_send | MESH_POLLING, verdicts[i]);
		for (place = 1; place < MESH_AT_post_srq_recv; place *= 2)
			stays(place, verdicts[i]);
	}
}

/* It comes between INIT and RTR: what was noted until then does not count any more. */
static void test_after_init(void **state)
{
	struct ibv_context_ops before = world.context->ops, hooked;
	struct mesh_vqp *none = NULL;
	struct run r;

	(void)state;
	run_open(&r, &moved, &plain);
	assert_ptr_equal(world.context->ops.post_recv, mesh_post_recv);
	hooked = hook(MESH_AT_post_send | MESH_POLLING);
	assert_int_equal(mesh_vqp_new(world.mc, r.a.qp, &tracked_ops, NULL, &none), -EBUSY);
	assert_string_not_equal(mesh_vqp_why_busy(world.mc, r.a.qp), mesh_cq_why_taken);
	assert_int_equal(mesh_failover_track(world.mc, r.b.qp, &tracked_ops, NULL, MTU, &none), -EBUSY);
	assert_null(none);
	assert_null(mesh_vqp_find(world.mc, r.a.qp));
	assert_null(mesh_vqp_find(world.mc, r.b.qp));
	hooked.post_recv = world.mc->lower.io.post_recv;
	assert_is(&hooked);
	world.context->ops = before;
	assert_string_equal(mesh_vqp_why_busy(world.mc, r.a.qp), mesh_cq_why_taken);
	run_close(&r);
}

static void test_srq(void **state)
{
	static const struct shape shared = {.srq = true, .noted = true};
	struct ibv_context_ops before = world.context->ops, hooked = hook(MESH_AT_post_srq_recv);
	struct end e;

	(void)state;
	end_open(&e, &world, &bare, &shared);
	assert_null(mesh_srq_find(world.mc, e.srq));
	assert_int_equal(end_recv(&e, 1, 0, 64), 0);
	assert_int_equal(called.post_srq_recv, 1);
	assert_is(&hooked);
	end_close(&e);
	assert_is(&hooked);
	world.context->ops = before;
}

/* What its queue pairs at the lower provider consume would not be seen: so no moved one gets receives of it. */
static void test_srq_unseen(void **state)
{
	static const struct shape shared = {.srq = true, .noted = true};
	struct mesh_rail_srq *rail_srq = NULL;
	struct ibv_context_ops before, hooked;
	struct mesh_srq *m;
	struct end e;

	(void)state;
	end_open(&e, &world, &bare, &shared);
	m = mesh_srq_find(world.mc, e.srq);
	assert_non_null(m);
	before = world.context->ops;
	hooked = hook(MESH_AT_poll_cq);
	assert_int_equal(mesh_srq_join_lower(world.mc, e.qp, false), 0);
	assert_int_equal(mesh_srq_join_shadow(m, world.rail, false, &rail_srq), -EBUSY);
	assert_null(rail_srq);
	assert_is(&hooked);
	world.context->ops = before;
	/* It has gone. */
	assert_int_equal(mesh_srq_join_shadow(m, world.rail, false, &rail_srq), 0);
	assert_ptr_equal(world.context->ops.poll_cq, mesh_poll_cq);
	mesh_srq_leave_shadow(rail_srq, false);
	mesh_srq_left(mesh_srq_leaving(world.mc, e.qp), true);
	end_close(&e);
}

/* A queue pair of the program in INIT, and its CQ. */
struct simple {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct simple simple_open(enum ibv_qp_type type)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	struct simple s = {.cq = ibv_create_cq(world.context, 4, NULL, NULL, 0)};
	struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .cap = {2, 2, 1, 1, 0}, .qp_type = type};

	assert_non_null(s.cq);
	s.qp = ibv_create_qp(world.pd, &init);
	assert_non_null(s.qp);
	assert_int_equal(ibv_modify_qp(s.qp, &attr, mask), 0);
	return s;
}

static void simple_close(struct simple *s)
{
	assert_int_equal(ibv_destroy_qp(s->qp), 0);
	assert_int_equal(ibv_destroy_cq(s->cq), 0);
}

bool __wrap_mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_path_decision *decision, char *why,
			       size_t why_size);

bool __wrap_mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_path_decision *decision, char *why,
			       size_t why_size)
{
	(void)mc;
	(void)decision;
	(void)why;
	(void)why_size;
	return true;
}

/* As UCX: from now on it polls and posts by itself. */
static void drive(struct simple *s)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = s->cq, .out = &dv}};

	assert_true(mesh_mlx5_is_lower(world.mc));
	assert_int_equal(world.mc->data.mlx5.init_obj(&obj, MLX5DV_OBJ_CQ), 0);
}

/* Return: whether an address handle of @pd to a peer behind another rail is led there. */
static bool leads(struct ibv_pd *pd)
{
	const struct ibv_ah_attr attr = world_rtr(&world, false, 1, 0).ah_attr;
	const struct mesh_choice choice = {
		.index = world.gid_index, .sure = true, .gid = world.gid, .type = MV_GID_TYPE_ROCE_V2};
	struct ibv_ah *ah;

	said.decision =
		(struct mesh_path_decision){.verdict = MV_PATH_APART, .agent_version = MV_CTL_VERSION, .n_paths = 1};
	ah = mesh_ud_create_ah(world.mc, pd, &attr, &choice);
	if (ah)
		assert_int_equal(ibv_destroy_ah(ah), 0);
	return ah;
}

/* An address handle that leads nowhere would be of no use where posts do not pass by us. */
static void test_datagrams(void **state)
{
	struct ibv_context_ops before, hooked;
	struct simple ud;

	(void)state;
	said.agent = true;
	ud = simple_open(IBV_QPT_UD);
	before = world.context->ops;
	hooked = hook(MESH_AT_post_send);
	assert_false(leads(world.pd));
	assert_is(&hooked);
	world.context->ops = before;
	assert_true(leads(world.pd));
	simple_close(&ud);
	said.agent = false;
}

/* Nor where the program posts past libibverbs: datagrams, or what is connected with the help of some. */
static void test_driven_by_the_program(void **state)
{
	struct simple ud, rc, other;
	struct ibv_pd *pd;

	(void)state;
	said.agent = true;
	/* DC or DEVX: nothing of its queue pairs is seen. */
	assert_false(leads(world.pd));
	rc = simple_open(IBV_QPT_RC);
	assert_false(leads(world.pd));
	ud = simple_open(IBV_QPT_UD);
	assert_true(leads(world.pd));
	pd = ibv_alloc_pd(world.context);
	assert_non_null(pd);
	assert_false(leads(pd));
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	/* ud_verbs beside rc_mlx5 */
	drive(&rc);
	assert_false(leads(world.pd));
	other = simple_open(IBV_QPT_RC);
	assert_false(leads(world.pd));
	simple_close(&rc);
	assert_true(leads(world.pd));
	/* ud_mlx5 beside rc_verbs */
	drive(&ud);
	assert_false(leads(world.pd));
	simple_close(&ud);
	assert_false(leads(world.pd));
	simple_close(&other);
	said.agent = false;
}

/* One that is at work, of which nothing but the polls is ours, does not move while something else is where its posts would be ours. */
static void test_prepare(void **state)
{
	unsigned int place;
	uint32_t qpn;

	reading_setup(state);
	connect_a();
	connect_b();
	assert_non_null(h->tracker->walker);
	for (place = MESH_AT_post_send; place <= MESH_AT_post_recv; place *= 2) {
		struct ibv_context_ops before = world.context->ops, hooked = hook(place);

		assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &qpn), -EBUSY);
		assert_is(&hooked);
		one_round();
		world.context->ops = before;
	}
	assert_null(mesh_failover_lost(h));
	tracked_prepare(h);
	assert_ptr_equal(world.context->ops.post_send, mesh_post_send);
	reading_teardown(state);
}

/* ---- put over ours ----------------------------------------------------------------------------------------------- */

static void traffic(struct run *r)
{
	assert_int_equal(end_recv(&r->b, 5, 0, 64), 0);
	must_send(r, 6, IBV_WR_SEND, 0, 64, SIGNALED);
	assert_int_equal(end_wait(&r->a).wr_id, 6);
	assert_int_equal(end_wait(&r->b).wr_id, 5);
}

static void assert_all_called(void)
{
	assert_true(called.post_send && called.post_recv && called.poll_cq && called.req_notify_cq);
	memset(&called, 0, sizeof(called));
}

static void test_over_ours(void **state)
{
	static const struct shape shared = {.srq = true, .noted = true};
	struct ibv_context_ops before = world.context->ops, hooked;
	struct run r;
	struct end e;

	(void)state;
	run_open(&r, &moved, &plain);
	end_open(&e, &world, &bare, &shared);
	ends_connect(&r.a, &r.b, &plain);
	hooked = hook(ALL);
	assert_ptr_equal(saved.post_send, mesh_post_send);
	assert_ptr_equal(saved.poll_cq, mesh_poll_cq);
	assert_ptr_equal(saved.post_srq_recv, mesh_post_srq_recv);
	/* What has moved goes on; */
	traffic(&r);
	assert_int_equal(ibv_req_notify_cq(r.a.cq, 0), 0);
	assert_all_called();
	run_close(&r);
	assert_is(&hooked);
	/* ours, which are still called, do for what is not ours; */
	run_open(&r, &bare, &plain);
	ends_connect(&r.a, &r.b, &plain);
	traffic(&r);
	assert_int_equal(ibv_req_notify_cq(r.a.cq, 0), 0);
	assert_int_equal(end_recv(&e, 1, 0, 64), 0);
	assert_int_equal(called.post_srq_recv, 1);
	assert_all_called();
	run_close(&r);
	end_close(&e);
	assert_is(&hooked);
	/* and when the tool puts back what it found, they go as soon as somebody looks. */
	world.context->ops = saved;
	mesh_lock(&world.mc->data.lock);
	mesh_data_slots(world.mc);
	mesh_unlock(&world.mc->data.lock);
	assert_is(&before);
}

static int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	world.mc->sees_peers = true;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stay, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_after_init, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_srq, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_srq_unseen, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_datagrams, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_driven_by_the_program, setup, world_teardown),
		cmocka_unit_test(test_prepare),
		cmocka_unit_test_setup_teardown(test_over_ours, setup, world_teardown),
	};

	reading_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
