// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"

/* What a queue pair on another NIC has to be like: as the program's, with what has another number there. */

static uint16_t own_pkey_index(const struct mesh_conn *conn)
{
	return conn->rtr_mask & IBV_QP_PKEY_INDEX ? conn->rtr.pkey_index : conn->init.pkey_index;
}

int mesh_conn_pkey_index(const struct mesh_conn *conn, struct mesh_rail *rail, uint8_t port, uint8_t gid_type, uint16_t *ret_index)
{
	*ret_index = own_pkey_index(conn);
	if (gid_type != MV_GID_TYPE_IB)
		return 0;
	return mesh_rail_find_pkey(rail, port, conn->qp->context, conn->rtr.ah_attr.port_num, *ret_index, ret_index);
}

int mesh_conn_shadow_attr(const struct mesh_conn *conn, struct mesh_rail *rail, uint8_t port, uint8_t gid_type, struct mesh_shadow_attr *ret)
{
	*ret = (struct mesh_shadow_attr){.port_num = port, .qp_access_flags = conn->init.qp_access_flags};
	return mesh_conn_pkey_index(conn, rail, port, gid_type, &ret->pkey_index);
}
