/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQRECORD_H
#define MESH_SRQRECORD_H

#include "context.h"
#include "rails.h"
#include "srqlog.h"

/* An SRQ of the program, as the plugin keeps it; srq.h has what is done with it, and the order of locks. */

struct mesh_srq;

struct mesh_srq_home {
	struct mesh_srq_home *next; /* as the others, but for what says otherwise, under lock */
	struct mesh_srq *owner; /* constant */
	struct mesh_rail *rail; /* constant; NULL: the base */
	struct mesh_pd *spd; /* counterpart of the SRQ's PD; NULL: the base */
	struct ibv_srq *srq; /* constant while there are QPs */
	unsigned int n_qps; /* that receive from it */
	bool had_none; /* when it was last dealt out: it comes first now */
	struct mesh_srqlog log; /* what is there and was not polled; base, before the first move: and what was */
};

/* A QP of the base that receives from the SRQ. Under join_lock. */
struct mesh_srq_native {
	struct mesh_srq_native *next;
	struct mesh_srq *owner;
	struct ibv_qp *qp; /* not to be followed any more while it is leaving */
	uint32_t qpn;
	bool stays; /* it cannot move, whatever happens to its port */
	struct mesh_cq *cq; /* where its completions are counted; NULL: not yet */
};

struct mesh_srq {
	struct mesh_context *mc; /* constant, as are the next four */
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	uint32_t max_wr, max_sge;

	/* process->srqs_lock: */
	unsigned int refs; /* one is the map's */
	struct mesh_srq *next_hungry;

	MESH_LOCK(SRQ_JOIN) join_lock; /* serialises everything but posting and polling */
	bool dead; /* the base's is gone; join_lock */
	struct mesh_srq_native *natives;
	bool was_native; /* some QP of the base has been connected, and what it consumed was not counted */
	unsigned int n_staying; /* of the natives */

	MESH_LOCK(SRQ) lock;
	bool split; /* receives may be elsewhere than at the base */
	bool stale; /* the base's SRQ has receives that count as being elsewhere */
	struct mesh_srq_home base, *shadows;
	struct mesh_srq_home reserve; /* no SRQ; n_qps: 1 while it is wanted */
	struct mesh_srqlog pool; /* receives that are at no home now */
	uint32_t n_kept; /* that are in nobody's log: mesh_srq_keep() */
	/*
	 * What the base's log had at the first move and its SRQ had not: consumed, or what QPs of the base were filling. Nobody counts these;
	 * but if one of them fails and is kept, it is known what it was. What else becomes of them is not looked at: who has the same number
	 * later is in a home's log, which comes first. No room before that.
	 */
	struct mesh_srqlog begun;
	struct ibv_sge *sges; /* max_sge: translated */
	bool is_hungry; /* queued for the helper thread, or it is at it */
	uint64_t feed_at_ns, feed_step_ns; /* 0: at once */
};

static inline uint32_t mesh_srq_size(const struct mesh_srq_home *home)
{
	return home->owner->max_wr;
}

static inline struct mesh_srq *mesh_srq_find(struct mesh_context *mc, const struct ibv_srq *srq)
{
	return srq ? mesh_map_get(&mc->data.srqs, srq) : NULL;
}

#endif
