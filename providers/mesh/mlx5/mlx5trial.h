/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5TRIAL_H
#define MESH_MLX5TRIAL_H

#include "mlx5take.h"

/**
 * mesh_take_try - is it the same, whether libmlx5 takes completions or we do?
 *
 * Two queue pairs of ours are given the same work and the same completions, in a random order that is the same each time. libmlx5 takes
 * those of the one, and we those of the other, or at times libmlx5 again. What is said of each has to be the same, to the last byte; so
 * have the words be that are found at @places; and when libmlx5 takes one, of each kind five times, no other word of what it keeps may
 * change more than twice: what lies behind is somebody else's, and changes now and then.
 *
 * data->lock. Return: 0; -EOPNOTSUPP: it is not; other -errno: that could not be found out now.
 */
int mesh_take_try(struct mesh_context *mc, const struct mesh_take_places *places);

#endif
