/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_HELD_H
#define SIM_MESH_HELD_H

#include "conn.h"
#include "tracked_fixture.h"

/*
 * A connection of a queue pair to itself that is held while its peer is asked, and then left as the program made it. A
 * thread of the test is the helper thread. What is not said to return fails the test.
 */

#define BATCH_US 50000u /* as long as who is in a batch takes */

extern struct end e; /* connected to itself */
extern struct end flushed; /* of its CQ, never connected; qp NULL: there is none */
extern struct mesh_conn *conn; /* with a reference */
extern const struct manner *manner; /* what @e is opened with; NULL: posts with builders, to a plain CQ */
extern const struct manner extended;

extern _Atomic unsigned int n_rtr; /* of the lower provider's */
extern unsigned int resolves_us; /* as long as the kernel looks for the neighbour */
extern int refuses; /* what it says then; 0: it is there */
extern bool listens; /* the lower provider's goes to RTR at once, as mesh_conn_listen() does */
extern _Atomic unsigned int n_submitted; /* to workers */

/** open_in_init - the connection, in INIT; @reads: what libmlx5 has is read; else all batches are ours from then on */
void open_in_init(enum mv_path_verdict verdict, bool reads);
/** open_with - that, and in RTR */
void open_with(enum mv_path_verdict verdict, bool reads);
/** to_rtr, to_rts - the program's steps; to_rts() returns the errno */
void to_rtr(void);
int to_rts(void);

/** setup_rtr, setup_held, teardown - for cmocka: held, in RTR or in RTS; and the end of either, and of all above */
int setup_rtr(void **state);
int setup_held(void **state);
int teardown(void **state);

/** begin_helping, end_helping - the helper thread, which is told that the peer is not there */
void begin_helping(void);
void end_helping(void);
/** assert_looks_seldom - it has looked, and again once in a millisecond and for what is told, but not all the time */
void assert_looks_seldom(void);

/** build_write - in a batch: a WRITE of @what, to the eight bytes of @wr_id */
void build_write(uint64_t wr_id, uint64_t what);
/** assert_written - its completion is the next, and it has been done */
void assert_written(uint64_t wr_id, uint64_t what);
/** assert_rts - what the program is told of the state */
void assert_rts(void);
/** wait_for_outcome - whenever the worker comes to it; returns the state that it is in then */
enum mesh_conn_state wait_for_outcome(void);
void assert_goes_passthrough(void);

#endif
