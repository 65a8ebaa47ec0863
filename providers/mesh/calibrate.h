/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CALIBRATE_H
#define MESH_CALIBRATE_H

#include <stddef.h>

#include "abi.h"

/*
 * Where libibverbs keeps a context's operations. The table that providers hand to verbs_set_ops() is
 * private and changes between releases, in its middle and without a change of the ABI number; so its
 * order is measured on a scratch context.
 */

/* Operations we may replace. */
enum mesh_op {
	MESH_OP_MODIFY_QP,
	MESH_OP_CREATE_AH,
	MESH_OP_ASYNC_EVENT,
	MESH_OP_FREE_CONTEXT,
	MESH_N_OPS,
};

/* Slots of the largest table we are prepared for; rdma-core 64 has 83. */
#define MESH_OPS_MAX 512

struct mesh_calibration {
	size_t context_size; /* bytes of this library's struct verbs_context */
	size_t priv_ops;     /* byte offset of the private copy of the table in verbs_context.priv */
	unsigned int n_known; /* operations that were identified and agree in both places */
	unsigned int slot[MESH_N_OPS]; /* index of each operation in the table */
};

/**
 * mesh_calibrate - measure the layout of a libibverbs
 * @ret: filled on success
 * @why: on failure, a sentence for the operator
 *
 * Works on a scratch context without a device; nothing of it remains. Not thread-safe against itself.
 *
 * Return: 0; -ENOMEM; -ENOTSUP when the library does not behave as every known one does.
 */
int mesh_calibrate(const struct mesh_library *lib, struct mesh_calibration *ret, char *why,
		   size_t why_size);

/**
 * mesh_calibration_context - the public context inside what a base's alloc_context returned
 * @device: the device it was made for
 *
 * Return: the context, or NULL when its size or device is not what was measured.
 */
struct ibv_context *mesh_calibration_context(const struct mesh_calibration *cal, struct verbs_context *start,
					     const struct ibv_device *device);

/**
 * mesh_calibration_op - the function behind an operation of a live context
 *
 * Return: the pointer, NULL when the public and the private place disagree or there is none.
 */
void *mesh_calibration_op(const struct mesh_calibration *cal, const struct ibv_context *context,
			  enum mesh_op op);

#endif
