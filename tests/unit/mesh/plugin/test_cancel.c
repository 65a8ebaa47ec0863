// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads that the program has cancelled and that end at the next cancellation point. Bare, they hold no lock where that is in a verbs
 * call; so it is not to be where they hold one of ours.
 */
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "dmabuf.h"
#include "keys.h"
#include "program.h"
#include "vqp_int.h"

/* ---- a device -------------------------------------------------------------------------------------------------- */

/* Of the lower provider, and of libibverbs: some have to write() to the kernel, where threads are cancelled. */
static int asks_kernel(void)
{
	pthread_testcancel();
	return 0;
}

static struct ibv_mr region;

static struct ibv_mr *slow_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	region = (struct ibv_mr){.context = pd->context, .pd = pd, .lkey = 1, .rkey = 1};
	return &region;
}

static int quick_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

static int slow_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return asks_kernel();
}

static int slow_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	(void)wr;
	(void)bad_wr;
	return asks_kernel();
}

static int slow_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	return asks_kernel();
}

static int slow_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return asks_kernel();
}

static int slow_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return asks_kernel();
}

static int slow_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return asks_kernel();
}

static struct ibv_context *open_slow(void)
{
	struct ibv_context *context;
	struct mesh_context *mc;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	mc = mesh_context_get(context);
	assert_true(mc->can_move);
	mc->lower.mr.reg_dmabuf_mr = slow_reg_dmabuf_mr;
	mc->lower.mr.dereg_mr = quick_dereg_mr;
	mc->lower.qp.modify_qp = slow_modify_qp;
	mc->lower.io.post_send = slow_post_send;
	mc->lower.cq.destroy_cq = slow_destroy_cq;
	mc->lower.cq.resize_cq = slow_resize_cq;
	mc->lower.io.req_notify_cq = slow_req_notify_cq;
	mesh_root.lib.verbs.dealloc_pd = slow_dealloc_pd;
	return context;
}

/* ---- a thread that has been cancelled ------------------------------------------------------------------------- */

struct call {
	void (*body)(void *arg);
	void *arg;
	bool returned;
};

static void *end_in(void *arg)
{
	struct call *call = arg;

	pthread_cancel(pthread_self()); /* it is to end at the next place where threads do */
	call->body(call->arg);
	call->returned = true;
	pthread_testcancel();
	return NULL;
}

/* A thread calls verbs that has been cancelled. Return: did it come back from there? If so it ends then. */
static bool returns(void (*body)(void *arg), void *arg)
{
	struct call call = {.body = body, .arg = arg};
	pthread_t thread;
	void *ret;

	assert_int_equal(pthread_create(&thread, NULL, end_in, &call), 0);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_ptr_equal(ret, PTHREAD_CANCELED);
	return call.returned;
}

static void assert_free(struct mv_mutex *lock)
{
	assert_int_equal(pthread_mutex_trylock(&lock->pthread), 0);
	pthread_mutex_unlock(&lock->pthread);
}

/* ---- the tests ------------------------------------------------------------------------------------------------- */

static void deregister(void *mr)
{
	assert_int_equal(mesh_dereg_mr(mr), 0);
}

/* The next fork() would wait for that lock, and nothing would be kept of dma-bufs any more. */
static void cancelled_with_a_dmabuf(void)
{
	struct ibv_context *context = open_slow();
	struct ibv_pd pd = {.context = context};
	int fd = memfd_create("dmabuf", MFD_CLOEXEC), status;
	struct ibv_mr *mr = mesh_reg_dmabuf_mr(&pd, 0, 4096, 0, fd, 0);
	pid_t pid;

	assert_non_null(mr);
	assert_int_equal(mesh_root.dmabufs.n, 1);
	assert_true(returns(deregister, mr));
	assert_int_equal(mesh_root.dmabufs.n, 0);
	assert_free(&mesh_root.process->dmabufs_lock.mutex);
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	mr = mesh_reg_dmabuf_mr(&pd, 0, 4096, 0, fd, 0);
	assert_int_equal(mesh_root.dmabufs.n, 1);
	deregister(mr);
	close(fd);
	fake.close_device(context);
}

static void reset_ud(void *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(mesh_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void resize(void *cq)
{
	assert_int_equal(mesh_resize_cq(cq, 64), 0);
}

static void arm(void *cq)
{
	assert_int_equal(mesh_req_notify_cq(cq, 0), 0);
}

static void destroy(void *cq)
{
	assert_int_equal(mesh_destroy_cq(cq), 0);
}

static void post(void *qp)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	assert_int_equal(mesh_post_send(qp, &wr, &bad), 0);
}

static void fail_now(void *h)
{
	mesh_vqp_fail_now(h);
}

static void notify(void *mcq)
{
	mesh_cq_notify(mcq);
}

static struct mesh_cq *take_cq(struct mesh_context *mc, struct ibv_cq *cq)
{
	struct mesh_cq *mcq;

	mesh_lock(&mc->data.lock);
	mcq = mesh_cq_get(mc, cq);
	mesh_unlock(&mc->data.lock);
	assert_non_null(mcq);
	return mcq;
}

static void cancelled_in_the_lower(void)
{
	struct ibv_context *context = open_slow();
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp ud = {.context = context, .qp_type = IBV_QPT_UD, .qp_num = 7};
	struct ibv_cq_ex cq = {.context = context};
	struct mesh_cq *mcq = take_cq(mc, ibv_cq_ex_to_cq(&cq));

	assert_true(returns(reset_ud, &ud));
	assert_true(returns(arm, &cq));
	assert_free(&mcq->lock.mutex);
	assert_true(returns(resize, &cq));
	assert_null(mc->data.resizing);
	mesh_lock(&mc->data.lock);
	mesh_cq_put(mcq);
	mesh_unlock(&mc->data.lock);
	assert_true(returns(destroy, &cq));
	assert_null(mesh_map_get(&mc->data.cqs, &cq));
	fake.close_device(context);
}

static void cancelled_while_it_posts(void)
{
	struct ibv_context *context = open_slow();
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qp = {.context = context, .qp_type = IBV_QPT_RC, .qp_num = 7, .state = IBV_QPS_RTS};
	const struct ibv_qp_cap cap = {.max_send_wr = 8, .max_send_sge = 1};
	struct ibv_cq_ex cq = {.context = context};
	struct mesh_cq *mcq = take_cq(mc, ibv_cq_ex_to_cq(&cq));
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct mesh_vqp *h;

	mesh_lock(&mc->data.lock);
	h = mesh_vqp_get_free(mc, &qp);
	mesh_unlock(&mc->data.lock);
	assert_non_null(h);
	h->send_cq = h->recv_cq = mcq;
	h->mode = MESH_VQP_ACTIVE;
	h->now.rts = true;
	assert_true(returns(post, &qp));
	assert_free(&h->lock.mutex);
	/* What had to wait goes with the next. */
	assert_int_equal(mesh_sendq_init(&h->queue, &cap), 0);
	assert_int_equal(mesh_sendq_push(&h->queue, &wr), 0);
	assert_true(returns(post, &qp));
	assert_int_equal(h->queue.n, 0);
	mcq->notify.qp = &qp;
	assert_true(returns(notify, mcq));
	assert_free(&mcq->notify.lock.mutex);
	/* There is no way to the peer: it goes to ERR with its first send. */
	assert_int_equal(mesh_sendq_push(&h->queue, &wr), 0);
	h->mode = MESH_VQP_FAILING;
	assert_true(returns(fail_now, h));
	assert_free(&mcq->lock.mutex);
	assert_free(&h->lock.mutex);
	assert_int_equal(mcq->sw_cq.n, 1);
}

static void *reap_another(void *arg)
{
	struct mesh_data *data = arg;

	usleep(50000);
	mesh_lock(&data->lock);
	data->reap_list = NULL;
	data->n_reap = 0;
	mesh_unlock(&data->lock);
	return NULL;
}

static void reap(void *mc)
{
	mesh_reaper_run(mc, NULL, true);
}

/* Another thread has what is left of a queue pair. */
static void cancelled_while_it_reaps(void)
{
	struct ibv_context *context = open_slow();
	struct mesh_context *mc = mesh_context_get(context);
	struct mesh_reap_entry entry = {.busy = true};
	pthread_t other;

	mc->data.reap_list = &entry;
	mc->data.n_reap = 1;
	assert_int_equal(pthread_create(&other, NULL, reap_another, &mc->data), 0);
	assert_true(returns(reap, mc));
	pthread_join(other, NULL);
	fake.close_device(context);
}

static int listen_as_agent(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(mesh_root.run_dir, sizeof(mesh_root.run_dir), "/tmp/mesh-cancel-XXXXXX");
	assert_non_null(mkdtemp(mesh_root.run_dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/agent", mesh_root.run_dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void stop_agent(int fd)
{
	char path[sizeof(mesh_root.run_dir) + 8];

	close(fd);
	snprintf(path, sizeof(path), "%s/agent", mesh_root.run_dir);
	unlink(path);
	rmdir(mesh_root.run_dir);
}

/* One that the agent knows of. */
static struct mesh_conn *connected(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_conn *conn = mesh_conn_new(mc, qp);

	assert_non_null(conn);
	mesh_conn_register(conn); /* or the helper thread has */
	return conn;
}

static void unlink_conn(void *conn)
{
	mesh_conn_unlink(conn);
}

static void close_it(void *context)
{
	fake.close_device(context);
}

static void cancelled_while_it_closes(void)
{
	struct ibv_context *context = open_slow();
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_qp qps[] = {{.context = context, .qp_num = 7}, {.context = context, .qp_num = 8}, {.context = context, .qp_num = 9}};
	struct mv_frame frame = {.type = MV_FRAME_UNREGISTER_QP, .qpn = 1};
	struct mesh_conn *conns[3];
	struct ibv_pd pd = {.context = context};
	int fd = listen_as_agent(), i;

	alarm(300); /* a lock that was left taken would keep us here */
	assert_int_equal(mesh_thread_wake(true), 0);
	while (mesh_thread_frame(&frame)) /* until it has found the agent */
		usleep(1000);
	for (i = 0; i < 3; i++)
		conns[i] = connected(mc, &qps[i]);
	assert_true(returns(unlink_conn, conns[0]));
	unlink_conn(conns[1]);
	mc->data.pd = &pd; /* what is given back last */
	assert_true(returns(close_it, context));
	assert_int_equal(fake.state->n_freed, 1);
	assert_null(mesh_context_get(context));
	assert_false(conns[2]->table.linked);
	assert_int_equal(mesh_thread_frame(&frame), 0);
	for (i = 0; i < 3; i++)
		mesh_conn_put(conns[i]);
	stop_agent(fd);
}

TEST(cancelled_with_a_dmabuf)
TEST(cancelled_in_the_lower)
TEST(cancelled_while_it_posts)
TEST(cancelled_while_it_reaps)
TEST(cancelled_while_it_closes)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cancelled_with_a_dmabuf),
		cmocka_unit_test(test_cancelled_in_the_lower),
		cmocka_unit_test(test_cancelled_while_it_posts),
		cmocka_unit_test(test_cancelled_while_it_reaps),
		cmocka_unit_test(test_cancelled_while_it_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
