/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two ends of a connection over a network that loses, doubles and delays their messages. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conn.h"

#define MS      1000000ull
#define ON_WIRE 64

struct world {
	struct conn end[2]; /* 0 asks */
	uint64_t now_ns;
	struct {
		int to;
		struct mad mad;
	} wire[ON_WIRE];
	int n_wire;
	int lose, twice; /* per cent */
	enum conn_event told[2][8];
	int n_told[2], status[2];
};

static void put(struct world *w, int from, const struct conn_out *out)
{
	if (out->send && random() % 100 >= w->lose) {
		for (int n = random() % 100 < w->twice ? 2 : 1; n && w->n_wire < ON_WIRE; n--) {
			w->wire[w->n_wire].to = !from;
			w->wire[w->n_wire++].mad = out->mad;
		}
	}
	if (out->event && w->n_told[from] < 8) {
		w->told[from][w->n_told[from]++] = out->event;
		w->status[from] = out->status;
	}
}

/* One message, any of those on their way. */
static void deliver(struct world *w)
{
	int i = (int)(random() % w->n_wire), to = w->wire[i].to;
	struct mad m = w->wire[i].mad;
	struct conn_out out;

	w->wire[i] = w->wire[--w->n_wire];
	if (m.attr == MAD_REQ && w->end[1].state == CONN_IDLE && !w->end[1].remote_id) {
		conn_requested(&w->end[1], &m);
		return;
	}
	conn_receive(&w->end[to], &m, w->now_ns, &out);
	put(w, to, &out);
}

static void step(struct world *w)
{
	struct conn_out out;

	if (w->n_wire && random() % 4) {
		deliver(w);
		return;
	}
	w->now_ns += 500 * MS;
	for (int i = 0; i < 2; i++) {
		conn_timer(&w->end[i], w->now_ns, &out);
		put(w, i, &out);
	}
}

static void begin(struct world *w, int lose, int twice)
{
	memset(w, 0, sizeof(*w));
	w->now_ns = 1;
	w->lose = lose;
	w->twice = twice;
	for (int i = 0; i < 2; i++) {
		w->end[i].local_id = 100u + (uint32_t)i;
		w->end[i].rq_psn = 1000u * (uint32_t)(i + 1);
		w->end[i].path.mtu = 5;
		w->end[i].path.lifetime = CM_PACKET_LIFETIME;
	}
}

static void ask(struct world *w)
{
	struct conn_param p = {.qpn = 0x40,
			       .responder_resources = 3,
			       .initiator_depth = 5,
			       .retry_count = 7,
			       .rnr_retry_count = 6};
	struct conn_out out;

	assert_int_equal(conn_connect(&w->end[0], &p, w->now_ns, &out), 0);
	put(w, 0, &out);
	assert_int_equal(conn_connect(&w->end[0], &p, w->now_ns, &out), -EINVAL);
}

static void answer(struct world *w)
{
	struct conn_param p = {.qpn = 0x50,
			       .responder_resources = w->end[1].responder_resources,
			       .initiator_depth = w->end[1].initiator_depth,
			       .rnr_retry_count = 4};
	struct conn_out out;

	if (w->end[1].state == CONN_REQ_RCVD && !conn_accept(&w->end[1], &p, w->now_ns, &out))
		put(w, 1, &out);
	if (w->end[0].state == CONN_REP_RCVD && !conn_ready(&w->end[0], &out))
		put(w, 0, &out);
}

static bool up(const struct world *w)
{
	return w->end[0].state == CONN_ESTABLISHED && w->end[1].state == CONN_ESTABLISHED;
}

static void connect_both(struct world *w)
{
	ask(w);
	for (int i = 0; i < 20000 && !up(w); i++) {
		step(w);
		answer(w);
	}
	assert_true(up(w));
}

static void test_agree(void **state)
{
	struct world w;

	(void)state;
	for (unsigned int seed = 1; seed < 300; seed++) {
		const struct conn *a = &w.end[0], *b = &w.end[1];

		srandom(seed);
		begin(&w, (int)(seed % 50), (int)(seed % 40));
		connect_both(&w);
		assert_int_equal(a->rq_psn, b->sq_psn);
		assert_int_equal(b->rq_psn, a->sq_psn);
		assert_int_equal(a->remote_qpn, 0x50);
		assert_int_equal(b->remote_qpn, 0x40);
		/* What one may have outstanding the other serves. */
		assert_int_equal(a->responder_resources, 3);
		assert_int_equal(b->initiator_depth, 3);
		assert_int_equal(a->initiator_depth, 5);
		assert_int_equal(b->responder_resources, 5);
		assert_int_equal(b->retry_count, 7);
		assert_int_equal(b->rnr_retry_count, 6);
		assert_int_equal(a->rnr_retry_count, 4);
		assert_int_equal(a->ack_timeout, 19);
		assert_int_equal(b->ack_timeout, 19);
		assert_int_equal(w.n_told[0], 1);
		assert_int_equal(w.told[0][0], CONN_REP);
		assert_int_equal(w.n_told[1], 1);
		assert_int_equal(w.told[1][0], CONN_UP);
	}
}

static void test_part(void **state)
{
	struct world w;

	(void)state;
	for (unsigned int seed = 1; seed < 300; seed++) {
		struct conn_out out;
		int first = seed & 1;

		srandom(seed);
		begin(&w, (int)(seed % 40), (int)(seed % 40));
		connect_both(&w);
		w.n_told[0] = w.n_told[1] = 0;
		assert_int_equal(conn_disconnect(&w.end[first], w.now_ns, &out), 0);
		put(&w, first, &out);
		for (int i = 0; i < 20000; i++) {
			step(&w);
			if (w.end[!first].state == CONN_DREQ_RCVD || random() % 50 == 0)
				if (!conn_disconnect(&w.end[!first], w.now_ns, &out))
					put(&w, !first, &out);
			if (w.end[0].state == CONN_IDLE && w.end[1].state == CONN_IDLE)
				break;
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(w.end[i].state, CONN_IDLE);
			assert_int_equal(w.n_told[i], 2);
			/* A request that comes late, to a connection that is no more, is refused as
			 * stale. */
			assert_true(w.told[i][0] == CONN_DOWN || w.told[i][0] == CONN_REJECTED);
			assert_int_equal(w.told[i][1], CONN_TIMEWAIT_EXIT);
		}
	}
}

static void test_nobody_there(void **state)
{
	struct world w;

	(void)state;
	begin(&w, 100, 0);
	ask(&w);
	for (int i = 0; i < 20000 && !w.n_told[0]; i++)
		step(&w);
	assert_int_equal(w.told[0][0], CONN_UNREACHABLE);
	assert_int_equal(w.status[0], -ETIMEDOUT);
	assert_int_equal(w.end[0].state, CONN_IDLE);
	/* Once and 15 times more, each after 2 * 4.096 s and a packet's life. */
	assert_in_range(w.now_ns / MS, 16 * 9216, 16 * 9216 + 16 * 500);
}

static void test_refused(void **state)
{
	struct world w;
	struct conn_out out;

	(void)state;
	srandom(1);
	begin(&w, 0, 0);
	ask(&w);
	deliver(&w);
	assert_int_equal(w.end[1].state, CONN_REQ_RCVD);
	assert_int_equal(conn_reject(&w.end[1], MAD_REJ_CONSUMER, (const uint8_t *)"no", 2, &out),
			 0);
	put(&w, 1, &out);
	deliver(&w);
	assert_int_equal(w.told[0][0], CONN_REJECTED);
	assert_int_equal(w.status[0], MAD_REJ_CONSUMER);
	assert_int_equal(conn_reject(&w.end[1], MAD_REJ_CONSUMER, NULL, 0, &out), -EINVAL);
	assert_int_equal(conn_disconnect(&w.end[0], 1, &out), -EINVAL);
}

/* Whatever state one end goes away in, the other comes to an end, too. */
static void test_gone(void **state)
{
	struct world w;

	(void)state;
	for (unsigned int seed = 1; seed < 500; seed++) {
		struct conn_out out;
		int gone = seed & 1, limit;
		bool late; /* the peer may be ready already: it does not take a refusal then */

		srandom(seed);
		begin(&w, 0, 0);
		ask(&w);
		for (limit = (int)(random() % 12); limit; limit--) {
			step(&w);
			if (random() & 1)
				answer(&w);
		}
		late = w.end[gone].state == CONN_REP_SENT;
		conn_close(&w.end[gone], &out);
		w.end[gone].remote_id = 1; /* no second connection */
		put(&w, gone, &out);
		for (limit = 0; limit < 5000 && w.end[!gone].state != CONN_IDLE; limit++) {
			step(&w);
			if (w.end[!gone].state == CONN_DREQ_RCVD &&
			    !conn_disconnect(&w.end[!gone], w.now_ns, &out))
				put(&w, !gone, &out);
		}
		/* A request that was never read is the one that waits for its program. */
		if (w.end[!gone].state != CONN_REQ_RCVD && !late)
			assert_int_equal(w.end[!gone].state, CONN_IDLE);
	}
}

static void test_datagrams(void **state)
{
	struct conn_param p = {.qpn = 0x77, .qkey = 0x1234567};
	struct conn_out out;
	struct world w;

	(void)state;
	for (unsigned int seed = 1; seed < 100; seed++) {
		srandom(seed);
		begin(&w, (int)(seed % 30), 0);
		assert_int_equal(conn_ask(&w.end[0], NULL, 0, w.now_ns, &out), 0);
		put(&w, 0, &out);
		for (int i = 0; i < 2000 && !w.n_told[0]; i++) {
			while (w.n_wire && w.wire[0].mad.attr == MAD_SIDR_REQ) {
				w.end[1].state = CONN_IDLE;
				conn_asked(&w.end[1], &w.wire[0].mad);
				w.wire[0] = w.wire[--w.n_wire];
				assert_int_equal(conn_tell(&w.end[1], MAD_SIDR_OK, &p, &out), 0);
				put(&w, 1, &out);
			}
			step(&w);
		}
		assert_int_equal(w.told[0][0], CONN_SIDR_REP);
		assert_int_equal(w.end[0].remote_qpn, 0x77);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agree),        cmocka_unit_test(test_part),
		cmocka_unit_test(test_nobody_there), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_gone),         cmocka_unit_test(test_datagrams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
