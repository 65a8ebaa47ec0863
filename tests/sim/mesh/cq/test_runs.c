// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completions that are read before libmlx5 consumes them (fastpoll.c), with the distribution's libmlx5: how often it is asked, that
 * it consumes exactly those, and what becomes of the log where it does not. Seeded: TEST_SEED=n
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "reading.h"

#define ROUNDS   300
#define RUN      32 /* of fastpoll.c */
#define N_WRITES 20000u

static int (*lower_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static unsigned int n_polls, n_asked; /* calls of libmlx5, and completions that it was asked for */

static int counting_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	n_polls++;
	n_asked += (unsigned int)n;
	return lower_poll(cq, n, wc);
}

/* In the place of libmlx5's. Nobody polls. */
static void lower_polls_by(int (*poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc))
{
	if (world.context->ops.poll_cq == world.mc->lower.io.poll_cq)
		world.context->ops.poll_cq = poll;
	world.mc->lower.io.poll_cq = poll;
	n_polls = n_asked = 0;
}

static int setup(void **state)
{
	reading_setup(state);
	assert_true(mesh_mlx5_is_lower(world.mc)); /* it is asked once, by where this function is */
	lower_poll = world.mc->lower.io.poll_cq;
	alarm(PATIENCE_S);
	return 0;
}

static int teardown(void **state)
{
	alarm(0);
	lower_polls_by(lower_poll);
	return reading_teardown(state);
}

static void connect_ends(void)
{
	struct ibv_wc wc;

	connect_a();
	connect_b();
	assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0); /* the first time it is found the long way */
	assert_true(h->send_cq->fast);
}

static int write_one(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 64, a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)b.buf, .rkey = b.mr->rkey}},
			   *bad;

	return ibv_post_send(a.qp, &wr, &bad);
}

static void write_some(uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(write_one(i), 0);
	cq_wait_arrived(a.cq, (unsigned int)n);
}

static void check_done(uint32_t n_writes)
{
	assert_null(h->tracker->lost);
	assert_int_equal(h->tracker->sends.first_psn, mv_psn_add(SQ_PSN, n_writes));
}

/* ---- how often libmlx5 is asked ---------------------------------------------------------------------------------- */

static void test_one(void **state)
{
	struct ibv_wc wc[DEPTH];
	uint32_t i;

	(void)state;
	connect_ends();
	lower_polls_by(counting_poll);
	assert_int_equal(ibv_poll_cq(a.cq, DEPTH, wc), 0);
	assert_int_equal(n_polls, 0);
	for (i = 0; i < 3 * DEPTH; i++) {
		assert_int_equal(write_one(i), 0);
		cq_wait_arrived(a.cq, 1);
		assert_int_equal(ibv_poll_cq(a.cq, i % 2 ? 1 : DEPTH, wc), 1);
		assert_int_equal(wc[0].wr_id, i);
		assert_int_equal(n_polls, i + 1);
		assert_int_equal(n_asked, i + 1);
	}
	check_done(i);
}

static void test_many(void **state)
{
	struct ibv_wc wc[DEPTH];
	uint64_t i;

	(void)state;
	connect_ends();
	lower_polls_by(counting_poll);
	write_some(RUN + 8);
	assert_int_equal(ibv_poll_cq(a.cq, 3, wc), 3);
	assert_int_equal(n_polls, 1);
	assert_int_equal(ibv_poll_cq(a.cq, DEPTH, wc + 3), RUN + 5);
	assert_int_equal(n_polls, 3);
	assert_int_equal(n_asked, RUN + 8);
	for (i = 0; i < RUN + 8; i++)
		assert_int_equal(wc[i].wr_id, i);
	check_done(RUN + 8);
	/* As many as a run has: libmlx5 is not asked once more. */
	lower_polls_by(counting_poll);
	write_some(RUN);
	assert_int_equal(ibv_poll_cq(a.cq, DEPTH, wc), RUN);
	assert_int_equal(n_polls, 1);
	check_done(2 * RUN + 8);
}

/* Anything, many times round the queue. */
static void test_any(void **state)
{
	int i;

	(void)state;
	connect_ends();
	lower_polls_by(counting_poll);
	for (i = 0; i < ROUNDS; i++)
		one_round();
	assert_null(h->tracker->lost);
	assert_int_equal(h->tracker->sends.first_psn, posted.psn);
	assert_int_equal(h->tracker->sends.n_sent, posted.consumes);
}

static void test_receives(void **state)
{
	struct ibv_wc wc[DEPTH];
	uint32_t i;

	(void)state;
	connect_ends();
	lower_polls_by(counting_poll);
	for (i = 0; i < 3 * DEPTH; i++) {
		assert_int_equal(end_recv(&a, i, 0, 1000), 0);
		assert_int_equal(end_send_empty(&b, i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
		cq_wait_arrived(a.cq, 1);
		n_polls = 0;
		assert_int_equal(ibv_poll_cq(a.cq, i % 2 ? 1 : DEPTH, wc), 1);
		assert_int_equal(wc[0].wr_id, i);
		assert_int_equal(n_polls, 1);
	}
	assert_int_equal(h->tracker->n_received, i);
	assert_null(h->tracker->lost);
}

/* ---- completions that are not plain ------------------------------------------------------------------------------ */

/* A queue pair that nobody protects, of a's CQ: @n of its receives are flushed. */
static struct ibv_qp *open_other(unsigned int n)
{
	struct ibv_qp_init_attr attr = {.send_cq = a.cq,
					.recv_cq = a.cq,
					.cap = {.max_send_wr = 1, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_recv_wr wr = {.wr_id = ~0ull}, *bad;
	struct ibv_qp *qp = ibv_create_qp(world.pd, &attr);

	assert_non_null(qp);
	assert_int_equal(mesh_own_to_err(world.mc, qp), 0);
	while (n--)
		assert_int_equal(world.mc->lower.io.post_recv(qp, &wr, &bad), 0);
	return qp;
}

/* Who is given fewer than he asked for may take it that there are no more. */
static void test_as_many_as_there_are(void **state)
{
	struct ibv_qp *other;
	struct ibv_wc wc[16];
	int i;

	(void)state;
	connect_ends();
	write_some(2);
	other = open_other(3);
	cq_wait_arrived(a.cq, 5);
	assert_int_equal(write_one(2), 0);
	cq_wait_arrived(a.cq, 6);
	assert_int_equal(ibv_poll_cq(a.cq, 16, wc), 6);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(wc[1].wr_id, 1);
	assert_int_equal(wc[5].wr_id, 2);
	for (i = 2; i < 5; i++)
		assert_int_equal(wc[i].qp_num, other->qp_num);
	check_done(3);
	ibv_destroy_qp(other);
}

/* ---- others at the same time ------------------------------------------------------------------------------------- */

static struct {
	struct ibv_qp *qp; /* destroyed meanwhile; NULL: none */
	int n_taken; /* completions that another thread takes meanwhile */
} meanwhile;

/* Between the look and libmlx5's poll. */
static int poll_late(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct ibv_wc taken[DEPTH];
	struct ibv_qp *qp = meanwhile.qp;

	meanwhile.qp = NULL;
	if (qp)
		world.mc->lower.qp.destroy_qp(qp);
	if (meanwhile.n_taken)
		assert_int_equal(lower_poll(cq, meanwhile.n_taken, taken), meanwhile.n_taken);
	meanwhile.n_taken = 0;
	return lower_poll(cq, n, wc);
}

static void poll_meanwhile(struct ibv_qp *qp, int n_taken, int n, int expected, struct ibv_wc *wc)
{
	meanwhile.qp = qp;
	meanwhile.n_taken = n_taken;
	h->send_cq->reading.removals += qp != NULL; /* as mesh_destroy_qp() of another thread, which has the CQE lock before and after */
	lower_polls_by(poll_late);
	assert_int_equal(ibv_poll_cq(a.cq, n, wc), expected);
	assert_null(meanwhile.qp);
	assert_int_equal(meanwhile.n_taken, 0);
	lower_polls_by(lower_poll);
	h->send_cq->reading.removals -= qp != NULL;
}

/* A thread that polls past the plugin. */
static void test_taken_by_others(void **state)
{
	struct ibv_wc wc[DEPTH];

	(void)state;
	connect_ends();
	write_some(5);
	poll_meanwhile(NULL, 2, 2, 2, wc);
	assert_int_equal(wc[0].wr_id, 2);
	assert_non_null(h->tracker->lost);
	assert_int_equal(ibv_poll_cq(a.cq, DEPTH, wc), 1);
}

/* The same, and nothing is left. */
static void test_all_taken_by_others(void **state)
{
	struct ibv_wc wc[DEPTH];

	(void)state;
	connect_ends();
	write_some(2);
	poll_meanwhile(NULL, 2, 2, 0, wc);
	assert_non_null(h->tracker->lost);
}

static void test_other_is_destroyed(void **state)
{
	struct ibv_wc wc[DEPTH];
	struct ibv_qp *other;

	(void)state;
	connect_ends();
	write_some(2);
	other = open_other(3);
	cq_wait_arrived(a.cq, 5);
	assert_int_equal(write_one(2), 0);
	cq_wait_arrived(a.cq, 6);
	poll_meanwhile(other, 0, 2, 2, wc);
	check_done(2);
	assert_int_equal(ibv_poll_cq(a.cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 2);
	check_done(3);
	assert_true(h->send_cq->fast);
}

/* What is polled has not been read: another one has, which is gone. */
static void test_next_is_destroyed(void **state)
{
	struct ibv_wc wc[DEPTH];
	struct ibv_qp *other;

	(void)state;
	connect_ends();
	other = open_other(1);
	cq_wait_arrived(a.cq, 1);
	assert_int_equal(write_one(0), 0);
	cq_wait_arrived(a.cq, 2);
	poll_meanwhile(other, 0, 1, 1, wc);
	assert_int_equal(wc[0].qp_num, a.qp->qp_num);
	assert_non_null(h->tracker->lost);
}

/* What was read is gone, and there is no other: nothing is lost. */
static void test_only_one_is_destroyed(void **state)
{
	struct ibv_wc wc[DEPTH];
	struct ibv_qp *other;

	(void)state;
	connect_ends();
	other = open_other(1);
	cq_wait_arrived(a.cq, 1);
	poll_meanwhile(other, 0, 1, 0, wc);
	write_some(1);
	assert_int_equal(ibv_poll_cq(a.cq, 1, wc), 1);
	check_done(1);
}

static int (*lower_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static int (*lower_destroy)(struct ibv_qp *qp);
static unsigned int n_removals;

static int marked_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	n_removals += h->send_cq->reading.removals;
	return lower_modify(qp, attr, mask);
}

static int marked_destroy(struct ibv_qp *qp)
{
	n_removals += h->send_cq->reading.removals;
	return lower_destroy(qp);
}

static void check_removals_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	unsigned int n_at_reset;
	int err;

	assert_non_null(qp);
	lower_modify = world.mc->lower.qp.modify_qp;
	lower_destroy = world.mc->lower.qp.destroy_qp;
	world.mc->lower.qp.modify_qp = marked_modify;
	world.mc->lower.qp.destroy_qp = marked_destroy;
	n_removals = 0;
	err = ibv_modify_qp(qp, &reset, IBV_QP_STATE);
	n_at_reset = n_removals;
	err += ibv_destroy_qp(qp);
	world.mc->lower.qp.modify_qp = lower_modify;
	world.mc->lower.qp.destroy_qp = lower_destroy;
	assert_int_equal(err, 0);
	assert_int_equal(n_at_reset, 1);
	assert_int_equal(n_removals, 2);
	assert_int_equal(h->send_cq->reading.removals, 0);
}

/* Polls know of a RESET, and of a queue pair that is destroyed. */
static void test_removals_are_marked(void **state)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	unsigned int n_walkers;

	(void)state;
	connect_ends();
	attr.send_cq = attr.recv_cq = a.cq;
	check_removals_of(open_other(1));
	attr.qp_type = IBV_QPT_UD;
	check_removals_of(ibv_create_qp(world.pd, &attr));
	attr.qp_type = IBV_QPT_UC;
	check_removals_of(ibv_create_qp(world.pd, &attr));
	/* Also if no queue pair of the CQ is protected at the moment: another thread may connect one meanwhile. */
	n_walkers = h->send_cq->reading.n_walkers;
	h->send_cq->reading.n_walkers = 0;
	check_removals_of(ibv_create_qp(world.pd, &attr));
	h->send_cq->reading.n_walkers = n_walkers;
}

static _Atomic uint64_t n_done;
static _Atomic bool stop;
static uint8_t seen[N_WRITES]; /* seen_lock, as the next */
static unsigned int n_wrong;
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void *poller(void *arg)
{
	struct ibv_wc wc[5];
	int i, got;

	(void)arg;
	while (!stop) {
		got = ibv_poll_cq(a.cq, 5, wc);
		pthread_mutex_lock(&seen_lock);
		n_wrong += got < 0;
		for (i = 0; i < got; i++) {
			if (wc[i].qp_num != a.qp->qp_num)
				continue;
			n_done++;
			if (wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id < N_WRITES)
				seen[wc[i].wr_id]++;
			else
				n_wrong++;
		}
		pthread_mutex_unlock(&seen_lock);
	}
	return NULL;
}

/* libmlx5 takes completions of theirs out of the middle of the CQ. */
static void *others(void *arg)
{
	struct ibv_qp *qp;

	(void)arg;
	while (!stop) {
		qp = open_other(16);
		usleep(rand() % 200);
		ibv_destroy_qp(qp);
	}
	return NULL;
}

static void test_beside_others(void **state)
{
	pthread_t threads[3];
	uint64_t i, n_posted = 0;

	(void)state;
	connect_ends();
	memset(seen, 0, sizeof(seen));
	n_done = n_wrong = 0;
	stop = false;
	assert_int_equal(pthread_create(&threads[0], NULL, poller, NULL), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, poller, NULL), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, others, NULL), 0);
	while (n_done < N_WRITES) {
		while (n_posted < N_WRITES && n_posted - n_done < DEPTH / 2 && !write_one(n_posted))
			n_posted++;
		sched_yield();
	}
	stop = true;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(n_wrong, 0);
	for (i = 0; i < N_WRITES; i++)
		assert_int_equal(seen[i], 1);
	assert_int_equal(h->send_cq->reading.removals, 0);
	/* Seldom, as in test_next_is_destroyed(). */
	if (h->tracker->lost)
		print_message("%s\n", h->tracker->lost);
	else
		check_done(N_WRITES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_one), T(test_many), T(test_any), T(test_receives), T(test_as_many_as_there_are), T(test_taken_by_others),
		T(test_all_taken_by_others), T(test_other_is_destroyed), T(test_next_is_destroyed), T(test_only_one_is_destroyed),
		T(test_removals_are_marked), T(test_beside_others),
	};

	reading_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
