/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONNKEYS_H
#define MESH_CONNKEYS_H

#include "conn.h"

/* Part of conn.h: keys of the peer. */

/* remotekeys.c: the peer's keys, and ours for the peer */

/* Argument: the connection; the second: of one that is connected to itself. */
extern const struct mesh_held_ops mesh_conn_held_ops, mesh_conn_self_ops;

/** mesh_conn_key_message - KEY_*; takes conn->lock. @from: as of mesh_conn_open() */
void mesh_conn_key_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *sealed, uint64_t now_ns);
/** mesh_conn_run_keys - send and resend questions; conn->lock held; returns when to come again */
uint64_t mesh_conn_run_keys(struct mesh_conn *conn, uint64_t now_ns);
/** mesh_conn_asks - has the peer been asked for a key, or told to forget one, and has not answered yet? */
bool mesh_conn_asks(struct mesh_conn *conn);
/** mesh_conn_peer_left - the peer's program has left: it need not be told any more of keys to be forgotten */
void mesh_conn_peer_left(struct mesh_conn *conn);
/**
 * mesh_conn_key_peer - note whom to tell of keys that are to be forgotten
 *
 * The program's thread does that, and waits for nobody. So whoever changes what a message is addressed by calls this before he lets
 * conn->lock go, which is held.
 */
void mesh_conn_key_peer(struct mesh_conn *conn);
/** mesh_conn_ask_no_more - of keys of the last path; those of ours that the peer has to forget it may have asked for on this one */
void mesh_conn_ask_no_more(struct mesh_conn *conn);
/** mesh_conn_next_request - a number for a question to the peer */
uint32_t mesh_conn_next_request(struct mesh_conn *conn);
/** mesh_conn_note_told - the peer is about to be told what a key of ours is on a path; before that is looked up: mesh_conns_key_dropped() */
void mesh_conn_note_told(struct mesh_conn *conn, uint32_t rkey);
/** mesh_conn_free_keys - the connection goes, and nobody refers to it */
void mesh_conn_free_keys(struct mesh_conn *conn);
/** mesh_conns_key_dropped - the program took an MR away that a rail had a copy of: tell the peers. See root.key_dropped. */
void mesh_conns_key_dropped(struct ibv_pd *pd, uint32_t rkey);
/**
 * mesh_conns_key_given - the program gets an rkey: wait for those peers that have yet to forget what it was before
 *
 * Some 50 ms at most, and not again for a peer that has not answered within that time until it answers: who posts with the key
 * before it has forgotten fails with an access error. Costs a look at a counter where nobody has to forget anything, and a look-up in a
 * table where it is other keys. See root.key_given.
 */
void mesh_conns_key_given(struct ibv_pd *pd, uint32_t rkey);

/* movekeys.c: those of them that go with the messages of a live move; conn->lock */

/** mesh_conn_keys_begin - a QP has been made for a move, or goes: nothing has been asked for it */
void mesh_conn_keys_begin(struct mesh_conn *conn);
/** mesh_conn_keys_go - what goes with a message that is about to be sent */
void mesh_conn_keys_go(struct mesh_conn *conn, const struct mv_ctl_msg *msg, struct mv_ctl_keys *ret);
/** mesh_conn_keys_came - take what the peer's message brings */
void mesh_conn_keys_came(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);
/** mesh_conn_keys_dropped - the peer's program has taken that key away */
void mesh_conn_keys_dropped(struct mesh_conn *conn, uint32_t rkey);
/** mesh_conn_keys_use - the next QP is about to do the work: what is known for it; mesh_conn_keys_begin() follows */
void mesh_conn_keys_use(const struct mesh_conn *conn, struct mesh_live_keys *ret);

/* remotekeys.c keydrops.c */

/** mesh_key_drop_begins - the peer is to forget a key; key_lock. Return: false without memory */
bool mesh_key_drop_begins(struct mesh_conn_key *key);
/** mesh_key_hash_of - the place of a key in a filter */
uint32_t mesh_key_hash_of(uint32_t rkey);
/** mesh_key_drop_ends - it has forgotten it, or is gone; key_lock */
void mesh_key_drop_ends(struct mesh_conn_key *key);
/** mesh_key_drop_waits - may a peer still use what the key was, and say when it does not? @unheard: it was waited for in vain */
bool mesh_key_drop_waits(const struct mesh_context *mc, uint32_t rkey, bool unheard);

#endif
