// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "connect.h"
#include "held.h"
#include "passthrough.h"
#include "said.h"
#include "survive.h"
#include "vqp_int.h"

#define PSN 0x123u

static const struct manner builders = {.how = BARE, .builders = true};
const struct manner extended = {.how = BARE, .builders = true, .extended = true};
const struct manner *manner;
struct end e, flushed;
struct mesh_conn *conn;

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

void begin_helping(void)
{
	said.woken = helper.ends = false;
	helper.n_looks = 0;
	helper.begun_ns = mesh_now_ns();
	assert_int_equal(pthread_create(&helper.thread, NULL, help, NULL), 0);
}

void assert_looks_seldom(void)
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

void end_helping(void)
{
	helper.ends = true;
	assert_int_equal(pthread_join(helper.thread, NULL), 0);
}

/* ---- the program ------------------------------------------------------------------------------------------------------ */

static int (*lower_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
_Atomic unsigned int n_rtr;
unsigned int resolves_us;
int refuses;
bool listens;
_Atomic unsigned int n_submitted;

void __real_mesh_conn_listen(struct mesh_conn *c);
void __wrap_mesh_conn_listen(struct mesh_conn *c);

void __wrap_mesh_conn_listen(struct mesh_conn *c)
{
	if (listens)
		__real_mesh_conn_listen(c);
}

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

void open_in_init(enum mv_path_verdict verdict, bool reads)
{
	said.agent = true;
	said.decision = (struct mesh_path_decision){.verdict = verdict, .agent_version = MV_CTL_VERSION, .n_paths = 1};
	world_open(&world);
	if (!reads)
		world.mc->data.mlx5.lock = MESH_MLX5_LOCK_NOWHERE;
	set_survive(true);
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

void to_rtr(void)
{
	struct ibv_qp_attr rtr = world_rtr(&world, false, e.qp->qp_num, PSN);

	assert_int_equal(ibv_modify_qp(e.qp, &rtr, RTR_MASK), 0);
	assert_non_null(conn->vqp);
}

void open_with(enum mv_path_verdict verdict, bool reads)
{
	open_in_init(verdict, reads);
	to_rtr();
}

int to_rts(void)
{
	struct ibv_qp_attr rts = world_rts(PSN);

	return ibv_modify_qp(e.qp, &rts, RTS_MASK);
}

int setup_rtr(void **state)
{
	(void)state;
	open_with(MV_PATH_ASK, false);
	return 0;
}

int setup_held(void **state)
{
	(void)state;
	open_with(MV_PATH_ASK, false);
	assert_int_equal(to_rts(), 0);
	assert_int_equal(conn->state, MESH_CONN_HELD);
	assert_int_equal(n_rtr, 0);
	return 0;
}

int teardown(void **state)
{
	(void)state;
	mesh_conn_put(conn);
	if (flushed.qp)
		end_close(&flushed);
	end_close(&e);
	listens = false;
	manner = NULL;
	world.mc->lower.qp.modify_qp = lower_modify;
	set_survive(false);
	world_close(&world);
	alarm(0); /* who has failed may have left a batch open */
	return 0;
}

void build_write(uint64_t wr_id, uint64_t what)
{
	e.qp_ex->wr_id = wr_id;
	e.qp_ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(e.qp_ex, e.mr->rkey, (uintptr_t)&e.buf[8 * wr_id]);
	ibv_wr_set_inline_data(e.qp_ex, &what, sizeof(what));
}

void assert_written(uint64_t wr_id, uint64_t what)
{
	struct ibv_wc wc = end_wait(&e);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)&e.buf[8 * wr_id], what);
}

void assert_rts(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(e.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(e.qp->state, IBV_QPS_RTS);
}

enum mesh_conn_state wait_for_outcome(void)
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

void assert_goes_passthrough(void)
{
	assert_int_equal(wait_for_outcome(), MESH_CONN_PASSTHROUGH);
}
