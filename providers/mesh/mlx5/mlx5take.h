/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5TAKE_H
#define MESH_MLX5TAKE_H

#include "mlx5.h"
#include "ranks.h"
#include "wrmlx5_hot.h"

/*
 * Consumes CQEs in libmlx5's place, as libmlx5's ibv_poll_cq() does: under libmlx5's lock of the CQ, with its consumer index,
 * its wr_ids, and its counts of completed work requests. The reason is time: a thread that has read a CQE to count PSNs has
 * done most of a poll, and libmlx5 would do that work again.
 *
 * These words have no documented place. The plugin finds them on queues of its own, with CQEs that it writes itself
 * (mlx5find.c). It then checks that consuming a CQE changes exactly these words, by exactly these rules (mlx5trial.c).
 * Otherwise libmlx5 consumes the CQEs.
 *
 * Only plain CQEs are consumed: successful, without inline scatter, not compressed, and no receives of an SRQ.
 */

/*
 * Values of a pthread_spinlock_t (one word) when free and when taken. On x86, glibc decrements the word to take the lock, and
 * waits until the word is positive. On other architectures, glibc exchanges the word, and waits until it was 0.
 * mesh_take_find() checks the values. Calls of pthread_spin_trylock() and pthread_spin_unlock() would take a tenth of a poll.
 */
#if defined(__x86_64__) || defined(__i386__)
#define MESH_SPIN_FREE  1u
#define MESH_SPIN_TAKEN 0u
#else
#define MESH_SPIN_FREE  0u
#define MESH_SPIN_TAKEN 1u
#endif

/* Words of a CQ. All NULL: libmlx5 polls the CQ. */
struct mesh_take_cq {
	uint32_t *lock; /* pthread_spinlock_t; guards @cons_index, and the tails of the queue pairs of this CQ */
	uint32_t *cons_index; /* consumer index, 32 bits */
};

/* Words of a queue pair. All NULL: libmlx5 consumes its CQEs. */
struct mesh_take_qp {
	const uint64_t *sq_wrid; /* indexed by WQE, as @rq_wrid */
	const uint32_t *sq_wqe_head; /* indexed by WQE: serial number of the work request, from 0 */
	uint32_t *sq_tail, *rq_tail; /* number of completed work requests */
	const uint64_t *rq_wrid;
};

/**
 * mesh_take_open_cq, mesh_take_open_qp - find the words of a CQ, of a new queue pair
 * @ret: all NULL if the words are not known; otherwise valid until the object is destroyed
 *
 * data->lock, if mesh_mlx5_known(). The first call takes some milliseconds.
 */
void mesh_take_open_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mesh_take_cq *ret);
void mesh_take_open_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mesh_take_qp *ret);

/** mesh_take_words_cq, mesh_take_words_qp - the words of an object at known places. Any thread. */
void mesh_take_words_cq(struct ibv_cq *cq, const struct mesh_take_places *places, struct mesh_take_cq *ret);
void mesh_take_words_qp(struct ibv_qp *qp, const struct mesh_take_places *places, struct mesh_take_qp *ret);

/**
 * mesh_take_find - find the places of these words in libmlx5's structs, on queues of the plugin; mlx5find.c
 *
 * data->lock, if mesh_mlx5_known(). Return: 0; -EOPNOTSUPP: this libmlx5 works in another way; other -errno: the places could
 * not be found now.
 */
int mesh_take_find(struct mesh_context *mc, struct mesh_take_places *ret);

/* ---- hot: no allocation, no system call, no log ----------------------------------------------------------------- */

/**
 * mesh_take_begin - take libmlx5's lock of the CQ
 * @at: mv_mlx5_consumer(), as the caller read it before
 *
 * Return: false: another thread is polling, or has polled since; the lock is not taken.
 */
static inline bool mesh_take_begin(const struct mesh_take_cq *take, uint32_t at)
{
	uint32_t is_free = MESH_SPIN_FREE;

	if (!__atomic_compare_exchange_n(take->lock, &is_free, MESH_SPIN_TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	if (((*take->cons_index ^ at) & MV_MLX5_CONSUMER_BITS) == 0) {
		mv_lock_taken(take->lock, MESH_CLASS(MLX5_CQ), MV_LOCK_HERE);
		return true;
	}
	__atomic_store_n(take->lock, MESH_SPIN_FREE, __ATOMIC_RELEASE);
	return false;
}

/** mesh_take_end - release the lock; @n CQEs were consumed */
static inline void mesh_take_end(const struct mesh_take_cq *take, const struct mv_mlx5_cq *cq, uint32_t n)
{
	uint32_t next = *take->cons_index + n;

	*take->cons_index = next;
	/* The device may overwrite these CQEs from now on. */
	__atomic_store_n((__be32 *)cq->dbrec, htobe32(next & MV_MLX5_CONSUMER_BITS), __ATOMIC_RELEASE);
	mv_lock_given(take->lock);
	__atomic_store_n(take->lock, MESH_SPIN_FREE, __ATOMIC_RELEASE);
}

/* What the opcode in the CQE of a send means. */
struct mesh_take_kind {
	uint8_t known; /* 0: libmlx5 consumes such CQEs */
	uint8_t opcode, flags; /* enum ibv_wc_opcode, ibv_wc_flags */
	uint8_t bytes; /* byte_len; 0: byte_len is not written */
};

#define MESH_TAKE_CQE_BYTES 0xff /* value of @bytes: byte_len is in the CQE */

/** mesh_take_kind_of - look up mlx5's opcode of a send: sop_drop_qpn >> 24 of the CQE */
static inline struct mesh_take_kind mesh_take_kind_of(uint32_t opcode)
{
	static const struct mesh_take_kind kinds[32] = {
		[MLX5_OPCODE_SEND] = {1, IBV_WC_SEND, 0, 0},
		[MLX5_OPCODE_SEND_IMM] = {1, IBV_WC_SEND, IBV_WC_WITH_IMM, 0},
		[MLX5_OPCODE_RDMA_WRITE] = {1, IBV_WC_RDMA_WRITE, 0, 0},
		[MLX5_OPCODE_RDMA_WRITE_IMM] = {1, IBV_WC_RDMA_WRITE, IBV_WC_WITH_IMM, 0},
		[MLX5_OPCODE_RDMA_READ] = {1, IBV_WC_RDMA_READ, 0, MESH_TAKE_CQE_BYTES},
		[MLX5_OPCODE_ATOMIC_CS] = {1, IBV_WC_COMP_SWAP, 0, 8},
		[MLX5_OPCODE_ATOMIC_FA] = {1, IBV_WC_FETCH_ADD, 0, 8},
	};

	return opcode < 32 ? kinds[opcode] : kinds[31];
}

/** mesh_take_plain_send, mesh_take_plain_receive - is this a successful CQE of a send, of a receive, without inline data? */
static inline bool mesh_take_plain_send(const struct mlx5_cqe64 *cqe)
{
	return cqe->op_own < 4; /* MLX5_CQE_REQ is 0; the owner and solicited bits may be set */
}

static inline bool mesh_take_plain_receive(const struct mlx5_cqe64 *cqe)
{
	return !(cqe->op_own & 12) && (uint8_t)((cqe->op_own >> 4) - MLX5_CQE_RESP_WR_IMM) <= MLX5_CQE_RESP_SEND_INV - MLX5_CQE_RESP_WR_IMM;
}

/**
 * mesh_take_send_tail - compute sq_tail after a CQE
 * @at: wqe_counter of the CQE
 *
 * Return: false: impossible value, so the words are not what they seem.
 */
static inline bool mesh_take_send_tail(const struct mesh_take_qp *take, uint32_t n_wqes, uint16_t at, uint32_t *ret)
{
	*ret = take->sq_wqe_head[at & (n_wqes - 1)] + 1;
	return *ret - *take->sq_tail - 1 < n_wqes;
}

/**
 * mesh_take_sent - consume the CQE of a send, except for byte_len
 * @place: index of the WQE
 * @tail: of mesh_take_send_tail()
 * @wc: only wr_id, status, opcode, qp_num and wc_flags are written, as in libmlx5
 */
static inline void mesh_take_sent(const struct mesh_take_qp *take, uint32_t place, uint32_t qpn, struct mesh_take_kind kind, uint32_t tail,
				  struct ibv_wc *wc)
{
	wc->wr_id = take->sq_wrid[place];
	wc->status = IBV_WC_SUCCESS;
	wc->opcode = kind.opcode;
	wc->qp_num = qpn;
	wc->wc_flags = kind.flags;
	/* The poster may reuse the WQE from now on. */
	__atomic_store_n(take->sq_tail, tail, __ATOMIC_RELEASE);
}

/** mesh_take_send - consume the CQE of a send: mesh_take_sent(), and byte_len */
static inline void mesh_take_send(const struct mesh_take_qp *take, uint32_t n_wqes, const struct mlx5_cqe64 *cqe,
				  struct mesh_take_kind kind, uint32_t tail, struct ibv_wc *wc)
{
	if (kind.bytes)
		wc->byte_len = kind.bytes == MESH_TAKE_CQE_BYTES ? be32toh(cqe->byte_cnt) : kind.bytes;
	mesh_take_sent(take, be16toh(cqe->wqe_counter) & (n_wqes - 1), be32toh(cqe->sop_drop_qpn) & 0xffffff, kind, tail, wc);
}

/** mesh_take_receive - consume the CQE of a plain receive, not of an SRQ */
static inline void mesh_take_receive(const struct mesh_take_qp *take, uint32_t n_wqes, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	uint32_t who = be32toh(cqe->flags_rqpn), imm = be32toh(cqe->imm_inval_pkey);
	unsigned int kind = cqe->op_own >> 4;

	wc->wr_id = take->rq_wrid[be16toh(cqe->wqe_counter) & (n_wqes - 1)];
	wc->status = IBV_WC_SUCCESS;
	wc->opcode = kind == MLX5_CQE_RESP_WR_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	wc->byte_len = be32toh(cqe->byte_cnt);
	wc->qp_num = be32toh(cqe->sop_drop_qpn) & 0xffffff;
	wc->src_qp = who & 0xffffff;
	wc->wc_flags = who >> 28 & 3 ? IBV_WC_GRH : 0;
	if (kind == MLX5_CQE_RESP_SEND_INV) {
		wc->wc_flags |= IBV_WC_WITH_INV;
		wc->invalidated_rkey = imm;
	} else if (kind != MLX5_CQE_RESP_SEND) {
		wc->wc_flags |= IBV_WC_WITH_IMM;
		wc->imm_data = cqe->imm_inval_pkey;
	}
	wc->pkey_index = imm & 0xffff;
	wc->slid = be16toh(cqe->slid);
	wc->sl = who >> 24 & 0xf;
	wc->dlid_path_bits = cqe->ml_path & 0x7f;
	__atomic_store_n(take->rq_tail, *take->rq_tail + 1, __ATOMIC_RELEASE);
}

#endif
