// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Errors that are withheld from the program and given back, and receives of an SRQ that fail. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "srq.h"
#include "vqp_failover.h"
#include "vqp_int.h"

static unsigned int n_path_failed;

static void path_failed(void *arg)
{
	(void)arg;
	n_path_failed++;
}

static const struct mesh_vqp_ops withheld_ops = {.path_failed = path_failed};

struct withheld_world {
	struct ibv_cq ibv[2];
	struct ibv_qp qp;
	struct mesh_cq send_cq, recv_cq;
	struct mesh_context mc;
	struct mesh_vqp h;
};

static void init_cq(struct mesh_cq *cq, struct ibv_cq *ibv)
{
	cq->cq = ibv;
	mesh_lock_init(&cq->poll_lock);
	mesh_lock_init(&cq->lock);
	mesh_lock_init(&cq->notify.lock);
}

/* What is polled is said by the test: the provider has nothing. */
static int nothing(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	return 0;
}

/* A tracked QP that can send. */
static struct withheld_world *withheld_begin_as(bool shared)
{
	const struct ibv_qp_cap limits = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct withheld_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	init_cq(&w->send_cq, &w->ibv[0]);
	init_cq(&w->recv_cq, &w->ibv[1]);
	w->send_cq.mc = w->recv_cq.mc = &w->mc;
	w->mc.lower.io.poll_cq = nothing;
	mesh_lock_init(&w->mc.data.last_wqe.lock);
	w->qp.qp_num = 7;
	w->h = (struct mesh_vqp){.mc = &w->mc,
				 .qp = &w->qp,
				 .mode = MESH_VQP_TRACKED,
				 .client.ops = &withheld_ops,
				 .made.cap = limits,
				 .send_cq = &w->send_cq,
				 .recv_cq = &w->recv_cq,
				 .tracker = mesh_tracker_new(&limits, false, shared)};
	assert_non_null(w->h.tracker);
	assert_int_equal(mesh_tracker_room(w->h.tracker, &limits), 0);
	mesh_lock_init(&w->h.lock);
	mesh_lock_init(&w->h.posting.lock);
	mesh_tracker_rtr(w->h.tracker, 1024);
	mesh_tracker_rts(w->h.tracker, 0);
	n_path_failed = 0;
	return w;
}

static struct withheld_world *withheld_begin(void)
{
	return withheld_begin_as(false);
}

static void withheld_end(struct withheld_world *w)
{
	mesh_tracker_free(w->h.tracker);
	free(w->send_cq.sw_cq.wcs);
	free(w->recv_cq.sw_cq.wcs);
	free(w);
}

/* Whether the program is shown it. */
static bool withheld_poll(struct withheld_world *w, struct mesh_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct mesh_completion c = {.wr_id = wr_id, .cq = cq, .status = status};
	bool show;

	mesh_lock(&cq->lock);
	show = mesh_tracker_completed(&w->h, &c);
	mesh_unlock(&cq->lock);
	return show;
}

static void assert_sw_cq(const struct mesh_cq *cq, uint64_t first, size_t n)
{
	size_t i;

	assert_int_equal(cq->sw_cq.n, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(cq->sw_cq.wcs[i].wr_id, first + i);
		assert_int_equal(cq->sw_cq.wcs[i].status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(cq->sw_cq.wcs[i].qp_num, 7);
	}
}

/* The helper gives them back while the program is in the middle of what it has polled. */
static void test_errors_keep_their_order(void **state)
{
	struct withheld_world *w = withheld_begin();

	(void)state;
	assert_false(withheld_poll(w, &w->recv_cq, 1, IBV_WC_WR_FLUSH_ERR));
	assert_false(withheld_poll(w, &w->recv_cq, 2, IBV_WC_WR_FLUSH_ERR));
	assert_int_equal(n_path_failed, 1);
	mesh_failover_flush_errors(&w->h);
	assert_false(withheld_poll(w, &w->recv_cq, 3, IBV_WC_WR_FLUSH_ERR));
	assert_sw_cq(&w->recv_cq, 1, 3);
	mesh_sw_cq_remove(&w->recv_cq, 3);
	assert_true(withheld_poll(w, &w->recv_cq, 4, IBV_WC_WR_FLUSH_ERR));
	assert_int_equal(w->send_cq.sw_cq.n, 0);
	withheld_end(w);
}

/* What failed is polled after some of what it flushed, and no other path would help. */
static void test_errors_of_another_kind(void **state)
{
	struct withheld_world *w = withheld_begin();

	(void)state;
	assert_false(withheld_poll(w, &w->recv_cq, 1, IBV_WC_WR_FLUSH_ERR));
	assert_true(withheld_poll(w, &w->send_cq, 9, IBV_WC_REM_ACCESS_ERR));
	assert_false(withheld_poll(w, &w->recv_cq, 2, IBV_WC_WR_FLUSH_ERR));
	mesh_failover_flush_errors(&w->h);
	assert_sw_cq(&w->recv_cq, 1, 2);
	withheld_end(w);
}

/* Its send queue was full, and one receive of the SRQ was being filled. */
static void test_errors_with_srq(void **state)
{
	struct withheld_world *w = withheld_begin_as(true);
	unsigned int i;

	(void)state;
	w->h.mode = MESH_VQP_DRAINING;
	assert_false(withheld_poll(w, &w->recv_cq, 100, IBV_WC_WR_FLUSH_ERR));
	for (i = 0; i < 4; i++)
		assert_false(withheld_poll(w, &w->send_cq, i, IBV_WC_WR_FLUSH_ERR));
	assert_null(w->h.tracker->lost);
	withheld_end(w);
}

/* ---- receives of an SRQ that fail -------------------------------------------------------------------------------- */

/* Receive 100 is at the lower provider, whose QP @w is; nobody takes what is distributed. */
struct shared_world {
	struct withheld_world *w;
	struct mesh_srq m;
	struct mesh_cq_qp qp;
};

static struct shared_world *shared_begin(enum mesh_vqp_mode mode, bool one_cq)
{
	struct shared_world *s = calloc(1, sizeof(*s));
	struct ibv_sge sge = {.addr = 4096, .length = 64};

	assert_non_null(s);
	s->w = withheld_begin_as(true);
	s->m = (struct mesh_srq){.mc = &s->w->mc, .max_wr = 4, .max_sge = 1, .split = true, .lower.owner = &s->m};
	mesh_lock_init(&s->m.lock);
	assert_int_equal(mesh_srqlog_init(&s->m.lower.log, 4, 1), 0);
	assert_int_equal(mesh_srqlog_init(&s->m.begun, 4, 1), 0);
	assert_int_equal(mesh_srqlog_init(&s->m.pool, 4, 1), 0);
	mesh_srqlog_push(&s->m.lower.log, 100, &sge, 1);
	s->w->h.srq = &s->m;
	s->w->h.mode = mode;
	if (one_cq)
		s->w->h.recv_cq = &s->w->send_cq;
	s->w->h.tracker->begun = mesh_srq_place(&s->m);
	assert_non_null(s->w->h.tracker->begun);
	s->qp = (struct mesh_cq_qp){.key = 7, .qpn = 7, .vqp = &s->w->h, .rail_srq = &s->m.lower};
	return s;
}

static void shared_end(struct shared_world *s)
{
	withheld_end(s->w);
	mesh_srqlog_fini(&s->m.lower.log);
	mesh_srqlog_fini(&s->m.begun);
	mesh_srqlog_fini(&s->m.pool);
	free(s);
}

static bool shared_poll_as(struct shared_world *s, struct mesh_cq *cq, uint64_t wr_id, enum ibv_wc_status status, bool is_known)
{
	struct mesh_completion c = {.wr_id = wr_id, .cq = cq, .status = status, .failed_receive = is_known};
	bool show;

	mesh_lock(&cq->lock);
	show = mesh_poll_noticed(&s->qp, &c);
	mesh_unlock(&cq->lock);
	return show;
}

static bool shared_poll(struct shared_world *s, struct mesh_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	return shared_poll_as(s, cq, wr_id, status, false);
}

static void assert_where(const struct shared_world *s, uint32_t n_lower, uint32_t n_withheld, uint32_t n_pool)
{
	assert_int_equal(s->m.lower.log.n_left, n_lower);
	assert_int_equal(s->m.n_withheld, n_withheld);
	assert_int_equal(s->m.pool.n_left, n_pool);
}

/* A CQ for nothing but receives. What becomes of one that is withheld depends on whether the program is told of it. */
static void test_withheld_of_srq(void **state)
{
	static const struct {
		enum mesh_vqp_mode polled_in, ends_in;
		uint32_t n_pool;
	} ends[] = {{MESH_VQP_DRAINING, MESH_VQP_DRAINING, 0},
		    {MESH_VQP_TRACKED, MESH_VQP_TRACKED, 0},
		    {MESH_VQP_DRAINING, MESH_VQP_DRAINED, 1},
		    {MESH_VQP_DRAINED, MESH_VQP_DRAINED, 1}};
	struct shared_world *s;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		s = shared_begin(ends[i].polled_in, false);
		if (ends[i].polled_in == MESH_VQP_DRAINED)
			s->qp.key++; /* that comes next: this one has been drained */
		assert_false(shared_poll(s, &s->w->recv_cq, 100, IBV_WC_WR_FLUSH_ERR));
		assert_where(s, 0, 1, 0);
		s->w->h.mode = ends[i].ends_in;
		mesh_failover_flush_errors(&s->w->h);
		assert_where(s, 0, 0, ends[i].n_pool);
		assert_int_equal(s->w->recv_cq.sw_cq.n, !ends[i].n_pool);
		if (ends[i].n_pool) {
			assert_int_equal(mesh_srqlog_first(&s->m.pool)->wr_id, 100);
			assert_int_equal(mesh_srqlog_first(&s->m.pool)->num_sge, 1);
			assert_true(mesh_srqlog_first(&s->m.pool)->sges[0].addr == 4096);
		}
		shared_end(s);
	}
}

/* What a QP flushes after its drain is nobody's, and goes back at once; what it has received is the program's. */
static void test_late_of_srq(void **state)
{
	struct ibv_qp next = {.qp_num = 8};
	struct shared_world *s = shared_begin(MESH_VQP_DRAINED, true);

	(void)state;
	assert_false(shared_poll(s, &s->w->send_cq, 100, IBV_WC_WR_FLUSH_ERR));
	assert_where(s, 0, 0, 1);
	shared_end(s);
	s = shared_begin(MESH_VQP_ACTIVE, true);
	s->w->h.now.qp = &next;
	assert_false(shared_poll(s, &s->w->send_cq, 100, IBV_WC_WR_FLUSH_ERR));
	assert_where(s, 0, 0, 1);
	assert_true(shared_poll(s, &s->w->send_cq, 101, IBV_WC_SUCCESS));
	assert_null(s->w->h.tracker->lost);
	s->w->h.now.qp = NULL;
	shared_end(s);
}

/* What nobody is told of stays; what the program is told of goes, also behind what it has not been told yet. */
static void test_errors_of_srq(void **state)
{
	struct shared_world *s = shared_begin(MESH_VQP_QUEUING, false);

	(void)state;
	shared_poll(s, &s->w->recv_cq, 100, IBV_WC_WR_FLUSH_ERR);
	assert_where(s, 1, 0, 0);
	s->w->h.mode = MESH_VQP_TRACKED;
	assert_true(shared_poll(s, &s->w->send_cq, 100, IBV_WC_REM_ACCESS_ERR));
	assert_where(s, 1, 0, 0);
	shared_end(s);
	s = shared_begin(MESH_VQP_TRACKED, false);
	assert_true(shared_poll(s, &s->w->recv_cq, 100, IBV_WC_LOC_LEN_ERR));
	assert_where(s, 0, 0, 0);
	shared_end(s);
	s = shared_begin(MESH_VQP_DRAINING, false);
	assert_false(shared_poll(s, &s->w->recv_cq, 99, IBV_WC_WR_FLUSH_ERR));
	mesh_failover_flush_errors(&s->w->h);
	assert_false(shared_poll(s, &s->w->recv_cq, 100, IBV_WC_WR_FLUSH_ERR));
	assert_int_equal(s->w->recv_cq.sw_cq.n, 2);
	assert_where(s, 0, 0, 0);
	shared_end(s);
}

/* One CQ: what is no send that is outstanding is a receive, unless there may be sends that are not known. */
static void test_errors_in_one_cq(void **state)
{
	struct ibv_send_wr wr = {.wr_id = 100, .opcode = IBV_WR_SEND};
	struct shared_world *s = shared_begin(MESH_VQP_DRAINING, true);

	(void)state;
	assert_int_equal(mesh_tracker_send(s->w->h.tracker, &wr), 0);
	assert_false(shared_poll(s, &s->w->send_cq, 100, IBV_WC_WR_FLUSH_ERR));
	assert_where(s, 1, 0, 0);
	mv_wrring_undo(&s->w->h.tracker->sends, 1);
	s->w->h.tracker->unlogged = true;
	assert_false(shared_poll(s, &s->w->send_cq, 100, IBV_WC_WR_FLUSH_ERR));
	assert_where(s, 1, 0, 0);
	s->w->h.tracker->unlogged = false;
	assert_false(shared_poll(s, &s->w->send_cq, 100, IBV_WC_WR_FLUSH_ERR));
	assert_where(s, 0, 1, 0);
	/* There is place for one. */
	mesh_srqlog_push(&s->m.lower.log, 101, NULL, 0);
	assert_false(shared_poll(s, &s->w->send_cq, 101, IBV_WC_WR_FLUSH_ERR));
	assert_where(s, 1, 1, 0);
	shared_end(s);
}

/*
 * Who looked at the completion knows; so of a QP that has no log, and of what the lower provider's SRQ did not have
 * when it was first emptied.
 */
static void test_errors_that_were_read(void **state)
{
	struct shared_world *s = shared_begin(MESH_VQP_TRACKED, true);
	struct ibv_sge old = {.addr = 8192}, sge = {.addr = 12288};

	(void)state;
	s->qp.vqp = NULL;
	assert_true(shared_poll_as(s, &s->w->send_cq, 100, IBV_WC_LOC_LEN_ERR, false));
	assert_where(s, 1, 0, 0);
	assert_true(shared_poll_as(s, &s->w->send_cq, 100, IBV_WC_LOC_LEN_ERR, true));
	assert_where(s, 0, 0, 0);
	s->qp.vqp = &s->w->h;
	mesh_srqlog_push(&s->m.begun, 101, &old, 1);
	mesh_srqlog_push(&s->m.begun, 101, &sge, 1);
	assert_false(shared_poll_as(s, &s->w->send_cq, 101, IBV_WC_WR_FLUSH_ERR, true));
	assert_where(s, 0, 1, 0);
	assert_true(s->w->h.tracker->begun->sges[0].addr == 12288);
	shared_end(s);
}

static struct {
	unsigned int n;
	int err;
} lower_posts;

static int lower_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	assert_int_equal(wr->wr_id, 100);
	assert_true(wr->sg_list->addr == 4096);
	*bad = wr;
	lower_posts.n++;
	return lower_posts.err;
}

/* Before anything was moved: the lower provider's SRQ has all, and if that takes no more, who moves first does. */
static void test_withheld_before_moves(void **state)
{
	struct shared_world *s;
	struct ibv_sge sge;

	(void)state;
	lower_posts.n = 0;
	for (lower_posts.err = 0; lower_posts.err <= ENOMEM; lower_posts.err += ENOMEM) {
		s = shared_begin(MESH_VQP_TRACKED, false);
		s->m.split = false;
		s->m.sges = &sge;
		s->w->mc.lower.io.post_srq_recv = lower_post;
		assert_false(shared_poll(s, &s->w->recv_cq, 100, IBV_WC_WR_FLUSH_ERR));
		assert_where(s, 0, 1, 0);
		mesh_srq_end_withheld(&s->m, s->w->h.tracker->begun, false);
		assert_where(s, !lower_posts.err, 0, !!lower_posts.err);
		shared_end(s);
	}
	assert_int_equal(lower_posts.n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_keep_their_order),
		cmocka_unit_test(test_errors_of_another_kind),
		cmocka_unit_test(test_errors_with_srq),
		cmocka_unit_test(test_withheld_of_srq),
		cmocka_unit_test(test_late_of_srq),
		cmocka_unit_test(test_errors_of_srq),
		cmocka_unit_test(test_errors_in_one_cq),
		cmocka_unit_test(test_errors_that_were_read),
		cmocka_unit_test(test_withheld_before_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
