/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNPATH_H
#define MESH_CONNPATH_H

#include "conn.h"

/* A path of a connection over another NIC: opened, released, and the attributes of its queue pair. Locks: conn->lock. */

/** mesh_conn_path_to - the path that both ends are agreeing on: where the connection, held or at work, is to go */
struct mesh_conn_path *mesh_conn_path_to(struct mesh_conn *conn);
/** mesh_conn_put_path - put the PD of a path, if there is one, and forget the path */
void mesh_conn_put_path(struct mesh_conn_path *path);
/**
 * mesh_conn_release_path - release mesh_conn_path_to() and its queue pair; atomics that waited for a move are posted
 *
 * Return: 0; -EBUSY: the connection is held, and the peer has used the path, so it stays.
 */
int mesh_conn_release_path(struct mesh_conn *conn);

/**
 * mesh_conn_make_path - open the path that PREPARE asks for, as mesh_conn_path_to(), and make its queue pair in INIT
 *
 * For a move that begins on suspicion, no queue pair is made: the standby has to fit. Helper thread.
 *
 * Return: 0; -errno, with the reason in @why; the caller calls mesh_conn_release_path().
 */
int mesh_conn_make_path(struct mesh_conn *conn, const struct mv_move_action *action, char *why, size_t why_size);
/**
 * mesh_conn_open_path - open the path that an action asks for. Return: 0; -errno, with the reason in @why.
 *
 * The caller puts @ret->pd if it is not NULL, also after a failure.
 */
int mesh_conn_open_path(struct mesh_conn *conn, const struct mv_move_action *action, struct mesh_conn_path *ret,
			char *why, size_t why_size);
/** mesh_conn_path_limits - largest path MTU (bytes) and LID of this end of a path. Helper thread. Return: 0 or -EIO. */
int mesh_conn_path_limits(const struct mesh_conn *conn, const struct mesh_conn_path *path, uint16_t *ret_mtu_bytes,
			  uint16_t *ret_lid);
/**
 * mesh_conn_shadow_attr - attributes to make a queue pair on a NIC. Return: 0; -ENOENT: the port there lacks the program's P_Key.
 */
int mesh_conn_shadow_attr(const struct mesh_conn *conn, struct mesh_rail *rail, uint8_t port, uint8_t gid_type, struct mesh_shadow_attr *ret);
/** mesh_conn_why_not_connected - text for a failed connect: of @err (-errno), or of mesh_parity_why() */
const char *mesh_conn_why_not_connected(const struct mesh_conn *conn, int err);
/** mesh_conn_path_attr - the program's RTR attributes, fitted to a path. Return: 0 or -errno. */
int mesh_conn_path_attr(const struct mesh_conn *conn, const struct mesh_conn_path *path,
			const struct mv_move_action *action, struct ibv_qp_attr *ret);
/**
 * mesh_conn_connect_path - bring the queue pair of a path to RTR, and to RTS if the program's is
 * @path: mesh_conn_path_to(), or that of the standby
 *
 * Return: 0; -errno; see mesh_conn_why_not_connected().
 */
int mesh_conn_connect_path(struct mesh_conn *conn, struct mesh_conn_path *path, const struct mv_move_action *action);
/** mesh_conn_shadow_rts - bring the shadow to RTS with the program's attributes. Return: 0 or -errno. */
int mesh_conn_shadow_rts(struct mesh_conn *conn);

#endif
