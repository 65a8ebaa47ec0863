/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQRECORD_H
#define MESH_SRQRECORD_H

#include "context.h"
#include "rails.h"
#include "srqlog.h"

/* Record of an SRQ of the program. srq.h describes what is done with it, and the order of locks. */

struct mesh_srq;

struct mesh_rail_srq {
	struct mesh_rail_srq *next; /* lock, as the others unless noted otherwise */
	struct mesh_srq *owner; /* constant */
	struct mesh_rail *rail; /* constant; NULL: the program's own SRQ */
	struct mesh_pd *spd; /* twin of the SRQ's PD; NULL: lower provider */
	struct ibv_srq *srq; /* constant while there are QPs */
	unsigned int n_qps; /* that receive from it */
	unsigned int n_attached; /* QPs that exist: n_qps, and QPs in ERR that have left. The lower provider's are not counted */
	bool stale; /* its SRQ has receives that count as elsewhere */
	bool had_none; /* had no receive when receives were last distributed: served first */
	struct mesh_srqlog log; /* receives here that were not polled; of the lower provider before the first move: also polled ones */
};

/* A QP of the lower provider that receives from the SRQ. join_lock. */
struct mesh_srq_own_qp {
	struct mesh_srq_own_qp *next;
	struct mesh_srq *owner;
	struct ibv_qp *qp; /* not to be dereferenced while it is leaving */
	uint32_t qpn;
	bool stays; /* it cannot move */
	struct mesh_cq *cq; /* CQ that counts its receives; NULL: not counted yet */
};

struct mesh_srq {
	struct mesh_context *mc; /* constant, as the next four */
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	uint32_t max_wr, max_sge;

	/* process->srqs.lock: */
	unsigned int refs; /* the map has one */
	struct mesh_srq *next_starved;

	MESH_LOCK(SRQ_JOIN) join_lock; /* serialises everything but posting and polling */
	bool dead; /* the lower provider's SRQ is destroyed; join_lock */
	struct mesh_srq_own_qp *own_qps;
	bool was_own; /* a QP of the lower provider was connected, and consumed receives that were not counted */
	unsigned int n_staying; /* own_qps that cannot move */

	MESH_LOCK(SRQ) lock;
	bool split; /* receives may be at several rail SRQs */
	struct mesh_rail_srq lower, *shadows;
	struct mesh_rail_srq reserve; /* no SRQ; n_qps is 1 while there is to be a reserve */
	struct mesh_srqlog pool; /* receives on no rail */
	uint32_t n_withheld; /* receives in no log: mesh_srq_withhold() */
	/*
	 * Receives that the lower provider's log had at the first move, and its SRQ did not: consumed, or being filled
	 * by QPs of the lower provider. They are not counted. If one of them fails and is withheld, its entry is found
	 * here. Entries of consumed receives stay; a reused wr_id is found in a rail SRQ's log first. Not allocated
	 * before that move.
	 */
	struct mesh_srqlog begun;
	bool said_full; /* the log has the line that a receive did not fit */
	struct ibv_sge *sges; /* scratch for translated SGEs, max_sge */
	bool is_starved; /* queued for the helper thread, or in its hands */
	uint64_t rebalance_at_ns, rebalance_step_ns; /* next redistribution, and its interval; 0: at once */
};

static inline uint32_t mesh_srq_size(const struct mesh_rail_srq *rail_srq)
{
	return rail_srq->owner->max_wr;
}

static inline struct mesh_srq *mesh_srq_find(struct mesh_context *mc, const struct ibv_srq *srq)
{
	return srq ? mesh_map_get(&mc->data.srqs, srq) : NULL;
}

#endif
