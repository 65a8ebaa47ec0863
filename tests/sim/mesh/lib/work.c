// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a program does with an end once it has it: posts, polls, waits for events. */
#include "moved.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "mlx5.h"
#include "wrbuild.h"

static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[16];
	int i;

	if (!wr_build(qp, wr))
		fail_msg("opcode %d", wr->opcode);
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
		else
			ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
		return;
	}
	for (i = 0; i < wr->num_sge; i++)
		bufs[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
						.length = wr->sg_list[i].length};
	ibv_wr_set_inline_data_list(qp, (size_t)wr->num_sge, bufs);
}

int end_send(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (!e->qp_ex)
		return ibv_post_send(e->qp, wr, &bad);
	ibv_wr_start(e->qp_ex);
	for (; wr; wr = wr->next)
		build(e->qp_ex, wr);
	return ibv_wr_complete(e->qp_ex);
}

int end_send_empty(struct end *e, uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = IBV_WR_SEND, .send_flags = flags};

	return end_send(e, &wr);
}

int end_recv(struct end *e, uint64_t wr_id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf + offset, .length = length, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

static int poll_extended(struct ibv_cq_ex *cq, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	int err = ibv_start_poll(cq, &attr);

	if (err == ENOENT)
		return 0;
	assert_int_equal(err, 0);
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	wc->qp_num = ibv_wc_read_qp_num(cq);
	if (!wc->status) {
		wc->opcode = ibv_wc_read_opcode(cq);
		wc->wc_flags = ibv_wc_read_wc_flags(cq);
		wc->byte_len = ibv_wc_read_byte_len(cq);
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			wc->imm_data = ibv_wc_read_imm_data(cq);
	}
	ibv_end_poll(cq);
	return 1;
}

int end_poll(struct end *e, struct ibv_wc *wc)
{
	return e->cq_ex ? poll_extended(e->cq_ex, wc) : ibv_poll_cq(e->cq, 1, wc);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct ibv_wc end_wait(struct end *e)
{
	int64_t end = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;
	int n;

	while (now_ms() < end) {
		n = end_poll(e, &wc);
		assert_true(n >= 0);
		if (n)
			return wc;
	}
	fail_msg("no completion within %d ms", PATIENCE_MS);
	abort();
}

void cq_wait_arrived(struct ibv_cq *cq, uint32_t n)
{
	struct mesh_mlx5 *m = &world.mc->data.mlx5;
	int64_t end = now_ms() + PATIENCE_MS;
	struct mv_mlx5_cqe cqe;
	struct mv_mlx5_cq ring;
	int err;

	if (!n)
		return;
	assert_true(mesh_mlx5_is_lower(world.mc));
	mesh_lock(&world.mc->data.lock);
	if (m->state == MESH_MLX5_UNKNOWN) {
		assert_true(mesh_mlx5_known(world.mc));
		m->state = MESH_MLX5_UNKNOWN;
	}
	mesh_unlock(&world.mc->data.lock);
	assert_int_equal(mesh_mlx5_cq(world.mc, cq, &ring), 0);
	do {
		err = mv_mlx5_cqe_peek(&ring, n - 1, &cqe);
		if (err)
			usleep(100);
	} while (err && now_ms() < end);
	assert_int_equal(err, 0);
}

void end_wait_begun(const struct end *e, uint32_t psn)
{
	const struct mesh_context *mc = mesh_context_get(e->qp->context);
	int64_t end = now_ms() + PATIENCE_MS;
	struct ibv_qp_attr attr = {.rq_psn = psn};
	struct ibv_qp_init_attr init;

	while (attr.rq_psn == psn && now_ms() < end)
		assert_int_equal(mc->lower.qp.query_qp(e->qp, &attr, IBV_QP_RQ_PSN, &init), 0);
	assert_int_not_equal(attr.rq_psn, psn);
}

void end_quiet(struct end *e)
{
	int64_t end = now_ms() + 20;
	struct ibv_wc wc;

	while (now_ms() < end)
		assert_int_equal(end_poll(e, &wc), 0);
}

bool end_event(struct end *e, int ms)
{
	struct pollfd fd = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *cq_context;

	if (poll(&fd, 1, ms) != 1)
		return false;
	assert_int_equal(ibv_get_cq_event(e->channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, e->cq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

bool world_event(const struct world *w, struct ibv_async_event *ret, int ms)
{
	struct pollfd fd = {.fd = w->context->async_fd, .events = POLLIN};

	if (poll(&fd, 1, ms) != 1)
		return false;
	assert_int_equal(ibv_get_async_event(w->context, ret), 0);
	ibv_ack_async_event(ret);
	return true;
}

unsigned int remote_access(query_qp_fn query_qp, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	assert_int_equal(query_qp(qp, &is, IBV_QP_ACCESS_FLAGS, &init), 0);
	return is.qp_access_flags & ALL_REMOTE;
}
