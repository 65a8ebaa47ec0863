// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heldint.h"
#include "srq.h"

#define COLLECT_TRIES 1000 /* of 100 us */

static uint32_t send_wrs(const struct mesh_held *h)
{
	return h->cap.max_send_wr;
}

static uint32_t recv_wrs(const struct mesh_held *h)
{
	return h->srq ? 0 : h->cap.max_recv_wr; /* an SRQ's are counted with its home */
}

/* ---- begin and end ------------------------------------------------------------------------------------------- */

static int take_caps(struct mesh_held *h, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t max_sge;
	int err;

	memset(&init, 0, sizeof(init));
	memset(&attr, 0, sizeof(attr));
	err = h->mc->query_qp(qp, &attr, IBV_QP_CAP, &init);
	if (err)
		return -mesh_positive(err);
	h->cap = init.cap;
	h->sq_sig_all = init.sq_sig_all;
	max_sge = h->cap.max_send_sge > h->cap.max_recv_sge ? h->cap.max_send_sge : h->cap.max_recv_sge;
	h->sges = calloc(max_sge ? max_sge : 1, sizeof(*h->sges));
	if (!h->sges)
		return -ENOMEM;
	return mesh_sendq_init(&h->queue, &h->cap);
}

static void put_cqs(struct mesh_held *h)
{
	if (h->send_cq)
		mesh_cq_put(h->send_cq);
	if (h->recv_cq)
		mesh_cq_put(h->recv_cq);
}

/* data->lock and held->lock are held. */
static int begin_locked(struct mesh_held *h, struct ibv_qp *qp)
{
	int err;

	h->srq = mesh_srq_find(h->mc, qp->srq);
	if (qp->srq && !h->srq)
		return -EOPNOTSUPP; /* what is posted to it is not known */
	if (h->log.incomplete)
		return -ENOMEM;
	err = take_caps(h, qp);
	if (err)
		return err;
	h->send_cq = mesh_cq_get(h->mc, qp->send_cq);
	h->recv_cq = mesh_cq_get(h->mc, qp->recv_cq);
	if (!h->send_cq || !h->recv_cq)
		return -ENOMEM;
	err = mesh_wrex_install(h);
	if (err)
		return err;
	h->mode = MESH_HELD_WAITING;
	return 0;
}

int mesh_held_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_held_ops *ops, void *arg,
		  struct mesh_held **ret)
{
	struct mesh_data *data = &mc->data;
	struct mesh_held *h;
	int err;

	if (qp->qp_type != IBV_QPT_RC)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&data->lock);
	h = mesh_held_find(mc, qp);
	if (!h) {
		/* The receives of a QP that was not noted are not known. */
		pthread_mutex_unlock(&data->lock);
		return -EOPNOTSUPP;
	}
	pthread_mutex_lock(&h->lock);
	h->ops = ops;
	h->arg = arg;
	err = begin_locked(h, qp);
	data->n_noted--;
	if (err) {
		put_cqs(h);
		mesh_map_drop(&data->qps, qp);
		mesh_held_release(h);
	} else {
		data->n_held++;
	}
	mesh_data_slots(mc);
	pthread_mutex_unlock(&h->lock);
	pthread_mutex_unlock(&data->lock);
	if (!err)
		*ret = h;
	return err;
}

static void forget_stashed(struct mesh_cq *cq, struct mesh_held *h)
{
	pthread_mutex_lock(&cq->lock);
	mesh_cq_forget(cq, h);
	pthread_mutex_unlock(&cq->lock);
}

/* From now on nothing finds it by its QP. Whoever did a moment ago finds it free, or another's, once he has its lock. */
static void leave(struct mesh_held *h)
{
	struct mesh_data *data = &h->mc->data;

	pthread_mutex_lock(&data->lock);
	mesh_map_drop(&data->qps, h->qp);
	put_cqs(h);
	data->n_held--;
	pthread_mutex_lock(&h->lock);
	mesh_held_release(h);
	pthread_mutex_unlock(&h->lock);
	mesh_data_slots(h->mc);
	pthread_mutex_unlock(&data->lock);
}

void mesh_held_destroy(struct mesh_held *h)
{
	if (!h)
		return;
	mesh_held_unprepare(h);
	pthread_mutex_lock(&h->post_lock);
	pthread_mutex_lock(&h->lock);
	mesh_wrex_remove(h);
	pthread_mutex_unlock(&h->lock);
	pthread_mutex_unlock(&h->post_lock);
	forget_stashed(h->send_cq, h);
	forget_stashed(h->recv_cq, h);
	leave(h);
}

/* ---- the shadow ---------------------------------------------------------------------------------------------- */

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
	mesh_root.lib.verbs.destroy_qp(qp);
	mesh_shadow_cq_unreserve(h->shadow_send_cq, send_wrs(h), NULL);
	mesh_shadow_cq_unreserve(h->shadow_recv_cq, recv_wrs(h), h->home);
	if (h->home)
		mesh_srq_leave_shadow(h->home);
	h->home = NULL;
}

static int modify_shadow(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	return h->shadow ? -mesh_positive(mesh_root.lib.verbs.modify_qp(h->shadow, attr, attr_mask)) : -EINVAL;
}

int mesh_held_connect(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	bool lacks;

	pthread_mutex_lock(&h->lock);
	lacks = h->shadow_recv_failed;
	pthread_mutex_unlock(&h->lock);
	return lacks ? -ENOMEM : modify_shadow(h, attr, attr_mask);
}

int mesh_held_rts(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	int err = modify_shadow(h, attr, attr_mask);

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

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static struct mesh_rkey *rkey_place(struct mesh_held *h, uint32_t rkey)
{
	return &h->rkeys[rkey >> 8 & (MESH_KEYS - 1)];
}

void mesh_held_put_key(struct mesh_held *h, uint32_t rkey, uint32_t path_rkey)
{
	pthread_mutex_lock(&h->lock);
	*rkey_place(h, rkey) =
		(struct mesh_rkey){.key = rkey, .path_key = path_rkey, .state = MESH_RKEY_KNOWN};
	mesh_post_drain(h);
	pthread_mutex_unlock(&h->lock);
}

void mesh_held_drop_key(struct mesh_held *h, uint32_t rkey)
{
	struct mesh_rkey *known;

	pthread_mutex_lock(&h->lock);
	known = rkey_place(h, rkey);
	if (known->key == rkey)
		known->state = MESH_RKEY_NONE;
	pthread_mutex_unlock(&h->lock);
}

void mesh_held_drop_keys(struct mesh_held *h)
{
	pthread_mutex_lock(&h->lock);
	memset(h->rkeys, 0, sizeof(h->rkeys));
	pthread_mutex_unlock(&h->lock);
}

/* ---- ways out ------------------------------------------------------------------------------------------------ */

int mesh_held_modify_base(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	int err;

	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
		err = mesh_srq_join_base(h->mc, h->qp);
		if (err)
			return -err;
	}
	pthread_mutex_lock(&h->post_lock);
	err = h->mc->modify_qp(h->qp, attr, attr_mask);
	pthread_mutex_lock(&h->lock);
	mesh_wrex_changed(h);
	pthread_mutex_unlock(&h->lock);
	pthread_mutex_unlock(&h->post_lock);
	return err;
}

/*
 * Completions that are in the shadow's CQ go to the stash, so that nothing is overlooked. Not while somebody polls, who may
 * be between start_poll and end_poll and wait for us.
 *
 * Return: whether that could be done.
 */
static bool collect(struct mesh_shadow_cq *scq)
{
	struct mesh_cq *cq = scq->owner;
	struct ibv_wc wc;
	int tries = 0;
	bool more;

	while (pthread_mutex_trylock(&cq->poll_lock)) {
		if (++tries > COLLECT_TRIES)
			return false;
		usleep(100);
	}
	pthread_mutex_lock(&cq->lock);
	do {
		more = !mesh_cq_stash_reserve(cq, 1) && mesh_poll_shadow(scq, 1, &wc) > 0;
		if (more)
			mesh_cq_stash(cq, &wc);
	} while (more);
	pthread_mutex_unlock(&cq->lock);
	pthread_mutex_unlock(&cq->poll_lock);
	return true;
}

/* Has the peer used the shadow? Then there is no way back: what it sent is there. */
static bool is_consumed(struct mesh_held *h)
{
	if (h->shadow && !atomic_load_explicit(&h->consumed, memory_order_relaxed) && !collect(h->shadow_recv_cq))
		return true; /* cannot be excluded */
	return atomic_load_explicit(&h->consumed, memory_order_relaxed);
}

int mesh_held_native(struct mesh_held *h)
{
	bool all;

	if (is_consumed(h))
		return -EBUSY;
	mesh_held_unprepare(h);
	pthread_mutex_lock(&h->post_lock);
	pthread_mutex_lock(&h->lock);
	h->mode = MESH_HELD_NATIVE;
	mesh_post_drain(h);
	all = !h->queue.n;
	if (all)
		mesh_wrex_remove(h);
	else
		h->mode = MESH_HELD_WAITING;
	pthread_mutex_unlock(&h->lock);
	pthread_mutex_unlock(&h->post_lock);
	if (!all)
		return -EAGAIN;
	leave(h);
	return 0;
}

/* ---- the program's own changes ------------------------------------------------------------------------------- */

static enum mesh_held_mode mode_of(struct mesh_held *h)
{
	enum mesh_held_mode mode;

	pthread_mutex_lock(&h->lock);
	mode = h->mode;
	pthread_mutex_unlock(&h->lock);
	return mode;
}

/* What the program says of its own port and path is not for the shadow's. */
#define PATH_ATTRIBUTES (IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX)

int mesh_held_modify(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask)
{
	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		return mesh_held_flush(h);
	if (h->shadow && mode_of(h) != MESH_HELD_WAITING)
		return modify_shadow(h, attr, attr_mask & ~PATH_ATTRIBUTES);
	return 0;
}

int mesh_held_query(struct mesh_held *h, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;
	enum mesh_held_mode mode = mode_of(h);
	struct ibv_qp_attr now;
	int err;

	memset(&now, 0, sizeof(now));
	memset(&init, 0, sizeof(init));
	if (h->shadow && mode != MESH_HELD_WAITING)
		err = mesh_root.lib.verbs.query_qp(h->shadow, &now, IBV_QP_STATE, &init);
	else if (mode == MESH_HELD_FLUSHING)
		err = h->mc->query_qp(h->qp, &now, IBV_QP_STATE, &init);
	else
		return -ENODATA;
	if (err)
		return -mesh_positive(err);
	attr->qp_state = now.qp_state;
	attr->cur_qp_state = now.cur_qp_state;
	attr->sq_psn = now.sq_psn;
	attr->rq_psn = now.rq_psn;
	attr->sq_draining = now.sq_draining;
	return 0;
}
