// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "postint.h"

/* Posting receives. Hot, as post.c. */

#define UNLOGGED_SGES 64u

int mesh_post_shadow_recv(struct mesh_vqp *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = h->keys.sges, .num_sge = num_sge}, *bad;
	int err;

	/* Checked before the provider is called: mesh_post_is_left(). */
	if (h->tracker && !h->tracker->shared && h->tracker->receives.n_left == h->tracker->receives.size)
		return ENOMEM;
	if (num_sge > 0 && (uint32_t)num_sge > h->made.cap.max_recv_sge)
		return EINVAL;
	mesh_post_translate_sges(h, sges, num_sge);
	err = ibv_post_recv(h->now.qp, &wr, &bad);
	if (!err && h->tracker && !h->tracker->shared)
		mesh_srqlog_push(&h->tracker->receives, wr_id, sges, num_sge);
	return err;
}

/*
 * A lost log does not remove flushed receives, so only the device knows whether there is room. Such a QP does not move any more,
 * and its log is not used again.
 */
static bool is_unlogged(const struct mesh_vqp *h)
{
	return h->tracker && !h->tracker->shared && (h->tracker->lost || h->mode == MESH_VQP_FLUSHING) &&
	       h->made.cap.max_recv_sge <= UNLOGGED_SGES;
}

/*
 * Post without vqp->lock, because the provider may look at the CQ to see whether there is room (mesh_post_is_left()).
 * Other receives of such a QP are posted the same way: with vqp->lock they would wait for this one. vqp->lock, released
 * meanwhile. Return: 0 or errno.
 */
static int recv_unlogged(struct mesh_vqp *h, const struct ibv_recv_wr *wr) MV_REQUIRES(&h->lock);
static int recv_unlogged(struct mesh_vqp *h, const struct ibv_recv_wr *wr)
{
	struct ibv_sge sges[UNLOGGED_SGES];
	struct ibv_recv_wr copy = *wr, *bad;
	struct ibv_qp *qp = h->now.qp;
	int err;

	if (wr->num_sge > 0 && (uint32_t)wr->num_sge > h->made.cap.max_recv_sge)
		return EINVAL;
	mesh_post_translate_sges(h, wr->sg_list, wr->num_sge);
	if (wr->num_sge > 0)
		memcpy(sges, h->keys.sges, (size_t)wr->num_sge * sizeof(*sges));
	copy.next = NULL;
	copy.sg_list = sges;
	mesh_unlock(&h->lock);
	err = ibv_post_recv(qp, &copy, &bad);
	mesh_lock(&h->lock);
	return err;
}

/*
 * Until the shadow has consumed a receive, each receive also goes to the program's own QP. That QP has all of them, should it do
 * the work in the end, and its ring tells when there are too many.
 */
static int recv_both(struct mesh_vqp *h, const struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr copy = *wr, *bad;
	int err;

	copy.next = NULL;
	err = h->mc->lower.io.post_recv(h->qp, &copy, &bad);
	if (err)
		return err;
	if (h->mode == MESH_VQP_RX_RECORD || h->mode == MESH_VQP_QUEUING)
		h->early.n_at_lower++;
	if (h->mode != MESH_VQP_FLUSHING)
		mesh_recvlog_add(&h->early.log, wr);
	if (h->now.qp && mesh_post_shadow_recv(h, wr->wr_id, wr->sg_list, wr->num_sge))
		h->now.recv_failed = true;
	return 0;
}

/* With a log, and no shadow in use. */
static int recv_logged(struct mesh_vqp *h, const struct ibv_recv_wr *wr)
{
	struct mesh_srqlog *log = &h->tracker->receives;
	struct ibv_recv_wr copy = *wr, *bad;
	int err = 0;

	copy.next = NULL;
	if (h->mode == MESH_VQP_TRACKED && !h->now.qp)
		mesh_post_check_keys(h, wr->sg_list, wr->num_sge);
	if (h->mode == MESH_VQP_TRACKED && (h->tracker->lost || mesh_tracker_reads(h->tracker))) {
		err = h->mc->lower.io.post_recv(h->qp, &copy, &bad);
		if (!err && h->tracker->walker && h->tracker->walker->noting)
			mesh_recvlog_add(&h->early.log, wr);
		return err;
	}
	if (mesh_tracker_reads(h->tracker) && h->mode == MESH_VQP_DRAINING)
		log = &h->tracker->walker->later;
	if (log->n_left == log->size)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > h->made.cap.max_recv_sge)
		return EINVAL;
	if (h->mode == MESH_VQP_TRACKED)
		err = h->mc->lower.io.post_recv(h->qp, &copy, &bad);
	else if (h->mode == MESH_VQP_DRAINED && !h->paused.n_new_receives)
		err = mesh_failover_post_recv(h, wr->wr_id, wr->sg_list, wr->num_sge);
	else
		h->paused.n_new_receives++;
	if (!err)
		mesh_srqlog_push(log, wr->wr_id, wr->sg_list, wr->num_sge);
	return err;
}

static bool has_receives(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_ACTIVE ||
	       (h->now.qp && (h->mode == MESH_VQP_FLUSHING ||
			      atomic_load_explicit(&h->flags.consumed, memory_order_relaxed)));
}

static int post_one_recv(struct mesh_vqp *h, const struct ibv_recv_wr *wr) MV_REQUIRES(&h->lock);
static int post_one_recv(struct mesh_vqp *h, const struct ibv_recv_wr *wr)
{
	if (h->mode == MESH_VQP_TRACKED || h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED)
		return recv_logged(h, wr);
	if (!has_receives(h))
		return recv_both(h, wr);
	return is_unlogged(h) ? recv_unlogged(h, wr) : mesh_post_shadow_recv(h, wr->wr_id, wr->sg_list, wr->num_sge);
}

static int post_recv_locked(struct mesh_vqp *h, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad_wr) MV_REQUIRES(&h->lock);
static int post_recv_locked(struct mesh_vqp *h, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err;

	if (h->tracker && mesh_walker_strayed(h->tracker->walker))
		mesh_walker_stray(h);
	for (; wr; wr = wr->next) {
		err = post_one_recv(h, wr); /* may release the lock */
		if (err) {
			*bad_wr = wr;
			return err;
		}
	}
	return 0;
}

int mesh_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct mesh_vqp *h = mesh_context_active(mc) ? mesh_vqp_find(mc, qp) : NULL;
	bool ours;
	int err = 0;

	if (!h)
		return mc->lower.io.post_recv(qp, wr, bad_wr);
	mesh_lock(&h->lock);
	ours = h->qp == qp && h->mode != MESH_VQP_FREE && h->mode != MESH_VQP_PASSTHROUGH && !mesh_post_recv_is_left(h);
	if (ours)
		err = post_recv_locked(h, wr, bad_wr);
	mesh_unlock(&h->lock);
	return ours ? err : mc->lower.io.post_recv(qp, wr, bad_wr);
}
