/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5_H
#define MESH_MLX5_H

#include <stdbool.h>
#include <stddef.h>

#include "wrmlx5.h"

struct mesh_context;

/*
 * What mlx5 shows of its objects (mlx5dv_init_obj()), if that is the base; part of struct mesh_data. The plugin does not link
 * libmlx5: the function is looked for in the object that the base's own functions lie in.
 *
 * To ask for a CQ has a price: from then on libmlx5 takes it for one that its caller polls himself, and leaves the completions of a QP that
 * is destroyed in it, which makes the next ibv_poll_cq() fail. It notes that in a bit of its own structure. Which bit it is can
 * be seen on a CQ of ours, and on the program's CQ the bit is then put back. If it cannot be told for sure, no CQ of the
 * program is asked for.
 */
struct mesh_mlx5 {
	enum { MESH_MLX5_UNKNOWN, MESH_MLX5_NO, MESH_MLX5_YES } state;
	const char *why; /* NO: in words */
	int (*init_obj)(void *obj, uint64_t obj_type); /* NULL: the base is not mlx5, or nobody has asked yet */
	size_t mark_at; /* offset from the struct ibv_cq; multiple of 4 */
	uint32_t mark; /* one bit */
};

/** mesh_mlx5_is_base - is the base mlx5? data->lock */
bool mesh_mlx5_is_base(struct mesh_context *mc);

/** mesh_mlx5_known - find out, once for each context; data->lock. Return: whether the following can be called */
bool mesh_mlx5_known(struct mesh_context *mc);

/** mesh_mlx5_cq - where the completions of a CQ are; again after it was resized; data->lock or poll_lock. 0 or -errno */
int mesh_mlx5_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mv_mlx5_cq *ret);

/** mesh_mlx5_qp - where its queues are; 0; -EOPNOTSUPP: not as wrmlx5.h wants them, -errno */
int mesh_mlx5_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mv_mlx5_ring *ret_sq, struct mv_mlx5_ring *ret_rq);

#endif
