/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PROVED_H
#define MESH_PROVED_H

#include "conn.h"
#include "proof.h"

/* Does a message come from who knows the PSNs of the connection? proof.h says how that is found out. Helper thread only. */

/**
 * mesh_conn_open - open a message of the connection; conn->lock
 * @from: the host that the agent had it from; zero: not told
 * @msg, @keys: opened in place; @keys: NULL: none are expected
 *
 * Return: as mv_proof_open(); -EBADMSG also where too many have failed lately.
 */
int mesh_conn_open(struct mesh_conn *conn, const struct mv_host_id *from, struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint64_t now_ns);
/** mesh_conn_open_refused - the same without conn->lock, for one that is being connected */
int mesh_conn_open_refused(struct mesh_conn *conn, const struct mesh_conn_refusal *refusal, struct mv_ctl_msg *msg, uint64_t now_ns);
/**
 * mesh_conn_is_of_peer - may the peer's host have that GID?
 *
 * Return: false: by the directory others have it, and the host that had the peer's when the connection was made has not. conn->lock
 */
bool mesh_conn_is_of_peer(const struct mesh_conn *conn, const union ibv_gid *gid);
/** mesh_conn_peer_host - the host that had the peer's GID when the connection was made; NULL: not known. conn->lock */
const struct mv_host_id *mesh_conn_peer_host(const struct mesh_conn *conn);
/**
 * mesh_conn_unproved - why it does not move while it is at work: nothing proves the peer; conn->lock
 *
 * That is where the hosts have not authenticated each other, and both programs use the PSN 0 or the peer's host is beyond a router: a
 * container behind NAT, for one, speaks from its host's address and the port of agents. May change at any time.
 *
 * Return: NULL: something does, or the administrator wants it all the same.
 */
const char *mesh_conn_unproved(const struct mesh_conn *conn);
/** mesh_conn_say_unproved - log it, if that is why it stays */
void mesh_conn_say_unproved(const struct mesh_conn *conn);
/** mesh_conn_may_speak - is it in RTR for so long that it may say what is sealed with one PSN only? */
bool mesh_conn_may_speak(uint64_t rtr_ns, uint64_t now_ns);

#endif
