/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_CONNTABLE_H
#define UNIT_CONNTABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "connect.h"

/* A table of connections, and the frames and wake-ups that it causes. */

extern unsigned int n_urgent; /* urgent wake-ups of the helper thread */

extern struct mv_frame frames[8]; /* to the agent, in order */
extern unsigned int n_frames;
extern int frame_result; /* returned for the next frames */
extern void (*on_frame)(void); /* called for the next frame */

#define N 200 /* more than the table has places at first */

extern struct mesh_context context;
extern struct ibv_qp qps[N];
extern struct mesh_conn *conns[N];

int setup(void **state);
int teardown(void **state);

/** take_some - returns how many connections run in this turn; which[i]: conns[i] is one of them */
unsigned int take_some(uint64_t now_ns, bool *which, uint64_t *ret_next);
/** take - the same, in as many turns as that takes */
unsigned int take(uint64_t now_ns, bool *which, uint64_t *ret_next);

#endif
