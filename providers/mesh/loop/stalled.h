/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_STALLED_H
#define MESH_STALLED_H

#include <stdatomic.h>

#include "mesh.h"

/*
 * Settles withheld errors and waiting sends in place of a helper thread that never runs. For example, a program's thread with a
 * real-time policy spins on the only CPU of the process. So a thread whose poll finds nothing checks whether the helper thread
 * has run. If it has not for as long as a move may take, the program gets its errors.
 */

struct mesh_cq;

/**
 * mesh_stalled_flush - give the program what is withheld from all connections with this CQ
 *
 * Thread: the program's, without locks, and not between ibv_start_poll() and ibv_end_poll(). Connections that another thread has
 * locked are left for the next time. Several system calls. The next poll shows the results.
 */
void mesh_stalled_flush(struct mesh_cq *cq);

#endif
