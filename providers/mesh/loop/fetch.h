/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FETCH_H
#define MESH_FETCH_H

struct mesh_conn;

/*
 * Prefetch memory of connections that are next. Each of hundreds of connections that move together takes some kilobytes, and
 * drops out of the processor's cache until its next turn. Locks: none. Nothing blocks, and an invalid address does no harm. NULL
 * is fine.
 */

/** mesh_fetch_conn - prefetch the connection after the next; the caller has a reference */
void mesh_fetch_conn(const struct mesh_conn *conn);
/** mesh_fetch_vqp - prefetch the virtual QP of the next connection, best some time after mesh_fetch_conn() */
void mesh_fetch_vqp(const struct mesh_conn *conn);

#endif
