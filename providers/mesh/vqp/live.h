/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LIVE_H
#define MESH_LIVE_H

#include "held.h"
#include "move.h"

/*
 * Moving a queue pair that is at work. What its log (guard.h) holds is what has to be done again on the next one.
 *
 *   RTR       mesh_live_guard()      the base does the work, and it is logged; moved ones have a log from mesh_held_new() on
 *   RTS       mesh_live_base_rts()
 *   a move    mesh_live_prepare(), mesh_live_connect()   the QP that comes next, on the agreed rail
 *             mesh_live_quiesce()    if its path works: atomics are let finish, and no more are posted
 *             mesh_live_fence()      what does the work is brought to ERR and emptied; receives are posted to the next one
 *             mesh_live_replay()     the peer has told how far it came: the rest is posted again, and work goes on
 *             or mesh_live_surface() it failed: the program gets its errors
 *             or mesh_live_release() it was called off before the fence
 *
 * Calls for one QP are serialised by the caller (conn->lock) and come from the helper thread, except the first two and those that
 * say so.
 */

/**
 * mesh_live_guard - log the work of a QP that the base will do
 * @qp: RC, in INIT, its receives noted (mesh_recvlog_begin())
 * @mtu_bytes: of its path
 *
 * Return: 0; -ENOMEM; -EOPNOTSUPP: of a kind that cannot be moved later, or not wanted; -EBUSY: mesh_held_why_busy(). On failure
 * the receives are not noted any more.
 */
int mesh_live_guard(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_held_ops *ops, void *arg,
		    uint32_t mtu_bytes, struct mesh_held **ret);

/** mesh_live_unguard - it could not be brought to RTR: its receives are noted as before; @h is not the caller's any more */
void mesh_live_unguard(struct mesh_held *h);

/** mesh_live_base_rts - the program brings the base's QP to RTS; what mc->modify_qp() returns */
int mesh_live_base_rts(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_live_arm - make the QP that may come next, in INIT, before it is needed
 *
 * mesh_live_prepare() takes it if it is what it wants. And the room that it needs itself is taken, if it is little
 * (mesh_reader_room_ahead()).
 *
 * Return: 0; -EBUSY: there is one; -EOPNOTSUPP: not with an SRQ, or something was lost; as mesh_held_prepare().
 */
int mesh_live_arm(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr);
/** mesh_live_disarm - and away with it; before its PD is put */
void mesh_live_disarm(struct mesh_held *h);
/** mesh_live_armed - is there one? Its number, or 0 */
uint32_t mesh_live_armed(const struct mesh_held *h);
/**
 * mesh_live_standby - connect it as mesh_live_connect() would, before it is taken; a worker, too
 *
 * Once more with other attributes is fine. mesh_live_connect() does what is left to do.
 *
 * Return: 0; -ENOENT: there is none; -ENOMEM; -errno of ibv_modify_qp().
 */
int mesh_live_standby(struct mesh_held *h, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts, int rts_mask);
/**
 * mesh_live_could_take - the one that mesh_live_prepare() would take, and nobody notices that it was looked for
 *
 * What mesh_live_take_standby() needs is there as far as can be seen; what takes only memory is done. CQs may have to be made larger yet;
 * where that cannot be, no move can.
 *
 * Return: its number; 0: there is none, or it could not be taken.
 */
uint32_t mesh_live_could_take(struct mesh_held *h, const struct mesh_pd *spd, const struct mesh_shadow_attr *attr);
/**
 * mesh_live_take_standby - mesh_live_prepare() and mesh_live_connect() for the one that mesh_live_standby() has connected
 *
 * Return: 0; -ENOENT: there is none; else as mesh_live_prepare().
 */
int mesh_live_take_standby(struct mesh_held *h);
/** mesh_live_has_next - has a QP been taken or made that comes next? */
bool mesh_live_has_next(const struct mesh_held *h);
/** mesh_live_on_standby - is the one that was taken, or else the one that was made ahead, connected to that peer's QP already? */
bool mesh_live_on_standby(const struct mesh_held *h, const struct mv_ctl_end *peer);

/**
 * mesh_live_prepare - make the QP that comes next, in INIT
 *
 * Takes what memory the move and the work after it need, so that the lack of it is no reason to fail later.
 *
 * Return: 0; -EBUSY: there is one, or mesh_reader_engage(); -EOPNOTSUPP: something was lost (mesh_live_lost()) or the QP has an SRQ; as
 * mesh_held_prepare().
 */
int mesh_live_prepare(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr, uint32_t *ret_qpn);

/** mesh_live_lost - why it cannot be moved any more; NULL: it can */
const char *mesh_live_lost(struct mesh_held *h);

/**
 * mesh_live_connect - bring it to RTR and RTS, unless it is there as is wanted now
 * @rtr, @rts: the program's attributes, made to fit the rail; @rts_mask 0: not in RTS yet
 *
 * Return: 0; -errno of ibv_modify_qp().
 */
int mesh_live_connect(struct mesh_held *h, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts, int rts_mask);

/* What may be set again in RTS, for RC: which remote accesses are allowed, and how long a peer waits when there is no receive. */
#define MESH_CHANGES (IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER)

/**
 * mesh_live_change - the program has changed something of it: so it is for what comes next, as far as that is made
 * @attr_mask: of it MESH_CHANGES count
 *
 * The QP that does the work is mesh_held_modify()'s; what is not made yet is the caller's to remember. The program's thread.
 *
 * Return: 0; -errno of ibv_modify_qp(): what comes next does not have it.
 */
int mesh_live_change(struct mesh_held *h, const struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_live_quiesce - post no more atomics until mesh_live_fence() or mesh_live_release()
 *
 * What the program posts behind one waits, too. Where the last one outstanding is unsignaled, with nothing signaled behind it, nothing
 * waits before the program has posted something that is: else nobody would ever know that it is done.
 *
 * Return: whether none is outstanding. If some are, to be called again: what was posted past us meanwhile counts, too.
 */
bool mesh_live_quiesce(struct mesh_held *h);

/**
 * mesh_live_fence - bring what does the work to ERR, have all that it flushes, read how far it came
 * @first: begin; else go on
 *
 * Does not wait: of hundreds of QPs the device flushes all at the same time.
 *
 * Return: 0; -EAGAIN: not all is flushed, call again soon; -EOPNOTSUPP: see mesh_live_lost(), or it was ended otherwise;
 * -ETIMEDOUT: not all was flushed; -errno of the verbs.
 */
int mesh_live_fence(struct mesh_held *h, bool first, struct mv_move_sync *ret);

/**
 * mesh_live_last_word - the program takes it away during a move: how far did it come?
 *
 * Whether the fence has begun or not. Only mesh_held_destroy() or mesh_held_modify() to ERR may follow: it does no work any more. Waits as
 * those do for a fence, and for one that it begins 100 ms at most. conn->lock, and no other.
 *
 * Return: 0; -errno: that cannot be known.
 */
int mesh_live_last_word(struct mesh_held *h, struct mv_move_sync *ret);

/**
 * mesh_live_replay - go on
 * @next_psn, @n_received: of the peer's fenced QP
 * @max_rd_atomic: as the program set it
 * @keys: remote ones that need not be asked for on the next QP; NULL: none
 *
 * What the peer executed completes, the rest is posted to the next QP, and so is what waited and all that comes. Should
 * there be an atomic whose result is lost, it fails there in its turn, and all behind it, as they would have without us;
 * mesh_live_lost() says so.
 *
 * Return: 0; -EPROTO, -ERANGE, -EOPNOTSUPP, -ENOMEM: the caller surfaces.
 */
int mesh_live_replay(struct mesh_held *h, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic,
		     const struct mesh_live_keys *keys);

/**
 * mesh_live_remote_keys - what keys of the peer will be needed, as far as can be told by the oldest work that is outstanding
 * @ret: the program's, all different
 *
 * After mesh_live_prepare(), and before the fence. Return: how many.
 */
size_t mesh_live_remote_keys(struct mesh_held *h, uint32_t ret[MESH_LIVE_KEYS]);

/**
 * mesh_live_past_keys - add those that it has used last
 * @n: of @ret that are there already
 *
 * They say whether the peer's keys can be had on another NIC. Of what is not read from mlx5's queue there are none. Return: how many.
 */
size_t mesh_live_past_keys(struct mesh_held *h, uint32_t ret[MESH_LIVE_KEYS], size_t n);

/**
 * mesh_live_check_keys - are the local keys of its work such as can be had on another NIC?
 *
 * If not, mesh_pd_stay(): mesh_live_lost() says so. Of what is outstanding, and of what was posted last as far as it is still there to be
 * read. After mesh_live_prepare(): what is posted from then on passes by.
 */
void mesh_live_check_keys(struct mesh_held *h);

/** mesh_live_reap - the QP that did the work before the last move goes, if it was one of ours; when there is time */
void mesh_live_reap(struct mesh_held *h);

/** mesh_live_surface - the program gets every error that was kept from it, and the QP fails from now on */
void mesh_live_surface(struct mesh_held *h);
/**
 * mesh_live_wake - whoever waits for completion events gets one, if that could not be had when there were errors to give
 *
 * Return: whether that is done; else it is to be tried again. Costs nothing where there is nothing to do.
 */
bool mesh_live_wake(struct mesh_held *h);
/**
 * mesh_live_goes_on - the QP that does the work is in ERR: does the program not know of it, and may never have to?
 *
 * Not so when the program has brought it there, or has been given an error. What has not been polled yet is looked at, for which its
 * CQs are frozen, unless the caller is polling them. A thread of the program, with conn->lock.
 */
bool mesh_live_goes_on(struct mesh_held *h);

/**
 * mesh_live_alone - go on where the next one is, though the peer has not told how far it came, and will not
 *
 * Nothing of the program's sends is outstanding, so there is nothing to be told. Its receives wait there, and it is in RTS, as if the
 * peer had gone while nothing moved. It is not moved any more.
 *
 * Return: 0: as mesh_live_replay(); -EBUSY: something is outstanding, or waits; -errno: mesh_live_replay(). Then mesh_live_surface() is next.
 */
int mesh_live_alone(struct mesh_held *h);

/**
 * mesh_live_end_of_peer - its QP is gone: what fails from now on is for the program to see; NULL is fine
 *
 * Not of one that is being fenced, or is: what that flushes is kept. Once more after mesh_live_replay().
 */
void mesh_live_end_of_peer(struct mesh_held *h);

/** mesh_live_broken - is the QP that does the work in ERR, and the program does not know? */
bool mesh_live_broken(struct mesh_held *h);
/** mesh_live_got_through - has the peer acknowledged anything to the QP that does the work? True of the base's own, of which that is not noted */
bool mesh_live_got_through(struct mesh_held *h);
/** mesh_live_sends - is the one that was moved to in RTS? */
bool mesh_live_sends(struct mesh_held *h);

/** mesh_live_release - the QP that would have come next goes, and atomics are posted again */
void mesh_live_release(struct mesh_held *h);

/**
 * mesh_live_waits - does anything wait that its QP of the base could do, had not somebody its lock? It is posted if nobody has any more
 *
 * That was a batch, whose end posts it, or a post, whose end does not. Any thread.
 */
bool mesh_live_waits(struct mesh_held *h);

/** mesh_live_is_failing - is the result of an atomic lost, and its completion has not come yet? Any thread */
bool mesh_live_is_failing(struct mesh_held *h);
/**
 * mesh_live_waits_to_fail - the same, and what fails may not have been posted yet, because something before it is not done
 *
 * That it is done shows in a CQ that the program may have no reason to look at, so it is looked at here, as for a fence. conn->lock.
 */
bool mesh_live_waits_to_fail(struct mesh_held *h);
/** mesh_live_has_done_all - has the one that was moved to nothing outstanding, as far as is known? Any thread */
bool mesh_live_has_done_all(struct mesh_held *h);

#endif
