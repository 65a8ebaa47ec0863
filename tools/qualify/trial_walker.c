// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "psn.h"
#include "trial.h"
#include "wrmlx5.h"

/* Compares the content of libmlx5's rings, as the plugin reads it, with the work requests posted by ibv_post_send() and ibv_wr_*(). */

#define SEND_WRS   64
#define RECV_WRS   32
#define BATCH      12
#define BATCHES    60
#define MAX_SGE    3
#define MAX_INLINE 100
#define BYTES      (64u << 10)
#define LENGTH_MAX 3000
#define ANSWER_NS  10000000000ull

struct posted {
	struct ibv_send_wr wr; /* sg_list unused */
	struct ibv_sge sges[MAX_SGE]; /* without empty entries */
	uint8_t data[MAX_SGE * MAX_INLINE];
	uint32_t inline_bytes;
	uint64_t length;
	uint16_t at; /* place in the ring */
};

struct walker {
	struct q_qp req, resp; /* @req on the device under test */
	struct q_mem mine, theirs;
	struct mv_mlx5_ring sq, rq;
	struct mv_mlx5_cq cq;
	struct posted posted[BATCH];
	uint32_t n;
	enum ibv_mtu mtu;
};

/* ---- posting ----------------------------------------------------------------------------------- */

static uint32_t some_length(struct q_bench *b, bool inlined)
{
	static const uint32_t lengths[] = {0, 1, 4, 11, 12, 13, 16, 28, 29, 33};

	return q_random(b, 3) ? lengths[q_random(b, 10)] : q_random(b, inlined ? 34 : LENGTH_MAX / MAX_SGE);
}

static void make_list(struct q_bench *b, struct walker *w, struct posted *p, struct ibv_sge *list, int n)
{
	bool inlined = p->wr.send_flags & IBV_SEND_INLINE;
	int kept = 0;

	for (int i = 0; i < n; i++) {
		uint32_t at = q_random(b, BYTES - LENGTH_MAX);

		list[i] = (struct ibv_sge){.addr = (uintptr_t)w->mine.buf + at, .length = some_length(b, inlined), .lkey = w->mine.mr->lkey};
		p->length += list[i].length;
		if (inlined) {
			memcpy(p->data + p->inline_bytes, w->mine.buf + at, list[i].length);
			p->inline_bytes += list[i].length;
		} else if (list[i].length) {
			p->sges[kept++] = list[i];
		}
	}
	p->wr.num_sge = kept;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static int make_wr(struct q_bench *b, struct walker *w, struct posted *p, struct ibv_sge *list, bool atomics)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,	 IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ,	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum ibv_wr_opcode opcode = opcodes[q_random(b, atomics ? 7 : 5)];
	int n = is_atomic(opcode) ? 1 : (int)q_random(b, MAX_SGE + 1);

	memset(p, 0, sizeof(*p));
	p->wr.opcode = opcode;
	p->wr.send_flags = (q_random(b, 4) ? 0 : IBV_SEND_FENCE) | (q_random(b, 4) ? 0 : IBV_SEND_SOLICITED);
	if (!is_atomic(opcode) && opcode != IBV_WR_RDMA_READ && n && !q_random(b, 3))
		p->wr.send_flags |= IBV_SEND_INLINE;
	if (is_atomic(opcode)) {
		list[0] = p->sges[0] = (struct ibv_sge){(uintptr_t)w->mine.buf + q_random(b, 64) * 8, 8, w->mine.mr->lkey};
		p->wr.num_sge = 1;
		p->length = 8;
		p->wr.wr.atomic.remote_addr = (uintptr_t)w->theirs.buf + q_random(b, 64) * 8;
		p->wr.wr.atomic.rkey = w->theirs.mr->rkey;
		p->wr.wr.atomic.compare_add = q_random(b, UINT32_MAX);
		if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			p->wr.wr.atomic.swap = ~(uint64_t)q_random(b, UINT32_MAX);
		return n;
	}
	make_list(b, w, p, list, n);
	if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		p->wr.wr.rdma.remote_addr = (uintptr_t)w->theirs.buf + q_random(b, BYTES - LENGTH_MAX);
		p->wr.wr.rdma.rkey = w->theirs.mr->rkey;
	}
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		p->wr.imm_data = (__be32)q_random(b, UINT32_MAX);
	return n;
}

static int post_old(struct walker *w, const struct posted *p, struct ibv_sge *list, int n)
{
	struct ibv_send_wr wr = p->wr, *bad;

	wr.sg_list = list;
	wr.num_sge = n;
	return ibv_post_send(w->req.qp, &wr, &bad);
}

static void start_new(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
	}
}

static int post_new(struct walker *w, const struct posted *p, struct ibv_sge *list, int n)
{
	struct ibv_data_buf bufs[MAX_SGE];

	ibv_wr_start(w->req.ex);
	start_new(w->req.ex, &p->wr);
	if (p->wr.send_flags & IBV_SEND_INLINE) {
		for (int i = 0; i < n; i++)
			bufs[i] = (struct ibv_data_buf){(void *)(uintptr_t)list[i].addr, list[i].length};
		if (n == 1)
			ibv_wr_set_inline_data(w->req.ex, bufs[0].addr, bufs[0].length);
		else
			ibv_wr_set_inline_data_list(w->req.ex, (size_t)n, bufs);
	} else if (n == 1) {
		ibv_wr_set_sge(w->req.ex, list[0].lkey, list[0].addr, list[0].length);
	} else {
		ibv_wr_set_sge_list(w->req.ex, (size_t)n, list);
	}
	return ibv_wr_complete(w->req.ex);
}

static int post_batch(struct q_bench *b, struct walker *w, bool atomics)
{
	struct ibv_sge list[MAX_SGE];
	uint32_t n = 1 + q_random(b, BATCH);
	struct posted *p;
	int err = 0, sges;

	for (w->n = 0; w->n < n && !err; w->n++) {
		p = &w->posted[w->n];
		sges = make_wr(b, w, p, list, atomics);
		p->wr.wr_id = w->n;
		if (w->n + 1 == n)
			p->wr.send_flags |= IBV_SEND_SIGNALED;
		p->at = mv_mlx5_sq_end(&w->sq);
		err = w->req.ex && q_random(b, 2) ? post_new(w, p, list, sges) : post_old(w, p, list, sges);
	}
	return err < 0 ? err : -err;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static const char *differs(const struct walker *w, const struct posted *p, const struct mv_wr *got)
{
	const struct ibv_send_wr *wr = &got->wr;
	unsigned int flags = p->wr.send_flags;

	(void)w;
	if (!p->inline_bytes)
		flags &= ~(unsigned int)IBV_SEND_INLINE; /* empty inline data */
	if (wr->opcode != p->wr.opcode)
		return "the opcode";
	if (wr->send_flags != flags)
		return "the flags";
	if (got->length_bytes != p->length)
		return "the length";
	if (memcmp(&wr->wr, &p->wr.wr, sizeof(wr->wr)) != 0)
		return "the remote address";
	if ((wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) && wr->imm_data != p->wr.imm_data)
		return "the immediate data";
	if (p->inline_bytes)
		return wr->num_sge == 1 && wr->sg_list[0].length == p->inline_bytes &&
				       !memcmp((const void *)(uintptr_t)wr->sg_list[0].addr, p->data, p->inline_bytes) ?
			       NULL :
			       "the inline data";
	if (wr->num_sge != p->wr.num_sge)
		return "the number of entries";
	for (int i = 0; i < wr->num_sge; i++)
		if (memcmp(&wr->sg_list[i], &p->sges[i], sizeof(p->sges[i])) != 0)
			return "an entry of the list";
	return NULL;
}

static enum mv_trial_verdict read_batch(struct walker *w, uint16_t end, struct mv_qualified_trial *t)
{
	uint32_t qpn = w->req.qp->qp_num, psns = 0, consumes = 0, expected = 0, expected_consumes = 0, mtu = q_mtu_bytes(w->mtu);
	uint8_t data[MAX_SGE * MAX_INLINE];
	struct ibv_sge sges[MAX_SGE];
	struct mv_mlx5_run run = {0};
	struct mv_wr got;
	const char *what;
	uint16_t next;

	for (uint32_t i = 0; i < w->n; i++) {
		const struct posted *p = &w->posted[i];

		if (mv_mlx5_sq_get(&w->sq, qpn, p->at, MAX_SGE, sizeof(data), sges, data, &got, &next))
			return q_fail(t, "where a work request with opcode %d was posted, none is found in the ring", (int)p->wr.opcode);
		what = differs(w, p, &got);
		if (what)
			return q_fail(t, "%s of a work request with opcode %d is read as another one than was posted", what, (int)p->wr.opcode);
		if (next != (i + 1 < w->n ? w->posted[i + 1].at : end))
			return q_fail(t, "the place behind a work request with opcode %d is not where the next one begins", (int)p->wr.opcode);
		expected = mv_psn_add(expected, mv_psn_count(p->wr.opcode, p->length, mtu));
		expected_consumes += mv_psn_consumes(p->wr.opcode);
	}
	if (mv_mlx5_sq_psns(&w->sq, qpn, w->posted[0].at, end, mtu, &psns, &consumes) || psns != expected || consumes != expected_consumes)
		return q_fail(t, "%u work requests are counted as %u PSNs and %u receives, not %u and %u", w->n, psns, consumes, expected, expected_consumes);
	if (mv_mlx5_sq_pass(&w->sq, qpn, w->posted[0].at, w->posted[w->n - 1].at, mtu, &run) || run.psns != expected || run.next != end)
		return q_fail(t, "%u work requests are passed over as %u PSNs, not %u", w->n, run.psns, expected);
	return MV_TRIAL_PASS;
}

/* The completion as the plugin sees it, before it is polled. */
static enum mv_trial_verdict wait_completion(struct walker *w, struct mv_qualified_trial *t)
{
	uint64_t began_ns = q_now_ns();
	struct mv_mlx5_cqe cqe;
	int err;

	while ((err = mv_mlx5_cqe_peek(&w->cq, 0, &cqe)) == -EAGAIN) {
		if (q_now_ns() - began_ns > ANSWER_NS)
			return q_unsure(t, "no completion within 10 s");
		if (q_now_ns() - began_ns > 1000000)
			q_sleep_ns(20000);
	}
	if (err)
		return q_fail(t, "a completion is of a kind that is not known");
	if (cqe.qpn != w->req.qp->qp_num || !cqe.send)
		return q_fail(t, "a completion is read as that of another queue");
	if (cqe.error)
		return MV_TRIAL_PASS; /* reported when it is polled */
	if (cqe.wqe_counter != w->posted[w->n - 1].at)
		return q_fail(t, "a completion names place %u of the ring, the work request was at %u", cqe.wqe_counter, w->posted[w->n - 1].at);
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict batch(struct q_bench *b, struct walker *w, bool atomics, struct mv_qualified_trial *t)
{
	enum mv_trial_verdict verdict;
	struct ibv_wc wc;
	int err = 0;

	for (uint32_t i = 0; i < BATCH && !err; i++)
		err = q_post_recv(&w->resp, i, &w->theirs, 0, BYTES);
	if (!err)
		err = post_batch(b, w, atomics);
	if (err)
		return q_broken(t, "posting", err);
	verdict = wait_completion(w, t);
	if (verdict == MV_TRIAL_PASS)
		verdict = read_batch(w, mv_mlx5_sq_end(&w->sq), t);
	err = q_wait(w->req.send_cq, ANSWER_NS, &wc);
	if (verdict != MV_TRIAL_PASS)
		return verdict;
	if (err || wc.status != IBV_WC_SUCCESS)
		return q_unsure(t, "work requests ended with: %s", err ? strerror(-err) : ibv_wc_status_str(wc.status));
	return MV_TRIAL_PASS;
}

/* Receives left in the queue after ERR. */
static enum mv_trial_verdict receives(struct q_bench *b, struct walker *w, struct mv_qualified_trial *t)
{
	struct ibv_sge posted[RECV_WRS], got[MAX_SGE];
	uint32_t n = 1 + q_random(b, RECV_WRS);
	struct ibv_wc wc;
	int err = 0, n_sge;

	for (uint32_t i = 0; i < n && !err; i++) {
		posted[i] = (struct ibv_sge){(uintptr_t)w->mine.buf + q_random(b, 1000), 1 + q_random(b, 1000), w->mine.mr->lkey};
		err = q_post_recv(&w->req, i, &w->mine, (size_t)(posted[i].addr - (uintptr_t)w->mine.buf), posted[i].length);
	}
	if (!err)
		err = q_to(&w->req, IBV_QPS_ERR);
	for (uint32_t i = 0; i < n && !err; i++)
		err = q_wait(w->req.recv_cq, ANSWER_NS, &wc);
	if (err)
		return q_broken(t, "flushed receives", err);
	for (uint32_t i = 0; i < n; i++) {
		n_sge = mv_mlx5_rq_read(&w->rq, mv_mlx5_rq_end(&w->rq), n, i, MAX_SGE, got);
		if (n_sge != 1 || memcmp(&got[0], &posted[i], sizeof(got[0])) != 0)
			return q_fail(t, "a flushed receive is read as another one than was posted");
	}
	return MV_TRIAL_PASS;
}

static int find_rings(struct q_port *port, struct walker *w)
{
	struct mlx5dv_qp qp = {0};
	struct mlx5dv_cq cq = {0};
	struct mlx5dv_obj obj = {.qp = {.in = w->req.qp, .out = &qp}, .cq = {.in = w->req.send_cq, .out = &cq}};
	int err = port->init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ);

	if (err)
		return err < 0 ? err : -err;
	w->sq = (struct mv_mlx5_ring){qp.sq.buf, qp.sq.wqe_cnt, qp.sq.stride, qp.dbrec};
	w->rq = (struct mv_mlx5_ring){qp.rq.buf, qp.rq.wqe_cnt, qp.rq.stride, qp.dbrec};
	w->cq = (struct mv_mlx5_cq){cq.buf, cq.cqe_cnt, cq.cqe_size, cq.dbrec};
	return 0;
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct walker *w, struct mv_qualified_trial *t)
{
	struct q_way way = q_way(b, w->mtu);
	enum mv_trial_verdict verdict = MV_TRIAL_PASS;
	struct ibv_device_attr attr;
	bool atomics = !ibv_query_device(b->dut.ctx, &attr) && attr.atomic_cap != IBV_ATOMIC_NONE;
	uint32_t n, wrs = 0;
	int err = find_rings(&b->dut, w);

	if (err)
		return q_broken(t, "mlx5dv_init_obj", err);
	if (w->sq.stride != 64)
		return q_fail(t, "the send queue's stride is %u, not 64", w->sq.stride);
	err = q_connect(&w->req, &w->resp, &way);
	if (err)
		return q_broken(t, "connecting", err);
	for (n = 0; n < BATCHES && verdict == MV_TRIAL_PASS && q_has_time(b); n++) {
		verdict = batch(b, w, atomics, t);
		q_drain(w->resp.recv_cq);
		wrs += w->n;
		/* Unused receives are lost when the queue pair is reset. */
		if (n % 4 == 3 && verdict == MV_TRIAL_PASS && (err = q_connect(&w->req, &w->resp, &way)))
			return q_broken(t, "connecting", err);
	}
	if (verdict == MV_TRIAL_PASS)
		verdict = receives(b, w, t);
	q_figure(t, "work_requests", wrs);
	return verdict;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = SEND_WRS, .recv_wr = 64, .sge = MAX_SGE, .inline_bytes = MAX_INLINE};
	enum mv_trial_verdict verdict;
	static struct walker w;
	int err;

	if (!b->dut.init_obj)
		return q_skip(t, "not a device of mlx5: work requests are noted down when they are posted, no ring is read");
	memset(&w, 0, sizeof(w));
	w.mtu = b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu;
	err = q_qp_make(&b->dut, &size, &w.req);
	if (!err)
		err = q_qp_make(b->peer, &size, &w.resp);
	if (!err)
		err = q_mem_make(&b->dut, BYTES, &w.mine);
	if (!err)
		err = q_mem_make(b->peer, BYTES, &w.theirs);
	for (size_t i = 0; !err && i < w.mine.bytes; i++)
		w.mine.buf[i] = (uint8_t)(i * 7);
	verdict = err ? q_broken(t, "queue pairs and memory", err) : rounds(b, &w, t);
	q_qp_end(&w.req);
	q_qp_end(&w.resp);
	q_mem_end(&w.mine);
	q_mem_end(&w.theirs);
	return verdict;
}

const struct q_trial trial_walker = {
	.name = "walker",
	.assumption = "Work requests, receives and completions are in the rings of libmlx5 in the format in which meshverbs reads them.",
	.source = "mlx5dv_init_obj(3), infiniband/mlx5dv.h; ibv_post_send(3), ibv_wr_post(3)",
	.run = run,
};
