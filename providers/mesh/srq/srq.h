/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQ_H
#define MESH_SRQ_H

#include "srqrecord.h"

/*
 * Shared receive queues. Any QP of an SRQ may consume any of its receives. Once some of its QPs
 * have moved and others have not, these QPs are on different devices, and each receive has to be on
 * exactly one device.
 *
 * An SRQ's *rail SRQs* have its receives: the program's own SRQ, and a shadow SRQ on each rail that
 * moved QPs use. Receives are logged from the creation of the SRQ on, because the lower provider
 * does not tell what is outstanding when the first QP moves. The cost is a look-up, a lock and a
 * copy per receive, on hosts with an agent.
 *
 * When the set of rail SRQs with QPs changes, all receives are collected, and distributed evenly. A
 * rail SRQ with QPs is collected by consuming its receives: two QPs of the plugin on the same
 * device, one of them on the SRQ, exchange empty messages until no receive is left (srq_drain.c).
 * Afterwards each new receive goes to the rail SRQ with the fewest. A rail SRQ without receives,
 * while others have some, is *starved*: the helper thread then redistributes. With fewer receives
 * than rail SRQs they rotate. Meanwhile peers get RNR NAKs, as when a program posts late.
 *
 * A rail SRQ whose port is down cannot be collected, unless all of its QPs have left. A QP in ERR
 * may leave before the program destroys the QP: mesh_vqp_stop_srq(). So if some QPs of the lower provider can move and others cannot (for example the peer is on
 * this host, or has no agent), a quarter of the receives is kept in a *reserve*: QPs that move
 * begin with these. The reserve gets none before the lower provider has plenty, and gives them back
 * when the lower provider has none.
 *
 * Not supported: IBV_EVENT_SRQ_LIMIT_REACHED, once receives are distributed.
 *
 * Locks, outermost first: join_lock, cq->lock, lock, process->srqs.lock. data->lock comes after
 * lock (collecting makes and destroys a CQ), and vqp->lock after that. So a holder of vqp->lock
 * never takes lock.
 */

/**
 * mesh_srq_join_lower - before a QP of the lower provider goes to RTR: it will receive from its SRQ
 * @stays: the QP cannot move
 *
 * No effect without an SRQ, or if the SRQ is not logged. Return: 0; -ENOMEM; -ETIMEDOUT: no port is up there, so receives that
 * moved QPs have in turn cannot be removed from the lower provider's SRQ; -EBUSY: they cannot be for another reason.
 */
int mesh_srq_join_lower(struct mesh_context *mc, struct ibv_qp *qp, bool stays);
/**
 * mesh_srq_leaving - before the QP is reset or destroyed. It still receives until then.
 *
 * Return: pass it to mesh_srq_left() afterwards; NULL: the QP never joined.
 */
struct mesh_srq_own_qp *mesh_srq_leaving(struct mesh_context *mc, struct ibv_qp *qp);
/** mesh_srq_left - @really: the QP was reset or destroyed; false: that failed. NULL is fine. */
void mesh_srq_left(struct mesh_srq_own_qp *own_qp, bool really);

/**
 * mesh_srq_join_shadow - a moved QP will receive on that rail
 * @later: begin with the receives that can be collected now; the others, perhaps behind a port that is down, come when their QPs
 * have left
 *
 * Return: 0; -ENOMEM; -EBUSY: something else intercepts polls, so consumed receives are not seen; -EHOSTUNREACH: no port of the
 * program's NIC is up, and QPs there have consumed receives that were not counted (with @later, too); -errno of the verbs.
 * While QPs in ERR are attached on @rail, also an error of mesh_srq_drain(): a port of @rail has to be up then. On failure
 * only the distribution of receives may have changed.
 */
int mesh_srq_join_shadow(struct mesh_srq *srq, struct mesh_rail *rail, bool later, struct mesh_rail_srq **ret);
/**
 * mesh_srq_stop_shadow - a QP of mesh_srq_join_shadow() is in ERR, and the completions of all its
 * receives were polled
 *
 * Other QPs get the receives of a rail SRQ whose QPs have all stopped, also while the port there is
 * down.
 */
void mesh_srq_stop_shadow(struct mesh_rail_srq *rail_srq);
/** mesh_srq_leave_shadow - a QP of mesh_srq_join_shadow() is destroyed; @stopped: after mesh_srq_stop_shadow() */
void mesh_srq_leave_shadow(struct mesh_rail_srq *rail_srq, bool stopped);

/**
 * mesh_srq_consumed - the program is about to see a receive of that rail SRQ, done or failed; cq->lock, not vqp->lock.
 * Hot
 */
void mesh_srq_consumed(struct mesh_rail_srq *rail_srq, uint64_t wr_id);
/**
 * mesh_srq_withhold - a receive has failed, and the program does not see that yet
 * @place: of mesh_srq_place(); holds the receive, which is on no rail any more
 *
 * A place holds one receive. No effect if it has one, or if the receive is not known. cq->lock, not vqp->lock.
 */
void mesh_srq_withhold(struct mesh_rail_srq *rail_srq, uint64_t wr_id, struct mesh_srq_recv *place);
/**
 * mesh_srq_end_withheld - the end of mesh_srq_withhold()
 * @place: may be empty, or NULL
 * @shown: true: the program sees the failure; false: post the receive again
 *
 * Any locks may be held but vqp->lock, data->lock, and those after them.
 */
void mesh_srq_end_withheld(struct mesh_srq *srq, struct mesh_srq_recv *place, bool shown);
/**
 * mesh_srq_return - post a receive again that failed without the program's knowledge; locks as for
 * mesh_srq_end_withheld()
 * @rail_srq: where the receive was; no effect if it is not in the log of @rail_srq any more, because it was
 * redistributed
 */
void mesh_srq_return(struct mesh_rail_srq *rail_srq, uint64_t wr_id);
/** mesh_srq_place - an empty place, for free(); NULL: no memory */
struct mesh_srq_recv *mesh_srq_place(const struct mesh_srq *srq);

/** mesh_post_srq_recv - hot: see post.c */
int mesh_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/**
 * mesh_srqs_rebalance - redistribute for starved rail SRQs; helper thread. Return: when to come again, ns; UINT64_MAX:
 * when woken.
 */
uint64_t mesh_srqs_rebalance(uint64_t now_ns);

/**
 * mesh_srq_note - begin to log receives of a new SRQ; called by mesh_create_srq() if there is an agent
 * @attr: as the provider returned it: it may take more than the program asked for
 *
 * Without memory, or if something else intercepts posts or polls, the SRQ is not logged, and its QPs cannot move.
 */
void mesh_srq_note(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_srq *srq, const struct ibv_srq_attr *attr);
/** mesh_srqs_close - free the SRQ records of a context that is being closed */
void mesh_srqs_close(struct mesh_context *mc);

/* srq_drain.c */

/* How to modify, query and destroy QPs of the plugin: on the program's device by the lower provider's functions. */
struct mesh_srq_drain_verbs {
	int (*modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*query)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr);
	int (*destroy)(struct ibv_qp *qp);
};

/**
 * mesh_srq_drain - consume all receives of an SRQ
 * @verbs, @pd: of the SRQ
 * @taken: called for each consumed receive, in the order of posting
 *
 * Takes milliseconds. Return: 0: the SRQ is empty; -EHOSTUNREACH: no QP can be connected to itself there, for example because no
 * port is up; -errno. In any case @taken was called for each consumed receive.
 */
int mesh_srq_drain(struct ibv_context *verbs, struct ibv_pd *pd, struct ibv_srq *srq,
		   const struct mesh_srq_drain_verbs *qps, void (*taken)(void *arg, uint64_t wr_id), void *arg);

/* Verbs entry points. Contracts, errors and thread-safety as in libibverbs. */
struct ibv_srq *mesh_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *mesh_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int mesh_destroy_srq(struct ibv_srq *srq);

#endif
