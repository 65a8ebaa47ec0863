// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Polling while something else happens: work that is moved, and what a program or another thread does between start_poll and end_poll
 * of an extended CQ, of which libmlx5 has the lock then. And likewise in the middle of a batch, from ibv_wr_start() to ibv_wr_complete().
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "guarded.h"
#include "heldint.h"

#define PSN	 0x123u
#define PATIENCE 60 /* seconds, then something waits for ever */
#define OURS	 77u /* wr_id of what was put into the stash */

#define NAMED (IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM)

static struct end hub; /* has the CQ; its own QP is not used */
static struct end guarded; /* connected to itself, may be moved */
static struct end bare; /* connected to itself, not ours */
static struct end from, to; /* moved; @from on the hub's CQ */

static const struct manner bare_ex = {.how = BARE, .extended = true}, moved_ex = {.how = MOVED, .extended = true};
static const struct manner bare_plain = {.how = BARE}, moved_plain = {.how = MOVED};

static int setup(void **state)
{
	world_setup(state);
	mesh_root.config.survive = true;
	return 0;
}

static void close_end(struct end *e)
{
	if (e->mr)
		end_close(e);
	memset(e, 0, sizeof(*e));
}

static int teardown(void **state)
{
	alarm(0);
	close_end(&guarded);
	close_end(&bare);
	close_end(&from);
	close_end(&to);
	close_end(&hub);
	mesh_root.config.survive = false;
	return world_teardown(state);
}

static struct mesh_cq *cq_of_hub(void)
{
	struct mesh_cq *cq = mesh_map_get(&world.mc->data.cqs, hub.cq);

	assert_non_null(cq);
	return cq;
}

static void open_hub(const struct manner *manner, const struct shape *shape)
{
	end_open(&hub, &world, manner, shape);
}

static void open_guarded(const struct manner *manner, uint32_t max_wr)
{
	end_open(&guarded, &world, manner, &(struct shape){.hub = &hub, .max_wr = max_wr});
	guarded_rtr(&guarded, &guarded_ops, world_rtr(&world, false, guarded.qp->qp_num, PSN), &guarded.held);
	guarded_rts(&guarded, guarded.held, world_rts(PSN));
}

static void open_bare(const struct manner *manner)
{
	const struct shape shape = {.hub = &hub};

	end_open(&bare, &world, manner, &shape);
	end_rtr(&bare, &bare, &shape);
	end_rts(&bare, &shape);
}

static void open_moved(void)
{
	end_open(&from, &world, &moved_ex, &(struct shape){.hub = &hub});
	end_open(&to, &world, &moved_plain, &(struct shape){0});
	ends_connect(&from, &to, &(struct shape){0});
}

static void write_nothing(struct end *e, const struct end *peer, uint64_t wr_id)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)peer->buf, .rkey = peer->mr->rkey}};

	assert_int_equal(end_send(e, &wr), 0);
}

/* The session stays open. */
static void start_poll(uint64_t wr_id)
{
	struct ibv_poll_cq_attr attr = {0};
	unsigned int i;
	int err = ENOENT;

	for (i = 0; err == ENOENT && i < PATIENCE * 1000; i++) {
		err = ibv_start_poll(hub.cq_ex, &attr);
		if (err)
			usleep(1000);
	}
	assert_int_equal(err, 0);
	assert_int_equal(hub.cq_ex->wr_id, wr_id);
}

/* The session stays open at the shadow CQ. */
static void start_poll_shadow(void)
{
	write_nothing(&from, &to, 1);
	start_poll(1);
	assert_int_equal(cq_of_hub()->open, MESH_FROM_SHADOW);
	alarm(PATIENCE);
}

static void end_poll_ex(void)
{
	assert_int_equal(ibv_next_poll(hub.cq_ex), ENOENT);
	ibv_end_poll(hub.cq_ex);
	alarm(0);
}

static void *prepare_elsewhere(void *arg)
{
	uint32_t qpn;

	(void)arg;
	return (void *)(intptr_t)mesh_live_prepare(guarded.held, world.spd, &shadow_attr, &qpn);
}

static void *release_elsewhere(void *arg)
{
	mesh_live_release(guarded.held);
	return arg;
}

static int in_a_thread(void *(*fn)(void *arg))
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

/* ---- whose it is ------------------------------------------------------------------------------------------------- */

static struct ibv_cq_ex *(*base_create)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

static struct ibv_cq_ex *create_nameless_only(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	if (attr->wc_flags & IBV_WC_EX_WITH_QP_NUM) {
		errno = ENOTSUP;
		return NULL;
	}
	return base_create(context, attr);
}

/* UCX makes such CQs, and polls them by ibv_poll_cq(). */
static void test_named_unasked(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.wc_flags = IBV_WC_EX_WITH_BYTE_LEN});
	assert_non_null(hub.cq_ex->read_qp_num);
	assert_true(mesh_cq_names_qps(world.mc, hub.cq));
	open_guarded(&moved_ex, 0);
	guarded_prepare(guarded.held);
}

/* Not to be told from others' completions, nor from our marks: such a queue pair is left alone. */
static void test_nameless(void **state)
{
	struct mesh_held *h;

	(void)state;
	base_create = world.mc->create_cq_ex;
	world.mc->create_cq_ex = create_nameless_only;
	open_hub(&bare_ex, &(struct shape){.wc_flags = IBV_WC_EX_WITH_BYTE_LEN});
	world.mc->create_cq_ex = base_create;
	assert_null(hub.cq_ex->read_qp_num);
	end_open(&guarded, &world, &moved_ex, &(struct shape){.hub = &hub});
	assert_false(mesh_cq_names_qps(world.mc, hub.cq));
	assert_int_equal(mesh_live_guard(world.mc, guarded.qp, &guarded_ops, NULL, GUARDED_MTU, &h), -EOPNOTSUPP);
}

#define LATER 30 /* the number of a bit that this library does not know */

/* The base of a later library, which knows more; and of a NIC with a clock page. */
static struct ibv_cq_ex *create_later(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex known = *attr;

	known.wc_flags &= ~(1ull << LATER | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	known.comp_mask &= ~(1u << LATER);
	known.flags &= ~(1u << LATER);
	return base_create(context, &known);
}

/* Its readers are not ours, or tell the time of another NIC: what uses such a CQ stays where it is, and says why. */
static void test_strange(void **state)
{
	const struct shape strange[] = {
		{.wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP},
		{.wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK},
		{.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | 1u << LATER, .later = true},
		{.cq_mask = 1u << LATER},
		{.cq_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .cq_flags = 1u << LATER},
	};
	struct mesh_held *h;
	int err;

	(void)state;
	base_create = world.mc->create_cq_ex;
	world.mc->create_cq_ex = create_later;
	for (size_t i = 0; i < 2 * sizeof(strange) / sizeof(strange[0]); i++) {
		open_hub(&bare_ex, &strange[i / 2]);
		end_open(&guarded, &world, &moved_ex, &(struct shape){.hub = &hub});
		/* At work, and when it is made. */
		if (i % 2)
			err = mesh_live_guard(world.mc, guarded.qp, &guarded_ops, NULL, GUARDED_MTU, &h);
		else
			err = mesh_held_new(world.mc, guarded.qp, &guarded_ops, NULL, &h);
		assert_int_equal(err, -EBUSY);
		assert_non_null(strstr(mesh_held_why_busy(world.mc, guarded.qp), "time stamps"));
		close_end(&guarded);
		close_end(&hub);
	}
	world.mc->create_cq_ex = base_create;
	/* What is known, and what is not named, is as ever. */
	open_hub(&bare_ex, &(struct shape){.cq_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .cq_flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED});
	open_guarded(&moved_ex, 0);
}

/* ---- between start_poll and end_poll ----------------------------------------------------------------------------- */

/* Who polls brings a queue pair to its end that was about to move to where he polls. */
static void test_ends_one_that_moves(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_moved();
	open_guarded(&moved_ex, 0);
	guarded_prepare(guarded.held);
	start_poll_shadow();
	alarm(PATIENCE);
	end_err(&guarded);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	end_poll_ex();
	assert_int_equal(world.mc->data.n_leftovers, 0);
}

/* The helper thread may have the lock that the program's thread is going to wait for: it must not wait for the poll to be over. */
static void test_released_elsewhere(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_moved();
	open_guarded(&moved_ex, 0);
	guarded_prepare(guarded.held);
	start_poll_shadow();
	in_a_thread(release_elsewhere);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	end_poll_ex();
	assert_int_equal(world.mc->data.n_leftovers, 0);
	guarded_prepare(guarded.held);
}

/* What is left of it goes before the program can destroy what it uses. */
static void test_left_until_destroyed(void **state)
{
	struct mesh_cq *cq;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	guarded_prepare(guarded.held);
	cq = cq_of_hub();
	mesh_lock(&cq->poll_lock);
	mesh_live_release(guarded.held);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	mesh_unlock(&cq->poll_lock);
	assert_int_equal(world.mc->data.n_leftovers, 1);
	close_end(&guarded);
	assert_int_equal(world.mc->data.n_leftovers, 0);
}

static void grows(bool shadow)
{
	/* Of a size that takes either, but not both, or not one. */
	open_hub(&bare_ex, &(struct shape){.cqe = shadow ? 200 : 63});
	open_moved();
	open_guarded(&moved_ex, 64);
	if (shadow) {
		start_poll_shadow();
	} else {
		write_nothing(&guarded, &guarded, 2);
		start_poll(2);
		assert_int_equal(cq_of_hub()->open, MESH_FROM_BASE);
		alarm(PATIENCE);
	}
	assert_int_equal(in_a_thread(prepare_elsewhere), -EBUSY);
	end_poll_ex();
	guarded_prepare(guarded.held);
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

static struct mv_move_sync sync_of_fence;

static void *fence_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_live_fence(guarded.held, true, &sync_of_fence);
}

/* libmlx5 looks at the CQ when it is to take a mark in a queue that is full. */
static void test_fence_of_a_full_one(void **state)
{
	struct mv_move_sync sync;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	open_bare(&bare_ex);
	guarded_prepare(guarded.held);
	while (!end_send_empty(&guarded, 0, IBV_SEND_SIGNALED)) /* nobody has posted a receive: it is not taken, and will be tried again for ever */
		;
	write_nothing(&bare, &bare, 2);
	start_poll(2);
	alarm(PATIENCE);
	assert_int_equal(in_a_thread(fence_elsewhere), -EAGAIN);
	ibv_end_poll(hub.cq_ex);
	guarded_fence(guarded.held, false, &sync);
}

static void *end_elsewhere(void *arg)
{
	end_err(&guarded);
	return arg;
}

static void *wait_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_live_waits(guarded.held);
}

#define RECEIVE 4711u /* wr_id of all of them */

static _Atomic uint64_t n_receives;

/* The last one is not taken, as libmlx5 says when it has looked at the CQ. */
static void *receive_elsewhere(void *arg)
{
	while (!end_recv(&guarded, RECEIVE, 0, 64))
		n_receives++;
	return arg;
}

static uint64_t n_given, n_received; /* so many of @guarded's sends have been flushed, in order; and of its receives */

static void given(uint64_t wr_id, enum ibv_wc_status status)
{
	assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
	if (wr_id == RECEIVE)
		n_received++;
	else
		assert_int_equal(wr_id, n_given++);
}

/* Nobody receives, so @guarded's queue is full, and a poll is open of which another's completion is the first. Return: how many it took */
static uint64_t open_full(void)
{
	uint64_t n = 0;

	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	open_bare(&bare_ex);
	guarded_prepare(guarded.held);
	while (!end_send_empty(&guarded, n, IBV_SEND_SIGNALED))
		n++;
	write_nothing(&bare, &bare, 2);
	start_poll(2);
	alarm(PATIENCE);
	return n;
}

/*
 * Nobody posts to a queue that may be full: not what waited since the fence began, nor what comes now, whoever ends it, or looks whether
 * something waits. When the poll is over all is flushed.
 */
static void ends_a_full_one(bool elsewhere)
{
	uint64_t move_ns = mesh_root.move_times.move_ns, n = open_full();
	pthread_t receiver;
	struct ibv_wc wc;

	assert_int_equal(cq_of_hub()->open, MESH_FROM_BASE);
	mesh_root.move_times.move_ns = 200000000;
	assert_int_equal(in_a_thread(fence_elsewhere), -EAGAIN);
	assert_int_equal(end_send_empty(&guarded, n++, IBV_SEND_SIGNALED), 0);
	if (elsewhere)
		in_a_thread(end_elsewhere);
	else
		end_err(&guarded);
	mesh_root.move_times.move_ns = move_ns;
	guarded.qp->state = IBV_QPS_ERR;
	assert_int_equal(guarded.held->queue.n, 1);
	assert_int_equal(end_send_empty(&guarded, n++, IBV_SEND_SIGNALED), 0);
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
		wc = end_wait(&guarded);
		given(wc.wr_id, wc.status);
	}
	end_quiet(&guarded);
	assert_false(mesh_live_waits(guarded.held));
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
	assert_int_equal(in_a_thread(fence_elsewhere), -EAGAIN);
	for (i = 0; i < 2; i++)
		assert_int_equal(end_send_empty(&guarded, n++, IBV_SEND_SIGNALED), 0);
	end_err(&guarded);
	guarded.qp->state = IBV_QPS_ERR;
	ibv_end_poll(hub.cq_ex);
	assert_int_equal(guarded.held->queue.n, 2); /* there is room for one when the first is polled */
	n_given = n_received = 0;
	assert_int_equal(sem_init(&posts, 0, 0), 0);
	real_post_send = world.mc->post_send;
	world.mc->post_send = post_slowly;
	assert_int_equal(pthread_create(&helper, NULL, wait_elsewhere, NULL), 0);
	sem_wait(&posts);
	assert_int_equal(pthread_create(&poller, NULL, polls_cancelled, NULL), 0);
	assert_int_equal(pthread_join(poller, &ended), 0);
	assert_null(ended);
	assert_int_equal(pthread_join(helper, NULL), 0);
	world.mc->post_send = real_post_send;
	while (n_given < n) {
		wc = end_wait(&guarded);
		given(wc.wr_id, wc.status);
	}
	end_quiet(&guarded);
	sem_destroy(&posts);
}

static uint64_t n_sent, n_done;

static int write_to_itself(void)
{
	struct ibv_send_wr wr = {.wr_id = n_sent, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	return end_send(&guarded, &wr);
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
	open_guarded(&moved_ex, 0);
	guarded_prepare_loop(guarded.held, PSN);
	guarded_fence(guarded.held, true, &sync);
	assert_int_equal(mesh_live_replay(guarded.held, sync.next_psn, sync.n_received, 4, NULL), 0);
	if (ended) {
		end_err(&guarded);
		guarded.qp->state = IBV_QPS_ERR;
	} else {
		guarded.held->guard->lost = "a test wants it so";
	}
	for (n_sent = 0; !write_to_itself(); n_sent++)
		;
	assert_int_equal(guarded.held->queue.n, 0);
	start_poll(0);
	alarm(PATIENCE);
	assert_int_equal(pthread_create(&writer, NULL, write_elsewhere, NULL), 0);
	usleep(100000);
	for (n_done = 1; !ibv_next_poll(hub.cq_ex); n_done++) {
		assert_int_equal(hub.cq_ex->wr_id, n_done);
		assert_int_equal(hub.cq_ex->status, status);
	}
	ibv_end_poll(hub.cq_ex);
	assert_int_equal(pthread_join(writer, NULL), 0);
	for (; n_done < n_sent; n_done++) {
		wc = end_wait(&guarded);
		assert_int_equal(wc.wr_id, n_done);
		assert_int_equal(wc.status, status);
	}
	end_quiet(&guarded);
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
	if (!mesh_trylock(&guarded.held->lock)) {
		n_locked++;
	} else {
		n_free++;
		mesh_unlock(&guarded.held->lock);
	}
	return real_post_send(qp, wr, bad);
}

static void count_posts(void)
{
	n_locked = n_free = 0;
	real_post_send = world.mc->post_send;
	world.mc->post_send = post_counted;
}

/* What cannot be noted is posted without it, from the one behind the first on, in the same list or not. */
static void test_left_from_the_next_on(void **state)
{
	struct ibv_send_wr last = {.wr_id = 2, .opcode = IBV_WR_SEND}, first = {.wr_id = 1, .next = &last, .opcode = IBV_WR_LOCAL_INV}, *bad;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	assert_int_equal(end_send_empty(&guarded, 0, IBV_SEND_SIGNALED), 0); /* nobody has posted a receive: nothing comes of it all */
	count_posts();
	assert_int_equal(ibv_post_send(guarded.qp, &first, &bad), 0);
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_free, 1);
	assert_int_equal(ibv_post_send(guarded.qp, &last, &bad), 0);
	world.mc->post_send = real_post_send;
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_free, 2);
}

/* Also while atomics wait for a move that will not be: there are none. */
static void test_left_while_quiet(void **state)
{
	struct ibv_sge sge = {(uintptr_t)guarded.buf, 8, 0};
	struct ibv_send_wr add = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr last = {.wr_id = 3, .opcode = IBV_WR_SEND}, first = {.wr_id = 2, .opcode = IBV_WR_LOCAL_INV}, *bad;

	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	sge = (struct ibv_sge){(uintptr_t)guarded.buf, 8, guarded.mr->lkey};
	add.wr.atomic.remote_addr = (uintptr_t)guarded.buf;
	add.wr.atomic.rkey = guarded.mr->rkey;
	assert_int_equal(end_send_empty(&guarded, 0, IBV_SEND_SIGNALED), 0); /* as above */
	assert_int_equal(ibv_post_send(guarded.qp, &add, &bad), 0);
	assert_false(mesh_live_quiesce(guarded.held));
	count_posts();
	assert_int_equal(ibv_post_send(guarded.qp, &first, &bad), 0);
	assert_int_equal(ibv_post_send(guarded.qp, &last, &bad), 0);
	world.mc->post_send = real_post_send;
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
	world.mc->bind_mw = bind_counted;
	n_bound = 0;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	assert_int_equal(bind_window(hub.qp), 0); /* not held */
	assert_int_equal(n_bound, 1);
	open_guarded(&moved_ex, 0);
	assert_int_equal(end_send_empty(&guarded, 0, IBV_SEND_SIGNALED), 0); /* nobody has posted a receive: nothing comes of it all */
	assert_null(guarded.held->guard->lost);
	/* What waits for a move that will not be goes first. */
	sge = (struct ibv_sge){(uintptr_t)guarded.buf, 8, guarded.mr->lkey};
	add.wr.atomic.remote_addr = (uintptr_t)guarded.buf;
	add.wr.atomic.rkey = guarded.mr->rkey;
	assert_int_equal(ibv_post_send(guarded.qp, &add, &bad), 0);
	assert_false(mesh_live_quiesce(guarded.held));
	count_posts();
	assert_int_equal(ibv_post_send(guarded.qp, &add, &bad), 0);
	assert_int_equal(n_locked + n_free, 0);
	assert_int_equal(bind_window(guarded.qp), 0);
	world.mc->post_send = real_post_send;
	assert_int_equal(n_locked, 1);
	assert_int_equal(n_bound, 2);
	assert_ptr_equal(guarded.held->guard->lost, mesh_guard_kind);
	assert_int_equal(guarded_fence_ends(guarded.held, true, &sync), -EOPNOTSUPP);
	open_moved();
	assert_int_equal(bind_window(from.qp), EOPNOTSUPP);
	assert_int_equal(n_bound, 2);
}

/* Nor is anything else that only the base could do. */
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

/* ---- what comes into the stash meanwhile ------------------------------------------------------------------------- */

static int (*real_start_poll)(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
static int (*real_poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static bool stash_it;

/* As a move does that comes to its end. */
static void stash(uint64_t wr_id)
{
	const struct ibv_wc wc = {.wr_id = wr_id, .qp_num = guarded.qp->qp_num};
	struct mesh_cq *cq = cq_of_hub();

	mesh_lock(&cq->lock);
	assert_int_equal(mesh_cq_stash_reserve(cq, 8), 0);
	mesh_cq_stash(cq, &wc);
	mesh_unlock(&cq->lock);
}

static int start_poll_meanwhile(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	int err = real_start_poll(ex, attr);

	if (!err && stash_it)
		stash(OURS);
	stash_it = false;
	return err;
}

static int poll_cq_meanwhile(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = real_poll_cq(cq, n, wc);

	if (got > 0 && stash_it)
		stash(OURS);
	stash_it = got <= 0 && stash_it;
	return got;
}

static void open_for_stash(uint64_t wc_flags)
{
	struct mesh_cq *cq;

	open_hub(&bare_ex, &(struct shape){.wc_flags = wc_flags});
	open_guarded(&moved_ex, 0);
	open_bare(&bare_ex);
	cq = cq_of_hub();
	real_start_poll = cq->base.start_poll;
	cq->base.start_poll = start_poll_meanwhile;
}

static void stash_at_next(void)
{
	stash_it = true;
}

/* What the stash says of queue pairs that are not ours is less than what their CQ says, and they have nothing there. */
static void test_others_stay(void **state)
{
	(void)state;
	open_for_stash(0);
	write_nothing(&bare, &bare, 1);
	usleep(10000);
	stash_at_next();
	start_poll(1);
	assert_int_equal(cq_of_hub()->source, MESH_FROM_BASE);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, OURS);
	end_poll_ex();
}

static uint32_t src_qp(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0x1234;
}

static uint32_t slid(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0x56;
}

static uint8_t sl(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 7;
}

static uint8_t dlid_path_bits(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 8;
}

/* What goes behind it says the same there, of all that can be kept. */
static void test_goes_behind(void **state)
{
	struct mesh_cq *cq;

	(void)state;
	open_for_stash(NAMED | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS);
	cq = cq_of_hub();
	cq->base.read_src_qp = src_qp;
	cq->base.read_slid = slid;
	cq->base.read_sl = sl;
	cq->base.read_dlid_path_bits = dlid_path_bits;
	write_nothing(&guarded, &guarded, 1);
	usleep(10000);
	stash_at_next();
	start_poll(OURS);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, 1);
	assert_int_equal(cq->source, MESH_FROM_STASH);
	assert_int_equal(ibv_wc_read_opcode(hub.cq_ex), IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_wc_read_qp_num(hub.cq_ex), guarded.qp->qp_num);
	assert_int_equal(ibv_wc_read_src_qp(hub.cq_ex), 0x1234);
	assert_int_equal(ibv_wc_read_slid(hub.cq_ex), 0x56);
	assert_int_equal(ibv_wc_read_sl(hub.cq_ex), 7);
	assert_int_equal(ibv_wc_read_dlid_path_bits(hub.cq_ex), 8);
	end_poll_ex();
}

/* A poll is not over before what is in the CQ has been shown, too. */
static void shows_the_rest(struct end *e, const struct end *peer, enum mesh_cq_source source)
{
	write_nothing(e, peer, 1);
	write_nothing(e, peer, 2);
	usleep(10000);
	start_poll(1);
	assert_int_equal(cq_of_hub()->source, source);
	stash(OURS);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, OURS);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, 2);
	end_poll_ex();
}

static void test_shows_the_rest(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_guarded(&moved_ex, 0);
	open_bare(&bare_ex);
	shows_the_rest(&bare, &bare, MESH_FROM_BASE);
	shows_the_rest(&bare, &bare, MESH_FROM_BASE); /* whoever comes first */
	open_moved();
	shows_the_rest(&from, &to, MESH_FROM_SHADOW);
	shows_the_rest(&from, &to, MESH_FROM_SHADOW);
}

static int poll_plain(int n, struct ibv_wc *wc)
{
	int got = 0;
	unsigned int i;

	for (i = 0; !got && i < PATIENCE * 1000; i++) {
		got = mesh_poll_properly(hub.cq, n, wc);
		if (!got)
			usleep(1000);
	}
	return got;
}

static void poll_behind(struct end *e, uint64_t first, uint64_t second)
{
	struct ibv_wc wc;

	write_nothing(e, e, 1);
	usleep(10000);
	stash_at_next();
	assert_int_equal(poll_plain(1, &wc), 1);
	assert_int_equal(wc.wr_id, first);
	assert_int_equal(poll_plain(1, &wc), 1);
	assert_int_equal(wc.wr_id, second);
}

static void test_plain_behind(void **state)
{
	(void)state;
	open_hub(&bare_plain, &(struct shape){0});
	open_guarded(&moved_plain, 0);
	open_bare(&bare_plain);
	/* From now on our functions poll it. */
	mesh_lock(&world.mc->data.lock);
	mesh_cq_use(cq_of_hub());
	mesh_data_slots(world.mc);
	mesh_unlock(&world.mc->data.lock);
	real_poll_cq = world.mc->poll_cq;
	world.mc->poll_cq = poll_cq_meanwhile;
	poll_behind(&guarded, OURS, 1);
	poll_behind(&bare, 1, OURS);
	world.mc->poll_cq = real_poll_cq;
}

/* Of a queue pair that fails with more waiting than there is room for, all that was asked for is given. */
static void test_all_that_was_asked_for(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct mesh_cq *cq;
	struct ibv_wc wc[8];
	unsigned int i;

	(void)state;
	open_hub(&moved_plain, &(struct shape){0});
	end_open(&from, &world, &moved_plain, &(struct shape){.hub = &hub});
	end_rtr(&from, &hub, &(struct shape){0});
	from.qp->state = IBV_QPS_RTS;
	mesh_held_fail(from.held, IBV_WC_RETRY_EXC_ERR);
	cq = cq_of_hub();
	mesh_lock(&cq->lock);
	cq->stash_kept = cq->stash_size - 1; /* others have the rest */
	mesh_unlock(&cq->lock);
	for (i = 0; i < 4; i++) {
		wr.wr_id = i;
		assert_int_equal(ibv_post_send(from.qp, &wr, &bad), 0);
	}
	assert_int_equal(cq->n_stash, 1);
	assert_int_equal(poll_plain(8, wc), 4);
	for (i = 0; i < 4; i++) {
		assert_int_equal(wc[i].wr_id, i);
		assert_int_equal(wc[i].status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	}
	cq->stash_kept = 0;
}

/* ---- in the middle of a batch ------------------------------------------------------------------------------------ */

static const struct manner moved_builders = {.how = MOVED, .builders = true};

static void *fence_on_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_live_fence(guarded.held, false, &sync_of_fence);
}

static void *replay_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_live_replay(guarded.held, sync_of_fence.next_psn, sync_of_fence.n_received, 4, NULL);
}

/* @err: what the fence said when it was begun. */
static void fence_is_done_elsewhere(int err)
{
	unsigned int i;

	for (i = 0; err == -EAGAIN && i < PATIENCE * 100; i++) {
		usleep(1000);
		err = in_a_thread(fence_on_elsewhere);
	}
	assert_int_equal(err, 0);
}

/* From now on the batches are ours. */
static void open_builders(void)
{
	open_hub(&bare_plain, &(struct shape){.cqe = 1000});
	open_guarded(&moved_builders, 0);
	guarded_prepare_loop(guarded.held, PSN);
	alarm(PATIENCE);
}

static void build_write(uint64_t wr_id, uint64_t what)
{
	struct ibv_qp_ex *qp = guarded.qp_ex;

	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, guarded.mr->rkey, (uintptr_t)&guarded.buf[8 * wr_id]);
	ibv_wr_set_inline_data(qp, &what, sizeof(what));
}

static void assert_written(uint64_t wr_id, uint64_t what)
{
	struct ibv_wc wc = end_wait(&guarded);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)&guarded.buf[8 * wr_id], what);
}

/* Whoever fences, or puts another queue in the place of the one in which the batch is being built, does not wait for its end. */
static void test_batch_through_a_move(void **state)
{
	unsigned int i;

	(void)state;
	open_builders();
	ibv_wr_start(guarded.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(in_a_thread(fence_elsewhere), -EAGAIN);
	assert_int_equal(in_a_thread(fence_on_elsewhere), -EAGAIN);
	build_write(2, 0x2222);
	assert_int_equal(ibv_wr_complete(guarded.qp_ex), 0);
	fence_is_done_elsewhere(-EAGAIN);
	ibv_wr_start(guarded.qp_ex);
	build_write(3, 0x3333);
	assert_int_equal(in_a_thread(replay_elsewhere), 0);
	build_write(4, 0x4444);
	assert_int_equal(ibv_wr_complete(guarded.qp_ex), 0);
	for (i = 1; i <= 4; i++)
		assert_written(i, i * 0x1111);
	/* And so does one that comes to nothing, or is all in the new one. */
	ibv_wr_start(guarded.qp_ex);
	build_write(5, 0);
	ibv_wr_abort(guarded.qp_ex);
	ibv_wr_start(guarded.qp_ex);
	build_write(6, 0x6666);
	assert_int_equal(ibv_wr_complete(guarded.qp_ex), 0);
	assert_written(6, 0x6666);
}

/* What the batch was built in is not needed any more. */
static void test_batch_aborted(void **state)
{
	(void)state;
	open_builders();
	fence_is_done_elsewhere(in_a_thread(fence_elsewhere));
	ibv_wr_start(guarded.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(in_a_thread(replay_elsewhere), 0);
	ibv_wr_abort(guarded.qp_ex);
	ibv_wr_start(guarded.qp_ex);
	build_write(2, 0x2222);
	assert_int_equal(ibv_wr_complete(guarded.qp_ex), 0);
	assert_written(2, 0x2222);
}

static void *begins_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	ibv_wr_start(guarded.qp_ex);
	ibv_wr_abort(guarded.qp_ex);
	return arg;
}

/* Nor is beginning a batch a place where threads are cancelled, also where somebody wants to stop posting. */
static void test_begins_cancelled(void **state)
{
	(void)state;
	open_builders();
	mesh_held_want_stop(guarded.held);
	assert_int_equal(in_a_thread(begins_cancelled), 0);
	assert_false(atomic_load(&guarded.held->stop_wanted));
}

/* Who is in the batch may do that. */
static void test_ends_in_own_batch(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_builders();
	ibv_wr_start(guarded.qp_ex);
	build_write(1, 0x1111);
	end_err(&guarded);
	assert_int_equal(ibv_wr_complete(guarded.qp_ex), 0);
	wc = end_wait(&guarded);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_named_unasked), T(test_nameless), T(test_strange),
		T(test_ends_one_that_moves), T(test_released_elsewhere), T(test_left_until_destroyed),
		T(test_grows), T(test_grows_shadow), T(test_fence_of_a_full_one), T(test_ends_a_full_one), T(test_full_one_is_ended),
		T(test_begins_while_posted), T(test_posts_unnoted), T(test_posts_to_an_ended_one), T(test_begins_cancelled), T(test_left_from_the_next_on), T(test_left_while_quiet), T(test_window), T(test_refused),
		T(test_others_stay), T(test_goes_behind), T(test_shows_the_rest),
		T(test_plain_behind), T(test_all_that_was_asked_for), T(test_batch_through_a_move), T(test_batch_aborted),
		T(test_ends_in_own_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
