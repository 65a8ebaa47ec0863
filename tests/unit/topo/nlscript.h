/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_NLSCRIPT_H
#define UNIT_NLSCRIPT_H

#include "unit.h"

#include "fault.h"
#include "nlbuild.h"
#include "topo_netlink.h"

/* A scripted kernel: the answers that a netlink socket gets, datagram by datagram. */

#define MAX_STEPS 32

/* What the request socket gives next: a datagram, or an error. */
struct step {
	struct nlbuild nl;
	int err;
	uint32_t from_pid;
	size_t claimed_len; /* what a look ahead says; 0: the truth */
	bool truncated; /* it grew after the look ahead */
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

/*
 * Messages of a step that should look like answers get these; tests change single ones afterwards.
 */
#define FOREIGN_SEQ 0xdeadbeef

ssize_t scripted_recvmsg(int fd, struct msghdr *msg, int flags);
void start_script(struct mv_netlink *nl, struct mv_topo *topo);
int stop_script(void **state);
void end_script(struct mv_netlink *nl, struct mv_topo *topo);
void add_links(void);
void add_addrs(void);

#endif
