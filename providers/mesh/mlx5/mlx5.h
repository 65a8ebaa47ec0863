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
 * What mlx5 shows of its objects (mlx5dv_init_obj()), if that is the base; part of struct mesh_data. The plugin does not link
 * libmlx5: the function is looked for in the object that the base's own functions lie in.
 *
 * To ask for a CQ has a price: from then on libmlx5 takes it for one that its caller polls himself, and leaves the completions of a QP that
 * is destroyed in it, which makes the next ibv_poll_cq() fail. It notes that in its own structure. So a copy of that is what it is
 * asked for, and the program's CQ is never marked, whoever destroys a QP meanwhile. Whether that says the same is tried on a CQ of ours; if
 * not, no CQ of the program is asked for.
 */

/* mlx5's structure of a CQ has some 500 bytes in rdma-core 28 to 64, that of a queue pair less than 1,500. */
#define MESH_MLX5_BYTES 2048u

/**
 * mesh_mlx5_is_base - is the base mlx5?
 *
 * Asks the loader the first time. So that first time is to be without locks: the loader waits for programs' constructors and
 * destructors, and these may call anything.
 */
bool mesh_mlx5_is_base(struct mesh_context *mc);

/** mesh_mlx5_known - find out, once for each context; data->lock, behind mesh_mlx5_is_base(). Return: whether the following can be called */
bool mesh_mlx5_known(struct mesh_context *mc);

/**
 * mesh_mlx5_is_taken - did the program ask where the completions of a CQ are? data->lock, behind mesh_mlx5_is_base()
 *
 * Then it polls them itself, and posts as well: nothing of that is seen here. Return: false also where that can never be told, true where
 * it cannot be for want of descriptors or memory.
 */
bool mesh_mlx5_is_taken(struct mesh_context *mc, const struct ibv_cq *cq);

/**
 * mesh_mlx5_cq - where the completions of a CQ are; again after it was resized; nobody resizes it meanwhile
 *
 * Return: 0; -EBUSY: the program asked for it before, and may poll by itself; -EOPNOTSUPP: not as wrmlx5.h wants it; -errno
 */
int mesh_mlx5_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mv_mlx5_cq *ret);

/**
 * mesh_mlx5_cq_is_unused - has a CQ never had a completion? data->lock, behind mesh_mlx5_is_base(); nobody resizes it meanwhile
 *
 * Return: false also where that is not known.
 */
bool mesh_mlx5_cq_is_unused(struct mesh_context *mc, struct ibv_cq *cq);

/** mesh_mlx5_qp - where its queues are; 0; -EOPNOTSUPP: not as wrmlx5.h wants them, -errno */
int mesh_mlx5_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mv_mlx5_ring *ret_sq, struct mv_mlx5_ring *ret_rq);

/**
 * mesh_mlx5_copy - the structure that libmlx5 keeps of an object
 * @obj: of the verbs, and of libmlx5
 *
 * How large that is the allocator says; the rest is zeros.
 *
 * Return: 0; -EOPNOTSUPP: how large it is is not known, or larger than any known one; -errno.
 */
int mesh_mlx5_copy(const struct mesh_mlx5 *m, const void *obj, char ret[MESH_MLX5_BYTES]);

/** mesh_mlx5_peek - @n bytes, few, of memory that may not be there; 0 or -errno, -EFAULT if it is not */
int mesh_mlx5_peek(const void *from, void *ret, size_t n);

/**
 * mesh_mlx5_builds - was it made for work requests of mlx5dv_wr_*() (mlx5dv_create_qp() with send_ops_flags), or with any base for
 *	ibv_wr_atomic_write() or ibv_wr_flush()? Behind mesh_mlx5_is_base()
 *
 * These are functions of the base's own, which put them into its own queue, and are not seen here.
 */
bool mesh_mlx5_builds(struct mesh_context *mc, struct ibv_qp *qp);

/* The lock that libmlx5 has of a queue pair's sends, from ibv_wr_start() to the end of the batch: to be looked at, not to be taken. */
struct mesh_mlx5_lock {
	const uint32_t *word; /* of libmlx5's structure of the queue pair; NULL: it has no ibv_wr_*(), so nobody has it for long */
	uint32_t free; /* what is there when nobody has it */
};

/**
 * mesh_mlx5_sq_lock - where it is; data->lock, if mesh_mlx5_known()
 *
 * Return: 0, also for a queue pair without ibv_wr_*(); -EOPNOTSUPP: that is not known
 */
int mesh_mlx5_sq_lock(struct mesh_context *mc, struct ibv_qp *qp, struct mesh_mlx5_lock *ret);

/** mesh_mlx5_is_locked - does somebody have it? Any thread; the queue pair is alive */
bool mesh_mlx5_is_locked(const struct mesh_mlx5_lock *lock);

#endif
