// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What only queue pairs can do that are held until both ends have agreed: go to the program's own path after all, fail, end early, keep
 * more work than there is room for, wait for keys, and be destroyed with all that they have.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "vqp_failover.h"
#include "run.h"
#include "vqp_int.h"

static const struct manner plain = {.how = MOVED};
static const struct manner builders = {.how = MOVED, .builders = true};

static void passthrough(struct end *e, struct end *peer, const struct shape *shape)
{
	assert_int_equal(mesh_vqp_unprepare(e->vqp), 0);
	end_passthrough(e, peer, shape);
	assert_true(mesh_vqp_stop_posting(e->vqp));
	assert_int_equal(mesh_vqp_passthrough(e->vqp), 0);
	mesh_vqp_resume_posting(e->vqp);
	e->vqp = NULL;
}

/* No agreement: what was posted meanwhile goes to the program's own QP, and the context is as it was. */
enum progress { HELD, PREPARED, CONNECTED };

static void goes_passthrough(const struct manner *manner, enum progress progress)
{
	struct ibv_context_ops ops = world.context->ops;
	const struct shape shape = {0};
	unsigned int i;
	struct run r;

	run_open(&r, manner, &shape);
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r.b, i, 64 * i, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	run_early_rts(&r);
	assert_true(ops.poll_cq != world.context->ops.poll_cq);
	for (i = 5; i < 10; i++)
		assert_int_equal(end_recv(&r.b, i, 64 * i, 64), 0);
	if (progress >= PREPARED) {
		end_prepare(&r.a);
		end_prepare(&r.b);
	}
	if (progress >= CONNECTED) {
		end_connect(&r.a, &r.b, &shape);
		end_connect(&r.b, &r.a, &shape);
	}
	for (i = 0; i < 10; i++)
		must_send(&r, i, IBV_WR_SEND_WITH_IMM, 1024, 64, SIGNALED);
	end_quiet(&r.a);
	passthrough(&r.b, &r.a, &shape);
	passthrough(&r.a, &r.b, &shape);
	for (i = 0; i < 10; i++) {
		assert_int_equal(end_wait(&r.a).wr_id, i);
		assert_int_equal(end_wait(&r.b).wr_id, i);
	}
	must_send(&r, 10, IBV_WR_RDMA_WRITE, 0, 1000, SIGNALED);
	assert_int_equal(end_wait(&r.a).wr_id, 10);
	end_quiet(&r.b);
	if (progress == HELD)
		assert_memory_equal(&ops, &world.context->ops, sizeof(ops));
	run_close(&r);
	assert_memory_equal(&ops, &world.context->ops, sizeof(ops));
}

static void change(struct end *e, unsigned int access)
{
	struct ibv_qp_attr attr = {.qp_access_flags = access, .min_rnr_timer = 5};
	const int mask = IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;

	assert_int_equal(mesh_vqp_modify(e->vqp, &attr, mask), 0);
	assert_int_equal(mesh_failover_change(e->vqp, &attr, mask), 0);
	assert_int_equal(remote_access(world.mc->lower.qp.query_qp, e->qp), access);
	if (e->vqp->now.qp)
		assert_int_equal(remote_access(mesh_root.lib.verbs.query_qp, e->vqp->now.qp), access);
}

/* What the program changes while nothing is connected is so at either QP that may be, however far that has come. */
static void test_changed(void **state)
{
	const struct shape shape = {0};
	struct run r;

	(void)state;
	run_open(&r, &plain, &shape);
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	run_early_rts(&r);
	change(&r.b, 0);
	change(&r.b, IBV_ACCESS_REMOTE_READ);
	end_prepare(&r.a);
	end_prepare(&r.b);
	change(&r.b, 0);
	end_connect(&r.a, &r.b, &shape);
	end_connect(&r.b, &r.a, &shape);
	end_shadow_rts(&r.a, &shape);
	end_shadow_rts(&r.b, &shape);
	change(&r.b, IBV_ACCESS_REMOTE_WRITE);
	mesh_vqp_activate(r.a.vqp);
	mesh_vqp_activate(r.b.vqp);
	must_send(&r, 1, IBV_WR_RDMA_WRITE, 0, 1000, SIGNALED);
	assert_int_equal(end_wait(&r.a).status, IBV_WC_SUCCESS);
	run_close(&r);
}

static void test_passthrough(void **state)
{
	(void)state;
	goes_passthrough(&plain, HELD);
	goes_passthrough(&plain, PREPARED);
	goes_passthrough(&plain, CONNECTED);
	goes_passthrough(&builders, HELD);
	goes_passthrough(&builders, PREPARED);
	goes_passthrough(&builders, CONNECTED);
}

static void test_no_way_back(void **state)
{
	const struct shape shape = {0};
	struct run r;

	(void)state;
	run_open(&r, &plain, &shape);
	assert_int_equal(end_recv(&r.b, 0, 0, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	end_prepare(&r.a);
	end_prepare(&r.b);
	end_connect(&r.a, &r.b, &shape);
	end_connect(&r.b, &r.a, &shape);
	mesh_vqp_activate(r.a.vqp);
	end_rts(&r.a, &shape);
	must_send(&r, 1, IBV_WR_SEND, 0, 64, SIGNALED);
	assert_int_equal(end_wait(&r.a).wr_id, 1);
	/* Nobody has polled it yet, but there it is. */
	assert_int_equal(mesh_vqp_unprepare(r.b.vqp), -EBUSY);
	assert_int_equal(mesh_vqp_passthrough(r.b.vqp), -EBUSY);
	assert_int_equal(end_wait(&r.b).wr_id, 0);
	assert_int_equal(mesh_vqp_unprepare(r.b.vqp), -EBUSY);
	run_close(&r);
}

/* No way at all: the first send fails, and everything else is flushed, as when a peer does not answer. */
static void fails(const struct manner *manner, unsigned int before, bool prepared)
{
	const struct shape shape = {0};
	struct ibv_wc wc;
	unsigned int i, receives = 0;
	struct run r;

	run_open(&r, manner, &shape);
	assert_int_equal(ibv_req_notify_cq(r.a.cq, 0), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&r.a, 100 + i, 0, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	run_early_rts(&r);
	if (prepared)
		end_prepare(&r.a);
	for (i = 0; i < before; i++)
		must_send(&r, i, IBV_WR_RDMA_WRITE, 0, 64, 0);
	end_quiet(&r.a);
	mesh_vqp_fail(r.a.vqp, IBV_WC_RETRY_EXC_ERR);
	if (!before)
		end_quiet(&r.a);
	for (; i < 5; i++)
		must_send(&r, i, IBV_WR_RDMA_WRITE, 0, 64, 0);
	must_come(&r.a);
	for (i = 0; i < 5;) {
		wc = end_wait(&r.a);
		assert_int_equal(wc.qp_num, r.a.qp->qp_num);
		if (wc.wr_id >= 100) {
			assert_int_equal(wc.wr_id, 100 + receives);
			assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
			receives++;
			continue;
		}
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
		i++;
	}
	for (; receives < 3; receives++)
		assert_int_equal(end_wait(&r.a).wr_id, 100 + receives);
	end_quiet(&r.a);
	run_close(&r);
}

static void test_fails(void **state)
{
	const struct manner extended = {.how = MOVED, .extended = true};

	(void)state;
	fails(&plain, 0, false);
	fails(&plain, 3, false);
	fails(&plain, 3, true);
	fails(&builders, 0, false);
	fails(&builders, 3, true);
	fails(&extended, 1, false);
}

/* The program ends a connection that is not agreed upon: its receives are flushed once, and nothing else gets them. */
static void ends_early(bool prepared)
{
	struct mesh_shadow_attr attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
	const struct shape shape = {0};
	struct ibv_wc wc;
	unsigned int i;
	uint32_t qpn;
	struct run r;

	run_open(&r, &plain, &shape);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&r.a, i, 0, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	if (prepared)
		end_prepare(&r.a);
	end_err(&r.a);
	assert_int_equal(mesh_vqp_prepare(r.a.vqp, world.spd, &attr, &qpn), -ESHUTDOWN);
	for (i = 0; i < 3; i++) {
		wc = end_wait(&r.a);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	end_quiet(&r.a);
	run_close(&r);
}

static void test_ends_early(void **state)
{
	(void)state;
	ends_early(false);
	ends_early(true);
}

/* Work that waits is bounded as the provider bounds it, and what does not fit is not half taken. */
static void test_queue_full(void **state)
{
	const struct shape shape = {.max_wr = 16};
	struct sending s[3];
	struct ibv_send_wr *bad = NULL;
	uint32_t max;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned int i;
	struct run r;

	(void)state;
	run_open(&r, &plain, &shape);
	assert_int_equal(ibv_query_qp(r.a.qp, &attr, IBV_QP_CAP, &init), 0);
	max = init.cap.max_send_wr;
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	run_early_rts(&r);
	for (i = 0; i < max - 1; i++)
		must_send(&r, i, IBV_WR_RDMA_WRITE, 64 * i, 64, SIGNALED);
	for (i = 0; i < 3; i++)
		sending(&s[i], &r, max - 1 + i, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED)->wr.next = i < 2 ? &s[i + 1].wr : NULL;
	assert_int_equal(ibv_post_send(r.a.qp, &s[0].wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &s[1].wr);
	s[0].wr.next = NULL;
	s[0].wr.num_sge = (int)init.cap.max_send_sge + 1;
	assert_int_equal(ibv_post_send(r.a.qp, &s[0].wr, &bad), ENOMEM);
	end_prepare(&r.a);
	end_prepare(&r.b);
	end_connect(&r.a, &r.b, &shape);
	end_connect(&r.b, &r.a, &shape);
	mesh_vqp_activate(r.a.vqp);
	end_rts(&r.a, &shape);
	for (i = 0; i < max; i++)
		assert_int_equal(end_wait(&r.a).wr_id, i);
	run_close(&r);
}

/* One key that is late keeps back what comes after it, and more work than the shadow has room for comes through. */
static void test_late_key(void **state)
{
	const struct manner late = {.how = MOVED, .late_keys = true};
	const struct shape shape = {.max_wr = 16};
	unsigned int i, posted = 0;
	struct sending s;
	struct run r;

	(void)state;
	run_open(&r, &late, &shape);
	ends_connect(&r.a, &r.b, &shape);
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r.b, i, 0, 64), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_send(&r.a, &sending(&s, &r, posted++, IBV_WR_SEND, 0, 64, SIGNALED)->wr), 0);
	assert_int_equal(end_send(&r.a, &sending(&s, &r, posted++, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED)->wr), 0);
	assert_int_equal(end_send(&r.a, &sending(&s, &r, posted++, IBV_WR_SEND, 0, 64, SIGNALED)->wr), 0);
	while (!end_send(&r.a, &sending(&s, &r, posted, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED)->wr))
		posted++;
	for (i = 0; i < 3; i++)
		assert_int_equal(end_wait(&r.a).wr_id, i);
	end_quiet(&r.a);
	assert_int_equal(r.a.n_asked, 1);
	/* Dropped before the answer: what waits for it asks again. */
	mesh_vqp_drop_key(r.a.vqp, r.b.mr->rkey);
	assert_int_equal(r.a.n_asked, 2);
	assert_int_equal(end_keys(&r.a), 2);
	for (; i < posted; i++)
		assert_int_equal(end_wait(&r.a).wr_id, i);
	/* Known from now on, until it is dropped. */
	must_send(&r, 1, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED);
	end_wait(&r.a);
	assert_int_equal(r.a.n_asked, 2);
	mesh_vqp_drop_key(r.a.vqp, r.b.mr->rkey);
	assert_int_equal(r.a.n_asked, 2);
	must_send(&r, 1, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED);
	end_wait(&r.a);
	assert_int_equal(r.a.n_asked, 3);
	run_close(&r);
}

/* As bare: a CQ with QPs is busy; after that everything goes, whatever is in it. */
static void test_destroy(void **state)
{
	const struct shape shape = {0};
	unsigned int i;
	struct run r;

	(void)state;
	run_open(&r, &plain, &shape);
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r.b, i, 0, 64), 0);
	ends_connect(&r.a, &r.b, &shape);
	for (i = 0; i < 5; i++)
		must_send(&r, i, IBV_WR_SEND, 0, 64, SIGNALED);
	end_wait(&r.a);
	for (i = 0; i < 5; i++) /* what had not been sent would go with it */
		assert_int_equal(end_wait(&r.b).wr_id, i);
	assert_int_equal(ibv_destroy_cq(r.a.cq), EBUSY);
	mesh_vqp_destroy(r.a.vqp);
	r.a.vqp = NULL;
	end_quiet(&r.a);
	assert_int_equal(ibv_destroy_cq(r.a.cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(r.a.qp), 0);
	r.a.qp = NULL;
	assert_int_equal(ibv_destroy_cq(r.a.cq), 0);
	r.a.cq = NULL;
	run_close(&r);
}

static void append_of(struct mesh_cq *cq, uint64_t wr_id, uint32_t qpn)
{
	struct ibv_wc wc = {.wr_id = wr_id, .qp_num = qpn};

	mesh_lock(&cq->lock);
	assert_int_equal(mesh_sw_cq_reserve(&cq->sw_cq, 1), 0);
	mesh_sw_cq_append(cq, &wc);
	mesh_unlock(&cq->lock);
}

/* What we have of a QP that is destroyed goes with it, as what a provider has does, and nothing else. */
static void test_destroy_with_sw_cq(void **state)
{
	const struct shape shape = {0};
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 1, .max_send_sge = 1}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *other;
	struct mesh_cq *cq;
	struct run r;

	(void)state;
	run_open(&r, &plain, &shape);
	ends_connect(&r.a, &r.b, &shape);
	init.send_cq = init.recv_cq = r.a.cq;
	other = ibv_create_qp(world.pd, &init);
	assert_non_null(other);
	cq = mesh_map_get(&world.mc->data.cqs, r.a.cq);
	assert_non_null(cq);
	append_of(cq, 1, r.a.qp->qp_num);
	append_of(cq, 2, other->qp_num);
	append_of(cq, 3, r.a.qp->qp_num);
	append_of(cq, 4, other->qp_num);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(end_wait(&r.a).wr_id, 1);
	assert_int_equal(end_wait(&r.a).wr_id, 3);
	end_quiet(&r.a);
	run_close(&r);
}

/* A completion that was polled when a move put those before it into the software CQ comes behind them. */
static void behind(const struct manner *manner)
{
	const struct shape shape = {0};
	struct ibv_wc late = {.wr_id = 3};
	struct mesh_cq *cq;
	bool went;
	struct run r;

	run_open(&r, manner, &shape);
	ends_connect(&r.a, &r.b, &shape);
	late.qp_num = r.a.qp->qp_num;
	cq = mesh_map_get(&world.mc->data.cqs, r.a.cq);
	assert_non_null(cq);
	mesh_lock(&cq->lock);
	went = mesh_poll_behind(cq, &late);
	mesh_unlock(&cq->lock);
	assert_false(went); /* nothing is before it */
	append_of(cq, 1, r.a.qp->qp_num);
	append_of(cq, 2, r.a.qp->qp_num);
	mesh_lock(&cq->lock);
	went = mesh_poll_behind(cq, &late);
	mesh_unlock(&cq->lock);
	assert_true(went);
	for (late.wr_id = 1; late.wr_id <= 3; late.wr_id++)
		assert_int_equal(end_wait(&r.a).wr_id, late.wr_id);
	end_quiet(&r.a);
	run_close(&r);
}

static void test_behind(void **state)
{
	const struct manner extended = {.how = MOVED, .extended = true};

	(void)state;
	behind(&plain);
	behind(&extended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_passthrough, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_no_way_back, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_fails, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_ends_early, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_queue_full, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_late_key, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_destroy, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_destroy_with_sw_cq, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_behind, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
