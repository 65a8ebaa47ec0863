/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UNQUALIFIED_H
#define MESH_UNQUALIFIED_H

#include "conn.h"

/* survives.h for a connection at work: moves that are not allowed because a NIC is not qualified. Locks: conn->lock. */

/** mesh_conn_unqualified - why the connection may not leave its current device, a constant; NULL: it may */
const char *mesh_conn_unqualified(const struct mesh_conn *conn);

/** mesh_conn_may_go_by - may the connection move to this host's device with that GID? @type: enum mv_gid_type */
bool mesh_conn_may_go_by(const struct mesh_conn *conn, const union ibv_gid *gid, uint8_t type);

#endif
