/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Work requests as the public header of mlx5 direct verbs writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "wqe.h"

#define BBS 4
#define QPN 0x1234

static uint8_t buf[BBS * WQE_BB] __attribute__((aligned(64)));
static const struct wqe_ring ring = {.buf = buf, .n_bbs = BBS};

/* Segment number @unit of the request at @index, wrapped as the library wraps it. */
static void *seg(uint16_t index, uint32_t unit)
{
	return buf + (index * 4 + unit) % (BBS * 4) * WQE_UNIT;
}

static void ctrl(uint16_t index, uint8_t opcode, uint8_t ds, uint8_t flags)
{
	mlx5dv_set_ctrl_seg(seg(index, 0), index, opcode, 0, QPN, flags, ds, 0,
			    htobe32(0x11223344));
}

static void raddr(uint16_t index)
{
	struct mlx5_wqe_raddr_seg r = {.raddr = htobe64(0x1000), .rkey = htobe32(0xabc)};

	memcpy(seg(index, 1), &r, sizeof(r));
}

static struct send_wqe decode(uint16_t index, uint16_t avail, enum wqe_transport t)
{
	struct send_wqe w;

	wqe_decode(&ring, index, avail, QPN, t, &w);
	return w;
}

static int setup(void **state)
{
	(void)state;
	memset(buf, 0, sizeof(buf));
	return 0;
}

static void write_with_two_segments(void **state)
{
	struct send_wqe w;
	struct wqe_seg s;
	uint8_t unit;

	(void)state;
	ctrl(0, MLX5_OPCODE_RDMA_WRITE_IMM, 4, MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_SOLICITED);
	raddr(0);
	mlx5dv_set_data_seg(seg(0, 2), 100, 7, 0x2000);
	mlx5dv_set_data_seg(seg(0, 3), 28, 8, 0x3000);
	w = decode(0, 1, WQE_CONNECTED);
	assert_int_equal(w.error, 0);
	assert_int_equal(w.opcode, MLX5_OPCODE_RDMA_WRITE_IMM);
	assert_true(w.signaled && w.solicited);
	assert_int_equal(w.n_bbs, 1);
	assert_int_equal(w.raddr, 0x1000);
	assert_int_equal(w.rkey, 0xabc);
	assert_int_equal(w.length, 128);
	assert_int_equal(w.imm, htobe32(0x11223344));
	unit = w.data;
	assert_true(wqe_next_seg(&ring, &w, &unit, &s));
	assert_int_equal(s.lkey, 7);
	assert_true(wqe_next_seg(&ring, &w, &unit, &s));
	assert_int_equal(s.addr, 0x3000);
	assert_false(wqe_next_seg(&ring, &w, &unit, &s));
}

/* Starts in the last block of the ring and goes on in the first. */
static void inline_data_wraps(void **state)
{
	uint8_t text[100], out[100];
	struct send_wqe w;
	struct wqe_seg s;
	uint8_t unit, *p;
	__be32 head = htobe32(100 | MLX5_INLINE_SEG);

	(void)state;
	for (int i = 0; i < 100; i++)
		text[i] = (uint8_t)i;
	ctrl(7, MLX5_OPCODE_SEND, 8, 0);
	p = seg(7, 1);
	memcpy(p, &head, 4);
	memcpy(p + 4, text, 44); /* to the end of the ring */
	memcpy(buf, text + 44, 56);
	w = decode(7, 2, WQE_CONNECTED);
	assert_int_equal(w.error, 0);
	assert_int_equal(w.n_bbs, 2);
	assert_int_equal(w.length, 100);
	assert_false(w.signaled);
	unit = w.data;
	assert_true(wqe_next_seg(&ring, &w, &unit, &s));
	wqe_copy_inline(&ring, &s, 0, 100, out);
	assert_memory_equal(out, text, 100);
	wqe_copy_inline(&ring, &s, 50, 10, out);
	assert_memory_equal(out, text + 50, 10);
}

static void atomic_operands(void **state)
{
	struct mlx5_wqe_atomic_seg a = {.swap_add = htobe64(5), .compare = htobe64(6)};
	struct send_wqe w;

	(void)state;
	ctrl(0, MLX5_OPCODE_ATOMIC_CS, 4, 0);
	raddr(0);
	memcpy(seg(0, 2), &a, sizeof(a));
	mlx5dv_set_data_seg(seg(0, 3), 8, 9, 0x4000);
	w = decode(0, 1, WQE_CONNECTED);
	assert_int_equal(w.error, 0);
	assert_int_equal(w.swap_add, 5);
	assert_int_equal(w.compare, 6);
	assert_int_equal(w.length, 8);
}

static void datagram_address(void **state)
{
	struct mlx5_wqe_av av = {.dqp_dct = htobe32(0x80000777),
				 .rlid = htobe16(0xc123),
				 .hop_limit = 3,
				 .grh_gid_fl = htobe32(9u << 20 | 0x54321)};
	struct send_wqe w;

	(void)state;
	av.key.qkey.qkey = htobe32(0x11111111);
	memcpy(av.rmac, "\2\3\4\5\6\7", 6);
	memset(av.rgid, 0x5a, 16);
	ctrl(0, MLX5_OPCODE_SEND, 5, 0);
	memcpy(seg(0, 1), &av, sizeof(av));
	mlx5dv_set_data_seg(seg(1, 0), 10, 1, 0);
	w = decode(0, 2, WQE_DATAGRAM);
	assert_int_equal(w.error, 0);
	assert_int_equal(w.av.dest_qpn, 0x777);
	assert_int_equal(w.av.qkey, 0x11111111);
	assert_int_equal(w.av.udp_sport, 0xc123);
	assert_int_equal(w.av.sgid_index, 9);
	assert_int_equal(w.av.flow_label, 0x54321);
	assert_int_equal(w.av.hop_limit, 3);
	assert_memory_equal(w.av.dmac, "\2\3\4\5\6\7", 6);
	assert_int_equal(w.length, 10);
}

static void malformed_ones_are_errors(void **state)
{
	struct send_wqe w;

	(void)state;
	ctrl(0, MLX5_OPCODE_SEND_INVAL, 2, 0); /* an opcode that is not supported */
	assert_int_equal(decode(0, 1, WQE_CONNECTED).error, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	ctrl(0, MLX5_OPCODE_SEND, 8, 0); /* longer than what was posted */
	w = decode(0, 1, WQE_CONNECTED);
	assert_int_equal(w.error, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	assert_int_equal(w.n_bbs, 1);
	ctrl(0, MLX5_OPCODE_SEND, 0, 0); /* shorter than its control segment */
	assert_int_equal(decode(0, 1, WQE_CONNECTED).error, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	ctrl(1, MLX5_OPCODE_SEND, 1, 0); /* for another place in the ring */
	memcpy(buf, seg(1, 0), WQE_UNIT);
	assert_int_equal(decode(0, 1, WQE_CONNECTED).error, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	ctrl(0, MLX5_OPCODE_RDMA_WRITE, 4, 0); /* on a datagram queue pair */
	assert_int_equal(decode(0, 1, WQE_DATAGRAM).error, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	ctrl(0, MLX5_OPCODE_SEND, 2, 0); /* inline data that does not fit in the request */
	memcpy(seg(0, 1), "\x80\x00\x01\x00", 4);
	assert_int_equal(decode(0, 1, WQE_CONNECTED).error, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
}

static void receive_list_ends_at_the_invalid_key(void **state)
{
	struct wqe_seg s[4];

	(void)state;
	mlx5dv_set_data_seg((void *)buf, 10, 1, 0x1000);
	mlx5dv_set_data_seg((void *)(buf + 16), 20, 2, 0x2000);
	mlx5dv_set_data_seg((void *)(buf + 32), 0, WQE_INVALID_LKEY, 0);
	assert_int_equal(wqe_recv_segs(buf, 4, s), 2);
	assert_int_equal(s[1].len, 20);
	assert_int_equal(s[1].lkey, 2);
	assert_int_equal(wqe_recv_segs(buf, 1, s), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(write_with_two_segments, setup),
		cmocka_unit_test_setup(inline_data_wraps, setup),
		cmocka_unit_test_setup(atomic_operands, setup),
		cmocka_unit_test_setup(datagram_address, setup),
		cmocka_unit_test_setup(malformed_ones_are_errors, setup),
		cmocka_unit_test_setup(receive_list_ends_at_the_invalid_key, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
