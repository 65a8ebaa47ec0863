/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MR_PREREG_H
#define MESH_MR_PREREG_H

#include "rails.h"

/*
 * Registers the program's memory in advance on the rail that its connections would move to. Pinning memory takes from
 * microseconds to seconds, too long for a move.
 *
 * A thread per rail registers a region some time after the program does, and ends when nothing is left: so regions that live for
 * a single message are skipped. The same memory is pinned once more for each rail, and counts against the limits of the process
 * again. At the first shortage, of the plugin's registration or of the program's, the plugin deregisters these regions, and
 * registers none in advance in this process any more. Then regions are registered at the first use of their keys.
 *
 * Thread: any; not with process->keys.lock held.
 */

/**
 * mesh_mr_prereg - register regions of the program's PD in @spd in advance from now on; the caller has a reference to
 * @spd
 */
void mesh_mr_prereg(struct mesh_pd *spd);

/** mesh_mr_prereg_changed - a region of that PD is new, or was changed */
void mesh_mr_prereg_changed(const struct ibv_pd *pd);

/**
 * mesh_mr_prereg_give_back - the program needs the memory: deregister what was registered in advance. Return: was there
 * any?
 */
bool mesh_mr_prereg_give_back(void);

#endif
