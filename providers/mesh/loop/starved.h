/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_STARVED_H
#define MESH_STARVED_H

#include <stdatomic.h>

#include "mesh.h"

/*
 * Errors that are withheld, and sends that wait, are for the helper thread to settle. Where a program's thread of a real-time policy spins on
 * the only CPU that the process may use, the helper thread never runs. So whoever polls and finds nothing looks whether the helper thread
 * has run since, and if it has not for as long as a move may take, settles that in its place: the program gets its errors.
 */

struct mesh_cq;

/**
 * mesh_starved_give - give the program what is withheld from it, of all connections that have this CQ
 *
 * In the program's thread, without locks, and not between ibv_start_poll() and ibv_end_poll(). Connections that somebody is at are left for the
 * next time. Several system calls. Return: nothing; what there is shows with the next poll.
 */
void mesh_starved_give(struct mesh_cq *cq);

#endif
