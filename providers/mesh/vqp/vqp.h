/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_VQP_H
#define MESH_VQP_H

#include "cq.h"
#include "lastwqe.h"
#include "post.h"
#include "vqp_record.h"

struct mesh_pd; /* rails.h: twin of a protection domain, on another rail */

/*
 * Virtual queue pairs (vqp): RC queue pairs of the program whose work another QP does, or may do. The other QP is the "shadow",
 * on another rail. "Base" is the lower provider.
 *
 * Calls by connect.c, connpath.c and execute.c, in the order of the program's states:
 *
 *   INIT      mesh_recvlog_begin()       records receives as they are posted
 *   RTR       mesh_vqp_new()            sends wait from now on; receives still go to the program's own QP, too
 *             or mesh_recvlog_end()      an ordinary QP: the plugin does nothing
 *             mesh_vqp_prepare()        makes the shadow on the agreed rail, in INIT, with the receives
 *             mesh_vqp_connect()        the shadow to RTR
 *   RTS       mesh_vqp_rts()            the shadow to RTS; before or after mesh_vqp_activate()
 *             mesh_vqp_activate()       posts the sends that wait; all work goes to the shadow from now on
 *             or mesh_vqp_passthrough()      the program's own QP is connected: posts the sends there
 *             or mesh_vqp_fail()        no path to the peer
 *   destroy   mesh_vqp_destroy()        before the program's own QP is destroyed, in any state
 *
 * Threads: the caller serialises calls for one QP by conn->lock, except mesh_vqp_put_key(), mesh_vqp_drop_key() and
 * posts, polls and so on of the program, which come from any thread at any time.
 *
 * No function here waits for the peer or for another thread, unless it says so. A send whose remote key is not known waits in the
 * queue, with all later sends, until mesh_vqp_put_key().
 *
 * Locks, outermost first: conn->lock (the caller's), vqp->posting.lock, cq->lock (mesh_cq), data->lock, vqp->lock, then
 * those of mesh_key_local() and of the hook. A thread of the program in a batch (ibv_wr_start()) holds posting.lock,
 * and may wait for conn->lock. So a holder of conn->lock only tries for posting.lock (mesh_vqp_stop_posting()), except
 * when a QP ends, and at RTR of a QP that is not held.
 */
struct mesh_vqp;

/**
 * mesh_vqp_new - hold a QP that the program has just connected: its sends wait
 * @qp: RC, in INIT at the lower provider
 * @ops, @arg: constant; valid until mesh_vqp_destroy()
 *
 * Installs the plugin's data path where it is not installed yet: in the context (poll_cq, post_send, post_recv, req_notify_cq),
 * the QP (ibv_wr_*), and its CQs (ibv_cq_ex). Takes over, or on failure ends, the record of mesh_recvlog_begin().
 *
 * Return: 0; -ENOMEM; -EOPNOTSUPP: a kind of QP or CQ that cannot be held (not RC; receives not recorded; a CQ made before the
 * overlay); -EBUSY: see mesh_vqp_why_busy(); -errno of ibv_query_qp().
 */
int mesh_vqp_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
		 struct mesh_vqp **ret);
/**
 * mesh_vqp_why_busy - why mesh_vqp_new() or mesh_failover_track() has just returned -EBUSY for @qp: a constant; any
 * thread
 */
const char *mesh_vqp_why_busy(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_vqp_prepare - make the shadow
 * @spd: PD on the shadow's rail; stays valid until mesh_vqp_destroy(), mesh_vqp_passthrough() or mesh_vqp_unprepare()
 * @ret_qpn: of the shadow
 *
 * Makes shadow CQs and a shadow SRQ if needed, and a QP with the capabilities of the program's. Posts the recorded receives to
 * the shadow. Several system calls.
 *
 * Return: 0; -ENOMEM; -EALREADY: there is a shadow; -ESHUTDOWN: the QP does not wait any more; -errno of the verbs.
 */
int mesh_vqp_prepare(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
		     uint32_t *ret_qpn);

/**
 * mesh_vqp_unprepare - destroy a shadow that was not activated
 *
 * Return: 0; -EBUSY: the peer has used the shadow, or that cannot be excluded. Then the shadow stays for good: it consumed
 * receives that the program's own QP has as well.
 */
int mesh_vqp_unprepare(struct mesh_vqp *h);

/**
 * mesh_vqp_connect - bring the shadow to RTR
 * @attr, @attr_mask: complete, for the shadow's device
 *
 * Return: 0 or -errno of ibv_modify_qp().
 */
int mesh_vqp_connect(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);

/** mesh_vqp_rts - bring the shadow to RTS. Return: 0 or -errno of ibv_modify_qp(). */
int mesh_vqp_rts(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_vqp_activate - the peer can receive: the program's work goes to the shadow
 *
 * Sends still wait until mesh_vqp_rts().
 */
void mesh_vqp_activate(struct mesh_vqp *h);

/**
 * mesh_vqp_stop_posting - take posting.lock: the program's sends wait from now on
 *
 * Does not wait for a thread in a batch (ibv_wr_start()), which may take long, or wait for a lock of the caller. Waits for a
 * thread that just posts, or changes the program's own QP. The caller must not be in a batch of this QP.
 *
 * Return: true: the same thread calls mesh_vqp_resume_posting() later; false: a thread is in a batch.
 */
bool mesh_vqp_stop_posting(struct mesh_vqp *h);
/**
 * mesh_vqp_want_stop - have threads pause for 3 ms after each batch, so that mesh_vqp_stop_posting() succeeds. Locks:
 * none.
 */
void mesh_vqp_want_stop(struct mesh_vqp *h);
/** mesh_vqp_resume_posting - give posting.lock back; @h may have ended meanwhile by mesh_vqp_passthrough() */
void mesh_vqp_resume_posting(struct mesh_vqp *h);

/** mesh_vqp_is_polled - is a thread between start_poll and end_poll of one of the QP's extended CQs? Locks: none. */
bool mesh_vqp_is_polled(const struct mesh_vqp *h);

/**
 * mesh_vqp_modify_lower - modify the program's own QP
 *
 * Replaces mc->lower.qp.modify_qp() from mesh_vqp_new() on: mlx5 changes functions of struct ibv_qp_ex with the state,
 * which must not happen while the program posts. Waits for a thread in a batch, unless the caller is that thread, or
 * posting is stopped.
 *
 * Return: as mc->lower.qp.modify_qp().
 */
int mesh_vqp_modify_lower(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_vqp_can_begin_again - may mesh_vqp_begin_lower_again() be called later?
 *
 * libmlx5 takes the lock of a CQ when a QP goes to RESET. A poller of an extended CQ holds that lock from start_poll to end_poll.
 * So the answer is no if a poll of an extended CQ may have begun before the plugin's functions were installed.
 */
bool mesh_vqp_can_begin_again(const struct mesh_vqp *h);

/**
 * mesh_vqp_begin_lower_again - bring the program's own QP from RTR back to INIT, and post the recorded receives again
 * @init, @init_mask: of INIT
 *
 * Only before anything was received, with posting stopped.
 *
 * Return: 0; -EAGAIN: a thread polls, nothing has changed; -ENOMEM: not all receives are recorded, nothing has changed; -errno.
 */
int mesh_vqp_begin_lower_again(struct mesh_vqp *h, const struct ibv_qp_attr *init, int init_mask);

/**
 * mesh_vqp_passthrough - the program's own QP is connected (RTR, and RTS if the program said so): give it all work
 *
 * Posting must be stopped, and no shadow exist (mesh_vqp_unprepare()). On success @h has ended, as after
 * mesh_vqp_destroy(); only mesh_vqp_resume_posting() may follow.
 *
 * Return: 0; -EBUSY: there is a shadow; -EAGAIN: sends wait, but the program's own QP is not in RTS.
 */
int mesh_vqp_passthrough(struct mesh_vqp *h);

/**
 * mesh_vqp_fail - no path to the peer
 * @status: of the first send, queued now or posted later; all other work is flushed
 *
 * Without a send nothing happens, as with a peer that does not answer. If the shadow is in use, the first send that waits for a
 * key fails there, after all earlier work. No effect on a QP that is being drained, has failed, or was ended by the
 * program.
 *
 * Return: true: the QP fails for this reason.
 */
bool mesh_vqp_fail(struct mesh_vqp *h, enum ibv_wc_status status);

/**
 * mesh_vqp_fail_both - as mesh_vqp_fail(), and the program's own QP cannot be connected either
 *
 * Brings the program's own QP to ERR, so that its receives are flushed at once: a program that only receives learns of the
 * failure, too.
 */
void mesh_vqp_fail_both(struct mesh_vqp *h, enum ibv_wc_status status);

/**
 * mesh_vqp_modify - the program modifies the QP after RTR, other than to RTS for the first time
 * @attr, @attr_mask: the program's own
 *
 * - A shadow is in use: changes the shadow, without port and address vector.
 * - To ERR without a shadow in use: the program's own QP flushes the work that waits.
 * - Otherwise, and if the QP at work is in ERR without the program's knowledge: only succeeds; the caller remembers the change,
 *   and calls mesh_failover_change().
 * - To RESET: not here; the caller calls mesh_vqp_destroy(), then the lower provider.
 *
 * Return: 0 or -errno.
 */
int mesh_vqp_modify(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_vqp_query - query the QP at work
 * @attr: state, cur_qp_state, PSNs and draining are written; the caller fills in all else from the program's attributes
 *
 * Return: 0; -ENODATA: no QP does the work yet; -errno of ibv_query_qp().
 */
int mesh_vqp_query(struct mesh_vqp *h, struct ibv_qp_attr *attr);

/** mesh_vqp_put_key - answer to want_key(); @path_rkey is a key that fails every access if the peer has no such key */
void mesh_vqp_put_key(struct mesh_vqp *h, uint32_t rkey, uint32_t path_rkey);

/** mesh_vqp_drop_key - forget one translated key; want_key() asks again, at once if a send waits for the key */
void mesh_vqp_drop_key(struct mesh_vqp *h, uint32_t rkey);

/** mesh_vqp_awaits_key - does the first waiting send wait for a key that was asked for? Locks: vqp->lock. */
bool mesh_vqp_awaits_key(struct mesh_vqp *h);

/* Work of the program that only the helper thread can continue, and that would be visible to the program on a bare HCA. */
enum mesh_withheld {
	MESH_WITHHELD_NOTHING,
	MESH_WITHHELD_ERRORS, /* the QP at work has errors, or is being drained */
	MESH_WITHHELD_SENDS, /* sends without a QP that takes them, or without a key */
	MESH_WITHHELD_BY_QUIESCE, /* sends that wait for outstanding atomics */
};

/** mesh_vqp_withholds - which work is withheld now? Takes vqp->lock. */
enum mesh_withheld mesh_vqp_withholds(struct mesh_vqp *h);

/** mesh_vqp_drop_keys - forget all translated keys */
void mesh_vqp_drop_keys(struct mesh_vqp *h);

/**
 * mesh_vqp_destroy - before the program's QP is destroyed, or reset for good
 *
 * No thread may use the QP any more. NULL is fine.
 */
void mesh_vqp_destroy(struct mesh_vqp *h);

/* recvlog.c */

/**
 * mesh_recvlog_begin - record the receives of a QP from now on
 * @qp: RC, going from RESET to INIT; an earlier record is dropped
 *
 * Return: 0; -ENOMEM; -EBUSY: something else intercepts posts or polls. On failure the QP cannot be held later.
 */
int mesh_recvlog_begin(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_recvlog_end - drop the record: the lower provider alone connects the QP, or it was reset or destroyed. No record
 * is fine.
 */
void mesh_recvlog_end(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_forgotten_note - a QP has gone to INIT
 * @no_memory: true: there was no memory for its record, so it cannot move later
 */
void mesh_forgotten_note(struct mesh_context *mc, uint32_t qpn, bool no_memory);
/** mesh_forgotten_why - why does a QP that has been in INIT have no record? A constant. */
const char *mesh_forgotten_why(struct mesh_context *mc, uint32_t qpn);

/* data.c */

/** mesh_data_open - initialise the overlay's data of a new context, before any other thread sees it */
void mesh_data_open(struct mesh_context *mc);

/** mesh_data_close - free the data of a context that is about to be closed; its connections are gone already */
void mesh_data_close(struct mesh_context *mc);

#endif
