// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Remote keys that work outstanding will need behind another rail: found before it moves, and known there when it has
 * (rkey_offer.c).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "reading.h"

#define INLINED 0x11100u
#define OTHER   0x22200u
#define THIRD   0x33300u
#define UNUSED  0x44400u
#define PATH    0x1000000u /* what these are there is more by that */

static unsigned int n_asked;
static uint32_t asked;

static int want_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	(void)ret;
	n_asked++;
	asked = rkey;
	return -EAGAIN;
}

static void path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_vqp_ops ops = {.want_key = want_key, .path_failed = path_failed};

static void post(enum ibv_wr_opcode opcode, uint32_t rkey, int num_sge, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = &sge, .num_sge = num_sge, .send_flags = flags}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.rkey = rkey;
	else
		wr.wr.rdma.rkey = rkey;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

/* Nobody is there to do any of it. */
static void post_all(void)
{
	post(IBV_WR_SEND, UNUSED, 1, 0);
	post(IBV_WR_RDMA_WRITE, UNUSED, 0, 0); /* of nothing: no key is looked at */
	post(IBV_WR_RDMA_WRITE, INLINED, 1, IBV_SEND_INLINE);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, INLINED, 1, 0);
	post(IBV_WR_RDMA_READ, OTHER, 1, IBV_SEND_SIGNALED);
	post(IBV_WR_RDMA_WRITE, THIRD, 1, 0);
}

static void assert_found(uint32_t first, uint32_t second, size_t expected)
{
	uint32_t keys[MESH_FAILOVER_KEYS] = {0};

	assert_int_equal(mesh_failover_remote_keys(h, keys), expected);
	assert_int_equal(keys[0], first);
	assert_int_equal(keys[1], second);
}

static void assert_known(uint32_t rkey)
{
	const struct mesh_rkey *known = &h->keys.places->rkeys[rkey >> 8 & (MESH_KEYS - 1)];

	assert_int_equal(known->key, rkey);
	assert_int_equal(known->state, MESH_RKEY_KNOWN);
	assert_int_equal(known->path_key, rkey + PATH);
}

static void prepare(void)
{
	struct ibv_qp_attr rtr = world_rtr(&world, true, 0, RQ_PSN), rts = reading_rts(SQ_PSN);

	rtr.dest_qp_num = tracked_prepare(h);
	assert_int_equal(mesh_failover_connect(h, &rtr, RTR_MASK, &rts, RTS_MASK), 0);
}

/* In the lower provider's queue, in the log when that is drained, and in the log of the QP that it moves to. */
static void test_found_and_known(void **state)
{
	static const struct mesh_failover_keys keys = {.n = 2,
						       .keys = {{INLINED, INLINED + PATH}, {OTHER, OTHER + PATH}}};
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	h->client.ops = &ops;
	n_asked = 0;
	prepare();
	assert_found(0, 0, 0);
	post_all();
	assert_found(INLINED, OTHER, 2);
	tracked_drain(h, true, &sync);
	assert_found(INLINED, OTHER, 2);
	assert_int_equal(n_asked, 0);
	assert_int_equal(mesh_failover_replay(h, SQ_PSN, 0, 4, &keys), 0);
	assert_known(INLINED);
	assert_known(OTHER);
	assert_int_equal(n_asked, 1);
	assert_int_equal(asked, THIRD);
	assert_found(INLINED, OTHER, 2);
}

/* What is done needs none any more, though it is still there in the queue. */
static void test_behind_what_is_done(void **state)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;

	(void)state;
	connect_a();
	connect_b();
	wr.wr.rdma.remote_addr = (uintptr_t)b.buf;
	wr.wr.rdma.rkey = b.mr->rkey;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
	tracked_prepare(h);
	assert_found(0, 0, 0);
	post_all(); /* the peer has no receive for the first of it */
	assert_found(INLINED, OTHER, 2);
}

/* Without any each is asked for when it is needed, and the peer may take one away. */
static void test_not_for_ever(void **state)
{
	static const struct mesh_failover_keys none = {.n = 0};
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	h->client.ops = &ops;
	n_asked = 0;
	prepare();
	post_all();
	tracked_drain(h, true, &sync);
	assert_int_equal(mesh_failover_replay(h, SQ_PSN, 0, 4, &none), 0);
	assert_int_equal(n_asked, 1);
	assert_int_equal(asked, INLINED);
	mesh_vqp_put_key(h, INLINED, INLINED + PATH);
	assert_known(INLINED);
	assert_int_equal(asked, OTHER);
	mesh_vqp_drop_key(h, OTHER); /* what waits for it asks again */
	assert_int_equal(n_asked, 3);
	assert_int_equal(asked, OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_and_known, reading_setup, reading_teardown),
		cmocka_unit_test_setup_teardown(test_behind_what_is_done, reading_setup, reading_teardown),
		cmocka_unit_test_setup_teardown(test_not_for_ever, reading_setup, reading_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
