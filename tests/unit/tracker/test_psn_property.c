/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What mv_psn_decide() says of a requester's work requests, against what a responder has executed:
 * both are modelled packet by packet (IBTA 9.7), with a wire that loses requests, acknowledgements
 * and responses, and cut at a random moment. Seeded: TEST_SEED=n test_psn_property.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "psn.h"
#include "random.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RUNS 5000
#else
#define RUNS 60000
#endif

#define MAX_WRS  16
#define MAX_OLD  24
#define MAX_WIRE 64

/* Says which run it was. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu: not true: %s", (unsigned long long)m.seed,            \
				 #condition);                                                      \
	} while (0)

/* Packets are counted from 0; a PSN is that plus the first one. */
struct wr {
	struct mv_psn_wr wr;
	bool signaled;
	uint32_t first, psns;
	/* of the responder */
	unsigned int executed; /* times, as a whole */
	/* of the requester */
	uint32_t answered; /* packets of the response that have come, in order */
};

struct packet {
	bool answer; /* READ response or atomic's result; else a request or, towards the requester,
			an ACK */
	uint32_t at;
};

/* Delivers in order, or not at all: a network may reorder, but neither end takes what is out of
 * order. */
struct wire {
	struct packet packets[MAX_WIRE];
	size_t n;
	uint32_t loss;
};

static struct model {
	struct wr wrs[MAX_WRS];
	size_t n;
	uint64_t seed;
	uint32_t mtu, start, total, max_rd_atomic;
	uint32_t next, acked; /* requester: to be sent, all before are acknowledged */
	uint32_t expected; /* responder */
	struct wire there, back;
} m;

static void send_on(struct wire *wire, struct packet packet)
{
	if (wire->n < MAX_WIRE && !chance(wire->loss))
		wire->packets[wire->n++] = packet;
}

static bool take_from(struct wire *wire, struct packet *ret)
{
	if (!wire->n)
		return false;
	*ret = wire->packets[0];
	memmove(wire->packets, wire->packets + 1, --wire->n * sizeof(wire->packets[0]));
	return true;
}

static struct wr *at_packet(uint32_t at)
{
	size_t i = 0;

	while (m.wrs[i].first + m.wrs[i].psns <= at)
		i++;
	return &m.wrs[i];
}

static bool is_atomic(const struct wr *wr)
{
	return wr->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wr->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool has_result(const struct wr *wr)
{
	return is_atomic(wr) || wr->wr.opcode == IBV_WR_RDMA_READ;
}

static bool has_come(const struct wr *wr)
{
	return !has_result(wr) || wr->answered == wr->psns;
}

/* ---- requester ---------------------------------------------------------------------------------
 */

static bool may_send(const struct wr *wr)
{
	uint32_t open = 0;

	for (const struct wr *w = m.wrs; w < wr; w++)
		open += !has_come(w);
	if (wr->wr.fence && open)
		return false;
	return !has_result(wr) || open < m.max_rd_atomic;
}

static void requester_sends(void)
{
	struct wr *wr;

	if (m.next >= m.total)
		return;
	wr = at_packet(m.next);
	if (!may_send(wr))
		return;
	send_on(&m.there, (struct packet){.at = m.next});
	m.next = has_result(wr) ? wr->first + wr->psns : m.next + 1;
}

/* Acknowledges up to @end, but not past a result that has not come. */
static void acknowledge(uint32_t end)
{
	while (m.acked < end && m.acked < m.total) {
		const struct wr *wr = at_packet(m.acked);

		if (has_result(wr) && m.acked >= wr->first + wr->answered)
			return;
		m.acked++;
	}
	if (m.next < m.acked)
		m.next = m.acked;
}

static void requester_hears(void)
{
	struct packet packet;
	struct wr *wr;

	if (!take_from(&m.back, &packet))
		return;
	if (packet.answer) {
		wr = at_packet(packet.at);
		if (packet.at != wr->first + wr->answered || wr->first > m.acked)
			return;
		wr->answered++;
	}
	acknowledge(packet.at + 1);
}

/* ---- responder ---------------------------------------------------------------------------------
 */

static void answer_from(const struct wr *wr, uint32_t at)
{
	for (; at < wr->first + wr->psns; at++)
		send_on(&m.back, (struct packet){.answer = true, .at = at});
}

static void responder_hears(void)
{
	struct packet packet;
	struct wr *wr;

	if (!take_from(&m.there, &packet) || packet.at > m.expected)
		return;
	wr = at_packet(packet.at);
	if (packet.at == m.expected) {
		m.expected = has_result(wr) ? wr->first + wr->psns : m.expected + 1;
		wr->executed += m.expected == wr->first + wr->psns;
	}
	if (has_result(wr))
		answer_from(wr, packet.at);
	else
		send_on(&m.back, (struct packet){.at = m.expected - 1});
}

/* ---- a run -------------------------------------------------------------------------------------
 */

static void make_wr(struct wr *wr)
{
	static const uint8_t opcodes[] = {IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,
					  IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
					  IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_CMP_AND_SWP,
					  IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD};
	static const uint32_t around[] = {0, 1, 2, 3, 5};

	*wr = (struct wr){.wr = {.opcode = opcodes[rnd(8)], .fence = chance(15)},
			  .signaled = chance(60),
			  .first = m.total};
	/* Around multiples of the MTU, where counting goes wrong. */
	wr->wr.length_bytes = around[rnd(5)] * m.mtu;
	if (wr->wr.length_bytes)
		wr->wr.length_bytes = wr->wr.length_bytes + rnd(3) - 1;
	/* By hand: not with the function that is tested. */
	wr->psns = 1;
	while (!is_atomic(wr) && (uint64_t)wr->psns * m.mtu < wr->wr.length_bytes)
		wr->psns++;
	m.total += wr->psns;
}

static void make_model(uint64_t seed)
{
	memset(&m, 0, sizeof(m));
	m.seed = seed;
	rng = seed * 0x9e3779b97f4a7c15ull + 1;
	rnd(2);
	m.mtu = 256u << rnd(5);
	m.start = chance(50) ? rnd(0x1000000) : 0xffffff - rnd(30);
	m.max_rd_atomic = 1 + rnd(4);
	m.there.loss = chance(50) ? 0 : rnd(60);
	m.back.loss = chance(30) ? 0 : rnd(90);
	m.n = 1 + rnd(MAX_WRS);
	for (size_t i = 0; i < m.n; i++)
		make_wr(&m.wrs[i]);
}

static void let_it_run(void)
{
	unsigned int steps = rnd(chance(50) ? 60 : 600);

	while (steps--) {
		switch (rnd(12)) {
		case 0:
			m.next = m.acked; /* timeout */
			break;
		case 1 ... 5:
			requester_sends();
			break;
		case 6 ... 8:
			responder_hears();
			break;
		default:
			requester_hears();
		}
	}
	/* The responder's QP is not in ERR yet: what is under way still comes. */
	while (chance(90))
		responder_hears();
}

static size_t completed(void)
{
	size_t done = 0;

	while (done < m.n && m.wrs[done].first + m.wrs[done].psns <= m.acked)
		done++;
	return done;
}

struct tally {
	unsigned int done, replay, part, lost, read_again, far;
};

/*
 * Ones that were done before the model begins, but are in the log still. They may be long, so there
 * may be more PSNs than there are numbers.
 *
 * Return: PSNs that they take.
 */
static uint64_t make_old(struct mv_psn_wr *ret, size_t n)
{
	uint64_t sum = 0, packets;

	for (size_t i = 0; i < n; i++) {
		packets = 1 + rnd(chance(50) ? 5 : 0x80000000u / m.mtu);
		ret[i] = (struct mv_psn_wr){.opcode = chance(50) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
					    .length_bytes = packets * m.mtu - rnd(m.mtu)};
		sum += packets;
	}
	return sum;
}

static void check_one(const struct wr *wr, enum mv_fate fate, size_t i, size_t known,
		      struct tally *tally)
{
	bool executed = wr->executed;

	CHECK(wr->executed <= 1); /* or the model is worth nothing */
	if (fate == MV_FATE_DONE)
		CHECK(executed && has_come(wr));
	if (!executed)
		CHECK(fate == MV_FATE_REPLAY);
	if (executed && !has_result(wr))
		CHECK(fate == MV_FATE_DONE);
	if (fate == MV_FATE_LOST)
		CHECK(executed && is_atomic(wr));
	if (fate == MV_FATE_REPLAY && executed)
		CHECK(wr->wr.opcode == IBV_WR_RDMA_READ);
	if (i < known)
		CHECK(fate == MV_FATE_DONE);
	tally->done += fate == MV_FATE_DONE;
	tally->replay += fate == MV_FATE_REPLAY && !executed;
	tally->lost += fate == MV_FATE_LOST;
	tally->read_again += fate == MV_FATE_REPLAY && executed;
}

static void run(uint64_t seed, struct tally *tally)
{
	struct mv_psn_wr wrs[MAX_OLD + MAX_WRS];
	enum mv_fate fates[MAX_OLD + MAX_WRS];
	size_t seen, from, n_old;
	uint64_t old_psns;
	struct mv_psn_view view;
	uint32_t part, true_part, first;
	const struct wr *reached;

	make_model(seed);
	let_it_run();
	/* What the program has been told: the last signaled one that is complete says so of all
	 * before it. */
	seen = completed();
	while (seen && !m.wrs[seen - 1].signaled)
		seen--;
	if (seen && chance(30))
		seen = rnd((uint32_t)seen); /* completions that nobody has polled yet */
	while (seen && !m.wrs[seen - 1].signaled)
		seen--;
	n_old = chance(40) ? rnd(MAX_OLD + 1) : 0;
	old_psns = make_old(wrs, n_old);
	from = n_old ? 0 : rnd((uint32_t)seen + 1);
	for (size_t i = from; i < m.n; i++)
		wrs[n_old + i - from] = m.wrs[i].wr;
	first = from < m.n ? m.wrs[from].first : m.total;
	view = (struct mv_psn_view){.first_psn = (uint32_t)(m.start + first - old_psns) & 0xffffff,
				    .rq_psn = (m.start + m.expected) & 0xffffff,
				    .mtu_bytes = m.mtu,
				    .n_done = n_old + seen - from,
				    .max_rd_atomic = chance(30) ? 0 : m.max_rd_atomic};
	CHECK(mv_psn_decide(wrs, n_old + m.n - from, &view, fates, &part) == 0);
	for (size_t i = 0; i < n_old; i++)
		CHECK(fates[i] == MV_FATE_DONE);
	for (size_t i = from; i < m.n; i++)
		check_one(&m.wrs[i], fates[n_old + i - from], i, seen, tally);
	tally->far += old_psns > 1u << 24;
	reached = m.expected < m.total ? at_packet(m.expected) : NULL;
	true_part = reached ? m.expected - reached->first : 0;
	CHECK(part == true_part);
	tally->part += part != 0;
}

static void test_runs(void **state)
{
	const char *seed = getenv("TEST_SEED");
	struct tally tally = {0};

	(void)state;
	if (seed) {
		run(strtoull(seed, NULL, 0), &tally);
		return;
	}
	for (uint64_t i = 1; i <= RUNS; i++)
		run(i, &tally);
	print_message("%u runs: %u done, %u to be repeated, %u of them in part, %u reads again, %u "
		      "lost; %u behind more than all PSNs\n",
		      RUNS, tally.done, tally.replay, tally.part, tally.read_again, tally.lost,
		      tally.far);
	/* All of it has happened, or the runs are worth nothing. */
	assert_true(tally.done > RUNS && tally.replay > RUNS && tally.part > RUNS / 50 &&
		    tally.lost > RUNS / 50 && tally.read_again > RUNS / 50 && tally.far > RUNS / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
