/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_ENGAGE_H
#define MESH_ENGAGE_H

#include "reader.h"

/* When a queue pair gets a reader, and when our functions come in between it and the program. */

/**
 * mesh_reader_open - give a new log a reader, if that can be
 *
 * data->lock, held->lock; in INIT. Return: 0; -EOPNOTSUPP: not mlx5, or a kind of QP or CQ that is not read; -ENOMEM.
 */
int mesh_reader_open(struct mesh_held *h);
void mesh_reader_close(struct mesh_held *h); /* data->lock, held->lock; without one: nothing */

/** mesh_reader_connected - it does not go back to INIT: receives are not noted any more; no lock but conn->lock */
void mesh_reader_connected(struct mesh_held *h);

/**
 * mesh_reader_engage - our functions into the context: what is posted from now on passes by; no lock but conn->lock
 *
 * Not while a thread is in a batch that libmlx5's wr_start began: who posted would wait for it with locks of ours that it may want
 * itself, for example to poll or to query that QP.
 *
 * Return: 0, also without a reader or if they are; -EBUSY: there is such a batch, or something else intercepts posts; -ENOMEM: there is no room for what is posted
 * (mesh_held_room()). Then nothing has changed.
 */
int mesh_reader_engage(struct mesh_held *h);
/** mesh_reader_prepare - whatever of that is not noticed: room. Return: as mesh_reader_engage(), but it does not look for batches */
int mesh_reader_prepare(struct mesh_held *h);

/**
 * mesh_reader_room_ahead - the room that mesh_reader_engage() needs, now, if it is no more than some kilobytes
 *
 * The first time that hundreds move, taking it is a good part of what they do: pages that are touched for the first time. Those with
 * deep queues have theirs when they need it: most never move. If there is no memory, there may be later. No lock but conn->lock;
 * without a reader: nothing.
 */
void mesh_reader_room_ahead(struct mesh_held *h);

#endif
