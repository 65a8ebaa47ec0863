// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "psn.h"
#include "trial.h"

#define READS      48 /* in a pass, each with a place of its own */
#define PASSES     8  /* over the same places, each with other bytes; a single pass, unless it ends before it can be cut */
#define SHORT      10 /* rounds with one pass */
#define READ_BYTES (64u << 10)
#define RD_ATOMIC  4
#define ROUNDS     30
#define WATCH_NS   500000000ull

struct reads {
	struct q_qp req, resp; /* @req on the device under test */
	struct q_mem well, sink; /* sizes: PASSES, and READS, times READ_BYTES */
	uint32_t n; /* READs of the round */
};

/* Has memory the bytes of READ @i, or of a later one at the same place? */
static bool is_whole(const struct reads *r, uint32_t i)
{
	const uint8_t *at = r->sink.buf + (size_t)(i % READS) * READ_BYTES;

	/* A barrier, because a device writes there. */
	__asm__ volatile("" : : "r"(at) : "memory");
	for (uint32_t k = 0; k < READ_BYTES; k++)
		if (at[k] <= i / READS)
			return false;
	return true;
}

static int post_all(struct reads *r)
{
	int err = 0;

	for (uint32_t i = 0; i < r->n && !err; i++)
		err = q_post(&r->req, &(struct q_post){.wr_id = i,
						       .opcode = IBV_WR_RDMA_READ,
						       .flags = i + 1 == r->n ? IBV_SEND_SIGNALED : 0,
						       .from = &r->sink,
						       .from_at = (size_t)(i % READS) * READ_BYTES,
						       .length = READ_BYTES,
						       .to = &r->well,
						       .to_at = (size_t)(i / READS) * READ_BYTES});
	return err;
}

static void watch(struct q_bench *b, const struct reads *r)
{
	uint32_t target = RD_ATOMIC + q_random(b, r->n / 2);
	const volatile uint8_t *at = r->sink.buf + (size_t)(target % READS) * READ_BYTES;
	uint64_t began_ns = q_now_ns();

	while (*at <= target / READS && q_now_ns() - began_ns < WATCH_NS)
		;
}

static enum mv_trial_verdict decide(const struct reads *r, const struct mv_psn_view *view, struct mv_qualified_trial *t,
				    uint32_t *ret_done)
{
	struct mv_psn_wr wrs[READS * PASSES];
	enum mv_fate fates[READS * PASSES];
	uint32_t done = 0;

	for (uint32_t i = 0; i < r->n; i++)
		wrs[i] = (struct mv_psn_wr){.opcode = IBV_WR_RDMA_READ, .length_bytes = READ_BYTES};
	if (mv_psn_decide(wrs, r->n, view, fates, NULL))
		return q_fail(t, "rq_psn is none that %u READs could have led to", r->n);
	for (uint32_t i = r->n; i-- > 0;) {
		done += fates[i] == MV_FATE_DONE;
		if (fates[i] == MV_FATE_DONE && !is_whole(r, i))
			return q_fail(t, "READ %u of %u counts as answered, for %u later ones were sent, but its bytes are not all there", i, r->n, RD_ATOMIC);
	}
	*ret_done = done;
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict one(struct q_bench *b, struct reads *r, struct mv_qualified_trial *t, uint32_t *ret_done)
{
	enum ibv_mtu mtu = b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu;
	struct q_way way = q_way(b, mtu);
	struct mv_psn_view view = {.first_psn = way.psn, .mtu_bytes = q_mtu_bytes(mtu), .max_rd_atomic = RD_ATOMIC};
	int err;

	way.rd_atomic = RD_ATOMIC;
	memset(r->sink.buf, 0, r->sink.bytes);
	err = q_connect(&r->req, &r->resp, &way);
	if (!err)
		err = post_all(r);
	if (err)
		return q_broken(t, "READs", err);
	watch(b, r);
	err = q_to(&r->req, IBV_QPS_ERR);
	/* From now on nothing may change at the requester. The responder's rq_psn tells how far it came. */
	if (!err)
		err = q_to(&r->resp, IBV_QPS_ERR);
	if (!err)
		err = q_rq_psn(&r->resp, &view.rq_psn);
	return err ? q_broken(t, "ERR", err) : decide(r, &view, t, ret_done);
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct reads *r, struct mv_qualified_trial *t)
{
	uint32_t n, done = 0, total = 0, told = 0;
	enum mv_trial_verdict verdict;

	for (n = 0; (n < ROUNDS || !told) && q_has_time(b); n++) {
		r->n = n < SHORT || told ? READS : READS * PASSES;
		verdict = one(b, r, t, &done);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		total += done;
		told += done && done < r->n - RD_ATOMIC;
	}
	q_figure(t, "rounds", n);
	q_figure(t, "rounds_cut", told);
	q_figure(t, "counted_as_answered", total);
	return told ? MV_TRIAL_PASS : q_unsure(t, "in none of %u rounds the queue pair reached ERR in the middle of the READs", n);
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = READS * PASSES, .recv_wr = 1, .sge = 1};
	enum mv_trial_verdict verdict;
	struct reads r = {0};
	int err = q_qp_make(&b->dut, &size, &r.req);

	if (!err)
		err = q_qp_make(b->peer, &size, &r.resp);
	if (!err)
		err = q_mem_make(b->peer, (size_t)PASSES * READ_BYTES, &r.well);
	if (!err)
		err = q_mem_make(&b->dut, (size_t)READS * READ_BYTES, &r.sink);
	for (uint32_t p = 0; p < PASSES && !err; p++)
		memset(r.well.buf + (size_t)p * READ_BYTES, (int)p + 1, READ_BYTES);
	verdict = err ? q_broken(t, "queue pairs and memory", err) : rounds(b, &r, t);
	q_qp_end(&r.req);
	q_qp_end(&r.resp);
	q_mem_end(&r.well);
	q_mem_end(&r.sink);
	return verdict;
}

const struct q_trial trial_reads = {
	.name = "reads",
	.assumption = "If max_rd_atomic later READs were sent, the response to a READ is whole in the requester's memory when it is in ERR.",
	.source = "IBTA vol. 1, 9.7.2, 10.8.3.3 (no more than max_rd_atomic outstanding)",
	.run = run,
};
