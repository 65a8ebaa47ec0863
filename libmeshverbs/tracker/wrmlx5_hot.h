/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRMLX5_HOT_H
#define MV_WRMLX5_HOT_H

#include <endian.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "wrmlx5.h"

/*
 * Part of wrmlx5.h that runs for every completion. Hot: no allocation, no system call. Inline, because calls would be
 * half of the cost.
 */

#define MV_MLX5_CONSUMER_BITS 0xffffffu

/** mv_mlx5_consumer - index of the completion that ibv_poll_cq() would return next, 24 bits */
static inline uint32_t mv_mlx5_consumer(const struct mv_mlx5_cq *cq)
{
	return be32toh(__atomic_load_n(&cq->dbrec[0], __ATOMIC_RELAXED));
}

/* Place of the completion at @index. */
static inline const struct mlx5_cqe64 *mv_mlx5_cqe_place(const struct mv_mlx5_cq *cq, uint32_t index)
{
	const char *end = (const char *)cq->buf + ((size_t)(index & (cq->n_cqes - 1)) + 1) * cq->cqe_bytes;

	return (const struct mlx5_cqe64 *)(const void *)(end - sizeof(struct mlx5_cqe64));
}

/** mv_mlx5_is_invalid - has the device never written to the place of @index? */
static inline bool mv_mlx5_is_invalid(const struct mv_mlx5_cq *cq, uint32_t index)
{
	return __atomic_load_n(&mv_mlx5_cqe_place(cq, index)->op_own, __ATOMIC_ACQUIRE) >> 4 == MLX5_CQE_INVALID;
}

/** mv_mlx5_cqe_is_there - has the device written the completion of @index? @cqe: mv_mlx5_cqe_place() of @index */
static inline bool mv_mlx5_cqe_is_there(const struct mv_mlx5_cq *cq, const struct mlx5_cqe64 *cqe, uint32_t index)
{
	/* The device writes this byte last. */
	uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	return (op_own & MLX5_CQE_OWNER_MASK) == !!(index & cq->n_cqes) && op_own >> 4 != MLX5_CQE_INVALID;
}

/** mv_mlx5_cqe_at - the completion at @index, in the queue; NULL: not there yet */
static inline const struct mlx5_cqe64 *mv_mlx5_cqe_at(const struct mv_mlx5_cq *cq, uint32_t index)
{
	const struct mlx5_cqe64 *cqe = mv_mlx5_cqe_place(cq, index);

	return mv_mlx5_cqe_is_there(cq, cqe, index) ? cqe : NULL;
}

/** mv_mlx5_cqe_good - is the completion successful, and of a known kind? */
static inline bool mv_mlx5_cqe_good(const struct mlx5_cqe64 *cqe)
{
	return cqe->op_own >> 4 <= MLX5_CQE_RESP_SEND_INV && (cqe->op_own & 12) != 12;
}

/** mv_mlx5_cqe_sent - is it a successful completion of a send? Its opcode, MLX5_CQE_REQ, is 0. */
static inline bool mv_mlx5_cqe_sent(const struct mlx5_cqe64 *cqe)
{
	return cqe->op_own < 12; /* 12: compressed */
}

/** mv_mlx5_cqe_qpn - QPN of a completion */
static inline uint32_t mv_mlx5_cqe_qpn(const struct mlx5_cqe64 *cqe)
{
	return be32toh(cqe->sop_drop_qpn) & 0xffffff;
}

/* Fast path for work requests with one entry, which are most. They do not wrap, because places are aligned to 64 bytes. */

/**
 * mv_mlx5_pass_one - add the work request at run->next, if it has one entry
 * @ret_opcode: mlx5's opcode
 *
 * Return: false: another kind; nothing was done, and pass_one() in wrmlx5.c has to read it.
 */
static inline bool mv_mlx5_pass_one(const struct mv_mlx5_ring *ring, uint32_t qpn, uint32_t mtu_bytes, struct mv_mlx5_run *run,
				    uint32_t *ret_opcode)
{
	/* By opcode: size in units of 16 bytes with one entry; 0: not handled here. High bit: consumes a receive. */
	static const uint8_t kinds[32] = {
		[MLX5_OPCODE_SEND] = 2 | 0x80,
		[MLX5_OPCODE_SEND_IMM] = 2 | 0x80,
		[MLX5_OPCODE_RDMA_WRITE] = 3,
		[MLX5_OPCODE_RDMA_WRITE_IMM] = 3 | 0x80,
		[MLX5_OPCODE_RDMA_READ] = 3,
	};
	const char *place = (const char *)ring->buf + (size_t)(run->next & (ring->n_wqes - 1)) * 64;
	const struct mlx5_wqe_ctrl_seg *ctrl = (const struct mlx5_wqe_ctrl_seg *)(const void *)place;
	uint32_t what = be32toh(ctrl->opmod_idx_opcode) ^ (uint32_t)run->next << 8, bytes;
	unsigned int kind, units;

	/* Checks: no modifier, the place's own index, one of the first 32 opcodes; then this QP, and the size of one entry. */
	if (what > 31)
		return false;
	kind = kinds[what];
	units = kind & 0x7f;
	if (!units || be32toh(ctrl->qpn_ds) != (qpn << 8 | units))
		return false;
	memcpy(&bytes, place + (units - 1) * 16, sizeof(bytes));
	bytes = be32toh(bytes) - 1;
	if (bytes >= MLX5_INLINE_SEG - 1)
		return false; /* inline, or 2^31 bytes long */
	run->psns += (bytes >> __builtin_ctz(mtu_bytes)) + 1;
	run->consumes += kind >> 7;
	run->next++;
	*ret_opcode = what;
	return true;
}

#endif
