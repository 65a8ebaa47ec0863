/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_POSTINT_H
#define MESH_POSTINT_H

#include "cqint.h"
#include "post.h"
#include "wr_tracker.h"

/* Shared by the files of this room, and called by the rooms above: post.c sendq.c recvnotes.c wrex.c. */

/* ---- post.c: hot ------------------------------------------------------------------------------------------------------ */

int mesh_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int mesh_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/** mesh_post_append - append the @n requests that were built behind the end of the queue; vqp->lock */
void mesh_post_append(struct mesh_vqp *h, uint32_t n);
/**
 * mesh_post_drain - post waiting sends as far as possible; vqp->lock
 *
 * For a QP that has failed, or whose log is lost, nothing is posted while its extended CQ is being polled: the poller posts
 * afterwards.
 */
void mesh_post_drain(struct mesh_vqp *h);
/**
 * mesh_post_drain_all - mesh_post_drain() for all QPs of a context that may have room; no lock of the plugin is held, and no CQ
 * open
 */
void mesh_post_drain_all(struct mesh_context *mc);
/**
 * mesh_post_is_left - must posts go to the lower provider, without the plugin's lock, because they cannot be logged any
 * more? vqp->lock
 *
 * libmlx5 looks at the CQ when its queue is full. A poller of an extended CQ has the CQ's lock from start_poll to end_poll, and
 * may wait for the plugin's lock. As long as all posts are logged, a full queue is known before libmlx5 is called. With
 * a walker, receives are recorded all the same.
 */
bool mesh_post_is_left(const struct mesh_vqp *h);
/**
 * mesh_post_marker_flushed - a completion with a protection error: if it is of the failing send, it gets
 * h->failure.status; c->cq->lock
 */
void mesh_post_marker_flushed(struct mesh_vqp *h, struct mesh_completion *c);
/** mesh_post_shadow_recv - post a receive to the shadow; vqp->lock. Return: 0 or errno. */
int mesh_post_shadow_recv(struct mesh_vqp *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/** mesh_failover_post_recv - post a receive to the next QP; vqp->lock. Return: 0 or errno. */
int mesh_failover_post_recv(struct mesh_vqp *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/**
 * mesh_vqp_note_key - add the remote key of a work request to an array of @n, unless it is in there. Return: the new
 * number of keys.
 */
size_t mesh_vqp_note_key(const struct ibv_send_wr *wr, uint32_t *keys, size_t n);
/** mesh_wr_remote_key - the remote key of a work request. Return: does it use one? */
bool mesh_wr_remote_key(const struct ibv_send_wr *wr, uint32_t *ret);
/**
 * mesh_post_fails - mesh_vqp_fail_now(), called after posting to a QP that fails; set by callbacks.c
 *
 * No lock of the queue pair is held.
 */
extern void (*mesh_post_fails)(struct mesh_vqp *h);
/** mesh_vqp_fails - is mesh_post_fails() to be called after posting? vqp->lock */
static inline bool mesh_vqp_fails(const struct mesh_vqp *h)
{
	return h->queue.n && (h->mode == MESH_VQP_FAILING || h->mode == MESH_VQP_FLUSHING);
}

/* ---- sendq.c ---------------------------------------------------------------------------------------------------------- */

/** mesh_sendq_init - allocate a queue. Return: 0 or -ENOMEM. */
int mesh_sendq_init(struct mesh_sendq *q, const struct ibv_qp_cap *cap);
void mesh_sendq_fini(struct mesh_sendq *q);
/** mesh_sendq_push - append a copy of a send. Return: 0, or the errno of a provider: ENOMEM, EINVAL. */
int mesh_sendq_push(struct mesh_sendq *q, const struct ibv_send_wr *wr);
/** mesh_sendq_place - the place @at, counted from the head; may be behind the end */
static inline struct mesh_send *mesh_sendq_place(const struct mesh_sendq *q, uint32_t at)
{
	uint32_t i = q->head + at;

	return (struct mesh_send *)(void *)(q->places + (size_t)(i >= q->size ? i - q->size : i) * q->stride);
}
static inline void mesh_sendq_pop(struct mesh_sendq *q)
{
	q->head = q->head + 1 == q->size ? 0 : q->head + 1;
	q->n--;
}

/* ---- recvnotes.c ------------------------------------------------------------------------------------------------------- */

/** mesh_recvlog_add - record a receive; without memory the log becomes incomplete; vqp->lock */
void mesh_recvlog_add(struct mesh_recvlog *log, const struct ibv_recv_wr *wr);
void mesh_recvlog_fini(struct mesh_recvlog *log);

/* ---- wrex.c ----------------------------------------------------------------------------------------------------------- */

/** mesh_wrex_alloc - allocate memory for mesh_wrex_install(). Return: 0 or -ENOMEM. */
int mesh_wrex_alloc(struct mesh_vqp *h);
/**
 * mesh_wrex_install - replace a QP's ibv_wr_* functions, if it has them
 *
 * Locks: once the QP is in use, posting.lock and vqp->lock.
 */
void mesh_wrex_install(struct mesh_vqp *h);
/** mesh_wrex_remove - restore the lower provider's functions; posting.lock and vqp->lock */
void mesh_wrex_remove(struct mesh_vqp *h);
/**
 * mesh_wrex_changed - the provider may have replaced functions (mlx5's wr_complete depends on the state): install again; locks as
 * above
 */
void mesh_wrex_changed(struct mesh_vqp *h);

/**
 * mesh_wrex_leave_queue - free the queue, which is to be replaced; a batch that is being built there continues in its memory;
 * vqp->lock
 */
void mesh_wrex_leave_queue(struct mesh_vqp *h);

/* post.c postrecv.c */

/** mesh_post_recv_is_left - must receives go to the lower provider, unrecorded? vqp->lock */
bool mesh_post_recv_is_left(const struct mesh_vqp *h);
/** mesh_post_check_keys - check local keys of work for the lower provider, and note them as used; vqp->lock */
void mesh_post_check_keys(struct mesh_vqp *h, const struct ibv_sge *sges, int n);
/** mesh_post_translate_sges - write h->keys.sges with local keys of the rail that does the work; vqp->lock */
void mesh_post_translate_sges(struct mesh_vqp *h, const struct ibv_sge *from, int n);

#endif
