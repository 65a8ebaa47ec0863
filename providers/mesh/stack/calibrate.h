/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CALIBRATE_H
#define MESH_CALIBRATE_H

#include <stddef.h>

#include "abi.h"

/*
 * Where libibverbs keeps a context's operations. The table that providers hand to verbs_set_ops() is
 * private and changes between releases, in its middle and without a change of the ABI number; so its
 * order is measured on a scratch context (scratch.h).
 */

/* Operations we may replace. Those before MESH_OPS_MOVES repair GIDs; the others are for moved connections. */
enum mesh_op {
	MESH_OP_MODIFY_QP,
	MESH_OP_CREATE_AH,
	MESH_OP_ASYNC_EVENT,
	MESH_OP_FREE_CONTEXT,
	MESH_OPS_MOVES,
	MESH_OP_ALLOC_PD = MESH_OPS_MOVES,
	MESH_OP_DEALLOC_PD,
	MESH_OP_ALLOC_PARENT_DOMAIN,
	MESH_OP_REG_MR,
	MESH_OP_REG_DMABUF_MR, /* not in every library; as are the next six */
	MESH_OP_REG_MR_EX,
	MESH_OP_IMPORT_MR,
	MESH_OP_IMPORT_PD,
	MESH_OP_UNIMPORT_PD,
	MESH_OP_SET_ECE,
	MESH_OP_QUERY_ECE,
	MESH_OP_ALLOC_NULL_MR,
	MESH_OP_REG_DM_MR,
	MESH_OP_ALLOC_MW,
	MESH_OP_REREG_MR,
	MESH_OP_DEREG_MR,
	MESH_OP_CREATE_CQ,
	MESH_OP_CREATE_CQ_EX,
	MESH_OP_RESIZE_CQ,
	MESH_OP_DESTROY_CQ,
	MESH_OP_MODIFY_CQ,
	MESH_OP_CQ_EVENT,
	MESH_OP_POLL_CQ,
	MESH_OP_REQ_NOTIFY_CQ,
	MESH_OP_CREATE_SRQ,
	MESH_OP_CREATE_SRQ_EX,
	MESH_OP_MODIFY_SRQ,
	MESH_OP_QUERY_SRQ,
	MESH_OP_DESTROY_SRQ,
	MESH_OP_POST_SRQ_RECV,
	MESH_OP_CREATE_QP,
	MESH_OP_CREATE_QP_EX,
	MESH_OP_OPEN_QP,
	MESH_OP_QUERY_QP,
	MESH_OP_MODIFY_QP_RATE_LIMIT,
	MESH_OP_DESTROY_QP,
	MESH_OP_POST_SEND,
	MESH_OP_POST_RECV,
	MESH_OP_DESTROY_AH,
	MESH_OP_BIND_MW,
	MESH_N_OPS,
};

#define MESH_OP_ABSENT UINT32_MAX

/* Slots of the largest table we are prepared for; rdma-core 64 has 83. */
#define MESH_OPS_MAX 512

struct mesh_calibration {
	size_t context_size; /* bytes of this library's struct verbs_context */
	size_t priv_ops;     /* byte offset of the private copy of the table in verbs_context.priv */
	unsigned int n_known; /* operations that were identified and agree in both places */
	unsigned int slot[MESH_N_OPS]; /* index of each operation in the table; MESH_OP_ABSENT */
	size_t shown[MESH_N_OPS]; /* bytes from the context's start to where it shows, if our header does not know; 0: nowhere */
	char no_moves[96]; /* why connections cannot be moved with this library; "": they can */
};

/**
 * mesh_calibrate - measure the layout of a libibverbs
 * @ret: filled on success
 * @why: on failure, a sentence for the operator
 *
 * Works on a scratch context without a device; nothing of it remains. Not thread-safe against itself.
 *
 * An operation that only moves need and that is not found is absent, and then there are no moves.
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

/**
 * mesh_calibration_confirm - check on an open context what could only be inferred
 * @context: as ibv_open_device() returned it
 *
 * create_cq_ex is called by no exported function, only by one whose address the library puts into a context once the
 * provider has made it. That function is called on a scratch context. Not thread-safe against itself or
 * mesh_calibrate().
 *
 * Return: 0; -ENOMEM; -ENOTSUP when it calls another operation than was inferred.
 */
int mesh_calibration_confirm(const struct mesh_library *lib, const struct mesh_calibration *cal,
			     const struct ibv_context *context);

/**
 * mesh_calibration_lacks - does the library have no such operation, so that there is nothing to replace?
 *
 * False for one that it has, found or not.
 */
bool mesh_calibration_lacks(const struct mesh_library *lib, enum mesh_op op);

/**
 * mesh_op_name - the field name of an operation
 */
const char *mesh_op_name(enum mesh_op op);

#endif
