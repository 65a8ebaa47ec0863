/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNSTATUS_H
#define MESH_CONNSTATUS_H

#include "conn.h"

/* Reports about a connection, to the agent and the log. Locks: conn->lock; any thread. */

/** mesh_conn_bound - why the connection cannot move, a constant; NULL: it can */
const char *mesh_conn_bound(const struct mesh_conn *conn);
/** mesh_conn_log_moved - log the last move, if not logged yet */
void mesh_conn_log_moved(struct mesh_conn *conn);
/** mesh_conn_tell - tell the agent, for `meshverbs qps` and `meshverbs drain`; mesh_conn_run() repeats what gets lost */
void mesh_conn_tell(struct mesh_conn *conn);
/** mesh_conn_tell_later - the same after a delay, once hundreds of moves are over */
void mesh_conn_tell_later(struct mesh_conn *conn, uint64_t now_ns);
/** mesh_conn_tell_changes - tell and log changes; helper thread. Return: when to come again. */
uint64_t mesh_conn_tell_changes(struct mesh_conn *conn, uint64_t now_ns);

#endif
