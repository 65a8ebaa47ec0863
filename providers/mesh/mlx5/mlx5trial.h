/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5TRIAL_H
#define MESH_MLX5TRIAL_H

#include "mlx5take.h"

/**
 * mesh_take_try - do libmlx5 and the plugin consume CQEs with the same results?
 *
 * Two queue pairs of the plugin get the same work and the same CQEs, in a pseudo-random order that is the same each time.
 * libmlx5 polls one queue pair's CQ. Of the polls of the other CQ, libmlx5 does a random quarter, and the plugin the rest. The
 * results (struct ibv_wc), and the words at @places, have to be identical.
 *
 * First libmlx5 consumes five CQEs of each kind, one by one. In these five, no other word of its structs may change more than
 * twice. (Changes are tolerated because the copies may have memory of others: mesh_mlx5_copy().)
 *
 * data->lock. Return: 0; -EOPNOTSUPP: the results differ; -EAGAIN: another word changed, try again; other -errno: that could
 * not be found out now.
 */
int mesh_take_try(struct mesh_context *mc, const struct mesh_take_places *places);

#endif
