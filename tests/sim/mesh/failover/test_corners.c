// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queues of all sizes that a program may ask for, none, one and some, full of work when the path fails: an end with such queues moves
 * twice, and fails in the end. What it posts is done once, in order; what fails, fails once; and who waits for events is woken.
 *
 * `simmesh_corners N` tries N combinations at random, of sizes up to 40, and fillings; TEST_SEED=n repeats them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "random.h"
#include "simhost.h"
#include "srq.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

#define SENDS	    0x10000000u /* wr_id of the first */
#define RECVS	    0x20000000u
#define BYTES	    64u
#define PEER_WRS    48u
#define MOST_RECVS  4096u
#define CQE	    31u /* a CQ of so many has no room for more, but one */

/* How it ends: nobody notices; the program ends it, or the path does and there is no other, where it works or where it was made. */
enum ending { CLOSED, FLUSHED, MOVE_FAILED, MOVE_FAILED_AT_PRIMARY, N_ENDINGS };

struct corner {
	uint32_t sends, recvs, srq; /* sizes; srq 0: receives of its own */
	uint32_t fill; /* percent of the queues that have work when the path fails */
	uint32_t others; /* completions of another queue pair that nobody has polled, in its CQ */
	bool two_cqs;
	bool noted; /* what it posts is noted, not read from libmlx5's queues */
	enum ending ending;
};

struct side {
	struct end e;
	struct ibv_cq *recv_cq; /* where its receives complete */
	uint32_t n_sends, n_recvs; /* sizes */
	uint32_t posted_sends, done_sends, posted_recvs, done_recvs;
	uint32_t consumes; /* receives of its peer that what it has posted takes */
	bool received[MOST_RECVS]; /* of an SRQ, whose receives may be at several NICs, and are taken in any order */
};

static const struct manner noted_manner = {.how = MOVED}, bare_manner = {.how = BARE};
static struct corner corner; /* that is being tried */
static unsigned int n_random; /* combinations to be tried; 0: the fixed ones */
static struct side x, y; /* x has the corner's queues */

/* ---- posting --------------------------------------------------------------------------------------------------- */

static void post_recvs(struct side *s, uint32_t most)
{
	while (s->posted_recvs - s->done_recvs < most) {
		assert_int_equal(end_recv(&s->e, RECVS + s->posted_recvs, 0, BYTES), 0);
		s->posted_recvs++;
	}
}

static enum ibv_wr_opcode opcode_for(const struct side *s, const struct side *peer)
{
	if (!peer->n_recvs)
		return IBV_WR_RDMA_WRITE;
	return s->posted_sends % 3 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
}

/* Of so many that are posted first. */
static uint32_t signaled(uint32_t sends)
{
	return sends - sends / 4;
}

/* One that is not signaled now and then, but for the last one that there is room for. */
static void post_sends(struct side *s, struct side *peer, uint32_t most)
{
	struct ibv_sge sge = {(uintptr_t)s->e.buf, BYTES, s->e.mr->lkey};

	while (s->posted_sends - s->done_sends < most) {
		bool last = s->posted_sends - s->done_sends + 1 == most;
		struct ibv_send_wr wr = {
			.wr_id = SENDS + s->posted_sends,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode_for(s, peer),
			.send_flags = last || s->posted_sends % 4 ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = {.remote_addr = (uintptr_t)peer->e.buf, .rkey = peer->e.mr->rkey},
		};

		assert_int_equal(end_send(&s->e, &wr), 0);
		s->posted_sends++;
		s->consumes += wr.opcode != IBV_WR_RDMA_WRITE;
	}
}

static uint32_t part_of(uint32_t size)
{
	uint32_t part = size * corner.fill / 100;

	return size && !part ? 1 : part;
}

/* A queue that has no room does not get any by being moved. */
static void must_refuse(struct side *s)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	if (!s->n_sends)
		assert_int_equal(end_send(&s->e, &wr), ENOMEM);
	if (!s->n_recvs)
		assert_int_equal(end_recv(&s->e, 0, 0, BYTES), ENOMEM);
}

/* ---- polling --------------------------------------------------------------------------------------------------- */

static bool is_send(uint64_t wr_id)
{
	return wr_id >= SENDS && wr_id < RECVS;
}

static void take_recv(struct side *s, uint32_t nth)
{
	assert_true(nth < s->posted_recvs && nth < MOST_RECVS);
	assert_false(s->received[nth]);
	s->received[nth] = true;
	if (!s->e.srq)
		assert_int_equal(nth, s->done_recvs);
	s->done_recvs++;
}

/* In order; those before a signaled one are done with it. */
static void take(struct side *s, const struct ibv_wc *wc, bool failed)
{
	assert_int_equal(wc->qp_num, s->e.qp->qp_num);
	if (failed)
		assert_int_not_equal(wc->status, IBV_WC_SUCCESS);
	else
		assert_int_equal(wc->status, IBV_WC_SUCCESS);
	if (is_send(wc->wr_id)) {
		assert_in_range(wc->wr_id - SENDS, s->done_sends, s->posted_sends - 1);
		if (failed)
			assert_int_equal(wc->wr_id - SENDS, s->done_sends);
		s->done_sends = (uint32_t)(wc->wr_id - SENDS) + 1;
	} else {
		take_recv(s, (uint32_t)(wc->wr_id - RECVS));
	}
}

/* Return: how many came; of other queue pairs, they do not count. */
static uint32_t poll_side(struct side *s, bool failed)
{
	struct ibv_cq *cqs[2] = {s->e.cq, s->recv_cq == s->e.cq ? NULL : s->recv_cq};
	struct ibv_wc wc;
	uint32_t n = 0;
	int i;

	for (i = 0; i < 2 && cqs[i]; i++) {
		while (ibv_poll_cq(cqs[i], 1, &wc) == 1) {
			if (wc.wr_id >= SENDS) {
				take(s, &wc, failed);
				n++;
			}
		}
	}
	return n;
}

/* All that was posted to send is done, and each peer has received it. */
static void finish_work(void)
{
	uint64_t until_ns = mesh_now_ns() + PATIENCE_NS;

	while (x.done_sends < x.posted_sends || y.done_sends < y.posted_sends || x.done_recvs < y.consumes || y.done_recvs < x.consumes) {
		poll_side(&x, false);
		poll_side(&y, false);
		post_recvs(&x, x.n_recvs);
		post_recvs(&y, y.n_recvs);
		if (mesh_now_ns() > until_ns)
			fail_msg("sends %u of %u, %u of %u; receives %u of %u, %u of %u", x.done_sends, x.posted_sends, y.done_sends,
				 y.posted_sends, x.done_recvs, y.consumes, y.done_recvs, x.consumes);
	}
}

/* ---- two ends -------------------------------------------------------------------------------------------------- */

static void open_side(struct side *s, uint32_t sends, uint32_t recvs, uint32_t srq, uint32_t others, bool two_cqs)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = sends, .max_recv_wr = srq ? 0 : recvs, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	/* As programs do that know what they have signaled. */
	const uint32_t both = signaled(sends) + (srq ? srq : recvs) + others;
	const struct shape shape = {
		.cap = &cap, .cqe = both ? both : 1, .srq = srq, .srq_wr = srq, .noted = true, .two_cqs = two_cqs};

	memset(s, 0, sizeof(*s));
	s->n_sends = sends;
	s->n_recvs = srq ? srq : recvs;
	end_open(&s->e, &world, &noted_manner, &shape);
	s->recv_cq = s->e.recv_cq ? s->e.recv_cq : s->e.cq;
}

static void connect_side(struct side *s, const struct side *peer)
{
	tracked_rtr(&s->e, &tracked_ops, world_rtr(&world, false, peer->e.qp->qp_num, 0x123), &s->e.vqp);
	tracked_rts(&s->e, s->e.vqp, world_rts(0x123));
}

static uint32_t working_qpn(const struct side *s)
{
	return s->e.vqp->now.qp ? s->e.vqp->now.qp->qp_num : s->e.qp->qp_num;
}

static void connect_next(struct side *s, uint32_t peer_qpn)
{
	struct ibv_qp_attr rtr = world_rtr(&world, true, peer_qpn, 0x456), rts = world_rts(0x456);

	assert_int_equal(mesh_failover_connect(s->e.vqp, &rtr, RTR_MASK, &rts, RTS_MASK), 0);
}

static void prepare_both(void)
{
	uint32_t x_qpn = tracked_prepare(x.e.vqp), y_qpn = tracked_prepare(y.e.vqp);

	connect_next(&x, y_qpn);
	connect_next(&y, x_qpn);
}

static void must_be_drained(struct side *s, struct mv_move_sync *sync)
{
	int err = tracked_drain_ends(s->e.vqp, true, sync);

	if (err)
		fail_msg("not drained: %s; lost: %s", strerrordesc_np(-err),
			 mesh_failover_lost(s->e.vqp) ? mesh_failover_lost(s->e.vqp) : "no");
}

static void fill_queues(void)
{
	simhost_mute(working_qpn(&x));
	simhost_mute(working_qpn(&y));
	post_recvs(&x, part_of(x.n_recvs));
	post_recvs(&y, y.n_recvs);
	post_sends(&x, &y, part_of(x.n_sends));
	post_sends(&y, &x, x.n_sends ? 2 : PEER_WRS / 2);
}

/* With all of it under way, both go elsewhere. */
static void move(void)
{
	struct mv_move_sync x_sync, y_sync;

	fill_queues();
	prepare_both();
	must_be_drained(&x, &x_sync);
	must_refuse(&x);
	must_be_drained(&y, &y_sync);
	assert_int_equal(mesh_failover_replay(x.e.vqp, y_sync.next_psn, y_sync.n_received, 4, NULL), 0);
	assert_int_equal(mesh_failover_replay(y.e.vqp, x_sync.next_psn, x_sync.n_received, 4, NULL), 0);
	simhost_unmute();
	finish_work();
	must_refuse(&x);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* Whose receives are an SRQ's keeps them. */
static bool all_failed(const struct side *s)
{
	return s->done_sends == s->posted_sends && (s->e.srq || s->done_recvs == s->posted_recvs);
}

static void arm(struct side *s)
{
	while (end_event(&s->e, 0))
		;
	assert_int_equal(ibv_req_notify_cq(s->e.cq, 0), 0);
}

/* A program that sleeps until there is a completion gets all of them. */
static void must_fail_all(struct side *s)
{
	bool in_cq = s->posted_sends != s->done_sends || (!s->e.srq && s->recv_cq == s->e.cq && s->posted_recvs != s->done_recvs);
	uint64_t until_ns = mesh_now_ns() + PATIENCE_NS;

	if (in_cq && !end_event(&s->e, PATIENCE_MS))
		fail_msg("no event of %u sends, %u receives", s->posted_sends - s->done_sends, s->posted_recvs - s->done_recvs);
	while (!all_failed(s)) {
		poll_side(s, true);
		if (mesh_now_ns() > until_ns)
			fail_msg("failed sends: to %u of %u; receives: to %u of %u", s->done_sends, s->posted_sends, s->done_recvs,
				 s->posted_recvs);
	}
	usleep(1000);
	assert_int_equal(poll_side(s, true), 0);
}

static void end_it(void)
{
	struct mv_move_sync sync;

	if (corner.ending == CLOSED)
		return;
	fill_queues();
	poll_side(&x, false);
	arm(&x);
	if (corner.ending == FLUSHED) {
		end_err(&x.e);
	} else {
		prepare_both();
		must_be_drained(&x, &sync);
		mesh_failover_flush_errors(x.e.vqp);
	}
	must_fail_all(&x);
	simhost_unmute();
}

/* Fills the rest of x's CQ. */
static void open_others(struct end *others)
{
	const struct ibv_qp_cap cap = {.max_send_wr = corner.others, .max_send_sge = 1};
	uint32_t i;

	end_open(others, &world, &bare_manner, &(struct shape){.hub = &x.e, .cap = &cap});
	others->srq = NULL;
	{
		struct ibv_qp_attr rtr = world_rtr(&world, false, others->qp->qp_num, 0x77), rts = world_rts(0x77);

		assert_int_equal(world.mc->lower.qp.modify_qp(others->qp, &rtr, RTR_MASK), 0);
		assert_int_equal(world.mc->lower.qp.modify_qp(others->qp, &rts, RTS_MASK), 0);
		others->qp->state = IBV_QPS_RTS;
	}
	for (i = 0; i < corner.others; i++) {
		struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

		assert_int_equal(end_send(others, &wr), 0);
	}
	cq_wait_arrived(x.e.cq, corner.others);
}

static bool has_overrun(void)
{
	struct ibv_async_event event;

	while (world_event(&world, &event, 0))
		if (event.event_type == IBV_EVENT_CQ_ERR)
			return true;
	return false;
}

static void say(void)
{
	if (!getenv("TEST_LOUD"))
		return;
	print_message("sends %u, receives %u, SRQ %u, %u%% full, others %u%s%s, ending %d\n", corner.sends, corner.recvs, corner.srq, corner.fill,
		      corner.others, corner.two_cqs ? ", two CQs" : "", corner.noted ? ", noted" : "", corner.ending);
}

static void try_corner(void)
{
	unsigned int known;
	struct end others;

	say();
	known = world.mc->data.mlx5.state;
	if (corner.noted)
		world.mc->data.mlx5.state = MESH_MLX5_NO;
	open_side(&x, corner.sends, corner.recvs, corner.srq, corner.others, corner.two_cqs);
	open_side(&y, PEER_WRS, PEER_WRS, 0, 0, false);
	connect_side(&x, &y);
	connect_side(&y, &x);
	world.mc->data.mlx5.state = known;
	if (corner.others)
		open_others(&others);
	if (corner.ending != MOVE_FAILED_AT_PRIMARY) {
		move();
		move();
	}
	end_it();
	assert_false(has_overrun());
	if (corner.others)
		end_close(&others);
	end_close(&x.e);
	end_close(&y.e);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
	simhost_open();
	set_survive(true);
	return world_setup(state);
}

static int teardown(void **state)
{
	simhost_unmute();
	return world_teardown(state);
}

static void test_all(void **state)
{
	static const uint32_t sends[] = {0, 1, 8}, recvs[][2] = {{0, 0}, {1, 0}, {7, 0}, {0, 1}, {0, 7}};
	unsigned int s, r, k;

	(void)state;
	for (s = 0; s < 3; s++)
		for (r = 0; r < 5; r++)
			for (k = 0; k < 8; k++) {
				corner = (struct corner){.sends = sends[s],
							 .recvs = recvs[r][0],
							 .srq = recvs[r][1],
							 .fill = 100,
							 .two_cqs = k & 1,
							 .noted = k & 2,
							 .others = k & 4 ? CQE - signaled(sends[s]) - recvs[r][0] - recvs[r][1] : 0,
							 .ending = (enum ending)((s + r + k + k / 4) % N_ENDINGS)};
				try_corner();
			}
}

static uint32_t some_size(void)
{
	return rnd(3) ? rnd(41) : rnd(2);
}

static void test_random(void **state)
{
	const char *seed = getenv("TEST_SEED");
	unsigned int n;

	(void)state;
	rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2 + 1;
	print_message("TEST_SEED=%llu\n", (unsigned long long)rng);
	for (n = 0; n < n_random; n++) {
		corner = (struct corner){.sends = some_size(),
					 .recvs = some_size(),
					 .srq = rnd(2) ? some_size() : 0,
					 .fill = rnd(101),
					 .others = rnd(2) ? some_size() : 0,
					 .two_cqs = rnd(2),
					 .noted = rnd(2),
					 .ending = (enum ending)rnd(N_ENDINGS)};
		try_corner();
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all, setup, teardown),
	};
	const struct CMUnitTest random_tests[] = {
		cmocka_unit_test_setup_teardown(test_random, setup, teardown),
	};

	n_random = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 0) : 0;
	return n_random ? cmocka_run_group_tests(random_tests, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
