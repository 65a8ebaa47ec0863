// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "round.h"

#include <errno.h>
#include <string.h>

#include "psn.h"

#define WATCH_NS      200000000ull /* time limit for the packet that ends a round */
#define RECEIVED_NS   5000000000ull
#define CQE_BYTES     64
#define ROUNDS_MIN    24 /* informative rounds of each kind */
#define INFORMATIVE   4
#define COUNTER_AT(r) ((r)->well.bytes - 8)

static uint32_t slots(const struct round *r)
{
	return (uint32_t)(r->to.bytes / ROUND_SLOT);
}

uint32_t round_psns(const struct round *r, uint32_t message)
{
	const struct round_message *m = &r->messages[message];

	return mv_psn_count(m->opcode, m->length, q_mtu_bytes(r->mtu));
}

static bool puts_bytes(const struct round_message *m)
{
	return m->opcode == IBV_WR_RDMA_WRITE || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || m->opcode == IBV_WR_SEND;
}

/*
 * Does memory show its arrival before a completion is polled? The bytes of a small SEND may be in its completion
 * (MLX5_SCATTER_TO_CQE of libmlx5) until that is polled; only receives show these.
 */
static bool leaves_bytes(const struct round_message *m)
{
	return puts_bytes(m) && m->length && (m->opcode != IBV_WR_SEND || m->length > CQE_BYTES);
}

int round_open(struct q_bench *b, struct round *r, enum ibv_mtu mtu, uint32_t inline_bytes)
{
	const struct q_size size = {.send_wr = ROUND_MESSAGES, .recv_wr = ROUND_MESSAGES, .sge = 1, .inline_bytes = inline_bytes};
	size_t bytes = (size_t)ROUND_MESSAGES * ROUND_SLOT;
	int err;

	memset(r, 0, sizeof(*r));
	r->mtu = mtu;
	err = q_qp_make(b->peer, &size, &r->req);
	if (!err)
		err = q_qp_make(&b->dut, &size, &r->resp);
	if (!err)
		err = q_mem_make(b->peer, bytes, &r->from);
	if (!err)
		err = q_mem_make(&b->dut, bytes, &r->to);
	if (!err)
		err = q_mem_make(b->peer, bytes, &r->sink);
	if (!err)
		err = q_mem_make(&b->dut, bytes + 4096, &r->well);
	if (err)
		round_close(r);
	return err;
}

void round_close(struct round *r)
{
	q_qp_end(&r->req);
	q_qp_end(&r->resp);
	q_mem_end(&r->from);
	q_mem_end(&r->to);
	q_mem_end(&r->sink);
	q_mem_end(&r->well);
}

/* ---- places in memory -------------------------------------------------------------------------- */

/* Length of a packet of a message. */
static uint32_t packet_bytes(const struct round *r, const struct round_message *m, uint32_t packet)
{
	uint32_t mtu = q_mtu_bytes(r->mtu), left = m->length - packet * mtu;

	return left < mtu ? left : mtu;
}

/*
 * A message begins at the slot of its first PSN; its packets are MTU bytes apart. A slot is as large as the largest
 * MTU, so that packets do not overlap the next message.
 */
static size_t place(uint32_t first_psn, uint32_t packet, uint32_t mtu_bytes)
{
	return (size_t)first_psn * ROUND_SLOT + (size_t)packet * mtu_bytes;
}

static void mark(struct q_mem *mem, size_t at, uint32_t bytes, uint8_t value)
{
	mem->buf[at] = value;
	mem->buf[at + bytes - 1] = value;
}

/* Sets the marks of all packets: this round's in the source, none in the destination. */
static void mark_all(struct round *r)
{
	uint32_t mtu = q_mtu_bytes(r->mtu), psn = 0, n;

	for (uint32_t i = 0; i < r->n; i++, psn += n) {
		const struct round_message *m = &r->messages[i];

		n = round_psns(r, i);
		for (uint32_t p = 0; p < n && m->length && m->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD; p++) {
			bool put = puts_bytes(m);

			mark(put ? &r->from : &r->well, place(psn, p, mtu), packet_bytes(r, m, p), r->stamp);
			mark(put ? &r->to : &r->sink, place(psn, p, mtu), packet_bytes(r, m, p), 0);
		}
	}
	r->total = psn;
	memset(r->well.buf + COUNTER_AT(r), 0, 8);
}

static bool has_arrived(const struct q_mem *mem, size_t at, uint32_t bytes, uint8_t stamp)
{
	const volatile uint8_t *buf = mem->buf;

	return buf[at] == stamp && buf[at + bytes - 1] == stamp;
}

static bool has_begun(const struct q_mem *mem, size_t at, uint32_t bytes, uint8_t stamp)
{
	const volatile uint8_t *buf = mem->buf;

	return buf[at] == stamp || buf[at + bytes - 1] == stamp;
}

bool round_compare(const struct round *r, uint32_t executed, uint32_t *ret_at, bool *ret_there)
{
	uint32_t mtu = q_mtu_bytes(r->mtu), psn = 0, n;

	for (uint32_t i = 0; i < r->n; i++, psn += n) {
		const struct round_message *m = &r->messages[i];

		n = round_psns(r, i);
		for (uint32_t p = 0; p < n && leaves_bytes(m); p++) {
			size_t at = place(psn, p, mtu);
			uint32_t bytes = packet_bytes(r, m, p);
			bool should = psn + p < executed;

			if (should ? has_arrived(&r->to, at, bytes, r->stamp) : !has_begun(&r->to, at, bytes, r->stamp))
				continue;
			*ret_at = psn + p;
			*ret_there = !should;
			return false;
		}
	}
	return true;
}

uint64_t round_counter(const struct round *r)
{
	uint64_t value;

	memcpy(&value, (const void *)(r->well.buf + COUNTER_AT(r)), sizeof(value));
	return value;
}

/* Number of messages that are completely executed and that @counts. */
static uint32_t count_whole(const struct round *r, uint32_t executed, bool (*counts)(const struct round_message *m))
{
	uint32_t psn = 0, n = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		psn += round_psns(r, i);
		n += psn <= executed && counts(&r->messages[i]);
	}
	return n;
}

static bool is_atomic(const struct round_message *m)
{
	return m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send(const struct round_message *m)
{
	return m->opcode == IBV_WR_SEND;
}

static bool is_any(const struct round_message *m)
{
	(void)m;
	return true;
}

uint64_t round_atomics(const struct round *r, uint32_t executed)
{
	return count_whole(r, executed, is_atomic);
}

uint32_t round_receives(const struct round *r, uint32_t executed)
{
	return count_whole(r, executed, is_send);
}

bool round_read_too_much(const struct round *r, uint32_t executed)
{
	uint32_t mtu = q_mtu_bytes(r->mtu), psn = 0, n;

	for (uint32_t i = 0; i < r->n; i++, psn += n) {
		const struct round_message *m = &r->messages[i];

		n = round_psns(r, i);
		for (uint32_t p = 0; p < n && m->opcode == IBV_WR_RDMA_READ && m->length; p++)
			if (psn + p >= executed && has_begun(&r->sink, place(psn, p, mtu), packet_bytes(r, m, p), r->stamp))
				return true;
	}
	return false;
}

int round_received(struct round *r, uint32_t *ret)
{
	uint32_t posted = 0, done = 0, good = 0;
	struct ibv_wc wc;
	int err;

	for (uint32_t i = 0; i < (r->stall ? r->stall : r->n); i++)
		posted += is_send(&r->messages[i]);
	for (; done < posted; done++) {
		err = q_wait(r->resp.recv_cq, RECEIVED_NS, &wc);
		if (err == -ETIMEDOUT)
			return -1;
		if (err)
			return err;
		good += wc.status == IBV_WC_SUCCESS;
	}
	*ret = good;
	return 0;
}

/* ---- one round --------------------------------------------------------------------------------- */

static int post_message(struct round *r, uint32_t i, uint32_t psn)
{
	const struct round_message *m = &r->messages[i];
	struct q_post post = {.wr_id = i,
			      .opcode = m->opcode,
			      .flags = (m->inlined ? IBV_SEND_INLINE : 0u) | (i + 1 == r->n ? IBV_SEND_SIGNALED : 0u),
			      .from = &r->from,
			      .from_at = (size_t)psn * ROUND_SLOT,
			      .length = m->length,
			      .to = &r->to,
			      .to_at = (size_t)psn * ROUND_SLOT,
			      .operand = 1};

	if (m->opcode == IBV_WR_SEND)
		post.to = NULL;
	if (m->opcode == IBV_WR_RDMA_READ || is_atomic(m)) {
		post.from = &r->sink;
		post.to = &r->well;
	}
	if (is_atomic(m)) {
		post.length = 8;
		post.to_at = COUNTER_AT(r);
	}
	return q_post(&r->req, &post);
}

static int post_all(struct round *r)
{
	uint32_t psn = 0;
	int err = 0;

	for (uint32_t i = 0; i < (r->stall ? r->stall : r->n) && !err; psn += round_psns(r, i), i++)
		if (is_send(&r->messages[i]))
			err = q_post_recv(&r->resp, i, &r->to, (size_t)psn * ROUND_SLOT, r->messages[i].length);
	psn = 0;
	for (uint32_t i = 0; i < r->n && !err; psn += round_psns(r, i), i++)
		err = post_message(r, i, psn);
	return err;
}

/* If the message has several packets, it stalls at the last one: only this needs the receive of a WRITE with immediate data. */
void round_stall(struct q_bench *b, struct round *r)
{
	struct round_message *m;

	r->stall = 1 + q_random(b, r->n - 1);
	m = &r->messages[r->stall];
	if (m->length > q_mtu_bytes(r->mtu))
		*m = (struct round_message){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = m->length};
	else
		*m = (struct round_message){.opcode = IBV_WR_SEND, .length = m->length ? m->length : 1, .inlined = m->inlined};
}

/* Waits until @n atomics were executed. */
static void watch_counter(const struct round *r, uint32_t n)
{
	uint64_t began_ns = q_now_ns();
	const volatile uint8_t *first = &r->well.buf[COUNTER_AT(r)]; /* there are fewer than 256 */

	while (*first < n && q_now_ns() - began_ns < WATCH_NS)
		q_pause_after(began_ns);
}

/* Does memory show its arrival? */
static bool shows(const struct round_message *m)
{
	return leaves_bytes(m) || is_atomic(m);
}

/* The message whose arrival ends the round: before a stall, the last one that arrives; else any, preferably of the first half. */
static uint32_t choose(struct q_bench *b, const struct round *r)
{
	uint32_t at = q_random(b, r->n);

	if (r->stall && round_psns(r, r->stall) > 1)
		return r->stall;
	if (r->stall) {
		for (at = r->stall - 1; at && !shows(&r->messages[at]); at--)
			;
		return at;
	}
	if (at > r->n / 2)
		at = q_random(b, at);
	while (at < r->n - 1 && !shows(&r->messages[at]))
		at++;
	return at;
}

static void watch(struct q_bench *b, const struct round *r)
{
	uint32_t at = choose(b, r), mtu = q_mtu_bytes(r->mtu), psn = 0, n_atomics = 0;

	for (uint32_t i = 0; i < at; i++) {
		psn += round_psns(r, i);
		n_atomics += is_atomic(&r->messages[i]);
	}
	if (is_atomic(&r->messages[at]))
		watch_counter(r, n_atomics + 1);
	else if (shows(&r->messages[at]))
		q_mem_wait(&r->to, place(psn, round_psns(r, at) - (r->stall && at == r->stall ? 2 : 1), mtu), r->stamp, WATCH_NS);
}

int round_run(struct q_bench *b, struct round *r, struct round_end *ret)
{
	struct q_way way = q_way(b, r->mtu);
	struct round_end end = {0};
	uint32_t psn;
	int err;

	way.psn = r->psn;
	way.rd_atomic = 16;
	r->stamp = (uint8_t)(r->stamp % 255 + 1);
	err = q_connect(&r->req, &r->resp, &way);
	if (err)
		return err;
	mark_all(r);
	if (r->total > slots(r))
		return -E2BIG;
	err = post_all(r);
	if (err)
		return err;
	watch(b, r);
	err = q_to(&r->resp, IBV_QPS_ERR);
	if (!err)
		err = q_rq_psn(&r->resp, &psn);
	if (err)
		return err;
	end.executed = mv_psn_ahead(r->psn, psn);
	if (end.executed > r->total)
		return -ERANGE;
	end.executed_messages = count_whole(r, end.executed, is_any);
	end.informative = end.executed && end.executed < r->total;
	end.cut = end.informative && !(r->stall && end.executed_messages == r->stall);
	*ret = end;
	return 0;
}

/* ---- many ---------------------------------------------------------------------------------------- */

/* Verdict of one round. PASS: all agrees, or it is not informative. */
static enum mv_trial_verdict decide(struct round *r, const struct round_end *end, const char *kind,
				    struct mv_qualified_trial *t)
{
	uint64_t counted = round_counter(r), expected = round_atomics(r, end->executed);
	uint32_t at, good = 0, receives = round_receives(r, end->executed);
	bool there;
	int err;

	if (!round_compare(r, end->executed, &at, &there))
		return q_fail(t, "%s: packet %u of %u is %s memory, but by rq_psn %u were executed", kind, at, r->total, there ? "in" : "not in", end->executed);
	if (counted != expected)
		return q_fail(t, "%s: memory shows %llu atomics, rq_psn %llu", kind, (unsigned long long)counted, (unsigned long long)expected);
	if (round_read_too_much(r, end->executed))
		return q_fail(t, "%s: a READ was answered that by rq_psn was not executed", kind);
	err = q_to(&r->req, IBV_QPS_ERR);
	if (!err)
		err = round_received(r, &good);
	if (err < 0 && err != -1)
		return q_broken(t, "receives", err);
	/* Another trial checks that all receives are flushed. */
	if (!err && good != receives)
		return q_fail(t, "%s: %u receives were completed, but by rq_psn %u SENDs were executed", kind, good, receives);
	return MV_TRIAL_PASS;
}

static uint32_t first_psn(struct q_bench *b, const struct round_kind *kind)
{
	return kind->wraps ? (MV_PSN_MASK - q_random(b, ROUND_MESSAGES / 4)) : q_random(b, 1u << 23);
}

static enum mv_trial_verdict repeat(struct q_bench *b, struct round *r, struct mv_qualified_trial *t, const struct round_kind *kinds, size_t n_kinds)
{
	uint32_t informative[8] = {0}, rounds = 0, told = 0, least = 0;
	enum mv_trial_verdict verdict;
	struct round_end end;
	int err;

	while ((rounds < ROUNDS_MIN * n_kinds || least < INFORMATIVE) && q_has_time(b)) {
		size_t k = rounds++ % n_kinds;

		r->n = r->stall = 0;
		kinds[k].fill(b, r);
		if (rounds % 3)
			round_stall(b, r);
		r->psn = first_psn(b, &kinds[k]);
		err = round_run(b, r, &end);
		if (err == -ERANGE)
			return q_fail(t, "%s: rq_psn is beyond the last packet that was sent, or before the first one", kinds[k].name);
		if (err)
			return q_broken(t, kinds[k].name, err);
		verdict = decide(r, &end, kinds[k].name, t);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		informative[k] += end.informative;
		told += end.cut;
		least = informative[0];
		for (size_t i = 1; i < n_kinds; i++)
			least = informative[i] < least ? informative[i] : least;
	}
	q_figure(t, "rounds", rounds);
	q_figure(t, "rounds_cut", told);
	if (!least)
		return q_unsure(t, "in none of %u rounds of a kind something was executed, and something not", (unsigned int)(rounds / n_kinds));
	return MV_TRIAL_PASS;
}

enum mv_trial_verdict round_repeat(struct q_bench *b, struct mv_qualified_trial *t, const struct round_kind *kinds, size_t n_kinds)
{
	enum ibv_mtu mtu = b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu;
	enum mv_trial_verdict verdict;
	struct round *r;
	int err;

	static struct round round;

	r = &round;
	err = round_open(b, r, mtu, ROUND_INLINE);
	if (err)
		return q_broken(t, "queue pairs and memory", err);
	verdict = repeat(b, r, t, kinds, n_kinds);
	round_close(r);
	return verdict;
}
