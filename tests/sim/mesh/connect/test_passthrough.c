// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A connection that is held while its peer is asked, and then left as the program made it, in a host of the simulator: the program is
 * in a batch (ibv_wr_start()) meanwhile, or polls an extended CQ, and asks for the state of its queue pair. Nobody waits for ever, and
 * nothing is lost. Nor where another thread of the program modifies it.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "connect.h"
#include "tracked_fixture.h"
#include "passthrough.h"
#include "vqp_int.h"
#include "move_internal.h"
#include "mlx5_wr_walker.h"
#include "failover_exec.h"
#include "said.h"

#define PSN	 0x123u
#define BATCH_US 50000u

static const struct manner builders = {.how = BARE, .builders = true}, extended = {.how = BARE, .builders = true, .extended = true};
static const struct manner *manner;
static struct end e; /* connected to itself */
static struct end flushed; /* of its CQ, never connected; qp NULL: there is none */
static struct mesh_conn *conn; /* with a reference */

/* ---- the helper thread, of which there is none here -------------------------------------------------------------------- */

static struct {
	pthread_t thread;
	_Atomic bool ends;
	_Atomic unsigned int n_looks;
	uint64_t begun_ns;
} helper;

/* As thread.c: what is told, then what is due. */
static void *help(void *arg)
{
	const struct mv_ctl_msg gone = {.attempt = conn->attempt.number};
	uint64_t deadline = 0, now_ns;

	(void)arg;
	mesh_conn_unreachable(conn, &gone, mesh_now_ns());
	while (!helper.ends) {
		now_ns = mesh_now_ns();
		if (atomic_exchange(&said.woken, false) || now_ns >= deadline) {
			deadline = mesh_conn_run(conn, now_ns, now_ns);
			helper.n_looks++;
		}
		usleep(100);
	}
	return NULL;
}

/* The peer is not there. */
static void begin_helping(void)
{
	said.woken = helper.ends = false;
	helper.n_looks = 0;
	helper.begun_ns = mesh_now_ns();
	assert_int_equal(pthread_create(&helper.thread, NULL, help, NULL), 0);
}

/* It has looked, and again once in a millisecond and for what is told, but not all the time. */
static void assert_looks_seldom(void)
{
	unsigned int n_looks;
	uint64_t ms;

	while (!helper.n_looks)
		usleep(1000);
	usleep(BATCH_US);
	n_looks = helper.n_looks; /* before the clock: this thread may lose the processor in between */
	ms = (mesh_now_ns() - helper.begun_ns) / 1000000;
	assert_in_range(n_looks, 1, 20 + 2 * ms);
}

static void end_helping(void)
{
	helper.ends = true;
	assert_int_equal(pthread_join(helper.thread, NULL), 0);
}

/* ---- the program ------------------------------------------------------------------------------------------------------ */

static int (*lower_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static _Atomic unsigned int n_rtr; /* of the lower provider's */
static unsigned int resolves_us; /* as long as the kernel looks for the neighbour */
static int refuses; /* what it says then; 0: it is there */

static bool listens; /* the lower provider's goes to RTR at once, as mesh_conn_listen() does */

void __real_mesh_conn_listen(struct mesh_conn *c);
void __wrap_mesh_conn_listen(struct mesh_conn *c);

void __wrap_mesh_conn_listen(struct mesh_conn *c)
{
	if (listens)
		__real_mesh_conn_listen(c);
}

static _Atomic unsigned int n_submitted; /* to workers */

bool __real_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries);
bool __wrap_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries);

bool __wrap_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries)
{
	n_submitted++;
	return __real_mesh_work_submit(c, to, tries);
}

static int modify_slowly(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
		n_rtr++;
		usleep(resolves_us);
		if (refuses)
			return refuses;
	}
	return lower_modify(qp, attr, mask);
}

/* @reads: what libmlx5 has is read; else all batches are ours from the beginning */
static void open_in_init(enum mv_path_verdict verdict, bool reads)
{
	said.agent = true;
	said.decision = (struct mesh_path_decision){.verdict = verdict, .agent_version = MV_CTL_VERSION, .n_paths = 1};
	world_open(&world);
	if (!reads)
		world.mc->data.mlx5.lock = MESH_MLX5_LOCK_NOWHERE;
	mesh_root.config.survive = true;
	world.mc->sees_peers = true;
	lower_modify = world.mc->lower.qp.modify_qp;
	world.mc->lower.qp.modify_qp = modify_slowly;
	n_rtr = 0;
	resolves_us = 0;
	refuses = 0;
	if (!manner)
		manner = &builders;
	end_open(&e, &world, manner, &(struct shape){0});
	memset(&flushed, 0, sizeof(flushed));
	conn = mesh_conn_get(e.qp);
	assert_non_null(conn);
	alarm(PATIENCE_S);
}

static void to_rtr(void)
{
	struct ibv_qp_attr rtr = world_rtr(&world, false, e.qp->qp_num, PSN);

	assert_int_equal(ibv_modify_qp(e.qp, &rtr, RTR_MASK), 0);
	assert_non_null(conn->vqp);
}

static void open_with(enum mv_path_verdict verdict, bool reads)
{
	open_in_init(verdict, reads);
	to_rtr();
}

static int to_rts(void)
{
	struct ibv_qp_attr rts = world_rts(PSN);

	return ibv_modify_qp(e.qp, &rts, RTS_MASK);
}

static int setup_rtr(void **state)
{
	(void)state;
	open_with(MV_PATH_ASK, false);
	return 0;
}

static int setup_listening(void **state)
{
	listens = true;
	setup_rtr(state);
	assert_int_equal(n_rtr, 1);
	assert_true(conn->own_qp.listens);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	return 0;
}

static int setup_extended(void **state)
{
	manner = &extended;
	return setup_listening(state);
}

static int setup_init(void **state)
{
	(void)state;
	manner = &extended;
	listens = true;
	open_in_init(MV_PATH_ASK, false);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	open_with(MV_PATH_ASK, false);
	assert_int_equal(to_rts(), 0);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	assert_int_equal(n_rtr, 0);
	return 0;
}

static int setup_logged(void **state)
{
	(void)state;
	open_with(MV_PATH_WORKS, false);
	assert_int_equal(to_rts(), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	return 0;
}

static int setup_read(void **state)
{
	(void)state;
	open_with(MV_PATH_WORKS, true);
	assert_int_equal(to_rts(), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mesh_conn_put(conn);
	if (flushed.qp)
		end_close(&flushed);
	end_close(&e);
	listens = false;
	manner = NULL;
	world.mc->lower.qp.modify_qp = lower_modify;
	mesh_root.config.survive = false;
	world_close(&world);
	alarm(0); /* who has failed may have left a batch open */
	return 0;
}

static void build_write(uint64_t wr_id, uint64_t what)
{
	e.qp_ex->wr_id = wr_id;
	e.qp_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(e.qp_ex, e.mr->rkey, (uintptr_t)&e.buf[8 * wr_id]);
	ibv_wr_set_inline_data(e.qp_ex, &what, sizeof(what));
}

static void assert_written(uint64_t wr_id, uint64_t what)
{
	struct ibv_wc wc = end_wait(&e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)&e.buf[8 * wr_id], what);
}

static void assert_rts(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(e.qp->state, IBV_QPS_RTS);
}

/* Whenever the worker comes to it; alarm() ends that. */
static enum mesh_conn_state wait_for_outcome(void)
{
	enum mesh_conn_state is = MESH_CONN_HELD;

	while (is == MESH_CONN_HELD) {
		usleep(1000);
		mesh_lock(&conn->lock);
		is = conn->state;
		mesh_unlock(&conn->lock);
	}
	assert_int_equal(n_rtr, 1);
	return is;
}

static void assert_goes_passthrough(void)
{
	assert_int_equal(wait_for_outcome(), MESH_CONN_PASSTHROUGH);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

/* Who is in a batch may take his time, and ask. The connection stays held meanwhile, without anybody trying all the time. */
static void test_asks_in_batch(void **state)
{
	(void)state;
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	begin_helping();
	assert_looks_seldom();
	assert_rts();
	assert_int_equal(n_rtr, 0);
	build_write(2, 0x2222);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_goes_passthrough();
	end_helping();
	assert_rts();
	assert_written(1, 0x1111);
	assert_written(2, 0x2222);
	ibv_wr_start(e.qp_ex);
	build_write(3, 0x3333);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_written(3, 0x3333);
}

static enum ibv_qp_state state_of(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void assert_flushed(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = end_wait(&e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

/* The program's own path does not work, either. Who only receives has no send that would tell: its receives do. */
static void test_refused_receives(void **state)
{
	(void)state;
	refuses = ETIMEDOUT;
	assert_int_equal(end_recv(&e, 1, 0, 64), 0);
	begin_helping();
	assert_int_equal(wait_for_outcome(), MESH_CONN_FAILED);
	assert_flushed(1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(end_recv(&e, 2, 0, 64), 0);
	assert_flushed(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(), IBV_QPS_ERR);
	/* And a send has the status that it has of a peer that is not there. */
	ibv_wr_start(e.qp_ex);
	build_write(3, 0x3333);
	build_write(4, 0x4444);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_flushed(3, IBV_WC_RETRY_EXC_ERR);
	assert_flushed(4, IBV_WC_WR_FLUSH_ERR);
	end_quiet(&e);
	end_helping();
}

/* Who asks for RTS later is told then, as bare at RTR. */
static void test_refused_before_rts(void **state)
{
	(void)state;
	refuses = ETIMEDOUT;
	begin_helping();
	assert_int_equal(wait_for_outcome(), MESH_CONN_FAILED);
	assert_int_equal(to_rts(), ETIMEDOUT);
	end_helping();
}

/* Nothing has to be connected any more when it stays. Sends have waited, and what comes meanwhile is received. */
static void test_listens(void **state)
{
	(void)state;
	assert_int_equal(to_rts(), 0);
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	end_quiet(&e);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	assert_written(1, 0x1111);
}

/* The peer says that it has the other version: back to INIT, with what was posted to be received, in order. */
static void test_listens_no_more(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint64_t i;

	(void)state;
	assert_int_equal(to_rts(), 0);
	for (i = 1; i <= 3; i++)
		assert_int_equal(end_recv(&e, i, (uint32_t)i * 64, 64), 0);
	mesh_lock(&conn->lock);
	assert_true(mesh_vqp_stop_posting(conn->vqp));
	assert_int_equal(mesh_conn_listen_no_more(conn), 0);
	mesh_vqp_resume_posting(conn->vqp);
	assert_false(conn->own_qp.listens);
	mesh_unlock(&conn->lock);
	assert_int_equal(world.mc->lower.qp.query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(end_recv(&e, 4, 4 * 64, 64), 0);
	ibv_wr_start(e.qp_ex);
	build_write(9, 0x9999);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0); /* these functions are ours again */
	n_rtr = 0;
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	assert_written(9, 0x9999);
	for (i = 1; i <= 4; i++) {
		struct ibv_wc wc;

		assert_int_equal(end_send_empty(&e, 10, 0), 0);
		wc = end_wait(&e);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wr_id, i);
	}
}

/* What has been received cannot be taken back: the peer has that version. */
static void test_has_received(void **state)
{
	(void)state;
	assert_int_equal(end_recv(&e, 1, 64, 64), 0);
	assert_int_equal(end_recv(&e, 2, 128, 64), 0);
	assert_int_equal(to_rts(), 0);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	assert_int_equal(end_send_empty(&e, 10, 0), 0);
	assert_int_equal(end_wait(&e).wr_id, 1);
	conn->own_qp.listens = true;
	assert_int_equal(mesh_conn_listen_no_more(conn), -EBUSY);
	conn->own_qp.listens = false;
}

/* A completion of another queue pair, which is polled until end_poll(). */
static void start_poll(void)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_poll_cq_attr none = {0};

	end_open(&flushed, &world, manner, &(struct shape){.hub = &e});
	assert_int_equal(end_recv(&flushed, 77, 0, 64), 0);
	assert_int_equal(ibv_modify_qp(flushed.qp, &err, IBV_QP_STATE), 0);
	while (ibv_start_poll(e.cq_ex, &none))
		usleep(1000);
	assert_int_equal(e.cq_ex->wr_id, 77);
}

/* The peer has another version than that for which the lower provider's listens. */
static void listens_for_another(void)
{
	conn->own_qp.listen_type = conn->ends.local_type == MV_GID_TYPE_ROCE_V1 ? MV_GID_TYPE_ROCE_V2 : MV_GID_TYPE_ROCE_V1;
	conn->own_qp.listen_index++;
}

static enum ibv_qp_state lower_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(world.mc->lower.qp.query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/*
 * Who polls an extended CQ may take his time, and ask: libmlx5 would wait for the end of that to bring the lower
 * provider's to RESET. It listens on meanwhile, without anybody trying all the time.
 */
static void listens_while_polled(enum mv_move_state state)
{
	start_poll();
	listens_for_another();
	mesh_lock(&conn->lock);
	assert_true(mesh_vqp_stop_posting(conn->vqp));
	assert_int_equal(mesh_conn_listen_no_more(conn), -EAGAIN);
	mesh_vqp_resume_posting(conn->vqp);
	mesh_unlock(&conn->lock);
	n_submitted = 0;
	begin_helping();
	assert_looks_seldom();
	assert_int_equal(n_submitted, 0); /* a worker could only give it back */
	assert_rts();
	assert_int_equal(lower_state(), IBV_QPS_RTR);
	mesh_lock(&conn->lock);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	assert_int_equal(conn->move.state, state);
	mesh_unlock(&conn->lock);
	n_rtr = 0;
	ibv_end_poll(e.cq_ex);
	assert_goes_passthrough();
	end_helping();
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_written(1, 0x1111);
}

static void test_polled(void **state)
{
	(void)state;
	assert_int_equal(to_rts(), 0);
	listens_while_polled(MV_MOVE_PASSTHROUGH);
}

/* Likewise when a path is agreed upon. There is none here, so the connection stays in the end. */
static void test_polled_and_prepared(void **state)
{
	(void)state;
	assert_int_equal(to_rts(), 0);
	mv_move_prepare(&conn->move, &conn->ends.local.gid, &conn->ends.peer.gid, conn->ends.local_type);
	listens_while_polled(MV_MOVE_PREPARING);
}

/*
 * Who may poll since before our functions came in is not seen by them: then the lower provider's does not listen, for
 * that could not be taken back.
 */
static void test_polled_before(void **state)
{
	(void)state;
	start_poll();
	to_rtr();
	assert_int_equal(to_rts(), 0);
	assert_false(conn->own_qp.listens);
	assert_int_equal(lower_state(), IBV_QPS_INIT);
	ibv_end_poll(e.cq_ex);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
}

/* He may end the connection there, which is then not made any more. */
static void test_ends_in_batch(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	(void)state;
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	begin_helping();
	usleep(BATCH_US);
	assert_int_equal(ibv_modify_qp(e.qp, &err, IBV_QP_STATE), 0);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_int_equal(end_wait(&e).status, IBV_WC_WR_FLUSH_ERR);
	end_helping();
	assert_int_equal(n_rtr, 0);
}

static _Atomic bool posts;

/* One batch after the other, asking in each of them. */
static void *post_batches(void *arg)
{
	(void)arg;
	while (posts) {
		ibv_wr_start(e.qp_ex);
		assert_rts();
		ibv_wr_abort(e.qp_ex);
	}
	return NULL;
}

/* Batches that begin when the lower provider's is being connected wait for that, with nothing that it waits for. */
static void test_batches_meanwhile(void **state)
{
	pthread_t poster;

	(void)state;
	resolves_us = 100000;
	posts = true;
	assert_int_equal(pthread_create(&poster, NULL, post_batches, NULL), 0);
	begin_helping();
	assert_goes_passthrough();
	end_helping();
	posts = false;
	assert_int_equal(pthread_join(poster, NULL), 0);
	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_written(1, 0x1111);
}

static void *forbid_reads(void *arg)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	(void)arg;
	return (void *)(intptr_t)ibv_modify_qp(e.qp, &attr, IBV_QP_ACCESS_FLAGS);
}

static void *end_it(void *arg)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)arg;
	return (void *)(intptr_t)ibv_modify_qp(e.qp, &attr, IBV_QP_STATE);
}

/* It waits for the end of the batch, with nothing that who is in that asks for. */
static void modified_elsewhere(void *(*modify)(void *))
{
	pthread_t other;
	void *ret;

	ibv_wr_start(e.qp_ex);
	build_write(1, 0x1111);
	assert_int_equal(pthread_create(&other, NULL, modify, NULL), 0);
	usleep(BATCH_US);
	assert_rts();
	assert_int_equal(ibv_wr_complete(e.qp_ex), 0);
	assert_int_equal(pthread_join(other, &ret), 0);
	assert_null(ret);
}

static void test_modified_held(void **state)
{
	(void)state;
	modified_elsewhere(forbid_reads);
}

static void test_modified(void **state)
{
	(void)state;
	modified_elsewhere(forbid_reads);
	assert_written(1, 0x1111);
}

static void test_ended_elsewhere(void **state)
{
	(void)state;
	modified_elsewhere(end_it);
	assert_int_equal(end_wait(&e).wr_id, 1); /* done, or flushed */
}

/* A first move that came to nothing: the lower provider's queue pair goes on, with our functions before it. */
static void test_ended_after_failure(void **state)
{
	(void)state;
	if (!conn->vqp->tracker->walker)
		skip(); /* it is not known where libmlx5 has its lock */
	assert_int_equal(mesh_walker_engage(conn->vqp), 0);
	mesh_lock(&conn->lock);
	mesh_conn_fail(conn, "of a test");
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	assert_int_equal(mesh_vqp_mode(conn->vqp), MESH_VQP_TRACKED);
	mesh_unlock(&conn->lock);
	modified_elsewhere(end_it);
	assert_int_equal(end_wait(&e).wr_id, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_asks_in_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_listens, setup_listening, teardown),
		cmocka_unit_test_setup_teardown(test_listens_no_more, setup_listening, teardown),
		cmocka_unit_test_setup_teardown(test_has_received, setup_listening, teardown),
		cmocka_unit_test_setup_teardown(test_listens, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_listens_no_more, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_has_received, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_polled, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_polled_and_prepared, setup_extended, teardown),
		cmocka_unit_test_setup_teardown(test_polled_before, setup_init, teardown),
		cmocka_unit_test_setup_teardown(test_refused_receives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_before_rts, setup_rtr, teardown),
		cmocka_unit_test_setup_teardown(test_ends_in_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_batches_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modified_held, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modified, setup_logged, teardown),
		cmocka_unit_test_setup_teardown(test_ended_elsewhere, setup_logged, teardown),
		cmocka_unit_test_setup_teardown(test_ended_after_failure, setup_read, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
