// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The CQ that is read (mlx5_wr_walker.h): to libmlx5 it is as it was, it may be resized or lose its queue pair
 * meanwhile, and one that the program may poll by itself is left alone. And what is asked of the lower provider when an
 * extended one is made. Seeded: TEST_SEED=n
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "fault.h"
#include "reading.h"
#include "survive.h"
#include "survives.h"

/* A QP that is not logged any more has completions that nobody has polled. */
static void leave_completions(void)
{
	unsigned int i;

	connect_a();
	connect_b();
	feed_b();
	for (i = 0; i < 8; i++)
		assert_int_equal(post_one(true), 0);
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
	cq_wait_arrived(a.cq, 7);
	mesh_vqp_destroy(h);
	h = NULL;
	mesh_recvlog_end(world.mc, a.qp);
}

/* libmlx5 has to go on taking the completions of a QP out of its CQ when that is destroyed. */
static void test_cq_is_as_it_was(void **state)
{
	struct ibv_wc wc;

	(void)state;
	leave_completions();
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	a.qp = NULL;
	assert_int_equal(world.mc->lower.io.poll_cq(a.cq, 1, &wc), 0);
}

static int (*init_obj)(void *obj, uint64_t type);

/* As if another thread did it while libmlx5 is asked. */
static int destroy_meanwhile(void *obj, uint64_t type)
{
	int err = init_obj(obj, type);

	if (a.qp)
		assert_int_equal(ibv_destroy_qp(a.qp), 0);
	a.qp = NULL;
	return err;
}

static void test_destroyed_meanwhile(void **state)
{
	struct mv_mlx5_cq ring;
	struct ibv_wc wc;

	(void)state;
	leave_completions();
	init_obj = world.mc->data.mlx5.init_obj;
	world.mc->data.mlx5.init_obj = destroy_meanwhile;
	assert_int_equal(mesh_mlx5_cq(world.mc, a.cq, &ring), 0);
	world.mc->data.mlx5.init_obj = init_obj;
	assert_null(a.qp);
	assert_int_equal(world.mc->lower.io.poll_cq(a.cq, 1, &wc), 0);
}

/*
 * Neither logged nor moved to another path when it is connected; what is posted, polled and noted is the lower
 * provider's alone.
 */
static void assert_is_left(struct ibv_qp *qp)
{
	struct mesh_vqp *none = NULL;

	assert_int_equal(mesh_failover_track(world.mc, qp, &tracked_ops, NULL, MTU, &none), -EBUSY);
	assert_int_equal(mesh_recvlog_begin(world.mc, qp), 0);
	assert_int_equal(mesh_vqp_new(world.mc, qp, &tracked_ops, NULL, &none), -EBUSY);
	assert_null(none);
	assert_null(mesh_vqp_find(world.mc, qp));
	assert_ptr_equal(world.context->ops.post_send, world.mc->lower.io.post_send);
	assert_ptr_equal(world.context->ops.post_recv, world.mc->lower.io.post_recv);
	assert_ptr_equal(world.context->ops.poll_cq, world.mc->lower.io.poll_cq);
}

static void polled_by_itself(const struct manner *manner)
{
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.out = &dv}};

	end_close(&a);
	end_open(&a, &world, manner, &two_cqs);
	memset(&dv, 0, sizeof(dv));
	obj.cq.in = a.cq;
	assert_true(mesh_mlx5_is_lower(world.mc));
	assert_int_equal(world.mc->data.mlx5.init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	assert_is_left(a.qp);
}

/* A CQ that the program has asked libmlx5 for is one that it may poll by itself, and then it posts by itself, as UCX does. */
static void test_polled_by_itself(void **state)
{
	static const struct manner extended = {.how = MOVED, .extended = true};

	(void)state;
	polled_by_itself(&noted);
	polled_by_itself(&extended);
}

/* As by mlx5dv_create_cq(): what it is polled by is libmlx5's own, and would be shown what is ours. */
static void test_made_past_us(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
					.qp_type = IBV_QPT_RC,
					.send_cq = a.cq};
	struct ibv_cq_ex *cq = world.mc->lower.cq.create_cq_ex(world.context, &attr);
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(cq);
	init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp(world.pd, &init);
	assert_non_null(qp);
	assert_int_equal(mesh_recvlog_begin(world.mc, qp), 0);
	mesh_recvlog_end(world.mc, a.qp); /* it notes, too */
	assert_is_left(qp);
	mesh_lock(&world.mc->data.lock);
	assert_null(mesh_cq_get(world.mc, init.recv_cq)); /* for receives of an SRQ */
	mesh_unlock(&world.mc->data.lock);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(init.recv_cq), 0);
}

/*
 * What mlx5dv_wr_*() builds is in libmlx5's own queue, where nobody looks once the queue pair has moved. An older library than the one of
 * our headers has something else where the last of its functions would be.
 */
static void test_builds(void **state)
{
	static const struct manner builders = {.how = MOVED, .builders = true};
	const uintptr_t none = 0, other = (uintptr_t)&builders;
	const uintptr_t function = (uintptr_t)world.mc->lower.io.poll_cq; /* any of libmlx5's */
	struct mlx5dv_qp_ex *dv;
	uintptr_t was, full;
	char *at, *behind;

	(void)state;
	end_close(&a);
	end_open(&a, &world, &builders, &two_cqs);
	assert_true(mesh_mlx5_is_lower(world.mc));
	dv = world.mc->data.mlx5.qp_ex(a.qp_ex);
	for (at = (char *)&dv->wr_set_dc_addr; at < (char *)(dv + 1); at += sizeof(function)) {
		assert_memory_equal(at, &none, sizeof(none));
		assert_false(mesh_mlx5_builds(world.mc, a.qp));
		memcpy(at, &other, sizeof(other));
		assert_false(mesh_mlx5_builds(world.mc, a.qp));
		memcpy(at, &function, sizeof(function));
		assert_true(mesh_mlx5_builds(world.mc, a.qp));
		memcpy(at, &none, sizeof(none));
	}
	/* wr_atomic_write and wr_flush; in libraries without them what says that there is a struct ibv_qp_ex, by one of the last two bits. */
	behind = (char *)&a.qp_ex->wr_abort + sizeof(a.qp_ex->wr_abort);
	for (at = behind; at < behind + 2 * sizeof(function); at += sizeof(function)) {
		memcpy(&was, at, sizeof(was));
		full = other | 3;
		memcpy(at, &full, sizeof(full));
		assert_false(mesh_mlx5_builds(world.mc, a.qp));
		full = function | 3;
		memcpy(at, &full, sizeof(full));
		assert_true(mesh_mlx5_builds(world.mc, a.qp));
		memcpy(at, &was, sizeof(was));
	}
	memcpy(&dv->wr_raw_wqe, &function, sizeof(function));
	assert_is_left(a.qp);
	assert_string_not_equal(mesh_vqp_why_busy(world.mc, a.qp), mesh_cq_why_taken);
}

static struct ibv_cq_ex *(*lower_create)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
static struct ibv_cq_init_attr_ex asked; /* of the lower provider, the last time */
static int n_asked;

static struct ibv_cq_ex *create_seen(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	asked = *attr;
	n_asked++;
	return lower_create(context, attr);
}

enum mv_dir_qualified __wrap_mesh_directory_qualified(const char *device, uint32_t library);
enum mv_dir_qualified __wrap_mesh_directory_qualified(const char *device, uint32_t library)
{
	(void)device;
	(void)library;
	return MV_DIR_QUALIFIED_YES;
}

/*
 * What a program does not name by comp_mask is not there, and what it names and we do not know is the lower provider's
 * to refuse.
 */
static void test_asked_of_lower(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN, .flags = ~0u, .parent_domain = world.pd};
	struct ibv_cq_ex *cq;

	(void)state;
	lower_create = world.mc->lower.cq.create_cq_ex;
	world.mc->lower.cq.create_cq_ex = create_seen;
	n_asked = 0;
	cq = ibv_create_cq_ex(world.context, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(asked.wc_flags, IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM);
	assert_int_equal(asked.flags, 0);
	assert_null(asked.parent_domain);
	assert_int_equal(asked.cqe, 16);

	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	attr.parent_domain = NULL;
	cq = ibv_create_cq_ex(world.context, &attr);
	assert_null(cq); /* no parent domain where one is named: asked for with ours, then as the program did */
	assert_int_equal(n_asked, 3);
	assert_int_equal(asked.wc_flags, IBV_WC_EX_WITH_BYTE_LEN);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	cq = ibv_create_cq_ex(world.context, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(asked.flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);

	n_asked = 0;
	attr.comp_mask = 1u << 31;
	assert_null(ibv_create_cq_ex(world.context, &attr));
	assert_int_equal(n_asked, 1);
	assert_int_equal(asked.wc_flags, IBV_WC_EX_WITH_BYTE_LEN);

	set_survive(false);
	attr.comp_mask = 0;
	cq = ibv_create_cq_ex(world.context, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(asked.wc_flags, IBV_WC_EX_WITH_BYTE_LEN);

	/* The NIC has qualified since the last RTR. */
	set_survive(MV_SURVIVE_AUTO);
	atomic_store(&mesh_root.process->directory.number, 1);
	atomic_store(&world.mc->qualified, 1u << 2 | MV_DIR_QUALIFIED_NO);
	assert_false(mesh_survives(world.mc));
	cq = ibv_create_cq_ex(world.context, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(asked.wc_flags, IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM);
	set_survive(MV_SURVIVE_OFF);
	world.mc->lower.cq.create_cq_ex = lower_create;
}

static void test_resized(void **state)
{
	unsigned int i, round;
	struct ibv_wc wc;

	(void)state;
	connect_a();
	connect_b();
	for (round = 0; round < 4; round++) {
		feed_b();
		for (i = 0; i < 8; i++)
			assert_int_equal(post_one(true), 0);
		wc = end_wait(&a);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_resize_cq(a.cq, round % 2 ? 100 : 2000), 0); /* with some in it */
		for (i = 1; i < 8; i++)
			assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
		assert_null(h->tracker->lost);
		assert_int_equal(h->tracker->sends.first_psn, posted.psn);
		while (ibv_poll_cq(b.cq, 1, &wc) > 0)
			;
	}
}

static void life_ends(struct end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(world.mc->lower.qp.modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
	e->qp->state = IBV_QPS_RESET;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE};
	assert_int_equal(
		world.mc->lower.qp.modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	e->qp->state = IBV_QPS_INIT;
}

/* Between one queue pair whose completions were read and the next one. */
static void test_resized_between(void **state)
{
	(void)state;
	connect_a();
	connect_b();
	one_round();
	mesh_vqp_destroy(h);
	h = NULL;
	life_ends(&a);
	life_ends(&b);
	assert_int_equal(ibv_resize_cq(a.cq, 2000), 0);
	posted.psn = SQ_PSN;
	posted.consumes = fed = 0;
	assert_int_equal(mesh_recvlog_begin(world.mc, a.qp), 0);
	connect_a();
	assert_non_null(h->tracker->walker);
	connect_b();
	one_round();
	assert_null(h->tracker->lost);
	assert_int_equal(h->tracker->sends.first_psn, posted.psn);
}

static int (*resize_cq)(struct ibv_cq *cq, int cqe);

/* As if another thread connected it while libmlx5 resizes its CQ. */
static int connect_meanwhile(struct ibv_cq *cq, int cqe)
{
	connect_a();
	return resize_cq(cq, cqe);
}

static void test_resized_meanwhile(void **state)
{
	int err;

	(void)state;
	resize_cq = world.mc->lower.cq.resize_cq;
	world.mc->lower.cq.resize_cq = connect_meanwhile;
	err = ibv_resize_cq(a.cq, 2000);
	world.mc->lower.cq.resize_cq = resize_cq;
	assert_int_equal(err, 0);
	connect_b();
	one_round();
	assert_null(mesh_failover_lost(h));
	assert_int_equal(h->tracker->sends.first_psn, posted.psn);
}

/* It cannot be asked where the CQ is now: the program has no descriptor left. */
static void test_resized_unknown(void **state)
{
	(void)state;
	connect_a();
	connect_b();
	one_round();
	fault_arm(FAULT_PIPE2, 1, EMFILE);
	assert_int_equal(ibv_resize_cq(a.cq, 2000), 0);
	assert_true(fault_fired());
	fault_disarm();
	one_round();
	assert_non_null(mesh_failover_lost(h));
	/* Nor is it asked again while others are looked at. */
	assert_int_equal(ibv_resize_cq(a.cq, 100), 0);
	one_round();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, reading_setup, reading_teardown)
		T(test_cq_is_as_it_was), T(test_resized), T(test_resized_between), T(test_resized_meanwhile),
		T(test_resized_unknown), T(test_destroyed_meanwhile), T(test_polled_by_itself), T(test_made_past_us), T(test_builds),
		T(test_asked_of_lower),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	reading_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
