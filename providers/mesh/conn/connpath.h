/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNPATH_H
#define MESH_CONNPATH_H

#include "conn.h"

/* A path of a connection over another NIC: opened and given up, and what its queue pair is made and connected with. conn->lock */

/** mesh_conn_release_path - give up the agreed path. Return: 0; -EBUSY: the peer has used it, so there is no other any more */
int mesh_conn_release_path(struct mesh_conn *conn);

/** mesh_conn_open_path - what an action wants as a path; @ret->pd is to be put, also after a failure, if it is there */
int mesh_conn_open_path(struct mesh_conn *conn, const struct mv_move_action *action, struct mesh_conn_path *ret,
			char *why, size_t why_size);
/** mesh_conn_path_limits - the largest path MTU our end of a path can do, and its LID; 0 or -EIO; helper thread */
int mesh_conn_path_limits(const struct mesh_conn *conn, const struct mesh_conn_path *path, uint16_t *ret_mtu_bytes,
			  uint16_t *ret_lid);
/** mesh_conn_shadow_attr - what a queue pair on a NIC is to be made with. Return: 0; -ENOENT: the port there has not the program's P_Key */
int mesh_conn_shadow_attr(const struct mesh_conn *conn, struct mesh_rail *rail, uint8_t port, uint8_t gid_type, struct mesh_shadow_attr *ret);
/** mesh_conn_why_not_connected - a queue pair of ours was not connected: @err: -errno, or that it is poorer than the first */
const char *mesh_conn_why_not_connected(const struct mesh_conn *conn, int err);
/** mesh_conn_path_attr - the program's RTR attributes, made to fit a path; 0 or -errno */
int mesh_conn_path_attr(const struct mesh_conn *conn, const struct mesh_conn_path *path,
			const struct mv_move_action *action, struct ibv_qp_attr *ret);
/** mesh_conn_shadow_rts - the shadow to RTS with the program's attributes; 0 or -errno */
int mesh_conn_shadow_rts(struct mesh_conn *conn);

#endif
