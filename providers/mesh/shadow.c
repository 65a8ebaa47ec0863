// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heldint.h"
#include "srq.h"

/* The shadow of a held QP: made on the agreed rail, connected, put to work, taken away. */

static uint32_t send_wrs(const struct mesh_held *h)
{
	return h->cap.max_send_wr;
}

static uint32_t recv_wrs(const struct mesh_held *h)
{
	return h->srq ? 0 : h->cap.max_recv_wr; /* an SRQ's are counted with its home */
}

static int use_cqs(struct mesh_held *h)
{
	struct mesh_data *data = &h->mc->data;
	int err;

	pthread_mutex_lock(&data->lock);
	err = mesh_kick_prepare(h->send_cq);
	if (!err)
		err = mesh_kick_prepare(h->recv_cq);
	if (!err) {
		mesh_cq_use(h->send_cq);
		mesh_cq_use(h->recv_cq);
	}
	pthread_mutex_unlock(&data->lock);
	return err;
}

/* No completion of it leads to us from now on. */
static void forget_shadow(struct mesh_held *h, uint32_t qpn)
{
	mesh_shadow_cq_remove(h->shadow_send_cq, qpn);
	mesh_shadow_cq_remove(h->shadow_recv_cq, qpn);
}

static int make_shadow(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
		       struct ibv_qp **ret)
{
	struct ibv_qp_init_attr init = {
		.send_cq = h->shadow_send_cq->cq,
		.recv_cq = h->shadow_recv_cq->cq,
		.cap = h->cap,
		.srq = h->home ? h->home->srq : NULL,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = h->sq_sig_all,
	};
	struct ibv_qp_attr to_init = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = attr->pkey_index,
		.port_num = attr->port_num,
		.qp_access_flags = attr->qp_access_flags,
	};
	struct ibv_qp *qp = mesh_root.lib.verbs.create_qp(spd->pd, &init);
	int err;

	if (!qp)
		return errno ? -errno : -EIO;
	err = mesh_root.lib.verbs.modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!err) {
		err = mesh_shadow_cq_add(h->shadow_send_cq, qp->qp_num, h);
		if (!err)
			err = mesh_shadow_cq_add(h->shadow_recv_cq, qp->qp_num, h);
	}
	if (err) {
		forget_shadow(h, qp->qp_num);
		mesh_root.lib.verbs.destroy_qp(qp);
		return -mesh_positive(err);
	}
	*ret = qp;
	return 0;
}

/* held->lock */
static int post_noted(struct mesh_held *h)
{
	const struct mesh_recvlog *log = &h->log;
	size_t i, sge = 0;
	int err = 0;

	if (log->incomplete)
		return -ENOMEM;
	for (i = 0; i < log->n && !err; i++) {
		err = mesh_post_shadow_recv(h, log->notes[i].wr_id, &log->sges[sge], log->notes[i].num_sge);
		sge += (size_t)log->notes[i].num_sge;
	}
	return -mesh_positive(err);
}

/* Keys of one rail mean nothing on another. held->lock */
static void forget_keys(struct mesh_held *h)
{
	memset(h->rkeys, 0, sizeof(h->rkeys));
	memset(h->lkeys, 0, sizeof(h->lkeys));
}

int mesh_held_prepare(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
		      uint32_t *ret_qpn)
{
	struct ibv_qp *qp;
	int err;

	if (h->shadow)
		return -EALREADY;
	err = use_cqs(h);
	if (err)
		return err;
	err = h->srq ? mesh_srq_join_shadow(h->srq, spd->rail, &h->home) : 0;
	if (err)
		return err;
	err = mesh_shadow_cq_reserve(h->send_cq, spd->rail, send_wrs(h), NULL, &h->shadow_send_cq);
	if (err)
		goto err_srq;
	err = mesh_shadow_cq_reserve(h->recv_cq, spd->rail, recv_wrs(h), h->home, &h->shadow_recv_cq);
	if (err)
		goto err_send;
	err = make_shadow(h, spd, attr, &qp);
	if (err)
		goto err_recv;

	pthread_mutex_lock(&h->lock);
	h->spd = spd;
	h->shadow = qp;
	h->shadow_recv_failed = h->rts = false;
	forget_keys(h);
	err = post_noted(h);
	pthread_mutex_unlock(&h->lock);
	if (err) {
		mesh_held_unprepare(h);
		return err;
	}
	*ret_qpn = qp->qp_num;
	return 0;

err_recv:
	mesh_shadow_cq_unreserve(h->shadow_recv_cq, recv_wrs(h), h->home);
err_send:
	mesh_shadow_cq_unreserve(h->shadow_send_cq, send_wrs(h), NULL);
err_srq:
	if (h->home)
		mesh_srq_leave_shadow(h->home);
	h->home = NULL;
	return err;
}

void mesh_held_unprepare(struct mesh_held *h)
{
	bool frozen, frozen_recv;
	struct ibv_qp *qp;
	uint32_t qpn;

	pthread_mutex_lock(&h->lock);
	qp = h->shadow;
	h->shadow = NULL;
	h->spd = NULL;
	pthread_mutex_unlock(&h->lock);
	if (!qp)
		return;
	qpn = qp->qp_num;
	forget_shadow(h, qpn);
	frozen = mesh_cq_freeze(h->send_cq);
	frozen_recv = h->recv_cq != h->send_cq && mesh_cq_freeze(h->recv_cq);
	mesh_root.lib.verbs.destroy_qp(qp); /* takes its completions out of the CQs */
	mesh_cq_thaw(h->recv_cq, frozen_recv);
	mesh_cq_thaw(h->send_cq, frozen);
	mesh_shadow_cq_unreserve(h->shadow_send_cq, send_wrs(h), NULL);
	mesh_shadow_cq_unreserve(h->shadow_recv_cq, recv_wrs(h), h->home);
	if (h->home)
		mesh_srq_leave_shadow(h->home);
	h->home = NULL;
}

int mesh_shadow_modify(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	return h->shadow ? -mesh_positive(mesh_root.lib.verbs.modify_qp(h->shadow, attr, attr_mask)) : -EINVAL;
}

int mesh_held_connect(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	bool lacks;

	pthread_mutex_lock(&h->lock);
	lacks = h->shadow_recv_failed;
	pthread_mutex_unlock(&h->lock);
	return lacks ? -ENOMEM : mesh_shadow_modify(h, attr, attr_mask);
}

int mesh_held_rts(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	int err = mesh_shadow_modify(h, attr, attr_mask);

	if (err)
		return err;
	pthread_mutex_lock(&h->lock);
	h->rts = true;
	mesh_post_drain(h);
	pthread_mutex_unlock(&h->lock);
	return 0;
}

void mesh_held_activate(struct mesh_held *h)
{
	pthread_mutex_lock(&h->lock);
	if (h->mode == MESH_HELD_WAITING && h->shadow) {
		h->mode = MESH_HELD_ACTIVE;
		mesh_recvlog_fini(&h->log);
		mesh_post_drain(h);
	}
	pthread_mutex_unlock(&h->lock);
}
