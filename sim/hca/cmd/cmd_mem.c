/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands: protection domains, memory regions, address handles. */
#include "cmd.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>

#include "av.h"

int cmd_alloc_pd(struct cmd_args *a)
{
	struct ib_uverbs_alloc_pd_resp *out = a->out;
	struct mlx5_ib_alloc_pd_resp drv;
	struct pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return -ENOMEM;
	err = obj_add(a->uc, &pd->obj, OBJ_PD);
	if (err) {
		free(pd);
		return err;
	}
	out->pd_handle = pd->obj.handle;
	drv.pdn = pd->obj.handle + 1;
	cmd_drv_out(a, &drv, sizeof(drv));
	return 0;
}

static int destroy_handle(struct cmd_args *a, uint32_t handle, enum obj_type type)
{
	struct obj *o = obj_get(a->uc, handle, type);

	if (!o)
		return -EINVAL;
	if (o->users)
		return -EBUSY;
	cmd_destroy(o);
	return 0;
}

int cmd_dealloc_pd(struct cmd_args *a)
{
	return destroy_handle(a, ((const struct ib_uverbs_dealloc_pd *)a->in)->pd_handle, OBJ_PD);
}

int cmd_reg_mr(struct cmd_args *a)
{
	const struct ib_uverbs_reg_mr *in = a->in;
	struct ib_uverbs_reg_mr_resp *out = a->out;
	struct pd *pd = (struct pd *)obj_get(a->uc, in->pd_handle, OBJ_PD);
	struct mr *mr;
	int err;

	if (!pd)
		return -EINVAL;
	err = mr_create(pd, in->start, in->length, in->hca_va, in->access_flags, &mr);
	if (err)
		return err;
	out->mr_handle = mr->obj.handle;
	out->lkey = out->rkey = mr->key;
	return 0;
}

int cmd_rereg_mr(struct cmd_args *a)
{
	const struct ib_uverbs_rereg_mr *in = a->in;
	struct ib_uverbs_rereg_mr_resp *out = a->out;
	struct mr *mr = (struct mr *)obj_get(a->uc, in->mr_handle, OBJ_MR);
	struct pd *pd = (struct pd *)obj_get(a->uc, in->pd_handle, OBJ_PD);
	int err;

	if (!mr || !in->flags || (in->flags & IBV_REREG_MR_CHANGE_PD && !pd))
		return -EINVAL;
	err = mr_change(mr, in->flags, pd, in->start, in->length, in->hca_va, in->access_flags);
	if (err)
		return err;
	out->lkey = out->rkey = mr->key;
	return 0;
}

int cmd_dereg_mr(struct cmd_args *a)
{
	return destroy_handle(a, ((const struct ib_uverbs_dereg_mr *)a->in)->mr_handle, OBJ_MR);
}

/* Resolving may take a second, so the lock is taken after it. */
int cmd_create_ah(struct cmd_args *a)
{
	const struct ib_uverbs_create_ah *in = a->in;
	struct ib_uverbs_create_ah_resp *out = a->out;
	struct mlx5_ib_create_ah_resp drv = {.response_length = sizeof(drv)};
	struct av av = {
		.port = in->attr.port_num,
		.is_global = in->attr.is_global,
		.sgid_index = in->attr.grh.sgid_index,
		.dlid = in->attr.dlid,
	};
	struct hca *h = a->uc->hca;
	struct ah *ah;
	int err;

	memcpy(av.dgid, in->attr.grh.dgid, 16);
	err = av_resolve(a->uc, &av);
	if (err)
		return err;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	hca_lock(h);
	ah->pd = (struct pd *)obj_get(a->uc, in->pd_handle, OBJ_PD);
	err = ah->pd ? obj_add(a->uc, &ah->obj, OBJ_AH) : -EINVAL;
	if (!err) {
		ah->pd->obj.users++;
		ah->port = av.port;
		ah->sgid_index = av.sgid_index;
		ah->has_gid = av.is_global;
		if (ah->has_gid)
			path_hold_gid(h, a->uc->dev_index, av.port, av.sgid_index, 1);
		out->ah_handle = ah->obj.handle;
	}
	hca_unlock(h);
	if (err) {
		free(ah);
		return err;
	}
	memcpy(drv.dmac, av.dmac, 6);
	cmd_drv_out(a, &drv, sizeof(drv));
	return 0;
}

int cmd_destroy_ah(struct cmd_args *a)
{
	return destroy_handle(a, ((const struct ib_uverbs_destroy_ah *)a->in)->ah_handle, OBJ_AH);
}
