/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRMLX5_H
#define MV_WRMLX5_H

#include "wrlog.h"

/*
 * The work of an mlx5 QP, read from the memory of its queues: what mlx5dv_init_obj() gives. They hold everything but the wr_ids, which
 * libmlx5 keeps to itself; these come with the completions. Each completion names the place of its work request (wqe_counter), and
 * can be looked at before ibv_poll_cq() takes it.
 *
 * libmlx5 counts a place as free when it takes the completion of its work request, or of one behind it. So who looks at a completion
 * before it is taken finds all that it stands for, whoever posts meanwhile: mv_mlx5_sq_pass() for those that were
 * successful, mv_mlx5_sq_get() and mv_mlx5_rq_read() for those that were not.
 *
 * A QP that goes to ERR completes every outstanding work request with an error, unsignaled ones, too, in order (IBTA 10.3.1); so
 * with the last of these all has been read.
 *
 * Pure functions over the queues. These are the program's memory: nothing in them is trusted, a reader never leaves them, and what
 * does not fit is refused.
 */

/* ---- completions --------------------------------------------------------------------------------------------- */

/* From struct mlx5dv_cq; to be fetched anew after ibv_resize_cq(). */
struct mv_mlx5_cq {
	const void *buf;
	uint32_t n_cqes; /* power of two */
	uint32_t cqe_bytes; /* 64 or 128 */
	const __be32 *dbrec; /* [0]: consumer index, 24 bits; libmlx5 writes it when a poll ends */
};

struct mv_mlx5_cqe {
	uint32_t qpn;
	uint16_t wqe_counter; /* place of the work request: basic block of its queue, free-running */
	bool send; /* of a send queue; else of a receive queue */
	bool error; /* flushed or failed */
};

/**
 * mv_mlx5_cqe_peek - look at a completion without taking it
 * @ahead: 0: the one that ibv_poll_cq() would give next
 *
 * The caller keeps others from polling between this and the poll. Compressed completions (mlx5dv_create_cq() with
 * MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE) cannot be looked at.
 *
 * Return: 0; -EAGAIN: there is none; -EBADMSG: of a kind that is not known.
 */
int mv_mlx5_cqe_peek(const struct mv_mlx5_cq *cq, uint32_t ahead, struct mv_mlx5_cqe *ret);

/* ---- send queue ---------------------------------------------------------------------------------------------- */

/* From struct mlx5dv_qp. */
struct mv_mlx5_ring {
	const void *buf;
	uint32_t n_wqes; /* wqe_cnt, power of two: send queue: basic blocks of 64 bytes, receive queue: work requests */
	uint32_t stride; /* bytes; send queue: 64 */
	const __be32 *dbrec; /* [0]: receive queue's, [1]: send queue's producer index, 16 bits */
};

/** mv_mlx5_sq_end, mv_mlx5_rq_end - place behind the last work request that was posted */
uint16_t mv_mlx5_sq_end(const struct mv_mlx5_ring *ring);
uint16_t mv_mlx5_rq_end(const struct mv_mlx5_ring *ring);

/**
 * mv_mlx5_sq_psns - PSNs that a run of work requests takes
 * @from: place of the first
 * @to: place behind the last
 * @ret_psns: modulo 2^24
 * @ret_consumes: those among them that consume a receive of the peer, modulo 2^32; may be NULL
 *
 * As mv_mlx5_sq_pass(), for a run whose end is known, and not where its last one begins.
 *
 * Return: 0; -ESTALE: overwritten; -EOPNOTSUPP: one that mv_psn_judge() cannot account for.
 */
int mv_mlx5_sq_psns(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t to,
		    uint32_t mtu_bytes, uint32_t *ret_psns, uint32_t *ret_consumes);

/* What a run of work requests adds up to. */
struct mv_mlx5_run {
	uint32_t psns; /* modulo 2^24 */
	uint32_t consumes; /* those among them that consume a receive of the peer */
	uint16_t next; /* place behind the last of them */
};

/**
 * mv_mlx5_sq_pass - what those that a completion stands for add up to; hot
 * @from: place of the first
 * @last: place of the last one: wqe_counter of the completion
 *
 * To be called before ibv_poll_cq() takes that completion: until then none of these places is used again, whoever posts
 * meanwhile, because libmlx5 counts them as free only when it has taken it. So nothing is missed, and nothing has to be noted when
 * it is posted.
 *
 * Return: 0; -EBADMSG: from @from on, no work request of this QP begins at @last; -EOPNOTSUPP: one that mv_psn_judge() cannot
 * account for.
 */
int mv_mlx5_sq_pass(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t last, uint32_t mtu_bytes,
		    struct mv_mlx5_run *ret);

/**
 * mv_mlx5_sq_get - one work request
 * @at: its place; not used again meanwhile
 * @sges: array of @max_sge, for ret->wr.sg_list
 * @data: array of @max_inline_bytes bytes, for the data of an inline one; both NULL: what it does is not wanted, only what it is
 * @ret: without wr_id
 * @ret_next: place behind it
 *
 * Return: 0; -EBADMSG: none of this QP begins there, or none that can be posted again.
 */
int mv_mlx5_sq_get(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t at, uint32_t max_sge, uint32_t max_inline_bytes,
		   struct ibv_sge *sges, void *data, struct mv_wr *ret, uint16_t *ret_next);

/* ---- receive queue ------------------------------------------------------------------------------------------- */

/**
 * mv_mlx5_rq_read - one of the receives that were flushed
 * @end: mv_mlx5_rq_end(), or the place of the marker
 * @n_flushed: completions of the receive queue with an error that the fence drained: they are the last ones posted
 * @i: 0: the oldest of them
 * @max_sge: of the QP
 * @sges: array of @max_sge
 *
 * The wr_id is that of the i-th of these completions. Not for a QP with an SRQ, nor for one whose work requests are
 * signed (MLX5_QP_SIGNATURE in the environment).
 *
 * Return: number of entries; -ERANGE: @i or @n_flushed is too large.
 */
int mv_mlx5_rq_read(const struct mv_mlx5_ring *ring, uint16_t end, uint32_t n_flushed, uint32_t i, uint32_t max_sge,
		    struct ibv_sge *sges);

#endif
