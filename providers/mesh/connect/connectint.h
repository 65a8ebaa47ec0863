/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNECTINT_H
#define MESH_CONNECTINT_H

#include <errno.h>

#include "connect.h"
#include "paths.h"

/* Shared by modify.c connect.c decide.c query.c end.c. Thread: any of the program's. */

/** mesh_conn_taken - does the plugin handle the work and the states of this connection? conn->lock */
static inline bool mesh_conn_taken(const struct mesh_conn *conn)
{
	return conn->vqp && conn->state != MESH_CONN_PASSTHROUGH;
}

/**
 * mesh_conn_refuse - fail a transition that the kernel would refuse, where the program's own QP cannot be asked. Return: EINVAL,
 * also in errno.
 */
static inline int mesh_conn_refuse(void)
{
	errno = EINVAL;
	return EINVAL;
}

/*
 * mesh_mask_is - does an attribute mask have all needed, and no other than possible bits? As ib_modify_qp_is_ok() of the kernel,
 * for RC. Used where the lower provider is not asked, or not yet.
 */
static inline bool mesh_mask_is(int mask, int needed, int possible)
{
	return (mask & needed) == needed && !(mask & ~(needed | possible));
}

/** mesh_is_rtr - may a QP in INIT go to RTR with this mask? */
static inline bool mesh_is_rtr(int mask)
{
	return mesh_mask_is(mask,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			    IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
}

/** mesh_is_rts - may a QP in RTR go to RTS with this mask? @attr: for cur_qp_state, if @mask has IBV_QP_CUR_STATE */
static inline bool mesh_is_rts(const struct ibv_qp_attr *attr, int mask)
{
	return mesh_mask_is(mask,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC,
			    IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE) &&
	       (!(mask & IBV_QP_CUR_STATE) || attr->cur_qp_state == IBV_QPS_RTR);
}

/** mesh_qp_to_rtr - connect.c: modify to RTR, with an address vector; takes conn->lock. Return: as mc->lower.qp.modify_qp(). */
int mesh_qp_to_rtr(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

/**
 * mesh_decide_rtr - decide.c: find the source GID index that fits, and find out whether the path works
 * @refused: the lower provider has refused RTR, so no host without an agent is reachable there
 * @choice: written
 * @decision: written; MV_PATH_UNKNOWN where nothing is known, also where the route could not be looked up
 */
void mesh_decide_rtr(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, bool refused,
		     struct mesh_choice *choice, struct mesh_path_decision *decision);
/**
 * mesh_decide_needs_agreement - must both ends agree on a path, because the asked path does not work, or only the peer
 * knows?
 */
bool mesh_decide_needs_agreement(const struct mesh_path_decision *decision);
/** mesh_decide_cannot_move - why a connection whose path does not work cannot use another path; NULL: it can */
const char *mesh_decide_cannot_move(struct mesh_context *mc, const struct mesh_conn *conn, uint32_t qpn,
				    const struct mesh_path_decision *decision);
/**
 * mesh_decide_why_no_rail - can this process open a NIC on one of the paths that the connection could take?
 * @why: written if not; @why_size: 256 is enough
 *
 * Opens the NIC and makes the protection domain there, if missing, so that a failure shows before the program is told that it is
 * connected. Takes milliseconds the first time in a process. No lock of the plugin is held. MV_PATH_ASK needs no other NIC.
 *
 * Return: @why; NULL: it can.
 */
const char *mesh_decide_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp,
				    const struct mesh_path_decision *decision, char *why, size_t why_size);
/** mesh_decide_bound_by - why the connection cannot move later; NULL: it can; conn->lock */
const char *mesh_decide_bound_by(const struct mesh_conn *conn, const struct mesh_choice *choice,
				 const struct ibv_qp_attr *attr, const struct mesh_path_decision *decision);

/** mesh_lower_modify - end.c: mc->lower.qp.modify_qp(); polls know of a RESET meanwhile (mesh_cq_removal_begin()). QP of any type */
int mesh_lower_modify(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
/**
 * mesh_qp_to_reset - end.c: modify_qp to RESET
 * @conn: may be NULL; its lock is taken
 *
 * Return: as mc->lower.qp.modify_qp().
 */
int mesh_qp_to_reset(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

#endif
