// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The receives of an SRQ when a queue pair that is at work, and takes them, is moved: those that it has had, had begun to
 * fill or fails with count once. None is lost, and none is there twice.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "hub.h"
#include "srq.h"
#include "survive.h"
#include "vqp_int.h"

static const struct manner bare = {.how = BARE}, moved = {.how = MOVED};

/* What the next one of the SRQ's receives has. */
static void takes_one(struct hub *h, struct end *e, struct ibv_cq *recv_cq)
{
	struct ibv_wc wc;
	uint32_t ms;
	int n = 0;

	for (ms = 0; !n && ms < PATIENCE_MS; ms++) {
		n = ibv_poll_cq(recv_cq, 1, &wc);
		if (!n)
			usleep(1000);
	}
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, e->qp->qp_num);
	take_slot(h, &wc);
}

static void sends_one(struct hub *h, struct end *e)
{
	struct ibv_wc wc;

	assert_int_equal(end_send_empty(e, 7, IBV_SEND_SIGNALED), 0);
	wc = end_wait(&h->end);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/*
 * Somebody polls the CQ of the receives, which is not that of the sends, while all the sends are through: what has been received and is
 * still there is not taken once more.
 */
static void test_drain_unpolled(void **state)
{
	const struct manner noted = {.how = MOVED};
	struct hub *h = calloc(1, sizeof(*h));
	struct mv_move_sync sync;
	struct ibv_cq *recv_cq;
	struct mesh_cq *cq;
	struct end e;
	uint32_t i;
	int err;

	(void)state;
	assert_non_null(h);
	set_survive(true);
	hub_open(h, &bare);
	post_missing(h, 20);
	recv_cq = ibv_create_cq(world.context, 256, NULL, NULL, 0);
	assert_non_null(recv_cq);
	end_open(&e, &world, &noted, &(struct shape){.hub = &h->end, .recv_cq = recv_cq});
	failover_connect(&e);
	sends_one(h, &e);
	tracked_prepare_loop(e.vqp, PSN);
	cq = mesh_map_get(&world.mc->data.cqs, recv_cq);
	assert_non_null(cq);
	mesh_lock(&cq->poll_lock);
	err = mesh_failover_drain(e.vqp, true, &sync);
	for (i = 0; i < 3 && err == -EAGAIN; i++)
		err = mesh_failover_drain(e.vqp, false, &sync);
	mesh_unlock(&cq->poll_lock);
	if (err == -EAGAIN)
		err = tracked_drain_ends(e.vqp, false, &sync);
	assert_int_equal(err, 0);
	assert_int_equal(sync.n_received, 1);
	assert_int_equal(mesh_failover_replay(e.vqp, sync.next_psn, sync.n_received, 4, NULL), 0);
	takes_one(h, &e, recv_cq);
	for (i = 1; i < 20; i++) {
		sends_one(h, &e);
		takes_one(h, &e, recv_cq);
	}
	end_close(&e);
	assert_int_equal(ibv_destroy_cq(recv_cq), 0);
	hub_close(h);
	free(h);
	set_survive(false);
}

/* ---- receives that fail ------------------------------------------------------------------------------------------ */

/* @to is at the lower provider, as are @l's, and about to move. @noted: its log is not read */
static void half_received(struct at_work *l, struct end *from, struct end *to, bool noted)
{
	const struct manner manner = {.how = MOVED};
	unsigned int known;
	struct ibv_qp_attr rtr;

	end_open(from, &world, &bare, &(struct shape){.cqe = 64});
	known = world.mc->data.mlx5.state;
	if (noted)
		world.mc->data.mlx5.state = MESH_MLX5_NO;
	end_open(to, &world, &manner, &(struct shape){.hub = &l->hub.end});
	to->manner = &moved;
	rtr = world_rtr(&world, false, from->qp->qp_num, PSN);
	rtr.path_mtu = IBV_MTU_256;
	tracked_rtr(to, &tracked_ops, rtr, &to->vqp);
	tracked_rts(to, to->vqp, world_rts(PSN));
	world.mc->data.mlx5.state = known;
	half_open(from, to);
	tracked_prepare(to->vqp);
}

/*
 * Somebody stays at the lower provider. All of the SRQ's receives can be had, each once, also that which was being
 * filled at the drain.
 */
static void begun(bool first_move, bool noted)
{
	struct at_work *l = at_work_open(2);
	struct mv_move_sync sync;
	struct end from, to;
	uint32_t i;

	if (!first_move)
		failover_move(&l->ends[0]);
	half_received(l, &from, &to, noted);
	assert_true(mesh_tracker_reads(to.vqp->tracker) != noted);
	tracked_drain(to.vqp, true, &sync);
	assert_int_equal(sync.n_received, 0);
	assert_int_equal(to.vqp->tracker->n_undone, 0); /* sends */
	for (i = 0; i < 20; i++)
		at_work_works(l, &l->ends[i % 2]);
	for (i = 0; i < SLOTS; i++)
		assert_false(l->hub.posted[i]);
	end_close(&to);
	end_close(&from);
	at_work_close(l);
}

static void test_begun(void **state)
{
	(void)state;
	begun(true, false);
	begun(false, false);
	begun(true, true);
	begun(false, true);
}

/* The drain is not through yet, and the program posts as many as its SRQ takes; then it destroys the queue pair. */
static void test_begun_destroyed(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct at_work *l = at_work_open(2);
	struct mv_move_sync sync;
	struct end from, to;
	struct mesh_srq *srq;
	struct ibv_wc wc;
	uint32_t i;

	(void)state;
	failover_move(&l->ends[0]);
	half_received(l, &from, &to, false);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	assert_int_equal(mesh_failover_drain(to.vqp, true, &sync), -EAGAIN);
	for (i = 0; i < PATIENCE_MS && !srq->n_withheld; i++) {
		assert_false(end_poll(&l->hub.end, &wc));
		usleep(1000);
	}
	assert_int_equal(srq->n_withheld, 1);
	for (i = 20; i < l->hub.end.srq_size; i++)
		assert_int_equal(ibv_post_srq_recv(l->hub.end.srq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(l->hub.end.srq, &wr, &bad), ENOMEM);
	end_close(&to);
	assert_int_equal(srq->n_withheld, 0);
	assert_int_equal(n_counted(srq), l->hub.end.srq_size);
	end_close(&from);
	at_work_close(l);
}

enum { ONE_CQ = 0, TWO_CQS = 1, LOST = 2 };

/*
 * A message that is too long for what it is given, of a connection that has moved. @wr_id: of the send, NULL: of the receive, too;
 * LOST: there is no log of sends any more. Return: how many receives count as being somewhere, of 20.
 */
static uint32_t too_long(const uint64_t *wr_id, int how)
{
	const struct manner noted = {.how = MOVED};
	struct at_work *l = at_work_open(0);
	struct ibv_cq *recv_cq = how == TWO_CQS ? ibv_create_cq(world.context, 256, NULL, NULL, 0) : NULL;
	struct ibv_sge sge = {(uintptr_t)l->hub.end.buf, 2 * SLOT_BYTES, l->hub.end.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
	struct end *e = &l->ends[0];
	struct mesh_srq *srq;
	struct ibv_wc wc;
	uint32_t i, n = 0;

	end_open(e, &world, &noted, &(struct shape){.hub = &l->hub.end, .recv_cq = recv_cq});
	e->manner = &moved;
	l->n = 1;
	failover_connect(e);
	failover_move(e);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	assert_int_equal(n_counted(srq), 20);
	wr.wr_id = wr_id ? *wr_id : mesh_srqlog_first(&srq->shadows->log)->wr_id;
	if (how == LOST)
		e->vqp->tracker->lost = "a test";
	assert_int_equal(end_send(e, &wr), 0);
	for (i = 0; i < PATIENCE_MS && n < 2; i++) {
		if (i == 50)
			/* the send was flushed before, and waits for another path */
			mesh_failover_flush_errors(e->vqp);
		n += (uint32_t)ibv_poll_cq(l->hub.end.cq, 1, &wc);
		n += recv_cq ? (uint32_t)ibv_poll_cq(recv_cq, 1, &wc) : 0;
		usleep(1000);
	}
	assert_int_equal(n, 2);
	n = n_counted(srq);
	end_close(e);
	l->n = 0;
	if (recv_cq)
		assert_int_equal(ibv_destroy_cq(recv_cq), 0);
	at_work_close(l);
	return n;
}

static void test_too_long(void **state)
{
	const uint64_t seven = 7;

	(void)state;
	assert_int_equal(too_long(&seven, ONE_CQ), 19);
	assert_int_equal(too_long(NULL, TWO_CQS), 19);
	/* Who cannot tell does nothing. */
	assert_int_equal(too_long(NULL, ONE_CQ), 20);
	assert_int_equal(too_long(NULL, LOST), 20);
	assert_int_equal(too_long(&seven, LOST), 20);
}

static int unasked(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	(void)rkey;
	(void)ret;
	fail_msg("it has ended");
	return 0;
}

/* The program has ended it, and posts what never gets a key: that is flushed like others, is in no log, and has the number of a receive. */
static void test_flushed_without_key(void **state)
{
	struct at_work *l = at_work_open(2); /* the second one keeps the receives there */
	struct end *e = &l->ends[0];
	struct ibv_sge sge = {(uintptr_t)l->hub.end.buf, 8, l->hub.end.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .wr.rdma.rkey = 0x12300};
	const struct mesh_vqp_ops *ops = e->vqp->client.ops;
	struct mesh_vqp_ops keys = *ops;
	struct mesh_srq *srq;
	struct ibv_wc wc;

	(void)state;
	keys.want_key = unasked;
	failover_move(e);
	failover_move(&l->ends[1]);
	e->vqp->client.ops = &keys;
	end_err(e);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	wr.wr_id = mesh_srqlog_first(&srq->shadows->log)->wr_id;
	assert_int_equal(end_send(e, &wr), 0);
	wc = end_wait(&l->hub.end);
	assert_int_equal(wc.wr_id, wr.wr_id);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(n_counted(srq), 20);
	e->vqp->client.ops = ops;
	at_work_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_drain_unpolled, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_begun, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_begun_destroyed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_too_long, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_flushed_without_key, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
