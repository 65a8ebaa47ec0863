/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What was executed of the work requests that are read back from the rings of the distribution's libmlx5 (wrmlx5.h), by
 * the PSN of a responder that fails in the middle of them. Runs in a host of the simulator. Seeded: TEST_SEED=n
 * simverbs_wqefates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "random.h"
#include "ring.h"

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
	size_t again = 0, posted = 0;
	struct drained d;

	(void)state;
	ring_open(false);
	memset(t.pair.a.buf, 0xa5, BUF_BYTES / 2);
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
	ring_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
