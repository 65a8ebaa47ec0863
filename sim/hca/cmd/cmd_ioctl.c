/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The uverbs file's ioctl(): the few methods that have no counterpart among the write() commands.
 * All others get the kernel's EPROTONOSUPPORT, upon which libibverbs uses write() where there is a
 * command.
 */
#include "cmd.h"
#include "cmd_ioctl.h"
#include "firmware.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MAX_ATTRS       64
#define UAR_ALLOC_PAGES ((uint32_t)MLX5_IB_MMAP_ALLOC_WC << 8) /* mmap offset, in pages */

struct ib_uverbs_attr *ioctl_find(struct call *c, uint16_t id)
{
	for (uint16_t i = 0; i < c->hdr->num_attrs; i++)
		if (c->hdr->attrs[i].attr_id == id)
			return &c->hdr->attrs[i];
	return NULL;
}

/* Up to eight bytes lie in the attribute itself; a handle has no length. */
uint64_t ioctl_get(struct call *c, uint16_t id)
{
	struct ib_uverbs_attr *a = ioctl_find(c, id);

	if (!a)
		return 0;
	return a->len && a->len < sizeof(uint64_t) ? a->data & ((1ull << a->len * 8) - 1) : a->data;
}

int ioctl_put(struct call *c, uint16_t id, const void *data, size_t len)
{
	struct ib_uverbs_attr *a = ioctl_find(c, id);

	if (!a)
		return -EINVAL;
	memcpy((void *)(uintptr_t)a->data, data, a->len < len ? a->len : len);
	if (a->len > len)
		memset((uint8_t *)(uintptr_t)a->data + len, 0, a->len - len);
	a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return 0;
}

static uint32_t uapi_type(uint8_t type)
{
	switch (type) {
	case SIM_GID_ROCE_V1:
		return IBV_GID_TYPE_ROCE_V1;
	case SIM_GID_ROCE_V2:
		return IBV_GID_TYPE_ROCE_V2;
	default:
		return IBV_GID_TYPE_IB;
	}
}

static bool gid_entry(struct ucontext *uc, uint32_t port, uint32_t index,
		      struct ib_uverbs_gid_entry *ret)
{
	struct sim_port *p = ucontext_port(uc, port);
	struct sim_gid g;
	uint32_t s;

	do {
		s = sim_port_read_begin(p);
		g = p->gids[index];
	} while (sim_port_read_retry(p, s));
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->gid, g.raw, 16);
	ret->gid_index = index;
	ret->port_num = port;
	ret->gid_type = uapi_type(g.type);
	ret->netdev_ifindex = g.ifindex;
	return g.type != SIM_GID_NONE;
}

static int query_gid_entry(struct call *c)
{
	uint32_t port = (uint32_t)ioctl_get(c, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
	uint32_t index = (uint32_t)ioctl_get(c, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
	struct sim_port *p = ucontext_port(c->uc, port);
	struct ib_uverbs_gid_entry e;

	if (!p || index >= p->n_gids || ioctl_get(c, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS))
		return -EINVAL;
	if (!gid_entry(c->uc, port, index, &e))
		return -ENODATA;
	return ioctl_put(c, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

static int query_gid_table(struct call *c)
{
	uint64_t size = ioctl_get(c, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE), n = 0;
	struct ib_uverbs_attr *out = ioctl_find(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	struct ib_uverbs_gid_entry e;

	if (!out || !size || ioctl_get(c, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS))
		return -EINVAL;
	for (uint32_t port = 1; port <= c->uc->dev->n_ports; port++) {
		for (uint32_t i = 0; i < ucontext_port(c->uc, port)->n_gids; i++) {
			uint8_t *dst = (uint8_t *)(uintptr_t)out->data + n * size;

			if (!gid_entry(c->uc, port, i, &e))
				continue;
			if ((n + 1) * size > out->len)
				return -EINVAL;
			memset(dst, 0, size);
			memcpy(dst, &e, size < sizeof(e) ? size : sizeof(e));
			n++;
		}
	}
	out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return ioctl_put(c, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}

static int query_context(struct call *c)
{
	struct mlx5_ib_alloc_ucontext_resp drv;
	uint32_t vectors = 2;
	uint64_t core = 0;

	if (!c->uc->has_context)
		return -EINVAL;
	cmd_fill_context(c->uc, &drv);
	if (ioctl_find(c, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS))
		ioctl_put(c, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
	if (ioctl_find(c, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT))
		ioctl_put(c, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &core, sizeof(core));
	return ioctl_put(c, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, &drv, sizeof(drv));
}

/* Registers are plain memory, so an allocation is no more than a number. */
static int uar_alloc(struct call *c)
{
	struct ib_uverbs_attr *handle = ioctl_find(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);
	uint32_t length = (uint32_t)sysconf(_SC_PAGESIZE), page_id;
	uint64_t offset;

	if (!handle || ioctl_get(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE) > 1)
		return -EINVAL;
	if (c->uc->next_uar >= SIM_MAX_UAR_PAGES)
		return -ENOMEM;
	page_id = ++c->uc->next_uar;
	offset = (uint64_t)(UAR_ALLOC_PAGES | (page_id & 0xff) | (page_id >> 8) << 16) * length;
	handle->data = UAR_HANDLE_BASE + page_id;
	handle->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	ioctl_put(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
	ioctl_put(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length, sizeof(length));
	return ioctl_put(c, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &page_id, sizeof(page_id));
}

static int uar_destroy(struct call *c)
{
	return ioctl_get(c, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE) >= UAR_HANDLE_BASE ? 0 : -ENOENT;
}

/* The asynchronous event file of a context that was imported. */
static int async_alloc(struct call *c)
{
	struct ib_uverbs_attr *fd = ioctl_find(c, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
	struct evq *q;
	int i;

	for (i = 0; i < SIM_MAX_IMPORTS && c->uc->imported[i]; i++)
		;
	if (!fd || i == SIM_MAX_IMPORTS)
		return -EINVAL;
	q = evq_new();
	if (!q)
		return -ENOMEM;
	q->refs++;
	c->uc->imported[i] = q;
	fd->data_s64 = q->fd;
	fd->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return 0;
}

static int query_mr(struct call *c)
{
	struct mr *mr = (struct mr *)obj_get(
		c->uc, (uint32_t)ioctl_get(c, UVERBS_ATTR_QUERY_MR_HANDLE), OBJ_MR);

	if (!mr)
		return -ENOENT;
	ioctl_put(c, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	ioctl_put(c, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (ioctl_find(c, UVERBS_ATTR_QUERY_MR_RESP_IOVA))
		ioctl_put(c, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &mr->iova, sizeof(mr->iova));
	return ioctl_put(c, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mr->len, sizeof(mr->len));
}

static int query_pd(struct call *c)
{
	struct obj *pd =
		obj_get(c->uc, (uint32_t)ioctl_get(c, MLX5_IB_ATTR_QUERY_PD_HANDLE), OBJ_PD);
	uint32_t pdn = pd ? pd->handle + 1 : 0;

	return pd ? ioctl_put(c, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &pdn, sizeof(pdn)) : -ENOENT;
}

static const struct {
	uint16_t object, method;
	int (*run)(struct call *c);
	enum sim_firmware firmware;
} methods[] = {
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, query_gid_entry, SIM_FW_NONE},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, query_gid_table, SIM_FW_NONE},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, query_context, SIM_FW_NONE},
	{UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, async_alloc, SIM_FW_NONE},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, query_mr, SIM_FW_NONE},
	{UVERBS_OBJECT_MR, METHOD_REG_DMABUF_MR, ioctl_reg_dmabuf_mr, SIM_FW_REG_MR},
	{UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, query_pd, SIM_FW_NONE},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, ioctl_create_cq, SIM_FW_CREATE},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, ioctl_create_qp, SIM_FW_CREATE},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, ioctl_create_srq, SIM_FW_CREATE},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, uar_alloc, SIM_FW_CREATE},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, uar_destroy, SIM_FW_DESTROY},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, ioctl_devx_other, SIM_FW_QUERY},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, ioctl_devx_obj_query, SIM_FW_QUERY},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, ioctl_devx_obj_modify, SIM_FW_MODIFY},
};

/* The driver refuses DEVX of a context that was made without, and asks no firmware. */
static bool lacks_devx(const struct ucontext *uc, uint16_t object)
{
	return !uc->devx && (object == MLX5_IB_OBJECT_DEVX || object == MLX5_IB_OBJECT_DEVX_OBJ);
}

static int run(struct ucontext *uc, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct call c = {.uc = uc, .hdr = hdr};
	int err = -EPROTONOSUPPORT;

	if (hdr->num_attrs > MAX_ATTRS ||
	    hdr->length != sizeof(*hdr) + hdr->num_attrs * sizeof(hdr->attrs[0]))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (methods[i].object != hdr->object_id || methods[i].method != hdr->method_id)
			continue;
		if (ucontext_dead(uc))
			return -EIO;
		if (lacks_devx(uc, hdr->object_id))
			return -EINVAL;
		firmware_wait(uc->dev, methods[i].firmware);
		hca_lock(uc->hca);
		err = methods[i].run(&c);
		hca_unlock(uc->hca);
	}
	return err;
}

/** cmd_ioctl() - what ioctl() on the uverbs file does. Return: 0, or -1 with errno. Takes the lock.
 */
int cmd_ioctl(struct ucontext *uc, unsigned long req, void *arg)
{
	int err = req == RDMA_VERBS_IOCTL ? run(uc, arg) : -ENOTTY;

	errno = -err;
	return err ? -1 : 0;
}
