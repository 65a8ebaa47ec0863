// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Polling by either way, events, and what completions have to be. */
#include "stress.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WAIT_S 60
#define BATCH  8

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct endpoint *find(struct worker *w, uint32_t qp_num, unsigned int *ret_q)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		if (w->eps[q].qp_num == qp_num) {
			*ret_q = q;
			return &w->eps[q];
		}
	}
	die(w, 0, "a completion of QP %#x, which is none of mine", qp_num);
}

/* What a request that did not succeed may end with, bare: the flush of a side that breaks off,
 * retries to one that did. */
static bool may_end_with(const struct worker *w, unsigned int i, enum ibv_wc_status status)
{
	if (w->script.plot == PLOT_BREAK || w->script.plot == PLOT_NEVER)
		return status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR;
	return i == MAX_OPS; /* looked at by who posted it */
}

static void sent(struct worker *w, unsigned int q, unsigned int i, const struct comp *c)
{
	static const enum ibv_wc_opcode opcodes[OP_TYPES] = {IBV_WC_SEND,       IBV_WC_SEND,
							     IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE,
							     IBV_WC_RDMA_READ,  IBV_WC_FETCH_ADD};
	struct endpoint *ep = &w->eps[q];
	const struct op *op = &my_side(w)->qps[q].ops[i];

	if (i >= ep->n_posted || ep->send_done[i])
		die(w, 0, "QP %u: operation %u %s", q, i,
		    i < ep->n_posted ? "completed twice" : "was never posted");
	for (unsigned int before = 0; before < i && c->status != IBV_WC_SUCCESS; before++) {
		if (ep->send_done[before] && ep->status[before] == IBV_WC_WR_FLUSH_ERR &&
		    c->status != IBV_WC_WR_FLUSH_ERR)
			die(w, 0, "QP %u: operation %u has status %d after a flush", q, i,
			    c->status);
	}
	for (unsigned int later = i + 1; later <= MAX_OPS; later++) {
		if (ep->send_done[later])
			die(w, 0, "QP %u: operation %u completed after %u", q, i, later);
	}
	ep->send_done[i] = 1;
	ep->status[i] = c->status;
	if (c->status == IBV_WC_SUCCESS) {
		if (i < MAX_OPS && (!op->signaled || c->opcode != opcodes[op->type]))
			die(w, 0, "QP %u: operation %u of type %d completed as %d%s", q, i,
			    op->type, c->opcode, op->signaled ? "" : ", unsignaled");
		atomic_fetch_add_explicit(&w->counts->completed, 1, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(i == MAX_OPS ? &w->counts->key_errors : &w->counts->flushed, 1,
				  memory_order_relaxed);
	if (!may_end_with(w, i, c->status))
		die(w, 0, "QP %u (%#x to %#x): operation %u has status %d (%s)", q, ep->qp_num,
		    ep->peer_qpn, i, c->status, ibv_wc_status_str(c->status));
}

/* The peer's next operation that takes a receive. */
static unsigned int next_received(struct worker *w, unsigned int q)
{
	const struct qp_script *theirs = &their_side(w)->qps[q];
	struct endpoint *ep = &w->eps[q];

	while (ep->recv_op < theirs->n_ops && !op_consumes_recv(&theirs->ops[ep->recv_op]))
		ep->recv_op++;
	if (ep->recv_op == theirs->n_ops)
		die(w, 0, "QP %u received more than was sent", q);
	return ep->recv_op++;
}

static void received(struct worker *w, unsigned int d, unsigned int slot, const struct comp *c)
{
	unsigned int q, i;
	struct endpoint *ep = find(w, c->qp_num, &q);
	struct domain *dom = &w->doms[d];
	const struct op *op;

	if (slot >= dom->n_slots || dom->slot_done[slot] || ep->dom != dom)
		die(w, 0, "QP %u (%#x): receive %u of device %u %s; status %d, before %d", q,
		    ep->qp_num, slot, d,
		    ep->dom != dom        ? "is of another device"
		    : slot < dom->n_slots ? "completed twice"
					  : "was never posted",
		    c->status, slot < dom->n_slots ? dom->slot_done[slot] - 1 : -1);
	dom->slot_done[slot] = (uint8_t)(1 + c->status);
	ep->n_recv_comps++;
	if (c->status != IBV_WC_SUCCESS) {
		if (c->status != IBV_WC_WR_FLUSH_ERR ||
		    (w->script.plot != PLOT_BREAK && w->script.plot != PLOT_NEVER))
			die(w, 0, "QP %u: receive %u has status %d", q, slot, c->status);
		return;
	}
	i = next_received(w, q);
	op = &their_side(w)->qps[q].ops[i];
	ep->n_received++;
	atomic_fetch_add_explicit(&w->counts->received, 1, memory_order_relaxed);
	if (c->byte_len != op->bytes)
		die(w, 0, "QP %u: receive of operation %u has %u bytes, not %u", q, i, c->byte_len,
		    op->bytes);
	if (op->type != OP_SEND && c->imm != script_imm(&w->script, !w->side, q, i))
		die(w, 0, "QP %u: immediate data of operation %u is wrong", q, i);
	if (op->type == OP_WRITE_IMM)
		return;
	for (size_t at = 0; at < op->bytes; at++) {
		if (slot_of(w, d, slot)[at] != script_byte(&w->script, !w->side, q, i, at))
			die(w, 0, "QP %u: byte %zu of %u of operation %u is wrong", q, at,
			    op->bytes, i);
	}
}

static void take(struct worker *w, const struct comp *c)
{
	unsigned int kind = (unsigned int)(c->wr_id >> 32),
		     a = (unsigned int)(c->wr_id >> 16) & 0xffff,
		     b = (unsigned int)c->wr_id & 0xffff, q;
	struct endpoint *ep = find(w, c->qp_num, &q);

	if (!ep->qp || (ep->broken && my_side(w)->qps[q].breaking != BREAK_ERR))
		die(w, 0, "QP %u: a completion after it was destroyed or reset", q);
	if (kind == 1 && a == q)
		sent(w, q, b, c);
	else if (kind == 2 && a < 2)
		received(w, a, b, c);
	else
		die(w, 0, "a completion with wr_id %#lx", c->wr_id);
	atomic_fetch_add_explicit(&w->heartbeat, 1, memory_order_relaxed);
}

static int poll_plain(struct domain *dom, struct comp *out)
{
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(dom->cq, BATCH, wc);

	for (int i = 0; i < n; i++)
		out[i] = (struct comp){wc[i].wr_id,  wc[i].status,   wc[i].opcode,
				       wc[i].qp_num, wc[i].byte_len, wc[i].imm_data};
	return n;
}

static struct comp read_ex(struct ibv_cq_ex *cq)
{
	struct comp c = {
		.wr_id = cq->wr_id, .status = cq->status, .qp_num = ibv_wc_read_qp_num(cq)};

	if (c.status == IBV_WC_SUCCESS) {
		c.opcode = ibv_wc_read_opcode(cq);
		c.byte_len = ibv_wc_read_byte_len(cq);
		if (c.opcode & IBV_WC_RECV && ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM)
			c.imm = ibv_wc_read_imm_data(cq);
	}
	return c;
}

static int poll_ex(struct domain *dom, struct comp *out)
{
	struct ibv_poll_cq_attr attr = {};
	int err = ibv_start_poll(dom->cq_ex, &attr), n = 0;

	if (err == ENOENT)
		return 0;
	while (!err) {
		out[n++] = read_ex(dom->cq_ex);
		if (n == BATCH)
			break;
		err = ibv_next_poll(dom->cq_ex);
	}
	ibv_end_poll(dom->cq_ex);
	return err && err != ENOENT ? -err : n;
}

unsigned int take_some(struct worker *w)
{
	unsigned int taken = 0;

	for (unsigned int d = 0; d < 2; d++) {
		struct domain *dom = &w->doms[d];
		struct comp comps[BATCH];
		int n;

		if (!dom->dev)
			continue;
		n = dom->cq_ex ? poll_ex(dom, comps) : poll_plain(dom, comps);
		if (n < 0)
			die(w, -n, "polling");
		for (int i = 0; i < n; i++)
			take(w, &comps[i]);
		taken += (unsigned int)n;
	}
	return taken;
}

static void arm(struct worker *w)
{
	for (unsigned int d = 0; d < 2; d++) {
		int err = w->doms[d].channel ? ibv_req_notify_cq(w->doms[d].cq, 0) : 0;

		if (err)
			die(w, err, "req_notify_cq");
	}
}

/* Sleep until a channel has something; false when none had within a while. */
static bool await_event(struct worker *w)
{
	struct pollfd fds[2];
	nfds_t n = 0;
	int ready;

	for (unsigned int d = 0; d < 2; d++) {
		if (w->doms[d].channel)
			fds[n++] = (struct pollfd){.fd = w->doms[d].channel->fd, .events = POLLIN};
	}
	ready = poll(fds, n, 5000);
	for (unsigned int d = 0; d < 2; d++) {
		struct ibv_cq *cq;
		void *data;

		while (w->doms[d].channel &&
		       ibv_get_cq_event(w->doms[d].channel, &cq, &data) == 0) {
			if (cq != w->doms[d].cq)
				die(w, 0, "an event of another CQ");
			w->doms[d].n_events++;
		}
	}
	return ready > 0;
}

/* Completions that are there although no event came for them while the CQ was armed, nor comes: the
 * event is lost. One that was made a moment ago may still be on its way. */
static void sleep_until_event(struct worker *w)
{
	arm(w);
	if (take_some(w))
		return;
	if (!await_event(w) && take_some(w) && !await_event(w))
		die(w, 0, "a completion without its event");
}

static void pause_a_little(void)
{
	struct timespec t = {.tv_nsec = 20000};

	nanosleep(&t, NULL);
}

/* What each queue pair is waiting for. */
static void tell_missing(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		const struct endpoint *ep = &w->eps[q];
		unsigned int done = 0, last = 0;

		for (unsigned int i = 0; i < ep->n_posted; i++) {
			done += ep->send_done[i];
			last = ep->send_done[i] ? i + 1 : last;
		}
		fprintf(stderr, "connstress: side %u, thread %u: QP %u (%#x to %#x) has posted %u, the last completed is %u, %u in all; received %u of %u\n",
			w->side, w->number, q, ep->qp_num, ep->peer_qpn, ep->n_posted, last, done, ep->n_received, ep->n_recv);
	}
}

void wait_for(struct worker *w, bool (*done)(struct worker *w), const char *what)
{
	double limit = now() + WAIT_S;

	atomic_store_explicit(&w->doing, what, memory_order_relaxed);
	while (!done(w)) {
		if (take_some(w))
			continue;
		if (now() > limit) {
			tell_missing(w);
			die(w, 0, "waiting for %s: lost", what);
		}
		if (my_side(w)->events)
			sleep_until_event(w);
		else
			pause_a_little();
	}
}

/* --- memory */

static void check_bytes(struct worker *w, const uint8_t *at, size_t len, unsigned int side,
			unsigned int q, unsigned int pattern, const char *what)
{
	for (size_t k = 0; k < len; k++) {
		if (at[k] != script_byte(&w->script, side, q, pattern, k))
			die(w, 0, "QP %u: byte %zu of %zu of %s %u is wrong", q, k, len, what,
			    pattern);
	}
}

static void check_written(struct worker *w, unsigned int q, unsigned int to)
{
	const struct qp_script *theirs = &their_side(w)->qps[q];
	uint64_t sum = 0, counter;

	for (unsigned int i = 0; i < to; i++) {
		const struct op *op = &theirs->ops[i];

		if (op->type == OP_WRITE || op->type == OP_WRITE_IMM)
			check_bytes(w, w->target + write_at(q, i), op->bytes, !w->side, q, i,
				    "WRITE");
		if (op->type == OP_ADD)
			sum += i + 1;
	}
	memcpy(&counter, w->target + counter_at(q), sizeof(counter));
	if (counter != sum)
		die(w, 0, "QP %u: the counter is %lu, not %lu", q, counter, sum);
}

static void check_read(struct worker *w, unsigned int q, unsigned int to)
{
	uint64_t sum = 0, old;

	for (unsigned int i = 0; i < to; i++) {
		const struct op *op = &my_side(w)->qps[q].ops[i];

		if (op->type == OP_READ)
			check_bytes(w, result_of(w, q, i), op->bytes, !w->side, q, MAX_OPS,
				    "READ of");
		if (op->type != OP_ADD)
			continue;
		memcpy(&old, result_of(w, q, i), sizeof(old));
		if (old != sum)
			die(w, 0, "QP %u: FETCH_ADD %u got %lu, not %lu", q, i, old, sum);
		sum += i + 1;
	}
}

static unsigned int part(const struct side_script *owner, const struct qp_script *qp,
			 unsigned int half)
{
	return owner->reregister && half == 0 ? qp->n_ops / 2 + 1 : qp->n_ops;
}

void check_memory(struct worker *w, unsigned int half)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		check_written(w, q, part(my_side(w), &their_side(w)->qps[q], half));
		check_read(w, q, part(their_side(w), &my_side(w)->qps[q], half));
	}
}
