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

/**
 * mesh_conn_listen - a connection is held only to ask its peer which RoCE version that has: what the peer sends meanwhile is not to be lost
 *
 * The base's QP goes to RTR at once, as the version that most use: a peer that uses it need not wait for an answer, and does not (its path
 * works). If the peer says otherwise, mesh_conn_listen_no_more(). Where RTR is refused, or that could not be taken back
 * (mesh_held_can_begin_again()), it stays in INIT. By the program's thread, in RTR.
 */
void mesh_conn_listen(struct mesh_conn *conn);

/**
 * mesh_conn_listen_no_more - the base's QP is in INIT again, with the receives that it had
 *
 * Posting is stopped. Return: 0, also if it did not listen; -EBUSY: it has received something, so its peer has the version that it listens
 * for; -EAGAIN: somebody polls an extended CQ, and it listens on; -errno: it is in RESET or INIT, and of no use.
 */
int mesh_conn_listen_no_more(struct mesh_conn *conn);

/** mesh_conn_may_listen_on - has the base's QP the RoCE version already that the next action is for, or does it not listen? */
bool mesh_conn_may_listen_on(const struct mesh_conn *conn, const struct mv_move_action *next);

/**
 * mesh_conn_await_peer - the base's QP receives, and sends wait until the peer's does, too: ask it, or have them go; helper thread
 *
 * Two ends that were both held connect the base's at different times, and what one sends before the other is through is lost: it would come
 * only with the program's ACK timeout. At most for move_timeout_ms. Return: when to come again (ns); UINT64_MAX: on events only.
 */
uint64_t mesh_conn_await_peer(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_take_receives - a message, before the transaction gets it: does the peer receive? Return: whether it is to be dropped */
bool mesh_conn_take_receives(struct mesh_conn *conn, const struct mv_ctl_msg *msg);

/**
 * mesh_conn_native_at - it is held, and nobody has answered: when is it to be tried as the program asked?
 *
 * That is if its path seems to work, or nobody is left to agree with.
 *
 * Notes since when the path works: to be called with all news.
 *
 * Return: ns; UINT64_MAX: when something changes.
 */
uint64_t mesh_conn_native_at(struct mesh_conn *conn, uint64_t now_ns);

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
