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
#include <string.h>
#include <cmocka.h>

#include "random.h"
#include "ring.h"
#include "wrbuild.h"

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

static int post_new(const struct posted *p, struct ibv_sge *list, int n)
{
	struct ibv_data_buf bufs[MAX_SGE];

	ibv_wr_start(t.ex);
	assert_true(wr_build(t.ex, &p->wr));
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
	ring_open(sig_all);
	for (size_t i = 0; i < sizeof(t.source); i++)
		t.source[i] = (uint8_t)rnd(256);
	for (int i = 0; i < ROUNDS; i++)
		one_round(sig_all);
	ring_close();
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
