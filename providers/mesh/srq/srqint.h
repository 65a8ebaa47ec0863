/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQINT_H
#define MESH_SRQINT_H

#include "cqint.h"
#include "srq.h"

/* Shared by srq.c srq_rebalance.c srqjoin.c srqpost.c. */

static inline bool mesh_rail_srq_starved(const struct mesh_rail_srq *rail_srq)
{
	return rail_srq->n_qps && !rail_srq->log.n_left;
}

/* srq_rebalance.c. Locks: lock. */

/** mesh_srq_emptiest - the rail SRQ that gets the next receive; NULL: no rail SRQ has QPs */
struct mesh_rail_srq *mesh_srq_emptiest(struct mesh_srq *m);
/** mesh_srq_post_to - post a receive to a rail SRQ. Return: 0, or the provider's errno. */
int mesh_srq_post_to(struct mesh_rail_srq *rail_srq, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/** mesh_srq_distribute - distribute the pool to rail SRQs with QPs; receives that no rail SRQ takes stay in the pool */
void mesh_srq_distribute(struct mesh_srq *m);
/** mesh_srq_reserve_wanted - should there be a reserve for QPs that may move? join_lock, too */
bool mesh_srq_reserve_wanted(const struct mesh_srq *m);
/** mesh_srq_starved - has one rail SRQ with QPs no receive, while another has some? */
bool mesh_srq_starved(const struct mesh_srq *m);
/** mesh_srq_call_helper - have the helper thread redistribute. Return: wake the helper thread, after releasing @lock. */
bool mesh_srq_call_helper(struct mesh_srq *m);
/** mesh_srq_call_helper_soon - the same after a millisecond, unless it was called already */
bool mesh_srq_call_helper_soon(struct mesh_srq *m);
/**
 * mesh_srq_rebalance - redistribute, because QPs came or went; join_lock, too
 * @ret_err: written: 0, or why some receives could not be collected. The others were distributed, or all receives are
 * at the lower provider as before (split is false). May be NULL
 *
 * Return: wake the helper thread, after releasing @lock.
 */
bool mesh_srq_rebalance(struct mesh_srq *m, int *ret_err);

/**
 * mesh_rail_srq_unstale - remove receives that count as elsewhere from a rail SRQ without QPs,
 * before a QP receives from it
 *
 * Does not redistribute: receives given to a rail SRQ without QPs would be lost.
 *
 * Return: 0; -EHOSTUNREACH: no port is up; else as mesh_srq_drain().
 */
int mesh_rail_srq_unstale(struct mesh_rail_srq *rail_srq);

/** mesh_rail_srq_close - destroy the device's SRQ, to which no QP is attached. srq_rebalance.c; lock */
void mesh_rail_srq_close(struct mesh_rail_srq *rail_srq);
/** mesh_rail_srq_free - srqjoin.c; free a rail SRQ without QPs */
void mesh_rail_srq_free(struct mesh_rail_srq *rail_srq);
/** mesh_srq_put - srq.c; put a reference */
void mesh_srq_put(struct mesh_srq *m);

#endif
