/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One ioctl() on the uverbs file, and its attributes. */
#ifndef SIM_CMD_IOCTL_H
#define SIM_CMD_IOCTL_H

#include <rdma/rdma_user_ioctl_cmds.h>

#include "hca.h"

/* Registering a dma-buf: numbers of the kernel's <rdma/ib_user_ioctl_cmds.h>. rdma-core 33 lacks the names. */
#define METHOD_REG_DMABUF_MR 4
enum {
	REG_DMABUF_MR_HANDLE,
	REG_DMABUF_MR_PD_HANDLE,
	REG_DMABUF_MR_OFFSET,
	REG_DMABUF_MR_LENGTH,
	REG_DMABUF_MR_IOVA,
	REG_DMABUF_MR_FD,
	REG_DMABUF_MR_ACCESS_FLAGS,
	REG_DMABUF_MR_RESP_LKEY,
	REG_DMABUF_MR_RESP_RKEY,
};

struct call {
	struct ucontext *uc;
	struct ib_uverbs_ioctl_hdr *hdr;
};

/** ioctl_find() - the attribute with that id, or NULL. */
struct ib_uverbs_attr *ioctl_find(struct call *c, uint16_t id);
/** ioctl_get() - a value of up to eight bytes, or a handle; 0 if it was not given. */
uint64_t ioctl_get(struct call *c, uint16_t id);
/** ioctl_put() - answer as many bytes as the program asked for. Return: 0, or -EINVAL if it did
 * not. */
int ioctl_put(struct call *c, uint16_t id, const void *data, size_t len);

/* cmd_ioctl_create.c */
int ioctl_create_cq(struct call *c);
int ioctl_create_qp(struct call *c);
int ioctl_create_srq(struct call *c);
int ioctl_reg_dmabuf_mr(struct call *c);

/* cmd_devx.c */
int ioctl_devx_other(struct call *c);
int ioctl_devx_obj_query(struct call *c);
int ioctl_devx_obj_modify(struct call *c);

#endif
