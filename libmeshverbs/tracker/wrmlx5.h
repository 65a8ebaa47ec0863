/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRMLX5_H
#define MV_WRMLX5_H

#include "wrlog.h"

/*
 * Reads the work of an mlx5 QP from the memory of its queues, as mlx5dv_init_obj() returns them. The queues hold
 * everything except wr_ids, which libmlx5 keeps to itself; completions have these. Each completion names the place of
 * its work request (wqe_counter), and can be read before ibv_poll_cq() takes it.
 *
 * libmlx5 reuses a place only after it has taken the completion of its work request, or of a later one. So before a
 * completion is taken, all work requests that it stands for can still be read, even while others post:
 * mv_mlx5_sq_pass() for successful ones, mv_mlx5_sq_get() and mv_mlx5_rq_read() for the others.
 *
 * A QP that goes to ERR completes every outstanding work request with an error, in order, also unsignaled ones (IBTA
 * 10.3.1). So after the last of these completions, all outstanding work has been read.
 *
 * Pure functions of the queues. The queues are the program's memory: their content is not trusted, nothing outside them
 * is read, and inconsistent content is refused.
 */

/* ---- completions --------------------------------------------------------------------------------------------- */

/* From struct mlx5dv_cq; to be fetched again after ibv_resize_cq(). */
struct mv_mlx5_cq {
	const void *buf;
	uint32_t n_cqes; /* power of two */
	uint32_t cqe_bytes; /* 64 or 128 */
	const __be32 *dbrec; /* [0]: consumer index, 24 bits; libmlx5 writes it at the end of a poll */
};

struct mv_mlx5_cqe {
	uint32_t qpn;
	uint16_t wqe_counter; /* place of the work request: index of its basic block, free-running */
	bool send; /* true: of a send queue; false: of a receive queue */
	bool error; /* flushed or failed */
};

/**
 * mv_mlx5_cqe_peek - read a completion without taking it
 * @ahead: 0: the one that ibv_poll_cq() would return next
 *
 * The caller keeps others from polling between this call and the poll. Compressed completions (mlx5dv_create_cq() with
 * MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) cannot be read.
 *
 * Return: 0; -EAGAIN: there is none; -EBADMSG: unknown kind.
 */
int mv_mlx5_cqe_peek(const struct mv_mlx5_cq *cq, uint32_t ahead, struct mv_mlx5_cqe *ret);

/* ---- send queue ---------------------------------------------------------------------------------------------- */

/* From struct mlx5dv_qp. */
struct mv_mlx5_ring {
	const void *buf;
	uint32_t n_wqes; /* wqe_cnt, power of two. Send queue: basic blocks of 64 bytes; receive queue: work requests */
	uint32_t stride; /* bytes; send queue: 64 */
	const __be32 *dbrec; /* producer indexes, 16 bits: [0]: receive queue, [1]: send queue */
};

/** mv_mlx5_sq_end, mv_mlx5_rq_end - place after the last work request that was posted */
uint16_t mv_mlx5_sq_end(const struct mv_mlx5_ring *ring);
uint16_t mv_mlx5_rq_end(const struct mv_mlx5_ring *ring);

/**
 * mv_mlx5_sq_psns - number of PSNs that a run of work requests takes
 * @from: place of the first
 * @to: place after the last
 * @ret_psns: modulo 2^24
 * @ret_consumes: number that consume a receive of the peer, modulo 2^32; may be NULL
 *
 * Like mv_mlx5_sq_pass(), if the place after the last one is known instead of its own place.
 *
 * Return: 0; -ESTALE: overwritten; -EOPNOTSUPP: one that mv_psn_decide() cannot account for.
 */
int mv_mlx5_sq_psns(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t to,
		    uint32_t mtu_bytes, uint32_t *ret_psns, uint32_t *ret_consumes);

/* Totals of a run of work requests. */
struct mv_mlx5_run {
	uint32_t psns; /* modulo 2^24 */
	uint32_t consumes; /* number that consume a receive of the peer */
	uint16_t next; /* place after the last one */
};

/**
 * mv_mlx5_sq_pass - totals of the work requests that a completion stands for; hot
 * @from: place of the first
 * @last: place of the last: wqe_counter of the completion
 *
 * Call before ibv_poll_cq() takes the completion: until then libmlx5 does not reuse these places, even while others
 * post. So nothing has to be recorded at post time.
 *
 * Return: 0; -EBADMSG: from @from on, no work request of this QP begins at @last; -EOPNOTSUPP: one that mv_psn_decide()
 * cannot account for.
 */
int mv_mlx5_sq_pass(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t last, uint32_t mtu_bytes,
		    struct mv_mlx5_run *ret);

/**
 * mv_mlx5_sq_get - read a work request
 * @at: its place; must not be reused meanwhile
 * @sges: array of @max_sge, becomes ret->wr.sg_list
 * @data: array of @max_inline_bytes, for data of an inline one; both NULL: addresses and data are not wanted
 * @ret: without wr_id
 * @ret_next: place after it
 *
 * Return: 0; -EBADMSG: no work request of this QP begins there, or none that can be posted again.
 */
int mv_mlx5_sq_get(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t at, uint32_t max_sge, uint32_t max_inline_bytes,
		   struct ibv_sge *sges, void *data, struct mv_wr *ret, uint16_t *ret_next);

/* ---- receive queue ------------------------------------------------------------------------------------------- */

/**
 * mv_mlx5_rq_read - read a flushed receive
 * @end: mv_mlx5_rq_end(), or the place of the flush marker
 * @n_flushed: number of receive completions with an error in the drain: these are the last receives posted
 * @i: 0: the oldest of them
 * @max_sge: of the QP
 * @sges: array of @max_sge
 *
 * Its wr_id is in the i-th of these completions. Not for a QP with an SRQ, nor with signed work requests
 * (MLX5_QP_SIGNATURE in the environment).
 *
 * Return: number of entries; -ERANGE: @i or @n_flushed is too large.
 */
int mv_mlx5_rq_read(const struct mv_mlx5_ring *ring, uint16_t end, uint32_t n_flushed, uint32_t i, uint32_t max_sge,
		    struct ibv_sge *sges);

#endif
