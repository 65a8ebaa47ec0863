/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Making CQs, QPs and SRQs by ioctl(). libibverbs insists on it for a context that was imported, so
 * only those get it; all others use write(), and both come to the same functions.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "cmd_ioctl.h"

/* The driver's part, in and out. Up to eight bytes of input lie in the attribute itself. */
static struct cmd_args args_of(struct call *c, const void *in, void *out)
{
	struct ib_uverbs_attr *drv_in = ioctl_find(c, UVERBS_ATTR_UHW_IN),
			      *drv_out = ioctl_find(c, UVERBS_ATTR_UHW_OUT);
	struct cmd_args a = {.uc = c->uc, .in = in, .out = out, .drv_in = ""};

	if (drv_in) {
		a.drv_in_len = drv_in->len;
		a.drv_in = drv_in->len > sizeof(drv_in->data)
				   ? (const void *)(uintptr_t)drv_in->data
				   : &drv_in->data;
	}
	if (drv_out) {
		a.drv_out_len = drv_out->len;
		a.drv_out = (void *)(uintptr_t)drv_out->data;
		drv_out->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	}
	return a;
}

static void put_handle(struct call *c, uint16_t id, uint32_t handle)
{
	struct ib_uverbs_attr *a = ioctl_find(c, id);

	if (a) {
		a->data = handle;
		a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	}
}

static bool imported(struct call *c)
{
	return c->uc->imported[0];
}

int ioctl_create_cq(struct call *c)
{
	struct ib_uverbs_attr *channel = ioctl_find(c, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
	struct ib_uverbs_ex_create_cq in = {
		.user_handle = ioctl_get(c, UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
		.cqe = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_CQ_CQE),
		.comp_vector = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR),
		.comp_channel = channel ? (int32_t)channel->data_s64 : -1,
		.flags = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_CQ_FLAGS),
	};
	struct ib_uverbs_ex_create_cq_resp out = {0};
	struct cmd_args a = args_of(c, &in, &out);
	int err = imported(c) ? cmd_ex_create_cq(&a) : -EPROTONOSUPPORT;

	if (err)
		return err;
	put_handle(c, UVERBS_ATTR_CREATE_CQ_HANDLE, out.base.cq_handle);
	return ioctl_put(c, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &out.base.cqe, sizeof(out.base.cqe));
}

static void get_cap(struct call *c, struct ib_uverbs_qp_cap *ret)
{
	struct ib_uverbs_attr *cap = ioctl_find(c, UVERBS_ATTR_CREATE_QP_CAP);

	memset(ret, 0, sizeof(*ret));
	if (cap)
		memcpy(ret, (const void *)(uintptr_t)cap->data,
		       cap->len < sizeof(*ret) ? cap->len : sizeof(*ret));
}

int ioctl_create_qp(struct call *c)
{
	struct ib_uverbs_create_qp in = {
		.user_handle = ioctl_get(c, UVERBS_ATTR_CREATE_QP_USER_HANDLE),
		.pd_handle = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_QP_PD_HANDLE),
		.send_cq_handle = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
		.recv_cq_handle = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
		.srq_handle = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
		.is_srq = ioctl_find(c, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) != NULL,
		.qp_type = (uint8_t)ioctl_get(c, UVERBS_ATTR_CREATE_QP_TYPE),
	};
	uint64_t flags = ioctl_get(c, UVERBS_ATTR_CREATE_QP_FLAGS);
	struct ib_uverbs_create_qp_resp out = {0};
	struct cmd_args a = args_of(c, &in, &out);
	struct ib_uverbs_qp_cap cap;
	int err;

	if (!imported(c))
		return -EPROTONOSUPPORT;
	if (flags & ~(uint64_t)(IB_UVERBS_QP_CREATE_SQ_SIG_ALL |
				IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK))
		return -EOPNOTSUPP;
	get_cap(c, &cap);
	in.max_send_wr = cap.max_send_wr;
	in.max_recv_wr = cap.max_recv_wr;
	in.max_send_sge = cap.max_send_sge;
	in.max_recv_sge = cap.max_recv_sge;
	in.max_inline_data = cap.max_inline_data;
	in.sq_sig_all = flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL ? 1 : 0;
	err = cmd_create_qp(&a);
	if (err)
		return err;
	put_handle(c, UVERBS_ATTR_CREATE_QP_HANDLE, out.qp_handle);
	ioctl_put(c, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
	return ioctl_put(c, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &out.qpn, sizeof(out.qpn));
}

int ioctl_create_srq(struct call *c)
{
	struct ib_uverbs_create_srq in = {
		.user_handle = ioctl_get(c, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
		.pd_handle = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
		.max_wr = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_SRQ_MAX_WR),
		.max_sge = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
		.srq_limit = (uint32_t)ioctl_get(c, UVERBS_ATTR_CREATE_SRQ_LIMIT),
	};
	struct ib_uverbs_create_srq_resp out = {0};
	struct cmd_args a = args_of(c, &in, &out);
	int err;

	if (!imported(c))
		return -EPROTONOSUPPORT;
	if (ioctl_get(c, UVERBS_ATTR_CREATE_SRQ_TYPE) != IB_UVERBS_SRQT_BASIC)
		return -EOPNOTSUPP;
	err = cmd_create_srq(&a);
	if (err)
		return err;
	put_handle(c, UVERBS_ATTR_CREATE_SRQ_HANDLE, out.srq_handle);
	ioctl_put(c, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &out.max_wr, sizeof(out.max_wr));
	ioctl_put(c, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &out.max_sge, sizeof(out.max_sge));
	return ioctl_put(c, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &out.srqn, sizeof(out.srqn));
}

#define DMABUF_ACCESS                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

/* In the order of ib_core's checks. */
int ioctl_reg_dmabuf_mr(struct call *c)
{
	struct pd *pd = (struct pd *)obj_get(c->uc, (uint32_t)ioctl_get(c, REG_DMABUF_MR_PD_HANDLE), OBJ_PD);
	uint64_t offset = ioctl_get(c, REG_DMABUF_MR_OFFSET), iova = ioctl_get(c, REG_DMABUF_MR_IOVA);
	uint32_t access = (uint32_t)ioctl_get(c, REG_DMABUF_MR_ACCESS_FLAGS);
	struct mr *mr;
	int err;

	if (!pd)
		return -ENOENT;
	if ((offset - iova) % (uint64_t)sysconf(_SC_PAGESIZE))
		return -EINVAL;
	if (access & ~(uint32_t)DMABUF_ACCESS)
		return -EINVAL;
	err = mr_create_dmabuf(pd, (int)ioctl_get(c, REG_DMABUF_MR_FD), offset, ioctl_get(c, REG_DMABUF_MR_LENGTH), iova,
			       access, &mr);
	if (err)
		return err;
	put_handle(c, REG_DMABUF_MR_HANDLE, mr->obj.handle);
	ioctl_put(c, REG_DMABUF_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	return ioctl_put(c, REG_DMABUF_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
}
