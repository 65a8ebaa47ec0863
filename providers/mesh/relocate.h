/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RELOCATE_H
#define MESH_RELOCATE_H

#include "conn.h"

/*
 * Moving connections that are at work: when to, and carrying out what the transaction wants of a live QP. Called by the
 * helper thread with conn->lock held, but for the first.
 */

/** mesh_conn_guard - log what the base's QP does, so that it can be moved later; conn->lock; program's thread */
void mesh_conn_guard(struct mesh_conn *conn, uint32_t mtu_bytes);

/** mesh_conn_live - carry out an action of a live move; whether it was one */
bool mesh_conn_live(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns);

/** mesh_conn_check - is there a reason to move? @directory: it has changed */
void mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_key_pd - where keys that the peer asks for have to be good; NULL: not known yet */
struct mesh_pd *mesh_conn_key_pd(const struct mesh_conn *conn);

#endif
