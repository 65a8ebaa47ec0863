/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/mlx5dv.h>

#include "random.h"
#include "ring.h"

struct ring t;

static void make_qp(bool sig_all)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = t.pair.a.cq,
		.recv_cq = t.pair.a.cq,
		.cap = {.max_send_wr = SEND_WRS,
			.max_recv_wr = RECV_WRS,
			.max_send_sge = MAX_SGE,
			.max_recv_sge = 3,
			.max_inline_data = MAX_INLINE},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = t.pair.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
	struct mlx5dv_qp dv_qp = {0};
	struct mlx5dv_cq dv_cq = {0};
	struct mlx5dv_obj obj = {.cq = {.in = t.pair.a.cq, .out = &dv_cq}};

	t.qp = ibv_create_qp_ex(t.pair.ctx, &attr);
	assert_non_null(t.qp);
	t.ex = ibv_qp_to_qp_ex(t.qp);
	obj.qp.in = t.qp;
	obj.qp.out = &dv_qp;
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
	t.sq = (struct mv_mlx5_ring){dv_qp.sq.buf, dv_qp.sq.wqe_cnt, dv_qp.sq.stride, dv_qp.dbrec};
	t.rq = (struct mv_mlx5_ring){dv_qp.rq.buf, dv_qp.rq.wqe_cnt, dv_qp.rq.stride, dv_qp.dbrec};
	t.cq = (struct mv_mlx5_cq){dv_cq.buf, dv_cq.cqe_cnt, dv_cq.cqe_size, dv_cq.dbrec};
	assert_int_equal(t.sq.stride, 64);
}

void modify(struct ibv_qp *qp, enum ibv_qp_state state, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {.qp_state = state,
				   .port_num = 1,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = peer ? peer->qp_num : 0,
				   .max_dest_rd_atomic = 16,
				   .max_rd_atomic = 4,
				   .min_rnr_timer = 1,
				   .timeout = 20,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .ah_attr = {.is_global = 1,
					       .port_num = 1,
					       .grh = {.dgid = t.pair.gid,
						       .sgid_index = (uint8_t)t.pair.gid_index,
						       .hop_limit = 1}}};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	if (state == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

void connect_both(void)
{
	struct ibv_qp *b = t.pair.b.qp;

	modify(b, IBV_QPS_RESET, NULL);
	modify(b, IBV_QPS_INIT, NULL);
	modify(t.qp, IBV_QPS_INIT, NULL);
	modify(b, IBV_QPS_RTR, t.qp);
	modify(t.qp, IBV_QPS_RTR, b);
	modify(b, IBV_QPS_RTS, NULL);
	modify(t.qp, IBV_QPS_RTS, NULL);
}

int post_old(const struct posted *p, struct ibv_sge *list, int n)
{
	struct ibv_send_wr wr = p->wr, *bad;

	wr.sg_list = list;
	wr.num_sge = n;
	return ibv_post_send(t.qp, &wr, &bad);
}

/* Is the work request there the last one that was posted? */
static bool is_last(uint16_t place)
{
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	struct mv_wr wr;
	uint16_t next;

	assert_int_equal(mv_mlx5_sq_get(&t.sq, t.qp->qp_num, place, MAX_SGE, MAX_INLINE, sges, data, &wr, &next), 0);
	return next == mv_mlx5_sq_end(&t.sq);
}

static void drain_one(struct drained *d, bool *sends_done, bool *receives_done)
{
	struct mv_mlx5_cqe cqe;
	struct done done;
	struct ibv_wc wc;
	int err = mv_mlx5_cqe_peek(&t.cq, 0, &cqe);

	if (err == -EAGAIN)
		return;
	assert_int_equal(err, 0);
	assert_int_equal(ibv_poll_cq(t.pair.a.cq, 1, &wc), 1);
	if (cqe.qpn != t.qp->qp_num)
		return;
	assert_int_equal(cqe.qpn, wc.qp_num);
	assert_int_equal(cqe.error, wc.status != IBV_WC_SUCCESS);
	done = (struct done){wc.wr_id, cqe.wqe_counter, cqe.error};
	if (!cqe.send && wc.wr_id == MARKER) {
		*receives_done = true;
		d->rq_end = (uint16_t)(mv_mlx5_rq_end(&t.rq) - 1);
	} else if (!cqe.send) {
		d->receives[d->n_receives++] = done;
	} else if (wc.wr_id == MARKER) {
		*sends_done = true;
		d->sq_end = cqe.wqe_counter;
	} else {
		d->sends[d->n_sends++] = done;
		if (!d->marked && is_last(cqe.wqe_counter)) {
			*sends_done = true;
			d->sq_end = mv_mlx5_sq_end(&t.sq);
		}
	}
}

void drain(struct drained *d)
{
	struct ibv_recv_wr recv = {.wr_id = MARKER}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = MARKER, .opcode = IBV_WR_SEND}, *bad_send;
	bool sends_done = false, receives_done = false;

	memset(d, 0, sizeof(*d));
	d->marked = !ibv_post_send(t.qp, &send, &bad_send);
	assert_true(d->marked || t.n_posted);
	assert_int_equal(ibv_post_recv(t.qp, &recv, &bad_recv), 0);
	for (uint64_t i = 0; !sends_done || !receives_done; i++) {
		assert_true(i < PATIENCE);
		drain_one(d, &sends_done, &receives_done);
	}
}

void ring_open(bool sig_all)
{
	const char *seed = getenv("TEST_SEED");

	rng = seed ? strtoull(seed, NULL, 0) : UINT64_C(0x9e3779b97f4a7c15);
	pair_open(&t.pair, &(struct options){.unconnected = true});
	make_qp(sig_all);
}

void ring_close(void)
{
	assert_int_equal(ibv_destroy_qp(t.qp), 0);
	pair_close(&t.pair);
}
