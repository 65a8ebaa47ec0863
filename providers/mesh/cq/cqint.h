/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CQINT_H
#define MESH_CQINT_H

#include "cq.h"
#include "cqrecord.h"
#include "helper_stall.h"
#include "mlx5_wr_walker.h"
#include "places.h"
#include "vqp_record.h"
#include "wr_tracker.h"

/* Shared by the files of this room, and called by the rooms above: cq.c cqshadow.c cq_notify.c poll.c cqex.c. */

/*
 * Functions of the rooms above that polls call. callbacks.c fills the table before any other code of the plugin runs. Locks: see
 * the functions of these names in srq.h, postint.h, vqp_int.h, stalled.h.
 */
struct mesh_cq_clients {
	void (*srq_consumed)(struct mesh_rail_srq *rail_srq, uint64_t wr_id);
	void (*srq_withhold)(struct mesh_rail_srq *rail_srq, uint64_t wr_id, struct mesh_srq_recv *place);
	void (*srq_return)(struct mesh_rail_srq *rail_srq, uint64_t wr_id);
	void (*post_drain)(struct mesh_vqp *h);
	void (*post_drain_all)(struct mesh_context *mc);
	void (*post_marker_flushed)(struct mesh_vqp *h, struct mesh_completion *c);
	bool (*flush_queued)(struct mesh_vqp *h);
	void (*reaper_run)(struct mesh_context *mc, const struct mesh_cq *cq, bool all);
	void (*stalled_flush)(struct mesh_cq *cq);
};
extern struct mesh_cq_clients mesh_cq_clients;

/* ---- cq.c, cqshadow.c ------------------------------------------------------------------------------------------------- */

/**
 * mesh_cq_get - get the record of a CQ, for one more QP; made if missing. Locks: data->lock; mesh_mlx5_is_lower() was
 * called before.
 *
 * Return: the record; NULL: no memory, or an extended CQ that cannot be handled (cq.c).
 */
struct mesh_cq *mesh_cq_get(struct mesh_context *mc, struct ibv_cq *cq);
void mesh_cq_put(struct mesh_cq *cq); /* data->lock */
/**
 * mesh_cq_is_taken - is the CQ polled by functions that are not the plugin's? Locks: data->lock; mesh_mlx5_is_lower()
 * was called before.
 */
bool mesh_cq_is_taken(struct mesh_context *mc, const struct ibv_cq *cq);
/**
 * mesh_cq_freeze - keep all threads from polling the CQ
 *
 * For changes of shadow CQs: the provider's locks may be off (MLX5_SINGLE_THREADED), because the program promised to use one
 * thread. A poller may be between start_poll and end_poll and wait for the caller, so this gives up after 0.1 s, and at once if
 * the caller is the poller. Then, with an extended CQ, the caller must not call a function that takes the provider's lock of the
 * CQ or of its shadows: libmlx5 holds that lock from start_poll to end_poll.
 *
 * Return: true: frozen. Pass it to mesh_cq_thaw().
 */
bool mesh_cq_freeze(struct mesh_cq *cq);
bool mesh_cq_try_freeze(struct mesh_cq *cq); /* does not wait */
void mesh_cq_thaw(struct mesh_cq *cq, bool frozen);
/**
 * mesh_cq_resize_begin - the lower provider is about to resize a CQ; takes data->lock
 * @cq: of the program
 *
 * Return: true: the plugin reads the CQ's buffer; freeze the CQ, and call mesh_walker_cq_refresh() afterwards. False:
 * no thread begins to read the buffer until mesh_cq_resize_end().
 */
bool mesh_cq_resize_begin(struct mesh_data *data, const struct ibv_cq *cq, struct mesh_cq_resize *ret);
void mesh_cq_resize_end(struct mesh_data *data, struct mesh_cq_resize *resize);
/** mesh_cq_use - have the plugin's functions poll the CQ from now on; data->lock */
void mesh_cq_use(struct mesh_cq *cq);
/** mesh_cq_unref - put the reference of a shadow CQ */
void mesh_cq_unref(struct mesh_cq *cq);
/**
 * mesh_cq_free - free the record with shadows, notify QP and software CQ, after mesh_fast_drop(); the lower provider's
 * CQ stays
 */
void mesh_cq_free(struct mesh_cq *cq);
/**
 * mesh_sw_cq_hold_place - reserve a place in the software CQ, before a completion is polled. Locks: poll_lock, not
 * cq->lock. Return: is there one?
 */
bool mesh_sw_cq_hold_place(struct mesh_cq *cq);
/**
 * mesh_sw_cq_fill_place - put a completion, or NULL, into the reserved place. Locks: as above. Return: was @wc not
 * NULL?
 */
bool mesh_sw_cq_fill_place(struct mesh_cq *cq, const struct ibv_wc *wc);

/**
 * mesh_shadow_cq_reserve - get the shadow CQ on a rail, with room for @n_wrs more completions. No lock of the plugin is held.
 * @rail_srq: SRQ whose receives will complete there, too; NULL: none
 * @standby: for a standby: not polled before mesh_shadow_cq_use()
 *
 * Return: 0; -ENOMEM; -EBUSY: the CQ has to grow while a thread polls it; -errno of ibv_create_cq() or ibv_resize_cq().
 */
int mesh_shadow_cq_reserve(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs, const struct mesh_rail_srq *rail_srq,
			   bool standby, struct mesh_shadow_cq **ret);
/** mesh_shadow_cq_use - have the shadow CQ polled from now on, if it is not yet. No lock of the plugin is held. */
void mesh_shadow_cq_use(struct mesh_shadow_cq *scq);
/** mesh_shadow_cq_free - free a shadow CQ on its device's thread, after the QPs that are still to be destroyed there */
void mesh_shadow_cq_free(struct mesh_shadow_cq *scq);
void mesh_shadow_cq_unreserve(struct mesh_shadow_cq *scq, uint32_t n_wrs, const struct mesh_rail_srq *rail_srq);
/** mesh_shadow_cq_add - completions of @shadow_qpn belong to @h. Return: 0 or -ENOMEM. */
int mesh_shadow_cq_add(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, struct mesh_vqp *h,
		       struct mesh_rail_srq *rail_srq);
/**
 * mesh_shadow_cq_disown - the QP will be destroyed: its completions do not belong to a record any more, and only receives from an
 * SRQ are shown
 */
void mesh_shadow_cq_disown(struct mesh_shadow_cq *scq, uint32_t shadow_qpn);
/** mesh_shadow_disown - mesh_shadow_cq_disown() for both CQs of a QP. Locks: cq->lock of their owners. */
void mesh_shadow_disown(const struct mesh_shadow *shadow);
/** mesh_shadow_cq_remove - the QP is destroyed, after mesh_shadow_cq_disown(); its number may be reused already */
void mesh_shadow_cq_remove(struct mesh_shadow_cq *scq, uint32_t shadow_qpn);

/**
 * mesh_cq_add_own_qp - watch completions of one of the program's own QPs
 * @rail_srq: count receives consumed from that SRQ; NULL: no
 * @vqp: log the completions; NULL: no
 *
 * May be called for each purpose separately. Return: 0 or -ENOMEM.
 */
int mesh_cq_add_own_qp(struct mesh_cq *cq, uint32_t qpn, struct mesh_rail_srq *rail_srq, struct mesh_vqp *vqp);
/** mesh_cq_remove_own_qp - stop mesh_cq_add_own_qp() for @rail_srq, @vqp, or both */
void mesh_cq_remove_own_qp(struct mesh_cq *cq, uint32_t qpn, const struct mesh_rail_srq *rail_srq,
			   const struct mesh_vqp *vqp);

/** mesh_cq_forget - drop completions in the software CQ of a virtual QP that ends; cq->lock */
void mesh_cq_forget(struct mesh_cq *cq, struct mesh_vqp *h);
/** mesh_sw_cq_remove - remove the first @n completions, which were shown, and let others take their places; cq->lock */
void mesh_sw_cq_remove(struct mesh_cq *cq, size_t n);

/* ---- cq_notify.c ------------------------------------------------------------------------------------------------- */

/**
 * mesh_cq_notify - make a completion event on the program's CQ, if it has a channel. Any thread; cq->lock is not
 * needed.
 */
void mesh_cq_notify(struct mesh_cq *cq);
/** mesh_cq_notify_prepare - make the notify QP, which makes such events; data->lock. Return: 0 or -errno. */
int mesh_cq_notify_prepare(struct mesh_cq *cq);
/** mesh_cq_notify_fini - destroy the notify QP */
void mesh_cq_notify_fini(struct mesh_cq *cq);
/**
 * mesh_cq_notify_is - is a completion a notification? The program cannot have a wr_id that is the address of the
 * plugin's memory.
 */
static inline bool mesh_cq_notify_is(const struct mesh_cq *cq, uint64_t wr_id)
{
	return wr_id == (uintptr_t)cq;
}
/**
 * mesh_cq_notify_seen - a notification was polled
 *
 * The caller looks at shadows and the software CQ afterwards: a later notification may have been left out because of
 * this one.
 */
static inline void mesh_cq_notify_seen(struct mesh_cq_notify *notify)
{
	atomic_store_explicit(&notify->pending, false, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- fastpoll.c, poll.c: hot ------------------------------------------------------------------------------------------------------ */

/** mesh_poll_cq - ibv_poll_cq(): by fastpoll.c if all logged QPs of the CQ have walkers, else mesh_poll_properly() */
int mesh_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
/** mesh_poll_properly - ibv_poll_cq() that handles all kinds of completions */
int mesh_poll_properly(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int mesh_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/**
 * mesh_poll_shadow - poll one shadow CQ, with completions as the program is to see them. Locks: poll_lock, not cq->lock.
 * @wc: for the software CQ; the caller appends them
 */
int mesh_poll_shadow(struct mesh_shadow_cq *scq, int n, struct ibv_wc *wc);
/**
 * mesh_poll_lower - poll the program's CQ, without notifications and withheld completions; otherwise as
 * mesh_poll_shadow()
 */
int mesh_poll_lower(struct mesh_cq *cq, int n, struct ibv_wc *wc, bool *ret_notified);
/**
 * mesh_poll_behind - append a completion to the software CQ, if the software CQ is not empty
 *
 * For QPs that may have completions in the software CQ: between the poller's look at the software CQ and now, a move
 * may have put earlier completions there. Locks: cq->lock and poll_lock. Return: true: appended; the poller must not
 * show it.
 */
bool mesh_poll_behind(struct mesh_cq *cq, const struct ibv_wc *wc);
/** mesh_poll_noticed - process a completion; writes @c->opcode; cq->lock. Return: should it be shown? */
bool mesh_poll_noticed(const struct mesh_cq_qp *qp, struct mesh_completion *c);
/**
 * mesh_poll_is_shown - second check for completions of shadow CQs: should it be shown?
 *
 * The outstanding work of a QP that will be destroyed was dealt with otherwise. Exception: receives from an SRQ.
 */
static inline bool mesh_poll_is_shown(const struct mesh_cq_qp *qp, const struct mesh_completion *c)
{
	return qp->vqp || (qp->rail_srq && c->receive);
}

/* ---- cqex.c ----------------------------------------------------------------------------------------------------------- */
/** mesh_cqex_save - save an extended CQ's functions, before another thread can find @cq */
void mesh_cqex_save(struct mesh_cq *cq);
/** mesh_cqex_install - replace an extended CQ's functions by the plugin's, after mesh_cqex_save() */
void mesh_cqex_install(struct mesh_cq *cq);

/* ---- moderation.c ----------------------------------------------------------------------------------------------------- */
/** mesh_cq_moderate - give a shadow CQ the event moderation of the program's CQ, if any. Return: 0 or errno. */
int mesh_cq_moderate(const struct mesh_cq *cq, struct ibv_cq *shadow);

#endif
