/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RKEY_EXCHANGE_H
#define MESH_RKEY_EXCHANGE_H

#include "conn.h"

/* Part of conn.h: remote keys. */

/* rkey_exchange.c: the peer's keys here, and keys of this end at the peer */

/* Argument: the connection. mesh_conn_self_ops: for a self-connected QP. */
extern const struct mesh_vqp_ops mesh_conn_vqp_ops, mesh_conn_self_ops;

/** mesh_conn_key_message - process a KEY_* message; takes conn->lock. @from: as of mesh_conn_open() */
void mesh_conn_key_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *sealed, uint64_t now_ns);
/** mesh_conn_run_keys - send and repeat KEY_GET and KEY_DROP; conn->lock. Return: when to come again, ns. */
uint64_t mesh_conn_run_keys(struct mesh_conn *conn, uint64_t now_ns);
/** mesh_conn_asks - is any KEY_GET or KEY_DROP unanswered? */
bool mesh_conn_asks(struct mesh_conn *conn);
/** mesh_conn_peer_left - the peer's program has left: repeat no KEY_DROPs */
void mesh_conn_peer_left(struct mesh_conn *conn);
/**
 * mesh_conn_key_peer - store the header of KEY_DROPs for threads without conn->lock
 *
 * The program's threads send KEY_DROPs, and must not wait for conn->lock. So a thread that may have changed the header calls this
 * before it releases conn->lock, which it holds.
 */
void mesh_conn_key_peer(struct mesh_conn *conn);
/**
 * mesh_conn_ask_no_more - forget KEY_GETs for the last path. KEY_DROPs stay, because the peer may have asked for these keys on
 * the new path.
 */
void mesh_conn_ask_no_more(struct mesh_conn *conn);
/** mesh_conn_next_request - a new number for a question to the peer */
uint32_t mesh_conn_next_request(struct mesh_conn *conn);
/** mesh_conn_note_told - the peer is about to be told a key of this end; call before the look-up, see mesh_conns_key_dropped() */
void mesh_conn_note_told(struct mesh_conn *conn, uint32_t rkey);
/** mesh_conn_free_keys - free the list; the connection has no reference any more */
void mesh_conn_free_keys(struct mesh_conn *conn);
/** mesh_conns_key_dropped - the program deregistered an MR that has a twin on a rail: tell the peers. See root.key_dropped. */
void mesh_conns_key_dropped(struct ibv_pd *pd, uint32_t rkey);
/**
 * mesh_conns_key_given - the program gets an rkey: wait for peers that have yet to forget the earlier memory of that key
 *
 * Waits for about 50 ms at most. A peer that did not answer in that time is not waited for again until it answers. A peer that
 * posts with the old translation would get an access error. Costs one look at a counter if no KEY_DROP is outstanding, and one
 * hash look-up if there are KEY_DROPs of other keys. See root.key_given.
 */
void mesh_conns_key_given(struct ibv_pd *pd, uint32_t rkey);

/* rkey_offer.c: keys in the messages of a move at work; conn->lock */

/** mesh_conn_keys_begin - the next QP is new, or is released: forget its keys */
void mesh_conn_keys_begin(struct mesh_conn *conn);
/** mesh_conn_keys_go - the keys for a message that is about to be sent */
void mesh_conn_keys_go(struct mesh_conn *conn, const struct mv_ctl_msg *msg, struct mv_ctl_keys *ret);
/** mesh_conn_keys_came - store the keys of a message of the peer */
void mesh_conn_keys_came(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);
/** mesh_conn_keys_dropped - the peer's program has deregistered a key */
void mesh_conn_keys_dropped(struct mesh_conn *conn, uint32_t rkey);
/** mesh_conn_keys_use - the known keys for the next QP, which takes over; mesh_conn_keys_begin() follows */
void mesh_conn_keys_use(const struct mesh_conn *conn, struct mesh_failover_keys *ret);

/* rkey_exchange.c rkey_drops.c */

/** mesh_key_drop_begins - list a KEY_DROP; keys.lock. Return: false: no memory */
bool mesh_key_drop_begins(struct mesh_conn_key *key);
/** mesh_key_hash_of - hash of a key, MESH_KEY_BITS wide */
uint32_t mesh_key_hash_of(uint32_t rkey);
/** mesh_key_drop_ends - unlist a KEY_DROP: the peer has answered, or is gone; keys.lock */
void mesh_key_drop_ends(struct mesh_conn_key *key);
/**
 * mesh_key_drop_waits - is a KEY_DROP of that key outstanding at a peer that is likely to answer? @unheard: stop waiting for
 * these peers
 */
bool mesh_key_drop_waits(const struct mesh_context *mc, uint32_t rkey, bool unheard);

#endif
