// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heldint.h"
#include "live.h"

/*
 * What becomes of the work of a fenced queue pair: done, done again, or failed.
 *
 * Completions that nobody polled any more are made up here and go to the stash of the CQ, behind those that the fence has
 * collected, so each queue pair's order is kept.
 */

#define FLUSH_STEP_US 50
#define FLUSH_NS      200000000ull /* a device that does not flush in that time is not going to */

/* The sends of a fenced QP, oldest first, and what is to become of them. */
struct replay {
	size_t n;
	struct mv_wr *wrs; /* sg_list of each: max_sge entries in @sges. What follows lies behind them: hundreds replay at once, mostly little */
	struct mv_psn_wr *psns;
	struct ibv_sge *sges;
	enum mv_fate *fates;
	char *data; /* max_inline bytes for each */
	struct mesh_sendq queue; /* what goes to the next QP */
	bool placeholders; /* are in it */
	const struct ibv_send_wr *lost; /* the first atomic whose result is lost; NULL: none */
};

static void replay_fini(struct replay *r)
{
	free(r->wrs);
	mesh_sendq_fini(&r->queue);
}

/* held->lock */
static int read_log(struct mesh_held *h, struct replay *r)
{
	const struct mv_wrlog *log = &h->guard->sends.log;
	size_t max_sge = log->max_sge, max_inline = log->max_inline_bytes, i;
	int err = 0;

	r->n = mv_wrlog_count(log);
	/* In order of their alignment. */
	r->wrs = calloc(r->n + 1, sizeof(*r->wrs) + sizeof(*r->psns) + max_sge * sizeof(*r->sges) + sizeof(*r->fates) + max_inline);
	if (!r->wrs)
		return -ENOMEM;
	r->psns = (struct mv_psn_wr *)&r->wrs[r->n];
	r->sges = (struct ibv_sge *)&r->psns[r->n];
	r->fates = (enum mv_fate *)&r->sges[r->n * max_sge];
	r->data = (char *)&r->fates[r->n];
	for (i = 0; i < r->n && !err; i++) {
		err = mv_wrlog_get(log, i, &r->sges[i * max_sge], &r->data[i * max_inline], &r->wrs[i]);
		if (!err)
			r->psns[i] = mv_wr_psn(&r->wrs[i]);
	}
	return err;
}

/* How many of the first ones were not flushed, so are done. Only when it is fenced that is known. held->lock */
static size_t n_done(const struct mesh_held *h, const struct replay *r)
{
	return h->mode == MESH_HELD_FENCED && h->guard->n_undone < r->n ? r->n - h->guard->n_undone : 0;
}

/* ---- mistakes that tests/chaos has to find; never in the product ------------------------------------------------ */

#ifndef MESH_MUTANT
#define MESH_MUTANT 0
#endif

enum { MUTANT_SKIP = 1, MUTANT_REPEAT, MUTANT_PSN, MUTANT_REORDER };

#if MESH_MUTANT
static void mutate(struct mesh_sendq *queue)
{
	if (!queue->n)
		return;
	if (MESH_MUTANT == MUTANT_REPEAT || MESH_MUTANT == MUTANT_REORDER)
		mesh_sendq_push(queue, &mesh_sendq_place(queue, 0)->wr);
	if (MESH_MUTANT == MUTANT_SKIP || MESH_MUTANT == MUTANT_REORDER)
		mesh_sendq_pop(queue);
}
#endif

/* ---- judging ------------------------------------------------------------------------------------------------- */

/* Does the peer's count of receives say the same as its PSN? held->lock */
static bool counts_agree(const struct mesh_held *h, const struct replay *r, uint32_t n_received)
{
	uint32_t consumed = h->guard->sends.n_sent;
	size_t i;

	for (i = 0; i < r->n; i++)
		if (mv_psn_consumes(r->wrs[i].wr.opcode) && r->fates[i] == MV_FATE_REPLAY)
			consumed--;
	return consumed == n_received;
}

/*
 * How many READs and atomics the HCA has outstanding at most. mlx5 takes it as a power of two, rounded up (mlx5_ib: log_sra_max); a
 * greater number only makes less certain which results have come.
 */
static uint32_t outstanding(uint32_t max_rd_atomic)
{
	uint32_t n = 1;

	while (n < max_rd_atomic)
		n *= 2;
	return max_rd_atomic ? n : 0;
}

/* held->lock */
static int judge(struct mesh_held *h, struct replay *r, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic)
{
	const struct mv_psn_view view = {.first_psn = h->guard->sends.first_psn,
					 .rq_psn = (next_psn + (MESH_MUTANT == MUTANT_PSN)) & MV_PSN_MASK,
					 .mtu_bytes = h->guard->mtu_bytes,
					 .n_done = n_done(h, r),
					 .max_rd_atomic = outstanding(max_rd_atomic)};
	int err;

	if (!h->guard->rts)
		return 0; /* it has never sent, and has no PSN */
	err = mv_psn_judge(r->psns, r->n, &view, r->fates, NULL);
	if (err)
		return err;
	return counts_agree(h, r, n_received) ? 0 : -EPROTO;
}

/* ---- going on ------------------------------------------------------------------------------------------------ */

/* What comes next waits until all of @queue is done: see is_before_its_turn() of post.c. */
static void tell_when_done(struct mesh_sendq *queue, bool sq_sig_all)
{
	struct ibv_send_wr *last = queue->n ? &mesh_sendq_place(queue, queue->n - 1)->wr : NULL;

	if (last && !sq_sig_all && !(last->send_flags & IBV_SEND_SIGNALED))
		last->send_flags |= IBV_SEND_SIGNALED | MESH_SEND_UNASKED;
}

/* What was done behind a READ that has to be done again must not complete before that one. held->lock */
static int push_again(struct replay *r, size_t i, bool sq_sig_all)
{
	struct ibv_send_wr place;

	if (r->fates[i] == MV_FATE_LOST) {
		if (!r->lost)
			tell_when_done(&r->queue, sq_sig_all);
		mesh_guard_lost(&r->wrs[i].wr, &place);
		r->lost = r->lost ? r->lost : &r->wrs[i].wr;
		return -mesh_positive(mesh_sendq_push(&r->queue, &place));
	}
	if (r->fates[i] == MV_FATE_REPLAY)
		return -mesh_positive(mesh_sendq_push(&r->queue, &r->wrs[i].wr));
	if (!r->queue.n)
		return 0;
	mesh_guard_placeholder(&r->wrs[i].wr, &place);
	r->placeholders = true;
	return -mesh_positive(mesh_sendq_push(&r->queue, &place));
}

/* What is done again, then what waited. held->lock */
static int build_queue(struct mesh_held *h, struct replay *r)
{
	struct ibv_qp_cap cap = h->cap;
	size_t i;
	int err;

	/* As many as before, or all that there are: not what an earlier move needed. */
	if (cap.max_send_wr < r->n + h->queue.n)
		cap.max_send_wr = (uint32_t)r->n + h->queue.n;
	cap.max_send_wr += MESH_MUTANT != 0;
	err = mesh_sendq_init(&r->queue, &cap);
	for (i = 0; i < r->n && !err; i++)
		err = push_again(r, i, h->sq_sig_all);
#if MESH_MUTANT
	mutate(&r->queue);
#endif
	for (i = 0; i < h->queue.n && !err; i++)
		err = -mesh_positive(mesh_sendq_push(&r->queue, &mesh_sendq_place(&h->queue, (uint32_t)i)->wr));
	return err;
}

/* cq->lock, held->lock. Return: how many, from the first on, are done. */
static uint32_t complete_done(struct mesh_held *h, const struct replay *r)
{
	struct ibv_wc wc;
	size_t i;

	/* One that is done behind one that is not waits for its turn: push_again(). */
	for (i = 0; i < r->n && r->fates[i] == MV_FATE_DONE; i++) {
		if (!mesh_held_signals(h, &r->wrs[i].wr))
			continue;
		wc = (struct ibv_wc){
			.wr_id = r->wrs[i].wr.wr_id,
			.opcode = mesh_guard_wc_opcode(&r->wrs[i].wr),
			.byte_len = (uint32_t)r->wrs[i].length_bytes,
			.qp_num = h->qp->qp_num,
		};
		mesh_cq_stash(h->send_cq, &wc);
	}
	return (uint32_t)i;
}

/* All locks are held. What was done is completed, and the next QP takes over. */
static struct mesh_shadow take_over(struct mesh_held *h, struct replay *r, const struct mesh_live_keys *keys)
{
	struct mesh_shadow old = h->now;
	uint32_t n_received = h->guard->n_received;

	complete_done(h, r);
	mesh_wrex_leave_queue(h);
	h->queue = r->queue;
	r->queue = (struct mesh_sendq){0};
	h->now = h->next;
	h->next = (struct mesh_shadow){0};
	mesh_held_forget_keys(h);
	mesh_held_take_keys(h, keys);
	mesh_guard_rtr(h->guard, h->next_mtu_bytes);
	h->guard->n_received = n_received;
	if (h->now.rts)
		mesh_guard_rts(h->guard, h->next_sq_psn);
	h->guard->placeholders |= r->placeholders;
	if (r->lost) {
		h->guard->lost_atomic = "the result of an atomic is lost";
		h->guard->lost_wr_id = r->lost->wr_id;
	}
	h->guard->n_kept = 0;
	h->guard->broken = false;
	h->mode = MESH_HELD_ACTIVE;
	mesh_post_drain(h);
	return old;
}

/*
 * Has the program nothing that only the peer can tell of, and no receive that no QP has? Of sends in the log that were not flushed it
 * is known that they are done: unsignaled ones. held->lock
 */
static bool is_idle(const struct mesh_held *h)
{
	return !h->guard->n_undone && !h->queue.n && !h->n_new_receives;
}

/* @peer: NULL: it is gone */
static int go_on(struct mesh_held *h, const struct mv_move_sync *peer, uint32_t max_rd_atomic, const struct mesh_live_keys *keys)
{
	struct mesh_shadow old = {0};
	struct replay r = {0};
	int err;

	pthread_mutex_lock(&h->send_cq->lock);
	pthread_mutex_lock(&h->lock);
	err = h->mode == MESH_HELD_FENCED ? read_log(h, &r) : -EINVAL;
	/* The next one has failed already: what it said of that is not shown, so the program has to hear of it from us. */
	if (!err && (mesh_reader_strayed(h->guard->reader) || h->guard->n_flushed))
		err = -EPROTO;
	if (!err && peer)
		err = judge(h, &r, peer->next_psn, peer->n_received, max_rd_atomic);
	else if (!err && !is_idle(h))
		err = -EBUSY;
	if (!err)
		err = build_queue(h, &r);
	if (!err && mesh_cq_stash_reserve(h->send_cq, (uint32_t)r.n))
		err = -ENOMEM;
	if (!err)
		old = take_over(h, &r, keys);
	if (!err && !peer)
		h->guard->lost = "the peer's QP is gone";
	pthread_mutex_unlock(&h->lock);
	pthread_mutex_unlock(&h->send_cq->lock);
	replay_fini(&r);
	if (err)
		return err;
	mesh_live_reap(h);
	h->old = old; /* it is empty, and taking it away can wait */
	mesh_kick(h->send_cq);
	return 0;
}

int mesh_live_replay(struct mesh_held *h, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic,
		     const struct mesh_live_keys *keys)
{
	const struct mv_move_sync peer = {.next_psn = next_psn, .n_received = n_received};

	return go_on(h, &peer, max_rd_atomic, keys);
}

int mesh_live_alone(struct mesh_held *h)
{
	return go_on(h, NULL, 0, NULL);
}

/* ---- it failed ----------------------------------------------------------------------------------------------- */

/* Both cq->locks and held->lock are held, as for what follows. */
static void stash_error(struct mesh_held *h, struct mesh_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.wr_id = wr_id, .status = status, .qp_num = h->qp->qp_num};

	mesh_cq_stash_reserve(cq, 1); /* without memory it is lost, as the program soon is */
	mesh_cq_stash(cq, &wc);
}

/* What was kept back, as it came. What else is outstanding the QP itself will flush. */
static void give_kept(struct mesh_held *h)
{
	struct mesh_guard *guard = h->guard;
	uint32_t i;

	for (i = 0; i < guard->n_kept; i++)
		stash_error(h, guard->kept[i].cq, guard->kept[i].wr_id, guard->kept[i].status);
}

/* The last @n of the log: at no QP that would flush them. */
static void give_receives(struct mesh_held *h, uint32_t n)
{
	struct mesh_srqlog *log = &h->guard->receives;
	uint32_t i, skip = log->n_left - n;
	const struct mesh_srq_recv *recv;

	for (i = 0; i < log->n; i++) {
		recv = mesh_srqlog_at(log, i);
		if (recv->gone)
			continue;
		if (skip)
			skip--;
		else
			stash_error(h, h->recv_cq, recv->wr_id, IBV_WC_WR_FLUSH_ERR);
	}
}

/* Those that were posted since the fence began: at no QP either. Where the log was lost they were not added to it: mesh_reader_settle(). */
static void give_new_receives(struct mesh_held *h)
{
	struct mesh_srqlog *later;
	uint32_t i;

	if (!mesh_guard_reads(h->guard) || !h->guard->lost) {
		give_receives(h, h->n_new_receives);
		return;
	}
	later = &h->guard->reader->later;
	for (i = 0; i < later->n; i++)
		if (!mesh_srqlog_at(later, i)->gone)
			stash_error(h, h->recv_cq, mesh_srqlog_at(later, i)->wr_id, IBV_WC_WR_FLUSH_ERR);
	mesh_srqlog_clear(later);
}

/*
 * The first one fails as it did, or if we brought the QP to ERR, as one does whose path is gone. Those before it that were done without the
 * program's being told have no errors to give.
 */
static void give_sends(struct mesh_held *h)
{
	struct mesh_guard *guard = h->guard;
	enum ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
	struct replay r = {0};
	size_t i, end;

	for (i = 0; i < guard->n_kept; i++)
		if (guard->kept[i].status != IBV_WC_WR_FLUSH_ERR)
			status = guard->kept[i].status;
	end = read_log(h, &r) ? 0 : r.n;
	for (i = 0; i < end; i++) {
		if (i < n_done(h, &r) && !mesh_held_signals(h, &r.wrs[i].wr))
			continue;
		stash_error(h, h->send_cq, r.wrs[i].wr.wr_id, status);
		status = IBV_WC_WR_FLUSH_ERR;
	}
	replay_fini(&r);
}

static void lock_cqs(struct mesh_held *h)
{
	struct mesh_cq *a = h->send_cq, *b = h->recv_cq;

	pthread_mutex_lock(&((uintptr_t)a < (uintptr_t)b ? a : b)->lock);
	if (a != b)
		pthread_mutex_lock(&((uintptr_t)a < (uintptr_t)b ? b : a)->lock);
	pthread_mutex_lock(&h->lock);
}

/* Not held->lock. */
static void unlock_cqs(struct mesh_held *h)
{
	if (h->send_cq != h->recv_cq)
		pthread_mutex_unlock(&h->recv_cq->lock);
	pthread_mutex_unlock(&h->send_cq->lock);
}

/* Has it flushed all that was posted to it, or received from an SRQ? It is in ERR since @err_ns. */
static bool is_flushed(struct mesh_held *h, uint64_t err_ns)
{
	bool flushed;

	if (h->next.rtr && !mesh_shadow_drained(h, &h->next, err_ns))
		return false;
	pthread_mutex_lock(&h->lock);
	flushed = h->mode != MESH_HELD_FENCED || h->guard->shared ||
		  h->guard->n_flushed + h->n_new_receives >= h->guard->receives.n_left;
	pthread_mutex_unlock(&h->lock);
	return flushed;
}

/*
 * What the next QP has received is the program's, and comes first. The peer may be sending already: what is acknowledged must
 * not be lost, so it is brought to ERR before it is emptied. Nobody can do that while its CQs are being polled, which may take as long as
 * the program likes: what it finds there in time it gets.
 */
static void end_next(struct mesh_held *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint64_t err_ns;
	bool flushed;

	pthread_mutex_lock(&h->lock);
	h->guard->n_flushed = 0;
	pthread_mutex_unlock(&h->lock);
	mesh_root.lib.verbs.modify_qp(h->next.qp, &attr, IBV_QP_STATE);
	err_ns = mesh_now_ns();
	mesh_shadow_collect(h, &h->next);
	do {
		flushed = is_flushed(h, err_ns) || mesh_held_is_own_poll(h) || mesh_now_ns() > err_ns + FLUSH_NS;
		if (!flushed)
			usleep(FLUSH_STEP_US);
		mesh_shadow_collect(h, &h->next); /* also what came just before it was through */
	} while (!flushed);
}

/* What is in the stash makes no event, and a CQ of which nothing was ever moved has no kicker. Return: 0 or -errno. */
static int wake(struct mesh_cq *cq)
{
	struct mesh_data *data;
	bool some;
	int err;

	pthread_mutex_lock(&cq->lock);
	some = cq->n_stash;
	pthread_mutex_unlock(&cq->lock);
	if (!some || !cq->cq->channel)
		return 0;
	data = &cq->mc->data;
	pthread_mutex_lock(&data->lock);
	err = mesh_kick_prepare(cq);
	mesh_cq_use(cq); /* a kick is to be hidden for as long as the CQ lives */
	pthread_mutex_unlock(&data->lock);
	mesh_kick(cq);
	return err;
}

static void wake_both(struct mesh_held *h)
{
	int err = wake(h->send_cq), recv_err = h->recv_cq == h->send_cq ? 0 : wake(h->recv_cq);

	h->unwoken = err || recv_err;
	if (h->unwoken)
		mv_log_once(&mesh_root.log, MV_LOG_ERR,
			    "%s: programs that wait for completion events may wait for longer: no queue pair that makes them: %s",
			    h->mc->device, strerrordesc_np(err ? -err : -recv_err));
}

bool mesh_live_wake(struct mesh_held *h)
{
	if (h->unwoken)
		wake_both(h);
	return !h->unwoken;
}

static bool works(const struct mesh_held *h)
{
	return h->mode == MESH_HELD_ACTIVE || h->mode == MESH_HELD_FENCING || h->mode == MESH_HELD_FENCED;
}

/*
 * What does the work, or did, on a NIC that was reset: it flushes nothing. What its log does not have nobody knows. From now on nothing is
 * posted to it any more, and what fails there meanwhile is kept, as if it were being fenced. conn->lock
 */
static struct mesh_shadow take_gone(struct mesh_held *h)
{
	struct mesh_shadow gone = {0};

	pthread_mutex_lock(&h->lock);
	if (h->now.qp && works(h) && !h->guard->lost && mesh_rail_lost(h->now.spd->rail)) {
		gone = h->now;
		if (h->mode == MESH_HELD_ACTIVE) {
			h->mode = MESH_HELD_FENCING;
			h->n_new_receives = 0;
		}
	}
	pthread_mutex_unlock(&h->lock);
	return gone;
}

/*
 * The base does its work from now on: it flushes what comes, and before that the receives that it had been given when it was not known yet who
 * would do the work. A base that a fence has emptied has none.
 */
static void hide_receives_of_base(struct mesh_held *h)
{
	int err;

	if (h->logged_base || !h->n_at_base)
		return;
	err = mesh_cq_names_qps(h->mc, h->recv_cq->cq) ? mesh_cq_add_native(h->recv_cq, h->qp->qp_num, NULL, h) : -EOPNOTSUPP;
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_ERR, "%s: %s; receives of a queue pair that failed are flushed twice",
			    h->mc->device, strerrordesc_np(-err));
	pthread_mutex_lock(&h->lock);
	h->hides_base = !err;
	pthread_mutex_unlock(&h->lock);
}

/* Return: whether the base's has to flush what comes from now on: mesh_held_flush(). */
static bool surface(struct mesh_held *h)
{
	struct mesh_shadow gone = take_gone(h);
	bool base = gone.qp, kept_given;

	if (base)
		hide_receives_of_base(h);
	if (h->next.qp)
		end_next(h);
	if (gone.qp)
		mesh_shadow_collect(h, &gone);
	lock_cqs(h);
	if (mesh_guard_reads(h->guard))
		mesh_reader_settle(h->guard);
	kept_given = h->mode != MESH_HELD_FENCED && !gone.qp;
	if (!kept_given) {
		/* It is empty, or as good as that, and what it had may have been completed by the next one. */
		give_sends(h);
		give_receives(h, h->guard->receives.n_left);
		if (h->next.qp)
			mesh_shadow_disown(&h->next); /* which has them as well, and may flush them only now */
	} else {
		give_kept(h);
		if (h->mode == MESH_HELD_FENCING)
			give_new_receives(h);
	}
	h->guard->n_kept = 0;
	h->guard->broken = false;
	h->guard->lost = "it failed";
	h->ended = true;
	if (gone.qp) {
		mesh_shadow_disown(&gone); /* what it did is not polled any more: it has got its errors */
		h->now = (struct mesh_shadow){0};
	}
	/* Not even for a key does anything wait that comes now: see fail.c. The base's flushes what it has. */
	if (works(h)) {
		h->mode = h->now.qp || gone.qp ? MESH_HELD_FLUSHING : MESH_HELD_GUARDED;
		h->fail_status = IBV_WC_RETRY_EXC_ERR;
	}
	mesh_post_drain(h);
	pthread_mutex_unlock(&h->lock);
	/* Before the program can poll it, and post it again. */
	mesh_srq_unkeep(h->srq, h->guard->begun, kept_given);
	unlock_cqs(h);
	mesh_live_release(h);
	if (base)
		mesh_shadow_unmake(h, &gone);
	wake_both(h);
	return base;
}

bool mesh_live_goes_on(struct mesh_held *h)
{
	bool looked = false, fenced, may, on;

	for (;;) {
		pthread_mutex_lock(&h->lock);
		fenced = h->mode == MESH_HELD_FENCING || h->mode == MESH_HELD_FENCED;
		may = h->guard && !h->guard->lost && (fenced || h->mode == MESH_HELD_GUARDED || h->mode == MESH_HELD_ACTIVE);
		on = may && (fenced || h->guard->broken);
		pthread_mutex_unlock(&h->lock);
		if (on || !may || looked || mesh_held_is_own_poll(h))
			return on;
		/* Why it is there nobody has polled yet. */
		mesh_shadow_collect(h, &h->now);
		wake_both(h);
		looked = true;
	}
}

void mesh_live_surface(struct mesh_held *h)
{
	if (!h->guard)
		return;
	if (surface(h))
		mesh_held_flush(h); /* what comes now the base's QP flushes, and fail.c */
	else
		mesh_last_wqe_due(h);
}

/* What waits is not done any more, so it must not be posted before. */
static void end_now(struct mesh_held *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	pthread_mutex_lock(&h->lock);
	if (h->now.qp && works(h) && !mesh_rail_lost(h->now.spd->rail))
		mesh_root.lib.verbs.modify_qp(h->now.qp, &attr, IBV_QP_STATE);
	pthread_mutex_unlock(&h->lock);
}

bool mesh_live_give_up(struct mesh_held *h)
{
	bool base;

	if (!h->guard)
		return false;
	mesh_live_end_fence(h);
	end_now(h);
	surface(h);
	pthread_mutex_lock(&h->lock);
	base = h->mode == MESH_HELD_GUARDED;
	pthread_mutex_unlock(&h->lock);
	return base;
}
