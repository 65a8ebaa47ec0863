// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "flushing.h"

#include <errno.h>
#include <string.h>

#define ROUNDS    40
#define SLOT      4096u
#define MARK_NS   5000000000ull
#define BEHIND_NS 20000000ull /* waits so long for completions after the marker's */
#define WATCH_NS  200000000ull

static int post_sends(struct q_bench *b, struct q_qp *qp, struct q_mem *mine, struct q_mem *theirs, struct flushing *f)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
	int err = 0;

	for (uint32_t i = 0; i < f->posted && !err; i++)
		err = q_post(qp, &(struct q_post){.wr_id = i,
						  .opcode = opcodes[q_random(b, 4)],
						  .flags = i % f->signal_each == f->signal_each - 1 ? IBV_SEND_SIGNALED : 0,
						  .from = mine,
						  .from_at = (size_t)i * SLOT,
						  .length = 1 + q_random(b, SLOT),
						  .to = theirs,
						  .to_at = (size_t)i * SLOT});
	return err;
}

static int post_receives(struct q_qp *qp, struct q_mem *mine, struct flushing *f)
{
	int err = 0;

	for (uint32_t i = 0; i < f->posted && !err; i++)
		err = q_post_recv(qp, i, mine, (size_t)i * SLOT, SLOT);
	return err;
}

/* A full queue has room for the marker after a completion was polled. */
static int post_mark(struct q_qp *qp, const struct flushing *f, struct q_mem *mine)
{
	if (!f->sends)
		return q_post_recv(qp, FLUSHING_MARK, mine, 0, 0);
	return q_post(qp, &(struct q_post){.wr_id = FLUSHING_MARK, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .from = mine});
}

static void take(struct flushing *f, const struct ibv_wc *wc)
{
	if (wc->wr_id == FLUSHING_MARK) {
		f->marked = true;
		return;
	}
	if (wc->wr_id >= f->posted || f->n == FLUSHING_WC) {
		f->unknown++;
		return;
	}
	f->behind += f->marked;
	f->wc[f->n++] = *wc;
}

static int collect(struct q_qp *qp, struct q_mem *mine, struct flushing *f)
{
	struct ibv_cq *cq = f->sends ? qp->send_cq : qp->recv_cq;
	uint64_t began_ns = q_now_ns();
	bool posted = false;
	struct ibv_wc wc;
	int err = 0;

	while (!err && !f->marked && q_now_ns() - began_ns < MARK_NS) {
		if (!posted)
			posted = !post_mark(qp, f, mine);
		err = q_wait(cq, MARK_NS, &wc);
		if (!err)
			take(f, &wc);
	}
	while (err != -EIO && !(err = q_wait(cq, BEHIND_NS, &wc)))
		take(f, &wc);
	return err == -ETIMEDOUT ? 0 : err;
}

int flushing_round(struct q_bench *b, struct q_qp *qp, struct q_qp *peer, struct q_mem *mine, struct q_mem *theirs, struct flushing *f)
{
	enum ibv_mtu mtu = b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu;
	struct q_way way = q_way(b, mtu);
	int err;

	f->n = f->behind = f->unknown = 0;
	f->marked = false;
	way.timeout = 20; /* the peer does not answer: nothing may time out before it is flushed */
	err = q_connect(qp, peer, &way);
	if (!err && !f->alive)
		err = q_to(peer, IBV_QPS_ERR);
	if (err)
		return err;
	memset(mine->buf, 1, mine->bytes);
	memset(theirs->buf, 0, theirs->bytes);
	err = f->sends ? post_sends(b, qp, mine, theirs, f) : post_receives(qp, mine, f);
	if (!err && f->sends && f->alive)
		q_mem_wait(theirs, (size_t)q_random(b, f->posted) * SLOT, 1, WATCH_NS / 40);
	if (!err && !f->sends && f->alive)
		for (uint32_t i = 0; i < f->posted / 4 && !err; i++)
			err = q_post(peer, &(struct q_post){.wr_id = i, .opcode = IBV_WR_SEND, .from = theirs, .length = SLOT});
	if (!err)
		err = q_to(qp, IBV_QPS_ERR);
	return err ? err : collect(qp, mine, f);
}

/* ---- results -------------------------------------------------------------------------------- */

/*
 * First work request from which on each must have a completion. If the peer answered, unsignaled ones may have
 * succeeded without one: those that have not are after the first flushed one.
 */
static uint32_t outstanding_from(const struct flushing *f)
{
	uint32_t from = f->posted;

	if (!f->sends || !f->alive)
		return 0;
	for (uint32_t i = 0; i < f->n; i++)
		if (f->wc[i].status != IBV_WC_SUCCESS && f->wc[i].wr_id < from)
			from = (uint32_t)f->wc[i].wr_id;
	return from;
}

static uint32_t count(const struct flushing *f, uint32_t wr_id)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++)
		n += f->wc[i].wr_id == wr_id;
	return n;
}

uint32_t flushing_missing(const struct flushing *f, uint32_t *ret_first)
{
	uint32_t missing = 0;

	for (uint32_t i = outstanding_from(f); i < f->posted; i++)
		if (!count(f, i) && !missing++)
			*ret_first = i;
	return missing;
}

uint32_t flushing_twice(const struct flushing *f)
{
	uint32_t twice = 0;

	for (uint32_t i = 0; i < f->posted; i++)
		twice += count(f, i) > 1;
	return twice;
}

bool flushing_disorder(const struct flushing *f, uint32_t *ret_first, uint32_t *ret_second)
{
	for (uint32_t i = 1; i < f->n; i++)
		if (f->wc[i].wr_id < f->wc[i - 1].wr_id) {
			*ret_first = (uint32_t)f->wc[i - 1].wr_id;
			*ret_second = (uint32_t)f->wc[i].wr_id;
			return true;
		}
	return false;
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct q_qp *qp, struct q_qp *peer, struct q_mem *mine, struct q_mem *theirs,
				    struct mv_qualified_trial *t, enum mv_trial_verdict (*look)(const struct flushing *f, struct mv_qualified_trial *t))
{
	static struct flushing f;
	enum mv_trial_verdict verdict;
	uint32_t n, flushed = 0;
	int err;

	for (n = 0; n < ROUNDS && q_has_time(b); n++) {
		f.sends = n % 3 != 2;
		f.alive = n & 1;
		f.posted = n % 5 == 4 ? FLUSHING_WRS : 1 + q_random(b, FLUSHING_WRS);
		/* A full queue without signaled work requests never has room again. */
		f.signal_each = n % 4 == 3 && f.posted < FLUSHING_WRS ? FLUSHING_WRS + 1 : FLUSHING_EACH;
		err = flushing_round(b, qp, peer, mine, theirs, &f);
		if (err)
			return q_broken(t, "a round", err);
		if (f.unknown)
			return q_unsure(t, "%u completions of nothing that was posted", f.unknown);
		for (uint32_t i = 0; i < f.n; i++)
			flushed += f.wc[i].status == IBV_WC_WR_FLUSH_ERR;
		verdict = look(&f, t);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
	}
	q_figure(t, "rounds", n);
	q_figure(t, "flushed", flushed);
	return n && flushed ? MV_TRIAL_PASS : q_unsure(t, "nothing was outstanding in %u rounds", n);
}

enum mv_trial_verdict flushing_repeat(struct q_bench *b, struct mv_qualified_trial *t,
				      enum mv_trial_verdict (*look)(const struct flushing *f, struct mv_qualified_trial *t))
{
	const struct q_size size = {.send_wr = FLUSHING_WRS, .recv_wr = FLUSHING_WRS + 1, .sge = 1};
	struct q_mem mine = {0}, theirs = {0};
	struct q_qp qp = {0}, peer = {0};
	enum mv_trial_verdict verdict;
	int err = q_qp_make(&b->dut, &size, &qp);

	if (!err)
		err = q_qp_make(b->peer, &size, &peer);
	if (!err)
		err = q_mem_make(&b->dut, (size_t)FLUSHING_WRS * SLOT, &mine);
	if (!err)
		err = q_mem_make(b->peer, (size_t)FLUSHING_WRS * SLOT, &theirs);
	verdict = err ? q_broken(t, "queue pairs and memory", err) : rounds(b, &qp, &peer, &mine, &theirs, t, look);
	q_qp_end(&qp);
	q_qp_end(&peer);
	q_mem_end(&mine);
	q_mem_end(&theirs);
	return verdict;
}
