/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRMLX5_H
#define MV_WRMLX5_H

#include "wrlog.h"

/*
 * Outstanding work read back from the memory of an mlx5 QP that is in ERR: what mlx5dv_init_obj() gives. The rings hold
 * everything but the wr_ids, which libmlx5 keeps to itself; these come with the completions.
 *
 * A QP that goes to ERR completes every outstanding work request with an error, unsignaled ones, too, in order (IBTA
 * 10.3.1). Each completion names the place of its work request in the ring (wqe_counter; mv_mlx5_cqe_peek() reads it from the
 * CQ, before ibv_poll_cq() takes it and tells the wr_id). So the order of things is:
 *
 *   1. QP to ERR
 *   2. one more work request is posted to each of its queues, a marker, whose completion comes last (a queue that has no
 *      room for one has something outstanding: then the flush is through when mv_mlx5_sq_flushed() says so of a completion)
 *   3. for each completion until the markers': mv_mlx5_cqe_peek(), ibv_poll_cq(cq, 1, &wc)
 *   4. mv_mlx5_sq_read() with those of this QP's send queue, and mv_mlx5_rq_read() with those of its receive queue; the
 *      markers' places are where they end
 *
 * Pure functions over the rings, which must not change meanwhile. The rings are the program's memory: nothing in them
 * is trusted, a reader never leaves them, and what does not fit is refused.
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

/* A completion of the QP's own, as the fence drained it. */
struct mv_mlx5_done {
	uint64_t wr_id;
	uint16_t wqe_counter;
	bool error;
};

struct mv_mlx5_place {
	uint64_t wr_id;
	uint16_t index; /* where it starts */
	bool named;
};

/* An implementation of struct mv_wrlog. */
struct mv_mlx5_sq {
	struct mv_wrlog log; /* &sq->log is what wrlog.h takes */
	struct mv_mlx5_ring ring;
	uint32_t qpn;
	struct mv_mlx5_place *places; /* @n, oldest first */
	size_t n;
	size_t n_done; /* that many of them have completed successfully: n_done of struct mv_psn_view */
};

/** mv_mlx5_sq_end, mv_mlx5_rq_end - place behind the last work request that was posted */
uint16_t mv_mlx5_sq_end(const struct mv_mlx5_ring *ring);
uint16_t mv_mlx5_rq_end(const struct mv_mlx5_ring *ring);

/** mv_mlx5_sq_flushed - is the work request at @wqe_counter the last one that was posted? */
bool mv_mlx5_sq_flushed(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t wqe_counter);

/**
 * mv_mlx5_sq_read - what was outstanding
 * @ring: valid until mv_mlx5_sq_fini(), and until then nothing may be posted
 * @done: completions of the send queue that the fence drained, in their order, successful ones of before the flush
 * included: array of @n_done; none: nothing was outstanding
 * @max_sge, @max_inline_bytes: of the QP
 * @end: the place of the marker; without one mv_mlx5_sq_end(), once mv_mlx5_sq_flushed() has said so
 *
 * Reads from the first one's place to @end. What is before the first error is done, and if there is none, everything: a
 * queue completes in order, and unsignaled work requests that were successful have no completion.
 *
 * Return: 0; -ENOMEM; -EBADMSG: a place that does not hold a work request of this QP; -EPROTO: completions are not of
 * places in this order, a successful one comes after an error, or one that has to be there is not: completions were
 * lost. Nothing may be replayed then.
 */
int mv_mlx5_sq_read(struct mv_mlx5_sq *sq, const struct mv_mlx5_ring *ring, uint32_t qpn, uint32_t max_sge,
		    uint32_t max_inline_bytes, uint16_t end, const struct mv_mlx5_done *done, size_t n_done);
void mv_mlx5_sq_fini(struct mv_mlx5_sq *sq); /* zeroed or read */

/**
 * mv_mlx5_sq_psns - PSNs that a run of work requests takes
 * @from: place of the first
 * @to: place behind the last
 * @ret_psns: modulo 2^24
 * @ret_consumes: those among them that consume a receive of the peer, modulo 2^32; may be NULL
 *
 * For work requests that may be completed, as long as their places have not been used again. Posting keeps no account
 * of PSNs; who calls this before the queue has gone round once, again and again, has the PSN of the first outstanding
 * work request when it is needed. That is not checked beyond the index that each work request carries: one that is
 * overwritten is noticed, unless 65,536 basic blocks were posted in between.
 *
 * Return: 0; -ESTALE: overwritten; -EOPNOTSUPP: one that mv_psn_judge() cannot account for.
 */
int mv_mlx5_sq_psns(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t to,
		    uint32_t mtu_bytes, uint32_t *ret_psns, uint32_t *ret_consumes);

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
