/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_KEYAHEAD_H
#define MESH_KEYAHEAD_H

#include "rails.h"

/*
 * Registering the program's memory on the rail that its connections would move to, before they have to: pinning memory takes
 * from some microseconds to seconds, and a failure is no time for that.
 *
 * A thread of its own does it, some time after a region is new, and ends when nothing is left: programs that register for a
 * single message are not followed. The same memory is pinned once more for each rail, and counts against the limits of
 * the process once more: as soon as anything says that there is no more, ours or the program's own registration, it is
 * given back and nothing more is registered ahead in this process; keys are registered with their first use, as if
 * this file were not there.
 *
 * Any thread; nobody calls these functions with keys_lock.
 */

/** mesh_keys_ahead - from now on regions of the program's PD are registered there ahead; the caller holds @spd */
void mesh_keys_ahead(struct mesh_pd *spd);

/** mesh_keys_ahead_news - a region of that PD is new, or another one */
void mesh_keys_ahead_news(const struct ibv_pd *pd);

/** mesh_keys_ahead_give_back - the program needs the memory. Return: is there more now? */
bool mesh_keys_ahead_give_back(void);

#endif
