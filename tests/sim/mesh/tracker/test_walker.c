// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Work that is read from mlx5's own queues (mlx5_wr_walker.h), in a host of the simulator, with the distribution's
 * libmlx5: that posting is the lower provider's, that the count of PSNs is right whatever was posted, that after a
 * drain the log has what is outstanding, that who posts past us is found, and what becomes of it all without memory.
 * Seeded: TEST_SEED=n
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault.h"
#include "reading.h"

#define ROUNDS   2000

static void test_posting_is_the_lower_providers(void **state)
{
	struct ibv_wc wc;

	(void)state;
	connect_a();
	assert_non_null(h->tracker->walker);
	assert_ptr_equal(world.context->ops.post_send, world.mc->lower.io.post_send);
	assert_ptr_equal(world.context->ops.post_recv, world.mc->lower.io.post_recv);
	assert_true(h->send_cq->fast);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	/* Once a move is prepared they are ours. */
	mesh_walker_engage(h);
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
		n = 1 + reading_rnd(12);
		feed_b();
		for (i = 0; i < n; i++)
			assert_int_equal(post_one(i + 1 == n), 0);
		/* The last one is signaled: when its completion is there, all are counted. */
		for (i = 0, last = false; i < PATIENCE_MS * 100 && !last; i++) {
			int got = ibv_poll_cq(a.cq, 1 + (int)reading_rnd(8), wc);

			assert_true(got >= 0);
			while (got--) {
				assert_int_equal(wc[got].status, IBV_WC_SUCCESS);
				last |= wc[got].wr_id == posted.last_id;
			}
			if (i > 1000)
				usleep(10);
		}
		assert_null(h->tracker->lost);
		assert_int_equal(h->tracker->sends.first_psn, posted.psn);
		assert_int_equal(h->tracker->sends.n_sent, posted.consumes);
		while (ibv_poll_cq(b.cq, 8, wc) > 0)
			;
	}
	/* What the other end says. */
	{
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		assert_int_equal(world.mc->lower.qp.query_qp(b.qp, &attr, IBV_QP_RQ_PSN, &init), 0);
		assert_int_equal(attr.rq_psn, posted.psn);
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
	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	assert_int_equal(h->tracker->sends.first_psn, SQ_PSN);
	assert_int_equal(sync.next_psn, RQ_PSN);
	assert_int_equal(sync.n_received, 0);
	check_log(30);
	assert_int_equal(h->tracker->receives.n_left, n_recvs);
	for (i = 0; i < n_recvs; i++) {
		const struct mesh_srq_recv *recv = mesh_srqlog_at(&h->tracker->receives, i);

		assert_int_equal(recv->wr_id, 100 + i);
		assert_int_equal(recv->num_sge, 1);
		assert_true(recv->sges[0].addr == (uintptr_t)a.buf + 64ull * i);
	}
	assert_null(h->tracker->lost);
}

/* An end that stays in RTR: what it receives is in its queue, and is noted nowhere else. A move finds it there. */
static void test_receives_only(void **state)
{
	struct mv_move_sync sync;
	uint32_t i;

	(void)state;
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(mesh_vqp_find(world.mc, a.qp)->early.log.n, 1);
	receive_only();
	assert_int_equal(h->early.log.n, 0);
	assert_ptr_equal(world.context->ops.post_recv, world.mc->lower.io.post_recv);
	for (i = 1; i < 5; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	assert_int_equal(h->early.log.n, 0);
	connect_b();
	for (i = 0; i < 2; i++) {
		assert_int_equal(end_send_empty(&b, i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
		assert_int_equal(end_wait(&a).wr_id, 100 + i);
	}
	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	assert_null(mesh_failover_lost(h));
	assert_int_equal(sync.n_received, 2);
	assert_int_equal(h->tracker->receives.n_left, 3);
	assert_int_equal(mesh_srqlog_first(&h->tracker->receives)->wr_id, 102);
}

/* RTR is refused at first, as where no neighbour was found: what was posted before and after is there when it is tried again. */
static void test_receives_until_connected(void **state)
{
	struct ibv_qp_attr attr = world_rtr(&world, false, b.qp->qp_num, RQ_PSN);
	struct mesh_vqp *same;

	(void)state;
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(mesh_failover_track(world.mc, a.qp, &tracked_ops, NULL, MTU, &h), 0);
	attr.path_mtu = 77;
	assert_int_not_equal(mesh_vqp_modify_lower(h, &attr, RTR_MASK), 0);
	assert_int_equal(end_recv(&a, 101, 64, 64), 0);
	same = h;
	mesh_failover_untrack(h);
	h = NULL;
	assert_int_equal(end_recv(&a, 102, 128, 64), 0);
	assert_int_equal(same->early.log.n, 3);
	receive_only();
	assert_int_equal(h->early.log.n, 0);
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
	struct mesh_srq *srq;
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
	end_wait_begun(&a, RQ_PSN);
	for (i = 0; i < n_sends; i++)
		assert_int_equal(post_one(true), 0);
	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
	assert_null(h->tracker->lost);
	assert_int_equal(sync.n_received, 0);
	check_log(n_sends);
	/* The program is not told of it, so somebody has to have it: nobody receives but the next one. */
	srq = mesh_srq_find(world.mc, a.srq);
	assert_int_equal(srq->lower.log.n_left + srq->begun.n_left + srq->pool.n_left + srq->n_withheld, 0);
	assert_int_equal(srq->shadows->log.n_left, 1);
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

/* A receive that fails is not in the SRQ any more. */
static void test_receive_fails(void **state)
{
	static const struct shape shared = {.cqe = 512, .max_wr = DEPTH, .srq = true};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 1}, *bad;
	struct ibv_sge sge = {(uintptr_t)b.buf, 4 * MTU, b.mr->lkey};
	struct ibv_wc wc;

	(void)state;
	end_close(&a);
	end_open(&a, &world, &noted, &shared);
	assert_int_equal(end_recv(&a, 100, 0, 64), 0);
	assert_int_equal(end_recv(&a, 101, 64, 64), 0);
	connect_a();
	connect_b();
	wr.sg_list = &sge;
	assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
	wc = end_wait(&a);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.wr_id, 100);
	assert_int_equal(mesh_srq_find(world.mc, a.srq)->lower.log.n_left, 1);
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
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **) = world.mc->lower.io.post_send;
	struct mv_move_sync sync;
	uint64_t begun_ns;
	int err;

	(void)state;
	connect_a();
	tracked_prepare(h);
	mesh_root.move_times.move_ns = 2 * 2500000000ull;
	world.mc->lower.io.post_send = no_room;
	begun_ns = mesh_now_ns();
	err = tracked_drain_ends(h, true, &sync);
	begun_ns = mesh_now_ns() - begun_ns;
	world.mc->lower.io.post_send = post_send;
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
	tracked_prepare(h);
	takes.real = world.rail->context->ops.post_recv;
	takes.n_left = 2;
	world.rail->context->ops.post_recv = take_some;
	assert_int_equal(tracked_drain_ends(h, true, &sync), -ENOMEM);
	assert_int_equal(end_recv(&a, 105, 0, 64), 0);
	world.rail->context->ops.post_recv = takes.real;
	mesh_failover_flush_errors(h);
	for (i = 0; i < 6 + 3; i++) {
		wc = end_wait(&a);
		assert_int_equal(wc.status, sends || wc.wr_id >= 100 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(wc.wr_id, wc.wr_id >= 100 ? 100 + receives++ : sends++);
	}
	end_quiet(&a);
}

/* Who was about to call the lower provider's function when ours were put in. */
static void test_past_us(void **state)
{
	struct ibv_send_wr late = {.wr_id = 4711, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	assert_int_equal(post_one(false), 0);
	tracked_prepare(h);
	assert_int_equal(mesh_failover_drain(h, true, &sync), -EAGAIN);
	/* Behind the sentinels: it is as what was posted before. */
	assert_int_equal(world.mc->lower.io.post_send(a.qp, &late, &bad), 0);
	posted.wrs[1] = late;
	tracked_drain(h, false, &sync);
	check_log(2);
	assert_false(mesh_walker_strayed(h->tracker->walker));
	/* Too late: nothing may overtake it. */
	assert_int_equal(world.mc->lower.io.post_send(a.qp, &late, &bad), 0);
	assert_true(mesh_walker_strayed(h->tracker->walker));
	assert_int_equal(mesh_failover_replay(h, SQ_PSN, 0, 4, NULL), -EPROTO);
	assert_null(mesh_failover_lost(h));
	assert_int_equal(ibv_post_send(a.qp, &late, &bad), 0);
	assert_non_null(mesh_failover_lost(h));
}

/* The peer, which is through, sends what the next one fails by, before we are: what that says is not shown, so we have to. */
static void test_next_one_fails(void **state)
{
	struct mesh_completion c = {.wr_id = 1, .cq = NULL, .status = IBV_WC_LOC_LEN_ERR};
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	tracked_prepare(h);
	assert_int_equal(mesh_failover_drain(h, true, &sync), -EAGAIN);
	tracked_drain(h, false, &sync);
	c.cq = h->recv_cq;
	assert_false(mesh_tracker_completed(h, &c));
	assert_int_equal(mesh_failover_replay(h, SQ_PSN, 0, 4, NULL), -EPROTO);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Keys, the queue of sends that wait, the log's two sides, receives that come while it is drained. */
static unsigned int n_rooms(void)
{
	return !!h->keys.places + !!h->queue.places + !!h->tracker->sends.places + !!h->tracker->receives.places +
	       !!h->tracker->walker->later.places;
}

#define ALL_ROOMS 5u

static void test_room_is_for_moves(void **state)
{
	(void)state;
	connect_a();
	connect_b();
	one_round();
	assert_int_equal(n_rooms(), 0);
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	assert_int_equal(n_rooms(), 0);
	tracked_prepare(h);
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
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	for (failed = 0;; failed++) {
		assert_int_equal(post_one(false), 0);
		/* What was had before is not asked for again, so each time another one fails. */
		fault_arm(FAULT_ALLOC, failed ? 2 : 1, ENOMEM);
		err = mesh_failover_prepare(h, world.spd, &shadow_attr, &qpn);
		fault_disarm();
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(mesh_failover_lost(h));
		assert_false(h->tracker->walker->engaged);
		assert_ptr_equal(world.context->ops.post_send, world.mc->lower.io.post_send);
		assert_null(h->next.shadow.qp);
		assert_true(mesh_failover_armed(h));
	}
	assert_int_equal(failed, ALL_ROOMS);
	tracked_drain(h, true, &sync);
	check_log(failed + 1);
}

static void to_err(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned int i;

	for (i = 0; i < 3; i++)
		assert_int_equal(post_one(true), 0);
	assert_int_equal(world.mc->lower.qp.modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
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
	assert_true(h->tracker->broken);
	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	check_log(3);
	assert_int_equal(h->tracker->receives.n_left, 1);
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
	assert_non_null(mesh_failover_lost(h));
	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &qpn), -EOPNOTSUPP);
}

/* A log that does not have what was withheld is of no use to anybody. */
static void test_log_is_short(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	to_err();
	end_quiet(&a);
	mv_wrring_undo(&h->tracker->sends, 1);
	tracked_prepare(h);
	assert_int_equal(tracked_drain_ends(h, true, &sync), -EOPNOTSUPP);
	assert_non_null(mesh_failover_lost(h));
}

/* Then the program gets all, each once: what the drain flushed, and what was posted since that began. */
static void test_log_is_short_of_receives(void **state)
{
	struct mv_move_sync sync;
	unsigned int i, seen = 0;
	struct ibv_wc wc;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	connect_a();
	to_err();
	end_quiet(&a);
	mv_wrring_undo(&h->tracker->sends, 1);
	tracked_prepare(h);
	assert_int_equal(mesh_failover_drain(h, true, &sync), -EAGAIN);
	for (; i < 5; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	assert_int_equal(tracked_drain_ends(h, false, &sync), -EOPNOTSUPP);
	mesh_failover_flush_errors(h);
	for (i = 0; i < 3 + 5; i++) {
		wc = end_wait(&a);
		assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id < 100 || wc.wr_id >= 105)
			continue;
		assert_false(seen & 1u << (wc.wr_id - 100));
		seen |= 1u << (wc.wr_id - 100);
	}
	assert_int_equal(seen, 31);
	end_quiet(&a);
}

static int no_query(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp;
	(void)attr;
	(void)mask;
	(void)init;
	return EIO;
}

/* The same where the NIC does not say any more what was executed. */
static void test_psn_cannot_be_read(void **state)
{
	struct mv_move_sync sync;
	unsigned int i, seen = 0;
	query_qp_fn query_qp;
	struct ibv_wc wc;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	connect_a();
	tracked_prepare(h);
	assert_int_equal(mesh_failover_drain(h, true, &sync), -EAGAIN);
	for (; i < 5; i++)
		assert_int_equal(end_recv(&a, 100 + i, 64 * i, 64), 0);
	query_qp = world.mc->lower.qp.query_qp;
	world.mc->lower.qp.query_qp = no_query;
	assert_int_equal(tracked_drain_ends(h, false, &sync), -EIO);
	world.mc->lower.qp.query_qp = query_qp;
	mesh_failover_flush_errors(h);
	for (i = 0; i < 5; i++) {
		wc = end_wait(&a);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_in_range(wc.wr_id, 100, 104);
		assert_false(seen & 1u << (wc.wr_id - 100));
		seen |= 1u << (wc.wr_id - 100);
	}
	end_quiet(&a);
}

/*
 * What the program changes in RTS: of the QP that does the work, and when that is drained, of the next one, which it
 * does not know.
 */
static void test_changed(void **state)
{
	struct ibv_qp_attr none = {.qp_access_flags = 0}, reads = {.qp_access_flags = IBV_ACCESS_REMOTE_READ}, next_rts = reading_rts(SQ_PSN);
	struct ibv_qp_attr next_rtr = world_rtr(&world, true, 0, RQ_PSN);
	query_qp_fn query_qp = mesh_root.lib.verbs.query_qp;
	struct mv_move_sync sync;

	(void)state;
	connect_a();
	assert_int_equal(mesh_vqp_modify(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, a.qp), 0);
	next_rtr.dest_qp_num = tracked_prepare(h);
	assert_int_equal(mesh_failover_change(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, h->next.shadow.qp), 0);
	assert_int_equal(mesh_failover_connect(h, &next_rtr, RTR_MASK, &next_rts, RTS_MASK), 0);
	tracked_drain(h, true, &sync);
	assert_int_equal(mesh_vqp_modify(h, &reads, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(mesh_failover_change(h, &reads, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, h->next.shadow.qp), IBV_ACCESS_REMOTE_READ);
	/* A further one: what does the work now is ours. */
	assert_int_equal(mesh_failover_replay(h, SQ_PSN, 0, 4, NULL), 0);
	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	assert_int_equal(mesh_vqp_modify(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(mesh_failover_change(h, &none, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(remote_access(query_qp, h->next.shadow.qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, reading_setup, reading_teardown)
		T(test_posting_is_the_lower_providers), T(test_count), T(test_outstanding), T(test_receives_only),
		T(test_receives_until_connected), T(test_next_one_fails), T(test_next_one_is_full), T(test_past_us),
		T(test_room_is_for_moves), T(test_no_room_for_a_move), T(test_errors_come_first), T(test_no_room_for_errors),
		T(test_under_way), T(test_under_way_beside_sends), T(test_receive_fails), T(test_not_flushed), T(test_changed),
		T(test_log_is_short),
		T(test_log_is_short_of_receives),
		T(test_psn_cannot_be_read),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	reading_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
