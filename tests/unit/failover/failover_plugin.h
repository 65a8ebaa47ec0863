/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_FAILOVER_PLUGIN_H
#define UNIT_FAILOVER_PLUGIN_H

#include "failover_world.h"

/* A small plugin at each end of failover_world.h: it carries out the actions of a move. */

/** make_paths - paths that end @e offers; returns how many */
size_t make_paths(const struct end *e, struct mv_path *ret);

/** start - end @i starts a move */
void start(unsigned int i);
/** expect - the agent suspects that the path of end @i is dead; sure() follows */
void expect(unsigned int i);
/** sure - the suspicion is confirmed, or withdrawn */
void sure(unsigned int i);
/** do_arm - end @i makes a QP for the next move, in most cases on the path that the other end chooses, too */
void do_arm(unsigned int i);
/** do_passthrough - end @i works on the program's own path */
void do_passthrough(unsigned int i);
/** drain - carries out all actions of end @i's move; @by_message: caused by one message */
void drain(unsigned int i, bool by_message);

#endif
