/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_QPMADE_H
#define MESH_QPMADE_H

#include "context.h"

/*
 * What the program has made its RC queue pairs with, as far as ibv_query_qp() does not say it: the next queue pair of a connection is made
 * the same, or the connection stays (docs/parity.md). From ibv_create_qp() to ibv_destroy_qp().
 *
 * One that was made past libibverbs (mlx5dv_create_qp()) has no such record, and stays: its creation flags are not known.
 */

struct mesh_qp_made;

/**
 * mesh_qp_stays - why connections of this queue pair stay where they are; NULL: they may go; a constant
 *
 * Behind mesh_mlx5_is_base(). Any thread, while the queue pair is there; takes no lock but an innermost one.
 */
const char *mesh_qp_stays(struct mesh_context *mc, const struct ibv_qp *qp);

/** mesh_qp_stay - from now on it stays, if it did not; @why: a constant */
void mesh_qp_stay(struct mesh_context *mc, const struct ibv_qp *qp, const char *why);

/* The options of enhanced connection establishment that a program believes in. */
struct mesh_qp_ece {
	struct ibv_ece ece; /* options 0: none */
	bool told; /* it has asked what became of what it set, and that is the answer; else it is what it set */
};

/** mesh_qp_note_ece - @ece: NULL: it has been reset, and has none */
void mesh_qp_note_ece(struct mesh_context *mc, const struct ibv_qp *qp, const struct mesh_qp_ece *ece);
/** mesh_qp_ece - what was noted last. Return: whether it has set any */
bool mesh_qp_ece(struct mesh_context *mc, const struct ibv_qp *qp, struct mesh_qp_ece *ret);

/** mesh_qp_take - the queue pair is about to be destroyed: its record, which is to be given to mesh_qp_taken(); NULL: it has none */
struct mesh_qp_made *mesh_qp_take(struct mesh_context *mc, const struct ibv_qp *qp);
/** mesh_qp_taken - @gone: whether it has been destroyed */
void mesh_qp_taken(struct mesh_context *mc, struct mesh_qp_made *made, bool gone);
/** mesh_qps_forget - all of them; the context is being closed */
void mesh_qps_forget(struct mesh_context *mc);

/* In place of the lower provider's. Contracts are those of libibverbs. */
struct ibv_qp *mesh_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int mesh_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int mesh_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
struct ibv_qp *mesh_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

#endif
