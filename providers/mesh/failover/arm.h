/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_ARM_H
#define MESH_ARM_H

#include "conn.h"

/*
 * Arms the next move of a connection (as APM): makes slow objects while the current path works.
 *
 * Without the setting arm: opens the NIC, and allocates a protection domain there. With arm also: registers the
 * program's memory there (mr_prereg.h), makes the standby with its CQs (vqp_failover.h), and connects the standby to
 * that of the peer. The move itself makes the objects that cannot be made in advance.
 *
 * Thread, unless a function says otherwise: helper thread, with conn->lock held.
 */

/**
 * mesh_conn_arm - make the objects that are missing
 *
 * Return: mesh_now_ns() time of the next call; UINT64_MAX: call again when something changes. Failures are logged and counted.
 */
uint64_t mesh_conn_arm(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_rail_lost - a NIC was reset
 *
 * Connections that had a standby on the NIC make a new one later: the process tries after 1 s, then at doubling intervals.
 * Thread: helper thread; no lock.
 */
void mesh_conn_rail_lost(uint64_t now_ns);

/**
 * mesh_conn_standby - carry out MV_DO_STANDBY: the peer has a standby, connect ours to the peer's
 *
 * Thread: a worker, because connecting may take seconds; conn->lock. A failure is logged, and stops such attempts of the whole
 * process for 60 s.
 */
void mesh_conn_standby(struct mesh_conn *conn, const struct mv_move_action *action);

/**
 * mesh_conn_stands_by_again - the leader tells the peer of its standby again after 250 ms
 *
 * For a move that came to nothing after it had connected the standby to another QP of the peer. Does nothing in a follower.
 */
void mesh_conn_stands_by_again(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_disarm - destroy the standby, and put its protection domain
 *
 * Thread: any, once conn->vqp is NULL (after mesh_vqp_destroy()); conn->lock.
 */
void mesh_conn_disarm(struct mesh_conn *conn);

/**
 * mesh_conn_reap - destroy the QP that did the work before the last move, and put its protection domain
 *
 * Thread: as mesh_conn_disarm().
 */
void mesh_conn_reap(struct mesh_conn *conn);

#endif
