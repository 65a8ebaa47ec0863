/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_TWO_SUBNETS_H
#define UNIT_TWO_SUBNETS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "conn.h"
#include "directory_client.h"
#include "dirworld.h"
#include "paths.h"
#include "program.h"

/*
 * A program (program.h) on a host whose first rail is in another subnet than the peer's first rail,
 * with a second pair of rails in one subnet. What the directory says is made from a text. One
 * thread calls these functions. Link with --wrap of what CMakeLists.txt names.
 */

#define PEER  "host b; rail mlx5_0; gid 10.2.0.1/24 v2; rail mlx5_1; gid 10.8.0.2/24 v2;"
#define WORLD "host a; rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.8.0.1/24 v2;" PEER

#define RTR_MASK                                                                                   \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

extern struct dirworld world; /* what the directory says */
extern unsigned int n_vqps; /* connections that were to be held; each then goes to the lower
			       provider all the same */
extern unsigned int n_lookups,
	n_lookups_of_broken; /* waits for the agent to find out whose an address is, in vain */
extern const char
	*no_rail; /* why the NIC that a connection would go to cannot be had; NULL: it can */
extern struct mv_ctl_msg sent; /* the last message */
extern union ibv_gid absent; /* the last GID at which nobody was noted to be */
extern int random_error; /* of getrandom(); 0: it works */
extern bool asks_port; /* the made-up provider is asked for the port's state, too */
extern bool other_partition; /* of the InfiniBand port that hears the destination */
extern struct mesh_conn *refusing; /* with a reference */
extern int (*lower_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			   int mask); /* the test's, to keep the provider's function */

/** open_in - returns the device, opened where the directory has the hosts of @text; to be closed
 * with close_in() */
struct ibv_context *open_in(const char *text);
void close_in(struct ibv_context *context);
/** rtr_holds_to, rtr_holds - RTR of a new queue pair to @to (10.2.0.1); return: was the connection
 * to be held? */
bool rtr_holds_to(struct ibv_context *context, const char *to);
bool rtr_holds(struct ibv_context *context);
/** ah_is_the_programs_to, ah_is_the_programs - does a new address handle for @text (10.2.0.1) lead
 * where the program said? */
bool ah_is_the_programs_to(struct ibv_context *context, const char *text);
bool ah_is_the_programs(struct ibv_context *context);
/** rtr_to_b - attributes of RTR to 10.2.0.1 */
struct ibv_qp_attr rtr_to_b(void);
/** peer_asks - the peer of @refusing holds its connection, and asks */
void peer_asks(void);
/** assert_answered - @sent says that this end stays with the path that its program asked for */
void assert_answered(void);

/** log_to_file - the plugin's log goes to a file, which unlink_log() removes */
void log_to_file(void);
void unlink_log(void);
/** lines_with - returns how many lines of that file have the text */
unsigned int lines_with(const char *text);

#endif
