// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One end of a move leaves while the other's errors are withheld from its program, in a host of the simulator: who has
 * nothing under way goes on, and the last word says what was received.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "connstatus.h"
#include "failover_exec.h"
#include "vqp_int.h"
#include "withheld_fixture.h"
#include "negotiateint.h"

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
	mesh_conn_carry_out(conn, &flush, mesh_now_ns());
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
	mesh_conn_carry_out(conn, &activate, mesh_now_ns());
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
	mesh_conn_carry_out(conn, &flush, mesh_now_ns());
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
	begin_looped(&extended);
	assert_int_equal(end_recv(&e, 9, 0, 64), 0);
	assert_int_equal(end_recv(&e, 7, 0, 64), 0);
	assert_int_equal(end_send_empty(&e, 8, 0), 0);
	assert_int_equal(end_wait(&e).wr_id, 9);
	tracked_prepare_loop(h, 0x77);
	tracked_drain(h, true, &sync);
	assert_int_equal(mv_wrlog_count(&h->tracker->sends.log), 1);
	conn = connection();
	mesh_conn_carry_out(conn, &flush, mesh_now_ns());
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
	begin_looped(&extended);
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
	mesh_conn_carry_out(conn, &flush, mesh_now_ns());
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

	begin_looped(&noted);
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

	begin_looped(&builders);
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
#define T(name) cmocka_unit_test_setup_teardown(name, withheld_setup, withheld_teardown)
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
		T(test_posts_in_a_poll_while_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
