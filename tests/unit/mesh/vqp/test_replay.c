// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What becomes of the work of a drained queue pair: every signaled work request completes once, in its turn, from the
 * software CQ or on the queue pair that comes next. That one is made up here, and keeps what is posted to it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "vqp_failover.h"
#include "vqp_int.h"

#define QPN       7u
#define FIRST_PSN 0xfffffeu /* wraps */
#define MAX_WR    16u

static struct {
	uint64_t wr_ids[MAX_WR];
	enum ibv_wr_opcode opcodes[MAX_WR];
	unsigned int send_flags[MAX_WR];
	unsigned int n;
} posted;

int __wrap_usleep(useconds_t us);

static unsigned int n_naps;

int __wrap_usleep(useconds_t us)
{
	(void)us;
	n_naps++;
	return 0;
}

static int keep_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	assert_null(wr->next);
	assert_true(posted.n < MAX_WR);
	posted.wr_ids[posted.n] = wr->wr_id;
	posted.send_flags[posted.n] = wr->send_flags;
	posted.opcodes[posted.n++] = wr->opcode;
	return 0;
}

/* Every key is the same on the other rail. */
static int same_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	*ret = rkey;
	return 0;
}

static const struct mesh_vqp_ops ops = {.want_key = same_key};

struct drained {
	struct mesh_cq cq;
	struct ibv_cq ibv;
	struct ibv_context next_device;
	struct ibv_qp qp, next;
	struct ibv_pd dummy_pd;
	struct ibv_mr dummy;
	struct mesh_pd spd;
	struct mesh_context mc;
	struct mesh_vqp h;
};

static int setup(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = MAX_WR, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	struct drained *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	memset(&posted, 0, sizeof(posted));
	f->cq.cq = &f->ibv;
	mesh_lock_init(&f->cq.poll_lock);
	mesh_lock_init(&f->cq.lock);
	mesh_lock_init(&f->cq.notify.lock);
	f->qp = (struct ibv_qp){.qp_num = QPN, .state = IBV_QPS_RTS};
	f->next_device.ops.post_send = keep_post;
	f->next = (struct ibv_qp){.context = &f->next_device, .qp_num = QPN + 1};
	f->spd.dummy = &f->dummy;
	f->h = (struct mesh_vqp){.mc = &f->mc,
				 .qp = &f->qp,
				 .mode = MESH_VQP_DRAINED,
				 .client.ops = &ops,
				 .made.cap = cap,
				 .send_cq = &f->cq,
				 .recv_cq = &f->cq,
				 .tracker = mesh_tracker_new(&cap, false, false),
				 .next.shadow = {.qp = &f->next, .spd = &f->spd, .rts = true},
				 .next.mtu_bytes = 1024};
	assert_non_null(f->h.tracker);
	assert_int_equal(mesh_vqp_room(&f->h), 0);
	f->h.keys.sges = calloc(1, sizeof(*f->h.keys.sges));
	mesh_lock_init(&f->h.lock);
	mesh_lock_init(&f->h.posting.lock);
	mesh_tracker_rtr(f->h.tracker, 1024);
	mesh_tracker_rts(f->h.tracker, FIRST_PSN);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct drained *f = *state;

	mesh_tracker_free(f->h.tracker);
	mesh_sendq_fini(&f->h.queue);
	free(f->h.keys.places);
	free(f->h.keys.sges);
	free(f->cq.sw_cq.wcs);
	free(f);
	return 0;
}

/* One of a single packet that was posted before the drain, and not completed. */
static void was_posted(struct drained *f, uint64_t wr_id, enum ibv_wr_opcode opcode, bool signaled)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = opcode, .send_flags = signaled ? IBV_SEND_SIGNALED : 0u};

	assert_int_equal(mesh_tracker_send(f->h.tracker, &wr), 0);
}

/* The last @n were flushed; the peer has executed the first @executed ones, of which @received consumed a receive. */
static void replay(struct drained *f, uint32_t n_flushed, uint32_t executed, uint32_t received)
{
	f->h.tracker->n_undone = n_flushed;
	assert_int_equal(mesh_failover_replay(&f->h, (FIRST_PSN + executed) & 0xffffff, received, 4, NULL), 0);
	assert_int_equal(f->h.mode, MESH_VQP_ACTIVE);
}

static void assert_completed(const struct drained *f, size_t at, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	assert_true(f->cq.sw_cq.n > at);
	assert_int_equal(f->cq.sw_cq.wcs[at].wr_id, wr_id);
	assert_int_equal(f->cq.sw_cq.wcs[at].status, IBV_WC_SUCCESS);
	assert_int_equal(f->cq.sw_cq.wcs[at].opcode, opcode);
	assert_int_equal(f->cq.sw_cq.wcs[at].qp_num, QPN);
}

static void assert_posted(unsigned int at, uint64_t wr_id, enum ibv_wr_opcode opcode)
{
	assert_true(posted.n > at);
	assert_int_equal(posted.wr_ids[at], wr_id);
	assert_int_equal(posted.opcodes[at], opcode);
}

static void test_done_and_not(void **state)
{
	struct drained *f = *state;

	was_posted(f, 1, IBV_WR_SEND, true);
	was_posted(f, 2, IBV_WR_SEND, false);
	was_posted(f, 3, IBV_WR_SEND, true);
	was_posted(f, 4, IBV_WR_SEND, true);
	replay(f, 4, 3, 3);
	assert_int_equal(f->cq.sw_cq.n, 2);
	assert_completed(f, 0, 1, IBV_WC_SEND);
	assert_completed(f, 1, 3, IBV_WC_SEND);
	assert_int_equal(posted.n, 1);
	assert_posted(0, 4, IBV_WR_SEND);
}

/* What was done behind a READ that is repeated waits for it. */
static void test_done_behind_a_read(void **state)
{
	struct drained *f = *state;

	was_posted(f, 1, IBV_WR_RDMA_READ, true);
	was_posted(f, 2, IBV_WR_SEND, true);
	was_posted(f, 3, IBV_WR_SEND, true);
	replay(f, 3, 2, 1);
	assert_int_equal(f->cq.sw_cq.n, 0);
	assert_int_equal(posted.n, 3);
	assert_posted(0, 1, IBV_WR_RDMA_READ);
	assert_posted(1, 2, IBV_WR_RDMA_READ); /* holds its place */
	assert_posted(2, 3, IBV_WR_SEND);
}

/* mlx5 has as many READs outstanding as the next power of two says, not three. */
static void test_no_result_is_supposed(void **state)
{
	struct drained *f = *state;

	for (uint64_t i = 1; i <= 4; i++)
		was_posted(f, i, IBV_WR_RDMA_READ, true);
	f->h.tracker->n_undone = 4;
	assert_int_equal(mesh_failover_replay(&f->h, (FIRST_PSN + 4) & 0xffffff, 0, 3, NULL), 0);
	assert_int_equal(f->cq.sw_cq.n, 0);
	assert_int_equal(posted.n, 4);
}

/* One that was not flushed is done, signaled or not, and its result is there. */
static void test_done_behind_an_atomic(void **state)
{
	struct drained *f = *state;

	was_posted(f, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, false);
	was_posted(f, 84, IBV_WR_SEND, true);
	was_posted(f, 85, IBV_WR_SEND, true);
	replay(f, 2, 2, 1);
	assert_null(f->h.tracker->lost_atomic);
	assert_int_equal(f->cq.sw_cq.n, 1);
	assert_completed(f, 0, 84, IBV_WC_SEND);
	assert_int_equal(posted.n, 1);
	assert_posted(0, 85, IBV_WR_SEND);
}

/* One whose result is lost fails in its turn, and what was done behind it comes after it. */
static void test_done_behind_a_lost_atomic(void **state)
{
	struct drained *f = *state;

	was_posted(f, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, false);
	was_posted(f, 84, IBV_WR_SEND, true);
	replay(f, 2, 2, 1);
	assert_non_null(f->h.tracker->lost_atomic);
	assert_int_equal(f->cq.sw_cq.n, 0);
	assert_int_equal(posted.n, 2);
	assert_posted(0, 1, IBV_WR_RDMA_WRITE); /* which the device will not have */
	assert_posted(1, 84, IBV_WR_RDMA_READ);
}

static struct mesh_completion polled(struct drained *f, uint64_t wr_id, enum ibv_wc_status status)
{
	struct mesh_completion c = {.wr_id = wr_id, .cq = &f->cq, .status = status};

	assert_true(mesh_tracker_completed(&f->h, &c));
	return c;
}

/* What came before it is as it was; then it fails as one does whose path is gone. */
static void test_done_before_a_lost_atomic(void **state)
{
	struct drained *f = *state;
	struct mesh_completion c;

	was_posted(f, 1, IBV_WR_RDMA_READ, true);
	was_posted(f, 2, IBV_WR_RDMA_WRITE, true);
	was_posted(f, 3, IBV_WR_SEND, true);
	was_posted(f, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, true);
	replay(f, 4, 4, 1);
	assert_non_null(f->h.tracker->lost_atomic);
	assert_int_equal(posted.n, 3);
	assert_posted(1, 2, IBV_WR_RDMA_READ); /* holds its place */
	c = polled(f, 1, IBV_WC_SUCCESS);
	assert_null(c.opcode);
	c = polled(f, 2, IBV_WC_SUCCESS);
	assert_non_null(c.opcode);
	assert_int_equal(*c.opcode, IBV_WC_RDMA_WRITE);
	c = polled(f, 3, IBV_WC_SUCCESS);
	assert_non_null(c.opcode);
	assert_int_equal(*c.opcode, IBV_WC_SEND);
	mesh_post_drain(&f->h);
	assert_int_equal(posted.n, 4);
	assert_posted(3, 4, IBV_WR_RDMA_WRITE);
	c = polled(f, 99, IBV_WC_WR_FLUSH_ERR); /* a receive, from another CQ */
	assert_null(c.opcode);
	c = polled(f, 4, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(c.status, IBV_WC_RETRY_EXC_ERR);
	assert_ptr_equal(f->h.tracker->lost, f->h.tracker->lost_atomic);
}

/* Its place is not posted while a READ before it may have to be repeated. The program has not asked when that is; we have to know. */
static void test_lost_atomic_waits(void **state)
{
	struct drained *f = *state;
	struct mesh_completion c = {.wr_id = 1, .cq = &f->cq, .status = IBV_WC_SUCCESS};
	struct mesh_cq_qp qp = {.vqp = &f->h};

	was_posted(f, 1, IBV_WR_RDMA_READ, false);
	was_posted(f, 1, IBV_WR_RDMA_READ, false);
	was_posted(f, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, true);
	was_posted(f, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, true);
	replay(f, 4, 4, 0);
	assert_int_equal(posted.n, 2);
	assert_int_equal(posted.send_flags[0], 0);
	assert_int_equal(posted.send_flags[1], IBV_SEND_SIGNALED);
	assert_false(mesh_poll_noticed(&qp, &c));
	assert_int_equal(posted.n, 3);
	assert_posted(2, 2, IBV_WR_RDMA_WRITE);
	/* The other one is flushed behind it. */
	c = (struct mesh_completion){.wr_id = 2, .cq = &f->cq, .status = IBV_WC_LOC_PROT_ERR};
	assert_true(mesh_poll_noticed(&qp, &c));
	assert_int_equal(c.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(posted.n, 4);
	assert_posted(3, 3, IBV_WR_RDMA_WRITE);
	assert_int_equal(f->h.queue.n, 0);
}

/* That the peer's program has ended changes nothing of that: what is before it has yet to fail. */
static void test_lost_atomic_of_one_that_is_left(void **state)
{
	struct drained *f = *state;
	struct mesh_completion c = {.wr_id = 1, .cq = &f->cq, .status = IBV_WC_RETRY_EXC_ERR};
	struct mesh_cq_qp qp = {.vqp = &f->h};

	was_posted(f, 1, IBV_WR_RDMA_READ, true);
	was_posted(f, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, true);
	replay(f, 2, 2, 0);
	mesh_failover_end_of_peer(&f->h);
	mesh_post_drain(&f->h);
	assert_int_equal(posted.n, 1);
	assert_true(mesh_poll_noticed(&qp, &c));
	assert_int_equal(posted.n, 2);
	assert_posted(1, 2, IBV_WR_RDMA_WRITE);
}

/* Whoever fails meanwhile waits for nothing. */
static void test_lost_atomic_of_one_that_fails(void **state)
{
	struct drained *f = *state;

	was_posted(f, 1, IBV_WR_RDMA_READ, true);
	was_posted(f, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, true);
	replay(f, 2, 2, 0);
	assert_int_equal(posted.n, 1);
	f->h.tracker->lost = "it failed";
	f->h.mode = MESH_VQP_FLUSHING;
	mesh_post_drain(&f->h);
	assert_int_equal(posted.n, 2);
	assert_posted(1, 2, IBV_WR_RDMA_WRITE);
}

static void assert_failed(const struct drained *f, size_t at, uint64_t wr_id, enum ibv_wc_status status)
{
	assert_true(f->cq.sw_cq.n > at);
	assert_int_equal(f->cq.sw_cq.wcs[at].wr_id, wr_id);
	assert_int_equal(f->cq.sw_cq.wcs[at].status, status);
}

/* When the move fails, the first error names the cause, as without us. */
static void test_errors(void **state)
{
	struct drained *f = *state;

	f->h.next.shadow = (struct mesh_shadow){0};
	was_posted(f, 84, IBV_WR_SEND, true);
	was_posted(f, 85, IBV_WR_SEND, false);
	f->h.tracker->n_undone = 2;
	mesh_failover_flush_errors(&f->h);
	assert_int_equal(f->cq.sw_cq.n, 2);
	assert_failed(f, 0, 84, IBV_WC_RETRY_EXC_ERR);
	assert_failed(f, 1, 85, IBV_WC_WR_FLUSH_ERR);
}

/* However often a connection moves, it does not need more and more memory. */
static void test_many_moves(void **state)
{
	struct drained *f = *state;
	const struct mesh_shadow next = f->h.next.shadow;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		mesh_tracker_rts(f->h.tracker, FIRST_PSN);
		was_posted(f, 1, IBV_WR_SEND, true);
		was_posted(f, 2, IBV_WR_SEND, true);
		posted.n = 0;
		replay(f, 2, 1, 1);
		assert_completed(f, 0, 1, IBV_WC_SEND);
		assert_int_equal(posted.n, 1);
		assert_true(f->h.queue.size <= 2 * MAX_WR);
		assert_true(f->cq.sw_cq.size <= 4 * MAX_WR);
		mesh_sw_cq_remove(&f->cq, f->cq.sw_cq.n);
		f->h.now = f->h.old = (struct mesh_shadow){0};
		f->h.next.shadow = next;
		f->h.mode = MESH_VQP_DRAINED;
	}
}

/* What waits is the more the longer a move takes; all of it comes, in order. */
static void test_full_queue(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct drained *f = *state;
	unsigned int i;

	for (i = 0; i < MAX_WR; i++)
		was_posted(f, i, IBV_WR_SEND, true);
	for (i = 0; i < MAX_WR; i++) {
		wr.wr_id = MAX_WR + i;
		assert_int_equal(mesh_sendq_push(&f->h.queue, &wr), 0);
	}
	replay(f, MAX_WR, 0, 0);
	assert_int_equal(posted.n, MAX_WR); /* the log has room for no more */
	assert_int_equal(f->h.queue.n, MAX_WR);
	for (i = 0; i < MAX_WR; i++) {
		assert_posted(i, i, IBV_WR_SEND);
		assert_int_equal(mesh_sendq_place(&f->h.queue, i)->wr.wr_id, MAX_WR + i);
	}
}

/* The helper thread looks for what was posted for us alone, and does not wait for a program that polls. */
static void test_who_polls_is_not_waited_for(void **state)
{
	struct drained *f = *state;

	n_naps = 0;
	mesh_lock(&f->cq.poll_lock);
	mesh_shadow_collect_sends(&f->h);
	mesh_unlock(&f->cq.poll_lock);
	assert_int_equal(n_naps, 0);
}

/* A queue pair that cannot be moved is not kept from posting. */
static void test_lost_is_not_quiet(void **state)
{
	struct drained *f = *state;

	f->h.mode = MESH_VQP_TRACKED;
	f->h.tracker->lost = "a reason";
	assert_true(mesh_failover_quiesce(&f->h));
	assert_int_equal(f->h.paused.quiet, MESH_QUIET_NO);
	f->h.tracker->lost = NULL;
	assert_true(mesh_failover_quiesce(&f->h));
	assert_int_equal(f->h.paused.quiet, MESH_QUIET_YES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_done_and_not),
		T(test_done_behind_a_read),
		T(test_no_result_is_supposed),
		T(test_done_behind_an_atomic),
		T(test_done_behind_a_lost_atomic),
		T(test_done_before_a_lost_atomic),
		T(test_lost_atomic_waits),
		T(test_lost_atomic_of_one_that_is_left),
		T(test_lost_atomic_of_one_that_fails),
		T(test_errors),
		T(test_many_moves),
		T(test_full_queue),
		T(test_who_polls_is_not_waited_for),
		T(test_lost_is_not_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
