/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TEST_TWOENDS_H
#define MD_TEST_TWOENDS_H

#include "unit.h"

#include "probes.h"
#include "random.h"

/* Two agents that probe the same paths, each from its end, with a clock of their own. */

#define N_RAILS  2 /* the paths */
#define INTERVAL (10 * MD_MS)
#define PART     (INTERVAL / MD_PROBE_PARTS)

enum { A, B, N_ENDS };

struct end {
	struct md_probes probes;
	struct md_probe_watch_list watches;
	struct md_probe_key keys[N_RAILS];
	bool stopped; /* has no processor */
	bool is_old; /* says nothing of answers */
	bool cannot_tell;
	unsigned int n_told;
	uint64_t n_sent[N_RAILS], n_ticks;
	unsigned int n_warned;
};

extern struct end ends[N_ENDS];
extern bool lost[N_ENDS][N_RAILS]; /* what goes to that end */
extern size_t n_flying; /* datagrams */
extern uint64_t now_ns, delay_ns, jitter_ns;
extern uint64_t apart_ns; /* when they began */
extern unsigned int loss_ppm;

/** two_setup, two_teardown - for cmocka: both rails work, and both ends have one that they work on */
int two_setup(void **state);
int two_teardown(void **state);
/** put_back - the end of that, and anew */
void put_back(void);

/** host_of - who is at that end */
struct mv_host_id host_of(unsigned int end);
struct md_probe *probe(unsigned int end, unsigned int rail);
/** watch - by the process of that end */
void watch(unsigned int end, unsigned int rail, uint8_t mask);
/** step - to the next thing that happens, or @until_ns */
void step(uint64_t until_ns);
void run(uint64_t for_ns);
/** until_both_down - the first rail; returns how long it took; the test fails if it takes longer than @limit_ns */
uint64_t until_both_down(uint64_t limit_ns);
/** count_anew - datagrams and ticks of both ends */
void count_anew(void);

#endif
