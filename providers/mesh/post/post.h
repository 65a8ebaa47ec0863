/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_POST_H
#define MESH_POST_H

#include "heldrecord.h"

/* Posting to queue pairs whose work may go elsewhere, as the rooms above see it. */

/**
 * mesh_bind_mw - as libibverbs' (window.c)
 *
 * Return: 0, and a connection that could be moved cannot any more; EOPNOTSUPP: it has moved, or is about to; ENOMEM: what was posted before
 * it waits; what the base says.
 */
int mesh_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/** mesh_held_in_batch, mesh_held_in_own_batch - is a thread, or the calling one, in a batch that our wr_start began? No lock; wrex.c */
bool mesh_held_in_batch(const struct mesh_held *h);
bool mesh_held_in_own_batch(const struct mesh_held *h);

#endif
