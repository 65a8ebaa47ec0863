/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UNQUALIFIED_H
#define MESH_UNQUALIFIED_H

#include "conn.h"

/* survives.h for a connection at work: where it may not go because a NIC has not qualified. */

/** mesh_conn_unqualified - why a connection does not leave the device that it is at work on; NULL: it may. conn->lock */
const char *mesh_conn_unqualified(const struct mesh_conn *conn);

/** mesh_conn_may_go_by - may it move to the device of this host that has that GID? @type: enum mv_gid_type. conn->lock */
bool mesh_conn_may_go_by(const struct mesh_conn *conn, const union ibv_gid *gid, uint8_t type);

#endif
