/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WREXINT_H
#define MESH_WREXINT_H

#include "postint.h"

/*
 * ibv_wr_*(): the functions of one struct ibv_qp_ex, replaced while its QP is virtual. A batch builds work requests in the places
 * behind the end of the queue; wr_complete() appends them. Hot: no allocation, no system call, no log.
 *
 * If a batch uses an operation that a moved QP lacks (memory windows, invalidation, TSO), wr_complete() fails, as on a device
 * without it. QPs with mlx5's own builders (mlx5dv_wr_*), or those of rdma-core 44 and later (wr_atomic_write, wr_flush), are not
 * intercepted: mesh_mlx5_builds().
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

/* Guarded by vqp->posting.lock; @lower and @installed also by vqp->lock. */
struct mesh_wrex {
#define X(f) __typeof__(((struct ibv_qp_ex *)NULL)->f) f;
	struct { WR_FUNCTIONS(X) } lower;
#undef X
	bool installed;
	/* thread in a batch of the plugin's wr_start; written under posting.lock and vqp->lock */
	_Atomic uintptr_t builder;
	struct mesh_sendq queue; /* copy of vqp->queue at the begin of the batch, with the places of the batch */
	bool left; /* vqp->queue was replaced since, so the batch owns those places; vqp->lock */
	uint32_t end, room, n; /* end of the queue, free places, requests in this batch */
	struct mesh_send *current; /* NULL: none, or the batch has failed */
	int err;
};

/*
 * The plugin's functions may be installed while a thread is in a batch of the lower provider's wr_start
 * (mlx5_wr_walker.h): that batch continues with the lower provider's. Return: the lower provider's functions, for this
 * call; NULL: the batch is the plugin's.
 */
static inline const struct mesh_wrex *of_lower(struct ibv_qp_ex *qp)
{
	struct mesh_vqp *h = mesh_vqp_find(mesh_context_get(qp->qp_base.context), &qp->qp_base);
	const struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_acquire);

	return atomic_load_explicit(&w->builder, memory_order_relaxed) == (uintptr_t)pthread_self() ? NULL : w;
}

#define LEAVE_TO_BASE(f, ...)                                                                               \
	do {                                                                                                 \
		const struct mesh_wrex *lower_ = of_lower(qp);                                                 \
		if (lower_) {                                                                                 \
			lower_->lower.f(qp, ##__VA_ARGS__);                                                    \
			return;                                                                              \
		}                                                                                            \
	} while (0)

/* Only in a batch: the QP is virtual, and this thread holds posting.lock. */
static inline struct mesh_vqp *vqp_of(struct ibv_qp_ex *qp)
{
	return mesh_vqp_find(mesh_context_get(qp->qp_base.context), &qp->qp_base);
}

static inline struct mesh_send *place_of(const struct mesh_wrex *w, uint32_t n)
{
	uint32_t i = w->end + n;

	return (struct mesh_send *)(void *)(w->queue.places + (size_t)(i >= w->queue.size ? i - w->queue.size : i) * w->queue.stride);
}

/* wrexbuild.c: mesh_wr_send() and so on, one per builder of struct ibv_qp_ex. */
#define X(f) __typeof__(*((struct ibv_qp_ex *)NULL)->f) mesh_##f;
WR_BUILDERS(X)
#undef X

#endif
