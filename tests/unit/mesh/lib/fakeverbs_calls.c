// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Functions of the made-up libibverbs that call an operation, for programs, for the plugin and for tests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fakeverbs_internal.h"

#ifdef FAKE_IMPORT
static void *dmabuf_op(struct ibv_pd *pd)
{
	void *(*op)(struct ibv_pd *);

	unsigned int of = config.defect == FAKE_DMABUF_SHARED ? OP_CREATE_QP_EX : OP_REG_DMABUF_MR;

	memcpy(&op, &priv_ops(tail_of(pd->context))[slot_of[of]], sizeof(op));
	return op(pd);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	if (config.defect == FAKE_DMABUF_TWO)
		dmabuf_op(pd);
	return dmabuf_op(pd);
}

static void *op_of_pd(struct ibv_pd *pd, unsigned int op, const void *arg)
{
	void *(*function)(struct ibv_pd *, const void *);

	memcpy(&function, &priv_ops(tail_of(pd->context))[slot_of[op]], sizeof(function));
	return function(pd, arg);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return op_of_pd(pd, OP_IMPORT_MR, (const void *)(uintptr_t)handle);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct ibv_pd *(*function)(struct ibv_context *, uint32_t);

	memcpy(&function, &priv_ops(tail_of(context))[slot_of[OP_IMPORT_PD]], sizeof(function));
	return function(context, handle);
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	op_of_pd(pd, OP_UNIMPORT_PD, NULL);
}

static int ece_op(struct ibv_qp *qp, struct ibv_ece *ece, unsigned int op)
{
	int (*function)(struct ibv_qp *, struct ibv_ece *);

	memcpy(&function, &priv_ops(tail_of(qp->context))[slot_of[op]], sizeof(function));
	return function(qp, ece);
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return ece->vendor_id ? ece_op(qp, ece, OP_SET_ECE) : EOPNOTSUPP;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return ece_op(qp, ece, OP_QUERY_ECE);
}
#endif

#ifdef FAKE_REG_EX
/* Headers that are new enough declare ibv_reg_mr_ex() with their own struct. */
EXPORT struct ibv_mr *fake_reg_mr_ex(struct ibv_pd *pd, struct mesh_mr_init_attr *attr) __asm__("ibv_reg_mr_ex");

EXPORT struct ibv_mr *fake_reg_mr_ex(struct ibv_pd *pd, struct mesh_mr_init_attr *attr)
{
	if (config.defect == FAKE_REG_EX_TWO)
		op_of_pd(pd, OP_IMPORT_MR, NULL);
	return op_of_pd(pd, OP_REG_MR_EX, attr);
}
#endif

/* Programs come here, too. verbs.h has a macro of that name. */
EXPORT int fake_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr) __asm__("ibv_query_port");

EXPORT int fake_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	int (*function)(struct ibv_context *, uint8_t, struct ibv_port_attr *);

	memcpy(&function, &priv_ops(tail_of(context))[slot_of[OP_QUERY_PORT]], sizeof(function));
	if (config.defect == FAKE_PORT_TWO)
		function(context, port_num, attr);
	return function(context, port_num, attr);
}

#ifndef FAKE_OLD
EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t max_entries, uint32_t flags, size_t entry_size)
{
	size_t i;

	(void)context;
	(void)flags;
	if (fake_state.query_error)
		return fake_state.query_error;
	fake_state.n_queries++;
	if (fake_state.n_gids > max_entries || entry_size != sizeof(*entries))
		return -EINVAL;
	for (i = 0; i < fake_state.n_gids; i++) {
		entries[i].gid = fake_state.gids[i].gid;
		entries[i].gid_index = fake_state.gids[i].index;
		entries[i].port_num = fake_state.gids[i].port_num;
		entries[i].gid_type = fake_state.gids[i].type;
		entries[i].ndev_ifindex = fake_state.gids[i].ifindex;
	}
	return (ssize_t)fake_state.n_gids;
}

#endif

#ifndef FAKE_NO_VERBS
/* The public functions: no test of this library calls them, the plugin asks whether they are there. */
#define VERB(name)                                                                                         \
	EXPORT void fake_verb_##name(void) __asm__("ibv_" #name);                                          \
	EXPORT void fake_verb_##name(void)                                                                 \
	{                                                                                                  \
		abort();                                                                                   \
	}
MESH_VERBS(VERB)
#endif

static const void *op_of(struct ibv_context *context, unsigned int op)
{
	return priv_ops(tail_of(context))[slot_of[op]];
}

EXPORT int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

EXPORT int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return ((int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))op_of(qp->context, OP_MODIFY_QP))(
		qp, attr, mask);
}

EXPORT struct ibv_ah *fake_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

EXPORT struct ibv_ah *fake_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return ((struct ibv_ah * (*)(struct ibv_pd *, struct ibv_ah_attr *))op_of(pd->context, OP_CREATE_AH))(
		pd, attr);
}

EXPORT void fake_async_event(struct ibv_context *context, struct ibv_async_event *event);

EXPORT void fake_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	((void (*)(struct ibv_context *, struct ibv_async_event *))op_of(context, OP_ASYNC_EVENT))(context,
												   event);
}
