/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_VQP_INT_H
#define MESH_VQP_INT_H

#include "cqint.h"
#include "engage.h"
#include "postint.h"
#include "srq.h"
#include "vqp.h"

/* What the files of this room share. */

/* ---- data.c ----------------------------------------------------------------------------------------------------------- */

/**
 * mesh_vqp_get_free - take a free record, in mode RX_RECORD, and enter it for @qp. NULL: no memory. Locks: data->lock.
 */
struct mesh_vqp *mesh_vqp_get_free(struct mesh_context *mc, struct ibv_qp *qp);

/** mesh_vqp_release - clear a record, and make it free. Locks: data->lock and vqp->lock. */
void mesh_vqp_release(struct mesh_vqp *h);

/* ---- vqp.c, vqp_failover.c -------------------------------------------------------------------------------------- */

/** mesh_vqp_begin - mesh_vqp_new() into mode QUEUING, or, with a log, into TRACKED */
int mesh_vqp_begin(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
		   enum mesh_vqp_mode mode, struct mesh_vqp **ret);
/**
 * mesh_vqp_room - allocate the send queue, the log and the table of keys
 *
 * Done before the plugin's functions are installed, so that no later post of the program fails for lack of memory. For a QP that
 * is read from mlx5's queues (mlx5_wr_walker.h), done when a move is prepared, because most QPs never move; or earlier,
 * if it is little.
 *
 * Locks: vqp->lock. Return: 0, also if all is there already; -ENOMEM: nothing has changed, try again later.
 */
int mesh_vqp_room(struct mesh_vqp *h);
/**
 * mesh_vqp_try_modify_lower - as mesh_vqp_modify_lower(), not to RTR, without waiting for another thread in a batch
 *
 * Return: EAGAIN: another thread is in a batch (ibv_wr_start()); else as mc->lower.qp.modify_qp().
 */
int mesh_vqp_try_modify_lower(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);
/**
 * mesh_vqp_begin_again - undo mesh_vqp_begin() before anything completed: mode RX_RECORD, with the logged receives
 */
void mesh_vqp_begin_again(struct mesh_vqp *h);
/**
 * mesh_failover_give_up - the program brings the QP to ERR: no more moves, and all withheld errors are given
 *
 * Locks: conn->lock only. Return: true: the program's own QP does the work; the caller brings it to ERR.
 */
bool mesh_failover_give_up(struct mesh_vqp *h);
/** mesh_failover_end_drain - wait for the end of a drain, if one is under way; conn->lock */
void mesh_failover_end_drain(struct mesh_vqp *h);
/**
 * mesh_failover_end - the QP ends: destroy its standby, next and old QPs, and ignore its number in the program's CQs
 */
void mesh_failover_end(struct mesh_vqp *h);

/* ---- rkey_cache.c ------------------------------------------------------------------------------------------------ */

/** mesh_vqp_forget_keys - forget all keys: another rail has other keys. Locks: vqp->lock. */
void mesh_vqp_forget_keys(struct mesh_vqp_keys *keys);
/** mesh_vqp_take_keys - add keys of the new rail, after mesh_vqp_forget_keys(). @more may be NULL. Locks: vqp->lock. */
void mesh_vqp_take_keys(struct mesh_vqp_keys *keys, const struct mesh_failover_keys *more);

/* ---- shadow.c --------------------------------------------------------------------------------------------------------- */

/** mesh_shadow_modify - modify the shadow. Return: 0; -EINVAL: there is no shadow; -errno of ibv_modify_qp(). */
int mesh_shadow_modify(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);
/**
 * mesh_shadow_make - make a QP in INIT on a rail, with CQs and an SRQ there
 * @later: another QP does the work now, so receives of its SRQ may come later
 * @ret: written on success; not in h->now yet, so no work is posted there
 *
 * Locks: conn->lock only. Return: 0; -ENOMEM; -EBUSY: the CQs have to grow while a thread polls them; -errno of the verbs.
 */
int mesh_shadow_make(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr, bool later,
		     struct mesh_shadow *ret);
/**
 * mesh_shadow_make_standby - mesh_shadow_make() for a standby without SRQ. Its CQs are not polled until
 * mesh_shadow_take_up().
 */
int mesh_shadow_make_standby(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
			     struct mesh_shadow *ret);
/** mesh_shadow_to_init - modify a QP from RESET to INIT. Return: as ibv_modify_qp(). */
int mesh_shadow_to_init(struct ibv_qp *qp, const struct mesh_shadow_attr *attr);
/** mesh_shadow_take_up - a standby is going to be used: have its CQs polled */
void mesh_shadow_take_up(struct mesh_vqp *h, const struct mesh_shadow *shadow);
/** mesh_shadow_unmake - destroy a shadow that nothing refers to: at once if its CQs can be frozen, else later */
void mesh_shadow_unmake(struct mesh_vqp *h, struct mesh_shadow *shadow);
/**
 * mesh_shadow_collect - move completions from the shadow's CQs and the program's own to the software CQ, as far as the
 * program is to see them
 *
 * Locks: conn->lock only. Return: true: all completed receives were collected; false: a thread polls, or there is no memory.
 */
bool mesh_shadow_collect(struct mesh_vqp *h, const struct mesh_shadow *shadow);
/** mesh_shadow_collect_sends - mesh_shadow_collect() for the send CQ of the QP at work, if no thread polls it now; conn->lock */
void mesh_shadow_collect_sends(struct mesh_vqp *h);
/** mesh_shadow_destroy - the program's QP ends: destroy its shadow, used or not. Locks: conn->lock only. */
void mesh_shadow_destroy(struct mesh_vqp *h);

/* ---- lastrecv.c ------------------------------------------------------------------------------------------------------- */

/**
 * mesh_shadow_drained - has every receive completed that a shadow took from an SRQ?
 * @shadow: was in RTR, and is in ERR since @err_ns (mesh_now_ns())
 *
 * The completions may still have to be polled. Some system calls; conn->lock. Return: true also if the QP has no SRQ, the
 * last-WQE event did not come in time, or the device is gone.
 */
bool mesh_shadow_drained(const struct mesh_vqp *h, const struct mesh_shadow *shadow, uint64_t err_ns);
/** mesh_shadow_wait_drained - wait for mesh_shadow_drained(), 0.5 s at most; the shadow has just been brought to ERR */
void mesh_shadow_wait_drained(const struct mesh_vqp *h, const struct mesh_shadow *shadow);
/** mesh_vqp_drained - mesh_shadow_drained() for the QP at work, the program's own or a shadow, while it is drained */
bool mesh_vqp_drained(struct mesh_vqp *h);
/**
 * mesh_vqp_leave_srq - the QP at work is in ERR, and all of its receives were collected: it
 * consumes no receive of its SRQ any more, so other QPs may get them. No effect without an SRQ, or
 * the second time; conn->lock
 */
void mesh_vqp_leave_srq(struct mesh_vqp *h);
/**
 * mesh_vqp_err_ns - since when is the QP at work, which has not left its SRQ, in ERR? mesh_now_ns()
 *
 * Return: 0: it is not known to be in ERR, or has left, or is not tracked.
 */
uint64_t mesh_vqp_err_ns(struct mesh_vqp *h);
/**
 * mesh_vqp_stop_srq - the QP at work is in ERR: collect its last receive, then mesh_vqp_leave_srq()
 * @err_ns: in ERR since then, mesh_now_ns(); 0: not known to be, no effect
 *
 * Returns at once if the last receive has completed. Otherwise waits for it, up to 0.5 s after @err_ns if the device does not
 * tell the last receive. The helper thread calls this long after ERR. No effect if another thread polls for over 2 ms: the QP
 * then leaves its SRQ when it is destroyed. conn->lock
 */
void mesh_vqp_stop_srq(struct mesh_vqp *h, uint64_t err_ns);

/* ---- reaper.c ---------------------------------------------------------------------------------------------------- */

/* A shadow to which nothing refers any more, from mesh_reap_entry_init() on. */
struct mesh_reap_entry {
	struct mesh_device_job job; /* destroys the QP */
	struct mesh_reap_entry *next, *next_mine; /* data->lock; @next_mine: chain of the thread that works on them */
	bool busy; /* data->lock: a thread works on it */
	_Atomic bool last_wqe; /* IBV_EVENT_QP_LAST_WQE_REACHED has come; valid from the QP's creation on */
	struct ibv_qp *qp;
	struct mesh_pd *spd;
	struct mesh_shadow_cq *send_cq, *recv_cq;
	struct mesh_rail_srq *rail_srq; /* NULL: the QP has no SRQ */
	bool stopped; /* mesh_srq_stop_shadow() was called; conn->lock until mesh_reap_entry_init(), then constant */
	uint32_t send_wrs, recv_wrs; /* reserved in those CQs */
};

/**
 * mesh_reap_entry_init - turn a shadow into an entry of the reaper
 * @shadow: emptied
 * @send_wrs, @recv_wrs: places to give back with its CQs
 *
 * Return: shadow->reap_entry. The caller owns it, and passes it to mesh_reap_entry_destroy() or mesh_reaper_add().
 */
struct mesh_reap_entry *mesh_reap_entry_init(struct mesh_shadow *shadow, uint32_t send_wrs, uint32_t recv_wrs);
/** mesh_reaper_last_wqe - IBV_EVENT_QP_LAST_WQE_REACHED of a shadow was read, and is not acknowledged yet */
void mesh_reaper_last_wqe(const struct ibv_qp *qp);
/** mesh_reap_entry_leave - stop polling its CQs until it is destroyed; the CQs are frozen if possible */
void mesh_reap_entry_leave(struct mesh_reap_entry *entry);
/**
 * mesh_reap_entry_destroy - destroy it on its device's thread, after mesh_reap_entry_leave(), with the CQs thawed
 *
 * A shadow with an SRQ is destroyed by the caller's thread, because it leaves the SRQ.
 */
void mesh_reap_entry_destroy(struct mesh_reap_entry *entry);
/** mesh_reaper_add - destroy it later, because a thread may be polling its CQs */
void mesh_reaper_add(struct mesh_reap_entry *entry);
/**
 * mesh_reaper_run - destroy the entries of a CQ that can be destroyed now. Any thread; no lock of the plugin is held.
 * @cq: NULL: of all CQs
 * @all: wait for pollers, and destroy all of them: the program destroys the objects that they come from
 */
void mesh_reaper_run(struct mesh_context *mc, const struct mesh_cq *cq, bool all);

/* ---- fail.c ----------------------------------------------------------------------------------------------------------- */

/** mesh_vqp_flush - the program brings the QP to ERR. Locks: conn->lock only. Return: 0 or -errno. */
int mesh_vqp_flush(struct mesh_vqp *h);
/**
 * mesh_vqp_fail_now - the first waiting send fails, and the others are flushed, as far as the software CQ has room
 *
 * Locks: neither vqp->lock nor posting.lock is held.
 */
void mesh_vqp_fail_now(struct mesh_vqp *h);
/**
 * mesh_vqp_flush_queued - flush waiting sends into the software CQ, if no QP can flush them. Locks: cq->lock,
 * vqp->lock. Return: were there any?
 */
bool mesh_vqp_flush_queued(struct mesh_vqp *h);

#endif
