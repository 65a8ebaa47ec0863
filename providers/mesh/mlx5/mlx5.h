/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5_H
#define MESH_MLX5_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx5state.h"
#include "wrmlx5.h"

struct mesh_context;

/*
 * Reads mlx5's CQs and queue pairs by mlx5dv_init_obj(), if mlx5 is the lower provider. The state is in struct mesh_data. The
 * plugin does not link libmlx5: it looks the function up in the shared object that has the lower provider's functions.
 *
 * mlx5dv_init_obj() on a CQ has a side effect: libmlx5 marks the CQ in its own struct. From then on libmlx5 assumes that the
 * caller polls the CQ itself, and leaves CQEs of destroyed queue pairs in the CQ. The next ibv_poll_cq() then fails. So the
 * plugin passes a copy of the struct, and the program's CQ is never marked. Whether a copy gives the same answer is tried on a
 * CQ of the plugin. If it does not, mlx5dv_init_obj() is called for no CQ of the program.
 */

/* In rdma-core 28 to 64, libmlx5's struct of a CQ has 584 to 616 bytes, and that of a queue pair 856 to 992. */
#define MESH_MLX5_BYTES 2048u

/**
 * mesh_mlx5_is_lower - is mlx5 the lower provider?
 *
 * Any thread. The first call for a context asks the dynamic linker, so it must be made without locks: the linker may wait for
 * constructors and destructors of the program, which may call any function.
 */
bool mesh_mlx5_is_lower(struct mesh_context *mc);

/**
 * mesh_mlx5_known - can the queues of this context be read? data->lock, after mesh_mlx5_is_lower()
 *
 * If not, mesh_mlx5_cq(), mesh_mlx5_qp() and mesh_mlx5_sq_lock() must not be called. The first answer is kept and logged. The
 * exception is a shortage of descriptors or memory: the answer is false, and the next call tries again.
 */
bool mesh_mlx5_known(struct mesh_context *mc);

/**
 * mesh_mlx5_is_taken - has the program called mlx5dv_init_obj() for a CQ? data->lock, after mesh_mlx5_is_lower()
 *
 * Such a program polls the CQ itself, and also posts itself, which the plugin does not see.
 *
 * Return: false also if that can never be found out; true also if it cannot be found out now, for lack of descriptors or
 * memory.
 */
bool mesh_mlx5_is_taken(struct mesh_context *mc, const struct ibv_cq *cq);

/**
 * mesh_mlx5_cq - find the buffer of a CQ
 * @ret: valid until the CQ is resized or destroyed
 *
 * Any thread, if mesh_mlx5_known(); the caller excludes a resize meanwhile.
 *
 * Return: 0; -EBUSY: the program has called mlx5dv_init_obj() for the CQ, and may poll it itself; -EOPNOTSUPP: the buffer is
 * not as wrmlx5.h needs it; other -errno.
 */
int mesh_mlx5_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mv_mlx5_cq *ret);

/**
 * mesh_mlx5_cq_is_unused - has the CQ never had a CQE? data->lock, after mesh_mlx5_is_lower()
 *
 * The caller excludes a resize meanwhile. Return: false also if that is not known.
 */
bool mesh_mlx5_cq_is_unused(struct mesh_context *mc, struct ibv_cq *cq);

/**
 * mesh_mlx5_qp - find the send queue and the receive queue of a queue pair
 * @ret_sq, @ret_rq: valid until the queue pair is destroyed; n_wqes is 0 if there is no such queue
 *
 * Any thread, if mesh_mlx5_known(). Return: 0; -EOPNOTSUPP: the queues are not as wrmlx5.h needs them.
 */
int mesh_mlx5_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mv_mlx5_ring *ret_sq, struct mv_mlx5_ring *ret_rq);

/**
 * mesh_mlx5_copy - copy libmlx5's struct of a CQ or queue pair, from the verbs' part on
 * @obj: the verbs' part: a struct ibv_cq or ibv_qp that libmlx5 made
 *
 * malloc_usable_size() tells how much is copied: the block of memory that has the struct, so a few bytes behind the struct are
 * copied, too. If an allocator tells too large a size, the copy has memory of others. The rest of @ret is zero. Any thread,
 * after mesh_mlx5_is_lower().
 *
 * Return: 0; -EOPNOTSUPP: the size is not known, or MESH_MLX5_BYTES or more; other -errno.
 */
int mesh_mlx5_copy(const struct mesh_mlx5 *m, const void *obj, char ret[MESH_MLX5_BYTES]);

/**
 * mesh_mlx5_builds - can the program post to the queue pair by functions that the plugin cannot intercept?
 *
 * These functions of the lower provider write to the send queue directly: mlx5dv_wr_*() of a queue pair that was made by
 * mlx5dv_create_qp() with send_ops_flags, and with any lower provider ibv_wr_atomic_write() and ibv_wr_flush(). Any thread,
 * after mesh_mlx5_is_lower().
 */
bool mesh_mlx5_builds(struct mesh_context *mc, struct ibv_qp *qp);

/* libmlx5's lock of a send queue, held from ibv_wr_start() to the end of the batch. The plugin only reads the lock. */
struct mesh_mlx5_lock {
	const uint32_t *word; /* in libmlx5's struct; NULL: the QP has no ibv_wr_*(), so the lock is never held for long */
	uint32_t free; /* value of the word when the lock is free */
};

/**
 * mesh_mlx5_sq_lock - find the lock of a queue pair's send queue; data->lock, if mesh_mlx5_known()
 *
 * Return: 0, also for a queue pair without ibv_wr_*(); -EOPNOTSUPP: the lock cannot be found; other -errno: not now, for lack
 * of memory or descriptors.
 */
int mesh_mlx5_sq_lock(struct mesh_context *mc, struct ibv_qp *qp, struct mesh_mlx5_lock *ret);

/** mesh_mlx5_is_locked - is the lock held? Any thread; the caller keeps the queue pair alive. */
bool mesh_mlx5_is_locked(const struct mesh_mlx5_lock *lock);

#endif
