// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "unqualified.h"

#include "survives.h"

const char *mesh_conn_unqualified(const struct mesh_conn *conn)
{
	const char *device = conn->state == MESH_CONN_MOVED ? conn->path.device : conn->mc->device;

	/* With survive = off no connection has a log, so none moves. */
	if (mesh_root.config.survive != MV_SURVIVE_AUTO)
		return NULL;
	return mesh_survives_on(conn->mc, device) ? NULL : "its NIC has not qualified";
}

bool mesh_conn_may_go_by(const struct mesh_conn *conn, const union ibv_gid *gid, uint8_t type)
{
	struct mesh_directory_rail place;

	if (mesh_root.config.survive != MV_SURVIVE_AUTO)
		return true;
	return !mesh_directory_rail(gid, type, &place) && mesh_survives_on(conn->mc, place.device);
}
