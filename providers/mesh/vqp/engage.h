/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_ENGAGE_H
#define MESH_ENGAGE_H

#include "mlx5_wr_walker.h"

/* When a queue pair gets a walker of mlx5's queues, and when the plugin begins to intercept the program's posts. */

/**
 * mesh_walker_open - give a new log a walker
 *
 * In INIT. Locks: data->lock, vqp->lock. Return: 0; -EOPNOTSUPP: not mlx5, or a kind of QP or CQ that cannot be read;
 * -ENOMEM.
 */
int mesh_walker_open(struct mesh_vqp *h);
void mesh_walker_close(struct mesh_vqp *h); /* data->lock, vqp->lock; no walker is fine */

/** mesh_walker_connected - the QP cannot go back to INIT any more: stop recording receives. Locks: conn->lock only. */
void mesh_walker_connected(struct mesh_vqp *h);

/**
 * mesh_walker_engage - install the plugin's functions: it intercepts all later posts. Locks: conn->lock only.
 *
 * Refused while a thread is in a batch that libmlx5's wr_start began. Waiting for that thread could deadlock: it may need locks
 * of the caller, for example to poll or to query the QP.
 *
 * Return: 0, also without a walker, or if the functions are installed; -EBUSY: there is such a batch, or something else
 * intercepts posts; -ENOMEM: see mesh_vqp_room(). On failure nothing has changed.
 */
int mesh_walker_engage(struct mesh_vqp *h);
/**
 * mesh_walker_prepare - allocate memory for mesh_walker_engage(), without visible effect. Return: as that, but batches
 * do not matter.
 */
int mesh_walker_prepare(struct mesh_vqp *h);

/**
 * mesh_walker_reserve - allocate the memory for mesh_walker_engage() now, if that is at most some kilobytes
 *
 * When hundreds of QPs move for the first time, touching new pages is a good part of the time. Deep queues get their memory in
 * the move, because most QPs never move. No effect without a walker, and none without memory: a later try may succeed.
 * Locks: conn->lock only.
 */
void mesh_walker_reserve(struct mesh_vqp *h);

#endif
