/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_SUSPECT_FIXTURE_H
#define UNIT_SUSPECT_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "arm.h"
#include "detect.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "move_failover.h"
#include "move_internal.h"
#include "oneconn.h"
#include "suspect.h"

/*
 * One connection (oneconn.h) that leads, on a path that the agent watches; there is another path.
 * One thread calls these functions. Link with --wrap of what CMakeLists.txt names.
 */

extern const union ibv_gid alternate_local, alternate_remote; /* the other path */
extern int take_error; /* of taking the queue pair that was made in advance; 0 or -errno */
extern unsigned int n_taken; /* how often it was to be taken */

/** suspect_setup, suspect_teardown - of each test: both paths answer probes */
int suspect_setup(void **state);
int suspect_teardown(void **state);
/** hear - the agent says a frame of that type of a path */
void hear(uint8_t type, const union ibv_gid *from, const union ibv_gid *to, enum mv_probed state);
/** suspected, found - the agent has doubts about the connection's path; the agent is sure of the
 * path's state */
void suspected(void);
void found(enum mv_probed state);
/** carry_out - what the transaction wants done is done; the last message is @sent */
void carry_out(void);
/** check - the connection is looked at; returns when it is to be looked at next, in nanoseconds */
uint64_t check(void);
/** prepare - the path is suspected, and both ends have made a queue pair on the other one */
void prepare(void);
/** quiesce - the transaction has come to its drain, which is not carried out itself */
void quiesce(void);
/** assert_goes - the connection leaves now, for that reason, with what was made in advance */
void assert_goes(enum mv_ctl_reason why);
/** assert_is_off - nothing is under way, and the connection is where it was */
void assert_is_off(void);

#endif
