// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vqp_failover.h"
#include "replayint.h"
#include "vqp_int.h"

#define FLUSH_STEP_US 50
#define FLUSH_NS      200000000ull /* longest wait for a device to flush */

/* A move failed: the program gets its errors. */

/* Locks: both cq->locks and vqp->lock, also for the functions that follow. */
static void append_error(struct mesh_vqp *h, struct mesh_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.wr_id = wr_id, .status = status, .qp_num = h->qp->qp_num};

	mesh_sw_cq_reserve(&cq->sw_cq, 1); /* without memory the completion is lost; the program soon ends anyway */
	mesh_sw_cq_append(cq, &wc);
}

/* Give the withheld errors in their order. The QP itself flushes all other outstanding work. */
static void give_withheld(struct mesh_vqp *h)
{
	struct mesh_wr_tracker *tracker = h->tracker;
	uint32_t i;

	for (i = 0; i < tracker->n_withheld; i++)
		append_error(h, tracker->withheld[i].cq, tracker->withheld[i].wr_id, tracker->withheld[i].status);
}

/* Flush the last @n receives of the log, which no QP has. */
static void give_receives(struct mesh_vqp *h, uint32_t n)
{
	struct mesh_srqlog *log = &h->tracker->receives;
	uint32_t i, skip = log->n_left - n;
	const struct mesh_srq_recv *recv;

	for (i = 0; i < log->n; i++) {
		recv = mesh_srqlog_at(log, i);
		if (recv->gone)
			continue;
		if (skip)
			skip--;
		else
			append_error(h, h->recv_cq, recv->wr_id, IBV_WC_WR_FLUSH_ERR);
	}
}

/*
 * Flush receives posted since the drain began, which no QP has. If the log was lost, they are in walker->later only:
 * mesh_walker_settle().
 */
static void give_new_receives(struct mesh_vqp *h)
{
	struct mesh_srqlog *later;
	uint32_t i;

	if (!mesh_tracker_reads(h->tracker) || !h->tracker->lost) {
		give_receives(h, h->paused.n_new_receives);
		return;
	}
	later = &h->tracker->walker->later;
	for (i = 0; i < later->n; i++)
		if (!mesh_srqlog_at(later, i)->gone)
			append_error(h, h->recv_cq, mesh_srqlog_at(later, i)->wr_id, IBV_WC_WR_FLUSH_ERR);
	mesh_srqlog_clear(later);
}

/*
 * The first failed send gets its own status; if the plugin brought the QP to ERR, that of a path that is gone. Unsignaled sends
 * that are done get no completion.
 */
static void give_sends(struct mesh_vqp *h)
{
	struct mesh_wr_tracker *tracker = h->tracker;
	enum ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
	struct replay r = {0};
	size_t i, end;

	for (i = 0; i < tracker->n_withheld; i++)
		if (tracker->withheld[i].status != IBV_WC_WR_FLUSH_ERR)
			status = tracker->withheld[i].status;
	end = mesh_replay_read_log(h, &r) ? 0 : r.n;
	for (i = 0; i < end; i++) {
		if (i < mesh_replay_n_done(h, &r) && !mesh_vqp_signals(h, &r.wrs[i].wr))
			continue;
		append_error(h, h->send_cq, r.wrs[i].wr.wr_id, status);
		status = IBV_WC_WR_FLUSH_ERR;
	}
	mesh_replay_fini(&r);
}

MV_LOCKS_UNCHECKED static void lock_cqs(struct mesh_vqp *h)
{
	struct mesh_cq *a = h->send_cq, *b = h->recv_cq;

	mesh_lock(&((uintptr_t)a < (uintptr_t)b ? a : b)->lock);
	if (a != b)
		mesh_lock(&((uintptr_t)a < (uintptr_t)b ? b : a)->lock);
	mesh_lock(&h->lock);
}

/* vqp->lock is released already. */
MV_LOCKS_UNCHECKED static void unlock_cqs(struct mesh_vqp *h)
{
	if (h->send_cq != h->recv_cq)
		mesh_unlock(&h->recv_cq->lock);
	mesh_unlock(&h->send_cq->lock);
}

/* Has the next QP, in ERR since @err_ns, flushed all of its receives, or completed all that it took from an SRQ? */
static bool is_flushed(struct mesh_vqp *h, uint64_t err_ns)
{
	bool flushed;

	if (h->next.shadow.rtr && !mesh_shadow_drained(h, &h->next.shadow, err_ns))
		return false;
	mesh_lock(&h->lock);
	flushed = h->mode != MESH_VQP_DRAINED || h->tracker->shared ||
		  h->tracker->n_flushed + h->paused.n_new_receives >= h->tracker->receives.n_left;
	mesh_unlock(&h->lock);
	return flushed;
}

/*
 * Receives of the next QP come first, because the peer may be sending already, and acknowledged messages must not be lost. So the
 * next QP goes to ERR before it is emptied. While a thread polls its CQs, which may take arbitrarily long, they cannot be
 * emptied: the program gets what is found in time.
 */
static void end_next(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint64_t err_ns;
	bool flushed;

	mesh_lock(&h->lock);
	h->tracker->n_flushed = 0;
	mesh_unlock(&h->lock);
	mesh_root.lib.verbs.modify_qp(h->next.shadow.qp, &attr, IBV_QP_STATE);
	err_ns = mesh_now_ns();
	mesh_shadow_collect(h, &h->next.shadow);
	do {
		flushed = is_flushed(h, err_ns) || mesh_vqp_is_own_poll(h) || mesh_now_ns() > err_ns + FLUSH_NS;
		if (!flushed)
			usleep(FLUSH_STEP_US);
		mesh_shadow_collect(h, &h->next.shadow); /* also for completions that came just before is_flushed() */
	} while (!flushed);
}

/*
 * Completions in the software CQ make no event, and a CQ of which no QP ever moved has no QP for events (cq_notify.c).
 * Return: 0 or -errno.
 */
static int wake(struct mesh_cq *cq)
{
	struct mesh_data *data;
	bool some;
	int err;

	mesh_lock(&cq->lock);
	some = cq->sw_cq.n;
	mesh_unlock(&cq->lock);
	if (!some || !cq->cq->channel)
		return 0;
	data = &cq->mc->data;
	mesh_lock(&data->lock);
	err = mesh_cq_notify_prepare(cq);
	mesh_cq_use(cq); /* polls have to hide notifications as long as the CQ lives */
	mesh_unlock(&data->lock);
	mesh_cq_notify(cq);
	return err;
}

static void wake_both(struct mesh_vqp *h)
{
	int err = wake(h->send_cq), recv_err = h->recv_cq == h->send_cq ? 0 : wake(h->recv_cq);

	h->unwoken = err || recv_err;
	if (h->unwoken)
		mv_log_once(&mesh_root.log, MV_LOG_ERR,
			    "%s: programs that wait for completion events may wait for longer: no queue pair that makes them: %s",
			    h->mc->device, strerrordesc_np(err ? -err : -recv_err));
}

bool mesh_failover_wake(struct mesh_vqp *h)
{
	if (h->unwoken)
		wake_both(h);
	return !h->unwoken;
}

static bool works(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_ACTIVE || h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED;
}

/*
 * Take the QP at work away if its NIC was reset. Such a NIC flushes nothing, so only the log tells what is outstanding. From now
 * on no work is posted there, and its errors are withheld, as in a drain. conn->lock
 */
static struct mesh_shadow take_gone(struct mesh_vqp *h)
{
	struct mesh_shadow gone = {0};

	mesh_lock(&h->lock);
	if (h->now.qp && works(h) && !h->tracker->lost && mesh_rail_lost(h->now.spd->rail)) {
		gone = h->now;
		if (h->mode == MESH_VQP_ACTIVE) {
			h->mode = MESH_VQP_DRAINING;
			h->paused.n_new_receives = 0;
		}
	}
	mesh_unlock(&h->lock);
	return gone;
}

/*
 * The program's own QP will flush later work. Before that it flushes the receives that it got before RTR, when it was open which
 * QP would do the work: hide those. After a drain it has none.
 */
static void hide_receives_of_lower(struct mesh_vqp *h)
{
	int err;

	if (h->logged_lower || !h->early.n_at_lower)
		return;
	err = mesh_cq_names_qps(h->mc, h->recv_cq->cq) ? mesh_cq_add_own_qp(h->recv_cq, h->qp->qp_num, NULL, h)
						       : -EOPNOTSUPP;
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_ERR, "%s: %s; receives of a queue pair that failed are flushed twice",
			    h->mc->device, strerrordesc_np(-err));
	mesh_lock(&h->lock);
	h->early.hides_lower = !err;
	mesh_unlock(&h->lock);
}

/* Return: true: the program's own QP has to flush later work: mesh_vqp_flush(). */
MV_LOCKS_UNCHECKED static bool flush_errors(struct mesh_vqp *h)
{
	struct mesh_shadow gone = take_gone(h);
	bool lower = gone.qp, withheld_given;

	if (lower)
		hide_receives_of_lower(h);
	if (h->next.shadow.qp)
		end_next(h);
	if (gone.qp)
		mesh_shadow_collect(h, &gone);
	lock_cqs(h);
	if (mesh_tracker_reads(h->tracker))
		mesh_walker_settle(h->tracker);
	withheld_given = h->mode != MESH_VQP_DRAINED && !gone.qp;
	if (!withheld_given) {
		/* The old QP is empty, or gone, and the next QP may have completed some of its work. */
		give_sends(h);
		give_receives(h, h->tracker->receives.n_left);
		if (h->next.shadow.qp)
			mesh_shadow_disown(&h->next.shadow); /* the next QP has the same receives, and may flush them later */
	} else {
		give_withheld(h);
		if (h->mode == MESH_VQP_DRAINING)
			give_new_receives(h);
	}
	h->tracker->n_withheld = 0;
	h->tracker->broken = false;
	h->tracker->lost = "it failed";
	h->failure.ended = true;
	if (gone.qp) {
		mesh_shadow_disown(&gone); /* its work has got its errors, so its completions are ignored */
		h->now = (struct mesh_shadow){0};
	}
	/* New work must not wait, not even for a key: see fail.c. The program's own QP flushes its work itself. */
	if (works(h)) {
		h->mode = h->now.qp || gone.qp ? MESH_VQP_FLUSHING : MESH_VQP_TRACKED;
		h->failure.status = IBV_WC_RETRY_EXC_ERR;
	}
	mesh_post_drain(h);
	mesh_unlock(&h->lock);
	/* Before the program can poll a receive, and post the same one again. */
	mesh_srq_end_withheld(h->srq, h->tracker->begun, withheld_given);
	unlock_cqs(h);
	mesh_failover_release(h);
	if (lower)
		mesh_shadow_unmake(h, &gone);
	wake_both(h);
	return lower;
}

bool mesh_failover_goes_on(struct mesh_vqp *h)
{
	bool looked = false, drained, may, on;

	for (;;) {
		mesh_lock(&h->lock);
		drained = h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED;
		may = h->tracker && !h->tracker->lost &&
		      (drained || h->mode == MESH_VQP_TRACKED || h->mode == MESH_VQP_ACTIVE);
		on = may && (drained || h->tracker->broken);
		mesh_unlock(&h->lock);
		if (on || !may || looked || mesh_vqp_is_own_poll(h))
			return on;
		/* The completions that tell why the QP is in ERR may not be polled yet. */
		mesh_shadow_collect(h, &h->now);
		wake_both(h);
		looked = true;
	}
}

void mesh_failover_flush_errors(struct mesh_vqp *h)
{
	if (!h->tracker)
		return;
	if (flush_errors(h)) {
		mesh_vqp_flush(h); /* later work is flushed by the program's own QP, and by fail.c */
		return;
	}
	mesh_vqp_stop_srq(h, mesh_vqp_err_ns(h));
	mesh_last_wqe_due(h);
}

/* ERR comes first: work that waits must not be executed any more. */
static void end_now(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	mesh_lock(&h->lock);
	if (h->now.qp && works(h) && !mesh_rail_lost(h->now.spd->rail))
		mesh_root.lib.verbs.modify_qp(h->now.qp, &attr, IBV_QP_STATE);
	mesh_unlock(&h->lock);
}

bool mesh_failover_give_up(struct mesh_vqp *h)
{
	bool lower;

	if (!h->tracker)
		return false;
	mesh_failover_end_drain(h);
	end_now(h);
	flush_errors(h);
	mesh_lock(&h->lock);
	lower = h->mode == MESH_VQP_TRACKED;
	mesh_unlock(&h->lock);
	return lower;
}
