/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_LOOPAGENT_H
#define UNIT_LOOPAGENT_H

#include "unit.h"

#include <stdatomic.h>

#include "conn.h"
#include "ud.h"

/* The helper thread of the plugin and a real agent (realagent.h) in one process: the thread's clock and its sleep are the test's. */

#define S 1000000000ull
#define RECONNECT_NS (S / 2)
#define N 4 /* the last one stays as it is */

extern struct mesh_process process;
extern struct mesh_context context;
extern struct ibv_qp qps[N];
extern struct mesh_conn *conns[N]; /* NULL: gone */

extern _Atomic uint64_t now_ns;
extern _Atomic int64_t sleeps_ms; /* for how long, as it said last; -1: until it is woken */

extern void (*_Atomic meanwhile)(void); /* in the thread's next turn, between what it says again and what it claims */

extern _Thread_local int failure; /* of what this thread sends next: an errno */
extern _Atomic int socket_fd; /* by which something was sent last, but for the bytes that wake the thread */

extern _Atomic unsigned int n_rests;

/* What it has read, by whichever thread runs it; the others wait meanwhile. */
extern _Atomic unsigned int n_claims[N], n_unclaims[N], n_other_unclaims;

bool knows(unsigned int i);

/* Has it look, to the end: what it says in this turn has been said, and for how long it sleeps is known. */
void have_it_look(void);

/* All that either has to say to the other. */
void settle(void);
void disconnect(void);
int setup_all(void **state);
int teardown_all(void **state);
int setup(void **state);
int setup_no_packs(void **state);

struct got {
	uint32_t qpn, attempt; /* of the message */
};

extern struct got got[32];
extern _Atomic unsigned int n_got;
extern _Atomic uint64_t look_after_ns; /* each one */

extern _Atomic uint8_t of_host; /* the last message */

extern _Atomic unsigned int n_looks; /* at the first connection */

#endif
