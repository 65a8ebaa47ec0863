/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQ_H
#define MESH_SRQ_H

#include "srqrecord.h"

/*
 * Shared receive queues. Each receive that the program posts to one may be consumed by any QP of it; once some of its
 * QPs are moved and others not, those are on different devices, and every receive has to be at exactly one of them.
 *
 * The places where receives can be are the SRQ's *homes*: the base's own, and a shadow SRQ on each rail that moved QPs of it
 * use. From the creation of an SRQ on, what is posted to it is noted down: the price is a look-up, a
 * lock and a copy for each receive, on hosts that have an agent; without it, nobody would know what is outstanding
 * when the first QP moves, because the base does not tell.
 *
 * Whenever the set of homes that have QPs changes, all receives are collected and dealt out evenly. From a home
 * that has QPs they are collected by having them consumed: a QP of our own on the same SRQ is sent empty messages by
 * another until there is no receive left (srqloop.c). After that each new one goes to the home with the fewest. A home
 * that has none left while others have some is *hungry*, and the helper thread deals out anew; with fewer receives than
 * homes they go round. Meanwhile peers are told that the receiver is not ready, as they are when a program posts late.
 *
 * What is at a home whose port is down cannot be collected, unless all QPs have left it. So where some QPs of the base could move and
 * others could not (their peer is on this host, or has no agent), a quarter of the receives is kept back in a *reserve*: it is
 * what those who move begin with. It takes none before the base has plenty, and gives them when the base runs out.
 *
 * Not done: IBV_EVENT_SRQ_LIMIT_REACHED, once receives are elsewhere.
 *
 * Locks, outermost first: join_lock, cq->lock, lock, process->srqs_lock. Behind lock there is data->lock, too (collecting makes and
 * destroys a CQ), and behind that held->lock: so who has held->lock never takes lock.
 */

/**
 * mesh_srq_join_base - before a QP of the base goes to RTR: it will receive from its SRQ
 *
 * @stays: it cannot move
 *
 * Harmless for a QP without an SRQ, or with one that is not noted. Return: 0; -ENOMEM; -ETIMEDOUT: no port there is up, and
 * without one the receives that moved QPs have in their turn cannot be taken out of the base's SRQ; -EBUSY: they cannot for
 * another reason.
 */
int mesh_srq_join_base(struct mesh_context *mc, struct ibv_qp *qp, bool stays);
/**
 * mesh_srq_leaving - before it is reset or destroyed
 *
 * Until it is, it still receives. Return: to be given to mesh_srq_left() after that; NULL if it never joined.
 */
struct mesh_srq_native *mesh_srq_leaving(struct mesh_context *mc, struct ibv_qp *qp);
/** mesh_srq_left - @really: it was reset or destroyed; false: that failed. NULL is fine. */
void mesh_srq_left(struct mesh_srq_native *native, bool really);

/**
 * mesh_srq_join_shadow - a moved QP will receive on that rail
 * @later: it will do with what can be had now, and with the rest when the others have left: their port may be down
 *
 * Return: 0; -ENOMEM; -EBUSY: something else intercepts polls, so what others consume is not seen; what the verbs say; then nothing has
 * changed, but where receives are.
 */
int mesh_srq_join_shadow(struct mesh_srq *srq, struct mesh_rail *rail, bool later, struct mesh_srq_home **ret);
/** mesh_srq_leave_shadow - that QP is gone */
void mesh_srq_leave_shadow(struct mesh_srq_home *home);

/** mesh_srq_consumed - a receive of that home is being shown to the program, done or failed; cq->lock, not held->lock. Hot */
void mesh_srq_consumed(struct mesh_srq_home *home, uint64_t wr_id);
/**
 * mesh_srq_keep - one has failed, and the program is not shown that, yet
 * @place: of mesh_srq_place(); where it is from now on, and at no home
 *
 * A place takes one; if it has one, or that receive is not known, nothing happens. cq->lock, not held->lock.
 */
void mesh_srq_keep(struct mesh_srq_home *home, uint64_t wr_id, struct mesh_srq_recv *place);
/**
 * mesh_srq_unkeep - what becomes of it: the program is being shown it, or it is posted again, to whom it is needed most
 *
 * @place: may be empty, or NULL. Any locks but held->lock, data->lock and those behind it.
 */
void mesh_srq_unkeep(struct mesh_srq *srq, struct mesh_srq_recv *place, bool shown);
/**
 * mesh_srq_return - post a receive again that failed without the program's being told; locks as for mesh_srq_unkeep()
 * @home: where it was; a receive that is not in the log of @home has been dealt out since, and nothing happens
 */
void mesh_srq_return(struct mesh_srq_home *home, uint64_t wr_id);
/** mesh_srq_place - an empty one, for free(); NULL: no memory */
struct mesh_srq_recv *mesh_srq_place(const struct mesh_srq *srq);

/** mesh_post_srq_recv - hot: see post.c */
int mesh_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/** mesh_srqs_feed - deal out for hungry ones; helper thread. Return: when to come again (ns), UINT64_MAX: when woken */
uint64_t mesh_srqs_feed(uint64_t now_ns);

/**
 * mesh_srq_note - note down what is posted to a new SRQ of the program; mesh_create_srq() does so if there is an agent
 * @attr: as the provider filled it: it takes more than the program asked for
 *
 * Without memory, or where something else intercepts what is posted or polled, it is not noted, and its QPs stay where they are.
 */
void mesh_srq_note(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_srq *srq, const struct ibv_srq_attr *attr);
/** mesh_srqs_close - a context is being closed */
void mesh_srqs_close(struct mesh_context *mc);

/* srqloop.c */

/* How QPs of our own are modified and destroyed: on the base's device not by our own functions. */
struct mesh_srqloop_verbs {
	int (*modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*query)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr);
	int (*destroy)(struct ibv_qp *qp);
};

/**
 * mesh_srqloop_drain - consume all receives of an SRQ
 * @verbs, @pd: where it is
 * @taken: called for each, in the order they were posted
 *
 * Takes milliseconds. Return: 0: it is empty now; -EHOSTUNREACH: no QP there can be connected to itself; -errno. In any case
 * @taken was called for every one that is not there any more.
 */
int mesh_srqloop_drain(struct ibv_context *verbs, struct ibv_pd *pd, struct ibv_srq *srq,
		       const struct mesh_srqloop_verbs *qps, void (*taken)(void *arg, uint64_t wr_id), void *arg);

/* Verbs entry points. Contracts are those of libibverbs. */
struct ibv_srq *mesh_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *mesh_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int mesh_destroy_srq(struct ibv_srq *srq);

#endif
