/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5STATE_H
#define MESH_MLX5STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of mlx5 as the base of a context; part of struct mesh_data. mlx5.h has the functions. */

typedef int mesh_init_obj_fn(void *obj, uint64_t obj_type);
struct ibv_qp_ex;
struct mlx5dv_qp_ex;
typedef struct mlx5dv_qp_ex *mesh_qp_ex_fn(struct ibv_qp_ex *qp); /* mlx5dv_qp_ex_from_ibv_qp_ex() */

typedef size_t mesh_usable_size_fn(void *block); /* malloc_usable_size() */

/* Offsets of words in what libmlx5 keeps of a CQ and of a queue pair, from the verbs' part on, in bytes; mlx5take.h. */
struct mesh_take_places {
	uint32_t cq_lock, cq_cons_index;
	uint32_t sq_wrid, sq_wqe_head, sq_tail, rq_wrid, rq_tail;
};

struct mesh_mlx5 {
	/* data->lock */
	enum { MESH_MLX5_UNKNOWN, MESH_MLX5_NO, MESH_MLX5_YES } state;
	const char *why; /* NO: in words */
	enum { MESH_MLX5_NOT_TRIED, MESH_MLX5_SILENT, MESH_MLX5_ANSWERS } copies; /* what is said of a copy of a CQ; data->lock */
	/* mlx5lock.c: which word of a queue pair's structure is the lock of its sends, and what is in it when nobody has it; data->lock */
	enum { MESH_MLX5_LOCK_UNKNOWN, MESH_MLX5_LOCK_NOWHERE, MESH_MLX5_LOCK_FOUND } lock;
	uint32_t lock_at, lock_free, n_lock_failures;
	/* mlx5take.c: can completions be taken in its place? data->lock */
	enum { MESH_MLX5_TAKE_UNKNOWN, MESH_MLX5_TAKE_NEVER, MESH_MLX5_TAKE_FOUND } take;
	uint32_t n_take_failures;
	struct mesh_take_places places;
	/* NULL: nobody has asked yet; if the base is not mlx5, one that only says so. Who finds it first writes it, all find the same. */
	mesh_init_obj_fn *_Atomic init_obj;
	mesh_qp_ex_fn *_Atomic qp_ex; /* NULL: it has none; written before @init_obj, as what follows */
	mesh_usable_size_fn *_Atomic usable_size; /* NULL: nobody says how large a block is */
	_Atomic uintptr_t code_from, code_to; /* where its functions are; 0, 0: that is not known */
};

#endif
