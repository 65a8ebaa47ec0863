// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Keys that were registered past everything that is seen here (mlx5dv, DEVX) are found by the work that uses them, before it moves
 * (usedkeys.c).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "pdstay.h"
#include "reading.h"

static struct ibv_mr *unseen;

/* Of an earlier PD at the same address, perhaps. */
static bool was_seen(const struct ibv_mr *mr)
{
	int cancel = mesh_keys_lock();
	bool seen = mesh_mr_table_seen(mesh_root.keys.mr_table, MESH_BY_LKEY, world.pd, mr->lkey);

	mesh_keys_unlock(cancel);
	return seen;
}

static int setup(void **state)
{
	reading_setup(state);
	while (was_seen(unseen = world.mc->lower.mr.reg_mr(world.pd, a.buf, END_BYTES, (uintptr_t)a.buf,
							   IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE)))
		world.mc->lower.mr.dereg_mr(unseen);
	unseen->context = world.context;
	unseen->pd = NULL; /* so that taking it away tells nothing */
	return 0;
}

static int teardown(void **state)
{
	world.mc->lower.mr.dereg_mr(unseen);
	mesh_pd_stay_no_more(world.pd, NULL);
	return reading_teardown(state);
}

static void write_with(uint32_t lkey, uint32_t rkey, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = flags}, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)b.buf;
	wr.wr.rdma.rkey = rkey;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void write_is_done(uint32_t lkey)
{
	write_with(lkey, b.mr->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
}

static void receive_with(uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(a.qp, &wr, &bad), 0);
}

/* As before each move, with the next one made. */
static bool is_found(void)
{
	tracked_prepare(h);
	mesh_failover_check_keys(h);
	return mesh_failover_lost(h);
}

static void test_none(void **state)
{
	struct ibv_mr *gone;

	(void)state;
	connect_a();
	connect_b();
	receive_with(a.mr->lkey);
	write_is_done(a.mr->lkey);
	/* What is still to be read in the queue may be gone by now. */
	gone = ibv_reg_mr(world.pd, a.buf, END_BYTES, 0);
	write_is_done(gone->lkey);
	assert_int_equal(ibv_dereg_mr(gone), 0);
	write_with(a.mr->lkey, b.mr->rkey, 0);
	write_with(0, b.mr->rkey, IBV_SEND_INLINE);
	assert_false(is_found());
}

static void test_outstanding(void **state)
{
	(void)state;
	connect_a();
	write_with(unseen->lkey, b.mr->rkey, 0); /* nobody is there to answer */
	assert_true(is_found());
}

static void test_done(void **state)
{
	unsigned int i;

	(void)state;
	connect_a();
	connect_b();
	write_is_done(unseen->lkey);
	for (i = 0; i < 10; i++)
		write_is_done(a.mr->lkey);
	assert_true(is_found());
}

/* From the next one's being made on posts pass by, and are looked at again before the drain. */
static void test_later(void **state)
{
	(void)state;
	connect_a();
	connect_b();
	assert_false(is_found());
	write_with(unseen->lkey, b.mr->rkey, IBV_SEND_SIGNALED);
	mesh_failover_check_keys(h);
	assert_non_null(mesh_failover_lost(h));
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS); /* it stays, and goes on */
}

static void test_receive(void **state)
{
	(void)state;
	connect_a();
	receive_with(a.mr->lkey);
	assert_false(is_found());
	receive_with(unseen->lkey);
	mesh_failover_check_keys(h);
	assert_non_null(mesh_failover_lost(h));
}

/* Where the work is logged, as that of any other provider. */
static void test_logged(void **state)
{
	static const struct manner extended = {.how = MOVED, .extended = true};
	static const struct shape shape = {.cqe = 512, .max_wr = DEPTH};
	uint32_t keys[MESH_FAILOVER_KEYS] = {0};

	(void)state;
	end_close(&a);
	end_open(&a, &world, &extended, &shape);
	connect_a();
	assert_false(mesh_tracker_reads(h->tracker));
	write_with(a.mr->lkey, b.mr->rkey, 0);
	receive_with(a.mr->lkey);
	assert_false(is_found());
	write_with(unseen->lkey, b.mr->rkey, 0);
	assert_non_null(mesh_failover_lost(h)); /* as soon as it is posted */
	mesh_pd_stay_no_more(world.pd, NULL);
	assert_null(mesh_failover_lost(h));
	receive_with(a.mr->lkey);
	assert_null(mesh_failover_lost(h));
	receive_with(unseen->lkey);
	assert_non_null(mesh_failover_lost(h));
	assert_int_equal(mesh_failover_past_keys(h, keys, 0), 1);
	assert_int_equal(keys[0], b.mr->rkey);
}

/* Keys of the peer that were used last, the newest first, behind those that are given. */
static void test_past(void **state)
{
	uint32_t keys[MESH_FAILOVER_KEYS] = {0};

	(void)state;
	connect_a();
	connect_b();
	assert_int_equal(mesh_failover_past_keys(h, keys, 0), 0);
	write_is_done(a.mr->lkey);
	assert_int_equal(mesh_failover_past_keys(h, keys, 0), 1);
	assert_int_equal(keys[0], b.mr->rkey);
	assert_int_equal(mesh_failover_past_keys(h, keys, 1), 1);
	keys[0] = b.mr->rkey + 0x100;
	assert_int_equal(mesh_failover_past_keys(h, keys, 1), 2);
	assert_int_equal(keys[1], b.mr->rkey);
	assert_int_equal(mesh_failover_past_keys(h, keys, 2), 2);
}

static bool is_logged(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	char line[1024];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, text);
	if (file)
		fclose(file);
	return found;
}

/* On one that has moved: as bare fails that has no such key, and the log says why; and no other one moves then. */
static void test_moved(void **state)
{
	char path[] = "/tmp/usedkeys-XXXXXX";
	struct mv_move_sync sync;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	mv_log_init(&mesh_root.log, path, MV_LOG_WARN);
	connect_a();
	tracked_prepare_loop(h, SQ_PSN);
	tracked_drain(h, true, &sync);
	assert_int_equal(mesh_failover_replay(h, SQ_PSN, 0, 4, NULL), 0);
	mesh_pd_stay(world.pd, "this test says so");
	assert_null(mesh_failover_lost(h)); /* elsewhere it is no worse off */
	mesh_pd_stay_no_more(world.pd, NULL);
	write_with(unseen->lkey, a.mr->rkey, IBV_SEND_SIGNALED);
	assert_int_equal(end_wait(&a).status, IBV_WC_LOC_PROT_ERR);
	assert_non_null(mesh_pd_stays(world.pd));
	assert_true(is_logged(path, "work of a connection that has moved fails: it uses a key that was not registered"));
	mv_log_init(&mesh_root.log, "/dev/null", MV_LOG_ERR);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_none), T(test_outstanding), T(test_done), T(test_later), T(test_receive), T(test_logged), T(test_past), T(test_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
