/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands: completion channels, CQs, SRQs. */
#include "cmd.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

#define MAX_CQE (1u << 22)

static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

int cmd_create_comp_channel(struct cmd_args *a)
{
	struct ib_uverbs_create_comp_channel_resp *out = a->out;
	struct evq *q = evq_new();

	if (!q)
		return -ENOMEM;
	q->uc = a->uc;
	LIST_INSERT_HEAD(&a->uc->channels, q, link);
	out->fd = (uint32_t)q->fd;
	return 0;
}

struct cq_request {
	uint64_t user_handle;
	uint32_t cqe, flags;
	int32_t channel;
	uint32_t vector;
};

static int check_cq(const struct cq_request *r, const struct mlx5_ib_create_cq *drv)
{
	if (r->cqe < 1 || r->cqe >= MAX_CQE || r->vector >= 2)
		return -EINVAL;
	if (!drv->buf_addr || !drv->db_addr || (drv->cqe_size != 64 && drv->cqe_size != 128))
		return -EINVAL;
	if (r->flags & ~(uint32_t)IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN || drv->cqe_comp_en ||
	    drv->flags & ~MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)
		return -EOPNOTSUPP;
	return 0;
}

static int create_cq(struct cmd_args *a, const struct cq_request *r,
		     struct ib_uverbs_create_cq_resp *out)
{
	struct mlx5_ib_create_cq_resp resp = {0};
	struct hca *h = a->uc->hca;
	struct mlx5_ib_create_cq drv;
	struct evq *channel = NULL;
	struct cq *cq;
	int err;

	cmd_drv_in(a, &drv, sizeof(drv));
	err = check_cq(r, &drv);
	if (err)
		return err;
	if (r->channel >= 0) {
		channel = evq_of_fd(r->channel);
		if (!channel)
			return -EINVAL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	err = obj_add(a->uc, &cq->obj, OBJ_CQ);
	if (err) {
		free(cq);
		return err;
	}
	cq->obj.user_handle = r->user_handle;
	cq->cqn = ++h->next_cqn & 0xffffff;
	cq->buf = (uint8_t *)(uintptr_t)drv.buf_addr;
	cq->db = (volatile uint32_t *)(uintptr_t)drv.db_addr;
	cq->n_cqe = pow2_at_least(r->cqe + 1);
	cq->cqe_size = drv.cqe_size;
	cq->ignore_overrun = r->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	cq->channel = channel;
	if (channel)
		channel->refs++;
	cq_init_db(cq);
	LIST_INSERT_HEAD(&h->cqs, cq, link);
	out->cq_handle = cq->obj.handle;
	out->cqe = cq->n_cqe - 1;
	resp.cqn = cq->cqn;
	cmd_drv_out(a, &resp, sizeof(resp));
	return 0;
}

int cmd_create_cq(struct cmd_args *a)
{
	const struct ib_uverbs_create_cq *in = a->in;
	struct cq_request r = {.user_handle = in->user_handle,
			       .cqe = in->cqe,
			       .channel = in->comp_channel,
			       .vector = in->comp_vector};

	return create_cq(a, &r, a->out);
}

int cmd_ex_create_cq(struct cmd_args *a)
{
	const struct ib_uverbs_ex_create_cq *in = a->in;
	struct ib_uverbs_ex_create_cq_resp *out = a->out;
	struct cq_request r = {.user_handle = in->user_handle,
			       .cqe = in->cqe,
			       .channel = in->comp_channel,
			       .vector = in->comp_vector,
			       .flags = in->flags};

	if (in->comp_mask)
		return -EOPNOTSUPP;
	out->response_length = sizeof(*out);
	return create_cq(a, &r, &out->base);
}

int cmd_resize_cq(struct cmd_args *a)
{
	const struct ib_uverbs_resize_cq *in = a->in;
	struct ib_uverbs_resize_cq_resp *out = a->out;
	struct cq *cq = (struct cq *)obj_get(a->uc, in->cq_handle, OBJ_CQ);
	struct mlx5_ib_resize_cq drv;
	uint32_t n;

	cmd_drv_in(a, &drv, sizeof(drv));
	if (!cq || in->cqe < 1 || in->cqe >= MAX_CQE || !drv.buf_addr ||
	    (drv.cqe_size != 64 && drv.cqe_size != 128))
		return -EINVAL;
	n = pow2_at_least(in->cqe + 1);
	if (((cq->pi - be32toh(cq->db[0])) & 0xffffff) >= n)
		return -EINVAL;
	cq_resize(cq, (uint8_t *)(uintptr_t)drv.buf_addr, drv.cqe_size, n);
	out->cqe = n - 1;
	return 0;
}

int cmd_destroy_cq(struct cmd_args *a)
{
	const struct ib_uverbs_destroy_cq *in = a->in;
	struct ib_uverbs_destroy_cq_resp *out = a->out;
	struct cq *cq = (struct cq *)obj_get(a->uc, in->cq_handle, OBJ_CQ);

	if (!cq)
		return -EINVAL;
	if (cq->obj.users)
		return -EBUSY;
	out->comp_events_reported = cq->comp_events;
	out->async_events_reported = cq->async_events;
	cmd_destroy(&cq->obj);
	return 0;
}

/* Moderation holds events back to save interrupts; sending each at once is within what it allows.
 */
int cmd_ex_modify_cq(struct cmd_args *a)
{
	const struct ib_uverbs_ex_modify_cq *in = a->in;

	return obj_get(a->uc, in->cq_handle, OBJ_CQ) ? 0 : -EINVAL;
}

int cmd_create_srq(struct cmd_args *a)
{
	const struct ib_uverbs_create_srq *in = a->in;
	struct ib_uverbs_create_srq_resp *out = a->out;
	struct mlx5_ib_create_srq_resp resp = {0};
	struct pd *pd = (struct pd *)obj_get(a->uc, in->pd_handle, OBJ_PD);
	struct mlx5_ib_create_srq drv;
	struct srq *srq;
	uint32_t size;
	int err;

	cmd_drv_in(a, &drv, sizeof(drv));
	if (!pd || !drv.buf_addr || !drv.db_addr || in->max_wr > 32767 || in->max_sge > 31)
		return -EINVAL;
	if (drv.flags)
		return -EOPNOTSUPP; /* WQE signatures */
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	err = obj_add(a->uc, &srq->obj, OBJ_SRQ);
	if (err) {
		free(srq);
		return err;
	}
	size = pow2_at_least((uint32_t)sizeof(struct mlx5_wqe_srq_next_seg) +
			     in->max_sge * WQE_UNIT);
	if (size < 32)
		size = 32;
	srq->obj.user_handle = in->user_handle;
	srq->pd = pd;
	pd->obj.users++;
	srq->srqn = ++a->uc->hca->next_srqn & 0xffffff;
	srq->buf = (uint8_t *)(uintptr_t)drv.buf_addr;
	srq->db = (volatile uint32_t *)(uintptr_t)drv.db_addr;
	srq->n_wqe = pow2_at_least(in->max_wr + 1);
	srq->shift = (uint32_t)__builtin_ctz(size);
	srq->max_wr = srq->n_wqe - 1;
	srq->max_sge = (size - (uint32_t)sizeof(struct mlx5_wqe_srq_next_seg)) / WQE_UNIT;
	srq->limit = in->srq_limit;
	out->srq_handle = srq->obj.handle;
	out->max_wr = srq->max_wr;
	out->max_sge = srq->max_sge;
	out->srqn = resp.srqn = srq->srqn;
	cmd_drv_out(a, &resp, sizeof(resp));
	return 0;
}

int cmd_modify_srq(struct cmd_args *a)
{
	const struct ib_uverbs_modify_srq *in = a->in;
	struct srq *srq = (struct srq *)obj_get(a->uc, in->srq_handle, OBJ_SRQ);

	/* mlx5 cannot resize one. */
	if (!srq || in->attr_mask & IBV_SRQ_MAX_WR)
		return -EINVAL;
	if (in->attr_mask & IBV_SRQ_LIMIT) {
		if (in->srq_limit >= srq->max_wr)
			return -EINVAL;
		srq->limit = in->srq_limit;
	}
	return 0;
}

int cmd_query_srq(struct cmd_args *a)
{
	const struct ib_uverbs_query_srq *in = a->in;
	struct ib_uverbs_query_srq_resp *out = a->out;
	struct srq *srq = (struct srq *)obj_get(a->uc, in->srq_handle, OBJ_SRQ);

	if (!srq)
		return -EINVAL;
	out->max_wr = srq->max_wr;
	out->max_sge = srq->max_sge;
	out->srq_limit = srq->limit;
	return 0;
}

int cmd_destroy_srq(struct cmd_args *a)
{
	const struct ib_uverbs_destroy_srq *in = a->in;
	struct ib_uverbs_destroy_srq_resp *out = a->out;
	struct srq *srq = (struct srq *)obj_get(a->uc, in->srq_handle, OBJ_SRQ);

	if (!srq)
		return -EINVAL;
	if (srq->obj.users)
		return -EBUSY;
	out->events_reported = srq->async_events;
	cmd_destroy(&srq->obj);
	return 0;
}
