// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdatomic.h>
#include <string.h>

#include "traffic.h"

/* With an SRQ, any QP's message may land in any buffer of it; those of a QP that is gone stay
 * there. */
static void post_to_srq(struct link_qp *q, uint32_t number)
{
	uint8_t *place = q->area->recvs[number % N_RECVS];
	struct ibv_sge sge = {.addr = addr_of(q, place), .length = STRIDE, .lkey = q->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV_WR | (uint64_t)q->index << 32 | number % N_RECVS,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;
	int err;

	memset(place, POISON, STRIDE);
	err = ibv_post_srq_recv(q->thread->srq, &wr, &bad);
	if (err)
		violated(q, "ibv_post_srq_recv(): %s", strerror(err));
}

void recv_post(struct link_qp *q, uint32_t number)
{
	uint8_t *place = q->area->recvs[number % N_RECVS];
	struct ibv_sge sge = {.addr = addr_of(q, place), .length = STRIDE, .lkey = q->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV_WR | wr_id_of(q, number),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;
	int err;

	if (q->thread->srq) {
		post_to_srq(q, number);
		return;
	}
	memset(place, POISON, STRIDE);
	q->receives.n_posted++;
	err = ibv_post_recv(q->qp, &wr, &bad);
	if (err)
		violated(q, "ibv_post_recv() of receive %u: %s", number, strerror(err));
}

uint32_t recv_acked(struct link_qp *q)
{
	uint32_t acked =
		atomic_load_explicit((_Atomic uint32_t *)&q->area->acked, memory_order_acquire);

	if (acked < q->sends.their_acked || acked > q->sends.script.n)
		violated(q,
			 "the other end's acknowledgement, written to our memory, went from %u to "
			 "%u; posted are %u",
			 q->sends.their_acked, acked, q->sends.script.n);
	q->sends.their_acked = acked;
	return acked;
}

/* ---- data
 * ----------------------------------------------------------------------------------------------------
 */

/* Which of the operations nearby it is, for people. */
static int64_t looks_like(const struct link_qp *q, const uint8_t *data, size_t bytes)
{
	uint32_t number, from = q->receives.script.n < 256 ? 0 : q->receives.script.n - 256;

	for (number = from; bytes && number < q->receives.script.n + 256; number++)
		if (script_differs(q->receives.script.id, number, data, bytes < 8 ? bytes : 8) < 0)
			return number;
	return -1;
}

/*
 * @shared: the buffer is one of an SRQ. What a QP that has moved had begun to receive may be in it, behind this message.
 */
static void check_data(const struct link_qp *q, const struct op *op, const uint8_t *data, bool shared)
{
	int at = script_differs(q->receives.script.id, op->number, data, op->bytes);
	int64_t other;

	if (at >= 0) {
		other = looks_like(q, data, op->bytes);
		violated(q,
			 "%s, the other end's operation %u of %u bytes: wrong at byte %d%s%.0lld%s",
			 script_kind_name(op->kind), op->number, op->bytes, at,
			 data[at] == POISON ? ", where nothing was written"
			 : other >= 0       ? "; it begins as operation "
					    : "",
			 (long long)(data[at] == POISON || other < 0 ? 0 : other),
			 other < 0 ? "; like none nearby" : "");
	}
	if (!shared && data[op->bytes] != POISON)
		violated(q, "%s, the other end's operation %u, wrote beyond its %u bytes",
			 script_kind_name(op->kind), op->number, op->bytes);
}

/* A WRITE is there before the message behind it. Then its place is cleared, so that a repetition is
 * noticed. */
static void check_write(struct link_qp *q, const struct op *op)
{
	uint8_t *slot = q->area->slots[op->number % N_SLOTS];

	check_data(q, op, slot, false);
	memset(slot, POISON, op->bytes);
}

/* Slots that the other end cannot have begun to write again. */
void recv_check_poison(struct link_qp *q)
{
	static const uint8_t poison[STRIDE] = {[0 ... STRIDE - 1] = POISON};
	uint32_t end = q->receives.script.n, keep = N_SLOTS - WINDOW,
		 number = end < keep ? 0 : end - keep;

	for (; number < end; number++)
		if (memcmp(q->area->slots[number % N_SLOTS], poison, STRIDE))
			violated(q,
				 "the place of the other end's operation %u was written again "
				 "after it had been verified; it has verified "
				 "up to %u",
				 number, end);
}

/* The next operation of the other end that consumes a receive; those before it are checked on the
 * way. */
static struct op next_message(struct link_qp *q)
{
	struct op op;

	for (;;) {
		script_next(&q->receives.script, &op);
		if (op_consumes_receive(op.kind))
			return op;
		if (op.kind == OP_WRITE)
			check_write(q, &op);
	}
}

static void check_fin(struct link_qp *q, const uint8_t *data, const struct ibv_wc *wc)
{
	uint32_t n;
	struct op op;

	memcpy(&n, data, sizeof(n));
	if (wc->byte_len != sizeof(n) || n < q->receives.script.n || n > q->receives.script.n + WINDOW)
		violated(q, "the last message says %u operations; verified are %u", n,
			 q->receives.script.n);
	while (q->receives.script.n < n) {
		script_next(&q->receives.script, &op);
		if (op_consumes_receive(op.kind))
			violated(q,
				 "%s, the other end's operation %u, is missing before its last "
				 "message",
				 script_kind_name(op.kind), op.number);
		if (op.kind == OP_WRITE)
			check_write(q, &op);
	}
	if (q->area->counter != q->receives.script.sum || q->area->word != q->receives.script.word)
		violated(q, "counter 0x%lx, to be 0x%lx; word 0x%lx, to be 0x%lx", q->area->counter,
			 q->receives.script.sum, q->area->word, q->receives.script.word);
	recv_check_poison(q);
	q->receives.fin_seen = true;
}

static bool has_imm(const struct ibv_wc *wc)
{
	return wc->wc_flags & IBV_WC_WITH_IMM;
}

static void check_message(struct link_qp *q, const uint8_t *data, const struct ibv_wc *wc)
{
	struct op op;

	if (q->receives.fin_seen)
		violated(q, "a message after the last one");
	if (wc->opcode == IBV_WC_RECV && has_imm(wc) && wc->imm_data == FIN_IMM) {
		check_fin(q, data, wc);
		return;
	}
	op = next_message(q);
	if (wc->opcode != (op.kind == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
	    wc->byte_len != op.bytes)
		violated(q,
			 "a message with opcode %d and %u bytes (begins as operation %lld), but "
			 "due is operation %u: %s of %u bytes",
			 wc->opcode, wc->byte_len, (long long)looks_like(q, data, wc->byte_len),
			 op.number, script_kind_name(op.kind), op.bytes);
	if (has_imm(wc) != (op.kind != OP_SEND) || (has_imm(wc) && wc->imm_data != op.imm))
		violated(q, "operation %u of the other end, %s: immediate data 0x%x, not 0x%x",
			 op.number, script_kind_name(op.kind), has_imm(wc) ? wc->imm_data : 0,
			 op.imm);
	if (op.kind == OP_WRITE_IMM)
		check_write(q, &op);
	else
		check_data(q, &op, data, q->thread->srq);
}

/* ---- completions
 * --------------------------------------------------------------------------------------------- */

static struct link_qp *by_qpn(struct thread *t, uint32_t qpn)
{
	unsigned int i;

	for (i = 0; i < t->opt->n_qps; i++)
		if (t->qps[i].qp && t->qps[i].qp->qp_num == qpn)
			return &t->qps[i];
	violated(NULL, "a receive completion with unknown QP number 0x%x", qpn);
}

void recv_completed(struct link_qp *q, const struct ibv_wc *wc)
{
	struct link_qp *to = q->thread->srq ? by_qpn(q->thread, wc->qp_num) : q;
	uint32_t number = (uint32_t)wc->wr_id;

	if (!q->thread->srq && number != q->receives.n_consumed)
		violated(q, "completion of receive %u (%s), but due is %u", number,
			 ibv_wc_status_str(wc->status), q->receives.n_consumed);
	q->receives.n_consumed++;
	if (wc->status != IBV_WC_SUCCESS) {
		error_seen(to, wc, "receive");
		return;
	}
	check_message(to, q->area->recvs[number % N_RECVS], wc);
	q->thread->totals.received++;
	if (q->thread->srq || to->state != QP_BROKEN)
		recv_post(q, q->thread->srq ? number : number + thread_recvs(q->thread));
}
