/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PROVED_H
#define MESH_PROVED_H

#include "conn.h"
#include "proof.h"

/*
 * Does a message come from a sender that knows the PSNs of the connection? proof.h says how that is checked. Helper thread only,
 * unless a function says otherwise.
 */

/**
 * mesh_conn_open - decrypt a message of the connection; conn->lock
 * @from: host from which the agent got the message; zero: not known
 * @msg, @keys: decrypted in place; @keys: NULL: none are expected
 *
 * Return: as mv_proof_open(); -EBADMSG also where too many have failed lately.
 */
int mesh_conn_open(struct mesh_conn *conn, const struct mv_host_id *from, struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint64_t now_ns);
/** mesh_conn_open_refused - the same without conn->lock, while the program's own QP is being connected */
int mesh_conn_open_refused(struct mesh_conn *conn, const struct mesh_conn_refusal *refusal, struct mv_ctl_msg *msg, uint64_t now_ns);
/**
 * mesh_conn_is_of_peer - may the peer's host have that GID? conn->lock
 *
 * Return: false: by the directory other hosts have the GID, and the host that had the peer's GID at RTR does not.
 */
bool mesh_conn_is_of_peer(const struct mesh_conn *conn, const union ibv_gid *gid);
/** mesh_conn_peer_host - host that had the peer's GID at RTR; NULL: not known. conn->lock */
const struct mv_host_id *mesh_conn_peer_host(const struct mesh_conn *conn);
/**
 * mesh_conn_unproved - why the connection does not move at work: nothing proves the identity of the peer; conn->lock
 *
 * That is if the hosts have not authenticated each other, and either both programs use PSN 0, or the peer's host is beyond a
 * router. (For example, a container behind NAT speaks from its host's address and the port of agents.) May change at any time.
 *
 * Return: NULL: the peer is proved, or the administrator allows moves all the same.
 */
const char *mesh_conn_unproved(const struct mesh_conn *conn);
/** mesh_conn_say_unproved - log it, if mesh_conn_unproved() */
void mesh_conn_say_unproved(const struct mesh_conn *conn);
/**
 * mesh_conn_draw_nonce - have a random number of this attempt, before the first message to the peer or from it. RTR of a
 * connection without messages then takes one system call less. Any thread; conn->lock
 *
 * Return: false: a seccomp filter forbids getrandom().
 */
bool mesh_conn_draw_nonce(struct mesh_conn *conn);
/** mesh_conn_may_speak - has the connection been in RTR long enough to send messages encrypted with one PSN only? */
bool mesh_conn_may_speak(uint64_t rtr_ns, uint64_t now_ns);

#endif
