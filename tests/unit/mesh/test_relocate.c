// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs that have failed wait for a path for a while, for whatever reason there is none, before the program gets their errors. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conn.h"
#include "heldint.h"
#include "live.h"
#include "paths.h"
#include "probed.h"
#include "reasons.h"
#include "relocate.h"

#define MS 1000000ull

uint64_t __wrap_mesh_now_ns(void);
int __wrap_mesh_thread_wake(bool urgent);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);

static uint64_t now_ns;

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

/* The paths that the directory has. */
static struct mesh_view view;

void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret);
bool __wrap_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries);

void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret)
{
	(void)request;
	*ret = view;
}

void __wrap_mesh_view_verdict(const struct mv_path_request *request, struct mesh_view *ret);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);

static bool unroutable; /* but for what the kernel had a way for */

void __wrap_mesh_view_verdict(const struct mv_path_request *request, struct mesh_view *ret)
{
	*ret = view;
	if (unroutable && !request->routed)
		ret->verdict = MV_PATH_APART;
}

static struct mv_ctl_msg sent;

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	sent = *msg;
}

/* Its turn has not come. */
static unsigned int n_submitted;
static bool no_workers, only_tries;

bool __wrap_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries)
{
	(void)c;
	(void)to;
	n_submitted++;
	only_tries = tries;
	return !no_workers;
}

/* What the base makes of it when its QP is to be connected. */
static int rtr_error, rts_error;
static unsigned int n_rtr, n_rts, n_native;
static uint8_t chosen_index, rtr_index;

void __wrap_mesh_paths_choose(struct mesh_context *mc, struct ibv_context *context_of, const struct ibv_ah_attr *ah,
			      enum mv_transport transport, bool sure, struct mesh_choice *ret);

void __wrap_mesh_paths_choose(struct mesh_context *mc, struct ibv_context *context_of, const struct ibv_ah_attr *ah,
			      enum mv_transport transport, bool sure, struct mesh_choice *ret)
{
	(void)mc;
	(void)context_of;
	(void)ah;
	(void)transport;
	assert_true(sure);
	*ret = (struct mesh_choice){.index = chosen_index};
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	(void)base;
	(void)mask;
	/* The kernel looks for the neighbour. */
	now_ns += rtr_error ? 1000 * MS : 0;
	n_rtr += attr->qp_state == IBV_QPS_RTR;
	if (attr->qp_state == IBV_QPS_RTR)
		rtr_index = attr->ah_attr.grh.sgid_index;
	n_rts += attr->qp_state == IBV_QPS_RTS;
	return attr->qp_state == IBV_QPS_RTS ? rts_error : rtr_error;
}

static bool in_batch;

bool __wrap_mesh_held_in_batch(const struct mesh_held *h);

bool __wrap_mesh_held_in_batch(const struct mesh_held *h)
{
	(void)h;
	return in_batch;
}

int __wrap_mesh_held_native(struct mesh_held *h);

int __wrap_mesh_held_native(struct mesh_held *h)
{
	(void)h;
	n_native++;
	return 0;
}

static void no_path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_held_ops ops = {.path_failed = no_path_failed};
static struct mesh_process process;
static struct mesh_context context;
static struct ibv_cq ibv_cq;
static struct ibv_qp qp = {.qp_num = 7};
static struct mesh_cq cq;
static struct mesh_held held;
static struct mesh_conn conn;

/* The path of a connection at work is gone: a send has used up its retries. */
static int setup(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_send_wr wr = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	struct mesh_completion c = {.wr_id = 1, .cq = &cq, .status = IBV_WC_RETRY_EXC_ERR};

	(void)state;
	memset(&process, 0, sizeof(process));
	memset(&view, 0, sizeof(view));
	unroutable = no_workers = in_batch = false;
	chosen_index = 0;
	n_submitted = n_rtr = n_rts = n_native = 0;
	rtr_error = rts_error = 0;
	context.modify_qp = modify_qp;
	mesh_root.process = &process;
	mesh_root.config.move_timeout_ms = 2000;
	mesh_root.config.hold_down_ms = 5000;
	cq = (struct mesh_cq){.cq = &ibv_cq};
	held = (struct mesh_held){.mc = &context,
				  .qp = &qp,
				  .mode = MESH_HELD_GUARDED,
				  .ops = &ops,
				  .cap = cap,
				  .send_cq = &cq,
				  .recv_cq = &cq,
				  .guard = mesh_guard_new(&cap, false, false)};
	conn = (struct mesh_conn){.qp = &qp, .mc = &context, .qpn = 7, .state = MESH_CONN_NATIVE, .held = &held};
	assert_int_equal(mesh_guard_room(held.guard, &cap), 0);
	mesh_guard_rtr(held.guard, 1024);
	mesh_guard_rts(held.guard, 0);
	assert_int_equal(mesh_guard_send(held.guard, &wr), 0);
	assert_false(mesh_guard_completed(&held, &c));
	now_ns = 1000 * MS;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mesh_guard_free(held.guard);
	free(cq.stash);
	free(process.view);
	return 0;
}

static void stay(enum mv_ctl_reason reason)
{
	const struct mv_move_action action = {.type = MV_DO_STAY, .reason = (uint8_t)reason};

	assert_true(mesh_conn_live(&conn, &action, now_ns));
}

static void waits_for(enum mv_ctl_reason reason)
{
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	now_ns += 400 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(cq.n_stash, 0);
	now_ns += 101 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
	assert_int_equal(cq.stash[0].status, IBV_WC_RETRY_EXC_ERR);
}

static void test_no_path(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_PATH);
}

/* There seemed to be one, but its port went down, too, before anyone was told: nothing can be connected there. */
static void test_path_that_does_not_work(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_RESOURCES);
}

/* Thousands wait until as many as may have moved, and are called: were each to look often meanwhile, the thread would do nothing else. */
static void test_waits_for_its_turn(void **state)
{
	(void)state;
	conn.rts_mask = 1;
	atomic_store(&process.n_moving, 1000);
	assert_true(mesh_conn_check(&conn, now_ns) >= now_ns + 1000 * MS);
	assert_false(conn.move.live);
	assert_int_equal(conn.stayed_ns, 0);
}

static void test_will_never_be(void **state)
{
	(void)state;
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
}

/* Nobody needs to know any more whether the path of one that has failed works. */
static void test_failed_one_is_not_watched(void **state)
{
	const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};
	uint64_t deadline;

	(void)state;
	pthread_mutex_init(&conn.lock, NULL);
	mesh_probed_use(&conn.probed.work, MV_WATCH_WORK, &local, &remote);
	assert_non_null(conn.probed.work);
	conn.state = MESH_CONN_FAILED;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_null(conn.probed.work);
}

/* An attempt that began earlier, or for another reason: the peer is there. */
static void test_peer_gave_up(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_TIMEOUT);
}

static void test_peer_has_atomics(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_BUSY);
}

static void test_peer_does_not_answer(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_STAY, .reason = MV_CTL_REASON_TIMEOUT, .timed_out = true};

	(void)state;
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_int_equal(conn.state, MESH_CONN_FAILED);
}

/* It leads, and there is a path, on a rail that does not exist. */
static void is_to_move(void)
{
	const struct mv_move_begin begin = {.local = {.gid = {.raw = {1}}, .qpn = 7},
					    .peer = {.gid = {.raw = {2}}, .qpn = 8},
					    .local_type = MV_GID_TYPE_ROCE_V2,
					    .attempt = 1};
	
	pthread_mutex_init(&conn.lock, NULL);
	pthread_mutex_init(&conn.key_lock, NULL);
	conn.local = begin.local;
	conn.peer = begin.peer;
	conn.rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	mv_move_adopt(&conn.move, &begin, 0, &mv_move_default_times, now_ns);
	conn.path_failed = true;
	view.n_paths = 1;
	view.paths[0] = (struct mv_path){.local_rail = 1,
					 .remote_rail = 1,
					 .local_gid = {.raw = {3}},
					 .remote_gid = {.raw = {4}},
					 .type = MV_GID_TYPE_ROCE_V2};
}

/* What begins, and fails in the same moment, is tried again, and given up in time, though nobody tells of anything. */
static void test_fails_at_once(void **state)
{
	uint64_t deadline = now_ns, begun_ns = now_ns;

	(void)state;
	is_to_move();
	conn.move.peer_attempt = 1; /* so it need not ask */
	while (conn.state == MESH_CONN_NATIVE && now_ns < begun_ns + 2000 * MS) {
		mesh_conn_run(&conn, now_ns, now_ns, &deadline);
		if (conn.state != MESH_CONN_NATIVE)
			break;
		assert_false(conn.move.live);
		assert_true(deadline <= now_ns + 10 * MS);
		now_ns = deadline;
	}
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_true(now_ns >= begun_ns + 500 * MS && now_ns <= begun_ns + 520 * MS);
	assert_int_equal(cq.n_stash, 1);
}

/* One that has failed, and waits for a path, does not wait for its turn as well: it has not the time. */
static void test_turn_is_kept(void **state)
{
	uint64_t deadline;

	(void)state;
	is_to_move();
	view.n_paths = 0;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	process.n_moving = 1000;
	view.n_paths = 1;
	now_ns += 400 * MS;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_true(conn.move.live);
}

/* A queue pair that is to be connected ahead does not keep the move waiting that has begun since. */
static void test_standby_is_passed(void **state)
{
	uint64_t deadline;

	(void)state;
	is_to_move();
	conn.move.peer_attempt = 1;
	conn.path_failed = false;
	conn.move.actions[conn.move.n_actions++] = (struct mv_move_action){.type = MV_DO_STANDBY};
	conn.path_failed = true;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_null(mv_move_peek(&conn.move));
	assert_non_null(conn.stayed); /* it has been tried */
}

/* The program goes to RTS while the old one is in ERR: that is for the next one, and nothing of the old one's log is forgotten. */
static void test_rts_behind_the_fence(void **state)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 77};

	(void)state;
	held.mode = MESH_HELD_FENCED;
	assert_int_equal(mesh_live_base_rts(&held, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_true(held.guard->broken);
	assert_int_equal(held.guard->sends.first_psn, 0);
	assert_false(mesh_live_sends(&held));
}

/* Nothing has failed. */
static void is_well(void)
{
	is_to_move();
	conn.path_failed = false;
	held.guard->broken = false;
	held.guard->n_kept = 0;
}

/* The peer refuses. */
static void refused(void)
{
	struct mv_move_action action;

	while (mv_move_next(&conn.move, &action))
		;
	conn.move.live = false;
	conn.move.state = conn.move.settled;
	conn.move.resend_at = 0;
	stay(MV_CTL_REASON_UNSUPPORTED);
}

/* Leaving a port that is down is refused again and again, for as long as it lasts. */
static void test_backs_off(void **state)
{
	uint64_t deadline, end_ns = now_ns + 20000 * MS;
	unsigned int n = 0;

	(void)state;
	is_well();
	view.verdict = MV_PATH_LOCAL_DOWN;
	for (; now_ns < end_ns; now_ns = deadline) {
		mesh_conn_run(&conn, now_ns, now_ns, &deadline);
		if (conn.move.live) {
			n++;
			refused();
			mesh_conn_run(&conn, now_ns, now_ns, &deadline);
		}
		assert_false(conn.move.live);
		assert_true(deadline > now_ns && deadline <= now_ns + 1000 * MS);
	}
	assert_true(n > 20 && n < 40);
	/* News: perhaps the peer has a path now. */
	now_ns = conn.stayed_ns + 10 * MS;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_false(conn.move.live);
	view.generation++;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_true(conn.move.live);
	conn.move.live = false;
}

/* What comes to nothing before anything was sent is tried again, though nobody tells of anything. */
static void test_again_by_itself(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	conn.move.peer_attempt = 1; /* so it need not ask, and fails at once */
	view.verdict = MV_PATH_LOCAL_DOWN;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_non_null(conn.stayed);
	assert_false(conn.move.live);
	assert_true(deadline <= now_ns + 1000 * MS);
}

/* A port was down when it was made; its program has said RTS, and only receives. Nobody answers. */
static void is_held(void)
{
	is_well();
	held.mode = MESH_HELD_WAITING;
	conn.state = MESH_CONN_HELD;
	conn.verdict = MV_PATH_REMOTE_DOWN;
	conn.fits = true;
	conn.rtr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
	conn.rts = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
	conn.rtr_mask = IBV_QP_STATE;
	conn.move = (struct mv_move){.state = MV_MOVE_ASKING,
				     .times = &mv_move_default_times,
				     .local = conn.local,
				     .peer = conn.peer,
				     .attempt = 1,
				     .sq_psn = MV_CTL_PSN_NONE,
				     .rq_psn = MV_CTL_PSN_NONE,
				     .begun_at = now_ns};
	view.verdict = MV_PATH_WORKS;
}

/* Return: is a worker to connect it? */
static bool is_due_after(uint64_t ms)
{
	unsigned int before = n_submitted;
	uint64_t deadline;

	mesh_conn_run(&conn, now_ns + ms * MS, now_ns + ms * MS, &deadline);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	assert_true(n_submitted == before || only_tries); /* others do not wait for it */
	return n_submitted > before;
}

static void test_path_is_back(void **state)
{
	struct ibv_srq srq = {.context = NULL};
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	mesh_conn_run(&conn, now_ns + 2 * MS, now_ns + 2 * MS, &deadline);
	assert_true(deadline == now_ns + 10000 * MS); /* by itself, and not earlier */
	assert_false(is_due_after(9999)); /* a peer may come late */
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(10000));
	view.verdict = MV_PATH_UNKNOWN; /* our own agent is gone, too */
	assert_false(is_due_after(10000));
	view.verdict = MV_PATH_WORKS;
	conn.move.peer_attempt = 7; /* it is there */
	assert_false(is_due_after(10001));
	assert_false(is_due_after(19000));
	conn.move.peer_attempt = 0;
	conn.verdict = MV_PATH_APART;
	assert_false(is_due_after(19001));
	assert_false(is_due_after(29000));
	conn.verdict = MV_PATH_REMOTE_DOWN;
	unroutable = true;
	conn.fits = false;
	assert_false(is_due_after(29001));
	assert_false(is_due_after(39000));
	conn.fits = true;
	/* It flaps. */
	assert_false(is_due_after(40000));
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(44000));
	view.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(46000));
	mesh_conn_run(&conn, now_ns + 46001 * MS, now_ns + 46001 * MS, &deadline);
	assert_true(deadline == now_ns + 51000 * MS);
	assert_false(is_due_after(50999));
	assert_true(is_due_after(51000));
	/* While its own port was down the kernel had no way. */
	conn.fits = false;
	assert_false(is_due_after(51001));
	conn.verdict = MV_PATH_LOCAL_DOWN;
	assert_false(is_due_after(52000));
	assert_true(is_due_after(57000));
	/* Nobody can say whether its index is right. */
	view.verdict = MV_PATH_ASK;
	assert_true(is_due_after(57001));
	/* Its SRQ would have to be dealt out for that. */
	qp.srq = &srq;
	assert_false(is_due_after(57002));
	qp.srq = NULL;
	assert_int_equal(n_rtr, 0);
}

/* Held for long, with a path that works, and a worker is about to connect it. */
static void is_about_to_try(void)
{
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	assert_true(is_due_after(0));
}

static void test_back_to_the_base(void **state)
{
	(void)state;
	is_about_to_try();
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	assert_null(conn.held);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_rts, 1);
	assert_int_equal(n_native, 1);
	mesh_conn_work(&conn); /* called once more for whatever reason */
	assert_int_equal(n_rtr, 1);
}

/* The program has not said so. */
static void test_back_before_rts(void **state)
{
	(void)state;
	is_about_to_try();
	conn.rts_mask = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_rts, 0);
	assert_int_equal(n_native, 1);
}

static void test_back_without_workers(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	no_workers = true;
	conn.move.resend_at = 0;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_int_equal(conn.state, MESH_CONN_HELD); /* the helper thread has no time for it */
	assert_int_equal(n_rtr, 0);
	assert_true(deadline == now_ns + 1000 * MS);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	no_workers = false;
	assert_true(is_due_after(1000));
}

/* Another index is not taken for a try: the one that is right may be refused for now only. */
static void test_back_to_the_right_entry(void **state)
{
	(void)state;
	is_about_to_try();
	conn.rtr.ah_attr.is_global = 1;
	conn.rtr.ah_attr.grh.sgid_index = 3;
	chosen_index = 5;
	rtr_error = ETIMEDOUT;
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(rtr_index, 5);
	assert_int_equal(conn.state, MESH_CONN_HELD);
}

/* The neighbour does not answer yet: it is held as before, and tries again, not all the time. */
static void test_base_refuses(void **state)
{
	uint64_t deadline, wait_ms = 1000, end_ns;

	(void)state;
	is_about_to_try();
	rtr_error = ETIMEDOUT;
	end_ns = now_ns + 120000 * MS;
	while (now_ns < end_ns) {
		mesh_conn_work(&conn); /* takes a second */
		assert_int_equal(conn.state, MESH_CONN_HELD);
		assert_int_equal(conn.move.state, MV_MOVE_ASKING);
		assert_int_equal(held.mode, MESH_HELD_WAITING);
		assert_int_equal(pthread_mutex_trylock(&held.post_lock), 0); /* the program posts again */
		pthread_mutex_unlock(&held.post_lock);
		assert_false(is_due_after(wait_ms - 1));
		conn.move.resend_at = 0;
		mesh_conn_run(&conn, now_ns, now_ns, &deadline);
		assert_true(deadline == now_ns + wait_ms * MS);
		now_ns += wait_ms * MS;
		assert_true(is_due_after(0));
		wait_ms = wait_ms < 16000 ? 2 * wait_ms : 16000;
	}
	assert_int_equal(n_rtr, 10);
	assert_int_equal(n_rts, 0);
	assert_int_equal(n_native, 0);
	rtr_error = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_native, 1);
}

/* A thread of the program's is in a batch (ibv_wr_start()), before a worker is called or after. */
static void test_back_after_a_batch(void **state)
{
	uint64_t deadline;

	(void)state;
	is_held();
	assert_false(is_due_after(1));
	now_ns += 10000 * MS;
	in_batch = true;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_int_equal(n_submitted, 0);
	assert_true(deadline <= now_ns + MS);
	assert_true(held.stop_wanted);
	in_batch = false;
	assert_true(is_due_after(0));
	in_batch = true;
	pthread_mutex_lock(&held.post_lock);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	assert_false(is_due_after(0));
	pthread_mutex_unlock(&held.post_lock);
	in_batch = false;
	assert_true(is_due_after(0));
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(n_rtr, 1);
}

/* It can receive, so there is no way back. */
static void test_base_refuses_rts(void **state)
{
	(void)state;
	is_about_to_try();
	rts_error = EINVAL;
	cq.mc = &context;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	assert_int_equal(held.mode, MESH_HELD_FAILING);
	assert_int_equal(n_native, 0);
}

/* The peer comes, or the path goes again, before a worker has time. */
static void test_meanwhile(void **state)
{
	struct mv_ctl_msg hello = {.type = MV_CTL_HELLO, .attempt = 9, .from_psn = MV_CTL_PSN_NONE, .to_psn = MV_CTL_PSN_NONE};

	(void)state;
	is_about_to_try();
	view.verdict = MV_PATH_REMOTE_DOWN;
	assert_false(is_due_after(1));
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	view.verdict = MV_PATH_WORKS;
	assert_false(is_due_after(2));
	now_ns += 6000 * MS;
	assert_true(is_due_after(0));
	hello.from = conn.peer;
	hello.to = conn.local;
	mesh_conn_message(&conn, &hello, now_ns);
	assert_int_equal(conn.move.peer_attempt, 9);
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 0);
	assert_int_equal(conn.state, MESH_CONN_HELD);
}

/* A peer that wants to move is told that there is nobody any more. */
static void test_failed_one_says_so(void **state)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_OFFER, .flags = MV_CTL_MOVE, .request_id = 1};

	(void)state;
	is_to_move();
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	msg.from = conn.peer;
	msg.to = conn.local;
	msg.attempt = 2;
	msg.to_attempt = conn.move.attempt;
	mesh_conn_message(&conn, &msg, now_ns);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_int_equal(sent.reason, MV_CTL_REASON_GONE);
	assert_null(mv_move_peek(&conn.move));
}

static void say_bye(uint32_t attempt)
{
	const struct mv_ctl_msg bye = {.type = MV_CTL_BYE,
				       .from = conn.peer,
				       .to = conn.local,
				       .attempt = attempt,
				       .to_attempt = conn.move.attempt,
				       .from_psn = conn.move.rq_psn,
				       .to_psn = conn.move.sq_psn};

	mesh_conn_message(&conn, &bye, now_ns);
}

/* A worker has the connection, or the program is in the middle of a call, when the peer says that it goes. */
static void bye_is_kept(_Atomic bool *worker)
{
	uint64_t deadline;

	is_well();
	conn.move.peer_attempt = 3;
	if (worker)
		*worker = true;
	else
		pthread_mutex_lock(&conn.lock);
	say_bye(3);
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_null(held.guard->lost);
	if (worker)
		*worker = false; /* and has it queued */
	else
		pthread_mutex_unlock(&conn.lock);
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_non_null(held.guard->lost);
	held.guard->lost = NULL;
	/* Once. */
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_null(held.guard->lost);
}

static void test_bye_at_work(void **state)
{
	(void)state;
	bye_is_kept(&conn.at_work);
}

static void test_bye_in_a_call(void **state)
{
	(void)state;
	bye_is_kept(NULL);
}

/* It proves what it says like any other. */
static void test_late_bye_of_another(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	conn.move.peer_attempt = 3;
	conn.at_work = true;
	say_bye(2);
	conn.at_work = false;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_null(held.guard->lost);
}

/* It goes while ours is being fenced: what that flushes is not the program's to see. */
static void test_bye_while_fencing(void **state)
{
	struct mesh_completion flushed = {.wr_id = 1, .cq = &cq, .status = IBV_WC_WR_FLUSH_ERR};

	(void)state;
	is_well();
	conn.move.peer_attempt = 3;
	held.mode = MESH_HELD_FENCING;
	say_bye(3);
	assert_true(conn.peer_gone);
	assert_null(held.guard->lost);
	assert_false(mesh_guard_completed(&held, &flushed));
}

/* Its own program takes it away when the peer waits to be told what it has executed. */
static void test_last_word(void **state)
{
	(void)state;
	is_well();
	sent = (struct mv_ctl_msg){0};
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, 0); /* nothing moves */
	conn.move.peer_attempt = 3;
	conn.move.live = true;
	conn.move.state = MV_MOVE_FENCED;
	conn.move.next.offer = 5;
	conn.move.my_sync = (struct mv_move_sync){0x123, 4};
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, MV_CTL_SYNC);
	assert_int_equal(sent.request_id, 5);
	assert_int_equal(sent.next_psn, 0x123);
	assert_int_equal(sent.n_received, 4);
	/* It cannot be known any more: better nothing than something wrong. */
	sent = (struct mv_ctl_msg){0};
	conn.move.state = MV_MOVE_FENCING;
	held.mode = MESH_HELD_FENCING;
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, 0);
	conn.move.live = false;
}

/* The program has posted, since its next one was prepared, what cannot be moved: nothing is fenced. */
static void test_lost_meanwhile(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	(void)state;
	is_well();
	conn.move.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.live = true;
	held.guard->lost = "this test says so";
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_false(conn.move.live);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	held.guard->lost = NULL;
}

/* One move ends: the next is not begun before that has been carried out, and says when it may. */
static void test_one_after_the_other(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	view.verdict = MV_PATH_LOCAL_DOWN;
	view.drained = true;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_true(conn.move.live); /* it asks for the peer's attempt */
	now_ns += mv_move_default_times.move_ns / 2;
	mesh_conn_run(&conn, now_ns, now_ns, &deadline);
	assert_non_null(conn.stayed);
	assert_false(conn.move.live);
	assert_true(deadline <= now_ns + 1000 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_waits_for_its_turn),
		T(test_no_path),
		T(test_path_that_does_not_work),
		T(test_will_never_be),
		T(test_peer_gave_up),
		T(test_peer_has_atomics),
		T(test_peer_does_not_answer),
		T(test_fails_at_once),
		T(test_turn_is_kept),
		T(test_standby_is_passed),
		T(test_rts_behind_the_fence),
		T(test_backs_off),
		T(test_again_by_itself),
		T(test_path_is_back),
		T(test_back_to_the_base),
		T(test_back_before_rts),
		T(test_back_without_workers),
		T(test_back_to_the_right_entry),
		T(test_base_refuses),
		T(test_base_refuses_rts),
		T(test_back_after_a_batch),
		T(test_meanwhile),
		T(test_failed_one_says_so),
		T(test_bye_at_work),
		T(test_bye_in_a_call),
		T(test_late_bye_of_another),
		T(test_bye_while_fencing),
		T(test_last_word),
		T(test_lost_meanwhile),
		T(test_one_after_the_other),
		T(test_failed_one_is_not_watched), /* the last one: what it has made known stays so */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
