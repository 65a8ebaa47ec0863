/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_RKEY_FIXTURE_H
#define MESH_TEST_RKEY_FIXTURE_H

#include "sealed.h"
#include "vqp_int.h"

/*
 * A connection that has moved, whose peer has keys to forget. Time passes only while somebody sleeps, and what the
 * helper thread would send is noted.
 */

#define MS 1000000ull

extern struct mv_ctl_msg sent[2048];
extern unsigned int n_sent, n_slept;
extern unsigned int n_queued; /* calls of mesh_conn_queue() */
extern unsigned int n_walks; /* calls of mesh_conns_of() */
extern uint64_t now_ns;
extern void (*on_send)(void), (*on_sleep)(void), (*on_translate)(void);
extern struct mesh_conn *asking; /* work of this one waits for a key that is dropped */
extern uint32_t path_key; /* the last one that was translated to */

extern struct ibv_context verbs;
extern struct ibv_pd pd; /* of @verbs */
extern struct mesh_vqp vqp; /* without a log */
extern struct mesh_process process;

/** moved - a connection that has moved, and whose peer is known and has asked for every key; the caller ends it */
struct mesh_conn *moved(void);
/** end - of what moved() returned */
void end(struct mesh_conn *conn);

/** from_peer - an answer of @type to what was sent as @to */
struct mv_ctl_msg from_peer(enum mv_ctl_type type, const struct mv_ctl_msg *to);

#endif
