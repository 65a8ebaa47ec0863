/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_PATHS_FIXTURE_H
#define UNIT_PATHS_FIXTURE_H

#include "unit.h"

#include "paths.h"
#include "peers.h"

/*
 * Hosts, and the ways to them that a plain search finds. One thread calls these functions; each of
 * them fails the test where something is not as the plain search says. Link with
 * --wrap=md_view_on_link.
 */

extern unsigned int n_walks; /* over the networks that our netdevs are on */
extern struct md_view *view; /* of this host; the test makes it */
extern struct md_hosts hosts;
extern struct md_gidmap map;
extern struct md_targets targets;
extern const struct md_probes no_probes;

/** paths_setup, paths_teardown - of each test: nothing is known; the latter frees @view, too */
int paths_setup(void **state);
int paths_teardown(void **state);
/** forget_all - as paths_teardown() and paths_setup() */
void forget_all(void);
/** claim_all - all hosts claim their GIDs */
void claim_all(void);
/** plain_on_link - is the GID in a network that netdev @ifindex is on? */
bool plain_on_link(uint32_t ifindex, const union ibv_gid *gid);
/** check_ways - up to @max ways to the GID are as those that the plain search finds, in its order
 */
void check_ways(const union ibv_gid *gid, size_t max);

#endif
