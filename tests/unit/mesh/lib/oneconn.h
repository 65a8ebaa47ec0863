/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_ONECONN_H
#define MESH_TEST_ONECONN_H

#include <stdint.h>

#include "conn.h"
#include "vqp_failover.h"
#include "paths.h"
#include "vqp_int.h"

/*
 * One connection of a made-up device, and what its surroundings say: time, directory, peer, workers, lower provider.
 * Linked with --wrap of them (CMakeLists.txt).
 */

#define MS 1000000ull

extern uint64_t now_ns;
extern struct mesh_path_decision decision; /* what the directory says of its path, and which others there are */
extern unsigned int n_searched; /* how often the latter was asked */
extern bool unroutable; /* but for what the kernel had a way for */
extern enum mesh_holder holder; /* and whether the peer's host has a GID, */
extern union ibv_gid of_others; /* but for this one, */
extern bool authenticated; /* and is known by its key, */
extern bool routed; /* or by answers from beyond a router */
extern struct mv_ctl_msg sent; /* the last message */
extern char status[]; /* what the agent was told of it last, */
extern unsigned int n_statuses; /* so often */
extern unsigned int n_submitted; /* to workers, */
extern bool no_workers, only_tries; /* of which there are none; the last one was */
extern int rtr_error, rts_error; /* what the lower provider makes of it when its QP is to be connected; the former takes a second */
extern int own_error; /* of RTR with the program's own index, where another one is right */
extern unsigned int n_rtr, n_rts, n_own_qps; /* how often it was */
extern unsigned int n_err; /* how often it was brought to ERR */
extern int ah_error; /* what it makes of an address handle, which takes a second then */
extern unsigned int n_ahs, n_ahs_gone; /* how many were made and destroyed */
extern unsigned int n_joined, n_left; /* how often it joined its SRQ, and left that again */
extern uint8_t chosen_index, rtr_index; /* the right one; what the lower provider got */
extern bool chosen_sure; /* by what is so now; but nothing fits */
extern bool entry_lacks; /* its port's table is without its GID, */
extern unsigned int n_lacks; /* which was asked so often */
extern bool in_batch; /* a thread of the program's is between ibv_wr_start() and ibv_wr_complete() */

extern struct mesh_process process;
extern struct mesh_context context;
extern struct ibv_qp qp;
extern struct mesh_cq cq;
extern struct mesh_vqp vqp;
extern struct mesh_conn conn;

/* The path of a connection at work is gone: a send has used up its retries. */
int oneconn_setup(void **state);
int oneconn_teardown(void **state);
#define T(name) cmocka_unit_test_setup_teardown(name, oneconn_setup, oneconn_teardown)

/* The transaction says so. */
void stay(enum mv_ctl_reason reason);

/* It leads, and there is a path, on a rail that does not exist. */
void is_to_move(void);

/* And nothing has failed. */
void is_well(void);

#endif
