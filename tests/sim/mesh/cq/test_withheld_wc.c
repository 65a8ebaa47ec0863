// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Errors that are withheld from the program until it is known how a move ends, in a host of the simulator, where
 * nothing was made in advance: who sleeps until there is a completion event is woken when they are given, and what the
 * program is told of the state fits.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "connstatus.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

#define NOBODY   0xfffff0u /* no queue pair has this number */
#define QUIET    100

static struct end e;
static struct mesh_vqp *h;
static _Atomic unsigned int n_failed;

static void path_failed(void *arg)
{
	(void)arg;
	atomic_fetch_add(&n_failed, 1);
}

/* There is no helper thread here. */
static struct mv_ctl_msg sent[4];
static unsigned int n_sent;

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_wake(bool urgent);

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	assert_true(n_sent < sizeof(sent) / sizeof(*sent));
	sent[n_sent++] = *msg;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

static const struct manner noted = {.how = MOVED}, extended = {.how = MOVED, .extended = true};
static const struct mesh_vqp_ops ops = {.path_failed = path_failed};

static void begin_as(const struct manner *manner, const struct shape *shape)
{
	struct ibv_qp_attr rts = world_rts(0);

	rts.timeout = 8;
	rts.retry_cnt = 1;
	end_open(&e, &world, manner, shape);
	tracked_rtr(&e, &ops, world_rtr(&world, false, NOBODY, 0), &h);
	tracked_rts(&e, h, rts);
}

static void begin(const struct shape *shape)
{
	begin_as(&noted, shape);
}

static int setup(void **state)
{
	world_setup(state);
	mesh_root.config.survive = true;
	n_failed = n_sent = 0;
	h = NULL;
	memset(&e, 0, sizeof(e));
	return 0;
}

static int teardown(void **state)
{
	if (h)
		mesh_vqp_destroy(h);
	if (e.mr)
		end_close(&e);
	return world_teardown(state);
}

static void send_one(uint64_t wr_id)
{
	assert_int_equal(end_send_empty(&e, wr_id, IBV_SEND_SIGNALED), 0);
}

static void arm(void)
{
	assert_int_equal(ibv_req_notify_cq(e.cq, 0), 0);
}

/* Its queue pair fails, it is woken by that and looks, and there is nothing. */
static void break_it(void)
{
	struct ibv_wc wc;
	unsigned int ms;

	arm();
	send_one(1);
	send_one(2);
	assert_true(end_event(&e, PATIENCE_MS));
	for (ms = 0; h->tracker->n_withheld < 2 && ms < PATIENCE_MS; ms++) {
		assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
		usleep(1000);
	}
	assert_int_equal(h->tracker->n_withheld, 2);
	assert_int_equal(n_failed, 1);
	assert_null(h->send_cq->notify.qp); /* nothing was made in advance */
}

/* Arming makes an event if completions are left, so events may come for a while. */
static void sleep_now(void)
{
	do
		arm();
	while (end_event(&e, QUIET));
}

static void fail_and_sleep(void)
{
	break_it();
	sleep_now();
}

static void assert_given(void)
{
	struct ibv_wc wc;

	arm();
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
}

static void wakes(const struct shape *shape)
{
	begin(shape);
	fail_and_sleep();
	mesh_failover_flush_errors(h);
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
}

static void test_wakes(void **state)
{
	(void)state;
	wakes(&(struct shape){0});
}

/* Where nothing is ever made in advance. */
static void test_wakes_srq(void **state)
{
	(void)state;
	wakes(&(struct shape){.srq = true});
}

static void test_wakes_who_ends_it(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	begin(&(struct shape){0});
	fail_and_sleep();
	assert_int_equal(mesh_vqp_modify(h, &attr, IBV_QP_STATE), 0);
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
}

/* By then the errors are where no event comes from. */
static void test_wakes_who_arms_late(void **state)
{
	(void)state;
	begin(&(struct shape){.srq = true});
	break_it();
	mesh_failover_flush_errors(h);
	assert_false(end_event(&e, QUIET));
	arm();
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
}

/* What wakes is never seen, also when nothing of ours is left. */
static void test_nothing_is_left(void **state)
{
	(void)state;
	begin(&(struct shape){0});
	fail_and_sleep();
	mesh_failover_flush_errors(h);
	assert_true(end_event(&e, PATIENCE_MS));
	mesh_vqp_destroy(h);
	h = NULL;
	end_quiet(&e);
}

/* A program that brings what is well to its end costs nothing more. */
static void test_no_more_than_needed(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	begin(&(struct shape){0});
	assert_int_equal(mesh_vqp_modify(h, &attr, IBV_QP_STATE), 0);
	assert_null(h->send_cq->notify.qp);
	assert_true(mesh_failover_wake(h));
	assert_null(h->send_cq->notify.qp);
}

static struct ibv_qp *no_memory(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	(void)pd;
	(void)init;
	errno = ENOMEM;
	return NULL;
}

static void test_woken_later(void **state)
{
	struct ibv_qp *(*real)(struct ibv_pd *, struct ibv_qp_init_attr *) = mesh_root.lib.verbs.create_qp;
	bool woken;

	(void)state;
	begin(&(struct shape){.srq = true});
	fail_and_sleep();
	mesh_root.lib.verbs.create_qp = no_memory;
	mesh_failover_flush_errors(h);
	woken = mesh_failover_wake(h);
	mesh_root.lib.verbs.create_qp = real;
	assert_false(woken);
	assert_false(end_event(&e, QUIET));
	assert_true(mesh_failover_wake(h));
	assert_true(end_event(&e, PATIENCE_MS));
	assert_given();
	sleep_now();
	assert_true(mesh_failover_wake(h));
	assert_false(end_event(&e, QUIET));
}

/* ---- the state ------------------------------------------------------------------------------------------------- */

/* As connect.c has it; the queue pair's end is its own, too. */
static struct mesh_conn *connection(void)
{
	struct mesh_conn *conn = mesh_conn_new(world.mc, e.qp);

	assert_non_null(conn);
	conn->state = MESH_CONN_PASSTHROUGH;
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts_mask = RTS_MASK;
	conn->vqp = h;
	h = NULL;
	return conn;
}

static enum ibv_qp_state state_of(bool device)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (device) {
		assert_int_equal(world.mc->lower.qp.query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
		return attr.qp_state;
	}
	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, attr.cur_qp_state);
	assert_int_equal(attr.qp_state, e.qp->state);
	return attr.qp_state;
}

static void wait_until_it_failed(void)
{
	unsigned int ms;

	for (ms = 0; state_of(true) != IBV_QPS_ERR && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(state_of(true), IBV_QPS_ERR);
}

static void test_state_of_withheld(void **state)
{
	struct mesh_conn *conn;
	struct ibv_wc wc;

	(void)state;
	begin(&(struct shape){0});
	conn = connection();
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	send_one(1);
	send_one(2);
	wait_until_it_failed();
	/* Before anybody polls, and afterwards. */
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	assert_int_equal(n_failed, 1);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	conn->attr.rts_mask = 0;
	assert_int_equal(state_of(false), IBV_QPS_RTR);
	conn->attr.rts_mask = RTS_MASK;
	mesh_failover_flush_errors(conn->vqp);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	assert_given();
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

static void test_state_while_drained(void **state)
{
	struct mv_move_sync sync;
	struct mesh_conn *conn;
	unsigned int ms;
	int err;

	(void)state;
	begin(&(struct shape){0});
	conn = connection();
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	tracked_prepare(conn->vqp);
	err = mesh_failover_drain(conn->vqp, true, &sync);
	for (ms = 0; err == -EAGAIN && ms < PATIENCE_MS; ms++) {
		assert_int_equal(state_of(true), IBV_QPS_ERR);
		assert_int_equal(state_of(false), IBV_QPS_RTS);
		usleep(1000);
		err = mesh_failover_drain(conn->vqp, false, &sync);
	}
	assert_int_equal(err, 0);
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	mesh_failover_flush_errors(conn->vqp);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

/* The next one is its own peer, so that what it does shows. */
static struct mesh_conn *drained_connection(void)
{
	struct mesh_conn *conn = connection();
	struct mv_move_sync sync;

	tracked_prepare_loop(conn->vqp, 0x77);
	tracked_drain(conn->vqp, true, &sync);
	return conn;
}

static void assert_works_without_a_peer(struct mesh_conn *conn)
{
	struct ibv_wc wc;
	int i;

	end_quiet(&e);
	assert_int_equal(state_of(false), IBV_QPS_RTS);
	assert_int_equal(conn->state, MESH_CONN_MOVED);
	assert_string_equal(mesh_conn_bound(conn), "the peer's QP is gone");
	assert_int_equal(end_send_empty(&e, 8, IBV_SEND_SIGNALED), 0);
	for (i = 0; i < 2; i++) {
		wc = end_wait(&e);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, wc.opcode & IBV_WC_RECV ? 7 : 8);
	}
	assert_int_equal(end_recv(&e, 9, 0, 64), 0);
	end_quiet(&e);
}

/* The peer leaves, or is killed, between drain and SYNC: who has nothing under way but receives does not notice. */
static void leaves_drained(enum mv_ctl_reason reason, bool timed_out)
{
	const struct mv_move_action flush = {
		.type = MV_DO_FLUSH, .reason = reason, .timed_out = timed_out};
	struct mesh_conn *conn;

	begin(&(struct shape){0});
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	conn = drained_connection();
	assert_true(mesh_conn_failover(conn, &flush, mesh_now_ns()));
	assert_works_without_a_peer(conn);
	mesh_conn_put(conn);
}

static void test_peer_leaves(void **state)
{
	(void)state;
	leaves_drained(MV_CTL_REASON_GONE, false);
}

static void test_peer_is_silent(void **state)
{
	(void)state;
	leaves_drained(MV_CTL_REASON_TIMEOUT, true);
}

/* It said how far it came, and left while we were draining. */
static void test_peer_leaves_with_a_word(void **state)
{
	struct mv_move_action activate = {.type = MV_DO_ACTIVATE, .replay = true};
	struct mesh_conn *conn;

	(void)state;
	begin(&(struct shape){0});
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	conn = drained_connection();
	mesh_conn_peer_gone(conn);
	assert_null(mesh_failover_lost(conn->vqp)); /* else the drain would not be hidden */
	assert_true(mesh_conn_failover(conn, &activate, mesh_now_ns()));
	assert_works_without_a_peer(conn);
	mesh_conn_put(conn);
}

/* What was under way may have been done or not, and nobody will know: that is an error, as on a path that is gone. */
static void test_peer_leaves_a_send(void **state)
{
	const struct mv_move_action flush = {.type = MV_DO_FLUSH, .reason = MV_CTL_REASON_GONE};
	struct mesh_conn *conn;
	struct ibv_wc wc;

	(void)state;
	begin(&(struct shape){0});
	conn = drained_connection();
	assert_int_equal(end_send_empty(&e, 8, IBV_SEND_SIGNALED), 0); /* it waits */
	assert_true(mesh_conn_failover(conn, &flush, mesh_now_ns()));
	wc = end_wait(&e);
	assert_int_equal(wc.wr_id, 8);
	assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	mesh_conn_put(conn);
}

/* Sends that nobody hears of stay in the log until a signaled one is done; those that were not flushed are, whatever the peer would say. */
static void test_peer_leaves_after_silent_sends(void **state)
{
	const struct mv_move_action flush = {.type = MV_DO_FLUSH, .reason = MV_CTL_REASON_GONE};
	struct mv_move_sync sync;
	struct mesh_conn *conn;

	(void)state;
	end_open(&e, &world, &extended, &(struct shape){0});
	tracked_rtr(&e, &ops, world_rtr(&world, false, e.qp->qp_num, 0x77), &h);
	tracked_rts(&e, h, world_rts(0x77));
	assert_int_equal(end_recv(&e, 9, 0, 64), 0);
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	assert_int_equal(end_send_empty(&e, 8, 0), 0);
	assert_int_equal(end_wait(&e).wr_id, 9);
	tracked_prepare_loop(h, 0x77);
	tracked_drain(h, true, &sync);
	assert_int_equal(mv_wrlog_count(&h->tracker->sends.log), 1);
	conn = connection();
	assert_true(mesh_conn_failover(conn, &flush, mesh_now_ns()));
	assert_works_without_a_peer(conn);
	mesh_conn_put(conn);
}

/* They are done, and have no errors to get: the first one that was flushed is. */
static void test_peer_leaves_a_send_after_silent_ones(void **state)
{
	const struct mv_move_action flush = {.type = MV_DO_FLUSH, .reason = MV_CTL_REASON_GONE};
	struct mv_move_sync sync;
	struct mesh_conn *conn;
	struct ibv_wc wc;
	int i;

	(void)state;
	end_open(&e, &world, &extended, &(struct shape){0});
	tracked_rtr(&e, &ops, world_rtr(&world, false, e.qp->qp_num, 0x77), &h);
	tracked_rts(&e, h, world_rts(0x77));
	for (i = 1; i <= 3; i++) {
		assert_int_equal(end_recv(&e, (uint64_t)i, 0, 64), 0);
		assert_int_equal(end_send_empty(&e, (uint64_t)(10 + i), 0), 0);
		assert_int_equal(end_wait(&e).wr_id, i);
	}
	assert_int_equal(end_send_empty(&e, 14, IBV_SEND_SIGNALED), 0); /* there is no receive for it */
	tracked_prepare_loop(h, 0x77);
	tracked_drain(h, true, &sync);
	assert_int_equal(mv_wrlog_count(&h->tracker->sends.log), 4);
	assert_int_equal(h->tracker->n_undone, 1);
	conn = connection();
	assert_true(mesh_conn_failover(conn, &flush, mesh_now_ns()));
	wc = end_wait(&e);
	assert_int_equal(wc.wr_id, 14);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	end_quiet(&e);
	mesh_conn_put(conn);
}

/*
 * A SEND to itself has arrived, and a receive is left. The peer, if it is another, may have drained, and asks what was
 * executed.
 */
static struct mesh_conn *one_received(void)
{
	struct ibv_wc wc;
	int i;

	end_open(&e, &world, &noted, &(struct shape){0});
	tracked_rtr(&e, &ops, world_rtr(&world, false, e.qp->qp_num, 0x77), &h);
	tracked_rts(&e, h, world_rts(0x77));
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	assert_int_equal(end_recv(&e, 9, 0, 64), 0);
	assert_int_equal(end_send_empty(&e, 8, IBV_SEND_SIGNALED), 0);
	for (i = 0; i < 2; i++) {
		wc = end_wait(&e);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	tracked_prepare(h);
	return connection();
}

static void assert_last_word(struct mesh_conn *conn)
{
	struct mv_move_sync sync;

	assert_int_equal(mesh_failover_last_word(conn->vqp, &sync), 0);
	assert_int_equal(sync.next_psn, 0x78);
	assert_int_equal(sync.n_received, 1);
	assert_int_equal(state_of(true), IBV_QPS_ERR);
	end_quiet(&e);
}

/* The program brings it to ERR: what is flushed comes once, and as that. */
static void ends_with_a_word(bool begun)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct mesh_conn *conn = one_received();
	struct mv_move_sync sync;
	struct ibv_wc wc;

	if (begun)
		assert_int_equal(mesh_failover_drain(conn->vqp, true, &sync), -EAGAIN);
	assert_last_word(conn);
	assert_int_equal(mesh_vqp_modify(conn->vqp, &attr, IBV_QP_STATE), 0);
	wc = end_wait(&e);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

static void test_last_word(void **state)
{
	(void)state;
	ends_with_a_word(false);
}

static void test_last_word_while_draining(void **state)
{
	(void)state;
	ends_with_a_word(true);
}

/* The peer has our answer, and may have drained; here nothing has been yet. */
static void leaves(enum ibv_qp_state to)
{
	const struct mv_move_begin move = {.local.qpn = 2, .peer.qpn = 1, .attempt = 1};
	struct ibv_qp_attr attr = {.qp_state = to};
	struct mesh_conn *conn = one_received();

	mv_move_adopt(&conn->move, &move, 0x77, &mv_move_default_times, mesh_now_ns());
	conn->move.attempts.peer = 3;
	conn->move.call_off.settled = conn->move.state;
	conn->move.state = MV_MOVE_ANSWERED;
	conn->move.failover = true;
	conn->move.next.offer = 5;
	assert_int_equal(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE), 0);
	assert_true(n_sent >= 1);
	assert_int_equal(sent[0].type, MV_CTL_SYNC);
	assert_int_equal(sent[0].request_id, 5);
	assert_int_equal(sent[0].next_psn, 0x78);
	assert_int_equal(sent[0].n_received, 1);
	mesh_conn_put(conn);
}

static void test_leaves_by_reset(void **state)
{
	(void)state;
	leaves(IBV_QPS_RESET);
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent[1].type, MV_CTL_BYE);
	end_quiet(&e);
}

static void test_leaves_by_error(void **state)
{
	struct ibv_wc wc;

	(void)state;
	leaves(IBV_QPS_ERR);
	wc = end_wait(&e);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
}

/* The program's own wish, and what no path would help against. */
static void test_state_of_the_programs(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct mesh_conn *conn;

	(void)state;
	begin(&(struct shape){0});
	conn = connection();
	assert_int_equal(world.mc->lower.qp.modify_qp(e.qp, &attr, IBV_QP_STATE), 0); /* as a device does by itself */
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	e.qp->state = IBV_QPS_RTS;
	assert_int_equal(mesh_vqp_modify(conn->vqp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(state_of(false), IBV_QPS_ERR);
	mesh_conn_put(conn);
}

static _Atomic unsigned int n_posted;

static void *post_until_full(void *arg)
{
	int err;

	(void)arg;
	while (!(err = end_send_empty(&e, 3, IBV_SEND_SIGNALED)))
		atomic_fetch_add(&n_posted, 1);
	return (void *)(intptr_t)err;
}

/*
 * libmlx5 looks at the CQ when the queue is full, and waits for who polls an extended one; he is not to wait for the one who posts, also
 * where what is posted is not noted any more.
 */
static void test_full_behind_an_open_poll(void **state)
{
	const struct shape large = {.cqe = 1024};
	struct ibv_poll_cq_attr attr = {0};
	unsigned int ms, before;
	pthread_t thread;
	void *result;

	(void)state;
	begin_as(&extended, &large);
	mesh_lock(&h->lock);
	h->tracker->lost = "this test says so";
	mesh_unlock(&h->lock);
	send_one(1);
	send_one(2);
	for (ms = 0; ibv_start_poll(e.cq_ex, &attr) == ENOENT && ms < PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(e.cq_ex->wr_id, 1);
	assert_int_equal(e.cq_ex->status, IBV_WC_RETRY_EXC_ERR);
	n_posted = 0;
	assert_int_equal(pthread_create(&thread, NULL, post_until_full, NULL), 0);
	do {
		before = n_posted;
		usleep(QUIET * 1000);
	} while (!before || before != n_posted);
	alarm(PATIENCE_S);
	while (ibv_next_poll(e.cq_ex) == ENOENT) /* the rest is flushed by and by */
		;
	assert_int_equal(e.cq_ex->wr_id, 2);
	ibv_end_poll(e.cq_ex);
	assert_int_equal(pthread_join(thread, &result), 0);
	alarm(0);
	assert_int_equal((intptr_t)result, ENOMEM);
}

static void *end_it(void *arg)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)arg;
	return (void *)(intptr_t)ibv_modify_qp(e.qp, &attr, IBV_QP_STATE);
}

/* What the next one has received when the program ends it elsewhere, of which the peer is told that it has. */
static struct mesh_conn *next_has_received(void)
{
	static const struct manner builders = {.how = MOVED, .extended = true, .builders = true};
	struct ibv_send_wr silent = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_poll_cq_attr attr = {0};
	struct mv_move_sync sync;
	uint64_t i;

	end_open(&e, &world, &builders, &(struct shape){0});
	tracked_rtr(&e, &ops, world_rtr(&world, false, e.qp->qp_num, 0x77), &h);
	tracked_rts(&e, h, world_rts(0x77));
	for (i = 5; i < 8; i++)
		assert_int_equal(end_recv(&e, i, 0, 64), 0);
	assert_int_equal(end_send_empty(&e, 4, IBV_SEND_SIGNALED), 0);
	cq_wait_arrived(e.cq, 2);
	tracked_prepare_loop(h, 0x77);
	tracked_drain(h, true, &sync);
	assert_int_equal(ibv_start_poll(e.cq_ex, &attr), 0);
	assert_int_equal(ibv_post_send(h->next.shadow.qp, &silent, &bad), 0);
	cq_wait_arrived(h->next.shadow.qp->recv_cq, 1);
	return connection();
}

/* Between start_poll and end_poll the program posts, and does not wait for who waits for the end of that. */
static void test_posts_in_a_poll_while_ended(void **state)
{
	struct mesh_conn *conn = next_has_received();
	pthread_t thread;
	struct ibv_wc wc;
	uint64_t seen;
	void *ret;

	(void)state;
	seen = 1u << e.cq_ex->wr_id;
	assert_true(seen & 0x30);
	alarm(PATIENCE_S);
	assert_int_equal(pthread_create(&thread, NULL, end_it, NULL), 0);
	usleep(20000);
	send_one(3);
	ibv_end_poll(e.cq_ex);
	assert_int_equal(pthread_join(thread, &ret), 0);
	alarm(0);
	assert_null(ret);
	while (seen != 0xf8) {
		wc = end_wait(&e);
		assert_false(seen & 1u << wc.wr_id);
		seen |= 1u << wc.wr_id;
		assert_int_equal(wc.status, wc.wr_id >= 4 && wc.wr_id <= 6 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	}
	end_quiet(&e);
	mesh_conn_put(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_wakes),
		T(test_wakes_srq),
		T(test_wakes_who_ends_it),
		T(test_wakes_who_arms_late),
		T(test_nothing_is_left),
		T(test_no_more_than_needed),
		T(test_woken_later),
		T(test_state_of_withheld),
		T(test_state_while_drained),
		T(test_state_of_the_programs),
		T(test_peer_leaves),
		T(test_peer_is_silent),
		T(test_peer_leaves_with_a_word),
		T(test_peer_leaves_a_send),
		T(test_peer_leaves_after_silent_sends),
		T(test_peer_leaves_a_send_after_silent_ones),
		T(test_last_word),
		T(test_last_word_while_draining),
		T(test_leaves_by_reset),
		T(test_leaves_by_error),
		T(test_full_behind_an_open_poll),
		T(test_posts_in_a_poll_while_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
