/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_NLSCRIPT_H
#define UNIT_NLSCRIPT_H

#include "unit.h"

#include "fault.h"
#include "nlbuild.h"
#include "topo_netlink.h"

/* A scripted kernel: the answers that a netlink socket gets, datagram by datagram. */

#define MAX_STEPS 32

/* The next answer of the request socket: a datagram, or an error. */
struct step {
	struct nlbuild nl;
	int err;
	uint32_t from_pid;
	size_t claimed_len; /* length that MSG_PEEK reports; 0: the real one */
	bool truncated; /* the datagram grew after MSG_PEEK */
};

struct script {
	struct step steps[MAX_STEPS];
	size_t n, next;
	uint32_t seq, port_id;
	unsigned int requests;
	uint8_t request[256];
};

extern struct script script;

struct step *add_step(void);

/* A message with this sequence number keeps it. All other messages of a step get those of an answer. */
#define FOREIGN_SEQ 0xdeadbeef

ssize_t scripted_recvmsg(int fd, struct msghdr *msg, int flags);
void start_script(struct mv_netlink *nl, struct mv_topo *topo);
int stop_script(void **state);
void end_script(struct mv_netlink *nl, struct mv_topo *topo);
void add_links(void);
void add_addrs(void);

#endif
