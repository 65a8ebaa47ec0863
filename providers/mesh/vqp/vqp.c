// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vqp_failover.h"
#include "qpmade.h"
#include "srq.h"
#include "survives.h"
#include "vqp_int.h"

/* ---- begin and end ------------------------------------------------------------------------------------------- */

static int take_caps(struct mesh_vqp *h, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t max_sge;
	int err;

	memset(&init, 0, sizeof(init));
	memset(&attr, 0, sizeof(attr));
	err = h->mc->lower.qp.query_qp(qp, &attr, IBV_QP_CAP | IBV_QP_PORT, &init);
	if (err)
		return -mesh_positive(err);
	h->made.cap = init.cap;
	h->made.port_num = attr.port_num;
	h->made.sq_sig_all = init.sq_sig_all;
	max_sge = h->made.cap.max_send_sge > h->made.cap.max_recv_sge ? h->made.cap.max_send_sge : h->made.cap.max_recv_sge;
	h->keys.sges = calloc(max_sge ? max_sge : 1, sizeof(*h->keys.sges));
	return h->keys.sges ? 0 : -ENOMEM;
}

int mesh_vqp_room(struct mesh_vqp *h)
{
	int err = 0;

	if (!h->keys.places)
		h->keys.places = calloc(1, sizeof(*h->keys.places));
	if (!h->keys.places)
		return -ENOMEM;
	if (!h->queue.places)
		err = mesh_sendq_init(&h->queue, &h->made.cap);
	return err || !h->tracker ? err : mesh_tracker_room(h->tracker, &h->made.cap);
}

static void put_cqs(struct mesh_vqp *h)
{
	if (h->send_cq)
		mesh_cq_put(h->send_cq);
	if (h->recv_cq)
		mesh_cq_put(h->recv_cq);
}

/* Log the receives that were recorded before any could be consumed. vqp->lock */
static int log_noted(struct mesh_vqp *h)
{
	const struct mesh_recvlog *log = &h->early.log;
	size_t i, sge = 0;

	if (log->n > h->tracker->receives.size)
		return -ENOMEM;
	for (i = 0; i < log->n; i++) {
		mesh_srqlog_push(&h->tracker->receives, log->notes[i].wr_id, &log->sges[sge], log->notes[i].num_sge);
		sge += (size_t)log->notes[i].num_sge;
	}
	mesh_recvlog_fini(&h->early.log);
	return 0;
}

/* data->lock, vqp->lock */
static int begin_tracking(struct mesh_vqp *h, enum mesh_vqp_mode mode)
{
	if (!mesh_survives(h->mc))
		return mode == MESH_VQP_TRACKED ? -EOPNOTSUPP : 0;
	/* Otherwise completions of this QP, of other QPs and of sentinels look alike. Shadow CQs always report QPNs. */
	if (mode == MESH_VQP_TRACKED && !(mesh_cq_names_qps(h->mc, h->send_cq->cq) &&
					  mesh_cq_names_qps(h->mc, h->recv_cq->cq)))
		return -EOPNOTSUPP;
	h->tracker = mesh_tracker_new(&h->made.cap, h->made.sq_sig_all, h->srq);
	if (h->tracker && h->srq)
		h->tracker->begun = mesh_srq_place(h->srq);
	return h->tracker && (h->tracker->begun || !h->srq) ? 0 : -ENOMEM;
}

/* data->lock, vqp->lock */
static int begin_log(struct mesh_vqp *h, enum mesh_vqp_mode mode)
{
	int err = begin_tracking(h, mode);

	if (err)
		return err;
	if (mode == MESH_VQP_TRACKED && !mesh_walker_open(h))
		return 0; /* receives are in mlx5's queue; recording goes on for mesh_vqp_begin_again() */
	err = mesh_vqp_room(h);
	return err || mode != MESH_VQP_TRACKED ? err : log_noted(h);
}

/* data->lock and vqp->lock are held. */
static int begin_locked(struct mesh_vqp *h, struct ibv_qp *qp, enum mesh_vqp_mode mode)
{
	int err;

	if (!mesh_data_takes(h->mc, MESH_FOR_CONNECTIONS))
		return -EBUSY; /* possible since INIT only */
	h->srq = mesh_srq_find(h->mc, qp->srq);
	if (qp->srq && !h->srq)
		return -EOPNOTSUPP; /* receives posted to that SRQ are not known */
	if (h->early.log.incomplete)
		return -ENOMEM;
	err = take_caps(h, qp);
	if (err)
		return err;
	/* A program that polls by direct access to the rings posts that way, too. */
	if (mesh_qp_stays(h->mc, qp) || mesh_mlx5_builds(h->mc, qp) || mesh_cq_is_taken(h->mc, qp->send_cq) || mesh_cq_is_taken(h->mc, qp->recv_cq))
		return -EBUSY;
	h->send_cq = mesh_cq_get(h->mc, qp->send_cq);
	h->recv_cq = mesh_cq_get(h->mc, qp->recv_cq);
	if (!h->send_cq || !h->recv_cq)
		return -ENOMEM;
	err = mesh_wrex_alloc(h);
	if (!err)
		err = begin_log(h, mode);
	if (err)
		return err;
	if (!h->tracker || !h->tracker->walker)
		mesh_wrex_install(h);
	h->mode = mode;
	return 0;
}

int mesh_vqp_begin(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
		   enum mesh_vqp_mode mode, struct mesh_vqp **ret)
{
	struct mesh_data *data = &mc->data;
	struct mesh_vqp *h;
	int err;

	if (qp->qp_type != IBV_QPT_RC)
		return -EOPNOTSUPP;
	mesh_mlx5_is_lower(mc); /* looks up the provider, before locks are taken */
	mesh_lock(&data->lock);
	h = mesh_vqp_find(mc, qp);
	if (!h) {
		/* The receives of a QP without record are not known. */
		mesh_unlock(&data->lock);
		return -EOPNOTSUPP;
	}
	mesh_lock(&h->lock);
	h->client.ops = ops;
	h->client.arg = arg;
	err = begin_locked(h, qp, mode);
	data->n_noted--;
	if (err) {
		put_cqs(h);
		mesh_map_drop(&data->qps, qp);
		mesh_vqp_release(h);
	} else {
		data->n_vqps++;
	}
	mesh_data_slots(mc);
	mesh_unlock(&h->lock);
	mesh_unlock(&data->lock);
	if (!err)
		*ret = h;
	return err;
}

/* vqp->lock */
static void note_logged(struct mesh_vqp *h)
{
	struct mesh_srqlog *log = &h->tracker->receives;
	struct mesh_srq_recv *recv;
	uint32_t i;

	for (i = 0; !h->tracker->shared && i < log->n; i++) {
		recv = mesh_srqlog_at(log, i);
		mesh_recvlog_add(&h->early.log, &(struct ibv_recv_wr){
						  .wr_id = recv->wr_id, .sg_list = recv->sges, .num_sge = recv->num_sge});
	}
}

void mesh_vqp_begin_again(struct mesh_vqp *h)
{
	struct mesh_data *data = &h->mc->data;

	mesh_lock(&h->posting.lock);
	mesh_lock(&data->lock);
	mesh_lock(&h->lock);
	mesh_wrex_remove(h);
	if (!h->tracker->walker)
		note_logged(h);
	mesh_walker_close(h);
	put_cqs(h);
	h->send_cq = h->recv_cq = NULL;
	mesh_sendq_fini(&h->queue);
	free(h->keys.places);
	h->keys.places = NULL;
	mesh_tracker_free(h->tracker);
	h->tracker = NULL;
	free(h->keys.sges);
	h->keys.sges = NULL;
	h->srq = NULL;
	h->client.ops = NULL;
	h->client.arg = NULL;
	h->mode = MESH_VQP_RX_RECORD;
	data->n_vqps--;
	data->n_noted++;
	mesh_data_slots(h->mc);
	mesh_unlock(&h->lock);
	mesh_unlock(&data->lock);
	mesh_unlock(&h->posting.lock);
}

int mesh_vqp_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
		 struct mesh_vqp **ret)
{
	return mesh_vqp_begin(mc, qp, ops, arg, MESH_VQP_QUEUING, ret);
}

static void forget_withheld(struct mesh_cq *cq, struct mesh_vqp *h)
{
	mesh_lock(&cq->lock);
	mesh_cq_forget(cq, h);
	mesh_unlock(&cq->lock);
}

/*
 * Take the record out of the map. A thread that found the record before sees, once it has vqp->lock, that the record is
 * free or of another QP.
 */
static void leave(struct mesh_vqp *h)
{
	struct mesh_data *data = &h->mc->data;

	mesh_lock(&data->lock);
	mesh_map_drop(&data->qps, h->qp);
	put_cqs(h);
	data->n_vqps--;
	mesh_lock(&h->lock);
	mesh_vqp_release(h);
	mesh_unlock(&h->lock);
	mesh_data_slots(h->mc);
	mesh_unlock(&data->lock);
}

void mesh_vqp_destroy(struct mesh_vqp *h)
{
	if (!h)
		return;
	/* The drain waits for completions of QPs that are destroyed below: end it first. */
	mesh_failover_end_drain(h);
	mesh_shadow_destroy(h);
	mesh_failover_end(h);
	mesh_lock(&h->posting.lock);
	mesh_lock(&h->lock);
	mesh_wrex_remove(h);
	mesh_unlock(&h->lock);
	mesh_unlock(&h->posting.lock);
	forget_withheld(h->send_cq, h);
	forget_withheld(h->recv_cq, h);
	/* No completion leads to this record any more. */
	if (h->tracker)
		mesh_srq_end_withheld(h->srq, h->tracker->begun, false);
	leave(h);
}

/* ---- end and reset ------------------------------------------------------------------------------------------- */

/* posting.lock */
static int modify_lower(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	int err = h->mc->lower.qp.modify_qp(h->qp, attr, attr_mask);

	mesh_lock(&h->lock);
	mesh_wrex_changed(h);
	mesh_unlock(&h->lock);
	return err;
}

void mesh_vqp_want_stop(struct mesh_vqp *h)
{
	atomic_store_explicit(&h->posting.stop_wanted, true, memory_order_relaxed);
}

MV_LOCKS_UNCHECKED bool mesh_vqp_stop_posting(struct mesh_vqp *h)
{
	unsigned int n;

	for (n = 0; !mesh_trylock(&h->posting.lock); n++) {
		if (mesh_vqp_in_batch(h)) {
			mesh_vqp_want_stop(h);
			return false;
		}
		if (n < 100)
			sched_yield();
		else
			usleep(20); /* the owner of the lock may have a lower priority */
	}
	atomic_store_explicit(&h->posting.stopper, (uintptr_t)pthread_self(), memory_order_relaxed);
	return true;
}

MV_LOCKS_UNCHECKED void mesh_vqp_resume_posting(struct mesh_vqp *h)
{
	atomic_store_explicit(&h->posting.stopper, 0, memory_order_relaxed);
	mesh_unlock(&h->posting.lock);
}

bool mesh_vqp_is_polled(const struct mesh_vqp *h)
{
	return atomic_load_explicit(&h->send_cq->poller.thread, memory_order_relaxed) ||
	       atomic_load_explicit(&h->recv_cq->poller.thread, memory_order_relaxed);
}

/* Does the calling thread hold posting.lock? */
static bool is_stopped(const struct mesh_vqp *h)
{
	return atomic_load_explicit(&h->posting.stopper, memory_order_relaxed) == (uintptr_t)pthread_self() ||
	       mesh_vqp_in_own_batch(h);
}

int mesh_vqp_try_modify_lower(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	int err;

	if (is_stopped(h))
		return modify_lower(h, attr, attr_mask);
	if (!mesh_vqp_stop_posting(h))
		return EAGAIN;
	err = modify_lower(h, attr, attr_mask);
	mesh_vqp_resume_posting(h);
	return err;
}

MV_LOCKS_UNCHECKED int mesh_vqp_modify_lower(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	bool own = is_stopped(h);
	int err;

	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
		/* A QP that was held for the peer's answer, and now uses the program's own NIC, stays there. */
		err = mesh_srq_join_lower(h->mc, h->qp, !h->tracker || mesh_vqp_mode(h) == MESH_VQP_QUEUING);
		if (err)
			return -err;
	}
	if (!own)
		mesh_lock(&h->posting.lock);
	err = modify_lower(h, attr, attr_mask);
	if (!own)
		mesh_unlock(&h->posting.lock);
	/* A failed RTR may be repeated, so receives are still recorded. */
	if (!err && attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR)
		mesh_walker_connected(h);
	return err;
}

bool mesh_vqp_can_begin_again(const struct mesh_vqp *h)
{
	return (!h->send_cq->ex.extended || h->send_cq->ex.seen_whole) && (!h->recv_cq->ex.extended || h->recv_cq->ex.seen_whole);
}

/*
 * A poller of an extended CQ may be waiting for conn->lock, which the caller holds. So wait only as long as an empty poll takes.
 * Spin: on a busy host, sched_yield() takes far longer.
 */
static bool freeze_shortly(struct mesh_cq *cq)
{
	unsigned int n;

	if (!cq->ex.extended)
		return mesh_cq_freeze(cq);
	for (n = 0; n < 300; n++)
		if (mesh_cq_try_freeze(cq))
			return true;
	return false;
}

/* vqp->lock */
static int post_noted_to_lower(struct mesh_vqp *h)
{
	const struct mesh_recvlog *log = &h->early.log;
	struct ibv_recv_wr wr = {0}, *bad;
	size_t i, sge = 0;
	int err = 0;

	for (i = 0; i < log->n && !err; i++) {
		wr.wr_id = log->notes[i].wr_id;
		wr.num_sge = log->notes[i].num_sge;
		wr.sg_list = &log->sges[sge];
		err = h->mc->lower.io.post_recv(h->qp, &wr, &bad);
		sge += (size_t)log->notes[i].num_sge;
	}
	return err;
}

/* The CQs are frozen. */
static int begin_lower_again(struct mesh_vqp *h, const struct ibv_qp_attr *init, int init_mask)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, again = *init;
	struct mesh_qp_ece noted;
	int err;

	/* Under vqp->lock, so that receives posted meanwhile come behind the recorded ones. */
	mesh_lock(&h->lock);
	err = h->early.log.incomplete ? ENOMEM : h->mc->lower.qp.modify_qp(h->qp, &reset, IBV_QP_STATE);
	mesh_wrex_changed(h); /* at once: libmlx5 has installed functions that refuse all posts */
	again.qp_state = IBV_QPS_INIT;
	if (!err)
		err = h->mc->lower.qp.modify_qp(h->qp, &again, init_mask | IBV_QP_STATE);
	if (!err && mesh_qp_ece(h->mc, h->qp, &noted))
		err = h->mc->lower.qp.set_ece(h->qp, &noted.ece);
	if (!err)
		err = post_noted_to_lower(h);
	mesh_wrex_changed(h);
	mesh_unlock(&h->lock);
	return -mesh_positive(err);
}

int mesh_vqp_begin_lower_again(struct mesh_vqp *h, const struct ibv_qp_attr *init, int init_mask)
{
	struct mesh_cq *a = h->send_cq, *b = h->recv_cq;
	bool frozen_a = freeze_shortly(a), frozen_b = frozen_a && b != a && freeze_shortly(b);
	int err = -EAGAIN;

	if (frozen_a && (frozen_b || b == a))
		err = begin_lower_again(h, init, init_mask);
	mesh_cq_thaw(b, frozen_b);
	mesh_cq_thaw(a, frozen_a);
	return err;
}

int mesh_vqp_passthrough(struct mesh_vqp *h)
{
	bool all;

	mesh_lock(&h->lock);
	if (h->now.qp) {
		mesh_unlock(&h->lock);
		return -EBUSY;
	}
	h->mode = MESH_VQP_PASSTHROUGH;
	mesh_post_drain(h);
	all = !h->queue.n;
	if (all)
		mesh_wrex_remove(h);
	else
		h->mode = MESH_VQP_QUEUING;
	mesh_unlock(&h->lock);
	if (!all)
		return -EAGAIN;
	mesh_walker_quicken_again(h->send_cq);
	leave(h);
	return 0;
}
