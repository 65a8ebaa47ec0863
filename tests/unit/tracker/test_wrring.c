/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "fault.h"
#include "wrring.h"

#define MAX_WR     6
#define MAX_SGE    2
#define MAX_INLINE 40

static const struct ibv_qp_cap cap = {
	.max_send_wr = MAX_WR, .max_send_sge = MAX_SGE, .max_inline_data = MAX_INLINE};

static struct mv_wrring new_ring(bool sig_all)
{
	struct mv_wrring ring;

	mv_wrring_init(&ring, &cap, sig_all);
	assert_int_equal(mv_wrring_room(&ring), 0);
	mv_wrring_connect(&ring, 1024, 0xfffffe);
	return ring;
}

static int add(struct mv_wrring *ring, uint64_t id, enum ibv_wr_opcode opcode, uint32_t bytes,
	       unsigned int flags)
{
	struct ibv_sge sges[2] = {{.addr = 0x1000 + id, .length = bytes / 2, .lkey = 7},
				  {.addr = 0x2000 + id, .length = bytes - bytes / 2, .lkey = 8}};
	struct ibv_send_wr wr = {.wr_id = id,
				 .next = (struct ibv_send_wr *)16, /* not looked at */
				 .sg_list = sges,
				 .num_sge = bytes ? 2 : 0,
				 .opcode = opcode,
				 .send_flags = flags,
				 .imm_data = (__be32)id,
				 .wr.rdma = {.remote_addr = id << 20, .rkey = (uint32_t)id}};

	return mv_wrring_add(ring, &wr);
}

static void check(const struct mv_wrring *ring, size_t i, uint64_t id, enum ibv_wr_opcode opcode,
		  uint32_t bytes, unsigned int flags)
{
	struct ibv_sge sges[MAX_SGE];
	char data[MAX_INLINE];
	struct mv_wr got;

	assert_int_equal(mv_wrlog_get(&ring->log, i, sges, data, &got), 0);
	assert_true(got.wr.wr_id == id && !got.wr.next);
	assert_int_equal(got.wr.opcode, opcode);
	assert_int_equal(got.wr.send_flags, flags);
	assert_int_equal(got.length_bytes, bytes);
	assert_int_equal(got.wr.imm_data, id);
	assert_true(got.wr.wr.rdma.remote_addr == id << 20);
	assert_int_equal(got.wr.num_sge, bytes ? 2 : 0);
	if (bytes) {
		assert_ptr_equal(got.wr.sg_list, sges);
		assert_true(sges[0].addr == 0x1000 + id && sges[1].addr == 0x2000 + id);
		assert_int_equal(sges[0].length + sges[1].length, bytes);
		assert_int_equal(sges[1].lkey, 8);
	}
	assert_int_equal(mv_wr_psn(&got).opcode, opcode);
	assert_int_equal(mv_wr_psn(&got).length_bytes, bytes);
	assert_int_equal(mv_wr_psn(&got).fence, (flags & IBV_SEND_FENCE) != 0);
}

static void test_order_and_psns(void **state)
{
	struct mv_wrring ring = new_ring(false);

	(void)state;
	assert_int_equal(mv_wrlog_count(&ring.log), 0);
	assert_int_equal(add(&ring, 1, IBV_WR_RDMA_WRITE, 2500, 0), 0);
	assert_int_equal(add(&ring, 2, IBV_WR_SEND, 0, IBV_SEND_SIGNALED), 0);
	assert_int_equal(add(&ring, 3, IBV_WR_RDMA_READ, 1025, IBV_SEND_FENCE), 0);
	assert_int_equal(add(&ring, 4, IBV_WR_RDMA_WRITE_WITH_IMM, 10, IBV_SEND_SIGNALED), 0);
	assert_int_equal(mv_wrlog_count(&ring.log), 4);
	assert_int_equal(ring.first_psn, 0xfffffe);
	assert_int_equal(ring.n_sent, 2);
	check(&ring, 0, 1, IBV_WR_RDMA_WRITE, 2500, 0);
	check(&ring, 2, 3, IBV_WR_RDMA_READ, 1025, IBV_SEND_FENCE);
	/* The completion of the second says that the first is done as well. */
	assert_int_equal(mv_wrring_retire(&ring, 2), 2);
	assert_int_equal(ring.first_psn, 2);
	assert_int_equal(mv_wrlog_count(&ring.log), 2);
	check(&ring, 0, 3, IBV_WR_RDMA_READ, 1025, IBV_SEND_FENCE);
	assert_int_equal(mv_wrring_retire(&ring, 3), -EILSEQ);
	assert_int_equal(mv_wrlog_count(&ring.log), 2);
	assert_int_equal(mv_wrring_retire(&ring, 4), 2);
	assert_int_equal(mv_wrring_retire(&ring, 4), -ENOENT);
	assert_int_equal(ring.first_psn, 5);
	assert_int_equal(add(&ring, 5, IBV_WR_RDMA_WRITE, 1, 0), 0);
	assert_int_equal(mv_wrring_retire(&ring, 5), -ENOENT); /* not signaled */
	mv_wrring_retire_n(&ring, 1);
	assert_int_equal(ring.first_psn, 6);
	assert_int_equal(mv_wrlog_count(&ring.log), 0);
	assert_int_equal(ring.n_sent, 2);
	mv_wrring_connect(&ring, 256, 3);
	assert_int_equal(ring.n_sent, 0);
	mv_wrring_fini(&ring);
}

/* Round and round, with all that fit in it. */
static void test_full(void **state)
{
	struct mv_wrring ring = new_ring(true);
	uint64_t oldest = 1, next = 1;

	(void)state;
	for (int round = 0; round < 50; round++) {
		while (next - oldest < MAX_WR) {
			assert_int_equal(add(&ring, next, IBV_WR_SEND, 8, 0), 0);
			next++;
		}
		assert_int_equal(add(&ring, next, IBV_WR_SEND, 8, 0), -ENOSPC);
		for (size_t i = 0; i < MAX_WR; i++)
			check(&ring, i, oldest + i, IBV_WR_SEND, 8, IBV_SEND_SIGNALED);
		assert_int_equal(mv_wrring_retire(&ring, oldest), 1);
		oldest++;
		mv_wrring_retire_n(&ring, 1 + (uint32_t)round % 3);
		oldest += 1 + (uint64_t)round % 3;
	}
	assert_int_equal(ring.first_psn, (0xfffffe + oldest - 1) & 0xffffff);
	mv_wrring_fini(&ring);
}

static void test_inline(void **state)
{
	struct mv_wrring ring = new_ring(false);
	char one[30] = "the first half, ", two[30] = "and the other", data[MAX_INLINE];
	struct ibv_sge sges[3] = {{.addr = (uintptr_t)one, .length = 16},
				  {.addr = (uintptr_t)two, .length = 14},
				  {.addr = (uintptr_t)two, .length = 1}};
	struct ibv_send_wr wr = {.sg_list = sges,
				 .num_sge = 2,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE};
	struct mv_wr got;

	(void)state;
	assert_int_equal(mv_wrring_add(&ring, &wr), 0);
	memset(one, 'x', sizeof(one)); /* the program may use it again */
	memset(two, 'x', sizeof(two));
	assert_int_equal(mv_wrlog_get(&ring.log, 0, sges, data, &got), 0);
	assert_int_equal(got.length_bytes, 30);
	assert_int_equal(got.wr.num_sge, 1);
	assert_int_equal(got.wr.send_flags, IBV_SEND_INLINE);
	assert_string_equal((char *)(uintptr_t)got.wr.sg_list[0].addr,
			    "the first half, and the other");
	/* As much as fits, and not more. */
	sges[0].addr = (uintptr_t)one;
	sges[0].length = 16;
	sges[1].length = 24;
	assert_int_equal(mv_wrring_add(&ring, &wr), 0);
	sges[1].length = 25;
	assert_int_equal(mv_wrring_add(&ring, &wr), -EINVAL);
	sges[1].length = UINT32_MAX - 8;
	assert_int_equal(mv_wrring_add(&ring, &wr), -EINVAL);
	wr.num_sge = 0;
	assert_int_equal(mv_wrring_add(&ring, &wr), 0);
	assert_int_equal(mv_wrlog_get(&ring.log, 2, sges, data, &got), 0);
	assert_int_equal(got.wr.num_sge, 0);
	assert_int_equal(got.length_bytes, 0);
	wr.num_sge = 3;
	wr.send_flags = 0;
	assert_int_equal(mv_wrring_add(&ring, &wr), -EINVAL);
	wr.num_sge = 0;
	wr.opcode = IBV_WR_BIND_MW;
	assert_int_equal(mv_wrring_add(&ring, &wr), -EINVAL);
	assert_int_equal(mv_wrlog_count(&ring.log), 3);
	mv_wrring_fini(&ring);
}

static void test_undo(void **state)
{
	struct mv_wrring ring = new_ring(false);

	(void)state;
	assert_int_equal(add(&ring, 1, IBV_WR_SEND, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(add(&ring, 2, IBV_WR_SEND, 8, 0), 0);
	assert_int_equal(add(&ring, 3, IBV_WR_RDMA_WRITE, 8, 0), 0);
	mv_wrring_undo(&ring, 2);
	assert_int_equal(mv_wrlog_count(&ring.log), 1);
	assert_int_equal(ring.n_sent, 1);
	assert_int_equal(mv_wrring_retire(&ring, 1), 1);
	assert_int_equal(ring.first_psn, 0xffffff);
	mv_wrring_fini(&ring);
}

static void test_atomics(void **state)
{
	struct mv_wrring ring = new_ring(false);

	(void)state;
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_NONE);
	assert_int_equal(add(&ring, 1, IBV_WR_RDMA_READ, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_NONE);
	assert_int_equal(add(&ring, 2, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0), 0);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_SILENT);
	assert_int_equal(add(&ring, 3, IBV_WR_SEND, 8, 0), 0);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_SILENT);
	assert_int_equal(add(&ring, 4, IBV_WR_SEND, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_TOLD);
	assert_int_equal(mv_wrring_retire(&ring, 1), 1);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_TOLD);
	assert_int_equal(mv_wrring_retire(&ring, 4), 3);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_NONE);
	assert_int_equal(add(&ring, 5, IBV_WR_ATOMIC_CMP_AND_SWP, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_TOLD);
	mv_wrring_undo(&ring, 1);
	assert_int_equal(mv_wrring_atomics(&ring), MV_ATOMICS_NONE);
	mv_wrring_fini(&ring);
}

/* A number is found wherever it is looked for first, and one that is gone is not; also where indices wrap. */
static void test_has(void **state)
{
	struct mv_wrring ring = new_ring(false);
	uint64_t first = 100, next = 100, id;
	uint32_t at;

	(void)state;
	ring.head = ring.tail = -20u;
	while (next < 150) {
		while (next - first < MAX_WR)
			assert_int_equal(add(&ring, next++, IBV_WR_SEND, 8, IBV_SEND_SIGNALED), 0);
		for (id = first - 2; id < next + 2; id++) {
			for (uint32_t i = 0; i < 3 * MAX_WR; i++) {
				at = ring.tail - MAX_WR + i;
				assert_int_equal(mv_wrring_has(&ring, id, &at), id >= first && id < next);
				if (id >= first && id < next)
					assert_int_equal(at, ring.tail + (uint32_t)(id - first) + 1);
			}
		}
		first += 1 + next % MAX_WR;
		mv_wrring_retire_n(&ring, (uint32_t)(first - (next - MAX_WR)));
	}
	mv_wrring_retire_n(&ring, (uint32_t)mv_wrlog_count(&ring.log));
	assert_false(mv_wrring_has(&ring, next - 1, &at));
	mv_wrring_fini(&ring);
}

static void test_no_memory(void **state)
{
	struct mv_wrring ring;
	const char *places;

	(void)state;
	fault_disarm();
	mv_wrring_init(&ring, &cap, false);
	assert_int_equal(fault_count(FAULT_ALLOC), 0);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(mv_wrring_room(&ring), -ENOMEM);
	fault_disarm();
	/* PSNs are counted without any, and go on from there. */
	mv_wrring_connect(&ring, 1024, 0xfffffe);
	mv_wrring_pass(&ring, 3, 1);
	assert_int_equal(mv_wrring_room(&ring), 0);
	assert_int_equal(ring.first_psn, 1);
	assert_int_equal(ring.n_sent, 1);
	assert_int_equal(add(&ring, 7, IBV_WR_SEND, 2000, IBV_SEND_SIGNALED), 0);
	places = ring.places;
	assert_int_equal(mv_wrring_room(&ring), 0);
	assert_ptr_equal(ring.places, places);
	check(&ring, 0, 7, IBV_WR_SEND, 2000, IBV_SEND_SIGNALED);
	mv_wrring_fini(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_psns), cmocka_unit_test(test_full),
		cmocka_unit_test(test_inline),         cmocka_unit_test(test_undo),
		cmocka_unit_test(test_atomics), cmocka_unit_test(test_has),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
