// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "postint.h"
#include "keys.h"
#include "pdstay.h"
#include "ud.h"

void (*mesh_post_fails)(struct mesh_vqp *h);

/*
 * Posting. Hot: no allocation, no system call, no log. Exceptions: the first use of a key (mesh_key_local() registers, want_key()
 * asks), and a QP that fails.
 */

/* Values that no provider returns: the work request has to wait; its key will never be known. */
#define WAIT   (-1)
#define NO_KEY (-2)

static uint32_t local_key(struct mesh_vqp *h, uint32_t lkey)
{
	struct mesh_lkey *known = &h->keys.places->lkeys[lkey >> 8 & (MESH_KEYS - 1)];
	uint64_t epoch = mesh_keys_epoch() + 1; /* an empty place has epoch 0 */
	uint32_t path_key;
	int err;

	if (known->key == lkey && known->epoch == epoch)
		return known->path_key;
	/* Without such a key, the device reports the same error as on a bare HCA. */
	err = mesh_key_local(h->now.spd, lkey, &path_key);
	if (err == -ENOENT)
		mesh_pd_key_fails(h->qp->pd, MESH_BY_LKEY, lkey);
	if (!err)
		*known = (struct mesh_lkey){.key = lkey, .path_key = path_key, .epoch = epoch};
	return path_key;
}

/* Return: 0, WAIT or NO_KEY. */
static int remote_key(struct mesh_vqp *h, uint32_t rkey, uint32_t *ret)
{
	struct mesh_rkey *known = &h->keys.places->rkeys[rkey >> 8 & (MESH_KEYS - 1)];

	if (!h->client.ops->want_key) {
		/* Not cached: no message would invalidate it. */
		if (mesh_key_remote(h->now.spd, rkey, ret) == -ENOENT)
			mesh_pd_key_fails(h->qp->pd, MESH_BY_RKEY, rkey);
		return 0;
	}
	if (known->key != rkey || known->state == MESH_RKEY_NONE) {
		*known = (struct mesh_rkey){.key = rkey, .state = MESH_RKEY_KNOWN};
		if (h->mode == MESH_VQP_FLUSHING || h->client.ops->want_key(h->client.arg, rkey, &known->path_key))
			known->state = MESH_RKEY_ASKED;
	}
	if (known->state == MESH_RKEY_ASKED)
		return h->mode == MESH_VQP_FLUSHING ? NO_KEY : WAIT;
	*ret = known->path_key;
	return 0;
}

void mesh_post_translate_sges(struct mesh_vqp *h, const struct ibv_sge *from, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		h->keys.sges[i] = from[i];
		h->keys.sges[i].lkey = local_key(h, from[i].lkey);
	}
}

/* Return: 0, WAIT, NO_KEY, or the errno of a provider for such a request. */
static int translate_send(struct mesh_vqp *h, const struct ibv_send_wr *wr, struct ibv_send_wr *ret)
{
	int err = 0;

	*ret = *wr;
	ret->next = NULL;
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		if (wr->num_sge <= 0)
			break; /* no bytes: the key is not checked, and a no-op has none */
		err = remote_key(h, wr->wr.rdma.rkey, &ret->wr.rdma.rkey);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		err = remote_key(h, wr->wr.atomic.rkey, &ret->wr.atomic.rkey);
		break;
	default:
		return EINVAL;
	}
	if (err || wr->send_flags & IBV_SEND_INLINE || wr->num_sge <= 0)
		return err;
	if ((uint32_t)wr->num_sge > h->made.cap.max_send_sge)
		return ENOMEM;
	mesh_post_translate_sges(h, wr->sg_list, wr->num_sge);
	ret->sg_list = h->keys.sges;
	return 0;
}

/* Post a flush marker: a request that fails, in place of one that the device must not execute. */
static int send_flush_marker(struct mesh_vqp *h, uint64_t wr_id)
{
	struct ibv_sge sge = {.length = 1, .lkey = h->now.spd ? h->now.spd->dummy->lkey : 0};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (h->tracker)
		h->tracker->unlogged = true; /* true in most cases: send_lost() */
	return h->now.qp ? ibv_post_send(h->now.qp, &wr, &bad) : h->mc->lower.io.post_send(h->qp, &wr, &bad);
}

/*
 * For a send whose key will never be known: nothing goes to the peer. The first such send fails as the connection did, the others
 * are flushed.
 */
static int send_failed(struct mesh_vqp *h, uint64_t wr_id)
{
	int err = send_flush_marker(h, wr_id);

	if (!err && !h->failure.flush_marker.posted) {
		h->failure.flush_marker.posted = true;
		h->failure.flush_marker.wr_id = wr_id;
	}
	return err;
}

void mesh_post_marker_flushed(struct mesh_vqp *h, struct mesh_completion *c)
{
	mesh_lock(&h->lock);
	if (h->failure.flush_marker.posted && c->wr_id == h->failure.flush_marker.wr_id) {
		c->status = h->failure.status;
		h->failure.flush_marker.posted = false; /* other requests may have the same wr_id */
	}
	mesh_unlock(&h->lock);
}

/*
 * Check keys of work for the lower provider: the next QP may lack them. Where posts are not intercepted, usedkeys.c
 * reads the queues.
 */
void mesh_post_check_keys(struct mesh_vqp *h, const struct ibv_sge *sges, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (sges[i].lkey == h->keys.checked_lkey || !sges[i].length)
			continue;
		h->keys.checked_lkey = sges[i].lkey;
		mesh_pd_check_key(h->qp->pd, MESH_BY_LKEY, sges[i].lkey);
	}
}

static void check_send_keys(struct mesh_vqp *h, const struct ibv_send_wr *wr)
{
	uint32_t rkey;

	if (mesh_vqp_note_key(wr, &rkey, 0))
		h->keys.used_rkey = rkey;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		mesh_post_check_keys(h, wr->sg_list, wr->num_sge);
}

/* Post to the QP that does the work. Return: 0, WAIT, errno. */
static int send_one(struct mesh_vqp *h, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr translated = *wr, *bad;
	int err = 0, logged = -1;

	if (h->paused.quiet == MESH_QUIET_YES && mv_wr_is_atomic(wr))
		return WAIT;
	translated.next = NULL;
	if (h->now.qp)
		err = translate_send(h, wr, &translated);
	else if (h->mode == MESH_VQP_TRACKED)
		check_send_keys(h, wr);
	translated.send_flags &= ~MESH_SEND_UNASKED;
	if (err == NO_KEY)
		return send_failed(h, wr->wr_id);
	if (!err && h->tracker && h->mode != MESH_VQP_PASSTHROUGH && h->mode != MESH_VQP_FLUSHING)
		logged = mesh_tracker_send(h->tracker, wr);
	if (err || logged > 0)
		return err ? err : logged;
	err = h->now.qp ? ibv_post_send(h->now.qp, &translated, &bad) : h->mc->lower.io.post_send(h->qp, &translated, &bad);
	if (err && !logged)
		mv_wrring_undo(&h->tracker->sends, 1);
	if (!err && logged && h->tracker)
		h->tracker->unlogged = true;
	if (!err && h->paused.quiet == MESH_QUIET_SOON && mesh_vqp_signals(h, wr))
		h->paused.quiet = MESH_QUIET_YES;
	return err;
}

/*
 * Must a request that fails locally wait? Such a failure stops Soft-RoCE's requester: earlier requests are not retransmitted any
 * more, and never complete after an RNR NAK or a lost packet. So all earlier requests have to be done, the last of which is
 * signaled. A QP that has failed need not wait, and a lost log cannot tell. vqp->lock
 */
static bool is_before_its_turn(const struct mesh_vqp *h)
{
	const struct mesh_wr_tracker *tracker = h->tracker;

	return h->mode == MESH_VQP_ACTIVE && !tracker->lost && !tracker->broken && mv_wrlog_count(&tracker->sends.log);
}

/* Post in place of an atomic that must not be repeated. Return: 0, WAIT, ENOMEM. */
static int send_lost(struct mesh_vqp *h, const struct ibv_send_wr *wr)
{
	int logged, err;

	if (is_before_its_turn(h))
		return WAIT;
	logged = mesh_tracker_send(h->tracker, wr);
	if (logged > 0)
		return logged;
	err = send_flush_marker(h, wr->wr_id);
	if (err && !logged)
		mv_wrring_undo(&h->tracker->sends, 1);
	return err;
}

static bool can_send(const struct mesh_vqp *h)
{
	switch (h->mode) {
	case MESH_VQP_ACTIVE:
		return h->now.rts;
	case MESH_VQP_FLUSHING:
		return h->now.qp && h->now.rts; /* otherwise see fail.c */
	case MESH_VQP_PASSTHROUGH:
		return true;
	case MESH_VQP_TRACKED:
		/* the post would wait for the batch with vqp->lock; wrex.c drains at its end */
		return !mesh_walker_in_batch(h);
	default:
		return false;
	}
}

/* Is work posted with vqp->lock, without a log that tells whether it fits? */
static bool is_unnoted(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_FLUSHING ||
	       ((h->mode == MESH_VQP_TRACKED || h->mode == MESH_VQP_ACTIVE) && h->tracker && h->tracker->lost);
}

/*
 * Keep threads from polling the CQ during a post that is not logged. libmlx5 looks at the CQ when its queue is full. A poller of
 * an extended CQ has the CQ's lock from start_poll to end_poll, and may be this thread, or wait for a lock of its callers. Logged
 * posts are known to fit, and do not need this. vqp->lock
 *
 * Return: the CQ, whose @posting is to be given back by let_poll(); NULL: not needed. @ret_put_off: a thread polls, and posts the
 * waiting sends afterwards.
 */
static struct mesh_cq *keep_from_polling(struct mesh_vqp *h, bool *ret_put_off)
{
	struct mesh_cq *cq = h->send_cq;

	*ret_put_off = false;
	if (!cq->ex.extended || !is_unnoted(h))
		return NULL;
	do {
		atomic_fetch_add_explicit(&cq->poller.posting, 1, memory_order_seq_cst);
		if (!atomic_load_explicit(&cq->poller.thread, memory_order_seq_cst))
			return cq;
		atomic_fetch_sub_explicit(&cq->poller.posting, 1, memory_order_seq_cst);
		atomic_store_explicit(&h->flags.backlog, true, memory_order_relaxed);
		atomic_store_explicit(&cq->poller.drain_wanted, true, memory_order_seq_cst);
		/* The poll may have ended without seeing drain_wanted. */
	} while (!atomic_load_explicit(&cq->poller.thread, memory_order_seq_cst));
	*ret_put_off = true;
	return NULL;
}

static void let_poll(struct mesh_cq *kept)
{
	if (kept)
		atomic_fetch_sub_explicit(&kept->poller.posting, 1, memory_order_release);
}

/* Post a send while no earlier send waits. Return: as send_one(). */
static int send_now(struct mesh_vqp *h, const struct ibv_send_wr *wr)
{
	bool put_off;
	struct mesh_cq *kept = keep_from_polling(h, &put_off);
	int err = put_off ? WAIT : send_one(h, wr);

	let_poll(kept);
	return err;
}

void mesh_post_drain(struct mesh_vqp *h)
{
	const struct mesh_send *send;
	struct mesh_cq *kept;
	bool put_off = false;
	int cancel, err;

	if (!can_send(h))
		return;
	kept = h->queue.n ? keep_from_polling(h, &put_off) : NULL;
	if (put_off)
		return;
	cancel = mesh_cancel_off(); /* as in mesh_post_send(); called by polls, with more locks held */
	while (h->queue.n) {
		send = mesh_sendq_place(&h->queue, 0);
		err = mesh_tracker_is_lost(&send->wr) ? send_lost(h, &send->wr) : send_one(h, &send->wr);
		if (err && err != WAIT && err != ENOMEM)
			err = send_flush_marker(h, send->wr.wr_id);
		/*
		 * Comes back here: for a key mesh_vqp_put_key(), for atomics mesh_failover_release(), else the next
		 * poll or post.
		 */
		if (err == WAIT || err == ENOMEM)
			break;
		mesh_sendq_pop(&h->queue);
	}
	mesh_cancel_restore(cancel);
	atomic_store_explicit(&h->flags.backlog, h->queue.n, memory_order_relaxed);
	let_poll(kept);
}

void mesh_post_drain_all(struct mesh_context *mc)
{
	struct mesh_vqp *h;

	mesh_lock(&mc->data.lock);
	for (h = mc->data.all; h; h = h->lists.next_made) {
		if (!atomic_load_explicit(&h->flags.backlog, memory_order_relaxed))
			continue;
		mesh_lock(&h->lock);
		mesh_post_drain(h);
		mesh_unlock(&h->lock);
	}
	mesh_unlock(&mc->data.lock);
}

/* Receives do not wait for queued sends. */
bool mesh_post_recv_is_left(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_TRACKED && h->tracker->lost && !h->tracker->walker;
}

bool mesh_post_is_left(const struct mesh_vqp *h)
{
	return mesh_post_recv_is_left(h) && !h->queue.n;
}

/* The queue has grown. If sends can be posted, they wait for room, which polls make: note the backlog. */
static void waits(struct mesh_vqp *h, bool first)
{
	if ((h->mode == MESH_VQP_QUEUING || h->mode == MESH_VQP_DRAINED || h->mode == MESH_VQP_TRACKED) && first &&
	    h->client.ops->work_waits)
		h->client.ops->work_waits(h->client.arg);
	if (h->mode == MESH_VQP_QUEUING)
		atomic_store_explicit(&h->send_cq->fast, false, memory_order_relaxed); /* for mesh_helper_stalled() */
	atomic_store_explicit(&h->flags.backlog, h->mode == MESH_VQP_TRACKED || can_send(h), memory_order_relaxed);
}

static int enqueue(struct mesh_vqp *h, const struct ibv_send_wr *wr)
{
	bool first = !h->queue.n;
	int err = mesh_sendq_push(&h->queue, wr);

	if (!err)
		waits(h, first);
	return err;
}

void mesh_post_append(struct mesh_vqp *h, uint32_t n)
{
	bool first = !h->queue.n;

	if (!n)
		return;
	h->queue.n += n;
	mesh_post_drain(h);
	if (h->queue.n)
		waits(h, first);
}

/* @wr: written: the first request for the lower provider. */
static int post_send_locked(struct mesh_vqp *h, struct ibv_send_wr **wr, struct ibv_send_wr **bad_wr)
{
	bool direct;
	int err;

	if (h->tracker && mesh_walker_strayed(h->tracker->walker))
		mesh_walker_stray(h);
	if (h->queue.n)
		mesh_post_drain(h);
	for (; *wr && !mesh_post_is_left(h); *wr = (*wr)->next) {
		direct = can_send(h) && !h->queue.n;
		err = direct ? send_now(h, *wr) : WAIT;
		if (err == WAIT)
			err = enqueue(h, *wr);
		if (err) {
			*bad_wr = *wr;
			return err;
		}
	}
	return 0;
}

/*
 * With a walker, posts need not be logged until a move is prepared. A thread may be in a batch of libmlx5, for which
 * the lower provider's post waits: so call the lower provider without the plugin's locks.
 */
static bool is_for_lower(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_TRACKED && h->tracker->walker && !h->tracker->walker->engaged;
}

MV_LOCKS_UNCHECKED int mesh_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct mesh_vqp *h = mesh_context_active(mc) ? mesh_vqp_find(mc, qp) : NULL;
	bool ex, ours, fails;
	int err = 0, cancel = 0;

	if (!h && qp->qp_type == IBV_QPT_UD && mesh_ud_active(mc) && mesh_context_active(mc))
		return mesh_ud_post_send(mc, qp, wr, bad_wr);
	if (!h)
		return mc->lower.io.post_send(qp, wr, bad_wr);
	ex = h->posting.wrex;
	if (ex)
		mesh_lock(&h->posting.lock);
	mesh_lock(&h->lock);
	ours = h->qp == qp && h->mode > MESH_VQP_RX_RECORD && h->mode != MESH_VQP_PASSTHROUGH &&
	       !mesh_post_is_left(h) && !is_for_lower(h);
	if (ours)
		cancel = mesh_cancel_off(); /* Soft-RoCE posts with a write(), a cancellation point */
	if (ours && mesh_vqp_takes_sends(h))
		err = post_send_locked(h, &wr, bad_wr);
	else if (ours) {
		*bad_wr = wr;
		err = ENOMEM; /* as mlx5 */
	}
	fails = ours && mesh_vqp_fails(h);
	mesh_unlock(&h->lock);
	if (ex)
		mesh_unlock(&h->posting.lock);
	if (ours)
		mesh_cancel_restore(cancel);
	if (fails)
		mesh_post_fails(h);
	return ours && (err || !wr) ? err : mc->lower.io.post_send(qp, wr, bad_wr);
}
