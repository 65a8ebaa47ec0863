/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion queue elements of mlx5, written. Layout: <infiniband/mlx5dv.h>. Pure. */
#ifndef SIM_CQE_H
#define SIM_CQE_H

#include <stdbool.h>
#include <stdint.h>

struct cqe_fields {
	uint8_t op; /* MLX5_CQE_REQ, MLX5_CQE_RESP_*, MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_ERR,
		       MLX5_CQE_RESIZE_CQ */
	uint8_t wqe_opcode; /* MLX5_OPCODE_* of a send */
	uint32_t qpn;
	uint32_t uidx;
	uint16_t wqe_counter;
	uint32_t byte_cnt;
	uint32_t imm; /* as on the wire */
	uint64_t timestamp;
	uint8_t syndrome, vendor_syndrome; /* with the *_ERR ones */
	/* receive completions */
	uint32_t src_qpn;
	bool grh;
	uint8_t sl;
	uint16_t slid;
	uint8_t l3_type; /* MLX5_CQE_L3_HDR_TYPE_* */
};

/** cqe_encode() - the 64 bytes of @f with the owner bit @owner (0 or 1) into @ret. */
void cqe_encode(const struct cqe_fields *f, unsigned int owner, uint8_t ret[64]);

#endif
