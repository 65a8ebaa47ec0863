/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Exactly once, in order, whatever happens to the packets: a random stream of work requests over a
 * connection whose packets are lost, doubled, delayed and damaged, against a model of what memory
 * must hold in the end. Runs in a host of the simulator. The seed is printed; LOSS_SEED repeats a
 * run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "state.h"
#include "pair.h"

#define REQUESTS  3000
#define DEPTH     32
#define MAX_BYTES 6000
#define SLOT      8192 /* of a's buffer, per outstanding request */
#define WRITES_AT 65536 /* area of b's buffer that is written and read */
#define AREA      262144
#define RECV_AT   (WRITES_AT + AREA) /* slots for receives */

struct request {
	enum ibv_wr_opcode op;
	uint32_t len, off;
	uint64_t expect; /* of an atomic */
	uint8_t *image; /* of what a READ must bring */
};

static struct sim_state *host;
static uint8_t model[AREA];

static void map_host(void)
{
	const char *path = getenv(SIM_STATE_ENV);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		fail_msg("%s: run this in a host of the simulator", SIM_STATE_ENV);
	host = mmap(NULL, sizeof(*host), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(host, MAP_FAILED);
	assert_int_equal(host->version, SIM_STATE_VERSION);
}

static void set_fault(int rule, uint32_t action, uint8_t class_mask, uint32_t ppm,
		      uint32_t delay_us)
{
	struct sim_fault *f = &host->faults[rule];

	atomic_store(&f->action, SIM_FAULT_OFF);
	f->dir = SIM_FAULT_TX;
	f->class_mask = class_mask;
	f->dev = 0xff;
	f->ppm = ppm;
	f->delay_us = delay_us;
	atomic_store(&f->seen, 0);
	atomic_store(&f->hits, 0);
	atomic_store(&f->action, action);
	atomic_fetch_add(&host->faults_generation, 1);
}

static int clear_faults(void **state)
{
	(void)state;
	for (int i = 0; host && i < 6; i++)
		atomic_store(&host->faults[i].action, SIM_FAULT_OFF);
	return 0;
}

static uint32_t pick(uint32_t n)
{
	return (uint32_t)((double)random() / ((double)RAND_MAX + 1) * n);
}

static void post(struct pair *p, uint64_t id, struct request *r, uint8_t *slot, uint64_t *counter,
		 uint64_t *n_recv)
{
	struct ibv_sge sge = {.addr = (uintptr_t)slot, .lkey = p->a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
						 IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_RDMA_WRITE_WITH_IMM};

	r->op = wr.opcode = ops[pick(5)];
	r->len = 1 + pick(MAX_BYTES);
	r->off = pick(AREA - MAX_BYTES);
	r->image = NULL;
	if (r->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		r->len = 8;
		r->expect = *counter;
		*counter += id;
		wr.wr.atomic.remote_addr = (uintptr_t)p->b.buf;
		wr.wr.atomic.rkey = p->b.mr->rkey;
		wr.wr.atomic.compare_add = id;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)p->b.buf + WRITES_AT + r->off;
		wr.wr.rdma.rkey = p->b.mr->rkey;
	}
	sge.length = r->len;
	if (r->op == IBV_WR_RDMA_READ) {
		r->image = malloc(r->len);
		memcpy(r->image, model + r->off, r->len);
	} else {
		for (uint32_t i = 0; i < r->len; i++)
			slot[i] = (uint8_t)random();
	}
	/* A READ may bring what a later WRITE put there, unless that is fenced. */
	if (r->op == IBV_WR_RDMA_WRITE || r->op == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.send_flags |= IBV_SEND_FENCE;
	if (wr.send_flags & IBV_SEND_FENCE)
		memcpy(model + r->off, slot, r->len);
	if (r->op == IBV_WR_SEND || r->op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		post_recv(p, id, RECV_AT + (uint32_t)(id % DEPTH) * SLOT, SLOT);
		++*n_recv;
	}
	wr.imm_data = htobe32((uint32_t)id);
	assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
}

static void check(struct pair *p, uint64_t id, struct request *r, const uint8_t *slot)
{
	struct ibv_wc wc = wait_wc(p->a.cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, id);
	if (r->op == IBV_WR_RDMA_READ)
		assert_memory_equal(slot, r->image, r->len);
	free(r->image);
	if (r->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		assert_true(*(const uint64_t *)(const void *)slot == r->expect);
	if (r->op != IBV_WR_SEND && r->op != IBV_WR_RDMA_WRITE_WITH_IMM)
		return;
	wc = wait_wc(p->b.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.byte_len, r->len);
	if (r->op == IBV_WR_SEND)
		assert_memory_equal(p->b.buf + RECV_AT + (id % DEPTH) * SLOT, slot, r->len);
	else
		assert_int_equal(be32toh(wc.imm_data), id);
}

static void stream(uint32_t n)
{
	static struct request ring[DEPTH];
	const char *env = getenv("LOSS_SEED");
	unsigned int seed = env ? (unsigned int)atoi(env) : (unsigned int)time(NULL);
	uint64_t counter = 0, n_recv = 0;
	struct pair p;

	printf("LOSS_SEED=%u\n", seed);
	srandom(seed);
	memset(model, 0, sizeof(model));
	pair_open(&p, &(struct options){
			      .psn = 0xffff00, .timeout = 10, .retry_cnt = 7, .rnr_retry = 7});
	for (uint64_t id = 0; id < n + DEPTH; id++) {
		if (id >= DEPTH)
			check(&p, id - DEPTH, &ring[id % DEPTH], p.a.buf + (id % DEPTH) * SLOT);
		if (id < n)
			post(&p, id, &ring[id % DEPTH], p.a.buf + (id % DEPTH) * SLOT, &counter,
			     &n_recv);
	}
	assert_memory_equal(p.b.buf + WRITES_AT, model, AREA);
	assert_true(*(uint64_t *)(void *)p.b.buf == counter);
	for (int i = 0; i < 6; i++)
		if (atomic_load(&host->faults[i].action))
			assert_true(atomic_load(&host->faults[i].hits) > 0);
	pair_close(&p);
}

static void nothing_goes_wrong(void **state)
{
	(void)state;
	map_host();
	stream(REQUESTS);
}

static void three_percent_lost(void **state)
{
	(void)state;
	map_host();
	set_fault(0, SIM_FAULT_DROP, SIM_CLASS_ANY, 30000, 0);
	stream(REQUESTS);
}

static void acknowledgements_lost(void **state)
{
	(void)state;
	map_host();
	set_fault(0, SIM_FAULT_DROP, SIM_CLASS_ACK | SIM_CLASS_NAK, 300000, 0);
	stream(REQUESTS);
}

static void answers_lost(void **state)
{
	(void)state;
	map_host();
	set_fault(0, SIM_FAULT_DROP, SIM_CLASS_DATA_RESPONSE, 50000, 0);
	stream(REQUESTS);
}

static void everything_at_once(void **state)
{
	(void)state;
	map_host();
	set_fault(0, SIM_FAULT_DROP, SIM_CLASS_ANY, 5000, 0);
	set_fault(1, SIM_FAULT_DUPLICATE, SIM_CLASS_ANY, 20000, 0);
	set_fault(2, SIM_FAULT_DELAY, SIM_CLASS_REQUEST, 5000, 300);
	set_fault(3, SIM_FAULT_DELAY, SIM_CLASS_ACK | SIM_CLASS_DATA_RESPONSE, 5000, 2000);
	set_fault(4, SIM_FAULT_CORRUPT, SIM_CLASS_ANY, 5000, 0);
	stream(REQUESTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nothing_goes_wrong, clear_faults),
		cmocka_unit_test_teardown(three_percent_lost, clear_faults),
		cmocka_unit_test_teardown(acknowledgements_lost, clear_faults),
		cmocka_unit_test_teardown(answers_lost, clear_faults),
		cmocka_unit_test_teardown(everything_at_once, clear_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
