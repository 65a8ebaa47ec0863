/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef FAKEVERBS_INTERNAL_H
#define FAKEVERBS_INTERNAL_H

#include "abi.h"
#include "fakeverbs.h"

/* What the files of a made-up libibverbs have of each other. */

#define EXPORT __attribute__((visibility("default")))
#define CAT_(a, b) a##b
#define CAT(a, b)  CAT_(a, b)

/* Operations that show in public come first, in the order of fakeverbs.c. */
enum {
	OP_DEREG_MR = 4,
	OP_CREATE_CQ = 8,
	OP_QUERY_QP = 20,
	OP_MODIFY_QP = 21,
	OP_CREATE_AH = 25,
	OP_DESTROY_AH = 26,
	OP_ASYNC_EVENT = 29,
	OP_CREATE_QP_EX = 30,
	OP_CREATE_FLOW = 34,
	OP_FREE_CONTEXT = 39,
	OP_CREATE_CQ_EX,
	OP_REG_DMABUF_MR,
	OP_REG_MR_EX,
	OP_IMPORT_MR,
	OP_IMPORT_PD,
	OP_UNIMPORT_PD,
	OP_SET_ECE,
	OP_QUERY_ECE,
	OP_QUERY_PORT,
};
#define OPS_LIMIT 512

extern struct fake_config config;
extern unsigned int slot_of[OPS_LIMIT]; /* of each operation */
extern EXPORT struct fake_state fake_state;

/** tail_of, context_of - the struct verbs_context of a context; the context in what was allocated for it */
struct verbs_context *tail_of(struct ibv_context *context);
struct ibv_context *context_of(struct verbs_context *start);
/** priv_ops - the private copy of the operations, by slot */
const void **priv_ops(struct verbs_context *tail);

/* Exported, as libibverbs has them. */
EXPORT void CAT(verbs_register_driver_, FAKE_ABI)(const struct mesh_driver_ops *driver);
EXPORT void verbs_set_ops(struct verbs_context *start, const void *const *table);
EXPORT void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
					   struct verbs_context *context_offset, uint32_t driver_id);

#endif
