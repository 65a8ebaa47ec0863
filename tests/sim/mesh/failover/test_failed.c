// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Moved queue pairs that come to nothing while they are at work, in a host of the simulator: a key that is not answered, a path that dies
 * for good, a NIC that is reset. The program gets an error for each work request, each once, and no other.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "survive.h"
#include "vqp_failover.h"
#include "moved.h"
#include "vqp_int.h"

static struct end a, b;
static _Atomic unsigned int n_failed, n_wanted;

static const struct manner moved = {.how = MOVED}, extended = {.how = MOVED, .extended = true};

static void path_failed(void *arg)
{
	(void)arg;
	atomic_fetch_add(&n_failed, 1);
}

/* Nobody ever answers. */
static int want_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	(void)rkey;
	(void)ret;
	atomic_fetch_add(&n_wanted, 1);
	return -EAGAIN;
}

static const struct mesh_vqp_ops ops = {.path_failed = path_failed, .want_key = want_key};

static void open_both(const struct manner *manner, const struct shape *shape)
{
	end_open(&a, &world, manner, shape);
	end_open(&b, &world, manner, shape);
}

static void connect_both(const struct shape *shape)
{
	ends_connect(&a, &b, shape);
	a.vqp->client.ops = b.vqp->client.ops = &ops;
}

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	set_survive(true);
	n_failed = n_wanted = 0;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (a.mr)
		end_close(&a);
	if (b.mr)
		end_close(&b);
	world_close(&world);
	set_survive(false);
	return 0;
}

static void post(uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a.buf, .length = 64, .lkey = a.mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)b.buf, .rkey = rkey},
	};

	assert_int_equal(end_send(&a, &wr), 0);
}

static void expect(struct end *e, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = end_wait(e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, e->qp->qp_num);
}

static void expect_in(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int ms, n = 0;

	for (ms = 0; !n && ms < PATIENCE_MS; ms++) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (!n)
			usleep(1000);
	}
	assert_int_equal(n, 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void peer_dies(void)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	assert_int_equal(ibv_modify_qp(b.vqp->now.qp, &err, IBV_QP_STATE), 0);
}

/* ---- a key ----------------------------------------------------------------------------------------------------- */

/* Who polls the receives first finds them flushed before it is shown why. */
static void key_is_not_answered(const struct manner *manner, bool survive)
{
	const struct shape shape = {.two_cqs = true};

	set_survive(survive);
	open_both(manner, &shape);
	connect_both(&shape);
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(end_recv(&a, 101, 0, 64), 0);
	post(1, IBV_WR_RDMA_WRITE, b.mr->rkey);
	post(2, IBV_WR_SEND, 0);
	assert_int_equal(n_wanted, 1);
	mesh_vqp_fail(a.vqp, IBV_WC_RETRY_EXC_ERR);
	expect_in(a.recv_cq, 100, IBV_WC_WR_FLUSH_ERR);
	expect_in(a.recv_cq, 101, IBV_WC_WR_FLUSH_ERR);
	expect(&a, 1, IBV_WC_RETRY_EXC_ERR);
	expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
	/* Of another key as well. */
	post(3, IBV_WR_RDMA_WRITE, b.mr->rkey ^ 0x100);
	expect(&a, 3, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
	assert_int_equal(n_wanted, 1);
	assert_int_equal(n_failed, 0);
}

static void test_key(void **state)
{
	(void)state;
	key_is_not_answered(&moved, true);
}

static void test_key_extended(void **state)
{
	(void)state;
	key_is_not_answered(&extended, true);
}

static void test_key_without_log(void **state)
{
	(void)state;
	key_is_not_answered(&moved, false);
}

/* The path had failed before: what comes of that the move decides, and what was kept is not forgotten. */
static void test_key_of_one_that_failed(void **state)
{
	const struct shape shape = {.timeout = 8, .retry_cnt = 1};

	(void)state;
	open_both(&moved, &shape);
	connect_both(&shape);
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	peer_dies();
	post(1, IBV_WR_SEND, 0);
	post(2, IBV_WR_RDMA_WRITE, b.mr->rkey);
	while (!n_failed)
		end_quiet(&a);
	assert_false(mesh_vqp_fail(a.vqp, IBV_WC_RETRY_EXC_ERR));
	end_quiet(&a);
	mesh_failover_flush_errors(a.vqp);
	expect(&a, 1, IBV_WC_RETRY_EXC_ERR);
	expect(&a, 100, IBV_WC_WR_FLUSH_ERR);
	expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
}

/* ---- a path ---------------------------------------------------------------------------------------------------- */

/* What waits for a key when it fails, and what asks for one later, has nothing to wait for. */
static void test_path(void **state)
{
	const struct shape shape = {.timeout = 8, .retry_cnt = 1};

	(void)state;
	open_both(&moved, &shape);
	connect_both(&shape);
	peer_dies();
	post(1, IBV_WR_SEND, 0);
	post(2, IBV_WR_RDMA_WRITE, b.mr->rkey);
	while (!n_failed)
		end_quiet(&a);
	assert_int_equal(n_wanted, 1);
	mesh_failover_flush_errors(a.vqp);
	expect(&a, 1, IBV_WC_RETRY_EXC_ERR);
	expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
	post(3, IBV_WR_RDMA_WRITE, b.mr->rkey ^ 0x100);
	post(4, IBV_WR_SEND, 0);
	expect(&a, 3, IBV_WC_WR_FLUSH_ERR);
	expect(&a, 4, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	expect(&a, 100, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
	assert_int_equal(n_wanted, 1);
}

static enum ibv_qp_state state_of_peer(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(b.vqp->now.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* A path that works, of a connection that has failed all the same: what has no key fails here, and the peer's queue pair does not. */
static void test_no_key_reaches_the_peer(void **state)
{
	const struct shape shape = {0};

	(void)state;
	open_both(&moved, &shape);
	connect_both(&shape);
	post(1, IBV_WR_RDMA_WRITE, b.mr->rkey);
	post(2, IBV_WR_RDMA_WRITE, b.mr->rkey ^ 0x100);
	mesh_failover_flush_errors(a.vqp);
	expect(&a, 1, IBV_WC_RETRY_EXC_ERR);
	expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
	assert_int_equal(state_of_peer(), IBV_QPS_RTS);
}

/* The program ends it while something waits for a key: that is flushed like all else. */
static void test_ended_while_it_waits(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	const struct shape shape = {0};
	unsigned int i;

	(void)state;
	open_both(&moved, &shape);
	connect_both(&shape);
	for (i = 0; i < 8; i++)
		post(i, IBV_WR_RDMA_WRITE, b.mr->rkey);
	assert_int_equal(mesh_vqp_modify(a.vqp, &err, IBV_QP_STATE), 0);
	for (i = 0; i < 8; i++)
		expect(&a, i, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
	assert_int_equal(state_of_peer(), IBV_QPS_RTS);
}

/* ---- a NIC ----------------------------------------------------------------------------------------------------- */

static void send_to_a(unsigned int n)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	while (n--) {
		assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
		expect(&b, 0, IBV_WC_SUCCESS);
	}
}

/* The program's own queue pair has in INIT what was posted before it was known who does the work. */
static void receives_before(const struct manner *manner, const struct shape *shape)
{
	unsigned int i;

	open_both(manner, shape);
	for (i = 0; i < 8; i++)
		assert_int_equal(end_recv(&a, 100 + i, 0, 64), 0);
}

static void test_reset(const struct manner *manner)
{
	const struct shape shape = {0};
	unsigned int i;

	receives_before(manner, &shape);
	connect_both(&shape);
	send_to_a(4);
	for (i = 0; i < 4; i++) {
		expect(&a, 100 + i, IBV_WC_SUCCESS);
		assert_int_equal(end_recv(&a, 108 + i, 0, 64), 0);
	}
	mesh_rail_lose(world.rail);
	mesh_failover_flush_errors(a.vqp);
	for (i = 4; i < 12; i++)
		expect(&a, 100 + i, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
	/* And what comes now, once; nothing is noted any more. */
	assert_int_equal(a.vqp->early.log.n, 0);
	post(1, IBV_WR_SEND, 0);
	expect(&a, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_recv(&a, 200, 0, 64), 0);
	expect(&a, 200, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(a.vqp->early.log.n, 0);
	end_quiet(&a);
}

static void test_reset_plain(void **state)
{
	(void)state;
	test_reset(&moved);
}

static void test_reset_extended(void **state)
{
	(void)state;
	test_reset(&extended);
}

/* Before it was used, and the program ends it. */
static void test_reset_unused(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	const struct shape shape = {0};
	unsigned int i;

	(void)state;
	receives_before(&moved, &shape);
	end_rtr(&a, &b, &shape);
	end_prepare(&a);
	mesh_rail_lose(world.rail);
	assert_int_equal(mesh_vqp_modify(a.vqp, &err, IBV_QP_STATE), 0);
	for (i = 0; i < 8; i++)
		expect(&a, 100 + i, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
}

static void prepared(void)
{
	const struct shape shape = {0};

	receives_before(&moved, &shape);
	end_rtr(&a, &b, &shape);
	a.vqp->client.ops = &ops;
	end_rtr(&b, &a, &shape);
	end_prepare(&a);
	end_prepare(&b);
	end_connect(&a, &b, &shape);
	end_rts(&a, &shape);
}

/* A way that was prepared and not agreed upon is taken away again, and there is no other. */
static void nothing_is_agreed(bool ended)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	unsigned int i;

	prepared();
	assert_int_equal(mesh_vqp_unprepare(a.vqp), 0);
	if (ended) {
		assert_int_equal(mesh_vqp_modify(a.vqp, &err, IBV_QP_STATE), 0);
		assert_false(mesh_vqp_fail(a.vqp, IBV_WC_RETRY_EXC_ERR));
	} else {
		assert_true(mesh_vqp_fail(a.vqp, IBV_WC_RETRY_EXC_ERR));
		post(1, IBV_WR_SEND, 0);
		expect(&a, 1, IBV_WC_RETRY_EXC_ERR);
	}
	for (i = 0; i < 8; i++)
		expect(&a, 100 + i, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
	assert_int_equal(n_failed, 0);
}

static void test_nothing_is_agreed(void **state)
{
	(void)state;
	nothing_is_agreed(false);
}

static void test_nothing_is_agreed_and_ended(void **state)
{
	(void)state;
	nothing_is_agreed(true);
}

/* The program ends it, while what is for another queue pair of that CQ has not been polled. */
static void test_ended_behind_another(void **state)
{
	const struct ibv_wc others = {.wr_id = 1, .qp_num = 0xffffff};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct mesh_cq *cq;
	unsigned int i;

	(void)state;
	prepared();
	cq = a.vqp->recv_cq;
	mesh_lock(&cq->lock);
	assert_int_equal(mesh_sw_cq_reserve(&cq->sw_cq, 1), 0);
	mesh_sw_cq_append(cq, &others);
	mesh_unlock(&cq->lock);
	assert_int_equal(mesh_vqp_modify(a.vqp, &err, IBV_QP_STATE), 0);
	assert_int_equal(end_wait(&a).wr_id, 1);
	for (i = 0; i < 8; i++)
		expect(&a, 100 + i, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
}

/* It had failed for the program's own mistake, which nobody has polled yet: all are given, that one as it was. */
static void test_reset_after_an_error(void **state)
{
	const struct shape shape = {0};
	struct ibv_sge none = {.addr = 1, .length = 64, .lkey = 0};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &none, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
	struct mesh_cq *cq;

	(void)state;
	open_both(&moved, &shape);
	connect_both(&shape);
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(end_send(&a, &wr), 0);
	post(2, IBV_WR_SEND, 0);
	cq = mesh_map_get(&world.mc->data.cqs, a.cq);
	cq_wait_arrived(cq->shadows.polled->cq, 3);
	mesh_rail_lose(world.rail);
	mesh_failover_flush_errors(a.vqp);
	expect(&a, 1, IBV_WC_LOC_PROT_ERR);
	expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
	expect(&a, 100, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key_extended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key_without_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key_of_one_that_failed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_key_reaches_the_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ended_while_it_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_plain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_extended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_unused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_after_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_agreed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_agreed_and_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ended_behind_another, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
