/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The mlx5 reader on rings written by hand: what libmlx5 never writes, and what a program can put
 * there. What libmlx5 does write: tests/sim/verbs/wqering.c.
 */
#include "unit.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "wrmlx5.h"

#define QPN        0x123456
#define N_BLOCKS   8u
#define MAX_SGE    3
#define MAX_INLINE 120

static _Alignas(64) uint8_t buf[N_BLOCKS * 64];
static __be32 dbrec[2];
static const struct mv_mlx5_ring ring = {buf, N_BLOCKS, 64, dbrec};

static uint8_t *at(uint16_t index, unsigned int unit)
{
	return buf + ((index * 64u + unit * 16u) & (sizeof(buf) - 1));
}

static void put_ctrl(uint16_t index, uint8_t opcode, uint8_t flags, uint8_t units)
{
	mlx5dv_set_ctrl_seg((struct mlx5_wqe_ctrl_seg *)(void *)at(index, 0), index, opcode, 0, QPN,
			    flags, units, 0, htobe32(0xcafe));
	dbrec[MLX5_SND_DBR] = htobe32((uint16_t)(index + (units + 3) / 4));
}

static void put_raddr(uint16_t index)
{
	struct mlx5_wqe_raddr_seg seg = {.raddr = htobe64(0x1122334455667788),
					 .rkey = htobe32(0x99aabbcc)};

	memcpy(at(index, 1), &seg, sizeof(seg));
}

static void put_data(uint16_t index, unsigned int unit, uint32_t bytes)
{
	mlx5dv_set_data_seg((struct mlx5_wqe_data_seg *)(void *)at(index, unit), bytes, 0x4242,
			    0x8877665544332211);
}

/* A WRITE with @n entries of 100 bytes. */
static uint16_t put_write(uint16_t index, uint8_t n, uint8_t flags)
{
	put_ctrl(index, MLX5_OPCODE_RDMA_WRITE, flags, (uint8_t)(2 + n));
	put_raddr(index);
	for (unsigned int i = 0; i < n; i++)
		put_data(index, 2 + i, 100);
	return (uint16_t)(index + (2 + n + 3) / 4);
}

static int get_one(uint16_t index, struct mv_wr *ret)
{
	static struct ibv_sge sges[MAX_SGE];
	static uint8_t data[MAX_INLINE];
	uint16_t next;

	return mv_mlx5_sq_get(&ring, QPN, index, MAX_SGE, MAX_INLINE, sges, data, ret, &next);
}

static void test_psns(void **state)
{
	uint16_t start = 0xfffd, end = put_write(put_write(put_write(start, 3, 0), 1, 0), 2, 8);
	uint32_t psns, consumes;

	(void)state;
	assert_int_equal(end, 1);
	assert_int_equal(mv_mlx5_sq_end(&ring), end);
	assert_int_equal(mv_mlx5_sq_psns(&ring, QPN, start, end, 256, &psns, &consumes), 0);
	assert_int_equal(psns, 2 + 1 + 1);
	assert_int_equal(consumes, 0);
	assert_int_equal(mv_mlx5_sq_psns(&ring, QPN, start, start, 256, &psns, NULL), 0);
	assert_int_equal(psns, 0);
	/* Used again since. */
	put_write((uint16_t)(start + N_BLOCKS), 1, 0);
	assert_int_equal(mv_mlx5_sq_psns(&ring, QPN, start, end, 256, &psns, NULL), -ESTALE);
	assert_int_equal(mv_mlx5_sq_psns(&ring, QPN, start, (uint16_t)(end + 1), 256, &psns, NULL), -ESTALE);
}

/* ---- one work request --------------------------------------------------------------------------
 */

static void put_inline(uint16_t index, unsigned int unit, uint32_t bytes)
{
	uint32_t header = htobe32(bytes | MLX5_INLINE_SEG);

	memcpy(at(index, unit), &header, 4);
	for (uint32_t i = 0; i < bytes; i++)
		buf[(index * 64u + unit * 16u + 4 + i) & (sizeof(buf) - 1)] = (uint8_t)(i + 1);
}

static void test_inline(void **state)
{
	struct mv_wr got;
	const uint8_t *data;

	(void)state;
	/* 108 bytes from the second last block on: the ring ends within them. */
	put_ctrl(N_BLOCKS - 1, MLX5_OPCODE_SEND_IMM, 0, 1 + 7);
	put_inline(N_BLOCKS - 1, 1, 108);
	assert_int_equal(get_one(N_BLOCKS - 1, &got), 0);
	assert_int_equal(got.wr.opcode, IBV_WR_SEND_WITH_IMM);
	assert_int_equal(got.wr.send_flags, IBV_SEND_INLINE);
	assert_int_equal(be32toh(got.wr.imm_data), 0xcafe);
	assert_int_equal(got.length_bytes, 108);
	assert_int_equal(got.wr.num_sge, 1);
	assert_int_equal(got.wr.sg_list[0].length, 108);
	data = (const uint8_t *)(uintptr_t)got.wr.sg_list[0].addr;
	for (unsigned int i = 0; i < 108; i++)
		assert_int_equal(data[i], i + 1);
	/* More than the work request has room for, more than the caller's array, none at all, and
	 * both kinds. */
	put_inline(N_BLOCKS - 1, 1, 109);
	assert_int_equal(get_one(N_BLOCKS - 1, &got), -EBADMSG);
	put_ctrl(0, MLX5_OPCODE_SEND, 0, 1 + 8);
	put_inline(0, 1, MAX_INLINE + 1);
	assert_int_equal(get_one(0, &got), -EBADMSG);
	put_inline(0, 1, 0);
	assert_int_equal(get_one(0, &got), -EBADMSG);
	put_ctrl(0, MLX5_OPCODE_SEND, 0, 1 + 2);
	put_inline(0, 1, 12);
	put_data(0, 2, 5);
	assert_int_equal(get_one(0, &got), -EBADMSG);
	put_data(0, 1, 5);
	put_inline(0, 2, 12);
	assert_int_equal(get_one(0, &got), -EBADMSG);
	/* Two of them are one after the other. */
	put_inline(0, 1, 12);
	put_inline(0, 2, 5);
	assert_int_equal(get_one(0, &got), 0);
	assert_int_equal(got.length_bytes, 17);
}

static void test_opcodes(void **state)
{
	static const uint8_t known[] = {MLX5_OPCODE_SEND,       MLX5_OPCODE_SEND_IMM,
					MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM,
					MLX5_OPCODE_RDMA_READ,  MLX5_OPCODE_ATOMIC_CS,
					MLX5_OPCODE_ATOMIC_FA};
	uint32_t psns;
	struct mv_wr got;

	(void)state;
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		bool fine = memchr(known, (int)opcode, sizeof(known)) != NULL;
		bool atomic = opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA;
		bool send = opcode == MLX5_OPCODE_SEND || opcode == MLX5_OPCODE_SEND_IMM;

		memset(buf, 0, sizeof(buf));
		put_ctrl(2, (uint8_t)opcode, 0, 4);
		for (unsigned int unit = send ? 1 : atomic ? 3 : 2; unit < 4; unit++)
			put_data(2, unit, 8);
		assert_int_equal(get_one(2, &got), fine ? 0 : -EBADMSG);
		assert_int_equal(mv_mlx5_sq_psns(&ring, QPN, 2, 3, 256, &psns, NULL),
				 fine ? 0 : -EOPNOTSUPP);
	}
	/* With a modifier it is something else. */
	put_write(2, 1, 0);
	buf[2 * 64] = 1;
	assert_int_equal(get_one(2, &got), -EBADMSG);
	/* Too short for its segments; without an address an empty SEND is whole, a WRITE is not. */
	put_ctrl(2, MLX5_OPCODE_SEND, 0, 1);
	assert_int_equal(get_one(2, &got), 0);
	assert_int_equal(got.length_bytes, 0);
	put_ctrl(2, MLX5_OPCODE_RDMA_WRITE, 0, 1);
	assert_int_equal(get_one(2, &got), -EBADMSG);
	put_ctrl(2, MLX5_OPCODE_ATOMIC_FA, 0, 2);
	assert_int_equal(get_one(2, &got), -EBADMSG);
	put_ctrl(2, MLX5_OPCODE_ATOMIC_FA, 0, 3);
	assert_int_equal(get_one(2, &got), -EBADMSG); /* nowhere to put the result */
	/* More entries than the QP has; one of no bytes. */
	put_write(2, MAX_SGE + 1, 0);
	assert_int_equal(get_one(2, &got), -EBADMSG);
	put_write(2, 1, 0);
	put_data(2, 2, 0);
	assert_int_equal(get_one(2, &got), -EBADMSG);
}

static void test_flags_and_atomics(void **state)
{
	struct mlx5_wqe_atomic_seg seg = {.swap_add = htobe64(0x0102030405060708),
					  .compare = htobe64(0x1112131415161718)};
	struct mv_wr got;

	(void)state;
	put_write(1, 1, MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_SOLICITED | MLX5_WQE_CTRL_FENCE);
	assert_int_equal(get_one(1, &got), 0);
	assert_int_equal(got.wr.send_flags,
			 IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE);
	put_ctrl(1, MLX5_OPCODE_ATOMIC_CS, 0, 4);
	put_raddr(1);
	memcpy(at(1, 2), &seg, sizeof(seg));
	put_data(1, 3, 8);
	assert_int_equal(get_one(1, &got), 0);
	assert_true(got.wr.wr.atomic.remote_addr == 0x1122334455667788);
	assert_int_equal(got.wr.wr.atomic.rkey, 0x99aabbcc);
	assert_true(got.wr.wr.atomic.swap == 0x0102030405060708);
	assert_true(got.wr.wr.atomic.compare_add == 0x1112131415161718);
	put_ctrl(1, MLX5_OPCODE_ATOMIC_FA, 0, 4);
	assert_int_equal(get_one(1, &got), 0);
	assert_true(got.wr.wr.atomic.compare_add == 0x0102030405060708);
	put_data(1, 3, 4);
	assert_int_equal(get_one(1, &got), -EBADMSG);
}

/* ---- what completions stand for -----------------------------------------------------------------
 */

static int pass(uint16_t from, uint16_t last, struct mv_mlx5_run *run)
{
	memset(run, 0xee, sizeof(*run));
	return mv_mlx5_sq_pass(&ring, QPN, from, last, 256, run);
}

static void test_pass(void **state)
{
	/* Across the end of the ring and of its counter: two blocks, one, one. */
	uint16_t start = 0xfffd, second = put_write(start, 3, 0), third = put_write(second, 1, 0);
	uint16_t end = put_write(third, 2, 0);
	struct mv_mlx5_run run;

	(void)state;
	assert_int_equal(pass(start, start, &run), 0);
	assert_int_equal(run.psns, 2); /* 300 bytes */
	assert_int_equal(run.consumes, 0);
	assert_int_equal(run.next, second);
	assert_int_equal(pass(start, third, &run), 0);
	assert_int_equal(run.psns, 2 + 1 + 1);
	assert_int_equal(run.next, end);
	assert_int_equal(pass(second, second, &run), 0);
	assert_int_equal(run.psns, 1);
	/* Sizes that are none, or more than there can be. */
	put_ctrl(third, MLX5_OPCODE_RDMA_WRITE, 0, 0);
	assert_int_equal(pass(start, third, &run), -EBADMSG);
	put_ctrl(third, MLX5_OPCODE_RDMA_WRITE, 0, 4 * N_BLOCKS + 1);
	assert_int_equal(pass(start, third, &run), -EBADMSG);
	put_write(third, 2, 0);
	/* In the middle of one; before the first; farther than the ring is large; another QP's. */
	assert_int_equal(pass(start, (uint16_t)(start + 1), &run), -EBADMSG);
	assert_int_equal(pass(second, start, &run), -EBADMSG);
	assert_int_equal(pass(start, (uint16_t)(start + N_BLOCKS), &run), -EBADMSG);
	assert_int_equal(mv_mlx5_sq_pass(&ring, QPN + 1, start, start, 256, &run), -EBADMSG);
	assert_int_equal(mv_mlx5_sq_pass(&ring, QPN + 1, second, second, 256, &run), -EBADMSG);
	/* Used again since, by one of another size, and of the same. */
	put_write((uint16_t)(start + N_BLOCKS), 1, 0);
	assert_int_equal(pass(start, third, &run), -EBADMSG);
	put_write((uint16_t)(second + N_BLOCKS), 1, 0);
	assert_int_equal(pass(second, second, &run), -EBADMSG);
}

/* The quick look says the same as the proper one, or nothing. */
static void test_pass_is_quick(void **state)
{
	static const uint32_t lengths[] = {1, 255, 256, 257, 512, 513, 4097, 0x7fffffff};
	static const uint8_t opcodes[] = {MLX5_OPCODE_SEND,       MLX5_OPCODE_SEND_IMM,
					  MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM,
					  MLX5_OPCODE_RDMA_READ};
	struct mv_mlx5_run run;

	(void)state;
	for (unsigned int i = 0; i < sizeof(opcodes) * 8; i++) {
		uint32_t bytes = lengths[i % 8], psns, consumes;
		bool send = opcodes[i / 8] == MLX5_OPCODE_SEND || opcodes[i / 8] == MLX5_OPCODE_SEND_IMM;

		memset(buf, 0, sizeof(buf));
		put_ctrl(0x1235, opcodes[i / 8], 0, send ? 2 : 3);
		put_data(0x1235, send ? 1 : 2, bytes);
		assert_int_equal(pass(0x1235, 0x1235, &run), 0);
		assert_int_equal(mv_mlx5_sq_psns(&ring, QPN, 0x1235, 0x1236, 256, &psns, &consumes), 0);
		assert_int_equal(run.psns, psns);
		assert_int_equal(run.psns, ((bytes + 255ull) / 256) & 0xffffff);
		assert_int_equal(run.consumes, consumes);
		assert_int_equal(run.consumes, send || opcodes[i / 8] == MLX5_OPCODE_RDMA_WRITE_IMM);
		/* A modifier, flags, another index. */
		buf[0x1235 * 64 % sizeof(buf)] = 1;
		assert_int_equal(pass(0x1235, 0x1235, &run), -EOPNOTSUPP);
		buf[0x1235 * 64 % sizeof(buf)] = 0;
		buf[0x1235 * 64 % sizeof(buf) + 2] ^= 0x40;
		assert_int_equal(pass(0x1235, 0x1235, &run), -EBADMSG);
	}
	/* Nothing to send, an atomic, inline data; what takes no PSN, and what has no size. */
	put_ctrl(4, MLX5_OPCODE_SEND, 0, 1);
	assert_int_equal(pass(4, 4, &run), 0);
	assert_int_equal(run.psns, 1);
	put_ctrl(4, MLX5_OPCODE_ATOMIC_FA, 0, 4);
	put_data(4, 3, 8);
	assert_int_equal(pass(4, 4, &run), 0);
	assert_int_equal(run.psns, 1);
	assert_int_equal(run.consumes, 0);
	put_ctrl(4, MLX5_OPCODE_SEND, 0, 2);
	put_inline(4, 1, 12);
	assert_int_equal(pass(4, 4, &run), 0);
	assert_int_equal(run.psns, 1);
	put_ctrl(4, MLX5_OPCODE_NOP, 0, 1);
	assert_int_equal(pass(4, 4, &run), -EOPNOTSUPP);
	put_ctrl(4, MLX5_OPCODE_NOP, 0, 0);
	assert_int_equal(pass(4, 4, &run), -EBADMSG);
	put_ctrl(4, MLX5_OPCODE_UMR, 0, 3);
	assert_int_equal(pass(4, 4, &run), -EOPNOTSUPP);
	put_ctrl(4, 0x20 | MLX5_OPCODE_SEND, 0, 2);
	put_data(4, 1, 8);
	assert_int_equal(pass(4, 4, &run), -EOPNOTSUPP);
}

static void test_get(void **state)
{
	uint16_t second = put_write(0xfffe, 3, 8), next;
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	struct mv_wr wr;

	(void)state;
	assert_int_equal(mv_mlx5_sq_get(&ring, QPN, 0xfffe, MAX_SGE, MAX_INLINE, sges, data, &wr, &next), 0);
	assert_int_equal(next, second);
	assert_int_equal(wr.wr.num_sge, 3);
	assert_ptr_equal(wr.wr.sg_list, sges);
	assert_int_equal(wr.wr.send_flags, IBV_SEND_SIGNALED);
	assert_int_equal(wr.length_bytes, 300);
	assert_int_equal(mv_mlx5_sq_get(&ring, QPN, 0xfffe, 2, MAX_INLINE, sges, data, &wr, &next), -EBADMSG);
	assert_int_equal(mv_mlx5_sq_get(&ring, QPN, 0xffff, MAX_SGE, MAX_INLINE, sges, data, &wr, &next), -EBADMSG);
}

/* ---- receives, completions ---------------------------------------------------------------------
 */

static void test_receives(void **state)
{
	_Alignas(64) uint8_t rq[4 * 32];
	struct mv_mlx5_ring receives = {rq, 4, 32, dbrec};
	struct mlx5_wqe_data_seg *segs = (struct mlx5_wqe_data_seg *)(void *)rq;
	struct ibv_sge sges[2];

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		mlx5dv_set_data_seg(&segs[2 * i], 100 + i, i, 1000 + i);
		mlx5dv_set_data_seg(&segs[2 * i + 1], i % 2 ? 7 : 0, i % 2 ? 9 : 0x100, 0);
	}
	dbrec[MLX5_RCV_DBR] = htobe32(1);
	assert_int_equal(mv_mlx5_rq_end(&receives), 1);
	/* Two of them, posted before and after the ring's end and the counter's. */
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 3, 0, 2, sges), 1);
	assert_true(sges[0].addr == 1002 && sges[0].length == 102 && sges[0].lkey == 2);
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 3, 1, 2, sges), 2);
	assert_true(sges[0].length == 103 && sges[1].length == 7 && sges[1].lkey == 9);
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 3, 1, 1, sges), 1);
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 3, 2, 2, sges), 1);
	assert_int_equal(sges[0].length, 100);
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 3, 3, 2, sges), -ERANGE);
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 5, 0, 2, sges), -ERANGE);
	assert_int_equal(mv_mlx5_rq_read(&receives, 1, 0, 0, 2, sges), -ERANGE);
}

static struct mlx5_cqe64 cqe_of(uint8_t opcode, uint8_t owner, uint16_t counter)
{
	return (struct mlx5_cqe64){.sop_drop_qpn = htobe32(0x0a000000 | QPN),
				   .wqe_counter = htobe16(counter),
				   .op_own = (uint8_t)(opcode << 4 | owner)};
}

static void test_peek(void **state)
{
	struct mlx5_cqe64 cqes[2][4];
	__be32 index = 0;
	struct mv_mlx5_cqe got;

	(void)state;
	for (unsigned int wide = 0; wide < 2; wide++) {
		struct mv_mlx5_cq cq = {cqes, wide ? 2 : 4, wide ? 128 : 64, &index};
		struct mlx5_cqe64 *flat = &cqes[0][0];
		struct mlx5_cqe64 *first = wide ? &flat[1] : &flat[0];
		struct mlx5_cqe64 *second = wide ? &flat[3] : &flat[1];

		for (unsigned int i = 0; i < 4; i++)
			flat[i] = cqe_of(MLX5_CQE_INVALID, 0, 0);
		index = 0;
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 0, &got), -EAGAIN);
		*first = cqe_of(MLX5_CQE_REQ_ERR, 0, 0xfedc);
		*second = cqe_of(MLX5_CQE_RESP_SEND, 0, 3);
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 0, &got), 0);
		assert_true(got.send && got.error && got.wqe_counter == 0xfedc && got.qpn == QPN);
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 1, &got), 0);
		assert_true(!got.send && !got.error && got.wqe_counter == 3);
		/* Once round: those are of the last turn. */
		index = htobe32(cq.n_cqes);
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 0, &got), -EAGAIN);
		*first = cqe_of(MLX5_CQE_RESP_ERR, 1, 4);
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 0, &got), 0);
		assert_true(!got.send && got.error);
		*first = cqe_of(MLX5_CQE_REQ, 1 | 3 << 2, 4); /* compressed */
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 0, &got), -EBADMSG);
		*first = cqe_of(MLX5_CQE_RESIZE_CQ, 1, 4);
		assert_int_equal(mv_mlx5_cqe_peek(&cq, 0, &got), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_psns),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_pass),
		cmocka_unit_test(test_pass_is_quick),
		cmocka_unit_test(test_get),
		cmocka_unit_test(test_opcodes),
		cmocka_unit_test(test_flags_and_atomics),
		cmocka_unit_test(test_receives),
		cmocka_unit_test(test_peek),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
