// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completions that are taken in libmlx5's place (mlx5take.h), with the distribution's libmlx5: that it is found how, that what the program
 * gets is what libmlx5 would have given, that libmlx5 and others can go on with the same CQ at the same time, and that nothing is taken
 * where it polls otherwise, or where that could not be found out. Seeded: TEST_SEED=n
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
#include <infiniband/mlx5dv.h>

#include "fault.h"
#include "reading.h"

#define ROUNDS   300
#define N_WRITES 20000u
#define N_TAKEN  (N_WRITES / 4) /* at least so many are taken by us, whatever others do */

static int (*lower_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static _Atomic unsigned int n_lower; /* completions of a's queue pair that libmlx5 took */

static int counting_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = lower_poll(cq, n, wc), i;

	for (i = 0; i < got; i++)
		n_lower += a.qp && wc[i].qp_num == a.qp->qp_num;
	return got;
}

/* In the place of libmlx5's. Nobody polls. */
static void lower_polls_by(int (*poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc))
{
	if (world.context->ops.poll_cq == world.mc->lower.io.poll_cq)
		world.context->ops.poll_cq = poll;
	world.mc->lower.io.poll_cq = poll;
}

static int setup(void **state)
{
	reading_setup(state);
	assert_true(mesh_mlx5_is_lower(world.mc)); /* it is asked once, by where this function is */
	lower_poll = world.mc->lower.io.poll_cq;
	lower_polls_by(counting_poll);
	n_lower = 0;
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

static void test_taken(void **state)
{
	uint64_t i;

	(void)state;
	connect_ends();
	assert_non_null(h->send_cq->reading.take.lock);
	assert_non_null(h->tracker->walker->take.sq_wrid);
	for (i = 1; i < 3 * DEPTH; i++) {
		assert_int_equal(write_one(i), 0);
		assert_true(end_wait(&a).wr_id == i);
	}
	assert_int_equal(n_lower, 0);
	/* Anything, many times round the queue. */
	for (i = 0; i < ROUNDS; i++)
		one_round();
	assert_null(h->tracker->lost);
	assert_int_equal(n_lower, 0);
}

/* ---- what the program gets -------------------------------------------------------------------------------------- */

static struct ibv_wc poll_one(struct end *e, bool by_us)
{
	uint32_t *lock = h->send_cq->reading.take.lock;
	struct ibv_wc wc;
	int i, got = 0;

	if (!by_us)
		h->send_cq->reading.take.lock = NULL;
	memset(&wc, 0xa5, sizeof(wc));
	for (i = 0; i < 100000 && !got; i++) {
		got = ibv_poll_cq(e->cq, 1, &wc);
		if (!got)
			usleep(50);
	}
	h->send_cq->reading.take.lock = lock;
	assert_int_equal(got, 1);
	return wc;
}

static void assert_same(const struct ibv_wc *ours, const struct ibv_wc *its, unsigned int n_by_lower)
{
	assert_memory_equal(ours, its, sizeof(*ours));
	assert_int_equal(ours->status, IBV_WC_SUCCESS);
	assert_int_equal(n_lower, n_by_lower);
}

/* Large enough for nothing of it to be in the completion. */
static void send_as(struct end *from, const struct end *to, enum ibv_wr_opcode opcode)
{
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct ibv_sge sge = {(uintptr_t)from->buf, atomic ? 8 : 500, from->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 0x1234567890ull,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(0x98765432),
				 .wr.rdma = {.remote_addr = (uintptr_t)to->buf, .rkey = to->mr->rkey}},
			   *bad;

	if (atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf;
		wr.wr.atomic.rkey = to->mr->rkey;
	}
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
}

static void test_same_sends(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE,        IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
						     IBV_WR_SEND_WITH_IMM,     IBV_WR_RDMA_READ,           IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_CMP_AND_SWP};
	struct ibv_wc ours, its;
	size_t i;

	(void)state;
	connect_ends();
	for (i = 0; i < 8; i++)
		assert_int_equal(end_recv(&b, i, 0, 1000), 0);
	for (i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		n_lower = 0;
		send_as(&a, &b, opcodes[i]);
		ours = poll_one(&a, true);
		n_lower *= opcodes[i] < IBV_WR_ATOMIC_CMP_AND_SWP; /* what an atomic brings is in the completion */
		send_as(&a, &b, opcodes[i]);
		its = poll_one(&a, false);
		assert_same(&ours, &its, opcodes[i] < IBV_WR_ATOMIC_CMP_AND_SWP ? 1 : n_lower);
	}
	assert_null(h->tracker->lost);
}

static void test_same_receives(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
	struct ibv_wc ours, its;
	size_t i;

	(void)state;
	connect_ends();
	for (i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		n_lower = 0;
		assert_int_equal(end_recv(&a, 7, 0, 1000), 0);
		assert_int_equal(end_recv(&a, 7, 0, 1000), 0);
		send_as(&b, &a, opcodes[i]);
		ours = poll_one(&a, true);
		send_as(&b, &a, opcodes[i]);
		its = poll_one(&a, false);
		assert_same(&ours, &its, 1);
		assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
		assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(h->tracker->n_received, 6);
	assert_null(h->tracker->lost);
}

/* ---- others at the same time ------------------------------------------------------------------------------------ */

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
	int i, got;

	(void)state;
	connect_ends();
	assert_int_equal(write_one(0), 0);
	assert_int_equal(write_one(1), 0);
	cq_wait_arrived(a.cq, 2);
	other = open_other(3);
	cq_wait_arrived(a.cq, 5);
	assert_int_equal(write_one(2), 0);
	cq_wait_arrived(a.cq, 6);
	got = ibv_poll_cq(a.cq, 16, wc);
	assert_int_equal(got, 6);
	assert_int_equal(n_lower, 1);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(wc[1].wr_id, 1);
	assert_int_equal(wc[5].wr_id, 2);
	for (i = 2; i < 5; i++)
		assert_int_equal(wc[i].qp_num, other->qp_num);
	world.mc->lower.qp.destroy_qp(other);
}

static void *poll_elsewhere(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	return (void *)(intptr_t)ibv_poll_cq(a.cq, 1, &wc);
}

/* Whoever has libmlx5's lock of the CQ, to take completions of another queue pair out of it, is not disturbed. */
static void test_its_lock(void **state)
{
	pthread_spinlock_t *lock;
	pthread_t thread;
	uint32_t before, meanwhile;
	bool seen;
	void *got;

	(void)state;
	connect_ends();
	assert_int_equal(write_one(0), 0);
	cq_wait_arrived(a.cq, 1);
	before = *h->send_cq->reading.take.cons_index;
	lock = (pthread_spinlock_t *)(void *)h->send_cq->reading.take.lock;
	assert_int_equal(pthread_spin_lock(lock), 0);
	assert_int_equal(pthread_create(&thread, NULL, poll_elsewhere, NULL), 0);
	usleep(20000);
	meanwhile = *h->send_cq->reading.take.cons_index;
	pthread_spin_unlock(lock);
	pthread_join(thread, &got);
	assert_int_equal(meanwhile, before);
	assert_int_equal((intptr_t)got, 1);
	assert_int_equal(*h->send_cq->reading.take.cons_index, before + 1);
	/* And it is given back, also where somebody else took what was seen. */
	assert_int_equal(pthread_spin_trylock(lock), 0);
	pthread_spin_unlock(lock);
	seen = mesh_take_begin(&h->send_cq->reading.take, before);
	if (seen)
		pthread_spin_unlock(lock);
	assert_false(seen);
	assert_int_equal(pthread_spin_trylock(lock), 0);
	pthread_spin_unlock(lock);
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
		world.mc->lower.qp.destroy_qp(qp);
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
		/* What others take away while libmlx5 polls ends the protection, and with it what is tried here. */
		mesh_walker_quicken(h->send_cq);
		sched_yield();
	}
	stop = true;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(n_wrong, 0);
	for (i = 0; i < N_WRITES; i++)
		assert_int_equal(seen[i], 1);
	print_message("of %u completions libmlx5 took %u\n", N_WRITES, n_lower);
	assert_true(n_lower < N_WRITES - N_TAKEN);
}

/* ---- where it cannot be ----------------------------------------------------------------------------------------- */

static int find(struct mesh_take_places *ret)
{
	int err;

	mesh_lock(&world.mc->data.lock);
	err = mesh_take_find(world.mc, ret);
	mesh_unlock(&world.mc->data.lock);
	return err;
}

static int says_more(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = lower_poll(cq, n, wc);

	if (got > 0 && wc[got - 1].opcode == IBV_WC_RDMA_WRITE)
		wc[got - 1].byte_len = 0;
	return got;
}

static int says_less(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = lower_poll(cq, n, wc);

	if (got > 0 && wc[got - 1].opcode == IBV_WC_RECV)
		wc[got - 1].wc_flags &= ~(unsigned int)IBV_WC_GRH;
	return got;
}

static int counts_more(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = lower_poll(cq, n, wc);

	if (got > 0)
		cq->cq_context = (char *)cq->cq_context + 2; /* a word of its own that nothing here needs */
	return got;
}

/* Of one kind only. */
static int counts_reads(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = lower_poll(cq, n, wc), i;

	for (i = 0; i < got; i++)
		if (wc[i].opcode == IBV_WC_RDMA_READ)
			cq->cq_context = (char *)cq->cq_context + 2;
	return got;
}

static int takes_one_at_a_time(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)n;
	return lower_poll(cq, 1, wc);
}

/* A program is told nothing of all this: NCCL 2.28 ends with events of CQs that are not its own. */
static void test_no_events(void **state)
{
	struct mesh_take_places places;
	struct ibv_async_event event;
	int i;

	(void)state;
	connect_a();
	for (i = 0; i < 5; i++)
		assert_int_equal(find(&places), 0);
	assert_false(world_event(&world, &event, 100));
}

static void test_polls_otherwise(void **state)
{
	struct mesh_take_places places;
	uint64_t begun_ns;

	(void)state;
	connect_a();
	lower_polls_by(says_more);
	assert_int_equal(find(&places), -EOPNOTSUPP);
	lower_polls_by(says_less);
	assert_int_equal(find(&places), -EOPNOTSUPP);
	lower_polls_by(takes_one_at_a_time);
	assert_int_equal(find(&places), -EOPNOTSUPP);
	lower_polls_by(counts_more);
	assert_int_equal(find(&places), -EAGAIN);
	lower_polls_by(counts_reads);
	assert_int_equal(find(&places), -EAGAIN);
	lower_polls_by(counting_poll);
	begun_ns = mesh_now_ns();
	assert_int_equal(find(&places), 0);
	print_message("found in %.1f ms\n", (double)(mesh_now_ns() - begun_ns) / 1e6);
}

static void test_no_resources(void **state)
{
	static const enum fault_call calls[] = {FAULT_PIPE2, FAULT_MMAP};
	unsigned int call, nth, n_fds;
	struct mesh_take_places places;
	int err;

	(void)state;
	connect_a();
	assert_int_equal(find(&places), 0); /* what stays is made */
	n_fds = fault_open_fds();
	for (call = 0; call < 2; call++)
		for (nth = 1; nth < 3000; nth = nth * 2 + 1) {
			fault_arm(calls[call], nth, EMFILE);
			err = find(&places);
			if (fault_fired())
				assert_int_equal(err, calls[call] == FAULT_PIPE2 ? -EMFILE : -ENOMEM);
			else
				assert_int_equal(err, 0);
			fault_disarm();
			assert_int_equal(fault_open_fds(), n_fds);
		}
}

/* A few times it is tried again, with the next queue pair; and without it all is as it was. */
static void test_given_up(void **state)
{
	struct mesh_mlx5 *m = &world.mc->data.mlx5;
	struct mesh_take_cq cq;
	int i;

	(void)state;
	lower_polls_by(counts_more);
	connect_a();
	connect_b();
	assert_int_equal(m->take, MESH_MLX5_TAKE_UNKNOWN);
	assert_null(h->send_cq->reading.take.lock);
	assert_null(h->tracker->walker->take.sq_wrid);
	for (i = 0; i < ROUNDS; i++)
		one_round();
	assert_null(h->tracker->lost);
	mesh_lock(&world.mc->data.lock);
	for (i = 0; i < 4; i++)
		mesh_take_open_cq(world.mc, a.cq, &cq);
	mesh_unlock(&world.mc->data.lock);
	assert_int_equal(m->take, MESH_MLX5_TAKE_NEVER);
	assert_null(cq.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_taken),    T(test_same_sends),    T(test_same_receives),   T(test_as_many_as_there_are),
		T(test_its_lock), T(test_beside_others), T(test_no_events), T(test_polls_otherwise), T(test_no_resources),
		T(test_given_up),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	reading_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
