/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_WITHHELD_FIXTURE_H
#define SIM_MESH_WITHHELD_FIXTURE_H

#include "conn.h"
#include "tracked_fixture.h"
#include "vqp_failover.h"

/*
 * A queue pair whose errors are withheld from the program until it is known how a move ends. Nothing was made in
 * advance, and there is no helper thread: what it would send is noted. What is not said to return fails the test.
 */

#define QUIET 100 /* milliseconds in which nothing comes */

extern struct end e;
extern struct mesh_vqp *h; /* that of @e; NULL once a connection has it */
extern _Atomic unsigned int n_failed; /* calls of path_failed */
extern struct mv_ctl_msg sent[4];
extern unsigned int n_sent;
extern const struct manner noted, extended;

/** withheld_setup, withheld_teardown - open the world, close @e and the world, for cmocka */
int withheld_setup(void **state);
int withheld_teardown(void **state);

/** begin_as, begin - @e at work, connected to nobody; begin(): its posts are noted */
void begin_as(const struct manner *manner, const struct shape *shape);
void begin(const struct shape *shape);
/** begin_looped - the same, connected to itself, either way beginning with PSN 0x77 */
void begin_looped(const struct manner *manner);

/** send_one - a signaled SEND of nothing */
void send_one(uint64_t wr_id);
/** arm - ask for the next event of the CQ */
void arm(void);
/** assert_given - the errors of the sends 1 and 2 are what the program gets, and nothing else */
void assert_given(void);

/** connection - @h as connect.c has it, in PASSTHROUGH; the queue pair's end is its own, too */
struct mesh_conn *connection(void);
/** state_of - of the lower provider's queue pair, or what the program is told */
enum ibv_qp_state state_of(bool device);

#endif
