/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Commands: making, querying and destroying queue pairs. */
#include "cmd.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>

#include "doorbell.h"
#include "quirk.h"

#define QPN_MASK ((1u << SIM_SLOT_QPN_BITS) - 1)
#define MAX_BBS  32768

/* Send registers: the library uses those that need no lock for one queue pair only, so they are not
 * given out. */
#define FIRST_SHARED_BFREG 1
#define N_SHARED_BFREGS    11

static bool pow2(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int check_rings(const struct ib_uverbs_create_qp *in, const struct mlx5_ib_create_qp *drv)
{
	if (in->qp_type != IBV_QPT_RC && in->qp_type != IBV_QPT_UC && in->qp_type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	if (drv->flags & ~(uint32_t)(MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
				     MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX |
				     MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE))
		return -EOPNOTSUPP; /* WQE signatures, DC and the like */
	if (!drv->db_addr ||
	    (drv->sq_wqe_count && (!pow2(drv->sq_wqe_count) || drv->sq_wqe_count > MAX_BBS)) ||
	    (drv->rq_wqe_count && (!pow2(drv->rq_wqe_count) || drv->rq_wqe_count > MAX_BBS ||
				   drv->rq_wqe_shift < 4 || drv->rq_wqe_shift > 9)))
		return -EINVAL;
	if ((drv->sq_wqe_count || drv->rq_wqe_count) && !drv->buf_addr)
		return -EINVAL;
	return 0;
}

static int qpn_alloc(struct hca *h, struct qp *qp)
{
	_Atomic uint32_t *next = &h->state->slots[h->slot].next_qpn;

	for (uint32_t i = 0; i <= QPN_MASK; i++) {
		uint32_t n = atomic_fetch_add_explicit(next, 1, memory_order_relaxed) & QPN_MASK;

		/* 0 and 1 are the management queue pairs, the highest number of all is multicast.
		 */
		if (n < 64 || n == QPN_MASK || h->qps[n])
			continue;
		qp->qpn = h->slot << SIM_SLOT_QPN_BITS | n;
		h->qps[n] = qp;
		h->n_qps++;
		atomic_store(&h->state->slots[h->slot].n_qps, h->n_qps);
		return 0;
	}
	return -ENOMEM;
}

static int find_partners(struct cmd_args *a, const struct ib_uverbs_create_qp *in, struct qp *qp)
{
	qp->pd = (struct pd *)obj_get(a->uc, in->pd_handle, OBJ_PD);
	qp->scq = (struct cq *)obj_get(a->uc, in->send_cq_handle, OBJ_CQ);
	qp->rcq = (struct cq *)obj_get(a->uc, in->recv_cq_handle, OBJ_CQ);
	if (in->is_srq)
		qp->srq = (struct srq *)obj_get(a->uc, in->srq_handle, OBJ_SRQ);
	return qp->pd && qp->scq && qp->rcq && (qp->srq || !in->is_srq) ? 0 : -EINVAL;
}

static void set_rings(struct qp *qp, const struct mlx5_ib_create_qp *drv)
{
	uint8_t *buf = (uint8_t *)(uintptr_t)drv->buf_addr;

	qp->db = (volatile uint32_t *)(uintptr_t)drv->db_addr;
	qp->rq.buf = buf;
	qp->rq.cnt = qp->srq ? 0 : drv->rq_wqe_count;
	qp->rq.shift = drv->rq_wqe_shift;
	qp->sq.buf = buf + ((size_t)drv->rq_wqe_count << drv->rq_wqe_shift);
	qp->sq.n_bbs = drv->sq_wqe_count ? drv->sq_wqe_count : 1;
	qp->init.uidx = drv->uidx & 0xffffff;
}

static void set_caps(struct qp *qp, const struct ib_uverbs_create_qp *in)
{
	qp->type = in->qp_type;
	qp->init.sq_sig_all = in->sq_sig_all;
	qp->init.max_send_wr = in->max_send_wr;
	qp->init.max_recv_wr = in->max_recv_wr;
	qp->init.max_send_sge = in->max_send_sge;
	qp->init.max_recv_sge = in->max_recv_sge;
	qp->init.max_inline = in->max_inline_data;
}

static int create_qp(struct cmd_args *a, const struct ib_uverbs_create_qp *in,
		     struct ib_uverbs_create_qp_resp *out)
{
	struct mlx5_ib_create_qp_resp resp = {0};
	struct hca *h = a->uc->hca;
	struct mlx5_ib_create_qp drv;
	struct qp *qp;
	int err;

	cmd_drv_in(a, &drv, sizeof(drv));
	err = check_rings(in, &drv);
	if (err)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	set_caps(qp, in);
	err = find_partners(a, in, qp);
	if (err)
		goto err_free;
	set_rings(qp, &drv);
	err = -ENOMEM;
	qp->req.ring = calloc(qp->sq.n_bbs, sizeof(*qp->req.ring));
	if (!qp->req.ring)
		goto err_free;
	err = qpn_alloc(h, qp);
	if (err)
		goto err_ring;
	err = doorbell_add(h, qp);
	if (err)
		goto err_qpn;
	err = obj_add(a->uc, &qp->obj, OBJ_QP);
	if (err)
		goto err_doorbell;
	qp->obj.user_handle = in->user_handle;
	qp->dev = a->uc->dev;
	qp->dev_index = a->uc->dev_index;
	qp->pd->obj.users++;
	qp->scq->obj.users++;
	qp->rcq->obj.users++;
	if (qp->srq)
		qp->srq->obj.users++;
	LIST_INSERT_HEAD(&h->all_qps, qp, link);
	net_update(h);
	out->qp_handle = qp->obj.handle;
	out->qpn = qp->qpn;
	out->max_send_wr = in->max_send_wr;
	out->max_recv_wr = in->max_recv_wr;
	out->max_send_sge = in->max_send_sge;
	out->max_recv_sge = in->max_recv_sge;
	out->max_inline_data = in->max_inline_data;
	resp.bfreg_index = FIRST_SHARED_BFREG + a->uc->next_bfreg++ % N_SHARED_BFREGS;
	/* Numbered with the two of each UAR page that are not for this use left out. */
	resp.bfreg_index = resp.bfreg_index / 2 * 4 + resp.bfreg_index % 2;
	/* Who asks for the version of ECE that it knows is told what there is. */
	if (drv.ece_options)
		resp.ece_options = qp_ece(qp);
	cmd_drv_out(a, &resp, sizeof(resp));
	return 0;

err_doorbell:
	doorbell_remove(h, qp);
err_qpn:
	h->qps[qp->qpn & QPN_MASK] = NULL;
	h->n_qps--;
err_ring:
	free(qp->req.ring);
err_free:
	free(qp);
	return err;
}

int cmd_create_qp(struct cmd_args *a)
{
	return create_qp(a, a->in, a->out);
}

int cmd_ex_create_qp(struct cmd_args *a)
{
	const struct ib_uverbs_ex_create_qp *in = a->in;
	struct ib_uverbs_ex_create_qp_resp *out = a->out;
	struct ib_uverbs_create_qp legacy = {
		.user_handle = in->user_handle,
		.pd_handle = in->pd_handle,
		.send_cq_handle = in->send_cq_handle,
		.recv_cq_handle = in->recv_cq_handle,
		.srq_handle = in->srq_handle,
		.max_send_wr = in->max_send_wr,
		.max_recv_wr = in->max_recv_wr,
		.max_send_sge = in->max_send_sge,
		.max_recv_sge = in->max_recv_sge,
		.max_inline_data = in->max_inline_data,
		.sq_sig_all = in->sq_sig_all,
		.qp_type = in->qp_type,
		.is_srq = in->is_srq,
	};

	if (in->comp_mask || in->create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return -EOPNOTSUPP;
	out->response_length = sizeof(*out);
	return create_qp(a, &legacy, &out->base);
}

static void fill_dest(const struct qp_attr *at, struct ib_uverbs_qp_dest *d)
{
	memcpy(d->dgid, at->dgid, 16);
	d->flow_label = at->flow_label;
	d->dlid = at->dlid;
	d->sgid_index = at->sgid_index;
	d->hop_limit = at->hop_limit;
	d->traffic_class = at->traffic_class;
	d->sl = at->sl;
	d->src_path_bits = at->src_path_bits;
	d->static_rate = at->static_rate;
	d->is_global = at->is_global;
	d->port_num = at->av_port;
}

int cmd_query_qp(struct cmd_args *a)
{
	const struct ib_uverbs_query_qp *in = a->in;
	struct ib_uverbs_query_qp_resp *out = a->out;
	struct qp *qp = (struct qp *)obj_get(a->uc, in->qp_handle, OBJ_QP);
	const struct qp_attr *at;

	if (!qp)
		return -EINVAL;
	at = &qp->attr;
	fill_dest(at, &out->dest);
	out->qp_state = out->cur_qp_state = qp->state;
	out->path_mtu = at->path_mtu;
	out->path_mig_state = at->path_mig_state;
	out->qkey = at->qkey;
	/* What will be accepted next, and sent next, as the hardware's next_rcv_psn and
	 * next_send_psn. */
	out->rq_psn = quirk_rq_psn(qp);
	out->sq_psn = qp->req.cur != qp->req.tail &&
				      qp->req.ring[qp->req.cur & (qp->sq.n_bbs - 1)].started
			      ? qp->req.cur_psn
			      : qp->req.next_psn;
	out->dest_qp_num = at->dest_qpn;
	out->qp_access_flags = at->access;
	out->pkey_index = at->pkey_index;
	out->sq_draining = qp->state == IBV_QPS_SQD && !qp->sqd.drained;
	out->max_rd_atomic = at->max_rd_atomic;
	out->max_dest_rd_atomic = at->max_dest_rd_atomic;
	out->min_rnr_timer = at->min_rnr_timer;
	out->port_num = at->port;
	out->timeout = at->timeout;
	out->retry_cnt = at->retry_cnt;
	out->rnr_retry = at->rnr_retry;
	out->max_send_wr = qp->init.max_send_wr;
	/* Of the receive ring the driver reports what there is, not what was asked for. */
	out->max_recv_wr = qp->rq.cnt;
	out->max_send_sge = qp->init.max_send_sge;
	out->max_recv_sge = qp->rq.cnt ? (1u << qp->rq.shift) / WQE_UNIT : 0;
	out->max_inline_data = qp->init.max_inline;
	out->sq_sig_all = qp->init.sq_sig_all;
	return 0;
}

int cmd_destroy_qp(struct cmd_args *a)
{
	const struct ib_uverbs_destroy_qp *in = a->in;
	struct ib_uverbs_destroy_qp_resp *out = a->out;
	struct qp *qp = (struct qp *)obj_get(a->uc, in->qp_handle, OBJ_QP);

	if (!qp)
		return -EINVAL;
	if (qp->mcast.n)
		return -EBUSY;
	out->events_reported = qp->events.n_read;
	qp_destroy(qp);
	return 0;
}

/* IPv6, or IPv4 as ::ffff:a.b.c.d, as RoCE v2 has its groups. */
static bool is_multicast(const uint8_t *gid)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	return gid[0] == 0xff || (!memcmp(gid, v4, sizeof(v4)) && gid[12] >> 4 == 14);
}

static struct qp *mcast_qp(struct cmd_args *a, uint32_t handle, const uint8_t *gid)
{
	struct qp *qp = (struct qp *)obj_get(a->uc, handle, OBJ_QP);

	return qp && qp->type == IBV_QPT_UD && is_multicast(gid) ? qp : NULL;
}

int cmd_attach_mcast(struct cmd_args *a)
{
	const struct ib_uverbs_attach_mcast *in = a->in;
	struct qp *qp = mcast_qp(a, in->qp_handle, in->gid);
	struct mcast_group *groups;

	if (!qp)
		return -EINVAL;
	for (uint32_t i = 0; i < qp->mcast.n; i++)
		if (!memcmp(qp->mcast.groups[i].gid, in->gid, 16))
			return 0;
	groups = realloc(qp->mcast.groups, (qp->mcast.n + 1) * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	memcpy(groups[qp->mcast.n].gid, in->gid, 16);
	qp->mcast.groups = groups;
	qp->mcast.n++;
	return 0;
}

int cmd_detach_mcast(struct cmd_args *a)
{
	const struct ib_uverbs_detach_mcast *in = a->in;
	struct qp *qp = mcast_qp(a, in->qp_handle, in->gid);

	for (uint32_t i = 0; qp && i < qp->mcast.n; i++)
		if (!memcmp(qp->mcast.groups[i].gid, in->gid, 16)) {
			qp->mcast.groups[i] = qp->mcast.groups[--qp->mcast.n];
			return 0;
		}
	return -EINVAL;
}
