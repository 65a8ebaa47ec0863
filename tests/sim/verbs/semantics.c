/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a ConnectX answers: completions, errors, flushes, events, PSNs. Runs in a host of the
 * simulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "pair.h"

#define SIGNALED IBV_SEND_SIGNALED

static void fill(struct pair *p)
{
	for (uint32_t i = 0; i < BUF_BYTES; i++)
		p->a.buf[i] = (uint8_t)(i * 7 + i / 1000);
}

static void send_recv_imm(void **state)
{
	struct pair p;
	struct ibv_wc wc;

	(void)state;
	pair_open(&p, &(struct options){0});
	fill(&p);
	post_recv(&p, 77, 0, 5000);
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND_WITH_IMM, 4321, SIGNALED), 0);
	wc = wait_wc(p.a.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	wc = wait_wc(p.b.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.byte_len, 4321);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 1);
	assert_memory_equal(p.a.buf, p.b.buf, 4321);
	assert_int_equal(p.b.buf[4321], 0);
	pair_close(&p);
}

static void read_and_atomics(void **state)
{
	struct pair p;
	uint64_t *target;

	(void)state;
	pair_open(&p, &(struct options){0});
	for (int i = 0; i < 10000; i++)
		p.b.buf[i] = (uint8_t)(i * 3);
	assert_int_equal(post_send(&p, 1, IBV_WR_RDMA_READ, 9999, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(p.a.buf, p.b.buf, 9999);
	target = (uint64_t *)(void *)p.b.buf;
	*target = 40;
	assert_int_equal(post_send(&p, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(*target, 42);
	assert_int_equal(*(uint64_t *)(void *)p.a.buf, 40);
	/* Compares with its wr_id, so this one swaps and the next does not. */
	assert_int_equal(post_send(&p, 42, IBV_WR_ATOMIC_CMP_AND_SWP, 8, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(*target, 43);
	assert_int_equal(post_send(&p, 7, IBV_WR_ATOMIC_CMP_AND_SWP, 8, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(*target, 43);
	assert_int_equal(*(uint64_t *)(void *)p.a.buf, 43);
	pair_close(&p);
}

/* SEND 1.25 MTU, WRITE 2.5, READ 2.5, FETCH_ADD, empty WRITE: 2 + 3 + 3 + 1 + 1 PSNs, across the
 * wrap. */
static void psns_count_what_was_executed(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.psn = 0xfffffb});
	post_recv(&p, 0, 0, 2000);
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND, 1280, 0), 0);
	assert_int_equal(post_send(&p, 2, IBV_WR_RDMA_WRITE, 2560, 0), 0);
	assert_int_equal(post_send(&p, 3, IBV_WR_RDMA_READ, 2560, 0), 0);
	assert_int_equal(post_send(&p, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0), 0);
	assert_int_equal(post_send(&p, 5, IBV_WR_RDMA_WRITE, 0, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).wr_id, 5);
	assert_int_equal(rq_psn(p.b.qp), (0xfffffb + 10) & 0xffffff);
	assert_int_equal(
		ibv_modify_qp(p.b.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
		0);
	assert_int_equal(rq_psn(p.b.qp), (0xfffffb + 10) & 0xffffff);
	pair_close(&p);
}

/* Nobody answers: the first one fails, all others are flushed, unsignaled ones too, in order. */
static void retries_run_out_and_all_is_flushed(void **state)
{
	struct timespec t0, t1;
	struct ibv_wc wc;
	struct pair p;
	double ms;

	(void)state;
	/* T = 4.096 us * 2^12 = 16.8 ms; the first and two repetitions, each waited for 2T. */
	pair_open(&p, &(struct options){.unconnected = true, .timeout = 12, .retry_cnt = 2});
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(
			post_send(&p, i, IBV_WR_RDMA_WRITE, 100, i % 4 == 3 ? SIGNALED : 0), 0);
	wc = wait_wc(p.a.cq);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.wr_id, 0);
	ms = (double)(t1.tv_sec - t0.tv_sec) * 1e3 + (double)(t1.tv_nsec - t0.tv_nsec) / 1e6;
	assert_true(ms > 3 * 2 * 16.7 && ms < 1000);
	for (uint64_t i = 1; i < 12; i++) {
		wc = wait_wc(p.a.cq);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, i);
	}
	assert_int_equal(qp_state(p.a.qp), IBV_QPS_ERR);
	/* What is posted from now on is flushed too, receives included. */
	assert_int_equal(post_send(&p, 99, IBV_WR_RDMA_WRITE, 100, 0), 0);
	wc = wait_wc(p.a.cq);
	assert_int_equal(wc.wr_id, 99);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	pair_close(&p);
}

static void receives_are_flushed(void **state)
{
	struct ibv_wc wc;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){0});
	for (uint64_t i = 0; i < 5; i++)
		post_recv(&p, i, 0, 10);
	assert_int_equal(
		ibv_modify_qp(p.b.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
		0);
	for (uint64_t i = 0; i < 6; i++) {
		/* The last one is posted when everything has come to rest. */
		if (i == 5) {
			nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
			post_recv(&p, 5, 0, 10);
		}
		wc = wait_wc(p.b.cq);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	pair_close(&p);
}

static void wrong_keys_and_bounds(void **state)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};

	(void)state;
	for (int what = 0; what < 4; what++) {
		for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
			struct pair p;
			uint64_t addr;
			uint32_t key;

			int other = ops[k] == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_WRITE
							       : IBV_ACCESS_REMOTE_READ;

			/* Key of nobody; beyond the end; a right that the region lacks, or the
			 * queue pair. */
			pair_open(&p, &(struct options){.access = what == 2 ? other : 0,
							.qp_access = what == 3 ? other : 0});
			memset(p.b.buf + BUF_BYTES - 8, 0xee, 8);
			addr = (uintptr_t)p.b.buf + (what == 1 ? BUF_BYTES - 7 - 1 + 8 : 0);
			key = p.b.mr->rkey ^ (what == 0 ? 0x100 : 0);
			assert_int_equal(post_rdma(&p, 1, ops[k], 8, SIGNALED, addr, key), 0);
			assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_REM_ACCESS_ERR);
			assert_int_equal(wait_async(&p), IBV_EVENT_QP_ACCESS_ERR);
			assert_int_equal(qp_state(p.b.qp), IBV_QPS_ERR);
			assert_int_equal(p.b.buf[BUF_BYTES - 8], 0xee);
			assert_int_equal(p.b.buf[0], 0);
			pair_close(&p);
		}
	}
}

static void local_errors(void **state)
{
	struct ibv_sge sge = {.length = 100};
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE},
			   *bad;
	struct ibv_wc wc;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){0});
	/* The one before it completes well, although it is posted together with it. */
	assert_int_equal(post_send(&p, 1, IBV_WR_RDMA_WRITE, 5000, SIGNALED), 0);
	sge.addr = (uintptr_t)p.a.buf + BUF_BYTES - 50;
	sge.lkey = p.a.mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)p.b.buf;
	wr.wr.rdma.rkey = p.b.mr->rkey;
	assert_int_equal(ibv_post_send(p.a.qp, &wr, &bad), 0);
	assert_int_equal(post_send(&p, 3, IBV_WR_RDMA_WRITE, 10, 0), 0);
	wc = wait_wc(p.a.cq);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	wc = wait_wc(p.a.cq);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_WR_FLUSH_ERR);
	pair_close(&p);
}

static void receive_too_short(void **state)
{
	struct ibv_wc wc;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){0});
	post_recv(&p, 9, 0, 1500);
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND, 1501, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_REM_INV_REQ_ERR);
	wc = wait_wc(p.b.cq);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	pair_close(&p);
}

static void receiver_not_ready(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.rnr_retry = 2});
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND, 10, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_close(&p);
	/* For ever with 7: a late receive is still found. */
	pair_open(&p, &(struct options){.rnr_retry = 7});
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND, 10, SIGNALED), 0);
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	post_recv(&p, 3, 0, 10);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(wait_wc(p.b.cq).wr_id, 3);
	pair_close(&p);
}

static void cq_overrun(void **state)
{
	bool cq_err = false, qp_fatal = false;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.cqe = 7});
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(post_send(&p, i, IBV_WR_RDMA_WRITE, 8, SIGNALED), 0);
	for (int i = 0; i < 2; i++) {
		enum ibv_event_type e = wait_async(&p);

		cq_err |= e == IBV_EVENT_CQ_ERR;
		qp_fatal |= e == IBV_EVENT_QP_FATAL;
	}
	assert_true(cq_err && qp_fatal);
	pair_close(&p);
}

static void srq_limit_and_last_wqe(void **state)
{
	struct ibv_srq_attr limit = {.srq_limit = 3};
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.srq = true});
	for (uint64_t i = 0; i < 4; i++)
		post_recv(&p, 10 + i, (uint32_t)i * 100, 100);
	assert_int_equal(ibv_modify_srq(p.b.srq, &limit, IBV_SRQ_LIMIT), 0);
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND, 10, 0), 0);
	assert_int_equal(wait_wc(p.b.cq).wr_id, 10);
	assert_int_equal(post_send(&p, 2, IBV_WR_SEND, 10, 0), 0);
	assert_int_equal(wait_async(&p), IBV_EVENT_SRQ_LIMIT_REACHED);
	/* Once: the limit has to be set anew, and the next event is another. */
	assert_int_equal(wait_wc(p.b.cq).wr_id, 11);
	assert_int_equal(post_send(&p, 3, IBV_WR_SEND, 10, 0), 0);
	assert_int_equal(wait_wc(p.b.cq).wr_id, 12);
	assert_int_equal(
		ibv_modify_qp(p.b.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
		0);
	assert_int_equal(wait_async(&p), IBV_EVENT_QP_LAST_WQE_REACHED);
	pair_close(&p);
}

static bool channel_ready(struct side *s, int ms)
{
	struct pollfd fd = {.fd = s->channel->fd, .events = POLLIN};

	return poll(&fd, 1, ms) == 1;
}

static void take_event(struct side *s)
{
	struct ibv_cq *cq;
	void *ctx;

	assert_true(channel_ready(s, 5000));
	assert_int_equal(ibv_get_cq_event(s->channel, &cq, &ctx), 0);
	assert_ptr_equal(cq, s->cq);
	ibv_ack_cq_events(cq, 1);
}

static void events(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){0});
	for (uint64_t i = 0; i < 8; i++)
		post_recv(&p, i, 0, 10);
	/* Not armed: nothing. */
	assert_int_equal(post_send(&p, 1, IBV_WR_SEND, 10, SIGNALED), 0);
	wait_wc(p.a.cq);
	assert_false(channel_ready(&p.b, 20));
	/* Armed while a completion lies there: at once. */
	assert_int_equal(ibv_req_notify_cq(p.b.cq, 0), 0);
	take_event(&p.b);
	/* Armed again before it is polled: a completion makes one event only. */
	assert_int_equal(ibv_req_notify_cq(p.b.cq, 0), 0);
	assert_false(channel_ready(&p.b, 20));
	wait_wc(p.b.cq);
	assert_int_equal(post_send(&p, 9, IBV_WR_SEND, 10, SIGNALED), 0);
	wait_wc(p.a.cq);
	take_event(&p.b);
	wait_wc(p.b.cq);
	/* Solicited only. */
	assert_int_equal(ibv_req_notify_cq(p.b.cq, 1), 0);
	assert_int_equal(post_send(&p, 2, IBV_WR_SEND, 10, SIGNALED), 0);
	wait_wc(p.a.cq);
	assert_false(channel_ready(&p.b, 20));
	assert_int_equal(post_send(&p, 3, IBV_WR_SEND, 10, SIGNALED | IBV_SEND_SOLICITED), 0);
	take_event(&p.b);
	/* One event per arm. */
	assert_int_equal(post_send(&p, 4, IBV_WR_SEND, 10, SIGNALED | IBV_SEND_SOLICITED), 0);
	wait_wc(p.a.cq);
	assert_false(channel_ready(&p.b, 20));
	pair_close(&p);
}

static void unreliable_connection(void **state)
{
	struct ibv_wc wc;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.type = IBV_QPT_UC});
	fill(&p);
	post_recv(&p, 5, 0, 3000);
	assert_int_equal(post_send(&p, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 2500, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	wc = wait_wc(p.b.cq);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 2500);
	assert_memory_equal(p.a.buf, p.b.buf, 2500);
	pair_close(&p);
}

/* A request that arrives before RTS is executed, and announced once. */
static void communication_established(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.stop_at_rtr = true});
	assert_int_equal(post_send(&p, 1, IBV_WR_RDMA_WRITE, 10, SIGNALED), 0);
	assert_int_equal(wait_wc(p.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(wait_async(&p), IBV_EVENT_COMM_EST);
	assert_int_equal(qp_state(p.b.qp), IBV_QPS_RTR);
	pair_close(&p);
}

/* An MR over memory that is not there, or may not be written, is refused. */
static void bad_memory_is_not_registered(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){0});
	assert_null(ibv_reg_mr(p.pd, (void *)0x1000, 4096, 0));
	assert_null(ibv_reg_mr(p.pd, p.a.buf, 4096, IBV_ACCESS_REMOTE_WRITE));
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_recv_imm),
		cmocka_unit_test(read_and_atomics),
		cmocka_unit_test(psns_count_what_was_executed),
		cmocka_unit_test(retries_run_out_and_all_is_flushed),
		cmocka_unit_test(receives_are_flushed),
		cmocka_unit_test(wrong_keys_and_bounds),
		cmocka_unit_test(local_errors),
		cmocka_unit_test(receive_too_short),
		cmocka_unit_test(receiver_not_ready),
		cmocka_unit_test(cq_overrun),
		cmocka_unit_test(srq_limit_and_last_wqe),
		cmocka_unit_test(events),
		cmocka_unit_test(unreliable_connection),
		cmocka_unit_test(communication_established),
		cmocka_unit_test(bad_memory_is_not_registered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
