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
	h->shadow_recv_failed = h->rtr = h->rts = false;
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

/* ---- taking it away ------------------------------------------------------------------------------------------- */

/* Its CQs, in an order on which two QPs with the same ones agree; NULL: there is but one. */
static void cqs_of(const struct mesh_held *h, struct mesh_cq *cqs[2])
{
	bool swap = (uintptr_t)h->recv_cq < (uintptr_t)h->send_cq;

	cqs[0] = swap ? h->recv_cq : h->send_cq;
	cqs[1] = h->recv_cq == h->send_cq ? NULL : swap ? h->send_cq : h->recv_cq;
}

/* Return: whether nobody polls any of them. */
static bool freeze(struct mesh_held *h, bool frozen[2])
{
	struct mesh_cq *cqs[2];

	cqs_of(h, cqs);
	frozen[0] = mesh_cq_freeze(cqs[0]);
	frozen[1] = cqs[1] && mesh_cq_freeze(cqs[1]);
	return frozen[0] && (frozen[1] || !cqs[1]);
}

static void thaw(struct mesh_held *h, const bool frozen[2])
{
	struct mesh_cq *cqs[2];

	cqs_of(h, cqs);
	if (cqs[1])
		mesh_cq_thaw(cqs[1], frozen[1]);
	mesh_cq_thaw(cqs[0], frozen[0]);
}

/* Its CQs are frozen, if that can be had. */
static void take_away(struct mesh_held *h)
{
	struct ibv_qp *qp;

	pthread_mutex_lock(&h->lock);
	qp = h->shadow;
	h->shadow = NULL;
	h->spd = NULL;
	h->rtr = h->rts = false;
	pthread_mutex_unlock(&h->lock);
	forget_shadow(h, qp->qp_num);
	mesh_root.lib.verbs.destroy_qp(qp); /* takes its completions out of the CQs */
}

static void release_cqs(struct mesh_held *h)
{
	mesh_shadow_cq_unreserve(h->shadow_send_cq, send_wrs(h), NULL);
	mesh_shadow_cq_unreserve(h->shadow_recv_cq, recv_wrs(h), h->home);
	if (h->home)
		mesh_srq_leave_shadow(h->home);
	h->home = NULL;
}

/*
 * Has the peer used the shadow? What is in its CQ goes to the stash, so that nothing is overlooked;
 * what a QP in ERR flushes does not, unless something was consumed: the base has those receives as
 * well. The CQs are frozen.
 */
static bool is_consumed(struct mesh_held *h, bool err)
{
	struct mesh_shadow_cq *scq = h->shadow_recv_cq;
	struct mesh_cq *cq = scq->owner;
	struct ibv_wc wc;
	bool flushed;
	int got = 1;

	while (got > 0) {
		pthread_mutex_lock(&cq->lock);
		if (!mesh_cq_stash_room(cq))
			mesh_cq_stash_reserve(cq, 1);
		pthread_mutex_unlock(&cq->lock);
		if (!mesh_cq_stash_keep(cq))
			return true; /* no memory: cannot be excluded */
		got = mesh_poll_shadow(scq, 1, &wc);
		flushed = got > 0 && err && wc.qp_num == h->qp->qp_num &&
			  wc.status == IBV_WC_WR_FLUSH_ERR &&
			  !atomic_load_explicit(&h->consumed, memory_order_relaxed);
		mesh_cq_stash_kept(cq, got > 0 && !flushed ? &wc : NULL);
	}
	return atomic_load_explicit(&h->consumed, memory_order_relaxed);
}

/* Nothing arrives any more, and nothing did. The CQs are frozen. */
static bool is_unused(struct mesh_held *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (!h->rtr)
		return true; /* nothing could */
	if (is_consumed(h, false))
		return false;
	return !mesh_shadow_modify(h, &attr, IBV_QP_STATE) && !is_consumed(h, true);
}

int mesh_held_unprepare(struct mesh_held *h)
{
	bool frozen[2], all, unused;

	if (!h->shadow)
		return 0;
	all = freeze(h, frozen);
	unused = !h->rtr || (all && is_unused(h));
	if (unused)
		take_away(h);
	thaw(h, frozen);
	if (!unused)
		return -EBUSY;
	release_cqs(h);
	return 0;
}

void mesh_shadow_destroy(struct mesh_held *h)
{
	bool frozen[2];

	if (!h->shadow)
		return;
	freeze(h, frozen);
	take_away(h);
	thaw(h, frozen);
	release_cqs(h);
}

/* ---- states --------------------------------------------------------------------------------------------------- */

int mesh_shadow_modify(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	return h->shadow ? -mesh_positive(mesh_root.lib.verbs.modify_qp(h->shadow, attr, attr_mask)) : -EINVAL;
}

int mesh_held_connect(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	bool lacks;

	pthread_mutex_lock(&h->lock);
	lacks = h->shadow_recv_failed;
	h->rtr = !lacks && h->shadow; /* before it is: who takes it away has to look whether
					 something arrived */
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
