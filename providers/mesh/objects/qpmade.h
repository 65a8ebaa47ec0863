/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_QPMADE_H
#define MESH_QPMADE_H

#include "context.h"

/*
 * How the program made its RC queue pairs, as far as ibv_query_qp() does not tell. The next queue pair of a connection is made
 * the same way, or the connection cannot move (docs/parity.md). Kept from ibv_create_qp() to ibv_destroy_qp().
 *
 * A queue pair made without libibverbs (mlx5dv_create_qp()) has no record, and cannot move, because its creation flags are not
 * known.
 */

struct mesh_qp_made;

/**
 * mesh_qp_stays - why this queue pair cannot move, a constant; NULL: it can
 *
 * After mesh_mlx5_is_lower(). Any thread, while the queue pair exists. Takes an innermost lock only.
 */
const char *mesh_qp_stays(struct mesh_context *mc, const struct ibv_qp *qp);

/** mesh_qp_stay - the queue pair cannot move from now on; @why: a constant */
void mesh_qp_stay(struct mesh_context *mc, const struct ibv_qp *qp, const char *why);

/* ECE options (enhanced connection establishment) as the program knows them. */
struct mesh_qp_ece {
	struct ibv_ece ece; /* options 0: none */
	bool told; /* the answer to the program's query; otherwise the options that it set */
};

/** mesh_qp_note_ece - note the options; @ece: NULL: the QP was reset, and has none */
void mesh_qp_note_ece(struct mesh_context *mc, const struct ibv_qp *qp, const struct mesh_qp_ece *ece);
/** mesh_qp_ece - the noted options. Return: has the program set any? */
bool mesh_qp_ece(struct mesh_context *mc, const struct ibv_qp *qp, struct mesh_qp_ece *ret);

/** mesh_qp_take - take the record of a queue pair that will be destroyed, for mesh_qp_taken(); NULL: none */
struct mesh_qp_made *mesh_qp_take(struct mesh_context *mc, const struct ibv_qp *qp);
/** mesh_qp_taken - @gone: the queue pair was destroyed; false: put the record back */
void mesh_qp_taken(struct mesh_context *mc, struct mesh_qp_made *made, bool gone);
/** mesh_qps_forget - free all records of a context that is being closed */
void mesh_qps_forget(struct mesh_context *mc);

/* Verbs entry points. Contracts, errors and thread-safety as in libibverbs. */
struct ibv_qp *mesh_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int mesh_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int mesh_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
struct ibv_qp *mesh_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

#endif
