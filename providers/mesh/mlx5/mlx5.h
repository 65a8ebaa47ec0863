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
 * Access to mlx5's objects (mlx5dv_init_obj()), if mlx5 is the base; part of struct mesh_data. The plugin does not link libmlx5:
 * it looks the function up in the object that has the base's functions.
 *
 * mlx5dv_init_obj() on a CQ has a side effect. From then on libmlx5 assumes that the caller polls the CQ itself. It then leaves
 * completions of destroyed QPs in the CQ, so that the next ibv_poll_cq() fails. The mark for that is in libmlx5's own struct. So
 * the plugin passes a copy of the struct, and the program's CQ is never marked. Whether a copy gives the same answer is tried on
 * a CQ of the plugin; if not, no CQ of the program is asked for.
 */

/* mlx5's struct of a CQ has some 500 bytes in rdma-core 28 to 64, that of a queue pair less than 1,500. */
#define MESH_MLX5_BYTES 2048u

/**
 * mesh_mlx5_is_base - is mlx5 the base?
 *
 * The first call asks the dynamic linker, so it must be made without locks: the linker may wait for constructors and destructors
 * of the program, which may call any function.
 */
bool mesh_mlx5_is_base(struct mesh_context *mc);

/** mesh_mlx5_known - may the functions below be called? Checked once per context; data->lock, after mesh_mlx5_is_base(). */
bool mesh_mlx5_known(struct mesh_context *mc);

/**
 * mesh_mlx5_is_taken - has the program called mlx5dv_init_obj() for a CQ? data->lock, after mesh_mlx5_is_base()
 *
 * Then the program polls the CQ itself, and posts by itself, too, which the plugin does not see. Return: false also if that can
 * never be found out; true if it cannot be now, for lack of descriptors or memory.
 */
bool mesh_mlx5_is_taken(struct mesh_context *mc, const struct ibv_cq *cq);

/**
 * mesh_mlx5_cq - find the buffer of a CQ; call again after a resize; the caller excludes a resize meanwhile
 *
 * Return: 0; -EBUSY: the program asked for it before, and may poll by itself; -EOPNOTSUPP: not as wrmlx5.h needs it; -errno.
 */
int mesh_mlx5_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mv_mlx5_cq *ret);

/**
 * mesh_mlx5_cq_is_unused - has a CQ never had a completion? data->lock, after mesh_mlx5_is_base(); the caller excludes a resize
 * meanwhile
 *
 * Return: false also if that is not known.
 */
bool mesh_mlx5_cq_is_unused(struct mesh_context *mc, struct ibv_cq *cq);

/** mesh_mlx5_qp - find a queue pair's queues. Return: 0; -EOPNOTSUPP: not as wrmlx5.h needs them; -errno. */
int mesh_mlx5_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mv_mlx5_ring *ret_sq, struct mv_mlx5_ring *ret_rq);

/**
 * mesh_mlx5_copy - copy libmlx5's struct of an object
 * @obj: of the verbs, and of libmlx5
 *
 * The allocator tells the size; the rest of @ret is zero.
 *
 * Return: 0; -EOPNOTSUPP: the size is not known, or larger than any known one; -errno.
 */
int mesh_mlx5_copy(const struct mesh_mlx5 *m, const void *obj, char ret[MESH_MLX5_BYTES]);

/** mesh_mlx5_peek - copy a few bytes from memory that may not be mapped. Return: 0; -EFAULT: not mapped; -errno. */
int mesh_mlx5_peek(const void *from, void *ret, size_t n);

/**
 * mesh_mlx5_builds - was the queue pair made for mlx5dv_wr_*() (mlx5dv_create_qp() with send_ops_flags), or on any base for
 * ibv_wr_atomic_write() or ibv_wr_flush()? After mesh_mlx5_is_base()
 *
 * Such functions of the base write to the queue directly, and cannot be intercepted.
 */
bool mesh_mlx5_builds(struct mesh_context *mc, struct ibv_qp *qp);

/* Lock of a queue pair's send queue in libmlx5, held from ibv_wr_start() to the end of the batch. The plugin only reads it. */
struct mesh_mlx5_lock {
	const uint32_t *word; /* in libmlx5's struct; NULL: no ibv_wr_*(), so the lock is never held for long */
	uint32_t free; /* value of the word when the lock is free */
};

/**
 * mesh_mlx5_sq_lock - find that lock; data->lock, if mesh_mlx5_known()
 *
 * Return: 0, also for a queue pair without ibv_wr_*(); -EOPNOTSUPP: not known.
 */
int mesh_mlx5_sq_lock(struct mesh_context *mc, struct ibv_qp *qp, struct mesh_mlx5_lock *ret);

/** mesh_mlx5_is_locked - is the lock held? Any thread; the queue pair is alive. */
bool mesh_mlx5_is_locked(const struct mesh_mlx5_lock *lock);

#endif
