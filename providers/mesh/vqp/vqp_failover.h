/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_VQP_FAILOVER_H
#define MESH_VQP_FAILOVER_H

#include "move.h"
#include "vqp.h"

/*
 * Moves of a queue pair at work. Its log (wr_tracker.h) holds the work that has to be done again on the next QP.
 *
 *   RTR      mesh_failover_track()         the program's own QP does the work, which is logged; a moved QP has a log
 *                                          from mesh_vqp_new() on
 *   RTS      mesh_failover_lower_rts()
 *   a move   mesh_failover_prepare(),
 *            mesh_failover_connect()       makes the next QP, on the agreed rail
 *            mesh_failover_quiesce()       if the path works: waits for outstanding atomics, and holds new ones back
 *            mesh_failover_drain()         brings the QP at work to ERR and drains it; posts the receives to the next QP
 *            mesh_failover_replay()        the peer has said how far it came: posts the remaining work again, and work
 *                                          goes on
 *         or mesh_failover_flush_errors()  the move failed: the program gets its errors
 *         or mesh_failover_release()       the move was called off before the drain
 *
 * Thread, unless a function says otherwise: helper thread or a worker, with conn->lock held. mesh_failover_track(),
 * mesh_failover_untrack() and mesh_failover_lower_rts(): the program's thread, with conn->lock held.
 */

/**
 * mesh_failover_track - log the work of the program's own QP
 * @qp: RC, in INIT, its receives recorded (mesh_recvlog_begin())
 * @mtu_bytes: of its path
 *
 * Return: 0; -ENOMEM; -EOPNOTSUPP: a kind of QP or CQ that cannot be moved later, or moves are switched off; -EBUSY: see
 * mesh_vqp_why_busy(). On failure the receives are not recorded any more.
 */
int mesh_failover_track(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
			uint32_t mtu_bytes, struct mesh_vqp **ret);

/**
 * mesh_failover_untrack - the QP could not be brought to RTR: record its receives as before. The caller must not use @h
 * any more.
 */
void mesh_failover_untrack(struct mesh_vqp *h);

/** mesh_failover_lower_rts - the program brings its own QP to RTS. Return: as mc->lower.qp.modify_qp(). */
int mesh_failover_lower_rts(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_failover_arm - make the standby: a QP in INIT for the next move
 *
 * mesh_failover_prepare() takes the standby if it fits. Memory for the log is allocated as well, if it is little
 * (mesh_walker_reserve()).
 *
 * Return: 0; -EBUSY: there is a standby; -EOPNOTSUPP: the QP has an SRQ, or see mesh_failover_lost(); else as
 * mesh_vqp_prepare().
 */
int mesh_failover_arm(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr);
/** mesh_failover_disarm - destroy the standby; before its PD is put */
void mesh_failover_disarm(struct mesh_vqp *h);
/** mesh_failover_armed - QPN of the standby; 0: there is none */
uint32_t mesh_failover_armed(const struct mesh_vqp *h);
/**
 * mesh_failover_standby - connect the standby, as mesh_failover_connect() would; also on a worker
 *
 * May be called again with other attributes. mesh_failover_connect() does what is left to do.
 *
 * Return: 0; -ENOENT: there is no standby; -ENOMEM; -errno of ibv_modify_qp().
 */
int mesh_failover_standby(struct mesh_vqp *h, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts,
			  int rts_mask);
/**
 * mesh_failover_could_take - QPN of the standby that mesh_failover_take_standby() would take
 *
 * Invisible to the program: allocates memory, but resizes no CQ. So taking the standby may still fail if a CQ cannot grow; then
 * no move is possible at all.
 *
 * Return: 0: there is no standby that fits, or it could not be taken.
 */
uint32_t mesh_failover_could_take(struct mesh_vqp *h, const struct mesh_pd *spd, const struct mesh_shadow_attr *attr);
/**
 * mesh_failover_take_standby - mesh_failover_prepare() and mesh_failover_connect() for a standby that is connected
 * already
 *
 * Return: 0; -ENOENT: there is no connected standby; else as mesh_failover_prepare().
 */
int mesh_failover_take_standby(struct mesh_vqp *h);
/** mesh_failover_has_next - has the next QP been made, or the standby been taken? */
bool mesh_failover_has_next(const struct mesh_vqp *h);
/** mesh_failover_on_standby - is the next QP, or else the standby, connected to the peer's QP @peer? */
bool mesh_failover_on_standby(const struct mesh_vqp *h, const struct mv_ctl_end *peer);

/**
 * mesh_failover_prepare - make the next QP, in INIT
 *
 * Also allocates all memory that the move and later work need, so that the move does not fail for lack of memory.
 *
 * Return: 0; -EBUSY: there is a next QP, or mesh_walker_engage(); -EOPNOTSUPP: see mesh_failover_lost(); else as
 * mesh_vqp_prepare().
 */
int mesh_failover_prepare(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
			  uint32_t *ret_qpn);

/** mesh_failover_lost - why the QP cannot move any more, a constant; NULL: it can */
const char *mesh_failover_lost(struct mesh_vqp *h);

/**
 * mesh_failover_connect - bring the next QP to RTR and RTS, unless the standby was connected with the same attributes
 * @rtr, @rts: the program's attributes, fitted to the rail
 * @rts_mask: 0: the program's QP is not in RTS yet
 *
 * If there is no next QP: mesh_failover_standby().
 *
 * Return: 0; -errno of ibv_modify_qp().
 */
int mesh_failover_connect(struct mesh_vqp *h, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts,
			  int rts_mask);

/* Attributes that the program may change in RTS, for RC: remote access flags, and the timeout for RNR NAKs. */
#define MESH_CHANGES (IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER)

/**
 * mesh_failover_change - apply a change by the program to the standby and the next QP, as far as they exist
 * @attr_mask: only the bits of MESH_CHANGES count
 *
 * mesh_vqp_modify() changes the QP at work. The caller remembers the change for QPs that are made later. Thread: the
 * program's.
 *
 * Return: 0; -errno of ibv_modify_qp(): the next QP lacks the change.
 */
int mesh_failover_change(struct mesh_vqp *h, const struct ibv_qp_attr *attr, int attr_mask);

/**
 * mesh_failover_quiesce - hold new atomics back until mesh_failover_drain() or mesh_failover_release()
 *
 * Work that the program posts behind such an atomic waits, too. Exception: the last outstanding atomic is unsignaled, and no
 * signaled work request follows. Then posting goes on until the program has posted a signaled one, whose completion tells that
 * the atomic is done.
 *
 * Return: true: no atomic is outstanding; false: call again. Atomics that the program posted directly to the HCA meanwhile count,
 * too.
 */
bool mesh_failover_quiesce(struct mesh_vqp *h);

/**
 * mesh_failover_drain - bring the QP at work to ERR, drain it, and read how far it came
 * @first: true: begin; false: continue
 *
 * Does not block, so that the device can flush hundreds of QPs at the same time.
 *
 * Return: 0; -EAGAIN: not all work is flushed yet, call again soon; -EOPNOTSUPP: see mesh_failover_lost(), or the
 * program has ended the QP; -ETIMEDOUT: not all work was flushed; -errno of the verbs.
 */
int mesh_failover_drain(struct mesh_vqp *h, bool first, struct mv_move_sync *ret);

/**
 * mesh_failover_last_word - the program ends its QP during a move: read how far the QP came
 *
 * Begins the drain if needed, and waits for its end: up to 100 ms, or as long as the running drain may take. The QP
 * does no work any more: only mesh_vqp_destroy(), or mesh_vqp_modify() to ERR, may follow. Locks: conn->lock, and no
 * other.
 *
 * Return: 0; -errno: not known.
 */
int mesh_failover_last_word(struct mesh_vqp *h, struct mv_move_sync *ret);

/**
 * mesh_failover_replay - the next QP takes over the work
 * @next_psn, @n_received: state of the peer's drained QP: the next PSN that it expects, and its number of receives
 * @max_rd_atomic: as the program set it
 * @keys: remote keys that are known for the next QP already; NULL: none
 *
 * Work that the peer has executed completes. The other work is posted to the next QP, then the sends that waited. If the result
 * of an atomic is lost, that atomic fails on the next QP in its turn, and all work behind it, as on a bare HCA;
 * mesh_failover_lost() says so.
 *
 * Return: 0; -EPROTO, -ERANGE, -EOPNOTSUPP, -ENOMEM: the caller calls mesh_failover_flush_errors().
 */
int mesh_failover_replay(struct mesh_vqp *h, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic,
			 const struct mesh_failover_keys *keys);

/**
 * mesh_failover_remote_keys - collect the remote keys that the oldest outstanding work requests use
 * @ret: the program's rkeys, all different
 *
 * Call between mesh_failover_prepare() and the drain. Return: the number of keys.
 */
size_t mesh_failover_remote_keys(struct mesh_vqp *h, uint32_t ret[MESH_FAILOVER_KEYS]);

/**
 * mesh_failover_past_keys - add the remote keys that the QP used last
 * @n: number of keys in @ret already
 *
 * Those keys show whether the peer's keys can be had on another NIC. Only read from mlx5's queue; other QPs add none. Return: the
 * number of keys.
 */
size_t mesh_failover_past_keys(struct mesh_vqp *h, uint32_t ret[MESH_FAILOVER_KEYS], size_t n);

/**
 * mesh_failover_check_keys - can the local keys of the QP's work be had on another NIC?
 *
 * If not, calls mesh_pd_stay(), and mesh_failover_lost() says so. Checks outstanding work, and recently posted work as
 * far as it can still be read. Call after mesh_failover_prepare(): later posts are checked one by one.
 */
void mesh_failover_check_keys(struct mesh_vqp *h);

/** mesh_failover_reap - destroy the QP of the plugin that did the work before the last move */
void mesh_failover_reap(struct mesh_vqp *h);

/** mesh_failover_flush_errors - the move failed: give the program all withheld errors; the QP fails from now on */
void mesh_failover_flush_errors(struct mesh_vqp *h);
/**
 * mesh_failover_wake - make the completion event for withheld errors, if mesh_failover_flush_errors() could not
 *
 * Cheap where there is nothing to do. Return: true: done; false: try again later.
 */
bool mesh_failover_wake(struct mesh_vqp *h);
/**
 * mesh_failover_goes_on - the QP at work is in ERR: is the program unaware of that, and will a move hide it?
 *
 * False if the program itself brought the QP to ERR, or has got an error. Also collects completions that are not polled yet:
 * freezes the CQs, unless the caller is polling them. Thread: the program's, with conn->lock held.
 */
bool mesh_failover_goes_on(struct mesh_vqp *h);

/**
 * mesh_failover_alone - the next QP takes over the work, though the peer has not said how far it came
 *
 * Only if no send is outstanding, so that the peer's state does not matter. Receives go on in RTS, as if the peer had vanished
 * without a move. The QP does not move again.
 *
 * Return: 0; -EBUSY: work is outstanding, or waits; -errno as mesh_failover_replay(). On failure the caller calls
 * mesh_failover_flush_errors().
 */
int mesh_failover_alone(struct mesh_vqp *h);

/**
 * mesh_failover_end_of_peer - the peer's QP is gone: later errors go to the program; NULL is fine
 *
 * No effect during or after a drain, whose flush errors stay withheld: call again after mesh_failover_replay().
 */
void mesh_failover_end_of_peer(struct mesh_vqp *h);

/** mesh_failover_broken - is the QP at work in ERR without the program's knowledge? */
bool mesh_failover_broken(struct mesh_vqp *h);
/**
 * mesh_failover_got_through - has the peer acknowledged anything to the QP at work? Always true if the program's own QP
 * is read from mlx5's queues.
 */
bool mesh_failover_got_through(struct mesh_vqp *h);
/** mesh_failover_sends - is the QP of the plugin that does the work in RTS? */
bool mesh_failover_sends(struct mesh_vqp *h);

/** mesh_failover_release - destroy the next QP, and post the atomics that waited */
void mesh_failover_release(struct mesh_vqp *h);

/**
 * mesh_failover_waits - do sends for the program's own QP still wait, because another thread had its lock? Posts them
 * if the lock is free.
 *
 * That thread was in a batch, whose end posts the sends, or in a plain post, whose end does not. Thread: any.
 */
bool mesh_failover_waits(struct mesh_vqp *h);

/** mesh_failover_is_failing - is the result of an atomic lost, and has its error not been polled yet? Thread: any. */
bool mesh_failover_is_failing(struct mesh_vqp *h);
/**
 * mesh_failover_waits_to_fail - as mesh_failover_is_failing(), and does the failing work request possibly wait for
 * earlier work?
 *
 * The completion of earlier work may lie in a CQ that the program has no reason to poll, so this function polls that CQ, as a
 * drain does. Locks: conn->lock.
 */
bool mesh_failover_waits_to_fail(struct mesh_vqp *h);
/**
 * mesh_failover_has_done_all - has the QP of the plugin that does the work nothing outstanding, as far as is known?
 * Thread: any.
 */
bool mesh_failover_has_done_all(struct mesh_vqp *h);

#endif
