/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_POST_H
#define MESH_POST_H

#include "vqp_record.h"

/* Posting to virtual QPs, for the rooms above. */

/**
 * mesh_bind_mw - ibv_bind_mw() (window.c)
 *
 * Return: 0: bound, and the connection cannot move any more; EOPNOTSUPP: the connection has moved, or is about to; ENOMEM:
 * earlier work of the QP waits; else as the lower provider.
 */
int mesh_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/**
 * mesh_vqp_in_batch, mesh_vqp_in_own_batch - is any thread, or the calling one, in a batch that the plugin's wr_start
 * began? Locks: none; wrex.c
 */
bool mesh_vqp_in_batch(const struct mesh_vqp *h);
bool mesh_vqp_in_own_batch(const struct mesh_vqp *h);

#endif
