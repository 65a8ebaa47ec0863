/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_MONITOR_FIXTURE_H
#define MESH_TEST_MONITOR_FIXTURE_H

#include "conn.h"
#include "path_monitor.h"

/* A process that has its agent watch paths: what it asks is noted, and what the agent says comes from the test. */

#define NEVER UINT64_MAX
#define SECOND 1000000000ull

/* Paths, as pairs of arguments. */
#define PRIMARY_PATH "10.1.0.1", "10.1.0.2"
#define OTHER_PATH "10.2.0.1", "10.2.0.2"

extern bool has_path; /* the directory */
extern struct mv_frame sent[64]; /* the first of n_sent */
extern unsigned int n_sent, n_refused, n_woken;
extern int send_result; /* of the next ones; 0: they are sent */

/** monitor_setup, monitor_teardown - for cmocka; at the end nothing is in use: nothing is left */
int monitor_setup(void **state);
int monitor_teardown(void **state);

union ibv_gid gid(const char *text);

/** asked - the last one that said anything about a path: the mask; -1: nothing was */
int asked(const char *local, const char *remote);
/** use, drop - somebody watches a path, or none any more */
void use(struct mesh_path_watch **place, enum mv_watch watch, const char *local, const char *remote);
void drop(struct mesh_path_watch **place, enum mv_watch watch);
/** told - what the agent says of a path; returns whether that changes anything */
bool told(const char *local, const char *remote, enum mv_probed state);

#endif
