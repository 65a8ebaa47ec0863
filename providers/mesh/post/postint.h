/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_POSTINT_H
#define MESH_POSTINT_H

#include "cqint.h"
#include "guard.h"
#include "post.h"

/* What the files of this room share, and the rooms above call: post.c sendq.c recvnotes.c wrex.c. */

/* ---- post.c: hot ------------------------------------------------------------------------------------------------------ */

int mesh_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int mesh_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/** mesh_post_append - @n requests were built behind the end of the queue: they are part of it now; held->lock */
void mesh_post_append(struct mesh_held *h, uint32_t n);
/**
 * mesh_post_drain - post what waits, as far as it goes; held->lock
 *
 * Of one that has failed, or whose log is lost, nothing while its CQ is being polled by the functions of an extended one: whoever does
 * that posts it when he is through.
 */
void mesh_post_drain(struct mesh_held *h);
/** mesh_post_drain_all - the same for all of a context that may have room; no lock of ours is held, nor a CQ open */
void mesh_post_drain_all(struct mesh_context *mc);
/**
 * mesh_post_is_left - what is posted cannot be noted any more: it is left to the base, without our lock; held->lock
 *
 * libmlx5 looks at the CQ when its queue is full, and who polls an extended one has that from start_poll to end_poll, and waits for our
 * lock meanwhile. As long as all is noted, what does not fit is known before. Of one that is read, receives are noted all the same.
 */
bool mesh_post_is_left(const struct mesh_held *h);
/** mesh_post_poisoned - a completion with the status that devices give to what lacks a key: it gets h->fail_status; c->cq->lock */
void mesh_post_poisoned(struct mesh_held *h, struct mesh_completion *c);
/** mesh_post_shadow_recv - one receive to the shadow; held->lock; 0 or errno */
int mesh_post_shadow_recv(struct mesh_held *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/** mesh_live_post_recv - one receive to the QP that comes next; held->lock; 0 or errno */
int mesh_live_post_recv(struct mesh_held *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/** mesh_held_note_key - add the remote key of a work request to @n others, unless it is there. Return: how many there are now */
size_t mesh_held_note_key(const struct ibv_send_wr *wr, uint32_t *keys, size_t n);
/** mesh_wr_remote_key - the remote key that a work request uses. Return: whether there is one */
bool mesh_wr_remote_key(const struct ibv_send_wr *wr, uint32_t *ret);
/**
 * mesh_post_fails - what is to be done after posting to one that fails: mesh_held_fail_now(); callbacks.c writes it
 *
 * No lock of the queue pair is held.
 */
extern void (*mesh_post_fails)(struct mesh_held *h);
/** mesh_held_fails - is that to be done after posting? held->lock */
static inline bool mesh_held_fails(const struct mesh_held *h)
{
	return h->queue.n && (h->mode == MESH_HELD_FAILING || h->mode == MESH_HELD_FLUSHING);
}

/* ---- sendq.c ---------------------------------------------------------------------------------------------------------- */

/** mesh_sendq_init - 0 or -ENOMEM */
int mesh_sendq_init(struct mesh_sendq *q, const struct ibv_qp_cap *cap);
void mesh_sendq_fini(struct mesh_sendq *q);
/** mesh_sendq_push - copy one to the end; 0, or the errno that a provider gives: ENOMEM, EINVAL */
int mesh_sendq_push(struct mesh_sendq *q, const struct ibv_send_wr *wr);
/** mesh_sendq_place - the place @ahead of the end; may lie behind what is there */
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

/** mesh_recvlog_add - note one down; never fails, but may make the log incomplete; held->lock */
void mesh_recvlog_add(struct mesh_recvlog *log, const struct ibv_recv_wr *wr);
void mesh_recvlog_fini(struct mesh_recvlog *log);

/* ---- wrex.c ----------------------------------------------------------------------------------------------------------- */

/** mesh_wrex_alloc - what the next one needs; 0 or -ENOMEM */
int mesh_wrex_alloc(struct mesh_held *h);
/** mesh_wrex_install - put ours over a QP's ibv_wr_* functions, if it has them; once it is in use, with post_lock and held->lock */
void mesh_wrex_install(struct mesh_held *h);
/** mesh_wrex_remove - and take them out again; post_lock and held->lock */
void mesh_wrex_remove(struct mesh_held *h);
/** mesh_wrex_changed - the provider may have put in others (mlx5's wr_complete depends on the state); as above */
void mesh_wrex_changed(struct mesh_held *h);

/** mesh_wrex_leave_queue - the queue is emptied for another one; a batch that is being built in it goes to that; held->lock */
void mesh_wrex_leave_queue(struct mesh_held *h);

/* post.c postrecv.c */

/** mesh_post_recv_is_left - is a receive left to the base, unnoted? held->lock */
bool mesh_post_recv_is_left(const struct mesh_held *h);
/** mesh_post_check_keys - keys of what is posted to the base, noted as used; held->lock */
void mesh_post_check_keys(struct mesh_held *h, const struct ibv_sge *sges, int n);
/** mesh_post_translate_sges - write h->sges: with the local keys of the rail that does the work; held->lock */
void mesh_post_translate_sges(struct mesh_held *h, const struct ibv_sge *from, int n);

#endif
