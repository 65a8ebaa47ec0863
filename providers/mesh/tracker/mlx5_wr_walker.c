// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5_wr_walker.h"

#include <endian.h>
#include <errno.h>

#include "wrmlx5_hot.h"

static const char no_order[] = "completions do not come in the order of its queue";

/* ---- begin and end ------------------------------------------------------------------------------------------- */

static struct mesh_staged *staged_at(const struct mesh_vqp *h, const struct mesh_cq *cq)
{
	return &mesh_walker_of(h)->staged[cq != h->send_cq];
}

void mesh_walker_rts(struct mesh_walker *walker)
{
	if (walker->ended)
		return;
	walker->sq_at = mv_mlx5_sq_end(&walker->sq);
	walker->failed = false;
}

bool mesh_walker_in_batch(const struct mesh_vqp *h)
{
	const struct mesh_walker *walker = mesh_walker_of(h);

	return walker && mesh_mlx5_is_locked(&walker->lock);
}

void mesh_walker_quicken(struct mesh_cq *cq)
{
	struct mesh_data *data = &cq->mc->data;

	mesh_cqe_lock(cq);
	mesh_lock(&cq->lock);
	mesh_lock(&data->lock);
	/*
	 * Not if completions of the plugin are to be shown, or those of other rails merged. A notification is
	 * recognised.
	 */
	if (cq->reading.ring.buf && !cq->reading.unreadable && !cq->users.used && !cq->sw_cq.n &&
	    !cq->sw_cq.reserved && !cq->shadows.polled)
		atomic_store_explicit(&cq->fast, true, memory_order_relaxed);
	mesh_unlock(&data->lock);
	mesh_unlock(&cq->lock);
	mesh_cqe_unlock(cq);
}

void mesh_walker_quicken_again(struct mesh_cq *cq)
{
	if (atomic_load_explicit(&cq->reading.n_walkers, memory_order_relaxed))
		mesh_walker_quicken(cq);
}

/* ---- reading completions ------------------------------------------------------------------------------------- */

static void lose(struct mesh_wr_tracker *tracker, const char *why)
{
	if (!tracker->lost)
		tracker->lost = why;
}

static void lose_log_of(struct mesh_vqp *h, const char *why)
{
	mesh_lock(&h->lock);
	if (mesh_walker_of(h))
		lose(h->tracker, why);
	mesh_unlock(&h->lock);
}

/* The CQ's CQE lock is held. */
static void lose_one(struct mesh_cq *cq, uint32_t qpn, const char *why)
{
	const struct mesh_cq_qp *qp;

	mesh_lock(&cq->lock);
	qp = mesh_qpns_find(&cq->own_qps.qpns, qpn);
	if (qp && qp->vqp)
		lose_log_of(qp->vqp, why);
	mesh_unlock(&cq->lock);
}

/* The CQ's CQE lock is held. */
static void lose_all(struct mesh_cq *cq, const char *why)
{
	size_t i;

	atomic_store_explicit(&cq->fast, false, memory_order_relaxed);
	mesh_lock(&cq->lock);
	for (i = 0; i < cq->own_qps.qpns.n_places; i++)
		if (cq->own_qps.qpns.places[i].vqp)
			lose_log_of(cq->own_qps.qpns.places[i].vqp, why);
	mesh_unlock(&cq->lock);
}

int mesh_walker_pass(struct mesh_wr_tracker *tracker, uint16_t last, bool last_too)
{
	struct mesh_walker *walker = tracker->walker;
	struct mv_mlx5_run run = {.next = walker->sq_at};
	int err = 0;

	if (last_too)
		err = mv_mlx5_sq_pass(&walker->sq, walker->qpn, walker->sq_at, last, tracker->mtu_bytes, &run);
	else if (last != walker->sq_at)
		err = mv_mlx5_sq_psns(&walker->sq, walker->qpn, walker->sq_at, last, tracker->mtu_bytes, &run.psns,
				      &run.consumes);
	if (err)
		return err;
	mv_wrring_pass(&tracker->sends, run.psns, run.consumes);
	walker->sq_at = last_too ? run.next : last;
	return 0;
}

static void stage_send(struct mesh_wr_tracker *tracker, const struct mv_mlx5_cqe *cqe, struct mesh_staged *staged)
{
	struct mesh_walker *walker = tracker->walker;
	int err;

	if (!cqe->error) {
		err = walker->failed ? -EPROTO : mesh_walker_pass(tracker, cqe->wqe_counter, true);
		if (err)
			lose(tracker, err == -EOPNOTSUPP ? mesh_tracker_kind : no_order);
		return;
	}
	/* Sends before the first failed one, without completion, are done. */
	err = walker->failed ? (cqe->wqe_counter == walker->sq_at ? 0 : -EPROTO)
			     : mesh_walker_pass(tracker, cqe->wqe_counter, false);
	walker->failed = true;
	staged->kind = MESH_STAGED_SEND;
	if (err) {
		lose(tracker, no_order);
		return;
	}
	if (mv_mlx5_sq_get(&walker->sq, walker->qpn, cqe->wqe_counter, tracker->sends.log.max_sge,
			   tracker->sends.log.max_inline_bytes, staged->sges, staged->data, &staged->send,
			   &walker->sq_at))
		lose(tracker, mesh_tracker_kind);
}

static void stage_receive(struct mesh_wr_tracker *tracker, const struct mv_mlx5_cqe *cqe, struct mesh_staged *staged)
{
	struct mesh_walker *walker = tracker->walker;

	if (tracker->shared) {
		staged->kind = cqe->error ? MESH_STAGED_SHARED : MESH_STAGED_NONE;
		return;
	}
	if (cqe->wqe_counter != walker->rq_at)
		lose(tracker, no_order);
	walker->rq_at = (uint16_t)(cqe->wqe_counter + 1);
	if (!cqe->error)
		return;
	staged->kind = MESH_STAGED_RECEIVE;
	staged->n_sges = mv_mlx5_rq_read(&walker->rq, walker->rq_at, 1, 0, tracker->receives.max_sge, staged->sges);
	if (staged->n_sges < 0)
		lose(tracker, no_order);
}

/*
 * vqp->lock. Failed work goes to the log, which may have no memory yet: the path has failed before any move was
 * prepared.
 */
static void stage_logged(struct mesh_vqp *h, const struct mesh_cq *cq, const struct mv_mlx5_cqe *cqe)
{
	struct mesh_staged *staged = staged_at(h, cq);

	staged->kind = MESH_STAGED_NONE;
	if (cqe->error && mesh_tracker_room(h->tracker, &h->made.cap))
		lose(h->tracker, "out of memory"); /* the program gets its errors */
	else if (cqe->send)
		stage_send(h->tracker, cqe, staged);
	else
		stage_receive(h->tracker, cqe, staged);
}

/* CQE lock, cq->lock */
static void stage(struct mesh_vqp *h, const struct mesh_cq *cq, const struct mv_mlx5_cqe *cqe)
{
	struct mesh_walker *walker;

	mesh_lock(&h->lock);
	walker = mesh_walker_of(h);
	/* A receive of an SRQ may be late: is_late() of wr_tracker.c. */
	if (walker && walker->ended && (cqe->send || !h->tracker->shared))
		mesh_walker_stray(h);
	else if (walker && walker->ended)
		;
	else if (walker && !h->tracker->lost)
		stage_logged(h, cq, cqe);
	mesh_unlock(&h->lock);
}

void mesh_walker_took_others(struct mesh_cq *cq, uint32_t qpn, bool error, const struct ibv_wc *wc, int got)
{
	static const char why[] = "completions were taken away while one was polled";

	if (!cq->reading.removals) {
		lose_all(cq, why);
		return;
	}
	if (got == 1 && wc->qp_num == qpn && (wc->status != IBV_WC_SUCCESS) == error)
		return;
	lose_one(cq, qpn, why);
	if (got == 1)
		lose_one(cq, wc->qp_num, why);
}

int mesh_walker_poll(struct mesh_cq *cq, struct ibv_wc *wc, bool *ret_failed_receive)
{
	const struct mesh_cq_qp *qp;
	struct mv_mlx5_cqe cqe;
	uint32_t before;
	bool exact;
	int err, got;

	*ret_failed_receive = false;
	if (cq->reading.unreadable)
		return cq->mc->lower.io.poll_cq(cq->cq, 1, wc);
	before = mv_mlx5_consumer(&cq->reading.ring);
	err = mv_mlx5_cqe_peek(&cq->reading.ring, 0, &cqe);
	if (err == -EAGAIN)
		return 0;
	if (err) {
		lose_all(cq, "its CQ has completions of a kind that is not known");
		return cq->mc->lower.io.poll_cq(cq->cq, 1, wc);
	}
	mesh_lock(&cq->lock);
	qp = mesh_qpns_find(&cq->own_qps.qpns, cqe.qpn);
	if (qp && qp->vqp)
		stage(qp->vqp, cq, &cqe);
	mesh_unlock(&cq->lock);
	got = cq->mc->lower.io.poll_cq(cq->cq, 1, wc);
	exact = got == 1 && mesh_walker_took(&cq->reading, before, 1);
	if (!exact)
		mesh_walker_took_others(cq, cqe.qpn, cqe.error, wc, got);
	*ret_failed_receive = (exact || (got == 1 && cq->reading.removals)) && cqe.error && !cqe.send &&
			      wc->status != IBV_WC_SUCCESS && wc->qp_num == cqe.qpn;
	return got;
}

/*
 * Stands for a CQ whose buffer is not known: it always has a CQE, so fastpoll.c takes the slow way without
 * a further check.
 */
static const struct mlx5_cqe64 anything;
static const __be32 no_record[2];
static const struct mv_mlx5_cq nowhere = {.buf = &anything, .n_cqes = 1, .cqe_bytes = sizeof(anything), .dbrec = no_record};

void mesh_walker_cq_refresh(struct mesh_cq *cq)
{
	struct mesh_data *data = &cq->mc->data;
	struct mv_mlx5_cq ring = nowhere;
	struct ibv_wc none;
	int err;

	cq->mc->lower.io.poll_cq(cq->cq, 0, &none); /* updates the doorbell record */
	err = mesh_mlx5_cq(cq->mc, cq->cq, &ring);
	if (err)
		lose_all(cq, "its CQ was resized and cannot be read any more");
	mesh_lock(&data->lock);
	cq->reading.ring = ring;
	cq->reading.unreadable = err;
	mesh_unlock(&data->lock);
}

/* ---- outstanding work ---------------------------------------------------------------------------------------- */

static const char too_many[] = "it has more outstanding than its queue takes";

void mesh_walker_keep(struct mesh_vqp *h, const struct mesh_completion *c)
{
	struct mesh_wr_tracker *tracker = h->tracker;
	struct mesh_staged *staged = staged_at(h, c->cq);
	enum mesh_staged_kind kind = staged->kind;

	staged->kind = MESH_STAGED_NONE; /* logged once */
	if (tracker->lost)
		return;
	switch (kind) {
	case MESH_STAGED_SEND:
		staged->send.wr.wr_id = c->wr_id;
		if (mv_wrring_add(&tracker->sends, &staged->send.wr))
			lose(tracker, too_many);
		break;
	case MESH_STAGED_RECEIVE:
		if (tracker->receives.n_left == tracker->receives.size)
			lose(tracker, too_many);
		else
			mesh_srqlog_push(&tracker->receives, c->wr_id, staged->sges, staged->n_sges);
		break;
	case MESH_STAGED_SHARED:
		tracker->walker->n_shared++;
		break;
	case MESH_STAGED_NONE:
		lose(tracker, "a completion in error was polled that had not been looked at");
	}
}

void mesh_walker_settle(struct mesh_wr_tracker *tracker)
{
	struct mesh_walker *walker = tracker->walker;
	const struct mesh_srq_recv *recv;
	uint32_t i;

	if (!walker || walker->ended)
		return;
	/* Each withheld completion has to be logged once: otherwise work would be done twice, or not at all. */
	if (mv_wrlog_count(&tracker->sends.log) + tracker->receives.n_left + walker->n_shared != tracker->n_withheld)
		lose(tracker, "what was not done is not what its log has");
	if (tracker->shared)
		return;
	if (tracker->receives.n_left + walker->later.n_left > tracker->receives.size)
		lose(tracker, "it has more receives outstanding than its queue takes");
	if (tracker->lost)
		return; /* mesh_failover_flush_errors() gives the errors of @later */
	for (i = 0; i < walker->later.n; i++) {
		recv = mesh_srqlog_at(&walker->later, i);
		mesh_srqlog_push(&tracker->receives, recv->wr_id, recv->sges, recv->num_sge);
	}
	mesh_srqlog_clear(&walker->later);
}

bool mesh_walker_through(const struct mesh_wr_tracker *tracker)
{
	const struct mesh_walker *walker = tracker->walker;

	return !walker || ((!tracker->rts || mv_mlx5_sq_end(&walker->sq) == walker->sq_at) &&
			   (tracker->shared || mv_mlx5_rq_end(&walker->rq) == walker->rq_at));
}

void mesh_walker_end(struct mesh_wr_tracker *tracker)
{
	struct mesh_walker *walker = tracker->walker;

	if (!walker)
		return;
	walker->ended = true;
	walker->sq_end = walker->sq_at;
	walker->rq_end = tracker->shared ? mv_mlx5_rq_end(&walker->rq) : walker->rq_at;
}

/* A post that bypassed the plugin will never be executed, so the program's later posts must not be executed either. */
void mesh_walker_stray(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	lose(h->tracker, "a thread posted to it past us while it was moved");
	if (h->mode == MESH_VQP_ACTIVE && h->now.qp)
		mesh_root.lib.verbs.modify_qp(h->now.qp, &attr, IBV_QP_STATE);
}

bool mesh_walker_send(const struct mesh_vqp *h, uint16_t *at, struct ibv_send_wr *ret)
{
	const struct mesh_walker *walker = h->tracker->walker;
	const struct mv_wrlog *log = &h->tracker->sends.log;
	struct mv_wr wr;

	if (*at == mv_mlx5_sq_end(&walker->sq) ||
	    mv_mlx5_sq_get(&walker->sq, walker->qpn, *at, log->max_sge, log->max_inline_bytes, NULL, NULL, &wr, at))
		return false;
	*ret = wr.wr;
	return true;
}

enum mv_atomics mesh_walker_atomics(struct mesh_vqp *h)
{
	struct mesh_walker *walker = h->tracker->walker;
	uint16_t at = walker->sq_at, end = mv_mlx5_sq_end(&walker->sq);
	enum mv_atomics found = MV_ATOMICS_NONE;
	struct mv_wr wr;

	while (at != end && !h->tracker->lost) {
		if (mv_mlx5_sq_get(&walker->sq, walker->qpn, at, h->tracker->sends.log.max_sge,
				   h->tracker->sends.log.max_inline_bytes, NULL, NULL, &wr, &at)) {
			lose(h->tracker, mesh_tracker_kind);
			return found;
		}
		if (mv_wr_is_atomic(&wr.wr))
			found = MV_ATOMICS_SILENT;
		if (found != MV_ATOMICS_NONE && wr.wr.send_flags & IBV_SEND_SIGNALED)
			found = MV_ATOMICS_TOLD;
	}
	return found;
}
