/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Outstanding work requests read back from the rings of the distribution's libmlx5 (wrmlx5.h),
 * against what was posted: every kind that a connected QP takes, by ibv_post_send() and by
 * ibv_wr_*, at any place of the ring. Runs in a host of the simulator. Seeded: TEST_SEED=n
 * simverbs_wqering.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <infiniband/mlx5dv.h>

#include "pair.h"
#include "random.h"
#include "wrmlx5.h"

#define ROUNDS     250
#define MAX_SGE    4
#define MAX_INLINE 200
#define SEND_WRS   40
#define RECV_WRS   24
#define MARKER     UINT64_C(0xabcdef0123456789)
#define MTU        1024
#define PATIENCE   2000000000 /* polls; minutes */

/* A work request as it was posted, without what leaves no trace: empty entries. */
struct posted {
	struct ibv_send_wr wr;
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	uint32_t inline_bytes;
	uint64_t length;
};

struct received {
	uint64_t wr_id;
	struct ibv_sge sges[MAX_SGE];
	int n;
};

static struct {
	struct pair pair;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mv_mlx5_ring sq, rq;
	struct mv_mlx5_cq cq;
	uint64_t next_id;
	struct posted posted[SEND_WRS];
	size_t n_posted;
	struct received received[RECV_WRS];
	size_t n_received;
	uint8_t source[4096];
} t;

/* ---- the QP ------------------------------------------------------------------------------------
 */

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

static void modify(struct ibv_qp *qp, enum ibv_qp_state state, struct ibv_qp *peer)
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

static void connect_both(void)
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

/* ---- posting -----------------------------------------------------------------------------------
 */

static uint32_t some_length(bool inlined)
{
	static const uint32_t lengths[] = {0, 1, 4, 11, 12, 13, 16, 28, 29, 50};

	return rnd(3) ? lengths[rnd(10)] : rnd(inlined ? 50 : 3000);
}

static void make_list(struct posted *p, struct ibv_sge *list, int n)
{
	bool inlined = p->wr.send_flags & IBV_SEND_INLINE;
	int kept = 0;

	for (int i = 0; i < n; i++) {
		uint32_t at = rnd(1000);

		list[i] = (struct ibv_sge){.addr = (uintptr_t)t.source + at,
					   .length = some_length(inlined),
					   .lkey = t.pair.a.mr->lkey + rnd(3)};
		p->length += list[i].length;
		if (inlined) {
			memcpy(p->data + p->inline_bytes, t.source + at, list[i].length);
			p->inline_bytes += list[i].length;
		} else if (list[i].length) {
			p->sges[kept++] = list[i];
		}
	}
	p->wr.num_sge = kept;
}

static struct posted make_wr(struct ibv_sge *list, int *ret_n, bool only_writes)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE,          IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct posted p = {.wr = {.wr_id = ++t.next_id * UINT64_C(0x100000001),
				  .opcode = opcodes[only_writes ? 0 : rnd(7)]}};
	bool atomic = p.wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP;
	int n = atomic ? 1 : (int)rnd(MAX_SGE + 1);

	p.wr.send_flags = (rnd(3) ? IBV_SEND_SIGNALED : 0u) | (rnd(4) ? 0 : IBV_SEND_FENCE) |
			  (rnd(4) ? 0 : IBV_SEND_SOLICITED);
	if (!atomic && p.wr.opcode != IBV_WR_RDMA_READ && n && !rnd(3))
		p.wr.send_flags |= IBV_SEND_INLINE;
	make_list(&p, list, n);
	if (atomic) {
		list[0].length = 8;
		p.sges[0] = list[0];
		p.wr.num_sge = 1;
		p.length = 8;
		p.wr.wr.atomic.remote_addr = (uintptr_t)t.pair.b.buf + rnd(64) * 8;
		p.wr.wr.atomic.rkey = rnd(UINT32_MAX);
		p.wr.wr.atomic.compare_add = rng;
		if (p.wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			p.wr.wr.atomic.swap = ~rng;
	} else if (p.wr.opcode == IBV_WR_RDMA_WRITE || p.wr.opcode == IBV_WR_RDMA_READ ||
		   p.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		p.wr.wr.rdma.remote_addr = (uintptr_t)t.pair.b.buf + rnd(1000);
		p.wr.wr.rdma.rkey = only_writes ? t.pair.b.mr->rkey : rnd(UINT32_MAX);
	}
	if (p.wr.opcode == IBV_WR_SEND_WITH_IMM || p.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		p.wr.imm_data = (__be32)rnd(UINT32_MAX);
	*ret_n = n;
	return p;
}

static int post_old(const struct posted *p, struct ibv_sge *list, int n)
{
	struct ibv_send_wr wr = p->wr, *bad;

	wr.sg_list = list;
	wr.num_sge = n;
	return ibv_post_send(t.qp, &wr, &bad);
}

static void start_new(const struct posted *p)
{
	const struct ibv_send_wr *wr = &p->wr;

	t.ex->wr_id = wr->wr_id;
	t.ex->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(t.ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(t.ex, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(t.ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(t.ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
				      wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(t.ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(t.ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(t.ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
	}
}

static int post_new(const struct posted *p, struct ibv_sge *list, int n)
{
	struct ibv_data_buf bufs[MAX_SGE];

	ibv_wr_start(t.ex);
	start_new(p);
	if (p->wr.send_flags & IBV_SEND_INLINE) {
		for (int i = 0; i < n; i++)
			bufs[i] = (struct ibv_data_buf){(void *)(uintptr_t)list[i].addr,
							list[i].length};
		if (n == 1)
			ibv_wr_set_inline_data(t.ex, bufs[0].addr, bufs[0].length);
		else
			ibv_wr_set_inline_data_list(t.ex, (size_t)n, bufs);
	} else if (n == 1) {
		ibv_wr_set_sge(t.ex, list[0].lkey, list[0].addr, list[0].length);
	} else {
		ibv_wr_set_sge_list(t.ex, (size_t)n, list);
	}
	return ibv_wr_complete(t.ex);
}

/* Return: false when the ring is full. */
static bool post_one(bool only_writes)
{
	struct ibv_sge list[MAX_SGE];
	struct posted p;
	int n, err;

	p = make_wr(list, &n, only_writes);
	if (only_writes) {
		p.wr.send_flags |= IBV_SEND_SIGNALED;
		for (int i = 0; i < n; i++)
			list[i] = (struct ibv_sge){(uintptr_t)t.pair.a.buf, list[i].length,
						   t.pair.a.mr->lkey};
	}
	err = rnd(2) ? post_old(&p, list, n) : post_new(&p, list, n);
	if (err)
		return false;
	assert_true(t.n_posted < SEND_WRS);
	t.posted[t.n_posted++] = p;
	return true;
}

static void post_receive(void)
{
	struct received *r = &t.received[t.n_received++];
	struct ibv_sge list[3];
	struct ibv_recv_wr wr = {.wr_id = ++t.next_id, .sg_list = list, .num_sge = (int)rnd(4)},
			   *bad;

	*r = (struct received){.wr_id = wr.wr_id};
	for (int i = 0; i < wr.num_sge; i++) {
		list[i] = (struct ibv_sge){rng, rnd(4) ? 1 + rnd(100000) : 0, rnd(UINT32_MAX)};
		if (list[i].length)
			r->sges[r->n++] = list[i];
	}
	assert_int_equal(ibv_post_recv(t.qp, &wr, &bad), 0);
}

/* ---- draining ----------------------------------------------------------------------------------
 */

struct done {
	uint64_t wr_id;
	uint16_t wqe_counter;
	bool error;
};

struct drained {
	struct done sends[SEND_WRS + 1], receives[RECV_WRS + 1];
	size_t n_sends, n_receives;
	uint16_t sq_end, rq_end;
	bool marked; /* there was room for a marker in the send queue */
};

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

static void drain(struct drained *d)
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

/* ---- comparing ---------------------------------------------------------------------------------
 */

static void compare_wr(const struct posted *p, const struct mv_wr *got, bool sig_all)
{
	const struct ibv_send_wr *wr = &got->wr;
	unsigned int flags = p->wr.send_flags;

	assert_true(wr->wr_id == p->wr.wr_id);
	assert_int_equal(wr->opcode, p->wr.opcode);
	if (sig_all)
		flags |= IBV_SEND_SIGNALED;
	if (!p->inline_bytes)
		flags &= ~(unsigned int)IBV_SEND_INLINE; /* of nothing */
	assert_int_equal(wr->send_flags, flags);
	assert_true(got->length_bytes == p->length);
	assert_null(wr->next);
	if (p->inline_bytes) {
		assert_int_equal(wr->num_sge, 1);
		assert_int_equal(wr->sg_list[0].length, p->inline_bytes);
		assert_memory_equal((void *)(uintptr_t)wr->sg_list[0].addr, p->data,
				    p->inline_bytes);
	} else {
		assert_int_equal(wr->num_sge, p->wr.num_sge);
		for (int i = 0; i < wr->num_sge; i++) {
			assert_true(wr->sg_list[i].addr == p->sges[i].addr);
			assert_int_equal(wr->sg_list[i].length, p->sges[i].length);
			assert_int_equal(wr->sg_list[i].lkey, p->sges[i].lkey);
		}
	}
	if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		assert_int_equal(wr->imm_data, p->wr.imm_data);
	/* Places that an opcode does not use are zero in both. */
	assert_memory_equal(&wr->wr, &p->wr.wr, sizeof(wr->wr));
}

static void compare_sends(const struct drained *d, bool sig_all)
{
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	struct mv_mlx5_run run = {0};
	struct mv_wr got;
	uint32_t psns = 0, expected = 0, consumes = 0, expected_consumes = 0;
	uint16_t at, next;

	assert_int_equal(d->n_sends, t.n_posted);
	for (size_t i = 0; i < t.n_posted; i++) {
		at = d->sends[i].wqe_counter;
		assert_int_equal(mv_mlx5_sq_get(&t.sq, t.qp->qp_num, at, MAX_SGE, MAX_INLINE, sges, data, &got, &next), 0);
		assert_int_equal(next, i + 1 < t.n_posted ? d->sends[i + 1].wqe_counter : d->sq_end);
		got.wr.wr_id = d->sends[i].wr_id;
		compare_wr(&t.posted[i], &got, sig_all);
		expected += mv_psn_count(t.posted[i].wr.opcode, t.posted[i].length, MTU);
		expected_consumes += mv_psn_consumes(t.posted[i].wr.opcode);
	}
	if (t.n_posted) {
		at = d->sends[0].wqe_counter;
		assert_int_equal(mv_mlx5_sq_psns(&t.sq, t.qp->qp_num, at, d->sq_end, MTU, &psns, &consumes), 0);
		assert_int_equal(mv_mlx5_sq_pass(&t.sq, t.qp->qp_num, at, d->sends[t.n_posted - 1].wqe_counter, MTU, &run), 0);
		assert_int_equal(run.next, d->sq_end);
	}
	assert_int_equal(psns, expected);
	assert_int_equal(consumes, expected_consumes);
	assert_int_equal(run.psns, expected);
	assert_int_equal(run.consumes, expected_consumes);
}

static void compare_receives(const struct drained *d)
{
	struct ibv_sge sges[3];

	assert_int_equal(d->n_receives, t.n_received);
	for (uint32_t i = 0; i < t.n_received; i++) {
		const struct received *r = &t.received[i];

		assert_true(d->receives[i].wr_id == r->wr_id);
		assert_int_equal(
			mv_mlx5_rq_read(&t.rq, d->rq_end, (uint32_t)t.n_received, i, 3, sges),
			r->n);
		for (int s = 0; s < r->n; s++)
			assert_memory_equal(&sges[s], &r->sges[s], sizeof(sges[s]));
	}
}

/* ---- rounds ------------------------------------------------------------------------------------
 */

/* The ring is at any place when the work begins that will be read back. */
static void turn_the_ring(void)
{
	uint32_t n = rnd(100);
	struct mv_mlx5_cqe cqe;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < n; i++) {
		t.n_posted = 0;
		assert_true(post_one(true));
		wc = wait_wc(t.pair.a.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(wc.wr_id == t.posted[0].wr.wr_id);
		assert_int_equal(mv_mlx5_cqe_peek(&t.cq, 0, &cqe), -EAGAIN);
	}
	t.n_posted = 0;
}

static void one_round(bool sig_all)
{
	struct drained d;
	uint32_t n_sends = rnd(4) ? rnd(SEND_WRS) : SEND_WRS + 1, n_receives = rnd(RECV_WRS);

	t.n_posted = t.n_received = 0;
	connect_both();
	turn_the_ring();
	/* Nobody answers any more. */
	modify(t.pair.b.qp, IBV_QPS_ERR, NULL);
	for (uint32_t i = 0; i < n_receives; i++)
		post_receive();
	for (uint32_t i = 0; i < n_sends && t.n_posted < SEND_WRS && post_one(false); i++)
		;
	modify(t.qp, IBV_QPS_ERR, NULL);
	drain(&d);
	compare_sends(&d, sig_all);
	compare_receives(&d);
	modify(t.qp, IBV_QPS_RESET, NULL);
}

static void rounds(bool sig_all)
{
	const char *seed = getenv("TEST_SEED");

	rng = seed ? strtoull(seed, NULL, 0) : UINT64_C(0x9e3779b97f4a7c15);
	pair_open(&t.pair, &(struct options){.unconnected = true});
	for (size_t i = 0; i < sizeof(t.source); i++)
		t.source[i] = (uint8_t)rnd(256);
	make_qp(sig_all);
	for (int i = 0; i < ROUNDS; i++)
		one_round(sig_all);
	assert_int_equal(ibv_destroy_qp(t.qp), 0);
	pair_close(&t.pair);
}

/* ---- what was executed -------------------------------------------------------------------------
 */

#define SLOT 4096u

static void post_to_slot(uint32_t i)
{
	struct posted *p = &t.posted[t.n_posted];
	struct ibv_sge sge = {.addr = (uintptr_t)t.pair.a.buf,
			      .length = rnd(3) ? 1 + rnd(SLOT) : 1024 * (1 + rnd(4)),
			      .lkey = t.pair.a.mr->lkey};

	*p = (struct posted){.wr = {.wr_id = i,
				    .opcode = rnd(2) ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
				    .send_flags = (rnd(3) ? 0 : IBV_SEND_SIGNALED) |
						  (rnd(5) ? 0 : IBV_SEND_FENCE)},
			     .length = sge.length};
	if (!rnd(4)) { /* its result is put where nothing is sent from */
		p->wr.opcode = IBV_WR_RDMA_READ;
		sge.addr += BUF_BYTES / 2;
	}
	p->wr.wr.rdma.remote_addr = (uintptr_t)t.pair.b.buf + i * SLOT;
	p->wr.wr.rdma.rkey = t.pair.b.mr->rkey;
	if (p->wr.opcode == IBV_WR_SEND)
		post_recv(&t.pair, i, i * SLOT, SLOT);
	assert_int_equal(post_old(p, &sge, 1), 0);
	t.n_posted++;
}

/* A WRITE's or SEND's last byte is there if and only if it was executed. */
static bool was_executed(const struct posted *p)
{
	return t.pair.b.buf[p->wr.wr_id * SLOT + p->length - 1] != 0;
}

static uint32_t count_received(void)
{
	uint32_t n = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(t.pair.b.cq, 1, &wc) == 1)
		n += wc.status == IBV_WC_SUCCESS;
	return n;
}

/* What is read on the way to the first error, and from it on, as the plugin does. */
struct taken {
	uint16_t at; /* the ring began at 0 */
	uint32_t psns, consumes;
	struct mv_psn_wr wrs[SEND_WRS];
	size_t n;
};

static void take(struct taken *k, const struct done *done)
{
	struct mv_mlx5_run run = {0};
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	struct mv_wr wr;

	if (!done->error) {
		assert_int_equal(k->n, 0);
		assert_int_equal(mv_mlx5_sq_pass(&t.sq, t.qp->qp_num, k->at, done->wqe_counter, MTU, &run), 0);
		k->at = run.next;
	} else {
		if (k->n)
			assert_int_equal(done->wqe_counter, k->at);
		assert_int_equal(mv_mlx5_sq_psns(&t.sq, t.qp->qp_num, k->at, done->wqe_counter, MTU, &run.psns, &run.consumes), 0);
		assert_int_equal(mv_mlx5_sq_get(&t.sq, t.qp->qp_num, done->wqe_counter, MAX_SGE, MAX_INLINE, sges, data, &wr, &k->at), 0);
		k->wrs[k->n++] = mv_wr_psn(&wr);
	}
	k->psns += run.psns;
	k->consumes += run.consumes;
}

static void check_fates(const struct drained *d, size_t *ret_again)
{
	enum mv_fate fates[SEND_WRS];
	struct mv_psn_view view = {.rq_psn = rq_psn(t.pair.b.qp), .mtu_bytes = MTU};
	struct taken taken = {0};
	uint32_t received, rest, rest_consumes;
	size_t first;

	for (size_t i = 0; i < d->n_sends; i++)
		take(&taken, &d->sends[i]);
	if (!taken.n) {
		assert_int_equal(mv_mlx5_sq_psns(&t.sq, t.qp->qp_num, taken.at, d->sq_end, MTU, &rest, &rest_consumes), 0);
		taken.psns += rest;
		taken.consumes += rest_consumes;
	}
	first = t.n_posted - taken.n;
	received = taken.consumes;
	view.first_psn = taken.psns & MV_PSN_MASK;
	assert_int_equal(mv_psn_decide(taken.wrs, taken.n, &view, fates, NULL), 0);
	for (size_t i = 0; i < t.n_posted; i++) {
		const struct posted *p = &t.posted[i];
		enum mv_fate fate = i < first ? MV_FATE_DONE : fates[i - first];

		*ret_again += fate == MV_FATE_REPLAY;
		if (p->wr.opcode == IBV_WR_RDMA_READ)
			continue;
		assert_int_equal(was_executed(p), fate == MV_FATE_DONE);
		if (i >= first && fate == MV_FATE_DONE)
			received += mv_psn_consumes(p->wr.opcode);
	}
	assert_int_equal(count_received(), received);
}

/* The responder goes to ERR in the middle of it: its rq_psn tells what it has executed. */
static void test_executed(void **state)
{
	const char *seed = getenv("TEST_SEED");
	size_t again = 0, posted = 0;
	struct drained d;

	(void)state;
	rng = seed ? strtoull(seed, NULL, 0) : UINT64_C(0x9e3779b97f4a7c15);
	pair_open(&t.pair, &(struct options){.unconnected = true});
	memset(t.pair.a.buf, 0xa5, BUF_BYTES / 2);
	make_qp(false);
	for (int round = 0; round < ROUNDS; round++) {
		/* So many are executed for certain; who knows how many more. */
		uint32_t n = 1 + rnd(SEND_WRS - 1), until = rnd(n + 1), reached = 0;

		memset(t.pair.b.buf, 0, SEND_WRS * SLOT);
		t.n_posted = t.n_received = 0;
		connect_both();
		for (uint32_t i = 0; i < n; i++) {
			post_to_slot(i);
			reached += i < until ? mv_psn_count(t.posted[i].wr.opcode,
							    t.posted[i].length, MTU)
					     : 0;
			for (uint64_t w = 0; i + 1 == until && rq_psn(t.pair.b.qp) < reached; w++)
				assert_true(w < PATIENCE);
		}
		modify(t.pair.b.qp, IBV_QPS_ERR, NULL);
		modify(t.qp, IBV_QPS_ERR, NULL);
		drain(&d);
		check_fates(&d, &again);
		posted += n;
		modify(t.qp, IBV_QPS_RESET, NULL);
	}
	print_message("%zu posted, %zu to be repeated\n", posted, again);
	assert_true(again > posted / 10 && again < posted * 9 / 10);
	assert_int_equal(ibv_destroy_qp(t.qp), 0);
	pair_close(&t.pair);
}

static void test_signaled_by_choice(void **state)
{
	(void)state;
	rounds(false);
}

static void test_all_signaled(void **state)
{
	(void)state;
	rounds(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signaled_by_choice),
		cmocka_unit_test(test_all_signaled),
		cmocka_unit_test(test_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
