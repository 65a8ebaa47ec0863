/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands about the device and its ports. The numbers are those of a ConnectX-6 with mlx5's own
 * limits. */
#include "cmd.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdio.h>
#include <string.h>

#define MAX_SGE        30
#define MAX_QP_WR      32768
#define BF_REG_SIZE    512
#define MAX_SQ_DESC    1024
#define MAX_RQ_DESC    512
#define NUM_DYN_BFREGS 512
#define BFREGS_PER_UAR 2

void cmd_fill_context(struct ucontext *uc, struct mlx5_ib_alloc_ucontext_resp *ret)
{
	*ret = (struct mlx5_ib_alloc_ucontext_resp){
		.qp_tab_size = 1 << 18,
		.bf_reg_size = BF_REG_SIZE,
		.tot_bfregs = uc->n_bfregs,
		.cache_line_size = 64,
		.max_sq_desc_sz = MAX_SQ_DESC,
		.max_rq_desc_sz = MAX_RQ_DESC,
		.max_send_wqebb = MAX_QP_WR,
		.max_recv_wr = MAX_QP_WR,
		.max_srq_recv_wr = MAX_QP_WR - 1,
		.num_ports = (uint16_t)uc->dev->n_ports,
		.response_length = sizeof(*ret),
		.cqe_version = 1,
		.cmds_supp_uhw =
			MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
		.clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = NUM_DYN_BFREGS,
		.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY | MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE,
		.dump_fill_mkey = NULL_MR_KEY,
	};
}

int cmd_get_context(struct cmd_args *a)
{
	struct ib_uverbs_get_context_resp *out = a->out;
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	struct mlx5_ib_alloc_ucontext_resp drv;
	struct ucontext *uc = a->uc;
	int err = -EINVAL;

	cmd_drv_in(a, &req, sizeof(req));
	if ((req.flags & MLX5_IB_ALLOC_UCTX_DEVX && !uc->dev->devx) || req.comp_mask)
		return -EPERM; /* what the kernel says where the firmware has no DEVX; the library
				  asks again without */
	if (!req.total_num_bfregs || req.max_cqe_version < 1 || req.total_num_bfregs > 512)
		return -EINVAL;
	hca_lock(uc->hca);
	if (!uc->has_context) {
		uc->async = evq_new();
		err = uc->async ? 0 : -ENOMEM;
	}
	if (!err) {
		uc->async->refs++; /* ours, beside the program's */
		uc->has_context = true;
		uc->devx = req.flags & MLX5_IB_ALLOC_UCTX_DEVX;
		/* A library that knows how to allocates its UAR pages one by one. */
		if (!(req.lib_caps & MLX5_LIB_CAP_DYN_UAR))
			uc->n_bfregs = (req.total_num_bfregs + BFREGS_PER_UAR - 1) /
				       BFREGS_PER_UAR * BFREGS_PER_UAR;
		out->async_fd = (uint32_t)uc->async->fd;
		out->num_comp_vectors = 2;
		cmd_fill_context(uc, &drv);
		cmd_drv_out(a, &drv, sizeof(drv));
	}
	hca_unlock(uc->hca);
	return err;
}

static uint64_t fw_version(const char *s)
{
	unsigned int major = 0, minor = 0, sub = 0;

	sscanf(s, "%u.%u.%u", &major, &minor, &sub);
	return (uint64_t)major << 32 | (uint64_t)(minor & 0xffff) << 16 | (sub & 0xffff);
}

static void fill_device(struct ucontext *uc, struct ib_uverbs_query_device_resp *r)
{
	const struct sim_dev *d = uc->dev;

	r->fw_ver = fw_version(d->fw_ver);
	memcpy(&r->node_guid, d->node_guid, 8);
	memcpy(&r->sys_image_guid, d->sys_image_guid, 8);
	r->max_mr_size = ~0ull;
	r->page_size_cap = 0xfffffffffffff000ull;
	r->vendor_id = d->vendor_id;
	r->vendor_part_id = d->vendor_part_id;
	r->hw_ver = d->hw_ver;
	r->max_qp = 1 << SIM_SLOT_QPN_BITS;
	r->max_qp_wr = MAX_QP_WR;
	r->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
			      IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_PORT_ACTIVE_EVENT |
			      IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
	r->max_sge = MAX_SGE;
	r->max_sge_rd = MAX_SGE;
	r->max_cq = 1 << 24;
	r->max_cqe = (1 << 22) - 1;
	r->max_mr = 1 << 24;
	r->max_pd = 1 << 24;
	r->max_qp_rd_atom = MAX_RD_ATOMIC;
	r->max_res_rd_atom = MAX_RD_ATOMIC << SIM_SLOT_QPN_BITS;
	r->max_qp_init_rd_atom = MAX_RD_ATOMIC;
	r->atomic_cap = IBV_ATOMIC_HCA;
	r->max_mcast_grp = 1 << 21;
	r->max_mcast_qp_attach = 240;
	r->max_total_mcast_qp_attach = 240 << 21;
	r->max_ah = 0x7fffffff;
	r->max_srq = 1 << 23;
	r->max_srq_wr = MAX_QP_WR - 1;
	r->max_srq_sge = MAX_SGE + 1;
	r->max_pkeys = 128;
	r->local_ca_ack_delay = 16;
	r->phys_port_cnt = (uint8_t)d->n_ports;
}

int cmd_query_device(struct cmd_args *a)
{
	fill_device(a->uc, a->out);
	return 0;
}

int cmd_ex_query_device(struct cmd_args *a)
{
	struct mlx5_ib_query_device_resp drv = {.response_length = sizeof(drv)};
	struct ib_uverbs_ex_query_device_resp *r = a->out;

	fill_device(a->uc, &r->base);
	r->response_length = sizeof(*r);
	r->timestamp_mask = 0x7fffffffffffffffull;
	r->hca_core_clock = 1000000; /* kHz: completion timestamps are nanoseconds */
	r->device_cap_flags_ex = r->base.device_cap_flags;
	r->cq_moderation_caps.max_cq_moderation_count = 0xffff;
	r->cq_moderation_caps.max_cq_moderation_period = 4095;
	cmd_drv_out(a, &drv, sizeof(drv));
	return 0;
}

int cmd_query_port(struct cmd_args *a)
{
	const struct ib_uverbs_query_port *in = a->in;
	struct ib_uverbs_query_port_resp *r = a->out;
	struct sim_port *p = ucontext_port(a->uc, in->port_num);
	uint32_t s;

	if (!p)
		return -EINVAL;
	do {
		s = sim_port_read_begin(p);
		r->state = p->state;
		r->phys_state = p->phys_state;
		r->link_layer = p->link_layer;
		r->max_mtu = p->max_mtu;
		r->active_mtu = p->active_mtu;
		r->active_speed = p->active_speed;
		r->active_width = p->active_width;
		r->gid_tbl_len = p->n_gids;
		r->pkey_tbl_len = p->n_pkeys;
		r->lid = p->lid;
		r->lmc = p->lmc;
		r->sm_lid = p->sm_lid;
		r->sm_sl = p->sm_sl;
	} while (sim_port_read_retry(p, s));
	r->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	if (p->link_layer == SIM_LINK_INFINIBAND)
		r->port_cap_flags =
			IBV_PORT_CM_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP | IBV_PORT_CLIENT_REG_SUP;
	r->max_msg_sz = 1u << 30;
	r->max_vl_num = p->link_layer == SIM_LINK_INFINIBAND ? 3 : 0;
	r->flags = p->link_layer == SIM_LINK_INFINIBAND ? 0 : IBV_QPF_GRH_REQUIRED;
	return 0;
}
