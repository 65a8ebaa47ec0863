// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a program sees of a moved connection is what it sees of one that was not moved: each scenario runs on mlx5_0
 * itself and then moved to mlx5_1, posting and polling in every manner, and the completions are compared.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "run.h"
#include "survive.h"
#include "vqp.h"

/* Everything that a program can observe, as text. */
struct trace {
	char text[16384];
	size_t len;
};

static void __attribute__((format(printf, 2, 3))) note(struct trace *t, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->text + t->len, sizeof(t->text) - t->len, fmt, args);
	va_end(args);
	assert_true(n >= 0 && (size_t)n < sizeof(t->text) - t->len);
	t->len += (size_t)n;
}

static void note_wc(struct trace *t, const char *who, const struct end *e, const struct ibv_wc *wc)
{
	note(t, "%s %lu %s", who, wc->wr_id, ibv_wc_status_str(wc->status));
	if (!wc->status)
		note(t, " op %d len %u imm %x", wc->opcode, wc->opcode & IBV_WC_RECV ? wc->byte_len : 0,
		     wc->opcode & IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM ? be32toh(wc->imm_data) : 0);
	note(t, "%s\n", wc->qp_num == e->qp->qp_num ? "" : " of another QP");
}

static void wait_all(struct trace *t, const char *who, struct end *e, unsigned int n)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < n; i++) {
		wc = end_wait(e);
		note_wc(t, who, e, &wc);
	}
}

static uint32_t checksum(const uint8_t *bytes, size_t n)
{
	uint32_t sum = 2166136261u;
	size_t i;

	for (i = 0; i < n; i++)
		sum = (sum ^ bytes[i]) * 16777619u;
	return sum;
}

typedef void (*scenario_fn)(struct run *r, const struct shape *shape, struct trace *t);

static void perform(scenario_fn scenario, const struct manner *manner, const struct shape *shape, struct trace *t)
{
	struct run r;
	size_t i;

	memset(t, 0, sizeof(*t));
	run_open(&r, manner, shape);
	for (i = 0; i < END_BYTES; i++)
		r.a.buf[i] = (uint8_t)(i * 7 + i / 1000);
	scenario(&r, shape, t);
	note(t, "a %08x b %08x\n", checksum(r.a.buf, END_BYTES), checksum(r.b.buf, END_BYTES));
	run_close(&r);
}

/* From the first line on that differs. */
static void fail_with(const struct manner *manner, const char *bare, const char *moved)
{
	size_t i = 0, line = 0;

	for (; bare[i] && bare[i] == moved[i]; i++)
		if (bare[i] == '\n')
			line = i + 1;
	fail_msg("%s%s%s\nbare:\n%.400s\nmoved:\n%.400s", manner->extended ? "extended CQ, " : "",
		 manner->builders ? "ibv_wr, " : "", manner->late_keys ? "late keys" : "", bare + line, moved + line);
}

static void compare(scenario_fn scenario, const struct shape *shape)
{
	struct trace *bare = calloc(1, sizeof(*bare)), *moved = calloc(1, sizeof(*moved));
	struct manner manner;
	unsigned int i;

	assert_non_null(bare);
	assert_non_null(moved);
	for (i = 0; i < 8; i++) {
		manner = (struct manner){.extended = i & 1, .builders = i & 2, .late_keys = i & 4};
		manner.how = BARE;
		perform(scenario, &manner, shape, bare);
		manner.how = MOVED;
		perform(scenario, &manner, shape, moved);
		if (strcmp(bare->text, moved->text))
			fail_with(&manner, bare->text, moved->text);
	}
	free(bare);
	free(moved);
}

/* ---- scenarios ----------------------------------------------------------------------------------------------- */

/* Receives posted before and after the connection; SEND, with immediate, inline. */
static void sends_and_receives(struct run *r, const struct shape *shape, struct trace *t)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, i * 8192, 8192), 0);
	ends_connect(&r->a, &r->b, shape);
	for (i = 5; i < 8; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, i * 8192, 8192), 0);
	must_send(r, 1, IBV_WR_SEND, 0, 8192, SIGNALED);
	must_send(r, 2, IBV_WR_SEND_WITH_IMM, 100, 1, SIGNALED);
	must_send(r, 3, IBV_WR_SEND, 200, 0, 0);
	must_send(r, 4, IBV_WR_SEND, 20000, 64, IBV_SEND_INLINE);
	memset(&r->a.buf[20000], 0, 64);
	must_send(r, 5, IBV_WR_SEND_WITH_IMM, 400, 33, IBV_SEND_INLINE | SIGNALED);
	must_send(r, 6, IBV_WR_SEND, 500, 5000, 0);
	must_send(r, 7, IBV_WR_SEND, 600, 5001, 0);
	must_send(r, 8, IBV_WR_SEND, 700, 5002, SIGNALED);
	wait_all(t, "a", &r->a, 4);
	wait_all(t, "b", &r->b, 8);
	end_quiet(&r->a);
	end_quiet(&r->b);
}

static void test_sends_and_receives(void **state)
{
	(void)state;
	compare(sends_and_receives, &(struct shape){0});
	compare(sends_and_receives, &(struct shape){.srq = true});
}

static void rdma(struct run *r, const struct shape *shape, struct trace *t)
{
	unsigned int i;

	assert_int_equal(end_recv(&r->b, 100, 0, 0), 0);
	ends_connect(&r->a, &r->b, shape);
	for (i = 0; i < 4096; i++)
		r->b.buf[65536 + i] = (uint8_t)(i * 3);
	must_send(r, 1, IBV_WR_RDMA_WRITE, 1000, 5000, SIGNALED);
	must_send(r, 2, IBV_WR_RDMA_WRITE_WITH_IMM, 8000, 100, SIGNALED);
	must_send(r, 3, IBV_WR_RDMA_READ, 65536, 4096, SIGNALED);
	must_send(r, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, 131072, 8, SIGNALED);
	must_send(r, 5, IBV_WR_ATOMIC_CMP_AND_SWP, 131072, 8, SIGNALED | IBV_SEND_FENCE);
	must_send(r, 6, IBV_WR_RDMA_WRITE, 200000, 48, SIGNALED | IBV_SEND_INLINE);
	wait_all(t, "a", &r->a, 6);
	wait_all(t, "b", &r->b, 1);
	assert_memory_equal(&r->a.buf[1000], &r->b.buf[1000], 5000);
	assert_memory_equal(&r->a.buf[65536], &r->b.buf[65536], 4096);
	assert_int_equal(*(uint64_t *)(void *)&r->b.buf[131072], 77);
	assert_int_equal(*(uint64_t *)(void *)&r->a.buf[131072], 5);
}

static void test_rdma(void **state)
{
	(void)state;
	compare(rdma, &(struct shape){0});
	compare(rdma, &(struct shape){.srq = true});
}

/* All sends at once, before the other end can take any: held ones wait, and nothing is lost or overtaken. */
static void early_sends(struct run *r, const struct shape *shape, struct trace *t)
{
	unsigned int i;

	end_rtr(&r->a, &r->b, shape);
	end_rtr(&r->b, &r->a, shape);
	for (i = 0; i < 20; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, i * 1024, 1024), 0);
	assert_int_not_equal(run_send(r, 0, IBV_WR_SEND, 0, 0, 0), 0); /* not before RTS */
	r->a.late_rts = r->b.late_rts = true;
	end_rts(&r->a, shape);
	end_rts(&r->b, shape);
	for (i = 0; i < 20; i++)
		must_send(r, i, i % 3 ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM, i * 1024, 64,
			  (i % 4 ? SIGNALED : 0) | (i % 5 ? 0 : IBV_SEND_INLINE));
	if (r->a.manner->how == MOVED) {
		assert_int_equal(r->a.n_waits, 1);
		assert_int_equal(r->b.n_waits, 0);
		end_quiet(&r->a);
		end_prepare(&r->a);
		end_prepare(&r->b);
		end_connect(&r->b, &r->a, shape);
		end_connect(&r->a, &r->b, shape);
		mesh_vqp_activate(r->b.vqp);
		mesh_vqp_activate(r->a.vqp);
		end_quiet(&r->a);
		end_shadow_rts(&r->b, shape);
		end_shadow_rts(&r->a, shape);
		end_keys(&r->a);
	}
	wait_all(t, "a", &r->a, 15);
	wait_all(t, "b", &r->b, 20);
}

static void test_early_sends(void **state)
{
	(void)state;
	compare(early_sends, &(struct shape){0});
}

static void many(struct run *r, const struct shape *shape, struct trace *t)
{
	static const enum ibv_wr_opcode kinds[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_IMM,
						   IBV_WR_RDMA_WRITE_WITH_IMM};
	unsigned int i, posted = 0, done = 0, received = 0, receives = 0, expected = 0;
	uint32_t sum_a = 0, sum_b = 0;
	struct ibv_wc wc;
	struct sending s[4];

	ends_connect(&r->a, &r->b, shape);
	while (done < 1000) {
		for (; receives < received + 60; receives++)
			assert_int_equal(end_recv(&r->b, receives, 4096 * (receives % 64), 4096), 0);
		for (; posted < 1000 && posted + 4 <= done + 60 && expected + 4 <= receives; posted += 4) {
			for (i = 0; i < 4; i++) {
				expected += kinds[(posted + i) % 5] != IBV_WR_RDMA_WRITE && kinds[(posted + i) % 5] != IBV_WR_RDMA_READ;
				sending(&s[i], r, posted + i, kinds[(posted + i) % 5], 4096 * ((posted + i) % 64), (posted + i) % 3000,
					SIGNALED);
				/* What is read into is not what is sent, what is written not where receives are. */
				s[i].sge.addr += kinds[(posted + i) % 5] == IBV_WR_RDMA_READ ? END_BYTES / 2 : 0;
				s[i].wr.wr.rdma.remote_addr += END_BYTES / 2;
				s[i].wr.next = i < 3 ? &s[i + 1].wr : NULL;
			}
			assert_int_equal(end_send(&r->a, &s[0].wr), 0);
		}
		end_keys(&r->a);
		while (end_poll(&r->a, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, done);
			sum_a = sum_a * 31 + wc.opcode;
			done++;
		}
		while (end_poll(&r->b, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, received);
			sum_b = sum_b * 31 + wc.opcode + wc.byte_len;
			received++;
		}
	}
	for (; received < expected; received++) {
		wc = end_wait(&r->b);
		sum_b = sum_b * 31 + wc.opcode + wc.byte_len;
	}
	note(t, "a %x b %x\n", sum_a, sum_b);
}

static void test_many(void **state)
{
	(void)state;
	compare(many, &(struct shape){0});
	compare(many, &(struct shape){.srq = true});
}

/* The program ends the connection: everything is flushed, in order, the unsignaled ones, too. */
static void flushed(struct run *r, const struct shape *shape, struct trace *t)
{
	unsigned int i;

	ends_connect(&r->a, &r->b, shape);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&r->a, 200 + i, 0, 100), 0);
	/* Nobody has posted a receive: the peer says so for ever. */
	for (i = 0; i < 6; i++)
		must_send(r, i, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 100 * i, 100, i % 3 ? SIGNALED : 0);
	end_err(&r->a);
	for (i = 6; i < 8; i++)
		must_send(r, i, IBV_WR_SEND, 100 * i, 100, 0);
	assert_int_equal(end_recv(&r->a, 203, 0, 100), 0);
	/* Sends and receives are two orders. */
	for (i = 0; i < 12; i++) {
		struct ibv_wc wc = end_wait(&r->a);

		if (wc.wr_id == 0) { /* was executed, perhaps, and was not signaled: then there is nothing */
			i--;
			continue;
		}
		assert_int_equal(wc.qp_num, r->a.qp->qp_num);
		note(t, "%s", wc.wr_id == 1 || wc.wr_id >= 200 ? "" : "flush ");
		if (wc.wr_id < 200)
			note(t, "%lu %d\n", wc.wr_id, wc.status);
		if (wc.wr_id == 7)
			break;
	}
	memset(r->b.buf, 0, END_BYTES); /* the first one may or may not have been executed */
}

static void test_flushed(void **state)
{
	(void)state;
	compare(flushed, &(struct shape){0});
}

static unsigned int fill_receives(struct run *r)
{
	unsigned int n = 0;
	int err;

	while (!(err = end_recv(&r->a, n, 0, 100)))
		n++;
	assert_int_equal(err, ENOMEM);
	return n;
}

/* What has been flushed has made room, also in ERR. */
static void flushed_and_posted(struct run *r, const struct shape *shape, struct trace *t)
{
	unsigned int i, n;

	ends_connect(&r->a, &r->b, shape);
	n = fill_receives(r);
	end_err(&r->a);
	wait_all(t, "a", &r->a, n);
	for (i = 0; i < 3; i++)
		note(t, "%d ", end_recv(&r->a, 500 + i, 0, 100));
	wait_all(t, "a", &r->a, 3);
	note(t, "%u", fill_receives(r));
}

static void test_flushed_and_posted(void **state)
{
	(void)state;
	set_survive(true);
	compare(flushed_and_posted, &(struct shape){0});
	set_survive(false);
}

/* Keys that do not exist, or may not: the same error, then flushes. */
static void wrong_keys(struct run *r, const struct shape *shape, struct trace *t, bool local)
{
	struct sending s;
	unsigned int i;

	ends_connect(&r->a, &r->b, shape);
	must_send(r, 1, IBV_WR_RDMA_WRITE, 0, 100, SIGNALED);
	wait_all(t, "a", &r->a, 1);
	sending(&s, r, 2, IBV_WR_RDMA_WRITE, 0, 100, 0);
	if (local)
		s.sge.lkey ^= 0x55500;
	else
		s.wr.wr.rdma.rkey ^= 0x55500;
	assert_int_equal(end_send(&r->a, &s.wr), 0);
	for (i = 3; i < 6; i++)
		must_send(r, i, IBV_WR_RDMA_WRITE, 0, 100, 0);
	wait_all(t, "a", &r->a, 4);
}

static void wrong_lkey(struct run *r, const struct shape *shape, struct trace *t)
{
	wrong_keys(r, shape, t, true);
}

static void wrong_rkey(struct run *r, const struct shape *shape, struct trace *t)
{
	wrong_keys(r, shape, t, false);
}

static void test_wrong_keys(void **state)
{
	(void)state;
	compare(wrong_lkey, &(struct shape){0});
	compare(wrong_rkey, &(struct shape){0});
	compare(wrong_rkey, &(struct shape){.sig_all = true});
}

/* ---- events -------------------------------------------------------------------------------------------------- */

/* A program that sleeps between messages: armed before it is connected, then again after each event. */
static void events(struct run *r, const struct shape *shape, struct trace *t)
{
	struct ibv_wc wc;
	unsigned int i, seen = 0, received;

	assert_int_equal(ibv_req_notify_cq(r->a.cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(r->b.cq, 0), 0);
	for (i = 0; i < 20; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, 0, 64), 0);
	ends_connect(&r->a, &r->b, shape);
	for (i = 0; i < 20; i++) {
		must_send(r, i, IBV_WR_SEND, 0, 64, SIGNALED);
		/* An event may come late and find nothing; then the program sleeps again. */
		while (seen <= i) {
			must_come(&r->a);
			assert_int_equal(ibv_req_notify_cq(r->a.cq, 0), 0);
			while (end_poll(&r->a, &wc)) {
				assert_int_equal(wc.wr_id, seen);
				seen++;
			}
		}
		for (received = 0; !received;) {
			must_come(&r->b);
			assert_int_equal(ibv_req_notify_cq(r->b.cq, 0), 0);
			for (; end_poll(&r->b, &wc); received++)
				note(t, "%lu\n", wc.wr_id);
		}
	}
}

static void test_events(void **state)
{
	(void)state;
	compare(events, &(struct shape){0});
	compare(events, &(struct shape){.srq = true});
}

/* Nobody is woken who never asked. */
static void not_armed(struct run *r, const struct shape *shape, struct trace *t)
{
	assert_int_equal(end_recv(&r->b, 100, 0, 64), 0);
	ends_connect(&r->a, &r->b, shape);
	must_send(r, 1, IBV_WR_SEND, 0, 64, SIGNALED);
	wait_all(t, "a", &r->a, 1);
	wait_all(t, "b", &r->b, 1);
	note(t, "not armed: %d\n", end_event(&r->b, 30));
}

/*
 * Nor who asked for solicited ones only. The first message wakes: the shadow's CQ is armed when it is new, and if its event came later than
 * the program arms (the thread that passes it on may wait for a processor) it would be taken for one of what comes then.
 */
static void solicited(struct run *r, const struct shape *shape, struct trace *t)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, 0, 64), 0);
	assert_int_equal(ibv_req_notify_cq(r->b.cq, 0), 0);
	ends_connect(&r->a, &r->b, shape);
	must_send(r, 1, IBV_WR_SEND, 0, 64, SIGNALED);
	must_come(&r->b);
	wait_all(t, "a", &r->a, 1);
	wait_all(t, "b", &r->b, 1);
	must_send(r, 5, IBV_WR_SEND, 0, 64, SIGNALED);
	wait_all(t, "b", &r->b, 1);
	note(t, "not armed any more: %d\n", end_event(&r->b, 30));
	assert_int_equal(ibv_req_notify_cq(r->b.cq, 1), 0);
	must_send(r, 2, IBV_WR_SEND, 0, 64, SIGNALED);
	wait_all(t, "b", &r->b, 1);
	note(t, "not solicited: %d\n", end_event(&r->b, 30));
	must_send(r, 3, IBV_WR_SEND, 0, 64, SIGNALED | IBV_SEND_SOLICITED);
	must_come(&r->b);
	wait_all(t, "b", &r->b, 1);
	note(t, "a second one: %d\n", end_event(&r->b, 30));
	must_send(r, 4, IBV_WR_SEND, 0, 64, SIGNALED | IBV_SEND_SOLICITED);
	wait_all(t, "b", &r->b, 1);
	note(t, "not armed again: %d\n", end_event(&r->b, 30));
}

static void test_solicited(void **state)
{
	(void)state;
	compare(not_armed, &(struct shape){0});
	compare(solicited, &(struct shape){0});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sends_and_receives, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_rdma, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_early_sends, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_many, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_flushed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_flushed_and_posted, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_wrong_keys, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_events, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_solicited, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
