/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FETCH_H
#define MESH_FETCH_H

struct mesh_conn;

/*
 * Memory that is to be in the processor's cache when a connection is looked at, asked for while others are. Each of hundreds that move
 * together takes some kilobytes, and by the time that one has its turn again the others have had the cache. No locks; nothing waits, and
 * nothing happens to what is not there. NULL is fine.
 */

/** mesh_fetch_conn - of the next but one; the caller has a reference */
void mesh_fetch_conn(const struct mesh_conn *conn);
/** mesh_fetch_held - of the next one, best some time after mesh_fetch_conn(): what it keeps apart from itself */
void mesh_fetch_held(const struct mesh_conn *conn);

#endif
