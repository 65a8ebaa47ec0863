/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQINT_H
#define MESH_SRQINT_H

#include "cqint.h"
#include "srq.h"

/* What the files of SRQs share: srq.c srqshare.c srqjoin.c srqpost.c. */

static inline bool mesh_srq_home_hungry(const struct mesh_srq_home *home)
{
	return home->n_qps && !home->log.n_left;
}

/* srqshare.c; lock */

/** mesh_srq_poorest - the home where the next receive is needed most; NULL: nobody receives */
struct mesh_srq_home *mesh_srq_poorest(struct mesh_srq *m);
/** mesh_srq_post_to - 0 or the provider's errno */
int mesh_srq_post_to(struct mesh_srq_home *home, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/** mesh_srq_deal_out - give the pool to those who receive; what nobody takes stays there */
void mesh_srq_deal_out(struct mesh_srq *m);
/** mesh_srq_reserve_wanted - are receives to be kept back for those who may move? join_lock, too */
bool mesh_srq_reserve_wanted(const struct mesh_srq *m);
/** mesh_srq_hungry - has some home none while another has some? */
bool mesh_srq_hungry(const struct mesh_srq *m);
/** mesh_srq_call_helper - have the helper thread deal out anew; returns whether it is to be woken, without @lock */
bool mesh_srq_call_helper(struct mesh_srq *m);
/** mesh_srq_call_helper_soon - the same in a millisecond, unless it is called already */
bool mesh_srq_call_helper_soon(struct mesh_srq *m);
/**
 * mesh_srq_share - deal out anew because QPs came or went; join_lock, too
 * @was_native: QPs of the base may have consumed what is in the base's log
 * @ret_err: 0, or why something could not be collected; what could has been dealt out. May be NULL
 *
 * Return: whether the helper thread is to be woken, without @lock.
 */
bool mesh_srq_share(struct mesh_srq *m, bool was_native, int *ret_err);

/**
 * mesh_srq_unstale - take out of the base's SRQ what counts as being elsewhere; before a QP of the base receives from it
 *
 * Return: 0; -EHOSTUNREACH: no port is up; as mesh_srqloop_drain(). Where receives are does not change: dealt out to a home that
 * nobody may join, they would be lost.
 */
int mesh_srq_unstale(struct mesh_srq *m);

/** mesh_srq_home_free - srqjoin.c; nobody receives there any more */
void mesh_srq_home_free(struct mesh_srq_home *home);
/** mesh_srq_put - srq.c; one reference less */
void mesh_srq_put(struct mesh_srq *m);

#endif
