/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELD_H
#define MESH_HELD_H

#include "cq.h"
#include "heldrecord.h"
#include "lastwqe.h"
#include "post.h"

struct mesh_pd; /* rails.h: a protection domain's counterpart on another rail */

/*
 * Held and moved queue pairs: RC queue pairs of the program whose work does not go to the base's QP.
 *
 * The life of one, as its callers (connect.c, negotiate.c) drive it:
 *
 *   INIT      mesh_recvlog_begin()       receives are noted down as they are posted
 *   RTR       mesh_held_new()            from now on sends wait; receives still go to the base, too
 *             or mesh_recvlog_end()      nothing special about this one
 *             mesh_held_prepare()        its shadow, a QP on the agreed rail, in INIT, has the receives
 *             mesh_held_connect()        the shadow to RTR
 *   RTS       mesh_held_rts()            the shadow to RTS; in any order with the next
 *             mesh_held_activate()       what waits is posted, and from now on all work goes to the shadow
 *             or mesh_held_native()      what waits goes to the base: the caller has connected the program's QP
 *             or mesh_held_fail()        there is no way
 *   destroy   mesh_held_destroy()        before the base destroys the QP, in whatever state
 *
 * Calls for one QP are serialised by the caller (conn->lock), except mesh_held_put_key(), mesh_held_drop_key() and
 * everything the program does: those may come from any thread at any time.
 *
 * Nothing here waits for a peer or another thread. A send whose remote key is not known yet waits in the queue, and
 * all later ones of that QP behind it, until mesh_held_put_key().
 *
 * Locks, outermost first: conn->lock (the caller's), held->post_lock, cq->lock (mesh_cq), data->lock, held->lock, then
 * those of mesh_key_local() and of the hook. But a thread of the program's that is in a batch (ibv_wr_start()) has post_lock, and may
 * ask for conn->lock: whoever has that only tries (mesh_held_stop_posting()), but for the end of a QP, and RTR of one that is not held.
 */
struct mesh_held;

/**
 * mesh_held_new - hold a QP that the program has just connected
 * @qp: RC, in INIT for the base
 * @ops, @arg: constant; valid until mesh_held_destroy()
 *
 * Puts the data path's functions over the base's where they are not yet: for the context (poll_cq, post_send, post_recv,
 * req_notify_cq), for the QP (ibv_wr_*), for its CQs (ibv_cq_ex). Takes over what mesh_recvlog_begin() noted; ends it on failure, too.
 *
 * Return: 0; -ENOMEM; -EOPNOTSUPP: a kind of QP or CQ that cannot be held (not RC; its receives could not be
 * noted; a CQ made before the overlay); -EBUSY: mesh_held_why_busy(); -errno of ibv_query_qp().
 */
int mesh_held_new(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_held_ops *ops, void *arg,
		  struct mesh_held **ret);
/** mesh_held_why_busy - what -EBUSY of that, or of mesh_live_guard(), meant a moment ago for @qp: a constant; any thread */
const char *mesh_held_why_busy(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_held_prepare - make the shadow on a rail
 * @spd: where it and its keys live; stays until mesh_held_destroy(), mesh_held_native() or mesh_held_unprepare()
 * @ret_qpn: of the shadow
 *
 * Makes shadow CQs and a shadow SRQ where there are none yet, the shadow QP with the capabilities of the program's,
 * and posts to it what receives the program has posted. Several system calls.
 *
 * Return: 0; -ENOMEM; -EALREADY: there is one; -ESHUTDOWN: it is not waiting any more; what the verbs returned.
 */
int mesh_held_prepare(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
		      uint32_t *ret_qpn);

/**
 * mesh_held_unprepare - take the shadow away again; it must not have been activated
 *
 * Return: 0; -EBUSY: the peer has used it, or that cannot be excluded: receives were consumed that the base has as well, so it
 * stays, and there is no way back from it.
 */
int mesh_held_unprepare(struct mesh_held *h);

/**
 * mesh_held_connect - bring the shadow to RTR
 * @attr, @attr_mask: complete, for the shadow's device
 *
 * Return: 0 or -errno of ibv_modify_qp().
 */
int mesh_held_connect(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);

/** mesh_held_rts - bring the shadow to RTS; -errno */
int mesh_held_rts(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_held_activate - the peer can receive: the program's work goes to the shadow
 *
 * Sends wait on until mesh_held_rts(), too.
 */
void mesh_held_activate(struct mesh_held *h);

/**
 * mesh_held_stop_posting - sends of the program's wait from now on, and there is no thread in a batch (ibv_wr_start())
 *
 * Does not wait for one that is in a batch: that may take its time, or be waiting for what the caller has. Waits for calls that
 * just post, or change the base's QP. The caller is in no batch of this QP himself.
 *
 * Return: true: until mesh_held_resume_posting(), by the same thread; false: there is one in a batch.
 */
bool mesh_held_stop_posting(struct mesh_held *h);
/** mesh_held_want_stop - who is in a batch leaves a gap behind it, of three milliseconds: mesh_held_stop_posting() comes in it. No lock */
void mesh_held_want_stop(struct mesh_held *h);
/** mesh_held_resume_posting - @h may be gone since, by mesh_held_native() */
void mesh_held_resume_posting(struct mesh_held *h);

/** mesh_held_is_polled - is a thread between start_poll and end_poll of an extended CQ of its? No lock */
bool mesh_held_is_polled(const struct mesh_held *h);

/**
 * mesh_held_modify_base - change the base's own QP while it is held
 *
 * To be used in place of mc->modify_qp() from mesh_held_new() on: mlx5 exchanges functions of struct ibv_qp_ex with the
 * state, and must not do so in the middle of the program's posting. Waits for a thread in a batch, unless that is the caller, or
 * posting is stopped.
 *
 * Return: what mc->modify_qp() does.
 */
int mesh_held_modify_base(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_held_can_begin_again - may mesh_held_begin_base_again() be called later?
 *
 * libmlx5 takes the lock of a CQ when a QP goes to RESET, and who polls an extended one has that from start_poll to end_poll. So not
 * with an extended one that somebody may have begun to poll before our functions came in.
 */
bool mesh_held_can_begin_again(const struct mesh_held *h);

/**
 * mesh_held_begin_base_again - the base's own QP goes from RTR back to INIT, with the receives that were noted
 * @init, @init_mask: of INIT
 *
 * Nothing has been received. Posting is stopped. Return: 0; -EAGAIN: somebody polls, and nothing has happened; -ENOMEM: not all receives are
 * noted, and nothing has happened; -errno.
 */
int mesh_held_begin_base_again(struct mesh_held *h, const struct ibv_qp_attr *init, int init_mask);

/**
 * mesh_held_native - the base's own QP is connected (RTR, and RTS if the program said so): hand it everything
 *
 * There is no shadow (mesh_held_unprepare()), and posting is stopped. On success the QP is the base's alone, and @h is gone, as
 * after mesh_held_destroy(), but for mesh_held_resume_posting().
 *
 * Return: 0; -EBUSY: there is a shadow; -EAGAIN: there are sends, but the base takes none (its QP is not in RTS).
 */
int mesh_held_native(struct mesh_held *h);

/**
 * mesh_held_fail - there is no way to the peer
 * @status: that the first send, queued or posted later, completes with; everything else is then flushed
 *
 * As with a QP whose peer does not answer: until there is a send, nothing happens. If the shadow is in use, the first
 * send that waits for a key fails there, after all that is under way. Of one that is being fenced, has failed, or was ended by
 * the program, nothing changes: what becomes of it is decided elsewhere.
 *
 * Return: whether it fails for this.
 */
bool mesh_held_fail(struct mesh_held *h, enum ibv_wc_status status);

/**
 * mesh_held_fail_both - the same of one whose base's QP could not be connected either, so nothing will ever arrive
 *
 * Receives are flushed at once, and the base's QP is in ERR: a program that only receives learns of it, too.
 */
void mesh_held_fail_both(struct mesh_held *h, enum ibv_wc_status status);

/**
 * mesh_held_modify - the program modifies a QP after RTR, other than to RTS for the first time
 * @attr, @attr_mask: the program's own
 *
 * With a shadow in use: applied to that one, as far as it makes sense there (no port, no address vector). To ERR
 * without one: what waits is flushed, by the base's own QP. Otherwise without a shadow, or where the one that does the work is in
 * ERR and the program does not know: accepted; the caller remembers, and sees to what comes next (mesh_live_change()).
 * Not to RESET: that is mesh_held_destroy(), then the base's.
 *
 * Return: 0 or -errno.
 */
int mesh_held_modify(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_held_query - what the QP that does the work says of itself
 * @attr: of this, state, PSNs and draining are written; all else is for the caller, who has the program's attributes
 *
 * Return: 0; -ENODATA: no QP does the work yet; -errno of ibv_query_qp().
 */
int mesh_held_query(struct mesh_held *h, struct ibv_qp_attr *attr);

/** mesh_held_put_key - answer to want_key(); @path_rkey is one that fails every access when there is none */
void mesh_held_put_key(struct mesh_held *h, uint32_t rkey, uint32_t path_rkey);

/** mesh_held_drop_key - forget a translation; want_key() is called for it anew, at once if a send waits for it */
void mesh_held_drop_key(struct mesh_held *h, uint32_t rkey);

/** mesh_held_awaits_key - does the first send that waits do so for a key that was asked for? Called with held->lock */
bool mesh_held_awaits_key(struct mesh_held *h);

/* What only the helper thread can settle, and bare would be known to the program. */
enum mesh_withheld {
	MESH_WITHHELD_NOTHING,
	MESH_WITHHELD_ERRORS, /* of what does the work, or it is being moved */
	MESH_WITHHELD_SENDS, /* there is nothing yet that they could be posted to, or no key */
	MESH_WITHHELD_BY_QUIESCE, /* sends, until atomics are done */
};

/** mesh_held_withholds - is there any? Takes held->lock */
enum mesh_withheld mesh_held_withholds(struct mesh_held *h);

/** mesh_held_drop_keys - forget all of them */
void mesh_held_drop_keys(struct mesh_held *h);

/**
 * mesh_held_destroy - before the QP is destroyed (or reset for good)
 *
 * Nobody may use the QP any more. NULL is fine.
 */
void mesh_held_destroy(struct mesh_held *h);

/* recvlog.c */

/**
 * mesh_recvlog_begin - note down the receives of a QP from now on
 * @qp: RC, going from RESET to INIT; may be noted already: starts anew
 *
 * Return: 0; -ENOMEM, or -EBUSY, where something else intercepts posts or polls: this one cannot be held later, and is not noted.
 */
int mesh_recvlog_begin(struct mesh_context *mc, struct ibv_qp *qp);

/** mesh_recvlog_end - no more; the QP is connected by the base alone, reset or destroyed. Harmless if there is none. */
void mesh_recvlog_end(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_forgotten_note - a QP has gone to INIT
 * @no_memory: what is needed to move it later could not be noted
 */
void mesh_forgotten_note(struct mesh_context *mc, uint32_t qpn, bool no_memory);
/** mesh_forgotten_why - why is there no record of a QP that has been in INIT? A constant. */
const char *mesh_forgotten_why(struct mesh_context *mc, uint32_t qpn);

/* data.c */

/** mesh_data_open - a context gets the overlay; nobody sees it yet */
void mesh_data_open(struct mesh_context *mc);

/** mesh_data_close - a context is about to be closed: whatever is left is released; connections are gone already */
void mesh_data_close(struct mesh_context *mc);

#endif
