// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Order between two NICs (docs/rationale/failover.md): what the old NIC has executed is in memory when the drain ends, so before the first
 * completion that the new NIC gives. The simulated device keeps bytes of WRITEs back until something pushes them, or for 300 ms. A round in
 * which they came before the drain, because this process did not run, or in which the drain came first, says nothing, and is repeated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "simhost.h"
#include "state.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

#define BYTES	(64u << 10) /* the least for `late-dma` is half of it */
#define PACKETS (BYTES / TRACKED_MTU)
#define FLAG	BYTES /* where the new NIC writes, behind the data */
#define SOURCE	(END_BYTES / 2)
#define PSN	0x123u
#define NEXT	0x456u

struct queues {
	uint32_t sends, recvs; /* of the end that is written to */
	bool srq, self;
	bool noted; /* its work is noted, not read from libmlx5's queues */
	bool gpu; /* the memory is a dma-buf */
};

/* What was found in a round. */
struct found {
	bool counts; /* all was executed, and nothing of it was in memory before the drain */
	bool drained, completed; /* all is there when the drain ends; at the first completion of the new NIC */
};

static struct end a, b;
static struct end *to; /* that is written to: b, or a itself */
static struct queues queues;
static uint8_t *bytes; /* the memory that is written */
static struct ibv_mr *mr;

static int want_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	return mesh_key_remote(world.spd, rkey, ret);
}

static void path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_vqp_ops ops = {.want_key = want_key, .path_failed = path_failed};
static const struct manner manner = {.how = MOVED};

/* ---- two ends -------------------------------------------------------------------------------------------------- */

static void open_end(struct end *e, uint32_t sends, uint32_t recvs, bool srq)
{
	const struct ibv_qp_cap cap = {.max_send_wr = sends, .max_recv_wr = srq ? 0 : recvs, .max_send_sge = 1, .max_recv_sge = 1};

	end_open(e, &world, &manner, &(struct shape){.cap = &cap, .srq = srq, .noted = true});
}

static void connect_end(struct end *e, const struct end *peer)
{
	tracked_rtr(e, &ops, world_rtr(&world, false, peer->qp->qp_num, PSN), &e->vqp);
	tracked_rts(e, e->vqp, world_rts(PSN));
}

static void make_memory(void)
{
	int fd;

	bytes = to->buf;
	mr = to->mr;
	if (!queues.gpu)
		return;
	fd = memfd_create("gpu", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 2 * BYTES), 0);
	bytes = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	mr = ibv_reg_dmabuf_mr(world.pd, 0, 2 * BYTES, (uintptr_t)bytes, fd, IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE);
	assert_non_null(mr);
	close(fd);
}

static void open_ends(void)
{
	unsigned int known = world.mc->data.mlx5.state;

	if (queues.noted)
		world.mc->data.mlx5.state = MESH_MLX5_NO;
	open_end(&a, 8, 8, queues.self && queues.srq);
	to = queues.self ? &a : &b;
	if (!queues.self)
		open_end(&b, queues.sends, queues.recvs, queues.srq);
	connect_end(&a, to);
	if (!queues.self)
		connect_end(&b, &a);
	world.mc->data.mlx5.state = known;
	make_memory();
}

static void close_ends(void)
{
	end_close(&a);
	if (!queues.self)
		end_close(&b);
	if (!queues.gpu)
		return;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(bytes, 2 * BYTES);
}

static void connect_next(struct end *e, uint32_t peer_qpn)
{
	struct ibv_qp_attr rtr = world_rtr(&world, true, peer_qpn, NEXT), rts = world_rts(NEXT);

	assert_int_equal(mesh_failover_connect(e->vqp, &rtr, RTR_MASK, &rts, RTS_MASK), 0);
}

static void prepare(void)
{
	uint32_t a_qpn = tracked_prepare(a.vqp), b_qpn = queues.self ? a_qpn : tracked_prepare(b.vqp);

	connect_next(&a, b_qpn);
	if (!queues.self)
		connect_next(&b, a_qpn);
}

/* ---- a round --------------------------------------------------------------------------------------------------- */

static void write_to(uint32_t offset, uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)a.buf + SOURCE + offset, length, a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = flags,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {(uintptr_t)bytes + offset, mr->rkey}};

	assert_int_equal(end_send(&a, &wr), 0);
}

/* The oracle. */
static bool is_there(void)
{
	return !memcmp(bytes, a.buf + SOURCE, BYTES);
}

/* A WRITE without a completion, which might push. Return: is some of it not in memory yet? */
static bool write_data(const char *device, enum sim_quirk quirk, uint8_t pattern)
{
	memset(bytes, 0, BYTES + 1);
	memset(a.buf + SOURCE, pattern, BYTES + 1);
	simhost_quirks(device, 1u << quirk);
	write_to(0, BYTES, 0);
	usleep(5000);
	return !is_there();
}

/* The new NIC writes a flag, as a program does that looks for the data when it sees the flag. */
static void write_flag(void)
{
	write_to(FLAG, 1, IBV_SEND_SIGNALED);
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
}

/* @psn: of the WRITE */
static struct found leave(const char *device, enum sim_quirk quirk, uint32_t psn, uint8_t pattern)
{
	struct mv_move_sync mine, theirs;
	struct found found;

	prepare();
	found.counts = write_data(device, quirk, pattern);
	tracked_drain(to->vqp, true, &theirs);
	found.drained = is_there();
	mine = theirs;
	if (!queues.self)
		tracked_drain(a.vqp, true, &mine);
	found.counts &= mv_psn_add(psn, PACKETS) == theirs.next_psn;
	assert_int_equal(mesh_failover_replay(a.vqp, theirs.next_psn, theirs.n_received, 4, NULL), 0);
	if (!queues.self)
		assert_int_equal(mesh_failover_replay(b.vqp, mine.next_psn, mine.n_received, 4, NULL), 0);
	write_flag();
	found.completed = is_there() && bytes[FLAG] == pattern;
	simhost_quirks(device, 0);
	return found;
}

/* Leave the NIC where the queue pair was made, or the one where it moved to. */
static struct found leave_once(enum sim_quirk quirk, bool moved)
{
	struct found found;

	open_ends();
	found = leave("mlx5_0", quirk, PSN, 1);
	if (moved)
		found = leave("mlx5_1", quirk, NEXT + 1, 2); /* behind the flag */
	close_ends();
	return found;
}

static struct found leave_until_it_counts(enum sim_quirk quirk, bool moved)
{
	uint64_t until_ns = mesh_now_ns() + PATIENCE_NS;
	struct found found;

	do {
		found = leave_once(quirk, moved);
	} while (!found.counts && mesh_now_ns() < until_ns);
	assert_true(found.counts);
	return found;
}

static void is_pushed(struct queues of, bool moved)
{
	struct found found;

	queues = of;
	found = leave_until_it_counts(SIM_QUIRK_PUSHED_DMA, moved);
	assert_true(found.drained);
	assert_true(found.completed);
}

/* ---- host memory ----------------------------------------------------------------------------------------------- */

/* Queues of all kinds, and none: then nothing is flushed, and reading rq_psn alone pushes. */
static const struct queues kinds[] = {
	{.sends = 8, .recvs = 8},
	{.sends = 8, .recvs = 8, .noted = true},
	{.sends = 8},
	{.recvs = 8},
	{.sends = 0, .recvs = 0},
	{.sends = 8, .recvs = 8, .srq = true},
	{.sends = 0, .recvs = 8, .srq = true},
	{.self = true},
	{.self = true, .srq = true},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void test_own(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < N_KINDS; i++)
		is_pushed(kinds[i], false);
}

static void test_moved(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < N_KINDS; i++)
		is_pushed(kinds[i], true);
}

/* A device whose completions and answers push nothing breaks an assumption. The oracle sees that, in a round of less than 300 ms. */
static void test_oracle(void **state)
{
	uint64_t until_ns = mesh_now_ns() + PATIENCE_NS;
	struct found found;

	(void)state;
	queues = kinds[0];
	do {
		found = leave_until_it_counts(SIM_QUIRK_LATE_DMA, false);
	} while (found.completed && mesh_now_ns() < until_ns);
	assert_false(found.drained);
	assert_false(found.completed);
}

/* ---- memory of a GPU ------------------------------------------------------------------------------------------- */

static void read_a_byte(void)
{
	struct ibv_sge sge = {(uintptr_t)a.buf, 1, a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {(uintptr_t)bytes, mr->rkey}};

	assert_int_equal(end_send(&a, &wr), 0);
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
}

/* What NCCL's flush relies on: where a NIC reads, it has written before. */
static void test_read(void **state)
{
	uint64_t until_ns = mesh_now_ns() + PATIENCE_NS;
	bool late, there;

	(void)state;
	queues = (struct queues){.sends = 8, .recvs = 8, .gpu = true};
	do {
		open_ends();
		late = write_data("mlx5_0", SIM_QUIRK_PUSHED_DMABUF, 1);
		read_a_byte();
		there = is_there();
		simhost_quirks("mlx5_0", 0);
		close_ends();
	} while (!late && mesh_now_ns() < until_ns);
	assert_true(late);
	assert_true(there);
}

/* What is not guaranteed (docs/guarantees.md): completions and answers go to host memory, and do not push what goes to a GPU. */
static void test_gpu(void **state)
{
	uint64_t until_ns = mesh_now_ns() + PATIENCE_NS;
	struct found found;

	(void)state;
	queues = (struct queues){.sends = 8, .recvs = 8, .gpu = true};
	found = leave_until_it_counts(SIM_QUIRK_PUSHED_DMA, false);
	assert_true(found.drained);
	do {
		found = leave_until_it_counts(SIM_QUIRK_PUSHED_DMABUF, false);
	} while (found.completed && mesh_now_ns() < until_ns);
	assert_false(found.drained);
	assert_false(found.completed);
}

static int setup(void **state)
{
	simhost_open();
	set_survive(true);
	return world_setup(state);
}

static int teardown(void **state)
{
	simhost_quirks("mlx5_0", 0);
	simhost_quirks("mlx5_1", 0);
	return world_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_own), T(test_moved), T(test_oracle), T(test_read), T(test_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
