/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TEST_PROBEWORLD_H
#define MD_TEST_PROBEWORLD_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "probes.h"
#include "random.h"

/* Probes of paths against a model of two agents and what is between them, with a clock of its own. */

#define N_PATHS  28
#define N_NAMED  4 /* of these; the others are more of path 0's kind */
#define INTERVAL (10 * MD_MS)

enum { HOST = 7, OTHER_HOST = 8 };

/* A path as it is: rail i of ours to rail j of the peer's. */
struct wire {
	struct md_probe_key key;
	uint8_t host;
	bool there_lost, back_lost, mute; /* mute: the agent there does not know probes */
	bool stuck; /* the netdev keeps what it is given */
	bool no_room; /* of its socket's family, for others' sake */
	uint64_t delay_ns; /* one way */
	unsigned int loss_ppm; /* one way */
};

extern struct md_probes probes;
extern struct md_probe_watch_list watches, others_watches;
extern struct wire wires[N_PATHS];
extern size_t n_flying; /* datagrams */
extern uint64_t now_ns, n_sent[N_PATHS];
extern uint64_t late_ns; /* our timer, always */
extern uint64_t peer_runs_ns, we_run_ns; /* not before: who has the processor is somebody else */
extern uint32_t peer_dropped, we_dropped;
extern size_t queue_room; /* of a socket of the peer's */
extern size_t send_room, n_stuck; /* of our socket: datagrams */
extern enum mv_probed told[N_PATHS];
extern unsigned int n_told[N_PATHS], n_warned[N_PATHS], n_ticks, told_order[N_PATHS];
extern bool socket_full;
extern unsigned int n_tried; /* to tell a process, also if its socket was full */

/** begin - anew: all paths work, nobody watches any */
void begin(void);
/** setup, teardown - of each test; the latter looks whether anything is left */
int setup(void **state);
int teardown(void **state);
/** watch - by the process whose list @watches is */
void watch(unsigned int path, uint8_t mask);
/** watch_one - one of many paths, no two the same, by process @client; returns what md_probes_watch() does */
int watch_one(unsigned int path, uint64_t client, uint64_t account, struct md_probe_watch_list *list);
enum mv_probed state_of(unsigned int path);
/** peer_runs, we_read - an agent has the processor now */
void peer_runs(void);
void we_read(void);
/** step - to the next thing that happens, or @until_ns */
void step(uint64_t until_ns);
void run(uint64_t for_ns);
/** until_down - returns how long it took until a path was DOWN */
uint64_t until_down(unsigned int path, uint64_t limit_ns);

#endif
