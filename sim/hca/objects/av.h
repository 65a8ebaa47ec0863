/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Address vectors: what the kernel checks and fills in before a queue pair or an address handle may
 * use one. */
#ifndef SIM_AV_H
#define SIM_AV_H

#include "hca.h"

struct av {
	uint8_t port;
	bool is_global;
	uint8_t sgid_index;
	uint8_t dgid[16];
	uint16_t dlid;
	uint8_t dmac[6]; /* filled by av_resolve() */
};

/**
 * av_resolve() - check @av against the port's GID table and find the destination's MAC. Called
 * without the lock.
 *
 * Return: 0; -EINVAL for a port that is not there, no GRH on Ethernet, an index beyond the table, a
 * destination of zero or of another address family than the source; -ENODATA for an empty entry; or
 * what neigh_resolve() says.
 */
int av_resolve(struct ucontext *uc, struct av *av);

#endif
