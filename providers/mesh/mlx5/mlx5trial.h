/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5TRIAL_H
#define MESH_MLX5TRIAL_H

#include "mlx5take.h"

/**
 * mesh_take_try - do libmlx5 and the plugin consume CQEs with the same results?
 *
 * Two queue pairs of the plugin get the same work and the same CQEs, in a pseudo-random order that is the same each time. libmlx5
 * consumes the CQEs of one, the plugin those of the other, with libmlx5 at times in between. The results (struct ibv_wc), and the
 * words at @places, have to be identical. While libmlx5 consumes one CQE of each kind, five times, no other word of its structs
 * may change more than twice. (Memory behind the structs belongs to others, and changes now and then.)
 *
 * data->lock. Return: 0; -EOPNOTSUPP: the results differ; other -errno: that could not be found out now.
 */
int mesh_take_try(struct mesh_context *mc, const struct mesh_take_places *places);

#endif
