// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "cqint.h"
#include "fastcq.h"

/*
 * Polling. Hot: no allocation, no system call, no log.
 *
 * A CQ that moved QPs use has several sources: the software CQ, the program's CQ, and shadow CQs. All completions of
 * one QP come from one source at a time, so the order of each source is the order of each QP. A notification is hidden,
 * and then all sources are polled again: mesh_cq_notify_seen().
 *
 * poll_lock is held throughout. Providers lock their CQs, extended ones from start_poll to end_poll. These locks come before
 * cq->lock, so no provider is called for a poll with cq->lock held.
 */

/* Does the CQ only get receives of this QP? */
static bool is_of_receives(const struct mesh_vqp *h, const struct mesh_cq *cq)
{
	return cq == h->recv_cq && cq != h->send_cq;
}

/*
 * A receive of an SRQ has failed, and has left its rail SRQ. If the program does not see the failure (late, withheld),
 * the receive is stored for the end of the move. A failure in QUEUING, before the QP did any work, is not shown: the
 * receive stays in the log, for other QPs.
 */
static void receive_failed(struct mesh_rail_srq *rail_srq, struct mesh_vqp *h, const struct mesh_completion *c)
{
	if (c->late)
		mesh_cq_clients.srq_return(rail_srq, c->wr_id);
	else if (c->withheld)
		mesh_cq_clients.srq_withhold(rail_srq, c->wr_id, h->tracker->begun);
	else if (mesh_vqp_mode(h) != MESH_VQP_QUEUING)
		mesh_cq_clients.srq_consumed(rail_srq, c->wr_id);
}

/*
 * The rail SRQ of a QP's receives. A program's own QP after a move receives no more; its earlier receives count as the
 * lower provider's.
 */
static struct mesh_rail_srq *rail_srq_of(const struct mesh_cq_qp *qp)
{
	const struct mesh_vqp *h = qp->vqp;

	if (qp->rail_srq || !h || !h->srq || qp->key != qp->qpn)
		return qp->rail_srq;
	return &h->srq->lower;
}

/* Kept out of the hot path. Return: should it be shown? */
__attribute__((noinline)) static bool error_noticed(const struct mesh_cq_qp *qp, struct mesh_completion *c)
{
	struct mesh_vqp *h = qp->vqp;
	bool show;

	if (!h) {
		if (qp->rail_srq && c->failed_receive)
			mesh_cq_clients.srq_consumed(qp->rail_srq, c->wr_id);
		return true;
	}
	if (c->status == IBV_WC_LOC_PROT_ERR)
		mesh_cq_clients.post_marker_flushed(h, c);
	c->failed_receive |= is_of_receives(h, c->cq);
	show = !h->tracker || mesh_tracker_completed(h, c);
	if (rail_srq_of(qp) && c->failed_receive)
		receive_failed(rail_srq_of(qp), h, c);
	return show;
}

bool mesh_poll_noticed(const struct mesh_cq_qp *qp, struct mesh_completion *c)
{
	struct mesh_vqp *h = qp->vqp;
	bool show = true;

	c->qpn = qp->key;
	if (c->receive && rail_srq_of(qp))
		mesh_cq_clients.srq_consumed(rail_srq_of(qp), c->wr_id);
	if (c->status != IBV_WC_SUCCESS && !error_noticed(qp, c))
		return false;
	if (!h)
		return true;
	if (c->status == IBV_WC_SUCCESS && h->tracker)
		show = mesh_tracker_completed(h, c);
	if (c->receive && !atomic_load_explicit(&h->flags.consumed, memory_order_relaxed))
		atomic_store_explicit(&h->flags.consumed, true, memory_order_relaxed);
	/*
	 * The send queue may have room now. Post later between start_poll and end_poll: libmlx5 looks at the CQ when the queue is
	 * full, and needs the lock that this thread holds.
	 */
	if (atomic_load_explicit(&h->flags.backlog, memory_order_relaxed)) {
		if (mesh_cq_is_own_poll(c->cq)) {
			/* This thread is the poller. */
			atomic_store_explicit(&c->cq->poller.drain_wanted, true, memory_order_relaxed);
			return show;
		}
		mesh_lock(&h->lock);
		mesh_cq_clients.post_drain(h);
		mesh_unlock(&h->lock);
	}
	return show;
}

/* @ret_shadows: the list only grows at its front, so it is walked without cq->lock. */
static int poll_sw_cq(struct mesh_cq *cq, int n, struct ibv_wc *wc, struct mesh_shadow_cq **ret_shadows)
{
	size_t taken = 0, some;

	mesh_lock(&cq->lock);
	/* Taking completions may put others into the software CQ. */
	while (cq->sw_cq.n && taken < (size_t)n) {
		some = cq->sw_cq.n < (size_t)n - taken ? cq->sw_cq.n : (size_t)n - taken;
		memcpy(&wc[taken], cq->sw_cq.wcs, some * sizeof(*wc));
		mesh_sw_cq_remove(cq, some);
		taken += some;
	}
	*ret_shadows = cq->shadows.polled;
	mesh_unlock(&cq->lock);
	return (int)taken;
}

static bool is_receive(const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV;
}

static struct mesh_completion completion_of(struct mesh_cq *cq, const struct ibv_wc *wc)
{
	return (struct mesh_completion){.wr_id = wc->wr_id, .cq = cq, .status = wc->status, .receive = is_receive(wc)};
}

bool mesh_poll_behind(struct mesh_cq *cq, const struct ibv_wc *wc)
{
	if (!cq->sw_cq.n)
		return false;
	if (!mesh_sw_cq_room(&cq->sw_cq) && mesh_sw_cq_reserve(&cq->sw_cq, 64))
		return false; /* without memory: out of order is better than lost */
	mesh_sw_cq_append(cq, wc);
	cq->polls.appended = true;
	return true;
}

/* Who polls: the program, or the plugin for the software CQ. */
enum for_whom { FOR_PROGRAM, FOR_SW_CQ };

/* Process a completion of a program's own QP that has a log, or shares an SRQ with moved QPs. Return: should it be shown? */
static bool notice_passthrough(struct mesh_cq *cq, const struct ibv_wc *wc, bool failed_receive, enum for_whom who)
{
	struct mesh_completion c = completion_of(cq, wc);
	const struct mesh_cq_qp *qp;
	bool show;

	c.failed_receive = failed_receive;
	mesh_lock(&cq->lock);
	qp = mesh_qpns_find(&cq->own_qps.qpns, wc->qp_num);
	show = !qp || mesh_poll_noticed(qp, &c);
	if (show && qp && qp->vqp && who == FOR_PROGRAM && mesh_poll_behind(cq, wc))
		show = false;
	mesh_unlock(&cq->lock);
	return show;
}

/* Keep the completions to show, in a row. @failed_receive: the one completion is a failed receive */
static int sift_lower(struct mesh_cq *cq, int got, struct ibv_wc *wc, bool failed_receive, bool *ret_notified,
		     enum for_whom who)
{
	bool counts = atomic_load_explicit(&cq->own_qps.counts, memory_order_relaxed);
	int i, kept = 0;

	for (i = 0; i < got; i++) {
		if (mesh_cq_notify_is(cq, wc[i].wr_id)) {
			mesh_cq_notify_seen(&cq->notify);
			*ret_notified = true;
			continue;
		}
		if (counts && !notice_passthrough(cq, &wc[i], failed_receive, who))
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	return kept;
}

/* Poll a CQ that has walkers: each CQE is read before the lower provider takes it. */
static int poll_read(struct mesh_cq *cq, int n, struct ibv_wc *wc, bool *ret_notified, enum for_whom who)
{
	bool failed_receive;
	int got, kept = 0;

	while (kept < n && (kept || !*ret_notified)) {
		got = mesh_walker_poll(cq, &wc[kept], &failed_receive);
		if (got <= 0)
			return kept ? kept : got;
		kept += sift_lower(cq, 1, &wc[kept], failed_receive, ret_notified, who);
	}
	return kept;
}

static int poll_lower(struct mesh_cq *cq, int n, struct ibv_wc *wc, bool *ret_notified, enum for_whom who)
{
	int got, kept;

	if (atomic_load_explicit(&cq->reading.n_walkers, memory_order_acquire))
		return poll_read(cq, n, wc, ret_notified, who);
	do {
		got = cq->mc->lower.io.poll_cq(cq->cq, n, wc);
		if (got <= 0)
			return got;
		kept = sift_lower(cq, got, wc, false, ret_notified, who);
	} while (!kept && !*ret_notified);
	return kept;
}

/* Translate completions of a shadow CQ, and keep those to show, in a row. cq->lock */
static int translate(struct mesh_shadow_cq *scq, int got, struct ibv_wc *wc, enum for_whom who)
{
	struct mesh_completion c;
	struct mesh_cq_qp *qp;
	int i, kept = 0;

	for (i = 0; i < got; i++) {
		qp = mesh_qpns_find(&scq->qpns, wc[i].qp_num);
		if (!qp)
			continue; /* of a QP whose record is gone */
		c = completion_of(scq->owner, &wc[i]);
		if (!mesh_poll_noticed(qp, &c) || !mesh_poll_is_shown(qp, &c))
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		wc[kept].qp_num = qp->qpn;
		wc[kept].status = c.status;
		if (c.opcode)
			wc[kept].opcode = *c.opcode;
		if (who == FOR_PROGRAM && mesh_poll_behind(scq->owner, &wc[kept]))
			continue;
		kept++;
	}
	return kept;
}

static int poll_shadow(struct mesh_shadow_cq *scq, int n, struct ibv_wc *wc, enum for_whom who)
{
	int got, kept;

	do {
		got = ibv_poll_cq(scq->cq, n, wc);
		if (got <= 0)
			return got;
		mesh_lock(&scq->owner->lock);
		kept = translate(scq, got, wc, who);
		mesh_unlock(&scq->owner->lock);
	} while (!kept);
	return kept;
}

int mesh_poll_shadow(struct mesh_shadow_cq *scq, int n, struct ibv_wc *wc)
{
	return poll_shadow(scq, n, wc, FOR_SW_CQ);
}

/* Return: the number of completions, or the error of the first shadow CQ. */
static int poll_shadows(struct mesh_shadow_cq *scq, int n, struct ibv_wc *wc)
{
	int got = 0, more;

	for (; scq && got < n; scq = scq->next) {
		if (mesh_shadow_cq_is_away(scq))
			continue;
		more = poll_shadow(scq, n - got, wc + got, FOR_PROGRAM);
		if (more < 0)
			return got ? got : more;
		got += more;
	}
	return got;
}

int mesh_poll_lower(struct mesh_cq *cq, int n, struct ibv_wc *wc, bool *ret_notified)
{
	bool notified;
	int got;

	do {
		notified = false;
		got = poll_lower(cq, n, wc, &notified, FOR_SW_CQ);
		*ret_notified |= notified;
	} while (!got && notified);
	return got;
}

static int poll_sources(struct mesh_cq *cq, int n, struct ibv_wc *wc)
{
	bool notified, shadows_first = cq->polls.shadows_first;
	struct mesh_shadow_cq *shadows;
	int got = 0, more;

	do {
		notified = cq->polls.appended = false;
		got += poll_sw_cq(cq, n - got, wc + got, &shadows);
		more = shadows_first && got < n ? poll_shadows(shadows, n - got, wc + got) : 0;
		if (more < 0)
			return got ? got : more;
		got += more;
		more = got < n ? poll_lower(cq, n - got, wc + got, &notified, FOR_PROGRAM) : 0;
		if (more < 0)
			return got ? got : more;
		got += more;
		more = !shadows_first && got < n ? poll_shadows(shadows, n - got, wc + got) : 0;
		if (more < 0)
			return got ? got : more;
		got += more;
	} while ((notified || cq->polls.appended) && got < n);
	cq->polls.shadows_first = !shadows_first;
	return got;
}

int mesh_poll_properly(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct mesh_context *mc = mesh_context_get(cq->context);
	struct mesh_cq *mcq = mesh_context_active(mc) ? mesh_map_get(&mc->data.cqs, cq) : NULL;
	bool stalled;
	int got;

	if (!mcq || num_entries <= 0)
		return mc->lower.io.poll_cq(cq, num_entries, wc);
	mesh_lock(&mcq->poll_lock);
	mesh_cqe_lock(mcq);
	/* Polled for the first time, or no place was free before. */
	if (atomic_load_explicit(&mcq->fast, memory_order_relaxed))
		mesh_fast_put(mcq);
	got = poll_sources(mcq, num_entries, wc);
	stalled = !got && mesh_helper_stalled(&mcq->polls.stall);
	mesh_cqe_unlock(mcq);
	mesh_unlock(&mcq->poll_lock);
	if (stalled)
		mesh_cq_clients.stalled_flush(mcq);
	return got;
}

/*
 * Collect a notification that came while the CQ was not armed. Otherwise the notification would wake the program for
 * nothing once the CQ is armed, and hold back the next one. Completions before it go to the software CQ. If the
 * software CQ is full, the program has to be woken anyway.
 */
static void collect_notification(struct mesh_cq *cq)
{
	bool notified = false;
	struct ibv_wc wc;

	if (!atomic_load_explicit(&cq->notify.pending, memory_order_relaxed))
		return;
	/*
	 * A poller between start_poll and end_poll finds the notification itself. Other owners of the lock are done
	 * soon.
	 */
	if (!mesh_cq_freeze(cq))
		return;
	while (atomic_load_explicit(&cq->notify.pending, memory_order_relaxed) && mesh_sw_cq_hold_place(cq))
		if (!mesh_sw_cq_fill_place(cq, poll_lower(cq, 1, &wc, &notified, FOR_SW_CQ) == 1 ? &wc : NULL))
			break;
	mesh_cq_thaw(cq, true);
}

int mesh_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct mesh_context *mc = mesh_context_get(cq->context);
	struct mesh_cq *mcq = mesh_context_active(mc) ? mesh_map_get(&mc->data.cqs, cq) : NULL;
	struct mesh_shadow_cq *scq;
	int cancel, err;
	bool in_sw_cq;

	if (!mcq)
		return mc->lower.io.req_notify_cq(cq, solicited_only);
	cancel = mesh_cancel_off(); /* some providers make a system call */
	collect_notification(mcq);
	mesh_lock(&mcq->lock);
	/* The program's CQ first: an event of a shadow has to find it armed. */
	err = mc->lower.io.req_notify_cq(cq, solicited_only);
	for (scq = mcq->shadows.polled; scq && !err; scq = scq->next)
		err = ibv_req_notify_cq(scq->cq, solicited_only);
	in_sw_cq = mcq->sw_cq.n;
	mesh_unlock(&mcq->lock);
	if (in_sw_cq)
		mesh_cq_notify(mcq);
	mesh_cancel_restore(cancel);
	return err;
}
