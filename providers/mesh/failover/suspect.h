/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SUSPECT_H
#define MESH_SUSPECT_H

#include "conn.h"

/*
 * Paths that the agent probes for a connection, and moves that begin on suspicion: a path that may be dead is not left yet, but
 * both ends agree on the next one.
 *
 * Thread, unless a function says otherwise: helper thread, with conn->lock held. Times are mesh_now_ns().
 */

struct mesh_path_decision; /* directory_client.h */

/** mesh_conn_watch - have the agent probe the current path, the primary path, and others to compare with */
void mesh_conn_watch(struct mesh_conn *conn, const struct mv_path_request *request,
		     const struct mesh_path_decision *decision);

/** mesh_conn_unwatch - the agent need not probe the connection's paths any more; also on the program's threads */
void mesh_conn_unwatch(struct mesh_conn *conn);

/** mesh_conn_is_dead - is the current path dead by probes, and another path better? */
bool mesh_conn_is_dead(const struct mesh_conn *conn);

/**
 * mesh_conn_suspect - begin to agree on the next path, if the current path is newly suspected
 *
 * Return: since when the path is suspected; 0: no move has begun.
 */
uint64_t mesh_conn_suspect(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_check_suspicion - check a connection whose move began on suspicion, its own or its leader's
 * @silent_ns: as for mesh_conn_check()
 *
 * Return: when to look again; UINT64_MAX: when something changes.
 */
uint64_t mesh_conn_check_suspicion(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns);

/** mesh_conn_note_sure - a move that began on suspicion has a reason by now; no effect if noted already; also on a worker */
void mesh_conn_note_sure(struct mesh_conn *conn, uint64_t now_ns);

#endif
