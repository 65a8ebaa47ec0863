/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CALIBRATE_H
#define MESH_CALIBRATE_H

#include <stddef.h>

#include "abi.h"

/*
 * Finds where libibverbs keeps the operations of a context. Providers pass a table of operations to verbs_set_ops(). That table
 * is private, and releases add operations in its middle without a new ABI number. So its order is measured on a scratch context
 * (scratch.h).
 */

/*
 * Operations that the plugin may replace. Those before MESH_OPS_MOVES repair GIDs; those from there on are for moved connections,
 * up to MESH_OPS_STAND_IN; the rest shows a port that is down as active.
 */
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
	MESH_OP_REG_DMABUF_MR, /* this and the next six: not in every library */
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
	MESH_OPS_STAND_IN,
	MESH_OP_QUERY_PORT = MESH_OPS_STAND_IN,
	MESH_N_OPS,
};

#define MESH_OP_ABSENT UINT32_MAX

/* Slots of the largest table that can be measured; rdma-core 64 has 83. */
#define MESH_OPS_MAX 512

struct mesh_calibration {
	size_t context_size; /* bytes of this library's struct verbs_context */
	size_t priv_ops;     /* byte offset of the private copy of the table in *verbs_context.priv */
	unsigned int n_known; /* number of operations that were found and passed all checks */
	unsigned int slot[MESH_N_OPS]; /* index of each operation in the table; MESH_OP_ABSENT: not found */
	size_t shown[MESH_N_OPS]; /* public place that the plugin's headers do not know: byte offset in the context; 0: none */
	char no_moves[96]; /* why connections cannot be moved with this library; "": they can be moved */
};

/**
 * mesh_calibrate - measure the layout of a libibverbs
 * @ret: filled on success
 * @why: on failure, a sentence for the operator
 *
 * Works on a scratch context without a device, and destroys that context. An operation that only moves need may be missing:
 * then the slot is MESH_OP_ABSENT, and @ret->no_moves says so. Not thread-safe against itself or mesh_calibration_confirm().
 *
 * Return: 0; -ENOMEM; -ENOTSUP: the library behaves unlike all known ones.
 */
int mesh_calibrate(const struct mesh_library *lib, struct mesh_calibration *ret, char *why,
		   size_t why_size);

/**
 * mesh_calibration_context - find the public struct ibv_context in a context of a lower provider
 * @start: as the provider's alloc_context() returned it
 * @device: of the context
 *
 * Any thread. Return: the context; NULL: another size than measured, or another device.
 */
struct ibv_context *mesh_calibration_context(const struct mesh_calibration *cal, struct verbs_context *start,
					     const struct ibv_device *device);

/**
 * mesh_calibration_op - read the function of an operation in an open context
 *
 * Any thread. Return: the function; NULL: the slot is not known, the private and the public place differ, or the context has no
 * such function.
 */
void *mesh_calibration_op(const struct mesh_calibration *cal, const struct ibv_context *context,
			  enum mesh_op op);

/**
 * mesh_calibration_confirm - check the slot of create_cq_ex, which mesh_calibrate() only infers
 * @context: as ibv_open_device() returned it
 *
 * No exported function calls the operation create_cq_ex. Only an internal function of the library does, and the library puts
 * the address of that function into a context that a provider has made. So this reads the address in @context, and calls the
 * function on a scratch context. Not thread-safe against itself or mesh_calibrate().
 *
 * Return: 0; -ENOMEM; -ENOTSUP: the function calls another operation than the inferred one.
 */
int mesh_calibration_confirm(const struct mesh_library *lib, const struct mesh_calibration *cal,
			     const struct ibv_context *context);

/**
 * mesh_calibration_lacks - does the library have no such operation, so that there is nothing to replace?
 *
 * Any thread. Return: false for an operation that the library has, also if calibration did not find the slot.
 */
bool mesh_calibration_lacks(const struct mesh_library *lib, enum mesh_op op);

/** mesh_op_name - name of an operation in libibverbs' table, such as "modify_qp" */
const char *mesh_op_name(enum mesh_op op);

#endif
