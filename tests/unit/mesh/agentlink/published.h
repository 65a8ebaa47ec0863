/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_PUBLISHED_H
#define MESH_TEST_PUBLISHED_H

#include "unit.h"

#include "directory_client.h"
#include "dirworld.h"
#include "tmpdir.h"
#include "vqp_int.h"

/* A process whose agent has the directory that the test says (dirworld.h), and a clock that stands still. */

#define SECOND 1000000000ull

#define A      "host a; rail d0; gid fe80::a v2; gid 10.1.0.1/24 v2; gid 10.1.0.1/24 v1; rail d1; gid 10.2.0.1/24 v2;"
#define A_DOWN "host a; rail d0 down; gid fe80::a v2; gid 10.1.0.1/24 v2; gid 10.1.0.1/24 v1; rail d1; gid 10.2.0.1/24 v2;"
#define B      "host b; rail d0; gid fe80::b v2; gid 10.1.0.2/24 v2; gid 10.1.0.2/24 v1; rail d1; gid 10.2.0.2/24 v2;"
#define B_DOWN "host b; rail d0 down; gid fe80::b v2; gid 10.1.0.2/24 v2; gid 10.1.0.2/24 v1; rail d1; gid 10.2.0.2/24 v2;"

size_t __real_mv_path_find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t remote_host,
			   uint32_t remote_rail, struct mv_path *ret, size_t max);

extern struct mesh_process process;
extern struct dirworld world; /* what was published last */
extern uint64_t clock_ns;
extern unsigned int n_searches; /* calls of mv_path_find() */
extern struct tmpdir tmp; /* where it lies */
extern uint32_t flags_of_b; /* in what is published next */

/** published_setup, published_teardown - for cmocka: no agent yet */
int published_setup(void **state);
int published_teardown(void **state);

/** publish, publish_drained - as an agent does it; @drained: a rail, or -1 */
void publish(const char *text);
void publish_drained(const char *text, int drained);
/** delete - the agent's file is gone */
void delete(void);

/** request_to - of port 1 of d0 */
struct mv_path_request request_to(const char *from, uint8_t type, const char *to);
/** check_verdict - all three functions say the same of a path, but for the other ones */
void check_verdict(const char *from, uint8_t type, const char *to, enum mv_path_verdict verdict, bool drained);

#endif
