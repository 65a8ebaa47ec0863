/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TEST_WORLD_H
#define MV_TEST_WORLD_H

#include "decide.h"

/*
 * Hosts for tests in a few words. Statements end in ';':
 *
 *   dev IFINDEX NAME [down|nocarrier]      netdev with MAC 02:00:00:00:00:IFINDEX
 *   addr IFINDEX ADDRESS/LENGTH            LENGTH as written in ip addr
 *   peer IFINDEX ADDRESS PEER/LENGTH       point-to-point
 *   route IFINDEX PREFIX/LENGTH [GATEWAY [PREFSRC [SRC]]]   :: for none
 *   host IFINDEX ADDRESS LENGTH            host route from a look-up that found a /LENGTH
 *   gid INDEX GID IFINDEX v1|v2            of port 1 of mlx5_0
 *   gid2 INDEX GID IFINDEX v1|v2           of port 1 of mlx5_1
 *
 * The device mlx5_0 always exists, with an Ethernet port 1.
 */
void world_init(struct mv_topo *topo, const char *text);

/**
 * world_seen - "10.1.0.1 v2, fe80::1 v1" as struct mv_seen
 * Return: how many.
 */
size_t world_seen(const char *text, struct mv_seen *seen, size_t max);

#endif
