/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One simulated host: its shared state, and how that follows the netdevs. Single-threaded. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "config.h"
#include "gid_table.h"
#include "netmon.h"

struct host;
struct cm_server;

/* What a GID table needs to ask whether a slot is referred to. */
struct gid_user {
	struct host *host;
	uint32_t dev;
};

struct host {
	struct config config;
	struct sim_state *state; /* shared; see state.h for who writes what */
	int state_fd;
	struct netmon net;
	struct cm_server *cm;
	struct gid_table tables[SIM_MAX_DEVS]; /* of port 1 of each device; unused on InfiniBand */
	struct gid_user users[SIM_MAX_DEVS];
	uint64_t shown[SIM_MAX_DEVS][sizeof(struct sim_counters) / sizeof(uint64_t)];
};

/**
 * host_open() - make the state file and the changing part of /sys, and follow the netdevs from now
 * on.
 * @h: zeroed, but for the config.
 *
 * Return: 0, or -errno (said on stderr). Call host_close() in either case.
 */
int host_open(struct host *h);

void host_close(struct host *h);

/** host_show_counters() - bring counters/ and hw_counters/ in /sys up to date; call it now and
 * then. */
void host_show_counters(struct host *h);

/** host_reap() - zero what processes that are gone left in their slots. */
void host_reap(struct host *h);

#endif
