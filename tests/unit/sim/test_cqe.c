/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completions as the public header of mlx5 direct verbs reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "cqe.h"

static struct mlx5_cqe64 encode(const struct cqe_fields *f, unsigned int owner)
{
	struct mlx5_cqe64 c;
	uint8_t buf[64];

	cqe_encode(f, owner, buf);
	memcpy(&c, buf, sizeof(c));
	return c;
}

static void send_completion(void **state)
{
	struct cqe_fields f = {.op = MLX5_CQE_REQ,
			       .wqe_opcode = MLX5_OPCODE_RDMA_READ,
			       .qpn = 0xabcdef,
			       .uidx = 0x123456,
			       .wqe_counter = 0xfffe,
			       .byte_cnt = 70000,
			       .timestamp = 1ull << 40};
	struct mlx5_cqe64 c = encode(&f, 1);

	(void)state;
	assert_int_equal(mlx5dv_get_cqe_opcode(&c), MLX5_CQE_REQ);
	assert_int_equal(mlx5dv_get_cqe_owner(&c), 1);
	assert_int_equal(be32toh(c.sop_drop_qpn), (uint32_t)MLX5_OPCODE_RDMA_READ << 24 | 0xabcdef);
	assert_int_equal(be32toh(c.srqn_uidx), 0x123456);
	assert_int_equal(be16toh(c.wqe_counter), 0xfffe);
	assert_int_equal(be32toh(c.byte_cnt), 70000);
	assert_true(be64toh(c.timestamp) == 1ull << 40);
}

static void receive_completion(void **state)
{
	struct cqe_fields f = {.op = MLX5_CQE_RESP_SEND_IMM,
			       .qpn = 0x40,
			       .uidx = 3,
			       .byte_cnt = 100,
			       .src_qpn = 0x777,
			       .grh = true,
			       .l3_type = MLX5_CQE_L3_HDR_TYPE_IPV4,
			       .imm = htobe32(0xdeadbeef)};
	struct mlx5_cqe64 c = encode(&f, 0);

	(void)state;
	assert_int_equal(mlx5dv_get_cqe_opcode(&c), MLX5_CQE_RESP_SEND_IMM);
	assert_int_equal(mlx5dv_get_cqe_owner(&c), 0);
	assert_int_equal(mlx5dv_get_cqe_format(&c), 0);
	assert_int_equal(be32toh(c.imm_inval_pkey), 0xdeadbeef);
	assert_int_equal(be32toh(c.flags_rqpn) & 0xffffff, 0x777);
	assert_int_equal(be32toh(c.flags_rqpn) >> 28 & 3, 1);
	assert_int_equal(be32toh(c.flags_rqpn) >> 24 & 3, MLX5_CQE_L3_HDR_TYPE_IPV4);
}

static void error_completion(void **state)
{
	struct cqe_fields f = {.op = MLX5_CQE_REQ_ERR,
			       .wqe_opcode = MLX5_OPCODE_SEND,
			       .qpn = 0x99,
			       .uidx = 0x55,
			       .wqe_counter = 17,
			       .syndrome = MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR,
			       .vendor_syndrome = 0x81};
	struct mlx5_err_cqe e;
	uint8_t buf[64];

	(void)state;
	cqe_encode(&f, 1, buf);
	memcpy(&e, buf, sizeof(e));
	assert_int_equal(e.op_own, MLX5_CQE_REQ_ERR << 4 | 1);
	assert_int_equal(e.syndrome, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(e.vendor_err_synd, 0x81);
	assert_int_equal(be32toh(e.srqn), 0x55);
	assert_int_equal(be32toh(e.s_wqe_opcode_qpn), (uint32_t)MLX5_OPCODE_SEND << 24 | 0x99);
	assert_int_equal(be16toh(e.wqe_counter), 17);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_completion),
		cmocka_unit_test(receive_completion),
		cmocka_unit_test(error_completion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
