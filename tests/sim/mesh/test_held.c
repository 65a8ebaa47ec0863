// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a program sees of a moved connection is what it sees of one that was not moved: each scenario runs on mlx5_0
 * itself and then moved to mlx5_1, posting and polling in every manner, and the completions are compared.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "heldint.h"
#include "live.h"
#include "moved.h"

static struct world world;

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

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

struct run {
	struct end a, b;
	struct trace trace;
};

typedef void (*scenario_fn)(struct run *r, const struct shape *shape);

static void perform(struct run *r, scenario_fn scenario, const struct manner *manner, const struct shape *shape)
{
	size_t i;

	memset(&r->trace, 0, sizeof(r->trace));
	end_open(&r->a, &world, manner, shape);
	end_open(&r->b, &world, manner, shape);
	for (i = 0; i < END_BYTES; i++)
		r->a.buf[i] = (uint8_t)(i * 7 + i / 1000);
	scenario(r, shape);
	note(&r->trace, "a %08x b %08x\n", checksum(r->a.buf, END_BYTES), checksum(r->b.buf, END_BYTES));
	end_close(&r->a);
	end_close(&r->b);
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
	struct run *bare = calloc(1, sizeof(*bare)), *moved = calloc(1, sizeof(*moved));
	struct manner manner;
	unsigned int i;

	assert_non_null(bare);
	assert_non_null(moved);
	for (i = 0; i < 8; i++) {
		manner = (struct manner){.extended = i & 1, .builders = i & 2, .late_keys = i & 4};
		manner.how = BARE;
		perform(bare, scenario, &manner, shape);
		manner.how = MOVED;
		perform(moved, scenario, &manner, shape);
		if (strcmp(bare->trace.text, moved->trace.text))
			fail_with(&manner, bare->trace.text, moved->trace.text);
	}
	free(bare);
	free(moved);
}

/* ---- scenarios ----------------------------------------------------------------------------------------------- */

#define SIGNALED IBV_SEND_SIGNALED

struct sending {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

static struct sending *sending(struct sending *s, struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode,
			       uint32_t offset, uint32_t length, unsigned int flags)
{
	s->sge = (struct ibv_sge){.addr = (uintptr_t)r->a.buf + offset, .length = length, .lkey = r->a.mr->lkey};
	s->wr = (struct ibv_send_wr){
		.wr_id = wr_id,
		.sg_list = &s->sge,
		.num_sge = length ? 1 : 0,
		.opcode = opcode,
		.send_flags = flags,
		.imm_data = htobe32((uint32_t)wr_id),
	};
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		s->wr.wr.atomic.remote_addr = (uintptr_t)r->b.buf + offset;
		s->wr.wr.atomic.rkey = r->b.mr->rkey;
		s->wr.wr.atomic.compare_add = 5;
		s->wr.wr.atomic.swap = 77;
	} else {
		s->wr.wr.rdma.remote_addr = (uintptr_t)r->b.buf + offset;
		s->wr.wr.rdma.rkey = r->b.mr->rkey;
	}
	return s;
}

static int send_one(struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length,
		    unsigned int flags)
{
	struct sending s;
	int err = end_send(&r->a, &sending(&s, r, wr_id, opcode, offset, length, flags)->wr);

	end_keys(&r->a);
	return err;
}

static void must_send(struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length,
		      unsigned int flags)
{
	assert_int_equal(send_one(r, wr_id, opcode, offset, length, flags), 0);
}

/* Receives posted before and after the connection; SEND, with immediate, inline. */
static void sends_and_receives(struct run *r, const struct shape *shape)
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
	wait_all(&r->trace, "a", &r->a, 4);
	wait_all(&r->trace, "b", &r->b, 8);
	end_quiet(&r->a);
	end_quiet(&r->b);
}

static void test_sends_and_receives(void **state)
{
	(void)state;
	compare(sends_and_receives, &(struct shape){0});
	compare(sends_and_receives, &(struct shape){.srq = true});
}

static void rdma(struct run *r, const struct shape *shape)
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
	wait_all(&r->trace, "a", &r->a, 6);
	wait_all(&r->trace, "b", &r->b, 1);
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
static void early_sends(struct run *r, const struct shape *shape)
{
	unsigned int i;

	end_rtr(&r->a, &r->b, shape);
	end_rtr(&r->b, &r->a, shape);
	for (i = 0; i < 20; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, i * 1024, 1024), 0);
	assert_int_not_equal(send_one(r, 0, IBV_WR_SEND, 0, 0, 0), 0); /* not before RTS */
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
		mesh_held_activate(r->b.held);
		mesh_held_activate(r->a.held);
		end_quiet(&r->a);
		end_shadow_rts(&r->b, shape);
		end_shadow_rts(&r->a, shape);
		end_keys(&r->a);
	}
	wait_all(&r->trace, "a", &r->a, 15);
	wait_all(&r->trace, "b", &r->b, 20);
}

static void test_early_sends(void **state)
{
	(void)state;
	compare(early_sends, &(struct shape){0});
}

static void many(struct run *r, const struct shape *shape)
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
	note(&r->trace, "a %x b %x\n", sum_a, sum_b);
}

static void test_many(void **state)
{
	(void)state;
	compare(many, &(struct shape){0});
	compare(many, &(struct shape){.srq = true});
}

/* The program ends the connection: everything is flushed, in order, the unsignaled ones, too. */
static void flushed(struct run *r, const struct shape *shape)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	unsigned int i;

	ends_connect(&r->a, &r->b, shape);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&r->a, 200 + i, 0, 100), 0);
	/* Nobody has posted a receive: the peer says so for ever. */
	for (i = 0; i < 6; i++)
		must_send(r, i, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 100 * i, 100, i % 3 ? SIGNALED : 0);
	if (r->a.manner->how == BARE)
		assert_int_equal(ibv_modify_qp(r->a.qp, &err, IBV_QP_STATE), 0);
	else
		assert_int_equal(mesh_held_modify(r->a.held, &err, IBV_QP_STATE), 0);
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
		note(&r->trace, "%s", wc.wr_id == 1 || wc.wr_id >= 200 ? "" : "flush ");
		if (wc.wr_id < 200)
			note(&r->trace, "%lu %d\n", wc.wr_id, wc.status);
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
static void flushed_and_posted(struct run *r, const struct shape *shape)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	unsigned int i, n;

	ends_connect(&r->a, &r->b, shape);
	n = fill_receives(r);
	if (r->a.manner->how == BARE)
		assert_int_equal(ibv_modify_qp(r->a.qp, &err, IBV_QP_STATE), 0);
	else
		assert_int_equal(mesh_held_modify(r->a.held, &err, IBV_QP_STATE), 0);
	wait_all(&r->trace, "a", &r->a, n);
	for (i = 0; i < 3; i++)
		note(&r->trace, "%d ", end_recv(&r->a, 500 + i, 0, 100));
	wait_all(&r->trace, "a", &r->a, 3);
	note(&r->trace, "%u", fill_receives(r));
}

static void test_flushed_and_posted(void **state)
{
	(void)state;
	mesh_root.config.survive = true;
	compare(flushed_and_posted, &(struct shape){0});
	mesh_root.config.survive = false;
}

/* Keys that do not exist, or may not: the same error, then flushes. */
static void wrong_keys(struct run *r, const struct shape *shape, bool local)
{
	struct sending s;
	unsigned int i;

	ends_connect(&r->a, &r->b, shape);
	must_send(r, 1, IBV_WR_RDMA_WRITE, 0, 100, SIGNALED);
	wait_all(&r->trace, "a", &r->a, 1);
	sending(&s, r, 2, IBV_WR_RDMA_WRITE, 0, 100, 0);
	if (local)
		s.sge.lkey ^= 0x55500;
	else
		s.wr.wr.rdma.rkey ^= 0x55500;
	assert_int_equal(end_send(&r->a, &s.wr), 0);
	for (i = 3; i < 6; i++)
		must_send(r, i, IBV_WR_RDMA_WRITE, 0, 100, 0);
	wait_all(&r->trace, "a", &r->a, 4);
}

static void wrong_lkey(struct run *r, const struct shape *shape)
{
	wrong_keys(r, shape, true);
}

static void wrong_rkey(struct run *r, const struct shape *shape)
{
	wrong_keys(r, shape, false);
}

static void test_wrong_keys(void **state)
{
	(void)state;
	compare(wrong_lkey, &(struct shape){0});
	compare(wrong_rkey, &(struct shape){0});
	compare(wrong_rkey, &(struct shape){.sig_all = true});
}

/* ---- events -------------------------------------------------------------------------------------------------- */

static bool event_comes(struct end *e, int ms)
{
	struct pollfd fd = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *cq_context;

	if (poll(&fd, 1, ms) != 1)
		return false;
	assert_int_equal(ibv_get_cq_event(e->channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, e->cq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void must_come(struct end *e)
{
	if (!event_comes(e, 5000))
		fail_msg("no event, %s%s%s%s", e->manner->how == BARE ? "bare" : "moved", e->manner->extended ? ", extended" : "",
			 e->manner->builders ? ", ibv_wr" : "", e->manner->late_keys ? ", late keys" : "");
}

/* A program that sleeps between messages: armed before it is connected, then again after each event. */
static void events(struct run *r, const struct shape *shape)
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
				note(&r->trace, "%lu\n", wc.wr_id);
		}
	}
}

static void test_events(void **state)
{
	(void)state;
	compare(events, &(struct shape){0});
	compare(events, &(struct shape){.srq = true});
}

/* Nobody is woken who did not ask, or asked for solicited ones only. */
static void solicited(struct run *r, const struct shape *shape)
{
	unsigned int i;

	for (i = 0; i < 4; i++)
		assert_int_equal(end_recv(&r->b, 100 + i, 0, 64), 0);
	ends_connect(&r->a, &r->b, shape);
	must_send(r, 1, IBV_WR_SEND, 0, 64, SIGNALED);
	wait_all(&r->trace, "a", &r->a, 1);
	wait_all(&r->trace, "b", &r->b, 1);
	note(&r->trace, "not armed: %d\n", event_comes(&r->b, 30));
	assert_int_equal(ibv_req_notify_cq(r->b.cq, 1), 0);
	must_send(r, 2, IBV_WR_SEND, 0, 64, SIGNALED);
	wait_all(&r->trace, "b", &r->b, 1);
	note(&r->trace, "not solicited: %d\n", event_comes(&r->b, 30));
	must_send(r, 3, IBV_WR_SEND, 0, 64, SIGNALED | IBV_SEND_SOLICITED);
	must_come(&r->b);
	wait_all(&r->trace, "b", &r->b, 1);
	note(&r->trace, "a second one: %d\n", event_comes(&r->b, 30));
	must_send(r, 4, IBV_WR_SEND, 0, 64, SIGNALED | IBV_SEND_SOLICITED);
	wait_all(&r->trace, "b", &r->b, 1);
	note(&r->trace, "not armed again: %d\n", event_comes(&r->b, 30));
}

static void test_solicited(void **state)
{
	(void)state;
	compare(solicited, &(struct shape){0});
}

/* ---- what only held ones can do ------------------------------------------------------------------------------ */

static const struct manner plain = {.how = MOVED};
static const struct manner builders = {.how = MOVED, .builders = true};

static void both_open(struct run *r, const struct manner *manner, const struct shape *shape)
{
	memset(r, 0, sizeof(*r));
	end_open(&r->a, &world, manner, shape);
	end_open(&r->b, &world, manner, shape);
}

static void both_close(struct run *r)
{
	end_close(&r->a);
	end_close(&r->b);
}

static void early_rts(struct run *r)
{
	r->a.qp->state = r->b.qp->state = IBV_QPS_RTS;
}

static void native(struct end *e, struct end *peer, const struct shape *shape)
{
	assert_int_equal(mesh_held_unprepare(e->held), 0);
	end_native(e, peer, shape);
	assert_int_equal(mesh_held_native(e->held), 0);
	e->held = NULL;
}

/* No agreement: what was posted meanwhile goes to the program's own QP, and the context is as it was. */
enum progress { HELD, PREPARED, CONNECTED };

static void goes_native(const struct manner *manner, enum progress progress)
{
	struct ibv_context_ops ops = world.context->ops;
	const struct shape shape = {0};
	unsigned int i;
	struct run r;

	both_open(&r, manner, &shape);
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r.b, i, 64 * i, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	early_rts(&r);
	assert_true(ops.poll_cq != world.context->ops.poll_cq);
	for (i = 5; i < 10; i++)
		assert_int_equal(end_recv(&r.b, i, 64 * i, 64), 0);
	if (progress >= PREPARED) {
		end_prepare(&r.a);
		end_prepare(&r.b);
	}
	if (progress >= CONNECTED) {
		end_connect(&r.a, &r.b, &shape);
		end_connect(&r.b, &r.a, &shape);
	}
	for (i = 0; i < 10; i++)
		must_send(&r, i, IBV_WR_SEND_WITH_IMM, 1024, 64, SIGNALED);
	end_quiet(&r.a);
	native(&r.b, &r.a, &shape);
	native(&r.a, &r.b, &shape);
	for (i = 0; i < 10; i++) {
		assert_int_equal(end_wait(&r.a).wr_id, i);
		assert_int_equal(end_wait(&r.b).wr_id, i);
	}
	must_send(&r, 10, IBV_WR_RDMA_WRITE, 0, 1000, SIGNALED);
	assert_int_equal(end_wait(&r.a).wr_id, 10);
	end_quiet(&r.b);
	if (progress == HELD)
		assert_memory_equal(&ops, &world.context->ops, sizeof(ops));
	both_close(&r);
	assert_memory_equal(&ops, &world.context->ops, sizeof(ops));
}

static unsigned int allows(int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *), struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	assert_int_equal(query_qp(qp, &is, IBV_QP_ACCESS_FLAGS, &init), 0);
	return is.qp_access_flags & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

static void change(struct end *e, unsigned int access)
{
	struct ibv_qp_attr attr = {.qp_access_flags = access, .min_rnr_timer = 5};
	const int mask = IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;

	assert_int_equal(mesh_held_modify(e->held, &attr, mask), 0);
	assert_int_equal(mesh_live_change(e->held, &attr, mask), 0);
	assert_int_equal(allows(world.mc->query_qp, e->qp), access);
	if (e->held->now.qp)
		assert_int_equal(allows(mesh_root.lib.verbs.query_qp, e->held->now.qp), access);
}

/* What the program changes while nothing is connected is so at either QP that may be, however far that has come. */
static void test_changed(void **state)
{
	const struct shape shape = {0};
	struct run r;

	(void)state;
	both_open(&r, &plain, &shape);
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	early_rts(&r);
	change(&r.b, 0);
	change(&r.b, IBV_ACCESS_REMOTE_READ);
	end_prepare(&r.a);
	end_prepare(&r.b);
	change(&r.b, 0);
	end_connect(&r.a, &r.b, &shape);
	end_connect(&r.b, &r.a, &shape);
	end_shadow_rts(&r.a, &shape);
	end_shadow_rts(&r.b, &shape);
	change(&r.b, IBV_ACCESS_REMOTE_WRITE);
	mesh_held_activate(r.a.held);
	mesh_held_activate(r.b.held);
	must_send(&r, 1, IBV_WR_RDMA_WRITE, 0, 1000, SIGNALED);
	assert_int_equal(end_wait(&r.a).status, IBV_WC_SUCCESS);
	both_close(&r);
}

static void test_native(void **state)
{
	(void)state;
	goes_native(&plain, HELD);
	goes_native(&plain, PREPARED);
	goes_native(&plain, CONNECTED);
	goes_native(&builders, HELD);
	goes_native(&builders, PREPARED);
	goes_native(&builders, CONNECTED);
}

static void test_no_way_back(void **state)
{
	const struct shape shape = {0};
	struct run r;

	(void)state;
	both_open(&r, &plain, &shape);
	assert_int_equal(end_recv(&r.b, 0, 0, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	end_prepare(&r.a);
	end_prepare(&r.b);
	end_connect(&r.a, &r.b, &shape);
	end_connect(&r.b, &r.a, &shape);
	mesh_held_activate(r.a.held);
	end_rts(&r.a, &shape);
	must_send(&r, 1, IBV_WR_SEND, 0, 64, SIGNALED);
	assert_int_equal(end_wait(&r.a).wr_id, 1);
	/* Nobody has polled it yet, but there it is. */
	assert_int_equal(mesh_held_unprepare(r.b.held), -EBUSY);
	assert_int_equal(mesh_held_native(r.b.held), -EBUSY);
	assert_int_equal(end_wait(&r.b).wr_id, 0);
	assert_int_equal(mesh_held_unprepare(r.b.held), -EBUSY);
	both_close(&r);
}

/* No way at all: the first send fails, and everything else is flushed, as when a peer does not answer. */
static void fails(const struct manner *manner, unsigned int before, bool prepared)
{
	const struct shape shape = {0};
	struct ibv_wc wc;
	unsigned int i, receives = 0;
	struct run r;

	both_open(&r, manner, &shape);
	assert_int_equal(ibv_req_notify_cq(r.a.cq, 0), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&r.a, 100 + i, 0, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	early_rts(&r);
	if (prepared)
		end_prepare(&r.a);
	for (i = 0; i < before; i++)
		must_send(&r, i, IBV_WR_RDMA_WRITE, 0, 64, 0);
	end_quiet(&r.a);
	mesh_held_fail(r.a.held, IBV_WC_RETRY_EXC_ERR);
	if (!before)
		end_quiet(&r.a);
	for (; i < 5; i++)
		must_send(&r, i, IBV_WR_RDMA_WRITE, 0, 64, 0);
	must_come(&r.a);
	for (i = 0; i < 5;) {
		wc = end_wait(&r.a);
		assert_int_equal(wc.qp_num, r.a.qp->qp_num);
		if (wc.wr_id >= 100) {
			assert_int_equal(wc.wr_id, 100 + receives);
			assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
			receives++;
			continue;
		}
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
		i++;
	}
	for (; receives < 3; receives++)
		assert_int_equal(end_wait(&r.a).wr_id, 100 + receives);
	end_quiet(&r.a);
	both_close(&r);
}

static void test_fails(void **state)
{
	const struct manner extended = {.how = MOVED, .extended = true};

	(void)state;
	fails(&plain, 0, false);
	fails(&plain, 3, false);
	fails(&plain, 3, true);
	fails(&builders, 0, false);
	fails(&builders, 3, true);
	fails(&extended, 1, false);
}

/* The program ends a connection that is not agreed upon: its receives are flushed once, and nothing else gets them. */
static void ends_early(bool prepared)
{
	struct mesh_shadow_attr attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	const struct shape shape = {0};
	struct ibv_wc wc;
	unsigned int i;
	uint32_t qpn;
	struct run r;

	both_open(&r, &plain, &shape);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_recv(&r.a, i, 0, 64), 0);
	end_rtr(&r.a, &r.b, &shape);
	if (prepared)
		end_prepare(&r.a);
	assert_int_equal(mesh_held_modify(r.a.held, &err, IBV_QP_STATE), 0);
	assert_int_equal(mesh_held_prepare(r.a.held, world.spd, &attr, &qpn), -ESHUTDOWN);
	for (i = 0; i < 3; i++) {
		wc = end_wait(&r.a);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	end_quiet(&r.a);
	both_close(&r);
}

static void test_ends_early(void **state)
{
	(void)state;
	ends_early(false);
	ends_early(true);
}

/* Work that waits is bounded as the provider bounds it, and what does not fit is not half taken. */
static void test_queue_full(void **state)
{
	const struct shape shape = {.max_wr = 16};
	struct sending s[3];
	struct ibv_send_wr *bad = NULL;
	uint32_t max;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned int i;
	struct run r;

	(void)state;
	both_open(&r, &plain, &shape);
	assert_int_equal(ibv_query_qp(r.a.qp, &attr, IBV_QP_CAP, &init), 0);
	max = init.cap.max_send_wr;
	end_rtr(&r.a, &r.b, &shape);
	end_rtr(&r.b, &r.a, &shape);
	early_rts(&r);
	for (i = 0; i < max - 1; i++)
		must_send(&r, i, IBV_WR_RDMA_WRITE, 64 * i, 64, SIGNALED);
	for (i = 0; i < 3; i++)
		sending(&s[i], &r, max - 1 + i, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED)->wr.next = i < 2 ? &s[i + 1].wr : NULL;
	assert_int_equal(ibv_post_send(r.a.qp, &s[0].wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &s[1].wr);
	s[0].wr.next = NULL;
	s[0].wr.num_sge = (int)init.cap.max_send_sge + 1;
	assert_int_equal(ibv_post_send(r.a.qp, &s[0].wr, &bad), ENOMEM);
	end_prepare(&r.a);
	end_prepare(&r.b);
	end_connect(&r.a, &r.b, &shape);
	end_connect(&r.b, &r.a, &shape);
	mesh_held_activate(r.a.held);
	end_rts(&r.a, &shape);
	for (i = 0; i < max; i++)
		assert_int_equal(end_wait(&r.a).wr_id, i);
	both_close(&r);
}

/* One key that is late keeps back what comes after it, and more work than the shadow has room for comes through. */
static void test_late_key(void **state)
{
	const struct manner late = {.how = MOVED, .late_keys = true};
	const struct shape shape = {.max_wr = 16};
	unsigned int i, posted = 0;
	struct sending s;
	struct run r;

	(void)state;
	both_open(&r, &late, &shape);
	ends_connect(&r.a, &r.b, &shape);
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r.b, i, 0, 64), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(end_send(&r.a, &sending(&s, &r, posted++, IBV_WR_SEND, 0, 64, SIGNALED)->wr), 0);
	assert_int_equal(end_send(&r.a, &sending(&s, &r, posted++, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED)->wr), 0);
	assert_int_equal(end_send(&r.a, &sending(&s, &r, posted++, IBV_WR_SEND, 0, 64, SIGNALED)->wr), 0);
	while (!end_send(&r.a, &sending(&s, &r, posted, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED)->wr))
		posted++;
	for (i = 0; i < 3; i++)
		assert_int_equal(end_wait(&r.a).wr_id, i);
	end_quiet(&r.a);
	assert_int_equal(r.a.n_asked, 1);
	/* Dropped before the answer: what waits for it asks again. */
	mesh_held_drop_key(r.a.held, r.b.mr->rkey);
	assert_int_equal(r.a.n_asked, 2);
	assert_int_equal(end_keys(&r.a), 2);
	for (; i < posted; i++)
		assert_int_equal(end_wait(&r.a).wr_id, i);
	/* Known from now on, until it is dropped. */
	must_send(&r, 1, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED);
	end_wait(&r.a);
	assert_int_equal(r.a.n_asked, 2);
	mesh_held_drop_key(r.a.held, r.b.mr->rkey);
	assert_int_equal(r.a.n_asked, 2);
	must_send(&r, 1, IBV_WR_RDMA_WRITE, 0, 64, SIGNALED);
	end_wait(&r.a);
	assert_int_equal(r.a.n_asked, 3);
	both_close(&r);
}

/* As bare: a CQ with QPs is busy; after that everything goes, whatever is in it. */
static void test_destroy(void **state)
{
	const struct shape shape = {0};
	unsigned int i;
	struct run r;

	(void)state;
	both_open(&r, &plain, &shape);
	for (i = 0; i < 5; i++)
		assert_int_equal(end_recv(&r.b, i, 0, 64), 0);
	ends_connect(&r.a, &r.b, &shape);
	for (i = 0; i < 5; i++)
		must_send(&r, i, IBV_WR_SEND, 0, 64, SIGNALED);
	end_wait(&r.a);
	assert_int_equal(ibv_destroy_cq(r.a.cq), EBUSY);
	mesh_held_destroy(r.a.held);
	r.a.held = NULL;
	end_quiet(&r.a);
	assert_int_equal(ibv_destroy_cq(r.a.cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(r.a.qp), 0);
	r.a.qp = NULL;
	assert_int_equal(ibv_destroy_cq(r.a.cq), 0);
	r.a.cq = NULL;
	for (i = 0; i < 5; i++)
		assert_int_equal(end_wait(&r.b).wr_id, i);
	both_close(&r);
}

static void stash_of(struct mesh_cq *cq, uint64_t wr_id, uint32_t qpn)
{
	struct ibv_wc wc = {.wr_id = wr_id, .qp_num = qpn};

	pthread_mutex_lock(&cq->lock);
	assert_int_equal(mesh_cq_stash_reserve(cq, 1), 0);
	mesh_cq_stash(cq, &wc);
	pthread_mutex_unlock(&cq->lock);
}

/* What we have of a QP that is destroyed goes with it, as what a provider has does, and nothing else. */
static void test_destroy_with_stash(void **state)
{
	const struct shape shape = {0};
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 1, .max_send_sge = 1}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *other;
	struct mesh_cq *cq;
	struct run r;

	(void)state;
	both_open(&r, &plain, &shape);
	ends_connect(&r.a, &r.b, &shape);
	init.send_cq = init.recv_cq = r.a.cq;
	other = ibv_create_qp(world.pd, &init);
	assert_non_null(other);
	cq = mesh_map_get(&world.mc->data.cqs, r.a.cq);
	assert_non_null(cq);
	stash_of(cq, 1, r.a.qp->qp_num);
	stash_of(cq, 2, other->qp_num);
	stash_of(cq, 3, r.a.qp->qp_num);
	stash_of(cq, 4, other->qp_num);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(end_wait(&r.a).wr_id, 1);
	assert_int_equal(end_wait(&r.a).wr_id, 3);
	end_quiet(&r.a);
	both_close(&r);
}

/* A completion that was polled when a move put those before it into the stash comes behind them. */
static void behind(const struct manner *manner)
{
	const struct shape shape = {0};
	struct ibv_wc late = {.wr_id = 3};
	struct mesh_cq *cq;
	bool went;
	struct run r;

	both_open(&r, manner, &shape);
	ends_connect(&r.a, &r.b, &shape);
	late.qp_num = r.a.qp->qp_num;
	cq = mesh_map_get(&world.mc->data.cqs, r.a.cq);
	assert_non_null(cq);
	pthread_mutex_lock(&cq->lock);
	went = mesh_poll_behind(cq, &late);
	pthread_mutex_unlock(&cq->lock);
	assert_false(went); /* nothing is before it */
	stash_of(cq, 1, r.a.qp->qp_num);
	stash_of(cq, 2, r.a.qp->qp_num);
	pthread_mutex_lock(&cq->lock);
	went = mesh_poll_behind(cq, &late);
	pthread_mutex_unlock(&cq->lock);
	assert_true(went);
	for (late.wr_id = 1; late.wr_id <= 3; late.wr_id++)
		assert_int_equal(end_wait(&r.a).wr_id, late.wr_id);
	end_quiet(&r.a);
	both_close(&r);
}

static void test_behind(void **state)
{
	const struct manner extended = {.how = MOVED, .extended = true};

	(void)state;
	behind(&plain);
	behind(&extended);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

#define N_PAIRS	   4u
#define N_MESSAGES 600u
#define N_WINDOW   30u

/*
 * Pairs whose senders share a CQ, which two threads poll; each sender posts in a thread of its own; keys come late. @full: until the
 * queue is full each time. libmlx5 looks at the CQ then, which who polls an extended one has until he is done with it.
 */
struct crowd {
	bool full;
	struct end hub;
	struct run pairs[N_PAIRS];
	_Atomic unsigned int done[N_PAIRS];
	_Atomic bool stop;
	_Atomic unsigned int next;
};

static void *crowd_poll(void *arg)
{
	struct crowd *c = arg;
	unsigned int i;
	struct ibv_wc wc;

	while (!atomic_load(&c->stop)) {
		if (!end_poll(&c->hub, &wc))
			continue;
		for (i = 0; i < N_PAIRS && c->pairs[i].a.qp->qp_num != wc.qp_num; i++)
			;
		if (i == N_PAIRS || wc.status || wc.wr_id >> 32 != i)
			return (void *)1;
		atomic_fetch_add(&c->done[i], 1);
	}
	return NULL;
}

static void *crowd_post(void *arg)
{
	struct crowd *c = arg;
	unsigned int i = atomic_fetch_add(&c->next, 1), n;
	struct run *r = &c->pairs[i];
	struct sending s;
	int err;

	for (n = 0; n < N_MESSAGES; n++) {
		while (!c->full && n - atomic_load(&c->done[i]) >= N_WINDOW)
			;
		sending(&s, r, (uint64_t)i << 32 | n, n % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, n * 8, 8, SIGNALED);
		while ((err = end_send(&r->a, &s.wr)) == ENOMEM && c->full)
			sched_yield();
		if (err)
			return (void *)1;
		if (n % 100 == 50)
			mesh_held_drop_key(r->a.held, r->b.mr->rkey);
	}
	return NULL;
}

/* The coordinator's part. */
static void *crowd_help(void *arg)
{
	struct crowd *c = arg;
	const struct shape shape = {0};
	unsigned int i;

	for (i = 0; i < N_PAIRS; i++) {
		end_prepare(&c->pairs[i].a);
		end_prepare(&c->pairs[i].b);
		end_connect(&c->pairs[i].a, &c->pairs[i].b, &shape);
		end_connect(&c->pairs[i].b, &c->pairs[i].a, &shape);
		end_shadow_rts(&c->pairs[i].b, &shape);
		mesh_held_activate(c->pairs[i].b.held);
		mesh_held_activate(c->pairs[i].a.held);
		end_shadow_rts(&c->pairs[i].a, &shape);
	}
	while (!atomic_load(&c->stop))
		for (i = 0; i < N_PAIRS; i++)
			end_keys(&c->pairs[i].a);
	return NULL;
}

static void crowd(const struct manner *manner, bool full)
{
	const struct shape sender = {.cqe = 1024};
	struct crowd *c = calloc(1, sizeof(*c));
	struct shape of_hub = sender;
	pthread_t posts[N_PAIRS], polls[2], help;
	unsigned int i, done;
	void *result;

	assert_non_null(c);
	c->full = full;
	end_open(&c->hub, &world, manner, &sender);
	of_hub.hub = &c->hub;
	for (i = 0; i < N_PAIRS; i++) {
		end_open(&c->pairs[i].a, &world, manner, &of_hub);
		end_open(&c->pairs[i].b, &world, manner, &(struct shape){0});
		end_rtr(&c->pairs[i].a, &c->pairs[i].b, &sender);
		end_rtr(&c->pairs[i].b, &c->pairs[i].a, &sender);
		early_rts(&c->pairs[i]);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&polls[i], NULL, crowd_poll, c), 0);
	for (i = 0; i < N_PAIRS; i++)
		assert_int_equal(pthread_create(&posts[i], NULL, crowd_post, c), 0);
	assert_int_equal(pthread_create(&help, NULL, crowd_help, c), 0);
	for (i = 0; i < N_PAIRS; i++) {
		pthread_join(posts[i], &result);
		assert_null(result);
	}
	do
		for (done = i = 0; i < N_PAIRS; i++)
			done += atomic_load(&c->done[i]);
	while (done < N_PAIRS * N_MESSAGES);
	atomic_store(&c->stop, true);
	pthread_join(help, &result);
	for (i = 0; i < 2; i++) {
		pthread_join(polls[i], &result);
		assert_null(result);
	}
	for (i = 0; i < N_PAIRS; i++)
		both_close(&c->pairs[i]);
	end_close(&c->hub);
	free(c);
}

static void test_threads(void **state)
{
	const struct manner manners[] = {
		{.how = MOVED, .late_keys = true},
		{.how = MOVED, .late_keys = true, .extended = true},
		{.how = MOVED, .late_keys = true, .builders = true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
		crowd(&manners[i], false);
		crowd(&manners[i], true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sends_and_receives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rdma, setup, teardown),
		cmocka_unit_test_setup_teardown(test_early_sends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flushed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flushed_and_posted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_solicited, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_native, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_way_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends_early, setup, teardown),
		cmocka_unit_test_setup_teardown(test_queue_full, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroy_with_stash, setup, teardown),
		cmocka_unit_test_setup_teardown(test_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
