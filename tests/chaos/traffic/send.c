// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdatomic.h>
#include <string.h>

#include "traffic.h"

static uint8_t *source_of(struct link_qp *q, const struct op *op)
{
	return q->area->sources[op->number % N_SOURCES];
}

static uint64_t theirs(const struct link_qp *q, const void *place)
{
	return q->theirs.area + (uint64_t)((const uint8_t *)place - (const uint8_t *)q->area);
}

static const enum ibv_wr_opcode opcodes[OP_KINDS] = {
	[OP_SEND] = IBV_WR_SEND,
	[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
	[OP_WRITE] = IBV_WR_RDMA_WRITE,
	[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[OP_PRIVATE] = IBV_WR_RDMA_WRITE,
	[OP_READ] = IBV_WR_RDMA_READ,
	[OP_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[OP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
};

static const enum ibv_wc_opcode completions[OP_KINDS] = {
	[OP_SEND] = IBV_WC_SEND,          [OP_SEND_IMM] = IBV_WC_SEND,
	[OP_WRITE] = IBV_WC_RDMA_WRITE,   [OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[OP_PRIVATE] = IBV_WC_RDMA_WRITE, [OP_READ] = IBV_WC_RDMA_READ,
	[OP_ADD] = IBV_WC_FETCH_ADD,      [OP_SWAP] = IBV_WC_COMP_SWAP,
};

/* ---- posting
 * -------------------------------------------------------------------------------------------------
 */

static void post(struct link_qp *q, struct ibv_send_wr *wr, struct record record)
{
	const struct options *opt = q->thread->opt;
	struct ibv_send_wr *bad;
	int err;

	record.signaled = wr->send_flags & IBV_SEND_SIGNALED;
	wr->wr_id = wr_id_of(q, q->sends.n_posted);
	q->sends.records[q->sends.n_posted % N_RECORDS] = record;
	q->sends.n_posted++;
	atomic_store_explicit(&opt->posted[q->thread->number * opt->n_qps + q->index], q->sends.n_posted,
			      memory_order_relaxed);
	q->sends.since_signal = record.signaled ? 0 : q->sends.since_signal + 1;
	q->sends.n_signaled += record.signaled;
	if (opt->builders)
		err = build_send(ibv_qp_to_qp_ex(q->qp), wr);
	else
		err = ibv_post_send(q->qp, wr, &bad);
	if (err)
		violated(q, "posting work request %u: %s, with %u of %u outstanding", q->sends.n_posted - 1,
			 strerror(err), q->sends.n_posted - 1 - q->sends.n_completed, q->sends.depth);
}

/* @keep: places that are left for others, of the send queue and, if it is small, of the CQ */
static bool has_room_but(const struct link_qp *q, uint32_t keep)
{
	return q->sends.n_posted - q->sends.n_completed + keep < q->sends.depth &&
	       (!q->thread->opt->small_cq || q->sends.n_signaled + keep < SIGNALED);
}

/* The last ones are for acknowledgements; with -b every place is used. */
static bool has_room(const struct link_qp *q)
{
	return has_room_but(q, q->thread->opt->brim ? 0 : 4);
}

static void *target_of(struct link_qp *q, const struct op *op)
{
	switch (op->kind) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		return q->area->slots[op->number % N_SLOTS];
	case OP_PRIVATE:
	case OP_READ:
		return q->area->privates[op->slot];
	case OP_ADD:
		return &q->area->counter;
	default:
		return &q->area->word;
	}
}

static bool fetches(enum op_kind kind)
{
	return kind == OP_READ || kind == OP_ADD || kind == OP_SWAP;
}

static void post_op(struct link_qp *q, const struct op *op)
{
	uint8_t *source = source_of(q, op);
	uint32_t half = op->bytes / 2;
	struct ibv_sge sges[2] = {
		{.addr = op->in_line ? (uintptr_t)source : addr_of(q, source), .length = op->bytes, .lkey = q->mr->lkey}};
	struct ibv_send_wr wr = {
		.sg_list = sges,
		.num_sge = op->bytes > 0,
		.opcode = opcodes[op->kind],
		.send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0u) |
			      (op->in_line ? IBV_SEND_INLINE : 0u),
		.imm_data = op->imm,
	};

	if (op->bytes > 1 && op->kind != OP_ADD && op->kind != OP_SWAP && op->number % 3 == 0) {
		sges[1] = (struct ibv_sge){.addr = sges[0].addr + half,
					   .length = op->bytes - half,
					   .lkey = q->mr->lkey};
		sges[0].length = half;
		wr.num_sge = 2;
	}
	if (op->kind == OP_ADD || op->kind == OP_SWAP) {
		wr.wr.atomic.remote_addr = theirs(q, target_of(q, op));
		wr.wr.atomic.rkey = q->theirs.rkey;
		wr.wr.atomic.compare_add = op->kind == OP_ADD ? op->operand : op->compare;
		wr.wr.atomic.swap = op->operand;
	} else {
		wr.wr.rdma.remote_addr = theirs(q, target_of(q, op));
		wr.wr.rdma.rkey = q->theirs.rkey;
	}
	if (fetches(op->kind))
		memset(source, POISON, STRIDE);
	else
		script_fill(q->sends.script.id, op->number, source, op->bytes);
	post(q, &wr, (struct record){.type = REC_OP, .op = *op});
	if (op->in_line)
		memset(source, POISON, op->bytes); /* it has been taken */
}

static void post_fin(struct link_qp *q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&q->sends.script.n, .length = sizeof(q->sends.script.n)};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.imm_data = FIN_IMM,
	};

	post(q, &wr, (struct record){.type = REC_FIN});
	q->sends.fin_posted = true;
}

/* Unsignaled work requests at the end that were successful have no completion: what is flushed
 * behind them tells. */
void send_last(struct link_qp *q)
{
	if (!q->sends.fin_posted && has_room(q))
		post_fin(q);
}

bool send_ack(struct link_qp *q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&q->area->ack_out,
			      .length = sizeof(uint32_t),
			      .lkey = q->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE |
			      (q->sends.since_signal >= 4 || q->sends.fin_posted ? IBV_SEND_SIGNALED : 0u),
		.wr.rdma = {.remote_addr = theirs(q, &q->area->acked), .rkey = q->theirs.rkey},
	};

	if (!has_room_but(q, 0))
		return false;
	q->area->ack_out = q->receives.acked = q->receives.script.n;
	post(q, &wr, (struct record){.type = REC_ACK});
	return true;
}

void send_some(struct link_qp *q, uint64_t now)
{
	unsigned int burst;

	(void)now;
	if (!q->sends.has_next && q->thread->stopping) {
		if (!q->sends.fin_posted && has_room(q))
			post_fin(q);
		return;
	}
	for (burst = 0; burst < 8 && q->sends.tokens >= 1 && has_room(q); burst++) {
		if (!q->sends.has_next)
			script_next(&q->sends.script, &q->sends.next);
		q->sends.has_next = true;
		if (q->sends.next.number >= recv_acked(q) + WINDOW ||
		    q->sends.next.number >= q->sends.ops_completed + N_SOURCES)
			return;
		post_op(q, &q->sends.next);
		q->sends.has_next = false;
		q->sends.tokens--;
	}
}

/* ---- completions
 * --------------------------------------------------------------------------------------------- */

/* It is there as it was when the work request was posted; survive_storm knows these words. */
static void check_written(const struct link_qp *q, const struct op *op, const uint8_t *data)
{
	uint32_t i;

	for (i = 0; i < op->bytes && data[i] == POISON; i++)
		;
	if (op->bytes >= 8 && i == op->bytes)
		violated(q, "%s, operation %u, was completed without its result", script_kind_name(op->kind), op->number);
}

static void check_result(struct link_qp *q, const struct op *op)
{
	const uint8_t *data = source_of(q, op);
	uint64_t got;
	int at;

	check_written(q, op, data);
	if (op->kind == OP_READ) {
		at = script_differs(q->sends.script.id, op->source, data, op->bytes);
		if (at >= 0)
			violated(q,
				 "READ, operation %u of %u bytes, does not return at byte %d what "
				 "operation %u wrote",
				 op->number, op->bytes, at, op->source);
		if (data[op->bytes] != POISON)
			violated(q, "READ, operation %u, wrote beyond its %u bytes", op->number,
				 op->bytes);
		return;
	}
	memcpy(&got, data, sizeof(got));
	if (got != op->result)
		violated(q, "%s, operation %u, returned 0x%lx, not 0x%lx",
			 script_kind_name(op->kind), op->number, got, op->result);
}

/* Known to be done, in the order of posting. */
static void done(struct link_qp *q, const struct record *record)
{
	if (record->type != REC_OP)
		return;
	if (fetches(record->op.kind))
		check_result(q, &record->op);
	q->sends.ops_completed = record->op.number + 1;
	q->thread->totals.ops++;
}

static void check_success(struct link_qp *q, const struct record *record, const struct ibv_wc *wc)
{
	enum ibv_wc_opcode opcode = record->type == REC_OP    ? completions[record->op.kind]
				    : record->type == REC_ACK ? IBV_WC_RDMA_WRITE
							      : IBV_WC_SEND;

	if (wc->opcode != opcode)
		violated(q, "completion of work request %u with opcode %d, not %d", q->sends.n_completed,
			 wc->opcode, opcode);
	if (record->type == REC_OP && fetches(record->op.kind) && wc->byte_len != record->op.bytes)
		violated(q, "completion of work request %u, %s, with byte_len %u, not %u",
			 q->sends.n_completed, script_kind_name(record->op.kind), wc->byte_len,
			 record->op.bytes);
}

void send_completed(struct link_qp *q, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id;
	bool success = wc->status == IBV_WC_SUCCESS;
	const struct record *record;

	if (number - q->sends.n_completed >= q->sends.n_posted - q->sends.n_completed)
		violated(q, "send completion (%s) of work request %u; outstanding are %u to %u",
			 ibv_wc_status_str(wc->status), number, q->sends.n_completed, q->sends.n_posted - 1);
	if (success && q->sends.failed)
		violated(q, "work request %u completed with success after one that failed", number);
	for (;; q->sends.n_completed++) {
		record = &q->sends.records[q->sends.n_completed % N_RECORDS];
		if (q->sends.n_completed == number)
			break;
		/* Those before it were unsignaled and are done, unless one failed already: then
		 * each is reported. */
		if (record->signaled || q->sends.failed)
			violated(q, "completion (%s) of work request %u, but none of %u, %s",
				 ibv_wc_status_str(wc->status), number, q->sends.n_completed,
				 record->signaled ? "which was signaled"
						  : "behind one that failed");
		done(q, record);
	}
	if (success) {
		if (!record->signaled)
			violated(q, "completion of work request %u, which is not signaled", number);
		check_success(q, record, wc);
		done(q, record);
	} else {
		q->sends.failed = true;
		error_seen(q, wc,
			   record->type == REC_OP    ? script_kind_name(record->op.kind)
			   : record->type == REC_ACK ? "ack"
						     : "fin");
	}
	q->sends.n_signaled -= q->sends.n_signaled && record->signaled;
	q->sends.n_completed++;
}
