/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_RESQPKERNEL_H
#define UNIT_RESQPKERNEL_H

#include <linux/netlink.h>

#include "clientpairs.h"

/*
 * A scripted kernel answers the questions of md_resqp over RDMA netlink, as Linux 6.1 does. Programs that use the scripted
 * kernel are linked with --wrap=send.
 */

struct message {
	struct nlmsghdr head;
	char body[256];
};

/** put_attr - appends an attribute */
void put_attr(struct message *message, uint16_t type, const void *value, uint16_t len);
/** a_message - returns an answer of type @op without attributes */
struct message a_message(int op);

/*
 * The kernel has one device, mlx5_0, with two ports. Every QP belongs to this process and to port 1, but for these:
 * - ANOTHERS belongs to ANOTHER_PID, THREADS to the thread @thread_id of this process. GONE does not exist.
 * - UNTOLD belongs to a process of another PID namespace: the kernel names no pid.
 * - ORPHAN and its protection domain were made by threads that have ended. The thread that made its context lives.
 * - ON_PORT_2 is on port 2. NO_PORT is on no port.
 */
enum { ANOTHERS = 666, UNTOLD, GONE, THREADS, ON_PORT_2, NO_PORT, ORPHAN };
#define ANOTHER_PID 1

extern pid_t thread_id; /* the thread that made THREADS */
extern pid_t given_away; /* pid that all QPs belong to; 0: as above */
extern bool broken; /* questions for QPs are answered by an error: the card is in reset */
extern unsigned int n_dumps, n_questions; /* dumps of devices, questions for QPs */

/** setup_kernel, teardown_kernel - as setup() and teardown(), with the scripted kernel to ask */
int setup_kernel(void **state);
int teardown_kernel(void **state);

#endif
