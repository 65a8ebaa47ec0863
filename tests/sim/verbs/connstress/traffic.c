// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Posting, by either way of doing it. */
#include "stress.h"

#include <errno.h>
#include <string.h>

#define SEND_ID(q, op)     ((uint64_t)1 << 32 | (uint64_t)(q) << 16 | (op))
#define RECV_ID(dom, slot) ((uint64_t)2 << 32 | (uint64_t)(dom) << 16 | (slot))

static void post_slot(struct worker *w, struct endpoint *ep, unsigned int d)
{
	struct domain *dom = &w->doms[d];
	unsigned int slot = dom->n_slots++;
	struct ibv_sge sge = {(uintptr_t)slot_of(w, d, slot), MAX_BYTES, dom->local_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV_ID(d, slot), .sg_list = &sge, .num_sge = 1}, *bad;
	int err = dom->srq ? ibv_post_srq_recv(dom->srq, &wr, &bad)
			   : ibv_post_recv(ep->qp, &wr, &bad);

	if (err)
		die(w, err, "post_recv");
	if (!dom->srq)
		ep->n_recv++;
}

/* As many as the other side's operations will take. */
void receives_post(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		const struct qp_script *theirs = &their_side(w)->qps[q];

		for (unsigned int i = 0; i < theirs->n_ops; i++) {
			if (op_consumes_recv(&theirs->ops[i]))
				post_slot(w, &w->eps[q], my_side(w)->qps[q].dev);
		}
	}
}

static uint64_t remote_address(const struct worker *w, unsigned int q, unsigned int i,
			       const struct op *op)
{
	switch (op->type) {
	case OP_READ:
		return w->theirs.target + read_at(q);
	case OP_ADD:
		return w->theirs.target + counter_at(q);
	default:
		return w->theirs.target + write_at(q, i);
	}
}

static void post_old(struct worker *w, unsigned int q, unsigned int i, const struct op *op,
		     struct ibv_sge *sge, uint32_t rkey)
{
	static const enum ibv_wr_opcode opcodes[OP_TYPES] = {
		IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_send_wr wr =
				   {
					   .wr_id = SEND_ID(q, i),
					   .sg_list = sge,
					   .num_sge = 1,
					   .opcode = opcodes[op->type],
					   .send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0u) |
							 (op->in_line ? IBV_SEND_INLINE : 0u),
					   .imm_data = script_imm(&w->script, w->side, q, i),
				   },
			   *bad;
	int err;

	if (op->type == OP_ADD) {
		wr.wr.atomic.remote_addr = remote_address(w, q, i, op);
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = i + 1;
	} else {
		wr.wr.rdma.remote_addr = remote_address(w, q, i, op);
		wr.wr.rdma.rkey = rkey;
	}
	err = ibv_post_send(w->eps[q].qp, &wr, &bad);
	if (err)
		die(w, err, "post_send");
}

static void post_new(struct worker *w, unsigned int q, unsigned int i, const struct op *op,
		     struct ibv_sge *sge, uint32_t rkey)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(w->eps[q].qp);
	uint64_t there = remote_address(w, q, i, op);
	uint32_t imm = script_imm(&w->script, w->side, q, i);
	int err;

	ibv_wr_start(qp);
	qp->wr_id = SEND_ID(q, i);
	qp->wr_flags = op->signaled ? IBV_SEND_SIGNALED : 0;
	switch (op->type) {
	case OP_SEND:
		ibv_wr_send(qp);
		break;
	case OP_SEND_IMM:
		ibv_wr_send_imm(qp, imm);
		break;
	case OP_WRITE:
		ibv_wr_rdma_write(qp, rkey, there);
		break;
	case OP_WRITE_IMM:
		ibv_wr_rdma_write_imm(qp, rkey, there, imm);
		break;
	case OP_READ:
		ibv_wr_rdma_read(qp, rkey, there);
		break;
	default:
		ibv_wr_atomic_fetch_add(qp, rkey, there, i + 1);
		break;
	}
	if (op->in_line)
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)sge->addr, sge->length);
	else
		ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
	err = ibv_wr_complete(qp);
	if (err)
		die(w, err, "wr_complete");
}

static void post(struct worker *w, unsigned int q, unsigned int i, const struct op *op,
		 uint32_t rkey)
{
	bool reads = op->type == OP_READ || op->type == OP_ADD;
	struct ibv_sge sge = {(uintptr_t)(reads ? result_of(w, q, i) : source_of(w, q, i)),
			      op->bytes, w->eps[q].dom->local_mr->lkey};

	for (size_t at = 0; !reads && at < op->bytes; at++)
		source_of(w, q, i)[at] = script_byte(&w->script, w->side, q, i, at);
	if (my_side(w)->qps[q].wr_api)
		post_new(w, q, i, op, &sge, rkey);
	else
		post_old(w, q, i, op, &sge, rkey);
	if (op->in_line) /* the data has been taken */
		memset(source_of(w, q, i), 0xdd, op->bytes);
	w->eps[q].n_posted = i + 1;
	atomic_fetch_add_explicit(&w->counts->posted, 1, memory_order_relaxed);
	if (op->signaled)
		atomic_fetch_add_explicit(&w->counts->signaled, 1, memory_order_relaxed);
}

void ops_post(struct worker *w, unsigned int q, unsigned int from, unsigned int to)
{
	uint32_t rkey = w->theirs.rkey[their_side(w)->qps[q].dev];

	for (unsigned int i = from; i < to; i++)
		post(w, q, i, &my_side(w)->qps[q].ops[i], rkey);
}

void bad_write_post(struct worker *w, unsigned int q, uint32_t rkey)
{
	static const struct op write = {.type = OP_WRITE, .bytes = 100, .signaled = true};

	/* Where no operation of the script writes. */
	post(w, q, MAX_OPS, &write, rkey);
}
