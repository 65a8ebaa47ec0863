/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELDINT_H
#define MESH_HELDINT_H

#include "cqint.h"
#include "engage.h"
#include "held.h"
#include "postint.h"
#include "srq.h"

/* What the files of this room share. */

/* ---- data.c ----------------------------------------------------------------------------------------------------------- */

/** mesh_held_claim - a free record, in mode NOTING, known by its QP; data->lock. NULL: no memory */
struct mesh_held *mesh_held_claim(struct mesh_context *mc, struct ibv_qp *qp);

/** mesh_held_release - the other way; data->lock and held->lock */
void mesh_held_release(struct mesh_held *h);

/* ---- held.c, live.c --------------------------------------------------------------------------------------------------- */

/** mesh_held_begin - mesh_held_new() into mode WAITING or, with a log, GUARDED */
int mesh_held_begin(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_held_ops *ops, void *arg,
		    enum mesh_held_mode mode, struct mesh_held **ret);
/**
 * mesh_held_room - the memory that is needed once posts pass by us: where they wait, where they are logged, and keys
 *
 * All of it before our functions are put in: from there on nothing that the program posts fails for lack of it. While the base does
 * the work and it is read from its queues (reader.h), that is when a move is prepared, for most never move; or ahead, if it is little.
 *
 * held->lock. Return: 0, also if it is there already; -ENOMEM: nothing has changed, and it may be tried again.
 */
int mesh_held_room(struct mesh_held *h);
/**
 * mesh_held_try_modify_base - mesh_held_modify_base(), not to RTR, without waiting for another thread in a batch of ibv_wr_start()
 *
 * Return: EAGAIN: there is one; what mc->modify_qp() does.
 */
int mesh_held_try_modify_base(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);
/** mesh_held_begin_again - the other way, before anything completed: mode NOTING, with the receives that the log had */
void mesh_held_begin_again(struct mesh_held *h);
/**
 * mesh_live_give_up - the program brings it to ERR: no more moves, and nothing is kept back
 *
 * No lock of ours but conn->lock is held. Return: whether the base does the work, and is to be brought to ERR.
 */
bool mesh_live_give_up(struct mesh_held *h);
/** mesh_live_end_fence - if it is being fenced, wait until it is empty; conn->lock */
void mesh_live_end_fence(struct mesh_held *h);
/** mesh_live_end - the QP goes: nothing of it is looked for in the base's CQs, and what comes next goes, too */
void mesh_live_end(struct mesh_held *h);

/* ---- heldkeys.c ------------------------------------------------------------------------------------------------------- */

/** mesh_held_forget_keys - keys of one rail mean nothing on another; held->lock */
void mesh_held_forget_keys(struct mesh_held *h);
/** mesh_held_take_keys - those are good from now on; after the former; held->lock; NULL is fine */
void mesh_held_take_keys(struct mesh_held *h, const struct mesh_live_keys *keys);

/* ---- shadow.c --------------------------------------------------------------------------------------------------------- */

/** mesh_shadow_modify - 0; -EINVAL: there is none; -errno */
int mesh_shadow_modify(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);
/**
 * mesh_shadow_make - a QP of ours in INIT on a rail, with CQs and SRQ there
 * @live: another one does the work: receives of its SRQ may come later
 * @ret: written on success; not in h->now yet, so nothing is posted to it
 *
 * No lock of ours is held. Return: 0; -ENOMEM; -EBUSY: its CQs have to grow, and somebody polls them; what the verbs returned.
 */
int mesh_shadow_make(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr, bool live,
		     struct mesh_shadow *ret);
/** mesh_shadow_make_ahead - the same for a QP without SRQ that may never be used: polling costs nothing more before the next */
int mesh_shadow_make_ahead(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
			   struct mesh_shadow *ret);
/** mesh_shadow_to_init - from RESET to INIT. Return: as ibv_modify_qp(). */
int mesh_shadow_to_init(struct ibv_qp *qp, const struct mesh_shadow_attr *attr);
/** mesh_shadow_take_up - one that was made ahead is going to be used */
void mesh_shadow_take_up(struct mesh_held *h, const struct mesh_shadow *shadow);
/** mesh_shadow_unmake - and away with it, at once if its CQs can be frozen; nothing refers to it any more */
void mesh_shadow_unmake(struct mesh_held *h, struct mesh_shadow *shadow);
/**
 * mesh_shadow_collect - completions in the CQs of both, our and the base's, go to the stash: those to be shown; no lock
 *
 * Return: whether that was all that its receives have completed; else somebody polls, or there is no memory.
 */
bool mesh_shadow_collect(struct mesh_held *h, const struct mesh_shadow *shadow);
/** mesh_shadow_collect_sends - the same of its send CQ at the NIC that it was moved to, if nobody polls it now; conn->lock */
void mesh_shadow_collect_sends(struct mesh_held *h);
/** mesh_shadow_destroy - take it away, used or not: the program's QP goes; no lock of ours is held */
void mesh_shadow_destroy(struct mesh_held *h);

/* ---- lastrecv.c ------------------------------------------------------------------------------------------------------- */

/**
 * mesh_shadow_drained - has every receive completed that a QP of ours took from an SRQ? It was in RTR, and is in ERR since @err_ns
 *
 * The completions may still have to be polled. Some system calls; conn->lock. Return: true also where the QP has no SRQ, where
 * the event that tells so did not come in time, and where the device is gone.
 */
bool mesh_shadow_drained(const struct mesh_held *h, const struct mesh_shadow *shadow, uint64_t err_ns);
/** mesh_shadow_wait_drained - until that is so, for half a second at most; it has just been brought to ERR */
void mesh_shadow_wait_drained(const struct mesh_held *h, const struct mesh_shadow *shadow);
/** mesh_held_drained - the same of what does the work, the base's or ours, and is being fenced */
bool mesh_held_drained(struct mesh_held *h);

/* ---- leftover.c ------------------------------------------------------------------------------------------------------- */

/* A shadow that nobody refers to any more, from mesh_leftover_init() on. */
struct mesh_leftover {
	struct mesh_device_job job; /* its end */
	struct mesh_leftover *next, *next_mine; /* data->lock; of who has them */
	bool busy; /* data->lock: somebody has it */
	_Atomic bool last_wqe; /* IBV_EVENT_QP_LAST_WQE_REACHED has come; valid from the QP's creation on */
	struct ibv_qp *qp;
	struct mesh_pd *spd;
	struct mesh_shadow_cq *send_cq, *recv_cq;
	struct mesh_srq_home *home; /* NULL: its receives are its own */
	uint32_t send_wrs, recv_wrs; /* counted in those */
};

/**
 * mesh_leftover_init - make one of a shadow
 * @shadow: emptied
 * @send_wrs, @recv_wrs: to be given back with its CQs
 *
 * Return: shadow->leftover, now the caller's, to be given to one of the next two.
 */
struct mesh_leftover *mesh_leftover_init(struct mesh_shadow *shadow, uint32_t send_wrs, uint32_t recv_wrs);
/** mesh_leftover_last_wqe - IBV_EVENT_QP_LAST_WQE_REACHED of a QP on a rail has been read, and is not acknowledged yet */
void mesh_leftover_last_wqe(const struct ibv_qp *qp);
/** mesh_leftover_leave - its CQs are not polled until it is gone; they are frozen, if that could be had */
void mesh_leftover_leave(struct mesh_leftover *leftover);
/**
 * mesh_leftover_destroy - have it destroyed by its device's thread, after that; the CQs are not frozen any more
 *
 * With an SRQ by the caller: it leaves that.
 */
void mesh_leftover_destroy(struct mesh_leftover *leftover);
/** mesh_leftover_add - it cannot go now, because somebody may be polling its CQs; it goes when that is over */
void mesh_leftover_add(struct mesh_leftover *leftover);
/**
 * mesh_leftovers_bury - those of a CQ go that can; any thread, no lock of ours is held
 * @cq: NULL: of all
 * @all: all of them, though it may have to wait for who polls: the program destroys what they came from
 */
void mesh_leftovers_bury(struct mesh_context *mc, const struct mesh_cq *cq, bool all);

/* ---- fail.c ----------------------------------------------------------------------------------------------------------- */

/** mesh_held_flush - the program brings it to ERR; caller serialises, no lock of ours is held; 0 or -errno */
int mesh_held_flush(struct mesh_held *h);
/**
 * mesh_held_fail_now - the first send that waits fails, the rest is flushed, as far as there is room in the stash
 *
 * Caller holds neither held->lock nor post_lock.
 */
void mesh_held_fail_now(struct mesh_held *h);
/** mesh_held_stash - flush what waits into the stash, if that is the way; cq->lock, held->lock; whether there was any */
bool mesh_held_stash(struct mesh_held *h);

#endif
