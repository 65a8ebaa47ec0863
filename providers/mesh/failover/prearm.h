/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PREARM_H
#define MESH_PREARM_H

#include "conn.h"

/*
 * What the next move of a connection will need and takes long to make, made while its path works: the NIC opened, a
 * protection domain, the program's memory registered there (keyahead.h), a queue pair and CQ (live.h), connected to the one that
 * the peer has made. Without prearm the first two only. What cannot be made is left to the move.
 *
 * Helper thread, with conn->lock held.
 */

/** mesh_conn_prearm - make what is missing. Return: when to come again, UINT64_MAX: when something changes */
uint64_t mesh_conn_prearm(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_rail_lost - a NIC was reset: what was ahead there is made anew when it is back, but not at once; helper thread */
void mesh_conn_rail_lost(uint64_t now_ns);

/** mesh_conn_standby - the peer has one, too, MV_DO_STANDBY: connect ours to it; a worker, because that may take long */
void mesh_conn_standby(struct mesh_conn *conn, const struct mv_move_action *action);

/** mesh_conn_stands_by_again - a move has come to nothing that had connected it otherwise: the peer is told, soon */
void mesh_conn_stands_by_again(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_disarm - all of it goes; conn->held may be gone already (mesh_held_destroy()), then any thread */
void mesh_conn_disarm(struct mesh_conn *conn);

/** mesh_conn_reap - what the last move has left behind goes; as mesh_conn_disarm() */
void mesh_conn_reap(struct mesh_conn *conn);

#endif
