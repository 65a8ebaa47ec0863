/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_STORED_H
#define MD_STORED_H

#include "udp.h"

/*
 * The service manager keeps the UDP sockets while the agent restarts (sd_notify(3): FDSTORE=1), so the agents' port is
 * never free: any user could take it, and its owner speaks for this host. Without a service manager the sockets are not
 * kept.
 */

/** md_stored_take - get the kept sockets; -1: none. Call at the start of the process. Closes other descriptors that were passed */
void md_stored_take(int *ret_fd6, int *ret_fd4);

/** md_stored_keep - have the sockets kept */
void md_stored_keep(const struct md_udp *udp);

#endif
