// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Posts of one thread while another one begins or ends the tracking of the queue pair. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "pollends.h"
#include "vqp_int.h"

static int (*real_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static sem_t posts;

static int post_slowly(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	sem_post(&posts);
	usleep(50000);
	return real_post_send(qp, wr, bad);
}

/* By a thread that is cancelled, and ends at the next place where threads do: bare there is none. */
static void *polls_cancelled(void *arg)
{
	struct ibv_poll_cq_attr attr = {0};

	pthread_cancel(pthread_self());
	assert_int_equal(ibv_start_poll(hub.cq_ex, &attr), 0);
	do
		given(hub.cq_ex->wr_id, hub.cq_ex->status);
	while (!ibv_next_poll(hub.cq_ex));
	ibv_end_poll(hub.cq_ex);
	return arg;
}

/* Nor does a poll begin while somebody posts to one: he has a lock that it will want. */
static void test_begins_while_posted(void **state)
{
	struct ibv_wc wc;
	pthread_t poller;
	void *ended;
	pthread_t helper;
	unsigned int i;
	uint64_t n;

	(void)state;
	n = open_full();
	assert_int_equal(in_a_thread(drain_elsewhere), -EAGAIN);
	for (i = 0; i < 2; i++)
		assert_int_equal(end_send_empty(&tracked, n++, IBV_SEND_SIGNALED), 0);
	end_err(&tracked);
	tracked.qp->state = IBV_QPS_ERR;
	ibv_end_poll(hub.cq_ex);
	assert_int_equal(tracked.vqp->queue.n, 2); /* there is room for one when the first is polled */
	n_given = n_received = 0;
	assert_int_equal(sem_init(&posts, 0, 0), 0);
	real_post_send = world.mc->lower.io.post_send;
	world.mc->lower.io.post_send = post_slowly;
	assert_int_equal(pthread_create(&helper, NULL, wait_elsewhere, NULL), 0);
	sem_wait(&posts);
	assert_int_equal(pthread_create(&poller, NULL, polls_cancelled, NULL), 0);
	assert_int_equal(pthread_join(poller, &ended), 0);
	assert_null(ended);
	assert_int_equal(pthread_join(helper, NULL), 0);
	world.mc->lower.io.post_send = real_post_send;
	while (n_given < n) {
		wc = end_wait(&tracked);
		given(wc.wr_id, wc.status);
	}
	end_quiet(&tracked);
	sem_destroy(&posts);
}

static uint64_t n_sent, n_done;

static int write_to_itself(void)
{
	struct ibv_send_wr wr = {.wr_id = n_sent, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	return end_send(&tracked, &wr);
}

static void *write_elsewhere(void *arg)
{
	while (!write_to_itself() && ++n_sent % 4)
		;
	return arg;
}

/*
 * Nor does who posts to one that has moved, and whose work is not noted any more, look at a CQ that another thread polls, with the lock
 * that this is going to want, though nothing waits before.
 */
static void posts_unnoted(bool ended)
{
	enum ibv_wc_status status = ended ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
	struct mv_move_sync sync;
	pthread_t writer;
	struct ibv_wc wc;

	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	tracked_prepare_loop(tracked.vqp, PSN);
	tracked_drain(tracked.vqp, true, &sync);
	assert_int_equal(mesh_failover_replay(tracked.vqp, sync.next_psn, sync.n_received, 4, NULL), 0);
	if (ended) {
		end_err(&tracked);
		tracked.qp->state = IBV_QPS_ERR;
	} else {
		tracked.vqp->tracker->lost = "a test wants it so";
	}
	for (n_sent = 0; !write_to_itself(); n_sent++)
		;
	assert_int_equal(tracked.vqp->queue.n, 0);
	start_poll(0);
	alarm(PATIENCE_S);
	assert_int_equal(pthread_create(&writer, NULL, write_elsewhere, NULL), 0);
	usleep(100000);
	for (n_done = 1; !ibv_next_poll(hub.cq_ex); n_done++) {
		assert_int_equal(hub.cq_ex->wr_id, n_done);
		assert_int_equal(hub.cq_ex->status, status);
	}
	ibv_end_poll(hub.cq_ex);
	assert_int_equal(pthread_join(writer, NULL), 0);
	for (; n_done < n_sent; n_done++) {
		wc = end_wait(&tracked);
		assert_int_equal(wc.wr_id, n_done);
		assert_int_equal(wc.status, status);
	}
	end_quiet(&tracked);
	alarm(0);
}

static void test_posts_unnoted(void **state)
{
	(void)state;
	posts_unnoted(false);
}

static void test_posts_to_an_ended_one(void **state)
{
	(void)state;
	posts_unnoted(true);
}

static unsigned int n_locked, n_free; /* posts with and without the lock that who polls may want */

static int post_counted(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (!mesh_trylock(&tracked.vqp->lock)) {
		n_locked++;
	} else {
		n_free++;
		mesh_unlock(&tracked.vqp->lock);
	}
	return real_post_send(qp, wr, bad);
}

static void count_posts(void)
{
	n_locked = n_free = 0;
	real_post_send = world.mc->lower.io.post_send;
	world.mc->lower.io.post_send = post_counted;
}

/* What cannot be noted is posted without it, from the one behind the first on, in the same list or not. */
static void test_left_from_the_next_on(void **state)
{
	struct ibv_send_wr last = {.wr_id = 2, .opcode = IBV_WR_SEND}, first = {.wr_id = 1, .next = &last, .opcode = IBV_WR_LOCAL_INV}, *bad;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	/* nobody has posted a receive: nothing comes of it all */
	assert_int_equal(end_send_empty(&tracked, 0, IBV_SEND_SIGNALED), 0);
	count_posts();
	assert_int_equal(ibv_post_send(tracked.qp, &first, &bad), 0);
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_free, 1);
	assert_int_equal(ibv_post_send(tracked.qp, &last, &bad), 0);
	world.mc->lower.io.post_send = real_post_send;
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_free, 2);
}

/* Also while atomics wait for a move that will not be: there are none. */
static void test_left_while_quiet(void **state)
{
	struct ibv_sge sge = {(uintptr_t)tracked.buf, 8, 0};
	struct ibv_send_wr add = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr last = {.wr_id = 3, .opcode = IBV_WR_SEND}, first = {.wr_id = 2, .opcode = IBV_WR_LOCAL_INV}, *bad;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	sge = (struct ibv_sge){(uintptr_t)tracked.buf, 8, tracked.mr->lkey};
	add.wr.atomic.remote_addr = (uintptr_t)tracked.buf;
	add.wr.atomic.rkey = tracked.mr->rkey;
	assert_int_equal(end_send_empty(&tracked, 0, IBV_SEND_SIGNALED), 0); /* as above */
	assert_int_equal(ibv_post_send(tracked.qp, &add, &bad), 0);
	assert_false(mesh_failover_quiesce(tracked.vqp));
	count_posts();
	assert_int_equal(ibv_post_send(tracked.qp, &first, &bad), 0);
	assert_int_equal(ibv_post_send(tracked.qp, &last, &bad), 0);
	world.mc->lower.io.post_send = real_post_send;
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_free, 1);
}

static unsigned int n_bound;

static int bind_counted(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	(void)qp;
	(void)mw;
	(void)bind;
	n_bound++;
	return 0;
}

static int bind_window(struct ibv_qp *qp)
{
	struct ibv_mw mw = {.context = qp->context, .pd = world.pd, .type = IBV_MW_TYPE_1};
	struct ibv_mw_bind bind = {.wr_id = 5};

	return ibv_bind_mw(qp, &mw, &bind);
}

/* To bind a memory window is to post something that cannot be posted again, and goes to no other NIC. */
static void test_window(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr add = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct mv_move_sync sync;

	(void)state;
	world.mc->lower.qp.bind_mw = bind_counted;
	n_bound = 0;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	assert_int_equal(bind_window(hub.qp), 0); /* not held */
	assert_int_equal(n_bound, 1);
	open_tracked(&moved_ex, 0);
	/* nobody has posted a receive: nothing comes of it all */
	assert_int_equal(end_send_empty(&tracked, 0, IBV_SEND_SIGNALED), 0);
	assert_null(tracked.vqp->tracker->lost);
	/* What waits for a move that will not be goes first. */
	sge = (struct ibv_sge){(uintptr_t)tracked.buf, 8, tracked.mr->lkey};
	add.wr.atomic.remote_addr = (uintptr_t)tracked.buf;
	add.wr.atomic.rkey = tracked.mr->rkey;
	assert_int_equal(ibv_post_send(tracked.qp, &add, &bad), 0);
	assert_false(mesh_failover_quiesce(tracked.vqp));
	count_posts();
	assert_int_equal(ibv_post_send(tracked.qp, &add, &bad), 0);
	assert_int_equal(n_locked + n_free, 0);
	assert_int_equal(bind_window(tracked.qp), 0);
	world.mc->lower.io.post_send = real_post_send;
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_bound, 2);
	assert_ptr_equal(tracked.vqp->tracker->lost, mesh_tracker_kind);
	assert_int_equal(tracked_drain_ends(tracked.vqp, true, &sync), -EOPNOTSUPP);
	open_moved();
	assert_int_equal(bind_window(from.qp), EOPNOTSUPP);
	assert_int_equal(n_bound, 2);
}

/* Nor is anything else that only the lower provider could do. */
static void test_refused(void **state)
{
	static const struct manner builders = {.how = MOVED, .extended = true, .builders = true};

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	end_open(&from, &world, &builders, &(struct shape){.hub = &hub});
	end_open(&to, &world, &moved_plain, &(struct shape){0});
	ends_connect(&from, &to, &(struct shape){0});
	ibv_wr_start(from.qp_ex);
	ibv_wr_local_inv(from.qp_ex, 7);
	assert_int_equal(ibv_wr_complete(from.qp_ex), EOPNOTSUPP);
	ibv_wr_start(from.qp_ex);
	ibv_wr_send_inv(from.qp_ex, 7);
	assert_int_equal(ibv_wr_complete(from.qp_ex), EOPNOTSUPP);
	ibv_wr_start(from.qp_ex);
	ibv_wr_bind_mw(from.qp_ex, NULL, 7, NULL);
	assert_int_equal(ibv_wr_complete(from.qp_ex), EOPNOTSUPP);
	end_quiet(&from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_begins_while_posted),
		T(test_posts_unnoted),
		T(test_posts_to_an_ended_one),
		T(test_left_from_the_next_on),
		T(test_left_while_quiet),
		T(test_window),
		T(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
