// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The lower providers of the made-up libibverbs. Their ops lie in constant data that the dynamic linker makes
 * read-only, as mlx5's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fakeverbs_internal.h"

static int lower_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)mask;
	fake_state.n_modify++;
	if (attr->ah_attr.grh.sgid_index == fake_state.modify_fails_for)
		return EINVAL;
	if (attr->ah_attr.grh.sgid_index < 8 && fake_state.modify_errno[attr->ah_attr.grh.sgid_index])
		return fake_state.modify_errno[attr->ah_attr.grh.sgid_index];
	fake_state.modify_index = attr->ah_attr.grh.sgid_index;
	return 0;
}

static struct ibv_ah *lower_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct ibv_ah ah;

	(void)pd;
	fake_state.n_create_ah++;
	if (attr->grh.sgid_index == fake_state.ah_fails_for) {
		errno = EINVAL;
		return NULL;
	}
	fake_state.ah_index = attr->grh.sgid_index;
	pthread_mutex_lock(&lock);
	fake_state.ah_dgid = attr->grh.dgid;
	fake_state.ah_dlid = attr->dlid;
	pthread_mutex_unlock(&lock);
	return &ah;
}

static int lower_destroy_ah(struct ibv_ah *ah)
{
	(void)ah; /* all are one */
	return 0;
}

static void lower_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	(void)event;
	fake_state.n_async++;
}

static void lower_free_context(struct ibv_context *context)
{
	fake_state.n_freed++;
	free(tail_of(context)->priv);
	free((char *)context - offsetof(struct verbs_context, context) - config.front);
}

static int lower_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	(void)context;
	fake_state.n_query_port++;
	if (port_num != 1)
		return EINVAL;
	*attr = fake_state.port;
	return 0;
}

static struct ibv_mr *lower_reg_mr_ex(struct ibv_pd *pd, struct mesh_mr_init_attr *attr)
{
	static struct ibv_mr mr; /* all are one */

	mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = attr->addr, .length = attr->length};
	mr.lkey = (uint32_t)attr->length;
	mr.rkey = mr.lkey + 1;
	return &mr;
}

static int lower_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

static void lower_other(void)
{
	abort(); /* no test calls it */
}

static struct verbs_context *lower_alloc(struct ibv_device *device, int cmd_fd, void *private_data)
{
	const void *table[OPS_LIMIT];
	struct verbs_context *start;
	unsigned int i;

	(void)private_data; /* as of mlx5dv_open_device(), if not NULL */
	start = _verbs_init_and_alloc_context(device, cmd_fd, config.front + sizeof(struct verbs_context), NULL,
					      0);
	if (!start)
		return NULL;
	for (i = 0; i < OPS_LIMIT; i++)
		table[i] = (const void *)lower_other;
	table[slot_of[OP_MODIFY_QP]] = (const void *)lower_modify_qp;
	table[slot_of[OP_CREATE_AH]] = (const void *)lower_create_ah;
	table[slot_of[OP_DESTROY_AH]] = (const void *)lower_destroy_ah;
	table[slot_of[OP_REG_MR_EX]] = (const void *)lower_reg_mr_ex;
	table[slot_of[OP_DEREG_MR]] = (const void *)lower_dereg_mr;
	table[slot_of[OP_ASYNC_EVENT]] = (const void *)lower_async_event;
	table[slot_of[OP_FREE_CONTEXT]] = (const void *)lower_free_context;
	table[slot_of[OP_QUERY_PORT]] = (const void *)lower_query_port;
	verbs_set_ops(start, table);
	return start;
}

static struct verbs_context *lower_import(struct ibv_device *device, int cmd_fd)
{
	return lower_alloc(device, cmd_fd, NULL);
}

static bool lower_match(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	return true;
}

static const struct mesh_driver_ops lower_providers[] = {
	{.name = "mlx5", .match_device = lower_match, .alloc_context = lower_alloc, .import_context = lower_import},
	{.name = "rxe", .match_device = lower_match, .alloc_context = lower_alloc, .import_context = lower_import},
};
/* A lower provider whose functions are not its own: those of libc. */
static const struct mesh_driver_ops strange_ops = {
	.name = "strange",
	.alloc_context = (struct verbs_context * (*)(struct ibv_device *, int, void *)) abort,
};

EXPORT void fake_register_lower(const char *name);

EXPORT void fake_register_lower(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(lower_providers) / sizeof(lower_providers[0]); i++)
		if (!strcmp(lower_providers[i].name, name))
			CAT(verbs_register_driver_, FAKE_ABI)(&lower_providers[i]);
	if (!strcmp(name, "strange"))
		CAT(verbs_register_driver_, FAKE_ABI)(&strange_ops);
}
