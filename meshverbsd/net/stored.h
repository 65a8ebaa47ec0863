/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_STORED_H
#define MD_STORED_H

#include "udp.h"

/*
 * The service manager keeps the UDP sockets while the agent starts again (sd_notify(3): FDSTORE=1), so that the port of agents is free at no
 * moment: no privilege is needed to take it, and who has it speaks for this host. Without a service manager nobody keeps them.
 */

/** md_stored_take - the sockets that were kept; -1: none. For the start of the process. What else was handed over is closed. */
void md_stored_take(int *ret_fd6, int *ret_fd4);

/** md_stored_keep - have the sockets kept */
void md_stored_keep(const struct md_udp *udp);

#endif
