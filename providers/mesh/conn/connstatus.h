/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNSTATUS_H
#define MESH_CONNSTATUS_H

#include "conn.h"

/* What the agent and the log are told of a connection. conn->lock; any thread. */

/** mesh_conn_bound - why it stays where it is whatever happens; NULL: it can be moved; a constant; any thread */
const char *mesh_conn_bound(const struct mesh_conn *conn);
/** mesh_conn_log_moved - say that it has, if it is not in the log yet */
void mesh_conn_log_moved(struct mesh_conn *conn);
/** mesh_conn_tell - tell the agent, for `meshverbs qps` and `meshverbs drain`; what gets lost is told again by mesh_conn_run() */
void mesh_conn_tell(struct mesh_conn *conn);
/** mesh_conn_tell_later - the same, when hundreds of moves are through */
void mesh_conn_tell_later(struct mesh_conn *conn, uint64_t now_ns);
/** mesh_conn_tell_news - tell and log what is new; helper thread. Return: when to come again */
uint64_t mesh_conn_tell_news(struct mesh_conn *conn, uint64_t now_ns);

#endif
