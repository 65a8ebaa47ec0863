// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Extended polling: what happens between ibv_start_poll() and ibv_end_poll(). */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "pollends.h"

/* The session stays open at the shadow CQ. */
static void start_poll_shadow(void)
{
	write_nothing(&from, &to, 1);
	start_poll(1);
	assert_int_equal(cq_of_hub()->walk.open, MESH_FROM_SHADOW);
	alarm(PATIENCE_S);
}

static void *prepare_elsewhere(void *arg)
{
	uint32_t qpn;

	(void)arg;
	return (void *)(intptr_t)mesh_failover_prepare(tracked.vqp, world.spd, &shadow_attr, &qpn);
}

static void *release_elsewhere(void *arg)
{
	mesh_failover_release(tracked.vqp);
	return arg;
}

static struct ibv_cq_ex *(*lower_create)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

static struct ibv_cq_ex *create_nameless_only(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	if (attr->wc_flags & IBV_WC_EX_WITH_QP_NUM) {
		errno = ENOTSUP;
		return NULL;
	}
	return lower_create(context, attr);
}

/* UCX makes such CQs, and polls them by ibv_poll_cq(). */
static void test_named_unasked(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.wc_flags = IBV_WC_EX_WITH_BYTE_LEN});
	assert_non_null(hub.cq_ex->read_qp_num);
	assert_true(mesh_cq_names_qps(world.mc, hub.cq));
	open_tracked(&moved_ex, 0);
	tracked_prepare(tracked.vqp);
}

/* Not to be told from others' completions, nor from our sentinels: such a queue pair is left alone. */
static void test_nameless(void **state)
{
	struct mesh_vqp *h;

	(void)state;
	lower_create = world.mc->lower.cq.create_cq_ex;
	world.mc->lower.cq.create_cq_ex = create_nameless_only;
	open_hub(&bare_ex, &(struct shape){.wc_flags = IBV_WC_EX_WITH_BYTE_LEN});
	world.mc->lower.cq.create_cq_ex = lower_create;
	assert_null(hub.cq_ex->read_qp_num);
	end_open(&tracked, &world, &moved_ex, &(struct shape){.hub = &hub});
	assert_false(mesh_cq_names_qps(world.mc, hub.cq));
	assert_int_equal(mesh_failover_track(world.mc, tracked.qp, &tracked_ops, NULL, TRACKED_MTU, &h), -EOPNOTSUPP);
}

#define LATER 30 /* the number of a bit that this library does not know */

/* The lower provider of a later library, which knows more; and of a NIC with a clock page. */
static struct ibv_cq_ex *create_later(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex known = *attr;

	known.wc_flags &= ~(1ull << LATER | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	known.comp_mask &= ~(1u << LATER);
	known.flags &= ~(1u << LATER);
	return lower_create(context, &known);
}

/*
 * Its read functions are not ours, or tell the time of another NIC: what uses such a CQ stays where it is, and says
 * why.
 */
static void test_strange(void **state)
{
	const struct shape strange[] = {
		{.wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP},
		{.wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK},
		{.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | 1u << LATER, .later = true},
		{.cq_mask = 1u << LATER},
		{.cq_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .cq_flags = 1u << LATER},
	};
	const uint32_t known[] = {IBV_CREATE_CQ_ATTR_SINGLE_THREADED, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	struct mesh_vqp *h;
	int err;

	(void)state;
	lower_create = world.mc->lower.cq.create_cq_ex;
	world.mc->lower.cq.create_cq_ex = create_later;
	for (size_t i = 0; i < 2 * sizeof(strange) / sizeof(strange[0]); i++) {
		open_hub(&bare_ex, &strange[i / 2]);
		end_open(&tracked, &world, &moved_ex, &(struct shape){.hub = &hub});
		/* At work, and when it is made. */
		if (i % 2)
			err = mesh_failover_track(world.mc, tracked.qp, &tracked_ops, NULL, TRACKED_MTU, &h);
		else
			err = mesh_vqp_new(world.mc, tracked.qp, &tracked_ops, NULL, &h);
		assert_int_equal(err, -EBUSY);
		assert_non_null(strstr(mesh_vqp_why_busy(world.mc, tracked.qp), "time stamps"));
		close_end(&tracked);
		close_end(&hub);
	}
	world.mc->lower.cq.create_cq_ex = lower_create;
	/* What is known, and what is not named, is as ever. */
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		open_hub(&bare_ex, &(struct shape){.cq_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .cq_flags = known[i]});
		open_tracked(&moved_ex, 0);
		close_end(&tracked);
		close_end(&hub);
	}
}

/* Who polls brings a queue pair to its end that was about to move to where he polls. */
static void test_ends_one_that_moves(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_moved();
	open_tracked(&moved_ex, 0);
	tracked_prepare(tracked.vqp);
	start_poll_shadow();
	alarm(PATIENCE_S);
	end_err(&tracked);
	assert_int_equal(world.mc->data.n_reap, 1);
	end_poll_ex();
	assert_int_equal(world.mc->data.n_reap, 0);
}

/* The helper thread may have the lock that the program's thread is going to wait for: it must not wait for the poll to be over. */
static void test_released_elsewhere(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_moved();
	open_tracked(&moved_ex, 0);
	tracked_prepare(tracked.vqp);
	start_poll_shadow();
	in_a_thread(release_elsewhere);
	assert_int_equal(world.mc->data.n_reap, 1);
	end_poll_ex();
	assert_int_equal(world.mc->data.n_reap, 0);
	tracked_prepare(tracked.vqp);
}

/* What is left of it goes before the program can destroy what it uses. */
static void test_left_until_destroyed(void **state)
{
	struct mesh_cq *cq;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	tracked_prepare(tracked.vqp);
	cq = cq_of_hub();
	mesh_lock(&cq->poll_lock);
	mesh_failover_release(tracked.vqp);
	assert_int_equal(world.mc->data.n_reap, 1);
	mesh_unlock(&cq->poll_lock);
	assert_int_equal(world.mc->data.n_reap, 1);
	close_end(&tracked);
	assert_int_equal(world.mc->data.n_reap, 0);
}

static void grows(bool shadow)
{
	/* Of a size that takes either, but not both, or not one. */
	open_hub(&bare_ex, &(struct shape){.cqe = shadow ? 200 : 63});
	open_moved();
	open_tracked(&moved_ex, 64);
	if (shadow) {
		start_poll_shadow();
	} else {
		write_nothing(&tracked, &tracked, 2);
		start_poll(2);
		assert_int_equal(cq_of_hub()->walk.open, MESH_FROM_BASE);
		alarm(PATIENCE_S);
	}
	assert_int_equal(in_a_thread(prepare_elsewhere), -EBUSY);
	end_poll_ex();
	tracked_prepare(tracked.vqp);
}

static void test_grows(void **state)
{
	(void)state;
	grows(false);
}

static void test_grows_shadow(void **state)
{
	(void)state;
	grows(true);
}

/* libmlx5 looks at the CQ when it is to take a sentinel in a queue that is full. */
static void test_drain_of_a_full_one(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	open_bare(&bare_ex);
	tracked_prepare(tracked.vqp);
	/* nobody has posted a receive: it is not taken, and will be tried again for ever */
	while (!end_send_empty(&tracked, 0, IBV_SEND_SIGNALED))
		;
	write_nothing(&bare, &bare, 2);
	start_poll(2);
	alarm(PATIENCE_S);
	assert_int_equal(in_a_thread(drain_elsewhere), -EAGAIN);
	ibv_end_poll(hub.cq_ex);
	tracked_drain(tracked.vqp, false, &sync);
}

static void *end_elsewhere(void *arg)
{
	end_err(&tracked);
	return arg;
}

static _Atomic uint64_t n_receives;

/* The last one is not taken, as libmlx5 says when it has looked at the CQ. */
static void *receive_elsewhere(void *arg)
{
	while (!end_recv(&tracked, RECEIVE, 0, 64))
		n_receives++;
	return arg;
}

/*
 * Nobody posts to a queue that may be full: not what waited since the drain began, nor what comes now, whoever ends it,
 * or looks whether something waits. When the poll is over all is flushed.
 */
static void ends_a_full_one(bool elsewhere)
{
	uint64_t move_ns = mesh_root.move_times.move_ns, n = open_full();
	pthread_t receiver;
	struct ibv_wc wc;

	assert_int_equal(cq_of_hub()->walk.open, MESH_FROM_BASE);
	mesh_root.move_times.move_ns = 200000000;
	assert_int_equal(in_a_thread(drain_elsewhere), -EAGAIN);
	assert_int_equal(end_send_empty(&tracked, n++, IBV_SEND_SIGNALED), 0);
	if (elsewhere)
		in_a_thread(end_elsewhere);
	else
		end_err(&tracked);
	mesh_root.move_times.move_ns = move_ns;
	tracked.qp->state = IBV_QPS_ERR;
	assert_int_equal(tracked.vqp->queue.n, 1);
	assert_int_equal(end_send_empty(&tracked, n++, IBV_SEND_SIGNALED), 0);
	assert_true(in_a_thread(wait_elsewhere));
	n_given = 0;
	n_receives = 0;
	n_received = 0;
	assert_int_equal(pthread_create(&receiver, NULL, receive_elsewhere, NULL), 0);
	usleep(100000);
	while (!ibv_next_poll(hub.cq_ex))
		given(hub.cq_ex->wr_id, hub.cq_ex->status);
	ibv_end_poll(hub.cq_ex);
	assert_int_equal(pthread_join(receiver, NULL), 0);
	while (n_given < n || n_received < n_receives) {
		wc = end_wait(&tracked);
		given(wc.wr_id, wc.status);
	}
	end_quiet(&tracked);
	assert_false(mesh_failover_waits(tracked.vqp));
}

static void test_ends_a_full_one(void **state)
{
	(void)state;
	ends_a_full_one(false);
}

static void test_full_one_is_ended(void **state)
{
	(void)state;
	ends_a_full_one(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_named_unasked),
		T(test_nameless),
		T(test_strange),
		T(test_ends_one_that_moves),
		T(test_released_elsewhere),
		T(test_left_until_destroyed),
		T(test_grows),
		T(test_grows_shadow),
		T(test_drain_of_a_full_one),
		T(test_ends_a_full_one),
		T(test_full_one_is_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
