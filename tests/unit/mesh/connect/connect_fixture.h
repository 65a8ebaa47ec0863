/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_CONNECT_FIXTURE_H
#define MESH_TEST_CONNECT_FIXTURE_H

#include "conn.h"
#include "vqp_int.h"

/* A program's queue pair 7 of device mlx5_9, and what the lower provider and libibverbs are asked to change. */

extern struct mesh_context *context;
extern struct ibv_context verbs;
extern struct ibv_qp qp; /* of @verbs, RC; in RESET between tests */
extern bool agent; /* there is one */

/* Who changes something, what and what it returns: the lower provider, and libibverbs for a queue pair of ours. */
struct modified {
	unsigned int n, access;
	int mask, err;
};
extern struct modified at_lower, at_next;

/** connect_setup, connect_teardown - of all tests of a program, for cmocka */
int connect_setup(void **state);
int connect_teardown(void **state);

/** modify_qp - the lower provider's; modify_next - libibverbs', where a test has it be called */
int modify_qp(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask);
int modify_next(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask);

/** modify - the program's step to @state, which is done */
void modify(enum ibv_qp_state state);
/** to - the same with what @mask says besides; at_lower and at_next count from there; returns the errno */
int to(enum ibv_qp_state state, int mask);

/** connection - of @qp, in INIT, with what it needs to be taken for connected, in @state; end() ends it */
struct mesh_conn *connection(enum mesh_conn_state state, struct mesh_vqp *vqp);
void end(struct mesh_conn *conn);

#endif
