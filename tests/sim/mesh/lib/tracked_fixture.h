/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_TRACKED_FIXTURE_H
#define SIM_MESH_TRACKED_FIXTURE_H

#include "conn.h"
#include "vqp_failover.h"
#include "moved.h"

/*
 * Ends that are at work on mlx5_0 and may be moved while they are (vqp_failover.h). What is not said to return fails
 * the test.
 */

#define TRACKED_MTU 1024

/* Whose path fails is not heard of. */
extern const struct mesh_vqp_ops tracked_ops;
/* What the next queue pair is made with. */
extern const struct mesh_shadow_attr shadow_attr;

/**
 * tracked_rtr, tracked_rts - the program's steps, of one that is tracked from the first on; @ret: is set before that
 * may fail
 */
void tracked_rtr(struct end *e, const struct mesh_vqp_ops *ops, struct ibv_qp_attr attr, struct mesh_vqp **ret);
void tracked_rts(struct end *e, struct mesh_vqp *h, struct ibv_qp_attr attr);

/** tracked_prepare - returns the number of the next queue pair */
uint32_t tracked_prepare(struct mesh_vqp *h);
/** tracked_prepare_loop - the same, and connect that one to itself, either way beginning with @psn */
void tracked_prepare_loop(struct mesh_vqp *h, uint32_t psn);
/** tracked_connect_next - as conn/ has it connected: with the program's attributes, and what the path changes of them */
void tracked_connect_next(struct mesh_vqp *h, const struct ibv_qp_attr *program_rtr, struct ibv_qp_attr rts, uint32_t peer_qpn);

/** tracked_drain_ends - until it does not say -EAGAIN any more; returns what it says, at last also that */
int tracked_drain_ends(struct mesh_vqp *h, bool first, struct mv_move_sync *sync);
/** tracked_drain - that, and it is done */
void tracked_drain(struct mesh_vqp *h, bool first, struct mv_move_sync *sync);

/** as_connection, end_connection - what the rest of the plugin sees of @e's queue pair; @h: its work is ours, or is logged */
struct mesh_conn *as_connection(struct end *e, struct mesh_vqp *h, enum mesh_conn_state state);
void end_connection(struct mesh_conn *conn);

#endif
