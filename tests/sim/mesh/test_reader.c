// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Work that is read from mlx5's own queues (reader.h), in a host of the simulator, with the distribution's libmlx5: that posting is
 * the base's, that the count of PSNs is right whatever was posted, that after a fence the log has what is outstanding, that who posts
 * past us is found, that a CQ is as it was, that atomics are waited for without posting anything, and what becomes of it all without
 * memory. Seeded: TEST_SEED=n
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "fault.h"
#include "guarded.h"
#include "heldint.h"
#include "random.h"

#define MTU      GUARDED_MTU
#define SQ_PSN   0xfffff0
#define RQ_PSN   0x77
#define DEPTH    64
#define ROUNDS   2000
#define PATIENCE 20000 /* ms */

static struct end a, b; /* a is read, b answers */
static struct mesh_held *h;

/* What a was given to do. */
static struct {
	uint32_t psn, consumes, n;
	uint64_t last_id;
	struct ibv_send_wr wrs[DEPTH];
	uint64_t lengths[DEPTH];
} posted;
static uint32_t fed; /* receives of b */

static const struct manner noted = {.how = MOVED}, bare = {.how = BARE};
static const struct shape shape = {.cqe = 512, .max_wr = DEPTH};
#define MANY 300
static const struct shape two_cqs = {.cqe = 1024, .max_wr = MANY, .max_sge = 1, .two_cqs = true};

/* ---- the connection -------------------------------------------------------------------------------------------- */

static struct ibv_qp_attr rtr(uint32_t peer, uint32_t rq_psn)
{
	return world_rtr(&world, false, peer, rq_psn);
}

static struct ibv_qp_attr rts(uint32_t sq_psn)
{
	struct ibv_qp_attr attr = world_rts(sq_psn);

	attr.timeout = 17;
	return attr;
}

static void connect_b(void)
{
	struct ibv_qp_attr attr = rtr(a.qp->qp_num, SQ_PSN);

	assert_int_equal(world.mc->modify_qp(b.qp, &attr, RTR_MASK), 0);
	attr = rts(RQ_PSN);
	assert_int_equal(world.mc->modify_qp(b.qp, &attr, RTS_MASK), 0);
	b.qp->state = IBV_QPS_RTS;
}

/* As far as it receives. */
static void receive_only(void)
{
	guarded_rtr(&a, &guarded_ops, rtr(b.qp->qp_num, RQ_PSN), &h);
}

static void connect_a(void)
{
	receive_only();
	guarded_rts(&a, h, rts(SQ_PSN));
}

static int setup(void **state)
{
	world_setup(state);
	mesh_root.config.survive = true;
	memset(&posted, 0, sizeof(posted));
	posted.psn = SQ_PSN;
	fed = 0;
	end_open(&a, &world, &noted, &shape);
	end_open(&b, &world, &bare, &shape);
	h = NULL;
	return 0;
}

static int teardown(void **state)
{
	if (h)
		mesh_held_destroy(h);
	end_close(&a);
	end_close(&b);
	return world_teardown(state);
}

/* ---- what is posted --------------------------------------------------------------------------------------------- */

static struct ibv_send_wr some_wr(struct ibv_sge *sges, uint64_t *ret_length)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE,		  IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_send_wr wr = {.wr_id = rng, .sg_list = sges, .opcode = opcodes[rnd(6)]};
	int i;

	*ret_length = 0;
	wr.num_sge = (int)rnd(4);
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.num_sge = 1;
	else if (wr.opcode != IBV_WR_RDMA_READ && !rnd(3))
		wr.send_flags = IBV_SEND_INLINE;
	for (i = 0; i < wr.num_sge; i++) {
		sges[i] = (struct ibv_sge){(uintptr_t)a.buf + rnd(1000), wr.send_flags ? 1 + rnd(16) : 1 + rnd(3000), a.mr->lkey};
		if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			sges[i].length = 8;
		*ret_length += sges[i].length;
	}
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b.buf;
		wr.wr.atomic.rkey = b.mr->rkey;
	} else if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = (uintptr_t)b.buf + 4096;
		wr.wr.rdma.rkey = b.mr->rkey;
	}
	return wr;
}

/* @always: signaled. Return: what the base said. */
static int post_one(bool always)
{
	struct ibv_sge sges[4];
	uint64_t length;
	struct ibv_send_wr wr = some_wr(sges, &length), *bad;
	int err;

	wr.send_flags |= always || rnd(2) ? IBV_SEND_SIGNALED : 0;
	err = ibv_post_send(a.qp, &wr, &bad);
	if (err)
		return err;
	posted.psn = mv_psn_add(posted.psn, mv_psn_count(wr.opcode, length, MTU));
	posted.consumes += mv_psn_consumes(wr.opcode);
	posted.last_id = wr.wr_id;
	if (posted.n < DEPTH) {
		posted.wrs[posted.n] = wr;
		posted.lengths[posted.n] = length;
	}
	posted.n++;
	return 0;
}

/* As many receives as one round takes at most; earlier ones have been executed. */
static void feed_b(void)
{
	for (; fed - posted.consumes < 16; fed++)
		assert_int_equal(end_recv(&b, fed, 8192, 16384), 0);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void test_posting_is_the_bases(void **state)
{
	struct ibv_wc wc;

	(void)state;
	connect_a();
	assert_non_null(h->guard->reader);
	assert_ptr_equal(world.context->ops.post_send, world.mc->post_send);
	assert_ptr_equal(world.context->ops.post_recv, world.mc->post_recv);
	assert_true(h->send_cq->fast);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	/* Once a move is prepared they are ours. */
	mesh_reader_engage(h);
	assert_ptr_equal(world.context->ops.post_send, mesh_post_send);
	assert_ptr_equal(world.context->ops.post_recv, mesh_post_recv);
	assert_false(h->send_cq->fast);
}

/* Many times round the queue, across the wrap of PSNs; in batches with one signaled at the end. */
static void test_count(void **state)
{
	unsigned int round, i, n;
	struct ibv_wc wc[8];
	bool last;

	(void)state;
	connect_a();
	connect_b();
	for (round = 0; round < ROUNDS; round++) {
		n = 1 + rnd(12);
		feed_b();
		for (i = 0; i < n; i++)
			assert_int_equal(post_one(i + 1 == n), 0);
		/* The last one is signaled: when its completion is there, all are counted. */
		for (i = 0, last = false; i < PATIENCE * 100 && !last; i++) {
			int got = ibv_poll_cq(a.cq, 1 + (int)rnd(8), wc);

			assert_true(got >= 0);
			while (got--) {
				assert_int_equal(wc[got].status, IBV_WC_SUCCESS);
				last |= wc[got].wr_id == posted.last_id;
			}
			if (i > 1000)
				usleep(10);
		}
		assert_null(h->guard->lost);
		assert_int_equal(h->guard->sends.first_psn, posted.psn);
		assert_int_equal(h->guard->sends.n_sent, posted.consumes);
		while (ibv_poll_cq(b.cq, 8, wc) > 0)
			;
	}
	/* What the other end says. */
	{
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		assert_int_equal(world.mc->query_qp(b.qp, &attr, IBV_QP_RQ_PSN, &init), 0);
		assert_int_equal(attr.rq_psn, posted.psn);
	}
}

static void check_log(uint32_t n)
{
	struct ibv_sge sges[8];
	char data[256];
	struct mv_wr wr;
	uint32_t i;

	assert_int_equal(mv_wrlog_count(&h->guard->sends.log), n);
	assert_int_equal(h->guard->n_undone, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(mv_wrlog_get(&h->guard->sends.log, i, sges, data, &wr), 0);
		assert_true(wr.wr.wr_id == posted.wrs[i].wr_id);
		assert_int_equal(wr.wr.opcode, posted.wrs[i].opcode);
		assert_int_equal(wr.length_bytes, posted.lengths[i]);
		assert_int_equal(wr.wr.send_flags & IBV_SEND_SIGNALED, posted.wrs[i].send_flags & IBV_SEND_SIGNALED);
	}
}

/* The peer does not answer. */
static void test_outstanding(void **state)
{
	struct mv_move_sync sync;
	uint32_t i, n_recvs = 9;
	struct ibv_wc wc;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0); /* before it is connected */
	connect_a();
	for (; i < n_recvs; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	for (i = 0; i < 30; i++)
		assert_int_equal(post_one(false), 0);
	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	assert_int_equal(h->guard->sends.first_psn, SQ_PSN);
	assert_int_equal(sync.next_psn, RQ_PSN);
	assert_int_equal(sync.n_received, 0);
	check_log(30);
	assert_int_equal(h->guard->receives.n_left, n_recvs);
	for (i = 0; i < n_recvs; i++) {
		const struct mesh_srq_recv *recv = mesh_srqlog_at(&h->guard->receives, i);

		assert_int_equal(recv->wr_id, 100 + i);
		assert_int_equal(recv->num_sge, 1);
		assert_true(recv->sges[0].addr == (uintptr_t)a.buf + 64ull * i);
	}
	assert_null(h->guard->lost);
}

/* An end that stays in RTR: what it receives is in its queue, and is noted nowhere else. A move finds it there. */
static void test_receives_only(void **state)
{
	struct mv_move_sync sync;
	uint32_t i;

	(void)state;
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(mesh_held_find(world.mc, a.qp)->log.n, 1);
	receive_only();
	assert_int_equal(h->log.n, 0);
	assert_ptr_equal(world.context->ops.post_recv, world.mc->post_recv);
	for (i = 1; i < 5; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	assert_int_equal(h->log.n, 0);
	connect_b();
	for (i = 0; i < 2; i++) {
		assert_int_equal(end_send_empty(&b, i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
		assert_int_equal(end_wait(&a).wr_id, 100 + i);
	}
	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	assert_null(mesh_live_lost(h));
	assert_int_equal(sync.n_received, 2);
	assert_int_equal(h->guard->receives.n_left, 3);
	assert_int_equal(mesh_srqlog_first(&h->guard->receives)->wr_id, 102);
}

/* RTR is refused at first, as where no neighbour was found: what was posted before and after is there when it is tried again. */
static void test_receives_until_connected(void **state)
{
	struct ibv_qp_attr attr = rtr(b.qp->qp_num, RQ_PSN);
	struct mesh_held *same;

	(void)state;
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(mesh_live_guard(world.mc, a.qp, &guarded_ops, NULL, MTU, &h), 0);
	attr.path_mtu = 77;
	assert_int_not_equal(mesh_held_modify_base(h, &attr, RTR_MASK), 0);
	assert_int_equal(end_recv(&a, 101, 64, 64), 0);
	same = h;
	mesh_live_unguard(h);
	h = NULL;
	assert_int_equal(end_recv(&a, 102, 128, 64), 0);
	assert_int_equal(same->log.n, 3);
	receive_only();
	assert_int_equal(h->log.n, 0);
}

/*
 * What is flushed of an SRQ is the receive of the message that was under way: its log has it, and it is nothing that was posted to
 * the queue pair. That one flushes a send before, and has posted none.
 */
static void under_way(unsigned int n_sends)
{
	static const struct shape shared = {.cqe = 512, .max_wr = DEPTH, .srq = true};
	struct ibv_sge halves[2];
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = halves, .num_sge = 2}, *bad;
	struct mv_move_sync sync;
	struct ibv_wc wc;
	uint32_t i;

	end_close(&a);
	end_open(&a, &world, &noted, &shared);
	assert_int_equal(end_recv(&a, 100, 0, 16384), 0);
	connect_a();
	connect_b();
	halves[0] = (struct ibv_sge){(uintptr_t)b.buf, 2 * MTU, b.mr->lkey};
	halves[1] = (struct ibv_sge){(uintptr_t)b.buf, 2 * MTU, ~b.mr->lkey};
	assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
	wc = end_wait(&b);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	for (i = 0; i < n_sends; i++)
		assert_int_equal(post_one(true), 0);
	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	assert_null(h->guard->lost);
	assert_int_equal(sync.n_received, 0);
	check_log(n_sends);
}

static void test_under_way(void **state)
{
	(void)state;
	under_way(0);
}

static void test_under_way_beside_sends(void **state)
{
	(void)state;
	under_way(3);
}

static int no_room(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return ENOMEM;
}

/* What does not flush is waited for as long as the peer waits for us, less what it takes to tell. */
static void test_not_flushed(void **state)
{
	const struct mv_move_times times = mesh_root.move_times;
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **) = world.mc->post_send;
	struct mv_move_sync sync;
	uint64_t begun_ns;
	int err;

	(void)state;
	connect_a();
	guarded_prepare(h);
	mesh_root.move_times.move_ns = 2 * 2500000000ull;
	world.mc->post_send = no_room;
	begun_ns = mesh_now_ns();
	err = guarded_fence_ends(h, true, &sync);
	begun_ns = mesh_now_ns() - begun_ns;
	world.mc->post_send = post_send;
	mesh_root.move_times = times;
	assert_int_equal(err, -ETIMEDOUT);
	assert_true(begun_ns >= 2250000000ull);
}

static struct {
	int (*real)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	unsigned int n_left;
} takes;

static int take_some(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (takes.n_left) {
		takes.n_left--;
		return takes.real(qp, wr, bad);
	}
	*bad = wr;
	return ENOMEM;
}

/* The next one takes two receives of five. The program is told of each work request once, and of all. */
static void test_next_one_is_full(void **state)
{
	unsigned int receives = 0, sends = 0, i;
	struct mv_move_sync sync;
	struct ibv_wc wc;

	(void)state;
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	connect_a();
	for (i = 0; i < 3; i++)
		end_send_empty(&a, i, IBV_SEND_SIGNALED);
	guarded_prepare(h);
	takes.real = world.rail->context->ops.post_recv;
	takes.n_left = 2;
	world.rail->context->ops.post_recv = take_some;
	assert_int_equal(guarded_fence_ends(h, true, &sync), -ENOMEM);
	assert_int_equal(end_recv(&a, 105, 0, 64), 0);
	world.rail->context->ops.post_recv = takes.real;
	mesh_live_surface(h);
	for (i = 0; i < 6 + 3; i++) {
		wc = end_wait(&a);
		assert_int_equal(wc.status, sends || wc.wr_id >= 100 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(wc.wr_id, wc.wr_id >= 100 ? 100 + receives++ : sends++);
	}
	end_quiet(&a);
}

/* Who was about to call the base's function when ours were put in. */
static void test_past_us(void **state)
{
	struct ibv_send_wr late = {.wr_id = 4711, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	assert_int_equal(post_one(false), 0);
	guarded_prepare(h);
	assert_int_equal(mesh_live_fence(h, true, &sync), -EAGAIN);
	/* Behind the marks: it is as what was posted before. */
	assert_int_equal(world.mc->post_send(a.qp, &late, &bad), 0);
	posted.wrs[1] = late;
	guarded_fence(h, false, &sync);
	check_log(2);
	assert_false(mesh_reader_strayed(h->guard->reader));
	/* Too late: nothing may overtake it. */
	assert_int_equal(world.mc->post_send(a.qp, &late, &bad), 0);
	assert_true(mesh_reader_strayed(h->guard->reader));
	assert_int_equal(mesh_live_replay(h, SQ_PSN, 0, 4), -EPROTO);
	assert_null(mesh_live_lost(h));
	assert_int_equal(ibv_post_send(a.qp, &late, &bad), 0);
	assert_non_null(mesh_live_lost(h));
}

/* The peer, which is through, sends what the next one fails by, before we are: what that says is not shown, so we have to. */
static void test_next_one_fails(void **state)
{
	struct mesh_completion c = {.wr_id = 1, .cq = NULL, .status = IBV_WC_LOC_LEN_ERR};
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	guarded_prepare(h);
	assert_int_equal(mesh_live_fence(h, true, &sync), -EAGAIN);
	guarded_fence(h, false, &sync);
	c.cq = h->recv_cq;
	assert_false(mesh_guard_completed(h, &c));
	assert_int_equal(mesh_live_replay(h, SQ_PSN, 0, 4), -EPROTO);
}

/* ---- atomics before a path that works is left -------------------------------------------------------------------- */

#define RESULTS 2048 /* where those of atomics go, in a's buffer */
#define BEFORE  5 /* what the remote word is at first */

static volatile uint64_t *result(unsigned int i)
{
	return (volatile uint64_t *)(void *)(a.buf + RESULTS) + i;
}

static void add_one(unsigned int i, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)result(i), 8, a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = flags,
				 .wr.atomic = {.remote_addr = (uintptr_t)b.buf, .compare_add = 1, .rkey = b.mr->rkey}}, *bad;

	*result(i) = UINT64_MAX;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void send_one(uint64_t wr_id)
{
	assert_int_equal(end_send_empty(&a, wr_id, IBV_SEND_SIGNALED), 0);
}

static void connect_for_atomics(void)
{
	connect_a();
	connect_b();
	feed_b();
	memcpy(b.buf, &(uint64_t){BEFORE}, 8);
}

static void assert_done(uint64_t wr_id)
{
	struct ibv_wc wc = end_wait(&a);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
}

/* The peer may have taken its memory away since the last atomic was done, which nobody tells us. Nothing of ours touches it. */
static void test_atomic_of_the_past(void **state)
{
	unsigned int i;
	bool none;

	(void)state;
	connect_for_atomics();
	add_one(0, 0);
	for (i = 0; *result(0) != BEFORE && i < PATIENCE; i++)
		usleep(1000);
	assert_int_equal(*result(0), BEFORE);
	assert_int_equal(ibv_dereg_mr(b.mr), 0);
	b.mr = ibv_reg_mr(world.pd, b.buf + 65536, 4096, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(b.mr);
	for (i = 0; i < 20; i++) {
		none = mesh_live_quiesce(h);
		usleep(2000);
		end_quiet(&a);
		assert_null(mesh_live_lost(h));
		assert_false(none); /* it could be on its way, for all that is known here */
	}
	mesh_live_release(h);
	assert_false(mesh_live_broken(h));
	send_one(7);
	assert_done(7);
	assert_true(mesh_live_quiesce(h));
}

/* Atomics go on until a completion will tell that they are done. Else those before would never be known to be. */
static void test_atomics_until_one_tells(void **state)
{
	unsigned int i;

	(void)state;
	connect_for_atomics();
	add_one(0, 0);
	assert_false(mesh_live_quiesce(h));
	add_one(1, 0);
	assert_int_equal(h->queue.n, 0);
	assert_false(mesh_live_quiesce(h));
	send_one(2); /* tells */
	assert_int_equal(h->queue.n, 0);
	add_one(3, 0);
	assert_int_equal(h->queue.n, 1);
	send_one(4);
	assert_int_equal(h->queue.n, 2);
	assert_done(2);
	assert_int_equal(*result(1), BEFORE + 1);
	for (i = 0; !mesh_live_quiesce(h) && i < PATIENCE; i++)
		usleep(1000);
	assert_true(mesh_live_quiesce(h));
	assert_int_equal(h->queue.n, 2);
	mesh_live_release(h);
	assert_int_equal(h->queue.n, 0);
	assert_done(4);
	assert_int_equal(*result(3), BEFORE + 2);
	/* With nothing outstanding none begins, signaled or not. */
	assert_true(mesh_live_quiesce(h));
	add_one(5, IBV_SEND_SIGNALED);
	assert_int_equal(h->queue.n, 1);
	mesh_live_release(h);
	assert_done(5);
	assert_null(mesh_live_lost(h));
}

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
	usleep(50000);
	mesh_held_destroy(h);
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
	assert_int_equal(world.mc->poll_cq(a.cq, 1, &wc), 0);
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
	assert_int_equal(world.mc->poll_cq(a.cq, 1, &wc), 0);
}

/* Neither logged nor moved to another path when it is connected; what is posted, polled and noted is the base's alone. */
static void assert_is_left(struct ibv_qp *qp)
{
	struct mesh_held *none = NULL;

	assert_int_equal(mesh_live_guard(world.mc, qp, &guarded_ops, NULL, MTU, &none), -EBUSY);
	assert_int_equal(mesh_recvlog_begin(world.mc, qp), 0);
	assert_int_equal(mesh_held_new(world.mc, qp, &guarded_ops, NULL, &none), -EBUSY);
	assert_null(none);
	assert_null(mesh_held_find(world.mc, qp));
	assert_ptr_equal(world.context->ops.post_send, world.mc->post_send);
	assert_ptr_equal(world.context->ops.post_recv, world.mc->post_recv);
	assert_ptr_equal(world.context->ops.poll_cq, world.mc->poll_cq);
}

static void polled_by_itself(const struct manner *manner)
{
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.out = &dv}};

	end_close(&a);
	end_open(&a, &world, manner, &two_cqs);
	memset(&dv, 0, sizeof(dv));
	obj.cq.in = a.cq;
	assert_true(mesh_mlx5_is_base(world.mc));
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
	struct ibv_cq_ex *cq = world.mc->create_cq_ex(world.context, &attr);
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(cq);
	init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp(world.pd, &init);
	assert_non_null(qp);
	assert_int_equal(mesh_recvlog_begin(world.mc, qp), 0);
	mesh_recvlog_end(world.mc, a.qp); /* it notes, too */
	assert_is_left(qp);
	pthread_mutex_lock(&world.mc->data.lock);
	assert_null(mesh_cq_get(world.mc, init.recv_cq)); /* for receives of an SRQ */
	pthread_mutex_unlock(&world.mc->data.lock);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(init.recv_cq), 0);
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
		assert_null(h->guard->lost);
		assert_int_equal(h->guard->sends.first_psn, posted.psn);
		while (ibv_poll_cq(b.cq, 1, &wc) > 0)
			;
	}
}

/* Some work, and all that is known of it is right. */
static void one_round(void)
{
	struct ibv_wc wc;
	unsigned int i;

	feed_b();
	for (i = 0; i < 8; i++)
		assert_int_equal(post_one(true), 0);
	for (i = 0; i < 8; i++)
		assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
	while (ibv_poll_cq(b.cq, 1, &wc) > 0)
		;
}

static void life_ends(struct end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(world.mc->modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
	e->qp->state = IBV_QPS_RESET;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE};
	assert_int_equal(world.mc->modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	e->qp->state = IBV_QPS_INIT;
}

/* Between one queue pair whose completions were read and the next one. */
static void test_resized_between(void **state)
{
	(void)state;
	connect_a();
	connect_b();
	one_round();
	mesh_held_destroy(h);
	h = NULL;
	life_ends(&a);
	life_ends(&b);
	assert_int_equal(ibv_resize_cq(a.cq, 2000), 0);
	posted.psn = SQ_PSN;
	posted.consumes = fed = 0;
	assert_int_equal(mesh_recvlog_begin(world.mc, a.qp), 0);
	connect_a();
	assert_non_null(h->guard->reader);
	connect_b();
	one_round();
	assert_null(h->guard->lost);
	assert_int_equal(h->guard->sends.first_psn, posted.psn);
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
	resize_cq = world.mc->resize_cq;
	world.mc->resize_cq = connect_meanwhile;
	err = ibv_resize_cq(a.cq, 2000);
	world.mc->resize_cq = resize_cq;
	assert_int_equal(err, 0);
	connect_b();
	one_round();
	assert_null(mesh_live_lost(h));
	assert_int_equal(h->guard->sends.first_psn, posted.psn);
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
	assert_non_null(mesh_live_lost(h));
	/* Nor is it asked again while others are looked at. */
	assert_int_equal(ibv_resize_cq(a.cq, 100), 0);
	one_round();
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Keys, the queue of sends that wait, the log's two sides, receives that come while it is fenced. */
static unsigned int n_rooms(void)
{
	return !!h->keys + !!h->queue.places + !!h->guard->sends.places + !!h->guard->receives.places + !!h->guard->reader->later.places;
}

#define ALL_ROOMS 5u

static void test_room_is_for_moves(void **state)
{
	unsigned int i;

	(void)state;
	connect_a();
	connect_b();
	feed_b();
	for (i = 0; i < 8; i++)
		assert_int_equal(post_one(true), 0);
	for (i = 0; i < 8; i++)
		assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(n_rooms(), 0);
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	assert_int_equal(n_rooms(), 0);
	guarded_prepare(h);
	assert_int_equal(n_rooms(), ALL_ROOMS);
}

/* Nothing has happened then, and nothing is forgotten. */
static void test_no_room_for_a_move(void **state)
{
	struct mv_move_sync sync;
	unsigned int failed;
	uint32_t qpn;
	int err;

	(void)state;
	connect_a();
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	for (failed = 0;; failed++) {
		assert_int_equal(post_one(false), 0);
		/* What was had before is not asked for again, so each time another one fails. */
		fault_arm(FAULT_ALLOC, failed ? 2 : 1, ENOMEM);
		err = mesh_live_prepare(h, world.spd, &shadow_attr, &qpn);
		fault_disarm();
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(mesh_live_lost(h));
		assert_false(h->guard->reader->engaged);
		assert_ptr_equal(world.context->ops.post_send, world.mc->post_send);
		assert_null(h->next.qp);
		assert_true(mesh_live_armed(h));
	}
	assert_int_equal(failed, ALL_ROOMS);
	guarded_fence(h, true, &sync);
	check_log(failed + 1);
}

static void to_err(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned int i;

	for (i = 0; i < 3; i++)
		assert_int_equal(post_one(true), 0);
	assert_int_equal(world.mc->modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
}

/* The path fails before any move was prepared. */
static void test_errors_come_first(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	connect_a();
	to_err();
	end_quiet(&a);
	assert_true(h->guard->broken);
	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	check_log(3);
	assert_int_equal(h->guard->receives.n_left, 1);
}

/* The same, and nowhere to keep what was not done: the program has its errors, as without us. */
static void test_no_room_for_errors(void **state)
{
	unsigned int sends = 0, receives = 0, i;
	struct ibv_wc wc;
	uint32_t qpn;

	(void)state;
	for (i = 0; i < 2; i++)
		assert_int_equal(end_recv(&a, 100 + i, 0, 64), 0);
	connect_a();
	to_err();
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	for (i = 0; i < 5; i++) {
		wc = end_wait(&a);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.qp_num, a.qp->qp_num);
		if (receives < 2 && wc.wr_id == 100 + receives)
			receives++;
		else
			assert_true(wc.wr_id == posted.wrs[sends++].wr_id);
	}
	assert_true(fault_fired());
	fault_disarm();
	end_quiet(&a);
	assert_non_null(mesh_live_lost(h));
	assert_int_equal(mesh_live_prepare(h, world.spd, &shadow_attr, &qpn), -EOPNOTSUPP);
}

/* ---- two CQs --------------------------------------------------------------------------------------------------- */

static struct {
	int (*real)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	bool inside;
} between;

/* As if another thread polled the other CQ while libmlx5 polls this one, of which the next completion has been looked at. */
static int poll_other_between(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct ibv_wc other;

	if (!between.inside) {
		between.inside = true;
		assert_int_equal(ibv_poll_cq(cq == a.cq ? a.recv_cq : a.cq, 1, &other), 0);
	}
	return between.real(cq, n, wc);
}

/* Sends 0 to @n - 1 and receives from 1000 on, all of them flushed: the path has failed. */
static void flush_two_cqs(uint32_t n)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint32_t i;

	end_close(&a);
	end_open(&a, &world, &noted, &two_cqs);
	connect_a();
	for (i = 0; i < n; i++) {
		assert_int_equal(end_recv(&a, 1000 + i, 16 * i, 16), 0);
		assert_int_equal(end_send_empty(&a, i, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(world.mc->modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	usleep(20000);
}

static void check_two_cqs(uint32_t n)
{
	struct mv_move_sync sync;
	struct ibv_sge sges[8];
	char data[256];
	struct mv_wr wr;
	uint32_t i;

	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	assert_null(mesh_live_lost(h));
	assert_int_equal(mv_wrlog_count(&h->guard->sends.log), n);
	assert_int_equal(h->guard->receives.n_left, n);
	for (i = 0; i < n; i++) {
		const struct mesh_srq_recv *recv = mesh_srqlog_at(&h->guard->receives, i);

		assert_int_equal(mv_wrlog_get(&h->guard->sends.log, i, sges, data, &wr), 0);
		assert_int_equal(wr.wr.wr_id, i);
		assert_int_equal(recv->wr_id, 1000 + i);
		assert_int_equal(recv->num_sge, 1);
		assert_true(recv->sges[0].addr == (uintptr_t)a.buf + 16ull * i);
	}
}

static void one_between_the_other(bool send_first)
{
	struct ibv_wc wc;

	flush_two_cqs(5);
	between.real = world.mc->poll_cq;
	between.inside = false;
	world.mc->poll_cq = poll_other_between;
	assert_int_equal(ibv_poll_cq(send_first ? a.cq : a.recv_cq, 1, &wc), 0);
	world.mc->poll_cq = between.real;
	assert_true(between.inside);
	assert_int_equal(h->guard->n_kept, 10);
	check_two_cqs(5);
}

static void test_receives_between_sends(void **state)
{
	(void)state;
	one_between_the_other(true);
}

static void test_sends_between_receives(void **state)
{
	(void)state;
	one_between_the_other(false);
}

static _Atomic bool stop_polling;

static void *poll_until_stopped(void *arg)
{
	struct ibv_wc wc[4];

	while (!atomic_load(&stop_polling))
		assert_int_equal(ibv_poll_cq(arg, 4, wc), 0);
	return NULL;
}

/* A thread polls each. */
static void test_two_pollers(void **state)
{
	pthread_t threads[2];
	int i;

	(void)state;
	atomic_store(&stop_polling, false);
	flush_two_cqs(MANY);
	assert_int_equal(pthread_create(&threads[0], NULL, poll_until_stopped, a.cq), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, poll_until_stopped, a.recv_cq), 0);
	usleep(50000);
	atomic_store(&stop_polling, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	check_two_cqs(MANY);
}

/* A log that does not have what was kept is of no use to anybody. */
static void test_log_is_short(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	to_err();
	end_quiet(&a);
	mv_wrring_undo(&h->guard->sends, 1);
	guarded_prepare(h);
	assert_int_equal(guarded_fence_ends(h, true, &sync), -EOPNOTSUPP);
	assert_non_null(mesh_live_lost(h));
}

/* What the program changes in RTS: of the QP that does the work, and when that is fenced, of the next one, which it does not know. */
static void test_changed(void **state)
{
	struct ibv_qp_attr none = {.qp_access_flags = 0}, reads = {.qp_access_flags = IBV_ACCESS_REMOTE_READ}, next_rts = rts(SQ_PSN);
	struct ibv_qp_attr next_rtr = world_rtr(&world, true, 0, RQ_PSN);
	query_qp_fn query_qp = mesh_root.lib.verbs.query_qp;
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	assert_int_equal(mesh_held_modify(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, a.qp), 0);
	next_rtr.dest_qp_num = guarded_prepare(h);
	assert_int_equal(mesh_live_change(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, h->next.qp), 0);
	assert_int_equal(mesh_live_connect(h, &next_rtr, RTR_MASK, &next_rts, RTS_MASK), 0);
	guarded_fence(h, true, &sync);
	assert_int_equal(mesh_held_modify(h, &reads, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(mesh_live_change(h, &reads, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, h->next.qp), IBV_ACCESS_REMOTE_READ);
	/* A further one: what does the work now is ours. */
	assert_int_equal(mesh_live_replay(h, SQ_PSN, 0, 4), 0);
	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	assert_int_equal(mesh_held_modify(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(mesh_live_change(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, h->next.qp), 0);
}

/* ---- room in the CQ ---------------------------------------------------------------------------------------------- */

#define ROOM 511

static const struct shape with_srq = {.cqe = ROOM, .max_wr = 200, .srq = true, .srq_wr = ROOM, .max_inline = 16, .max_sge = 1};
static const struct shape without = {.cqe = ROOM, .max_wr = 200, .max_inline = 16, .max_sge = 1};

static void connect_pair(struct end *from, const struct end *to, bool guarded)
{
	struct ibv_qp_attr to_rtr = rtr(to->qp->qp_num, RQ_PSN), to_rts = rts(RQ_PSN);

	to_rtr.min_rnr_timer = 0; /* 655 ms: it does not come again before the end */
	if (guarded) {
		guarded_rtr(from, &guarded_ops, to_rtr, &h);
		guarded_rts(from, h, to_rts);
		return;
	}
	assert_int_equal(world.mc->modify_qp(from->qp, &to_rtr, RTR_MASK), 0);
	assert_int_equal(world.mc->modify_qp(from->qp, &to_rts, RTS_MASK), 0);
	from->qp->state = IBV_QPS_RTS;
}

/*
 * Atomics have waited for a move that was called off, and the base's queue is full: they are posted as it empties, also when the program
 * posts something in between.
 */
static void test_what_waited_is_posted(void **state)
{
	uint32_t n_posted = 0, n_done;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	connect_a();
	connect_b();
	assert_true(mesh_live_quiesce(h));
	while (!end_send_empty(&a, n_posted, IBV_SEND_SIGNALED))
		n_posted++; /* the peer has no receive */
	for (i = 0; i < 4; i++)
		add_one(i, IBV_SEND_SIGNALED);
	assert_int_equal(h->queue.n, 4);
	mesh_live_release(h);
	assert_int_equal(h->queue.n, 4);
	for (n_done = 0; n_done < n_posted + 5; n_done++) {
		while (end_poll(&b, &wc))
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		while (fed < n_posted + 1 && !end_recv(&b, fed, 8192, 16))
			fed++;
		assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
		if (!n_done)
			assert_int_equal(end_send_empty(&a, n_posted, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(h->queue.n, 0);
	assert_null(mesh_live_lost(h));
}

/* Among other events: a QP with an SRQ that goes to ERR gives one. */
static bool has_overrun(void)
{
	struct ibv_async_event event;

	while (world_event(&world, &event, 50))
		if (event.event_type == IBV_EVENT_CQ_ERR)
			return true;
	return false;
}

/*
 * Sends that are not signaled, and receives of an SRQ, have one CQ; it is full of the ones, and then all of the others are flushed. Nobody
 * polls.
 */
static void test_room_beside_srq(void **state)
{
	uint32_t n_sends, n_recvs, i;
	struct mv_move_sync sync;
	struct end c, d;
	struct ibv_wc wc;

	(void)state;
	end_open(&c, &world, &noted, &with_srq);
	end_open(&d, &world, &bare, &without);
	connect_pair(&c, &d, true);
	connect_pair(&d, &c, false);
	for (n_sends = 0; !end_send_empty(&c, n_sends, 0); n_sends++)
		; /* the peer has no receive */
	/* By what is logged there is room enough, and no more than that. */
	assert_true(h->send_cq->n_base_wrs + 3 <= (uint32_t)c.cq->cqe);
	n_recvs = (uint32_t)c.cq->cqe - n_sends + 20;
	assert_true(n_recvs < (uint32_t)c.cq->cqe);
	for (i = 0; i < n_recvs; i++) {
		assert_int_equal(end_recv(&c, 1000 + i, 0, 16), 0);
		assert_int_equal(end_send_empty(&d, i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&d).status, IBV_WC_SUCCESS);
	}
	guarded_prepare(h);
	guarded_fence(h, true, &sync);
	assert_false(has_overrun());
	assert_int_equal(mv_wrlog_count(&h->guard->sends.log), n_sends);
	for (i = 0; i < n_recvs; i++) {
		wc = end_wait(&c);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 1000 + i);
	}
	end_quiet(&c);
	mesh_held_destroy(h);
	h = NULL;
	end_close(&c);
	end_close(&d);
}

static struct {
	int (*real)(struct ibv_cq *, int);
	unsigned int n;
	int max;
} resizes;

static int resize_to_max(struct ibv_cq *cq, int cqe)
{
	resizes.n++;
	return cqe > resizes.max ? EINVAL : resizes.real(cq, cqe);
}

/* Return: as large as the CQ is then. */
static uint32_t room_after_prepare(void)
{
	guarded_prepare(h);
	mesh_live_release(h);
	return (uint32_t)a.cq->cqe;
}

/* What was added for a move does not count as the program's wish with the next one; what the program wishes later does. */
static void test_room_does_not_grow(void **state)
{
	uint32_t room, own = (uint32_t)a.cq->cqe;

	(void)state;
	connect_a();
	assert_true(room_after_prepare() >= h->send_cq->n_base_wrs + 3);
	h->recv_cq->n_base_shared = 1; /* as if it had an SRQ */
	room = room_after_prepare();
	assert_true(room >= own + h->send_cq->n_base_wrs + 3);
	assert_int_equal(room_after_prepare(), room);
	/* The QP on the other NIC needs room for its own work alone. */
	assert_true((uint32_t)h->send_cq->shadows->cq->cqe <= own);
	assert_int_equal(ibv_resize_cq(a.cq, 3000), 0);
	own = (uint32_t)a.cq->cqe;
	room = room_after_prepare();
	assert_true(room >= own + h->send_cq->n_base_wrs + 3);
	assert_int_equal(room_after_prepare(), room);
	assert_int_equal(ibv_resize_cq(a.cq, 100), 0);
	room = (uint32_t)a.cq->cqe;
	assert_true(room < own);
	assert_true(room_after_prepare() >= room + h->send_cq->n_base_wrs + 3);
	assert_true((uint32_t)a.cq->cqe < own);
}

/* The device has no CQ of that size: those that have a log have room at least, and the move is made. */
static void test_room_refused(void **state)
{
	uint32_t own = (uint32_t)a.cq->cqe, least;

	(void)state;
	connect_a();
	h->recv_cq->n_base_shared = 1;
	resizes.real = world.mc->resize_cq;
	resizes.n = 0;
	resizes.max = (int)own;
	world.mc->resize_cq = resize_to_max;
	assert_int_equal(room_after_prepare(), own);
	assert_int_equal(room_after_prepare(), own);
	assert_int_equal(resizes.n, 1); /* it is not asked again */
	assert_int_equal(ibv_resize_cq(a.cq, 10), 0);
	least = h->send_cq->n_base_wrs + 3;
	assert_true((uint32_t)a.cq->cqe < least);
	resizes.max = (int)least;
	assert_true(room_after_prepare() >= least);
	world.mc->resize_cq = resizes.real;
}

int main(void)
{
	const char *seed = getenv("TEST_SEED");
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_posting_is_the_bases), T(test_count),	       T(test_outstanding),
		T(test_receives_only),	      T(test_receives_until_connected), T(test_next_one_fails),
		T(test_next_one_is_full),
		T(test_past_us),	      T(test_cq_is_as_it_was), T(test_resized),
		T(test_resized_between),      T(test_resized_meanwhile), T(test_resized_unknown),
		T(test_destroyed_meanwhile),  T(test_polled_by_itself), T(test_made_past_us),
		T(test_atomic_of_the_past),   T(test_atomics_until_one_tells),
		T(test_room_is_for_moves),    T(test_no_room_for_a_move),
		T(test_errors_come_first),    T(test_no_room_for_errors),
		T(test_under_way),	      T(test_under_way_beside_sends),
		T(test_not_flushed),	      T(test_room_beside_srq), T(test_room_does_not_grow),
		T(test_room_refused),	      T(test_changed),
		T(test_receives_between_sends), T(test_sends_between_receives), T(test_two_pollers),
		T(test_log_is_short),	      T(test_what_waited_is_posted),
	};

	rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2 + 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
