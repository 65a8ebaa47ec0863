/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5STATE_H
#define MESH_MLX5STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of mlx5 as the lower provider of a context; part of struct mesh_data. Functions: mlx5.h. */

typedef int mesh_init_obj_fn(void *obj, uint64_t obj_type);
struct ibv_qp_ex;
struct mlx5dv_qp_ex;
typedef struct mlx5dv_qp_ex *mesh_qp_ex_fn(struct ibv_qp_ex *qp); /* mlx5dv_qp_ex_from_ibv_qp_ex() */

typedef size_t mesh_usable_size_fn(void *block); /* malloc_usable_size() */

struct mesh_mlx5 {
	/* data->lock */
	enum { MESH_MLX5_UNKNOWN, MESH_MLX5_NO, MESH_MLX5_YES } state;
	const char *why; /* reason for NO */
	enum { MESH_MLX5_NOT_TRIED, MESH_MLX5_SILENT, MESH_MLX5_ANSWERS } copies; /* can a copy of a CQ be asked for? data->lock */
	/* mlx5lock.c: offset of the lock of the send queue in a queue pair's struct, and its value when free; data->lock */
	enum { MESH_MLX5_LOCK_UNKNOWN, MESH_MLX5_LOCK_NOWHERE, MESH_MLX5_LOCK_FOUND } lock;
	uint32_t lock_at, lock_free, n_lock_failures;
	/*
	 * NULL: not looked up yet; if the lower provider is not mlx5, a stub that says so. All threads find the same.
	 */
	mesh_init_obj_fn *_Atomic init_obj;
	mesh_qp_ex_fn *_Atomic qp_ex; /* NULL: there is none; written before @init_obj, as the next ones */
	mesh_usable_size_fn *_Atomic usable_size; /* NULL: the size of a block is not known */
	_Atomic uintptr_t code_from, code_to; /* address range of its functions; 0, 0: not known */
};

#endif
