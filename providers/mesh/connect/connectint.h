/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNECTINT_H
#define MESH_CONNECTINT_H

#include <errno.h>

#include "connect.h"
#include "paths.h"

/* What the files of the program's queue pairs share: modify.c connect.c judge.c query.c end.c. Any thread of the program's. */

/** mesh_conn_taken - is the work of this connection ours to handle? Called with conn->lock held. */
static inline bool mesh_conn_taken(const struct mesh_conn *conn)
{
	return conn->held && conn->state != MESH_CONN_NATIVE;
}

/** mesh_conn_refuse - say what the kernel says of a transition that there is not, which the base's QP cannot be asked for; EINVAL */
static inline int mesh_conn_refuse(void)
{
	errno = EINVAL;
	return EINVAL;
}

/*
 * What the kernel wants to be told of an RC queue pair, no less, and what it may be told besides: ib_modify_qp_is_ok(). Where the base
 * is not asked, or not yet, the rest is refused as the kernel would.
 */
static inline bool mesh_mask_is(int mask, int needed, int possible)
{
	return (mask & needed) == needed && !(mask & ~(needed | possible));
}

/** mesh_is_rtr - is the mask one with which a queue pair in INIT can go to RTR? */
static inline bool mesh_is_rtr(int mask)
{
	return mesh_mask_is(mask,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			    IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
}

/** mesh_is_rts - the same of one in RTR that is to go to RTS; @attr: its state, as the program says, if @mask has that */
static inline bool mesh_is_rts(const struct ibv_qp_attr *attr, int mask)
{
	return mesh_mask_is(mask,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC,
			    IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE) &&
	       (!(mask & IBV_QP_CUR_STATE) || attr->cur_qp_state == IBV_QPS_RTR);
}

/** mesh_qp_to_rtr - connect.c: modify_qp to RTR, with an address vector; takes conn->lock. Return: what mc->modify_qp() does. */
int mesh_qp_to_rtr(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

/**
 * mesh_judge_rtr - judge.c: the source GID index that fits what the program asks for, and whether there is a path
 * @refused: the base has refused it: there is nobody without an agent whom it could have reached
 * @choice: filled
 * @view: filled; MV_PATH_UNKNOWN where nothing can be said: also where what it would rest on could not be looked up
 */
void mesh_judge_rtr(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, bool refused,
		    struct mesh_choice *choice, struct mesh_view *view);
/** mesh_judge_needs_agreement - the connection cannot work as it is, or only the peer knows */
bool mesh_judge_needs_agreement(const struct mesh_view *view);
/** mesh_judge_cannot_move - why a connection that cannot work as it is is left as it is; NULL when it can be moved */
const char *mesh_judge_cannot_move(struct mesh_context *mc, const struct mesh_conn *conn, uint32_t qpn,
				   const struct mesh_view *view);
/**
 * mesh_judge_why_no_rail - can this process have a NIC of ours on one of the paths that the connection could take?
 * @why: filled if not; @why_size: 256 will do
 *
 * Opens the NIC and makes the protection domain there, if they are not there yet: what cannot be had is known before the program is told that it
 * is connected. Takes milliseconds the first time in a process. No lock of ours is held. MV_PATH_ASK needs no other NIC.
 *
 * Return: @why; NULL: it can.
 */
const char *mesh_judge_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_view *view, char *why, size_t why_size);
/** mesh_judge_bound_by - why it cannot be moved later; NULL: it can. Called with conn->lock held. */
const char *mesh_judge_bound_by(const struct mesh_conn *conn, const struct mesh_choice *choice, const struct ibv_qp_attr *attr,
				const struct mesh_view *view);

/**
 * mesh_qp_to_reset - end.c: modify_qp to RESET
 * @conn: may be NULL; its lock is taken
 *
 * Return: what mc->modify_qp() does.
 */
int mesh_qp_to_reset(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

#endif
