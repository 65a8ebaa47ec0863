// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vqp_failover.h"
#include "replayint.h"
#include "vqp_int.h"

/*
 * Replay: what becomes of the work of a drained queue pair. Each work request is done, is posted again, or fails.
 *
 * Completions that no poll will find any more are made here, and go to the software CQ behind those that the drain has
 * collected: the order of each queue pair is kept.
 */

void mesh_replay_fini(struct replay *r)
{
	free(r->wrs);
	mesh_sendq_fini(&r->queue);
}

/* vqp->lock */
int mesh_replay_read_log(struct mesh_vqp *h, struct replay *r)
{
	const struct mv_wrlog *log = &h->tracker->sends.log;
	size_t max_sge = log->max_sge, max_inline = log->max_inline_bytes, i;
	int err = 0;

	r->n = mv_wrlog_count(log);
	/* Arrays in the order of their alignment. */
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

/* Number of the first sends that were not flushed, so are done. Known only after the drain. vqp->lock */
size_t mesh_replay_n_done(const struct mesh_vqp *h, const struct replay *r)
{
	return h->mode == MESH_VQP_DRAINED && h->tracker->n_undone < r->n ? r->n - h->tracker->n_undone : 0;
}

/* ---- faults for tests/chaos; never in the product ------------------------------------------------------------ */

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

/* ---- fates of sends ------------------------------------------------------------------------------------------ */

/* Is the peer's number of receives consistent with its PSN? vqp->lock */
static bool counts_agree(const struct mesh_vqp *h, const struct replay *r, uint32_t n_received)
{
	uint32_t consumed = h->tracker->sends.n_sent;
	size_t i;

	for (i = 0; i < r->n; i++)
		if (mv_psn_consumes(r->wrs[i].wr.opcode) && r->fates[i] == MV_FATE_REPLAY)
			consumed--;
	return consumed == n_received;
}

/*
 * Limit of outstanding READs and atomics on the HCA. mlx5 rounds up to a power of two (mlx5_ib: log_sra_max). A larger limit only
 * makes fewer results certain.
 */
static uint32_t outstanding(uint32_t max_rd_atomic)
{
	uint32_t n = 1;

	while (n < max_rd_atomic)
		n *= 2;
	return max_rd_atomic ? n : 0;
}

/* vqp->lock */
static int decide(struct mesh_vqp *h, struct replay *r, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic)
{
	const struct mv_psn_view view = {.first_psn = h->tracker->sends.first_psn,
					 .rq_psn = (next_psn + (MESH_MUTANT == MUTANT_PSN)) & MV_PSN_MASK,
					 .mtu_bytes = h->tracker->mtu_bytes,
					 .n_done = mesh_replay_n_done(h, r),
					 .max_rd_atomic = outstanding(max_rd_atomic)};
	int err;

	if (!h->tracker->rts)
		return 0; /* never in RTS: there is no send, and no PSN */
	err = mv_psn_decide(r->psns, r->n, &view, r->fates, NULL);
	if (err)
		return err;
	return counts_agree(h, r, n_received) ? 0 : -EPROTO;
}

/* ---- the next QP --------------------------------------------------------------------------------------------- */

/* Make the last of @queue signaled: the next send waits until all of @queue is done, see is_before_its_turn() of post.c. */
static void tell_when_done(struct mesh_sendq *queue, bool sq_sig_all)
{
	struct ibv_send_wr *last = queue->n ? &mesh_sendq_place(queue, queue->n - 1)->wr : NULL;

	if (last && !sq_sig_all && !(last->send_flags & IBV_SEND_SIGNALED))
		last->send_flags |= IBV_SEND_SIGNALED | MESH_SEND_UNASKED;
}

/*
 * Push a send as its fate says. A send that is done, behind a READ that is posted again, becomes a no-op, so that it completes
 * after the READ. vqp->lock
 */
static int push_again(struct replay *r, size_t i, bool sq_sig_all)
{
	struct ibv_send_wr place;

	if (r->fates[i] == MV_FATE_LOST) {
		if (!r->lost)
			tell_when_done(&r->queue, sq_sig_all);
		mesh_tracker_lost(&r->wrs[i].wr, &place);
		r->lost = r->lost ? r->lost : &r->wrs[i].wr;
		return -mesh_positive(mesh_sendq_push(&r->queue, &place));
	}
	if (r->fates[i] == MV_FATE_REPLAY)
		return -mesh_positive(mesh_sendq_push(&r->queue, &r->wrs[i].wr));
	if (!r->queue.n)
		return 0;
	mesh_tracker_skipped_wr(&r->wrs[i].wr, &place);
	r->skipped_wrs = true;
	return -mesh_positive(mesh_sendq_push(&r->queue, &place));
}

/* Sends to post again, then sends that waited. vqp->lock */
static int build_queue(struct mesh_vqp *h, struct replay *r)
{
	struct ibv_qp_cap cap = h->made.cap;
	size_t i;
	int err;

	/* The size that the program asked for, or the number of sends if larger: not the size that an earlier move needed. */
	if (cap.max_send_wr < r->n + h->queue.n)
		cap.max_send_wr = (uint32_t)r->n + h->queue.n;
	cap.max_send_wr += MESH_MUTANT != 0;
	err = mesh_sendq_init(&r->queue, &cap);
	for (i = 0; i < r->n && !err; i++)
		err = push_again(r, i, h->made.sq_sig_all);
#if MESH_MUTANT
	mutate(&r->queue);
#endif
	for (i = 0; i < h->queue.n && !err; i++)
		err = -mesh_positive(mesh_sendq_push(&r->queue, &mesh_sendq_place(&h->queue, (uint32_t)i)->wr));
	return err;
}

/* Locks: cq->lock, vqp->lock. Return: number of sends, from the first on, that are done. */
static uint32_t complete_done(struct mesh_vqp *h, const struct replay *r)
{
	struct ibv_wc wc;
	size_t i;

	/* A send that is done behind one that is not waits for its turn: push_again(). */
	for (i = 0; i < r->n && r->fates[i] == MV_FATE_DONE; i++) {
		if (!mesh_vqp_signals(h, &r->wrs[i].wr))
			continue;
		wc = (struct ibv_wc){
			.wr_id = r->wrs[i].wr.wr_id,
			.opcode = mesh_tracker_wc_opcode(&r->wrs[i].wr),
			.byte_len = (uint32_t)r->wrs[i].length_bytes,
			.qp_num = h->qp->qp_num,
		};
		mesh_sw_cq_append(h->send_cq, &wc);
	}
	return (uint32_t)i;
}

/* Completes the sends that are done; the next QP takes over. All locks are held. */
static struct mesh_shadow take_over(struct mesh_vqp *h, struct replay *r, const struct mesh_failover_keys *keys)
{
	struct mesh_shadow old = h->now;
	uint32_t n_received = h->tracker->n_received;

	complete_done(h, r);
	mesh_wrex_leave_queue(h);
	h->queue = r->queue;
	r->queue = (struct mesh_sendq){0};
	h->now = h->next.shadow;
	h->next.shadow = (struct mesh_shadow){0};
	mesh_vqp_forget_keys(&h->keys);
	mesh_vqp_take_keys(&h->keys, keys);
	mesh_tracker_rtr(h->tracker, h->next.mtu_bytes);
	h->tracker->n_received = n_received;
	if (h->now.rts)
		mesh_tracker_rts(h->tracker, h->next.sq_psn);
	h->tracker->skipped_wrs |= r->skipped_wrs;
	if (r->lost) {
		h->tracker->lost_atomic = "the result of an atomic is lost";
		h->tracker->lost_wr_id = r->lost->wr_id;
	}
	h->tracker->n_withheld = 0;
	h->tracker->broken = false;
	h->tracker->err_ns = 0;
	h->mode = MESH_VQP_ACTIVE;
	mesh_post_drain(h);
	return old;
}

/*
 * Does no send need the peer's state, and does a QP have every receive? Logged sends that were not flushed are unsignaled ones
 * that are done. vqp->lock
 */
static bool is_idle(const struct mesh_vqp *h)
{
	return !h->tracker->n_undone && !h->queue.n && !h->paused.n_new_receives;
}

/* @peer: state of the peer; NULL: the peer is gone */
static int go_on(struct mesh_vqp *h, const struct mv_move_sync *peer, uint32_t max_rd_atomic,
		 const struct mesh_failover_keys *keys)
{
	struct mesh_shadow old = {0};
	struct replay r = {0};
	int err;

	mesh_lock(&h->send_cq->lock);
	mesh_lock(&h->lock);
	err = h->mode == MESH_VQP_DRAINED ? mesh_replay_read_log(h, &r) : -EINVAL;
	/*
	 * The next QP has failed already, and its errors were not shown: so the program has to get errors from
	 * flush_errors().
	 */
	if (!err && (mesh_walker_strayed(h->tracker->walker) || h->tracker->n_flushed))
		err = -EPROTO;
	if (!err && peer)
		err = decide(h, &r, peer->next_psn, peer->n_received, max_rd_atomic);
	else if (!err && !is_idle(h))
		err = -EBUSY;
	if (!err)
		err = build_queue(h, &r);
	if (!err && mesh_sw_cq_reserve(&h->send_cq->sw_cq, (uint32_t)r.n))
		err = -ENOMEM;
	if (!err)
		old = take_over(h, &r, keys);
	if (!err && !peer)
		h->tracker->lost = "the peer's QP is gone";
	mesh_unlock(&h->lock);
	mesh_unlock(&h->send_cq->lock);
	mesh_replay_fini(&r);
	if (err)
		return err;
	mesh_failover_reap(h);
	h->old = old; /* the old QP is empty, and is destroyed later */
	mesh_cq_notify(h->send_cq);
	return 0;
}

int mesh_failover_replay(struct mesh_vqp *h, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic,
			 const struct mesh_failover_keys *keys)
{
	const struct mv_move_sync peer = {.next_psn = next_psn, .n_received = n_received};

	return go_on(h, &peer, max_rd_atomic, keys);
}

int mesh_failover_alone(struct mesh_vqp *h)
{
	return go_on(h, NULL, 0, NULL);
}
