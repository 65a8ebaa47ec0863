/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_NATIVE_H
#define MESH_NATIVE_H

#include "conn.h"

/*
 * A held connection goes to where its program asked for, after all. With conn->lock held; by a worker, for the kernel may have to
 * look for the neighbour, or, for mesh_conn_native(), by the helper thread where there is none.
 */

/**
 * mesh_conn_native_waits - NATIVE is next: is it to be put off, until the program's own GID is in its port's table again?
 *
 * After a port is up again its addresses are given back some time later, and its GIDs with them, and the kernel refuses to connect
 * without (ENODATA). A program that connects by itself sees that, and may try again; one that has been told that it is connected cannot.
 *
 * Reads the table, for which others may have the lock for long: as the rest, by a worker. Return: true at most for move_timeout_ms, with
 * @conn->entry_again_ns set.
 */
bool mesh_conn_native_waits(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_native - carry out NATIVE; what fails is the program's. Posting is stopped, and goes on afterwards. */
void mesh_conn_native(struct mesh_conn *conn, const struct mv_move_action *action);

/**
 * mesh_conn_try_native - the path that the program asked for seems to work, and nobody has answered: connect it, if that works
 *
 * If not, if @conn->native_due is not set, or if the peer has been heard of since it was, everything is as it was. So it is with
 * @conn->in_batch written, if a thread of the program's is in a batch.
 */
void mesh_conn_try_native(struct mesh_conn *conn);

#endif
