/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WREXINT_H
#define MESH_WREXINT_H

#include "postint.h"

/*
 * ibv_wr_*(): the functions of one struct ibv_qp_ex, replaced while its QP is held. Work requests are built in the places
 * behind the end of the queue and become part of it with wr_complete(). Hot: no allocation, no system call, no log.
 *
 * What a moved QP cannot do (memory windows, invalidation, segmentation) makes wr_complete() fail as on a device that does
 * not have it. A QP that has mlx5's own builders (mlx5dv_wr_*), or those that rdma-core 44 and later have (wr_atomic_write, wr_flush), is none
 * of ours: mesh_mlx5_builds().
 */

#define WR_BUILDERS(X)                                                                                       \
	X(wr_atomic_cmp_swp)                                                                                 \
	X(wr_atomic_fetch_add)                                                                               \
	X(wr_bind_mw)                                                                                        \
	X(wr_local_inv)                                                                                      \
	X(wr_rdma_read)                                                                                      \
	X(wr_rdma_write)                                                                                     \
	X(wr_rdma_write_imm)                                                                                 \
	X(wr_send)                                                                                           \
	X(wr_send_imm)                                                                                       \
	X(wr_send_inv)                                                                                       \
	X(wr_send_tso)                                                                                       \
	X(wr_set_ud_addr)                                                                                    \
	X(wr_set_xrc_srqn)                                                                                   \
	X(wr_set_inline_data)                                                                                \
	X(wr_set_inline_data_list)                                                                           \
	X(wr_set_sge)                                                                                        \
	X(wr_set_sge_list)

#define WR_FUNCTIONS(X)                                                                                      \
	WR_BUILDERS(X)                                                                                       \
	X(wr_complete)                                                                                       \
	X(wr_abort)                                                                                          \
	X(wr_start)

/* Under held->post_lock; base and installed also under held->lock. */
struct mesh_wrex {
#define X(f) __typeof__(((struct ibv_qp_ex *)NULL)->f) f;
	struct { WR_FUNCTIONS(X) } base;
#undef X
	bool installed;
	_Atomic uintptr_t builder; /* thread in a batch that our wr_start began; written under post_lock and held->lock */
	struct mesh_sendq queue; /* with the places that the batch builds in: held->queue as it began */
	bool left; /* held->queue is another one since, and those places are the batch's own; held->lock */
	uint32_t end, room, n; /* end of the queue, free places, requests of this batch */
	struct mesh_send *current; /* NULL: none, or the batch has failed */
	int err;
};

/*
 * Ours may be put in while a thread is in a batch that the base's wr_start began (reader.h): that goes on with the base's.
 * Return: the base's functions, for this call; NULL: the batch is ours.
 */
static inline const struct mesh_wrex *of_base(struct ibv_qp_ex *qp)
{
	struct mesh_held *h = mesh_held_find(mesh_context_get(qp->qp_base.context), &qp->qp_base);
	const struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_acquire);

	return atomic_load_explicit(&w->builder, memory_order_relaxed) == (uintptr_t)pthread_self() ? NULL : w;
}

#define LEAVE_TO_BASE(f, ...)                                                                               \
	do {                                                                                                 \
		const struct mesh_wrex *base_ = of_base(qp);                                                 \
		if (base_) {                                                                                 \
			base_->base.f(qp, ##__VA_ARGS__);                                                    \
			return;                                                                              \
		}                                                                                            \
	} while (0)

/* Only between wr_start and the end of a batch, so the QP is held and post_lock is ours. */
static inline struct mesh_held *held_of(struct ibv_qp_ex *qp)
{
	return mesh_held_find(mesh_context_get(qp->qp_base.context), &qp->qp_base);
}

static inline struct mesh_send *place_of(const struct mesh_wrex *w, uint32_t n)
{
	uint32_t i = w->end + n;

	return (struct mesh_send *)(void *)(w->queue.places + (size_t)(i >= w->queue.size ? i - w->queue.size : i) * w->queue.stride);
}

/* mesh_wr_send() and the like, one for each of these of struct ibv_qp_ex: wrexbuild.c */
#define X(f) __typeof__(*((struct ibv_qp_ex *)NULL)->f) mesh_##f;
WR_BUILDERS(X)
#undef X

#endif
