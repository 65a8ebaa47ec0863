/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CQINT_H
#define MESH_CQINT_H

#include "cq.h"
#include "cqrecord.h"
#include "guard.h"
#include "heldrecord.h"
#include "places.h"
#include "reader.h"
#include "starve.h"

/* What the files of this room share, and the rooms above call: cq.c cqshadow.c kick.c poll.c cqex.c. */

/*
 * What the rooms above do for who polls; callbacks.c writes these before anything else of the plugin runs. Locks as the functions
 * of these names say: srq.h, postint.h, heldint.h, starved.h.
 */
struct mesh_cq_clients {
	void (*srq_consumed)(struct mesh_srq_home *home, uint64_t wr_id);
	void (*srq_keep)(struct mesh_srq_home *home, uint64_t wr_id, struct mesh_srq_recv *place);
	void (*srq_return)(struct mesh_srq_home *home, uint64_t wr_id);
	void (*post_drain)(struct mesh_held *h);
	void (*post_drain_all)(struct mesh_context *mc);
	void (*post_poisoned)(struct mesh_held *h, struct mesh_completion *c);
	bool (*held_stash)(struct mesh_held *h);
	void (*leftovers_bury)(struct mesh_context *mc, const struct mesh_cq *cq, bool all);
	void (*starved_give)(struct mesh_cq *cq);
};
extern struct mesh_cq_clients mesh_cq_clients;

/* ---- cq.c, cqshadow.c ------------------------------------------------------------------------------------------------- */

/**
 * mesh_cq_get - what we keep of a CQ, made if need be; one more QP uses it; data->lock, behind mesh_mlx5_is_base()
 *
 * Return: it; NULL: no memory, or an extended CQ that we did not see being made.
 */
struct mesh_cq *mesh_cq_get(struct mesh_context *mc, struct ibv_cq *cq);
void mesh_cq_put(struct mesh_cq *cq); /* data->lock */
/** mesh_cq_is_taken - is it polled by what is not ours? data->lock, behind mesh_mlx5_is_base() */
bool mesh_cq_is_taken(struct mesh_context *mc, const struct ibv_cq *cq);
/**
 * mesh_cq_freeze - let nobody poll
 *
 * Changes to shadow CQs are made so: the providers' locks may be off (MLX5_SINGLE_THREADED), because the program promised to use one
 * thread. But who polls may be between start_poll and end_poll and wait for the caller, so this gives up after a while, and at once if
 * the caller is the one who polls. Without it, the caller must not call what takes the provider's lock of the CQ or of its shadows, if
 * it is an extended one: libmlx5 holds that from start_poll to end_poll.
 *
 * Return: whether nobody polls; for mesh_cq_thaw().
 */
bool mesh_cq_freeze(struct mesh_cq *cq);
bool mesh_cq_try_freeze(struct mesh_cq *cq); /* does not wait */
void mesh_cq_thaw(struct mesh_cq *cq, bool frozen);
/**
 * mesh_cq_resize_begin - a CQ is about to be resized by the base; takes data->lock
 * @cq: of the program
 *
 * Return: true: it is known where its completions are. It has to be frozen, and mesh_reader_cq_refresh() has to follow. False: nobody
 * asks for that until mesh_cq_resize_end().
 */
bool mesh_cq_resize_begin(struct mesh_data *data, const struct ibv_cq *cq, struct mesh_cq_resize *ret);
void mesh_cq_resize_end(struct mesh_data *data, struct mesh_cq_resize *resize);
/** mesh_cq_use - from now on our functions have to poll it; data->lock */
void mesh_cq_use(struct mesh_cq *cq);
/** mesh_cq_unref - a shadow is gone */
void mesh_cq_unref(struct mesh_cq *cq);
/** mesh_cq_free - with shadows, kicker and stash; it has no place (mesh_fast_drop()); the base's CQ stays */
void mesh_cq_free(struct mesh_cq *cq);
/** mesh_cq_stash_keep - keep a place for a completion that is about to be polled; poll_lock, not cq->lock; is there one? */
bool mesh_cq_stash_keep(struct mesh_cq *cq);
/** mesh_cq_stash_kept - that was polled, or NULL; as above; whether there was one */
bool mesh_cq_stash_kept(struct mesh_cq *cq, const struct ibv_wc *wc);

/**
 * mesh_shadow_cq_reserve - a shadow CQ on a rail, with room for @n_wrs more; no lock of ours is held
 * @home: SRQ whose receives will complete there, too; NULL: none
 * @ahead: nothing completes there before mesh_shadow_cq_use()
 *
 * Return: 0; -ENOMEM; -EBUSY: it would have to grow, and somebody polls it; what ibv_create_cq() or ibv_resize_cq() say.
 */
int mesh_shadow_cq_reserve(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs,
			   const struct mesh_srq_home *home, bool ahead, struct mesh_shadow_cq **ret);
/** mesh_shadow_cq_use - from now on it is polled, if it is not yet; no lock of ours is held */
void mesh_shadow_cq_use(struct mesh_shadow_cq *scq);
/** mesh_shadow_cq_free - nobody uses it any more but QPs that are about to be destroyed; by its device's thread */
void mesh_shadow_cq_free(struct mesh_shadow_cq *scq);
void mesh_shadow_cq_unreserve(struct mesh_shadow_cq *scq, uint32_t n_wrs, const struct mesh_srq_home *home);
/** mesh_shadow_cq_add - completions of @shadow_qpn are the held QP's; 0 or -ENOMEM */
int mesh_shadow_cq_add(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, struct mesh_held *h,
		       struct mesh_srq_home *home);
/** mesh_shadow_cq_disown - the QP is going: of what it completes only what it takes from an SRQ is shown, and does not lead to the record */
void mesh_shadow_cq_disown(struct mesh_shadow_cq *scq, uint32_t shadow_qpn);
/** mesh_shadow_disown - the same, of both CQs of a QP; their owners' locks */
void mesh_shadow_disown(const struct mesh_shadow *shadow);
/** mesh_shadow_cq_remove - it is gone, after that; its number may be another one's by now */
void mesh_shadow_cq_remove(struct mesh_shadow_cq *scq, uint32_t shadow_qpn);

/**
 * mesh_cq_add_native - take notice of what a QP of the base completes
 * @home: count what it consumes of that SRQ; NULL: no
 * @held: log what it completes; NULL: no
 *
 * One QP may be added for either. Return: 0 or -ENOMEM.
 */
int mesh_cq_add_native(struct mesh_cq *cq, uint32_t qpn, struct mesh_srq_home *home, struct mesh_held *held);
/** mesh_cq_remove_native - of the two, what is not NULL is taken out */
void mesh_cq_remove_native(struct mesh_cq *cq, uint32_t qpn, const struct mesh_srq_home *home,
			   const struct mesh_held *held);

/** mesh_cq_forget - drop stashed completions of a held QP that goes; cq->lock */
void mesh_cq_forget(struct mesh_cq *cq, struct mesh_held *h);
/** mesh_cq_unstash - completions were taken out of the stash: there is room for others; cq->lock */
void mesh_cq_unstash(struct mesh_cq *cq, size_t n);

/* ---- kick.c ----------------------------------------------------------------------------------------------------------- */

/** mesh_kick - give the program's CQ an event, if it has a channel; any thread, no cq->lock needed */
void mesh_kick(struct mesh_cq *cq);
/** mesh_kick_prepare - make the kicker; data->lock. Return: 0 or -errno */
int mesh_kick_prepare(struct mesh_cq *cq);
/** mesh_kick_fini - destroy it */
void mesh_kick_fini(struct mesh_cq *cq);
/** mesh_kick_is - is a completion from the base a kick? No number of the program's is the address of our memory. */
static inline bool mesh_kick_is(const struct mesh_cq *cq, uint64_t wr_id)
{
	return wr_id == (uintptr_t)cq;
}
/**
 * mesh_kick_seen - a kick was polled
 *
 * Whoever calls this looks at shadows and stash afterwards: the next kick may have been left out because of this one.
 */
static inline void mesh_kick_seen(struct mesh_cq *cq)
{
	atomic_store_explicit(&cq->kicking, false, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- poll.c: hot ------------------------------------------------------------------------------------------------------ */

int mesh_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
/** mesh_poll_properly - the same, whatever is in the CQ */
int mesh_poll_properly(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int mesh_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/**
 * mesh_poll_shadow - poll one shadow CQ, as the program is to see it; poll_lock, not cq->lock
 * @wc: for the stash: the caller sees to it that it comes behind what is there
 */
int mesh_poll_shadow(struct mesh_shadow_cq *scq, int n, struct ibv_wc *wc);
/** mesh_poll_base - poll the base's, without kicks and what its QPs' logs keep back; as above */
int mesh_poll_base(struct mesh_cq *cq, int n, struct ibv_wc *wc, bool *ret_kicked);
/**
 * mesh_poll_behind - if there is something in the stash, this comes behind it
 *
 * While who polls had a completion in his hands, those before it may have been put there, by a move that came to its end: the
 * stash was empty when he looked. So that is only for those of queue pairs of which there may be some: others have nothing there then.
 * cq->lock and poll_lock. Return: whether there was, and it went there.
 */
bool mesh_poll_behind(struct mesh_cq *cq, const struct ibv_wc *wc);
/** mesh_poll_noticed - a completion of one of these was polled; @c->opcode is written; cq->lock. Return: whether to show it */
bool mesh_poll_noticed(const struct mesh_cq_qp *qp, struct mesh_completion *c);
/**
 * mesh_poll_is_shown - is one of a shadow CQ to be shown, whoever has noticed it?
 *
 * Of one that is going what it had outstanding has been dealt with otherwise; but a receive that it took from an SRQ is nowhere else.
 */
static inline bool mesh_poll_is_shown(const struct mesh_cq_qp *qp, const struct mesh_completion *c)
{
	return qp->held || (qp->home && c->receive);
}

/* ---- cqex.c ----------------------------------------------------------------------------------------------------------- */
/** mesh_cqex_save - keep an extended CQ's functions, before any thread can find @cq: a thread that polls finds all of them */
void mesh_cqex_save(struct mesh_cq *cq);
/** mesh_cqex_install - put ours over an extended CQ's functions, after mesh_cqex_save() */
void mesh_cqex_install(struct mesh_cq *cq);

/* ---- moderation.c ----------------------------------------------------------------------------------------------------- */
/** mesh_cq_moderate - give a CQ on a rail the moderation of the program's, if that has any; 0; errno: it does not take it */
int mesh_cq_moderate(const struct mesh_cq *cq, struct ibv_cq *shadow);

#endif
