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
extern _Atomic int64_t sleeps_ms; /* timeout of the thread's last ppoll(); -1: none */

extern void (*_Atomic meanwhile)(void); /* in the thread's next turn, between what it says again and what it registers */

extern _Thread_local int failure; /* errno of this thread's next send() */
extern _Atomic int socket_fd; /* of the last send(), other than to wake the thread */

extern _Atomic unsigned int n_rests;

/* Frames that the agent has read. One thread at a time runs the agent. */
extern _Atomic unsigned int n_registrations[N], n_unregistrations[N], n_other_unregistrations;

/** knows - has the agent a registration of QP @i? */
bool knows(unsigned int i);
/** have_it_look - the helper thread runs one turn to its end: its frames are sent, and @sleeps_ms is known */
void have_it_look(void);
/** settle - until neither the thread nor the agent has anything to say */
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
extern _Atomic uint64_t look_after_ns; /* returned for each message: when to run the connection */

extern _Atomic uint8_t of_host; /* the host of the last message */

extern _Atomic unsigned int n_looks; /* runs of the first connection */

#endif
