/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_NEIGH_H
#define SIM_NEIGH_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* Called without the HCA's lock: they ask the kernel. */
int neigh_resolve(const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
		  const uint8_t *own_mac, struct sim_state *st, uint8_t *ret_mac);
int neigh_route(const uint8_t *src, const uint8_t *dst, uint32_t ifindex, uint8_t *ret_src,
		uint32_t *ret_ifindex, bool *ret_local);
int neigh_try(const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex, uint8_t *ret_mac);

/* Nanoseconds of CLOCK_MONOTONIC. Whoever links neigh.c has this function: engine.c in programs, server.c in the daemon. */
uint64_t engine_clock(void);

#endif
