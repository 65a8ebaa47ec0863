// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "random.h"
#include "survive.h"

struct end a, b;
struct mesh_vqp *h;
struct posted posted;
uint32_t fed;

const struct manner noted = {.how = MOVED}, bare = {.how = BARE};
const struct shape two_cqs = {.cqe = 1024, .max_wr = TWO_CQS_DEPTH, .max_sge = 1, .two_cqs = true};
static const struct shape shape = {.cqe = 512, .max_wr = DEPTH};

void reading_seed(void)
{
	const char *seed = getenv("TEST_SEED");

	rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2 + 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)rng);
}

uint32_t reading_rnd(uint32_t below)
{
	return rnd(below);
}

struct ibv_qp_attr reading_rts(uint32_t sq_psn)
{
	struct ibv_qp_attr attr = world_rts(sq_psn);

	attr.timeout = 17;
	return attr;
}

void connect_bare(struct end *e, struct ibv_qp_attr rtr, struct ibv_qp_attr rts)
{
	assert_int_equal(world.mc->lower.qp.modify_qp(e->qp, &rtr, RTR_MASK), 0);
	assert_int_equal(world.mc->lower.qp.modify_qp(e->qp, &rts, RTS_MASK), 0);
	e->qp->state = IBV_QPS_RTS;
}

void connect_b(void)
{
	connect_bare(&b, world_rtr(&world, false, a.qp->qp_num, SQ_PSN), reading_rts(RQ_PSN));
}

void receive_only(void)
{
	tracked_rtr(&a, &tracked_ops, world_rtr(&world, false, b.qp->qp_num, RQ_PSN), &h);
}

void connect_a(void)
{
	receive_only();
	tracked_rts(&a, h, reading_rts(SQ_PSN));
}

int reading_setup(void **state)
{
	world_setup(state);
	set_survive(true);
	memset(&posted, 0, sizeof(posted));
	posted.psn = SQ_PSN;
	fed = 0;
	end_open(&a, &world, &noted, &shape);
	end_open(&b, &world, &bare, &shape);
	h = NULL;
	return 0;
}

int reading_teardown(void **state)
{
	if (h)
		mesh_vqp_destroy(h);
	end_close(&a);
	end_close(&b);
	return world_teardown(state);
}

static struct ibv_send_wr some_wr(struct ibv_sge *sges, uint64_t *ret_length)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE,		  IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_send_wr wr = {.wr_id = rng, .sg_list = sges, .opcode = opcodes[rnd(6)]};
	int i;

	*ret_length = 0;
	wr.num_sge = (int)rnd(4);
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.num_sge = 1;
	else if (wr.opcode != IBV_WR_RDMA_READ && !rnd(3))
		wr.send_flags = IBV_SEND_INLINE;
	for (i = 0; i < wr.num_sge; i++) {
		sges[i] = (struct ibv_sge){(uintptr_t)a.buf + rnd(1000), wr.send_flags ? 1 + rnd(16) : 1 + rnd(3000), a.mr->lkey};
		if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			sges[i].length = 8;
		*ret_length += sges[i].length;
	}
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b.buf;
		wr.wr.atomic.rkey = b.mr->rkey;
	} else if (wr.opcode != IBV_WR_SEND && wr.opcode != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = (uintptr_t)b.buf + 4096;
		wr.wr.rdma.rkey = b.mr->rkey;
	}
	return wr;
}

int post_one(bool always)
{
	struct ibv_sge sges[4];
	uint64_t length;
	struct ibv_send_wr wr = some_wr(sges, &length), *bad;
	int err;

	wr.send_flags |= always || rnd(2) ? IBV_SEND_SIGNALED : 0;
	err = ibv_post_send(a.qp, &wr, &bad);
	if (err)
		return err;
	posted.psn = mv_psn_add(posted.psn, mv_psn_count(wr.opcode, length, MTU));
	posted.consumes += mv_psn_consumes(wr.opcode);
	posted.last_id = wr.wr_id;
	if (posted.n < DEPTH) {
		posted.wrs[posted.n] = wr;
		posted.lengths[posted.n] = length;
	}
	posted.n++;
	return 0;
}

void feed_b(void)
{
	for (; fed - posted.consumes < 16; fed++)
		assert_int_equal(end_recv(&b, fed, 8192, 16384), 0);
}

void one_round(void)
{
	struct ibv_wc wc;
	unsigned int i;

	feed_b();
	for (i = 0; i < 8; i++)
		assert_int_equal(post_one(true), 0);
	for (i = 0; i < 8; i++)
		assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
	while (ibv_poll_cq(b.cq, 1, &wc) > 0)
		;
}

void check_log(uint32_t n)
{
	struct ibv_sge sges[8];
	char data[256];
	struct mv_wr wr;
	uint32_t i;

	assert_int_equal(mv_wrlog_count(&h->tracker->sends.log), n);
	assert_int_equal(h->tracker->n_undone, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(mv_wrlog_get(&h->tracker->sends.log, i, sges, data, &wr), 0);
		assert_true(wr.wr.wr_id == posted.wrs[i].wr_id);
		assert_int_equal(wr.wr.opcode, posted.wrs[i].opcode);
		assert_int_equal(wr.length_bytes, posted.lengths[i]);
		assert_int_equal(wr.wr.send_flags & IBV_SEND_SIGNALED, posted.wrs[i].send_flags & IBV_SEND_SIGNALED);
	}
}
