/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_GUARDED_H
#define SIM_MESH_GUARDED_H

#include "conn.h"
#include "live.h"
#include "moved.h"

/* Ends that are at work on mlx5_0 and may be moved while they are (live.h). What is not said to return fails the test. */

#define GUARDED_MTU 1024

/* Whose path fails is not heard of. */
extern const struct mesh_held_ops guarded_ops;
/* What the next queue pair is made with. */
extern const struct mesh_shadow_attr shadow_attr;

/** guarded_rtr, guarded_rts - the program's steps, of one that is guarded from the first on; @ret: is set before that may fail */
void guarded_rtr(struct end *e, const struct mesh_held_ops *ops, struct ibv_qp_attr attr, struct mesh_held **ret);
void guarded_rts(struct end *e, struct mesh_held *h, struct ibv_qp_attr attr);

/** guarded_prepare - returns the number of the next queue pair */
uint32_t guarded_prepare(struct mesh_held *h);
/** guarded_prepare_loop - the same, and connect that one to itself, either way beginning with @psn */
void guarded_prepare_loop(struct mesh_held *h, uint32_t psn);

/** guarded_fence_ends - until it does not say -EAGAIN any more; returns what it says, or that after 20 seconds */
int guarded_fence_ends(struct mesh_held *h, bool first, struct mv_move_sync *sync);
/** guarded_fence - that, and it is done */
void guarded_fence(struct mesh_held *h, bool first, struct mv_move_sync *sync);

/** as_connection, end_connection - what the rest of the plugin sees of @e's queue pair; @h: its work is ours, or is logged */
struct mesh_conn *as_connection(struct end *e, struct mesh_held *h, enum mesh_conn_state state);
void end_connection(struct mesh_conn *conn);

#endif
